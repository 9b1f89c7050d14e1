"""NodeResourcesFit: a Node has what the Pod requests, and scores by how much of it is then taken.

Source: pkg/scheduler/framework/plugins/noderesources.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tollbar.model import podresources
from tollbar.model.objects import Object, key_of, spec
from tollbar.scheduler.cache.nodeinfo import NodeInfo, name_of
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.resources import MISSING, Resources, from_quantities
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
from tollbar.scheduler.framework.status import Code, Status
from tollbar.scheduler.plugins.resource_shares import CORE, ResourceShares
from tollbar.scheduler.plugins.resource_strategies import strategy
from tollbar.wellknown import IMPLICIT_EXTENDED_RESOURCE_PREFIX

TOO_MANY_PODS: Final = "Too many pods"
_INSUFFICIENT: Final = "Insufficient "


class Shortage(NamedTuple):
    reason: str
    is_unresolvable: bool = False
    """Whether the whole Node has less than the Pod requests."""


class NodeResourcesFit:
    """Arguments are those of NodeResourcesFitArgs: `ignoredResources`, `ignoredResourceGroups`, `scoringStrategy`."""

    name = "NodeResourcesFit"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        given: Any = args
        self._ignored: frozenset[str] = frozenset(given.get("ignoredResources") or ())
        self._ignored_groups: frozenset[str] = frozenset(given.get("ignoredResourceGroups") or ())
        self._shares = ResourceShares(given["scoringStrategy"]["resources"], handle.dra, non_zero=True)
        self._strategy = strategy(given["scoringStrategy"])

    def depends_on(self, pod: PodInfo) -> DependsOn | None:
        return self._shares.depends_on(pod)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """All that is short; UnschedulableAndUnresolvable if of any the whole Node has too little."""
        short = list(self._shortages(_amounts(pod), node, self._is_ignored))
        if not short:
            return None
        hopeless = any(each.is_unresolvable for each in short)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
        return Status(code, tuple(each.reason for each in short))

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        table = nodes.table
        fits: Mask = table.allocatable("pods") - table.requested("pods") >= 1
        for name, amount in _amounts(pod):
            if self._is_ignored(name):
                continue
            allocatable = table.allocatable(name)
            enough = amount <= allocatable - table.requested(name)
            if self._shares.devices.class_of(name) is not None:
                enough |= allocatable <= 0
            fits &= enough
        return fits[table.order]

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self._strategy.score(self._shares.of_node(_counted(pod), node))

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        shares = self._shares.of_rows(_counted(pod), nodes.table, nodes.table.order[places])
        return self._strategy.scores(shares, len(places))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
        node = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        device_class = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
        scaled_down = ClusterEvent(EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
        itself = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)
        return [
            ClusterEventWithHint(deleted, after_pod_delete),
            ClusterEventWithHint(node, self.after_node_change),
            ClusterEventWithHint(device_class, after_device_class_change),
            ClusterEventWithHint(scaled_down, after_scale_down),
            ClusterEventWithHint(itself),
        ]

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
        """An empty Node on which the Pod would fit helps if it has more of what the Pod requests than before."""
        node, amounts = _empty(new), _amounts(pod)
        if any(self._shortages(amounts, node, lambda _: False)):
            return QueueingHint.SKIP
        return queue_if(old is None or self._has_more(amounts, _empty(old), node))

    def _has_more(self, amounts: Sequence[tuple[str, int]], old: NodeInfo, new: NodeInfo) -> bool:
        return new.allocatable.pods > old.allocatable.pods or any(
            new.allocatable.get(name) > old.allocatable.get(name) or self._is_delegated(name, new)
            for name, _ in amounts
        )

    def _shortages(
        self, amounts: Sequence[tuple[str, int]], node: NodeInfo, is_ignored: Callable[[str], bool]
    ) -> Iterator[Shortage]:
        if len(node.pods) + 1 > node.allocatable.pods:
            yield Shortage(TOO_MANY_PODS)
        for name, amount in amounts:
            allocatable = node.allocatable.get(name)
            if amount <= allocatable - node.requested.get(name) or is_ignored(name) or self._is_delegated(name, node):
                continue
            yield Shortage(f"{_INSUFFICIENT}{name}", amount > allocatable)

    def _is_ignored(self, name: str) -> bool:
        """Whether the arguments leave this extended resource to others (scheduler extenders)."""
        return _is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def _is_delegated(self, name: str, node: NodeInfo) -> bool:
        """Whether DynamicResources decides: a DeviceClass backs the resource, and the Node has none (KEP-5004)."""
        return node.allocatable.get(name) <= 0 and self._shares.devices.class_of(name) is not None


def short_resource(reason: str) -> str:
    """The resource of which a Node has too little by this reason of Filter; empty for TOO_MANY_PODS."""
    return reason.removeprefix(_INSUFFICIENT) if reason.startswith(_INSUFFICIENT) else ""


def after_pod_delete(_pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    """A Pod that had a Node, or was promised one, leaves room."""
    return queue_if(old.has_place)


def after_scale_down(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
    """Another Pod that takes less of what this one requests leaves room, if it has a Node."""
    frees = any(old.requests.resources.get(name) > new.requests.resources.get(name) for name, _ in _amounts(pod))
    return queue_if(new.node_name and frees)


def after_device_class_change(pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
    """A class that comes to stand for an extended resource helps if the Pod requests it."""
    extended = spec(new).get("extendedResourceName")
    if old is not None and (spec(old).get("extendedResourceName") or "") == (extended or ""):
        return QueueingHint.SKIP
    backed = {extended, f"{IMPLICIT_EXTENDED_RESOURCE_PREFIX}{key_of(new).name}"} if old is None else {extended}
    return queue_if(backed & pod.shape.requests.resources.scalars.keys())


def _amounts(pod: PodInfo) -> Sequence[tuple[str, int]]:
    """What Filter compares: all that the Pod requests more than nothing of, by name."""
    memo = pod.shape.template.memo
    found: Sequence[tuple[str, int]] | None = memo.get("NodeResourcesFit/amounts")
    if found is None:
        resources = pod.shape.requests.resources
        named = [(name, resources.get(name)) for name in (*CORE, *sorted(resources.scalars))]
        found = memo["NodeResourcesFit/amounts"] = [each for each in named if each[1] > 0]
    return found


def _counted(pod: PodInfo) -> Resources:
    """What the Pod counts as in the score: containers have defaults, and requests of the whole Pod do not count."""
    memo = pod.shape.template.memo
    found: Resources | None = memo.get("NodeResourcesFit/counted")
    if found is None:
        requests = podresources.requests({"spec": pod.spec}, missing=MISSING, pod_level=False)
        found = memo["NodeResourcesFit/counted"] = from_quantities(requests)
    return found


def _empty(node: Object) -> NodeInfo:
    info = NodeInfo(name_of(node))
    info.set_node(node)
    return info


def _is_extended(name: str) -> bool:
    """Source: IsExtendedResourceName in pkg/apis/core/v1/helper, of names that the API server accepts."""
    return "/" in name and "kubernetes.io/" not in name
