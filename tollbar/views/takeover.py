"""Whether this process generates ResourceClaims in kube-controller-manager's place (`claims: Replace`).

A state machine that starts with probing.  When another generator is found, this process stops generating until that one
is gone; any other problem keeps it from starting, but does not stop it once it works.

    Probing ──nothing found──> Working <──nothing found── Refused, Yielding
    Probing, Refused ──problem──> Refused
    any ──another generator──> Yielding
"""

from enum import Enum
from typing import Final, NamedTuple

from tollbar.api.reasons import ModeReason
from tollbar.runtime.source import Channel


class Phase(Enum):
    """How far this process has come in taking over the generation of claims."""

    PROBING = "no probe has finished yet"
    WORKING = "this process generates claims, and nobody else does"
    REFUSED = "a permission is missing, or the probe for other generators failed"
    YIELDING = "another generator was found, and no probe has shown since that it is gone"


class Problem(NamedTuple):
    """Why this process must not generate claims: the reason of a condition, and a sentence for a person."""

    reason: ModeReason
    message: str


_MOVES: Final = {Phase.PROBING: Phase.REFUSED, Phase.REFUSED: Phase.REFUSED}
"""The next phase for a problem other than another generator; phases that are not listed stay as they are."""


class Takeover:
    """`changes` sends the new phase whenever `phase` changes."""

    def __init__(self) -> None:
        self.phase = Phase.PROBING
        self.problem: Problem | None = None
        """Why this process does not generate claims although it leads; None while it does, or has not probed yet."""
        self.changes: Channel[Phase] = Channel("takeover")

    @property
    def works(self) -> bool:
        return self.phase is Phase.WORKING

    @property
    def yields(self) -> bool:
        return self.phase is Phase.YIELDING

    def found(self, problem: Problem | None) -> None:
        """Record the result of a probe: None when this process may generate claims."""
        if problem is None:
            phase = Phase.WORKING
        elif problem.reason == ModeReason.ANOTHER_GENERATOR:
            phase = Phase.YIELDING
        else:
            phase = _MOVES.get(self.phase, self.phase)
        self.problem = None if phase is Phase.WORKING else problem
        if phase is not self.phase:
            self.phase = phase
            self.changes.send(phase)

    def reset(self) -> None:
        """This process leads no more: what it has found says nothing about the time when it leads again."""
        self.phase, self.problem = Phase.PROBING, None

    def readiness(self) -> str | None:
        """A readiness check."""
        return self.problem.message if self.problem is not None else None
