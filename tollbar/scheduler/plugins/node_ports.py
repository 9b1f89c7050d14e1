"""NodePorts: two Pods on one Node cannot use the same port of the host."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

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
from tollbar.scheduler.framework.status import NOT_CONCERNED, Status, unschedulable

HostPort: TypeAlias = tuple[str, str, int]
"""(IP, protocol, port)."""
NO_FREE_PORTS: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")
_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104


class NodePorts:
    name = "NodePorts"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """There is nothing to configure."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        return None if pod.shape.host_ports else NOT_CONCERNED

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE_AND_PODS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return NO_FREE_PORTS if _collide(pod.shape.host_ports, node.used_ports) else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        """One by one, for the first Pods of a spec: the others need those alone that have changed."""
        return np.array([not _collide(pod.shape.host_ports, node.used_ports) for node in nodes], np.bool_)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
        added = ClusterEvent(EventResource.NODE, Action.ADD)
        return [ClusterEventWithHint(deleted, after_pod_delete), ClusterEventWithHint(added)]


def after_pod_delete(pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    """A Pod that had a Node, or was promised one, helps if it used one of the ports."""
    return queue_if(old.has_place and _collide(pod.shape.host_ports, old.shape.host_ports))


def _collide(wanted: Iterable[HostPort], used: Collection[HostPort]) -> bool:
    """Whether any of the ports is in use; 0.0.0.0 stands for every address.

    Source: HostPortInfo.CheckConflict in k8s.io/kube-scheduler/framework.
    """
    return any(_is_taken(port, used) for port in wanted)


def _is_taken(port: HostPort, used: Collection[HostPort]) -> bool:
    address, protocol, number = port
    if address == _ALL_ADDRESSES:
        return any((protocol, number) == taken[1:] for taken in used)
    return port in used or (_ALL_ADDRESSES, protocol, number) in used
