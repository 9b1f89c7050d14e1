"""A Pod with what several parts of its explanation look at."""

from collections.abc import Sequence
from typing import Final

from tollbar.model import timestamps
from tollbar.model.objects import Object, key_of, metadata, spec
from tollbar.model.resources import SCHEDULING_GATES
from tollbar.offline import Cluster

_PATIENCE: Final = 2.0
"""After so many durations of the Lease without a renewal no controller is there, as for admission."""


class Case:
    """`events` are those about the Pod (events.k8s.io/v1); `age` is in seconds."""

    def __init__(self, cluster: Cluster, pod: Object, events: Sequence[Object]) -> None:
        self.cluster = cluster
        self.pod = pod
        self.events = events
        self.key = key_of(pod)
        self.created = str(metadata(pod).get("creationTimestamp") or "")
        self.age = max(0.0, cluster.now - timestamps.parse(self.created)) if self.created else 0.0

    def event(self, reason: str) -> Object | None:
        """The last Event of this reason."""
        found = [each for each in self.events if each.get("reason") == reason]
        return max(found, key=lambda each: str(metadata(each).get("creationTimestamp")), default=None)

    def said_by(self, gate: str) -> str:
        """The last that Events tell of what this gate of a class waits for; empty when there is none."""
        prefix = f"{gate}: "
        found = [each for each in self.events if str(each.get("note") or "").startswith(prefix)]
        last = max(found, key=lambda each: str(metadata(each).get("creationTimestamp")), default=None)
        return "" if last is None else str(last["note"]).removeprefix(prefix)

    @property
    def controllers(self) -> bool | None:
        """Whether a controller renews the Lease; None if it may not be read."""
        if not self.cluster.knows(self.cluster.lease.resource):
            return None
        leases = self.cluster.store(self.cluster.lease).values()
        for lease in leases:
            renewed, lasts = spec(lease).get("renewTime"), float(spec(lease).get("leaseDurationSeconds") or 15)
            if renewed and spec(lease).get("holderIdentity"):
                return self.cluster.now - timestamps.parse(str(renewed)) <= _PATIENCE * lasts
        return False

    def declared(self, gate: str) -> Object | None:
        """The SchedulingGate that declares the gate of this name."""
        return next(
            (each for each in self.cluster.objects(SCHEDULING_GATES) if spec(each).get("gateName") == gate), None
        )
