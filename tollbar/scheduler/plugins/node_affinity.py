"""NodeAffinity: `spec.nodeSelector` and node affinity of the Pod, and the affinity that the profile adds to it."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tollbar.model import nodeaffinity
from tollbar.model.objects import Object
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
from tollbar.scheduler.framework.interface import Arguments, DependsOn, Mask, Places, PreFilterResult, Scores
from tollbar.scheduler.framework.status import NOT_CONCERNED, Status, unresolvable
from tollbar.scheduler.plugins import node_masks
from tollbar.scheduler.plugins.normalize import normalize

POD_MISMATCH: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED_MISMATCH: Final = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT: Final = unresolvable("pod affinity terms conflict")


class NodeAffinity:
    """`addedAffinity`, a v1.NodeAffinity, holds of all Pods of the profile besides their own."""

    name = "NodeAffinity"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        added: Any = args.get("addedAffinity") or {}
        self._added_required: Object | None = added.get("requiredDuringSchedulingIgnoredDuringExecution")
        self._added_preferred: Sequence[Object] = added.get("preferredDuringSchedulingIgnoredDuringExecution") or ()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> PreFilterResult | Status | None:
        """Skip without anything to match; the named Nodes alone where every term names some."""
        required = _affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
        if required is None:
            is_free = self._added_required is None and pod.spec.get("nodeSelector") is None
            return NOT_CONCERNED if is_free else None
        terms = [_node_names(term) for term in required.get("nodeSelectorTerms") or ()]
        named = [names for names in terms if names is not None]
        if not terms or len(named) < len(terms):
            return None
        names = frozenset[str]().union(*named)
        return PreFilterResult(names) if names else CONFLICT

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        obj = node.node or {}
        if self._added_required is not None and not nodeaffinity.selects(self._added_required, obj):
            return ENFORCED_MISMATCH
        return None if _allows(pod, obj) else POD_MISMATCH

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        table = nodes.table
        fits = node_masks.allowed(pod, table)
        if self._added_required is not None:
            fits &= node_masks.selected(self._added_required, table)
        return fits[table.order]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        return NOT_CONCERNED if not self._added_preferred and _preferred(pod) is None else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The weights of all preferred terms that select the Node."""
        return sum(weight for weight, term in self._terms(pod) if nodeaffinity.term_selects(term, node.node or {}))

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        scores: Scores = np.zeros(nodes.table.capacity, np.int64)
        for weight, term in self._terms(pod):
            scores += weight * node_masks.term_selected(term, nodes.table)
        return scores[nodes.table.order[places]]

    def normalize_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Scores
    ) -> Status | None:
        normalize(scores)
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        event = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(event, self.after_node_change)]

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
        """A Node that matches helps, unless it has matched the Pod before."""
        if self._added_required is not None and not nodeaffinity.selects(self._added_required, new):
            return QueueingHint.SKIP
        return queue_if(_allows(pod, new) and (old is None or not _allows(pod, old)))

    def _terms(self, pod: PodInfo) -> list[tuple[int, Object]]:
        """Preferred terms with their weights, the profile's and the Pod's."""
        preferred = [*self._added_preferred, *(_preferred(pod) or ())]
        return [(each.get("weight") or 0, each.get("preference") or {}) for each in preferred]


def _allows(pod: PodInfo, node: Object) -> bool:
    return nodeaffinity.allows({"spec": pod.spec}, node)


def _affinity(pod: PodInfo) -> Object:
    return (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}


def _preferred(pod: PodInfo) -> Sequence[Object] | None:
    return _affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution")


def _node_names(term: Object) -> frozenset[str] | None:
    """The names to which the term's `matchFields` limit it; None if they do not."""
    named = [
        frozenset(each.get("values") or ())
        for each in term.get("matchFields") or ()
        if each.get("key") == "metadata.name" and each.get("operator") == "In"
    ]
    return frozenset.intersection(*named) if named else None
