"""TaintToleration: taints keep away Pods that do not tolerate them, PreferNoSchedule only in the score."""

from collections.abc import Iterable, Sequence
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
from tollbar.scheduler.framework.interface import Arguments, DependsOn, Mask, Places, Scores
from tollbar.scheduler.framework.status import Status, unresolvable
from tollbar.scheduler.plugins import node_masks
from tollbar.scheduler.plugins.normalize import normalize

UNTOLERATED: Final = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration:
    name = "TaintToleration"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """There is nothing to configure."""

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return UNTOLERATED if tolerations.untolerated(node.taints, _tolerations(pod)) is not None else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        return node_masks.tolerated(pod, nodes.table)[nodes.table.order]

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The number of taints that would rather keep the Pod away."""
        return _unwelcome(node.taints, pod)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        column = nodes.table.taints
        counts = [_unwelcome(each.taints, pod) if each is not None else 0 for each in column.values]
        return np.array(counts, np.int64)[column.ids[nodes.table.order[places]]]

    def normalize_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Scores
    ) -> Status | None:
        normalize(scores, reverse=True)
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pod = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        return [ClusterEventWithHint(node, after_node_change), ClusterEventWithHint(pod)]


def after_node_change(pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
    """A Node whose taints the Pod tolerates, and did not before, helps."""
    kept_away = old is None or _keeps_away(old, pod)
    return queue_if(kept_away and not _keeps_away(new, pod))


def _unwelcome(taints: Iterable[Object], pod: PodInfo) -> int:
    """How many of the taints say PreferNoSchedule and are not tolerated."""
    return sum(
        taint.get("effect") == "PreferNoSchedule"
        and not any(tolerations.tolerates(each, taint) for each in _tolerations(pod))
        for taint in taints
    )


def _keeps_away(node: Object, pod: PodInfo) -> bool:
    return tolerations.untolerated(spec(node).get("taints") or (), _tolerations(pod)) is not None


def _tolerations(pod: PodInfo) -> Sequence[Object]:
    return pod.spec.get("tolerations") or ()
