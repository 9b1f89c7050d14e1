"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a Node, as the CSINode says.

Volumes of in-tree plugins that a CSI driver has replaced do not count.

Source: pkg/scheduler/framework/plugins/nodevolumelimits.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tollbar.model.objects import Key, Object, key_of, spec
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
from tollbar.scheduler.framework.status import NOT_CONCERNED, Status, failed, unresolvable, unschedulable
from tollbar.scheduler.plugins.volumes import after_claim, claims, is_for, not_made_for, storage_class_of

TOO_MANY_VOLUMES: Final = unschedulable("node(s) exceed max volume count")

Attached: TypeAlias = tuple[str, str]
"""(driver, volume handle)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The volumes of the Pod that is to be scheduled, or why they are not known."""

    volumes: set[Attached] | Status


class NodeVolumeLimits:
    name = "NodeVolumeLimits"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._listers = handle.listers

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        if not claims(pod):
            return NOT_CONCERNED
        state.write(self.name, Wanted(self._volumes(pod, is_new=True)))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = state.get(self.name, Wanted).volumes
        if isinstance(wanted, Status):
            return wanted
        csi_node = self._listers.csi_nodes.get(Key("", node.name))
        per_driver = _per_driver(wanted)
        for driver in sorted(per_driver):
            if not self._is_installed(driver, csi_node):
                return unschedulable(f"{driver} CSI driver is not installed on the node")
        limits = _limits(csi_node)
        if not (wanted and limits):
            return None
        attachments = self._listers.volume_attachments.by_index("node", node.name)
        most = node.claims + len(attachments)
        if not node.ephemeral_volumes and all(
            most + count <= limits.get(driver, sys.maxsize) for driver, count in per_driver.items()
        ):
            return None  # whatever the claims of its Pods are
        attached: set[Attached] = set()
        for other in node.pods.values():
            volumes = self._volumes(other, is_new=False)
            if isinstance(volumes, Status):
                return volumes
            attached |= volumes
        added = _per_driver(wanted - attached)
        present = _per_driver(attached | self._attached(attachments))
        exceeded = (driver in limits and present[driver] + count > limits[driver] for driver, count in added.items())
        return TOO_MANY_VOLUMES if any(exceeded) else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        csi_node_added = ClusterEvent(EventResource.CSI_NODE, Action.ADD)
        csi_node = ClusterEvent(EventResource.CSI_NODE, Action.UPDATE)
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
        detached = ClusterEvent(EventResource.VOLUME_ATTACHMENT, Action.DELETE)
        return [
            ClusterEventWithHint(csi_node_added),
            ClusterEventWithHint(csi_node, after_csi_node_update),
            ClusterEventWithHint(deleted, after_pod_delete),
            ClusterEventWithHint(claim, after_claim),
            ClusterEventWithHint(detached, after_attachment_delete),
        ]

    def _volumes(self, pod: PodInfo, *, is_new: bool) -> set[Attached] | Status:
        """The CSI volumes of the Pod's claims.  Claims that are missing matter only for a Pod without a Node."""
        found = set()
        for ref in claims(pod):
            if not ref.key.name:
                return failed("PersistentVolumeClaim had no name")
            claim = self._listers.persistent_volume_claims.get(ref.key)
            if claim is None:
                if is_new:
                    return unresolvable(f'looking up PVC {ref.key}: persistentvolumeclaim "{ref.key.name}" not found')
                continue
            if ref.is_ephemeral and not is_for(claim, pod):
                return failed(not_made_for(claim, pod))
            driver, handle = self._driver(claim)
            if driver and handle:
                found.add((driver, handle))
        return found

    def _driver(self, claim: Object) -> Attached:
        """Of a claim without a PersistentVolume, the driver of its StorageClass and a handle that only it has."""
        name = spec(claim).get("volumeName")
        volume = self._listers.persistent_volumes.get(Key("", name)) if name else None
        if volume is not None:
            csi = spec(volume).get("csi") or {}
            return csi.get("driver") or "", csi.get("volumeHandle") or ""
        class_name = storage_class_of(claim)
        storage_class = self._listers.storage_classes.get(Key("", class_name)) if class_name else None
        return ((storage_class or {}).get("provisioner") or "", f"claim {key_of(claim)}")

    def _attached(self, attachments: Iterable[Object]) -> set[Attached]:
        found = set()
        for each in attachments:
            body = spec(each)
            driver, name = body.get("attacher"), (body.get("source") or {}).get("persistentVolumeName")
            volume = self._listers.persistent_volumes.get(Key("", name)) if name else None
            csi = spec(volume).get("csi") if volume is not None else None
            if driver and csi is not None:
                found.add((driver, csi.get("volumeHandle") or ""))
        return found

    def _is_installed(self, driver: str, csi_node: Object | None) -> bool:
        """Whether the Node has the driver, if the CSIDriver asks for that (`preventPodSchedulingIfMissing`)."""
        csi_driver = self._listers.csi_drivers.get(Key("", driver))
        if csi_driver is None or not spec(csi_driver).get("preventPodSchedulingIfMissing"):
            return True
        return any(each["name"] == driver for each in _drivers(csi_node))


def after_csi_node_update(_pod: PodInfo, old: Object, new: Object) -> QueueingHint:
    """A driver may attach more volumes than before."""
    before, after = _limits(old), _limits(new)
    return queue_if(any(limit > before.get(driver, 0) for driver, limit in after.items()))


def after_pod_delete(_pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    """A Pod that had a Node, or was promised one, and used a claim is gone."""
    return queue_if(old.has_place and claims(old))


def after_attachment_delete(pod: PodInfo, _old: Object, _new: None) -> QueueingHint:
    """A volume was detached, and the Pod needs one."""
    return queue_if(pod.shape.claims)


def _drivers(csi_node: Object | None) -> Sequence[Object]:
    return spec(csi_node).get("drivers") or () if csi_node is not None else ()


def _limits(csi_node: Object | None) -> dict[str, int]:
    """How many volumes each driver attaches; one without a limit is absent."""
    counts = {each["name"]: (each.get("allocatable") or {}).get("count") for each in _drivers(csi_node)}
    return {driver: count for driver, count in counts.items() if count is not None}


def _per_driver(volumes: Iterable[Attached]) -> Counter[str]:
    return Counter(driver for driver, _ in volumes)
