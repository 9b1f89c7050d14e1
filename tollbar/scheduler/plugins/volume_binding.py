"""VolumeBinding: PersistentVolumes that are bound to the Pod's claims have to be usable on the Node.

It binds and provisions nothing: a Pod is refused while one of its claims waits for its first consumer.

Source: pkg/scheduler/framework/plugins/volumebinding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.model import nodeaffinity
from tollbar.model.objects import Key, Object, annotations_of, key_of, metadata, spec
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
from tollbar.scheduler.framework.status import NOT_CONCERNED, Status, failed, unresolvable
from tollbar.scheduler.plugins.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimRef,
    after_claim,
    claims,
    is_for,
    no_claim,
    not_made_for,
    storage_class_of,
)

UNBOUND_IMMEDIATE: Final = unresolvable("pod has unbound immediate PersistentVolumeClaims")
NODE_CONFLICT: Final = unresolvable("node(s) didn't match PersistentVolume's node affinity")
NO_VOLUME: Final = unresolvable("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
_BOUND: Final = "pv.kubernetes.io/bind-completed"


@dataclass(frozen=True, slots=True)
class Bound:
    """The names of the PersistentVolumes of the Pod."""

    volumes: tuple[str, ...]


class VolumeBinding:
    name = "VolumeBinding"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._listers = handle.listers

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        """Skip without claims.  All claims have to exist, and to be bound."""
        wanted = claims(pod)
        if not wanted:
            return NOT_CONCERNED
        found: list[Object] = []
        for ref in wanted:
            claim = self._claim(pod, ref)
            if isinstance(claim, Status):
                return claim
            found.append(claim)
        if (refused := self._unbound(found)) is not None:
            return refused
        state.write(self.name, Bound(tuple(spec(claim)["volumeName"] for claim in found)))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        for name in state.get(self.name, Bound).volumes:
            volume = self._listers.persistent_volumes.get(Key("", name))
            if volume is None:
                return NO_VOLUME
            if not _suits(volume, node):
                return NODE_CONFLICT
        return None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Skip: storage capacity makes a difference only to volumes that are still to be bound or provisioned."""
        return NOT_CONCERNED

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Not called; kube-scheduler's plugin can be configured at this point."""
        return 0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        change = Action.ADD | Action.UPDATE
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, change), after_storage_class_change),
            ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, change), after_claim),
            ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, change)),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        ]

    def _claim(self, pod: PodInfo, ref: ClaimRef) -> Object | Status:
        """The claim, or why the Pod cannot use it."""
        name = ref.key.name
        claim = self._listers.persistent_volume_claims.get(ref.key)
        if claim is None and ref.is_ephemeral:
            return unresolvable(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
        if claim is None:
            return no_claim(name)
        if (claim.get("status") or {}).get("phase") == "Lost":
            volume = spec(claim).get("volumeName") or ""
            return unresolvable(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
        if "deletionTimestamp" in metadata(claim):
            return unresolvable(f'persistentvolumeclaim "{name}" is being deleted')
        if ref.is_ephemeral and not is_for(claim, pod):
            return unresolvable(not_made_for(claim, pod))
        return claim

    def _unbound(self, found: Sequence[Object]) -> Status | None:
        """Why the Pod has to wait for claims that are not bound."""
        waiting, is_immediate = [], False
        for claim in found:
            if _is_bound(claim):
                continue
            waits = self._waits(claim)
            if isinstance(waits, Status):
                return waits
            if waits:
                waiting.append(key_of(claim).name)
            else:
                is_immediate = True
        if is_immediate:
            return UNBOUND_IMMEDIATE
        return _not_supported(waiting) if waiting else None

    def _waits(self, claim: Object) -> bool | Status:
        """Whether an unbound claim waits for its first consumer; one that names its volume is bound by others."""
        name = storage_class_of(claim)
        storage_class = self._listers.storage_classes.get(Key("", name)) if name else None
        if storage_class is None:
            return False
        mode = storage_class.get("volumeBindingMode")
        if mode is None:
            return failed(f'VolumeBindingMode not set for StorageClass "{name}"')
        return bool(mode == WAIT_FOR_FIRST_CONSUMER and not spec(claim).get("volumeName"))


def after_storage_class_change(_pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
    """A class was created, or allows other topologies."""
    same = old is not None and (old.get("allowedTopologies") or []) == (new.get("allowedTopologies") or [])
    return queue_if(not same)


def _not_supported(names: Sequence[str]) -> Status:
    return unresolvable(
        f"pod has PersistentVolumeClaims that wait for their first consumer, which this scheduler does not bind: "
        f"[{' '.join(names)}]"
    )


def _is_bound(claim: Object) -> bool:
    return bool(spec(claim).get("volumeName")) and _BOUND in annotations_of(claim)


def _suits(volume: Object, node: NodeInfo) -> bool:
    """Whether the volume's node affinity selects the Node by its labels; fields of Nodes do not count.

    Source: CheckNodeAffinity in k8s.io/component-helpers/storage/volume.
    """
    required = (spec(volume).get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    labels = {"metadata": {"labels": node.labels}}
    return any(
        nodeaffinity.term_selects({"matchExpressions": term["matchExpressions"]}, labels)
        if term.get("matchExpressions")
        else bool(term.get("matchFields"))
        for term in required.get("nodeSelectorTerms") or ()
    )
