"""NodeUnschedulable: a cordoned Node takes only Pods that tolerate its taint `node.kubernetes.io/unschedulable`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tollbar.model import tolerations
from tollbar.model.objects import Object, spec
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
from tollbar.scheduler.framework.interface import Arguments, DependsOn, Mask
from tollbar.scheduler.framework.status import Status, unresolvable

UNSCHEDULABLE: Final = unresolvable("node(s) were unschedulable")
_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NodeUnschedulable:
    name = "NodeUnschedulable"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """There is nothing to configure."""

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return UNSCHEDULABLE if node.is_unschedulable and not _tolerates(pod) else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        table = nodes.table
        return np.ones(len(nodes), np.bool_) if _tolerates(pod) else ~table.unschedulable[table.order]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pod = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        return [ClusterEventWithHint(node, after_node_change), ClusterEventWithHint(pod, after_toleration_change)]


def after_node_change(_pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
    """A Node that can be scheduled to and could not before helps."""
    was_closed = old is None or bool(spec(old).get("unschedulable"))
    return queue_if(was_closed and not spec(new).get("unschedulable"))


def after_toleration_change(_pod: PodInfo, _old: PodInfo, new: PodInfo) -> QueueingHint:
    """The Pod was rejected for want of the toleration, so one that it has must be new."""
    return queue_if(_tolerates(new))


def _tolerates(pod: PodInfo) -> bool:
    return any(tolerations.tolerates(each, _TAINT) for each in pod.spec.get("tolerations") or ())
