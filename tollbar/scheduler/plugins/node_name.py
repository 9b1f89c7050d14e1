"""NodeName: a Pod whose `spec.nodeName` is set can run on that Node alone."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, ClusterEvent, ClusterEventWithHint, EventResource
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments, DependsOn, Mask, PreFilterResult
from tollbar.scheduler.framework.status import Status, unresolvable

OTHER_NODE: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName:
    name = "NodeName"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """There is nothing to configure."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> PreFilterResult | None:
        return PreFilterResult(frozenset({pod.node_name})) if pod.node_name else None

    def depends_on(self, pod: PodInfo) -> DependsOn | None:
        return None if pod.node_name else DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if pod.node_name in ("", node.name) else OTHER_NODE

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        if not pod.node_name:
            return np.ones(len(nodes), np.bool_)
        named: Mask = nodes.table.order == nodes.table.rows.get(pod.node_name, -1)
        return named

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, Action.ADD))]
