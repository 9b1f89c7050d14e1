"""VolumeZone: PersistentVolumes with labels of a zone or region can only be used on Nodes of that zone or region.

Source: pkg/scheduler/framework/plugins/volumezone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.model.objects import Key, Object, labels_of, spec
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    queue_if,
)
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments
from tollbar.scheduler.framework.status import NOT_CONCERNED, SKIP, Status, unresolvable
from tollbar.scheduler.plugins.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    after_named_claim,
    no_claim,
    no_storage_class,
    no_volume,
    storage_class_of,
)

CONFLICT: Final = unresolvable("node(s) had no available volume zone")
_GA_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""The labels that count, each with the one that stands for it on newer Nodes."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A Node has to have one of these values of the label."""

    label: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Topologies:
    """Those of all PersistentVolumes of the Pod."""

    required: tuple[Topology, ...]


class VolumeZone:
    name = "VolumeZone"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._listers = handle.listers

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        if not pod.shape.claims:
            return NOT_CONCERNED
        found: list[Topology] = []
        for key in pod.shape.claims:
            topologies = self._topologies(key)
            if isinstance(topologies, Status):
                return topologies
            found += topologies
        if not found:
            return SKIP
        state.write(self.name, Topologies(tuple(found)))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """A Node without any such label is in a cluster of one zone, and takes every Pod."""
        if node.labels.keys().isdisjoint(_GA_LABELS):
            return None
        return None if all(_suits(node, each) for each in state.get(self.name, Topologies).required) else CONFLICT

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        storage_class = ClusterEvent(EventResource.STORAGE_CLASS, Action.ADD)
        node = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE)
        volume = ClusterEvent(EventResource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE)
        return [
            ClusterEventWithHint(storage_class, after_storage_class_add),
            ClusterEventWithHint(node),
            ClusterEventWithHint(claim, after_named_claim),
            ClusterEventWithHint(volume, after_volume_change),
        ]

    def _topologies(self, key: Key) -> list[Topology] | Status:
        """Those of the claim's PersistentVolume; none while it waits for its first consumer."""
        if not key.name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = self._listers.persistent_volume_claims.get(key)
        if claim is None:
            return no_claim(key.name)
        name = spec(claim).get("volumeName") or ""
        if not name:
            return self._unbound(claim)
        volume = self._listers.persistent_volumes.get(Key("", name))
        return no_volume(name) if volume is None else topologies_of(volume)

    def _unbound(self, claim: Object) -> list[Topology] | Status:
        name = storage_class_of(claim)
        if not name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self._listers.storage_classes.get(Key("", name))
        if storage_class is None:
            return no_storage_class(name)
        match storage_class.get("volumeBindingMode"):
            case None:
                return unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
            case mode if mode == WAIT_FOR_FIRST_CONSUMER:
                return []
        return unresolvable("PersistentVolume had no name")


def topologies_of(volume: Object) -> list[Topology]:
    """What the labels of a PersistentVolume require; several values are joined by `__`, and empty ones ignored."""
    found = []
    for label in _GA_LABELS:
        values = [value.strip() for value in labels_of(volume).get(label, "").split("__")]
        if all(values):
            found.append(Topology(label, frozenset(values)))
    return found


def after_storage_class_add(_pod: PodInfo, _old: None, new: Object) -> QueueingHint:
    """Only claims of a class with WaitForFirstConsumer may be unbound."""
    return queue_if(new.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER)


def after_volume_change(_pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
    """A PersistentVolume was created, or its labels changed."""
    same = old is not None and topologies_of(old) == topologies_of(new)
    return queue_if(not same)


def _suits(node: NodeInfo, topology: Topology) -> bool:
    value = node.labels.get(topology.label, node.labels.get(_GA_LABELS[topology.label]))
    return value in topology.values
