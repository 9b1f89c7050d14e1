"""A Pod with what several parts of its explanation look at."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from tollbar.decide.pods.events import gate_of
from tollbar.explain.events import last, note_of
from tollbar.gates import Section
from tollbar.gates.evaluation import Evaluation
from tollbar.model import pods, timestamps
from tollbar.model.gates import released_gates
from tollbar.model.objects import Object, annotations_of, key_of, metadata, spec
from tollbar.model.resources import SCHEDULING_GATES
from tollbar.offline import Cluster
from tollbar.views.lease import PATIENCE


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
        """The last Event of this reason that is not about the gate of a gate class."""
        return last(each for each in self._events_of("") if each.get("reason") == reason)

    def said_by(self, gate: str) -> tuple[str, str]:
        """The reason and the text of the last Event about this gate of a gate class; empty without one."""
        found = last(self._events_of(gate))
        return ("", "") if found is None else (str(found.get("reason")), gate_of(note_of(found))[1])

    def _events_of(self, gate: str) -> Iterator[Object]:
        return (each for each in self.events if gate_of(note_of(each))[0] == gate)

    @cached_property
    def told(self) -> Mapping[str, tuple[Evaluation, Sequence[Section]]]:
        """By gate, the answer and the tables of each gate class that is installed and whose objects may be read."""
        found = ((name, self.cluster.told_of(name, self.pod)) for name in pods.gate_names(self.pod))
        return {name: told for name, told in found if told is not None}

    @property
    def is_led(self) -> bool | None:
        """Whether a controller renews the Lease; None if it may not be read."""
        return is_led(self.cluster)

    def releases(self, gate: str) -> bool | None:
        """Whether a controller renews the Lease that releases this gate of a gate class; None if that is not known."""
        released = released_gates(annotations_of(_lease(self.cluster)))
        return self.is_led and (released is None or gate in released)

    def overdue(self, gate: str) -> float | None:
        """The maxHold of this gate in seconds, if the Pod is that old; None for a gate without a limit.

        None also where SchedulingGates may not be read: then the limit is not known, whatever the gate class declares.
        """
        if not self.cluster.knows(SCHEDULING_GATES):
            return None
        most = self.cluster.gate_policy(gate).max_hold
        return most if most is not None and self.age >= most else None


def is_led(cluster: Cluster) -> bool | None:
    """Whether a controller has renewed the Lease within PATIENCE times its duration; None if it may not be read."""
    if not cluster.knows(cluster.lease.resource):
        return None
    lease = _lease(cluster)
    renewed, lasts = spec(lease).get("renewTime"), float(spec(lease).get("leaseDurationSeconds") or 15)
    if not (renewed and spec(lease).get("holderIdentity")):
        return False
    return cluster.now - timestamps.parse(str(renewed)) <= PATIENCE * lasts


def _lease(cluster: Cluster) -> Object:
    """{} when there is none."""
    return next(iter(cluster.store(cluster.lease).values()), {})
