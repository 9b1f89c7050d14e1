"""A kit for controllers of scheduling gates (KEP-3521).

A gate is a class (`Gate`) that answers `Hold`, `Release` or `NotMine` for a Pod.  This package does the rest: the
webhook that adds the gate or decides at once, the loop that releases in one patch, Events, metrics, the SchedulingGate.
docs/contributing/write-a-gate-controller.md shows step by step how to write one.
"""

from tollbar.decide.gates.answers import Answer, Hold, Mutation, NotMine, Release
from tollbar.gates.explanation import ClusterCopy, GateExplanation, Section
from tollbar.gates.gate import Facts, Gate, Ledger, Reads
from tollbar.model.plan import Code

__all__ = [
    "Answer",
    "ClusterCopy",
    "Code",
    "Facts",
    "Gate",
    "GateExplanation",
    "Hold",
    "Ledger",
    "Mutation",
    "NotMine",
    "Reads",
    "Release",
    "Section",
]
