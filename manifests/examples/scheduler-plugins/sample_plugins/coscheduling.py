"""Coscheduling: the Pods of a group are bound together, or none of them is.

Pods of one namespace with the same label `scheduling.example.com/pod-group` are a group.  Each says in the label
`scheduling.example.com/min-available` how many of them have to find a Node before it is bound.  Until then Permit lets
it wait, on the room that it was given.  When one has waited for too long, all that wait go back to the queue, so that
two groups that each hold half of the cluster do not wait for one another for ever.

Arguments:

    permitWaitingTimeSeconds: 60      # how long a Pod waits for its group
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tollbar.model.objects import Key, Object, key_of, labels_of, spec
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from tollbar.scheduler.framework.handle import Handle, WaitingPod
from tollbar.scheduler.framework.interface import Arguments, Wait
from tollbar.scheduler.framework.status import Status, unresolvable

GROUP: Final = "scheduling.example.com/pod-group"
MIN_AVAILABLE: Final = "scheduling.example.com/min-available"


class Coscheduling:
    name = "Coscheduling"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        if unknown := sorted(args.keys() - {"permitWaitingTimeSeconds"}):
            raise ValueError(f"unknown fields: {', '.join(unknown)}")
        seconds = args.get("permitWaitingTimeSeconds", 60)
        if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds <= 0:
            raise ValueError(f"permitWaitingTimeSeconds: must be a whole number of at least 1, not {seconds!r}")
        self._seconds = seconds
        self._handle = handle
        self._shapes = Shapes()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        """Keep a Pod from taking room as long as its group cannot be complete."""
        group = group_of(pod)
        if group is None:
            return None
        wanted = pod.labels.get(MIN_AVAILABLE, "")
        if not wanted.isdecimal() or int(wanted) == 0:
            return unresolvable(f"label {MIN_AVAILABLE} must be a whole number of at least 1, not {wanted!r}")
        there = len(self._members(group))
        if there < int(wanted):
            return unresolvable(f"pod group {group} has {there} Pods of at least {wanted}")
        return None

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The scheduler itself remembers the Node; there is nothing else to take."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """This Pod is not bound, because it has waited for too long or for another reason: neither are the others."""
        for waiting in self._waiting(group_of(pod)):
            waiting.reject(self.name, f"pod {pod.key.name} of the same group could not be scheduled")

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Wait | None:
        """The last Pod that was needed lets all of them pass; the first one has the others tried soon."""
        group = group_of(pod)
        if group is None:
            return None
        others = self._on_nodes(group)
        if others + 1 >= int(pod.labels[MIN_AVAILABLE]):
            for waiting in self._waiting(group):
                waiting.allow(self.name)
            return None
        if others == 0:
            self._handle.activate(self._siblings(pod, group))
        return Wait(self._seconds)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pod = ClusterEvent(EventResource.POD, Action.ADD | Action.UPDATE_POD_LABEL)
        return [ClusterEventWithHint(pod, after_pod_change)]

    def _on_nodes(self, group: Key) -> int:
        """How many Pods of the group had a Node when this cycle began, those that wait at Permit among them."""
        on_nodes = (pod for node in self._handle.snapshot for pod in node.pods.values())
        return sum(group_of(pod) == group for pod in on_nodes)

    def _waiting(self, group: Key | None) -> Iterator[WaitingPod]:
        """The Pods of the group whom Permit lets wait."""
        if group is not None:
            yield from (each for each in self._handle.waiting_pods.values() if group_of(each.pod) == group)

    def _members(self, group: Key) -> list[Object]:
        """All Pods of the group that have not ended."""
        return [
            each
            for each in self._handle.listers.pods.values()
            if labels_of(each).get(GROUP) == group.name and key_of(each).namespace == group.namespace
        ]

    def _siblings(self, pod: PodInfo, group: Key) -> list[PodInfo]:
        """The others of the group that have no Node yet."""
        pods = map(self._shapes.pod_info, (each for each in self._members(group) if not spec(each).get("nodeName")))
        return [each for each in pods if each.uid != pod.uid]


def group_of(pod: PodInfo) -> Key | None:
    """Namespace and name of the Pod's group, if it has one."""
    name = pod.labels.get(GROUP)
    return Key(pod.key.namespace, name) if name else None


def after_pod_change(pod: PodInfo, _old: PodInfo | None, new: PodInfo) -> QueueingHint:
    """A change of the Pod itself helps, or another Pod of its group that got a Node or joined the group."""
    return QueueingHint.QUEUE if new.uid == pod.uid or group_of(new) == group_of(pod) else QueueingHint.SKIP
