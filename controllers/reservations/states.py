"""How each reservation stands, as last decided: read for the status of WorkloadClaims and for the metrics.

Lost on restart and rebuilt by the first pass over the claims.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.reservations import State
from tollbar.model.objects import Key
from tollbar.runtime.metrics import Metrics

_REASONS: Final = (
    ReservedReason.HELD,
    ReservedReason.NOT_ALLOCATED,
    ReservedReason.WORKLOAD_MISSING,
    ReservedReason.KIND_UNKNOWN,
    ReservedReason.FULL,
    ReservedReason.RELEASED,
    ReservedReason.DELETING,
    ReservedReason.UPSTREAM_OSCILLATION,
    ReservedReason.UPSTREAM_TOO_OLD,
    ReservedReason.INVALID_REFERENCE,
    ReservedReason.PERMISSION_DENIED,
)


class States:
    def __init__(self, metrics: Metrics) -> None:
        self._states: dict[Key, State] = {}
        self._handlers: list[Callable[[Key], None]] = []
        gauge = metrics.gauge("tollbar_reservations")
        for reason in _REASONS:
            gauge.labels(reason).set_function(partial(self.count, reason))

    def get(self, claim: Key) -> State | None:
        return self._states.get(claim)

    def count(self, reason: str) -> int:
        return sum(1 for state in self._states.values() if state.reason == reason)

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """`handler` is called with the key of a claim when what is known of it changes."""
        self._handlers.append(handler)

    def record(self, claim: Key, state: State | None) -> None:
        """None for a claim that is gone or that nobody wants to keep."""
        if self._states.get(claim) == state:
            return
        if state is None:
            del self._states[claim]
        else:
            self._states[claim] = state
        for handler in self._handlers:
            handler(claim)
