"""The state of each claim's reservation as last decided, for the status of WorkloadClaims and for metrics.

Lost on restart and rebuilt as the claims are reconciled again.
"""

from functools import partial
from typing import Final

from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.reservations import State
from tollbar.model.objects import Key
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.source import Channel

_OF_WORKLOAD_CLAIMS: Final = frozenset(
    {
        ReservedReason.CLAIM_MISSING,
        ReservedReason.TEMPLATE_MISSING,
        ReservedReason.CLAIM_TAKEN,
        ReservedReason.INVALID_SPEC,
    }
)
"""Reasons of a WorkloadClaim whose claim has no reservation."""


class ReservationStates:
    """States by claim; `changes` sends the key of every claim whose state changed."""

    def __init__(self, metrics: Metrics) -> None:
        self.changes: Channel[Key] = Channel("reservations")
        self._states: dict[Key, State] = {}
        gauge = metrics.gauge("tollbar_reservations")
        for reason in ReservedReason:
            if reason not in _OF_WORKLOAD_CLAIMS:
                gauge.labels(reason).set_function(partial(self.count, reason))

    def get(self, claim: Key) -> State | None:
        return self._states.get(claim)

    def count(self, reason: str) -> int:
        return sum(1 for state in self._states.values() if state.reason == reason)

    def record(self, claim: Key, state: State | None) -> None:
        """Record the state, or None for a claim that is gone or not reserved for a workload."""
        if self._states.get(claim) == state:
            return
        if state is None:
            del self._states[claim]
        else:
            self._states[claim] = state
        self.changes.send(claim)
