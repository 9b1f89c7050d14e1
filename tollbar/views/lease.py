"""Whether the controllers are there to release Pods: whether one of them renews their Lease.  And what they say on it.

Admission asks before it gates a Pod.  A renewal counts from when it is seen, as in leader election, because the clocks
of machines differ; only of the Lease as it is first listed, its own renewTime tells how old it is.

Hazards.  Behind: while the watch is interrupted no renewal is seen, so that Pods are not gated although a controller
runs; it adds their tolerations late.
"""

import logging
from typing import Final

from tollbar import wellknown
from tollbar.model import timestamps
from tollbar.model.gates import released_gates
from tollbar.model.objects import annotations_of, spec
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Delta
from tollbar.views import kinds

_log: Final = logging.getLogger(__name__)

PATIENCE: Final = 2.0
"""After so many durations of the Lease (15 s each by default) without a renewal nobody is there.  One is over before
another replica takes an expired Lease."""


class ControllersLease:
    """Follows the Lease that the configuration names; without leader election it counts as renewed."""

    def __init__(self, manager: Manager) -> None:
        election, namespace = manager.configuration.leader_election, manager.configuration.system_namespace
        self._clock = manager.clock
        self._followed = election.enabled
        self._duration = election.lease_duration
        self._renew_time = ""
        self._renewed = float("-inf")
        """The monotonic time of the last renewal."""
        self._said = True
        self._gates: frozenset[str] | None = None
        """What the holder says that it releases; None when it does not say."""
        self._drops = False
        if election.enabled:
            manager.caches.store(kinds.lease(election.lease_name, namespace)).subscribe(self._on_delta)

    def is_renewed(self) -> bool:
        """Whether a controller has renewed it within `PATIENCE` times its duration."""
        if not self._followed:
            return True
        age = self._clock.monotonic() - self._renewed
        found = age <= PATIENCE * self._duration
        if found != self._said:
            self._said = found
            _log.warning("a controller renews the Lease again" if found else "no controller renews the Lease")
        return found

    def releases(self, gate: str) -> bool:
        """Whether a controller has renewed it that releases this gate of a class, as far as it says which it does."""
        return self.is_renewed() and (self._gates is None or gate in self._gates)

    def keeps_tolerations(self) -> bool:
        """Whether the API server keeps tolerations of devices in claims, by what a controller says while it renews."""
        return not (self._drops and self.is_renewed())

    def _on_delta(self, delta: Delta) -> None:
        notes = annotations_of(delta.new or {})
        self._drops = notes.get(wellknown.ANNOTATION_DEVICE_TOLERATIONS) == wellknown.DROPPED
        self._gates = released_gates(notes)
        wanted = spec(delta.new or {})
        renewed = str(wanted.get("renewTime") or "")
        if not wanted.get("holderIdentity") or not renewed or renewed == self._renew_time:
            return
        first, self._renew_time = not self._renew_time, renewed
        age = max(0.0, self._clock.now() - timestamps.parse(renewed)) if first else 0.0
        self._renewed = self._clock.monotonic() - age
        self._duration = float(wanted.get("leaseDurationSeconds") or self._duration)
