"""VolumeRestrictions: disks that only one Pod on a Node can use, and claims that only one Pod at all can use.

Source: pkg/scheduler/framework/plugins/volumerestrictions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.model.objects import Key, Object, spec
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
from tollbar.scheduler.framework.status import NOT_CONCERNED, SKIP, Status, unschedulable
from tollbar.scheduler.plugins.volumes import after_named_claim, no_claim

DISK_CONFLICT: Final = unschedulable("node(s) had no available disk")
CLAIM_IN_USE: Final = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_DISKS: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


@dataclass(slots=True)
class Conflicts:
    """The Pod's claims with access mode ReadWriteOncePod, and how many uses other Pods have of them."""

    claims: frozenset[Key]
    uses: int

    def clone(self) -> "Conflicts":
        return Conflicts(self.claims, self.uses)


class VolumeRestrictions:
    name = "VolumeRestrictions"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._listers = handle.listers

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        disks = _disks(pod)
        if not pod.shape.claims and not disks:
            return NOT_CONCERNED
        exclusive = set()
        for key in pod.shape.claims:
            claim = self._listers.persistent_volume_claims.get(key)
            if claim is None:
                return no_claim(key.name)
            if "ReadWriteOncePod" in (spec(claim).get("accessModes") or ()):
                exclusive.add(key)
        conflicts = Conflicts(frozenset(exclusive), sum(key in nodes.claims for key in exclusive))
        if conflicts.uses == 0 and not disks:
            return SKIP
        state.write(self.name, conflicts)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        self._count(state, added, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        self._count(state, removed, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if any(_collide(pod, other) for other in node.pods.values()):
            return DISK_CONFLICT
        return CLAIM_IN_USE if state.get(self.name, Conflicts).uses > 0 else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
        node = ClusterEvent(EventResource.NODE, Action.ADD)
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
        return [
            ClusterEventWithHint(deleted, after_pod_delete),
            ClusterEventWithHint(node),
            ClusterEventWithHint(claim, after_named_claim),
        ]

    def _count(self, state: CycleState, other: PodInfo, sign: int) -> None:
        conflicts = state.get(self.name, Conflicts)
        conflicts.uses += sign * sum(key in conflicts.claims for key in other.shape.claims)


def after_pod_delete(pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    """A Pod that shared a disk or a claim with this one is gone."""
    if pod.key.namespace != old.key.namespace:
        return QueueingHint.SKIP
    return queue_if(_collide(pod, old) or not set(pod.shape.claims).isdisjoint(old.shape.claims))


def _disks(pod: PodInfo) -> list[Object]:
    return [volume for volume in pod.spec.get("volumes") or () if any(kind in volume for kind in _DISKS)]


def _collide(pod: PodInfo, other: PodInfo) -> bool:
    """Whether both use one disk, and not both only read it."""
    return any(_is_same_disk(one, another) for one in _disks(pod) for another in _disks(other))


def _is_same_disk(one: Object, other: Object) -> bool:
    for kind in _DISKS:
        if kind in one and kind in other:
            disk, another = one[kind], other[kind]
            both_read = bool(disk.get("readOnly") and another.get("readOnly"))
            match kind:
                case "awsElasticBlockStore":
                    return bool(disk.get("volumeID") == another.get("volumeID"))
                case "gcePersistentDisk":
                    return disk.get("pdName") == another.get("pdName") and not both_read
                case "iscsi":
                    return disk.get("iqn") == another.get("iqn") and not both_read
                case "rbd":
                    return _is_same_image(disk, another) and not both_read
    return False


def _is_same_image(one: Object, other: Object) -> bool:
    return (
        not set(one.get("monitors") or ()).isdisjoint(other.get("monitors") or ())
        and (one.get("pool") or "rbd") == (other.get("pool") or "rbd")
        and one.get("image") == other.get("image")
    )
