"""The kit for gate controllers: what a scheduling gate of one's own is written with (KEP-3521).

A gate is a class (`Gate`) that says of a Pod `Hold`, `Release` or `NotMine`.  The rest comes from here: the webhook
that adds the gate or decides at once, the loop that releases in one patch, Events, metrics, the SchedulingGate.
docs/contributing/write-a-gate-controller.md goes from a copy of the example to a gate that works.
"""

from tollbar.decide.gates.answers import Answer, Hold, Mutation, NotMine, Release
from tollbar.gates.gate import Facts, Gate, Ledger, Reads
from tollbar.gates.telling import Copy, Section, Told
from tollbar.model.plan import Code

__all__ = [
    "Answer",
    "Code",
    "Copy",
    "Facts",
    "Gate",
    "Hold",
    "Ledger",
    "Mutation",
    "NotMine",
    "Reads",
    "Release",
    "Section",
    "Told",
]
