"""What the watches show, told to the cache and to the queue.

Source: pkg/scheduler/eventhandlers.go.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tollbar.model.objects import Key, key_of, metadata
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store
from tollbar.scheduler.cache.cache import Cache, CacheError
from tollbar.scheduler.cache.nodeinfo import name_of
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.topologylabels import TopologyLabels
from tollbar.scheduler.framework.changes import node_changes, pod_changes
from tollbar.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    Action,
    ClusterEvent,
    EventResource,
)
from tollbar.scheduler.framework.waiting import InBinding
from tollbar.scheduler.queue.queue import SchedulingQueue

_log: Final = logging.getLogger(__name__)

_NODE_ADD: Final = ClusterEvent(EventResource.NODE, Action.ADD)
_NODE_DELETE: Final = ClusterEvent(EventResource.NODE, Action.DELETE)
_SLICE_UPDATE: Final = ClusterEvent(EventResource.RESOURCE_SLICE, Action.UPDATE)
_YIELD_EVERY: Final = 100


@dataclass(slots=True)
class EventHandlers:
    """`pods` has every Pod as it was last heard of, and is filled here.

    `scheduler_names` are those of the profiles.  `wake` is called after every change: the queue may have got
    something to do.  Pods that wait for a Node are put into the queue from `begin` on.
    """

    cache: Cache
    queue: SchedulingQueue
    shapes: Shapes
    topology_labels: TopologyLabels
    pods: dict[Key, PodInfo]
    scheduler_names: Collection[str]
    in_binding: InBinding
    wake: Callable[[], None]
    has_begun: bool = False

    async def begin(self) -> None:
        """Put all Pods that wait for a Node into the queue, unless it has them.

        Call it once everything is listed: until then every Node, claim and slice would be an event for all of them.
        """
        self.has_begun = True
        for number, key in enumerate(list(self.pods), 1):
            pod = self.pods.get(key)
            if pod is not None and self._waits(pod):
                self.queue.add(pod)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def node(self, delta: Delta) -> None:
        """A Node appeared, changed or went."""
        if delta.new is None:
            assert delta.old is not None  # noqa: S101
            self.queue.move_all_to_active_or_backoff(_NODE_DELETE, delta.old, None)
            self.cache.remove_node(name_of(delta.old))
        else:
            self.cache.set_node(delta.new)
            events = [_NODE_ADD] if delta.old is None else node_changes(delta.old, delta.new)
            for event in events:
                self.queue.move_all_to_active_or_backoff(event, delta.old, delta.new)
        self.wake()

    def pod(self, delta: Delta) -> None:
        """A Pod appeared, changed, was bound or went."""
        obj = delta.new or delta.old or {}
        old = self.pods.get(key_of(obj)) if delta.old is not None else None
        if delta.new is None:
            self.pods.pop(key_of(obj), None)
            if old is not None:
                self._gone(old)
        else:
            new = self.shapes.pod_info(delta.new, old)
            self.pods[new.key] = new
            if old is None:
                self._appeared(new)
            else:
                self._changed(old, new)
        self.wake()

    def other(self, resource: EventResource) -> Callable[[Delta], None]:
        """The handler for a kind of which nothing but its events is needed."""
        added, updated, deleted = (ClusterEvent(resource, each) for each in (Action.ADD, Action.UPDATE, Action.DELETE))

        def handle(delta: Delta) -> None:
            event = added if delta.old is None else deleted if delta.new is None else updated
            self.queue.move_all_to_active_or_backoff(event, delta.old, delta.new)
            self.wake()

        return handle

    def taint_rule(self, _delta: Delta) -> None:
        """A DeviceTaintRule appeared, changed or went: an update of ResourceSlices, whose devices it taints."""
        self.queue.move_all_to_active_or_backoff(_SLICE_UPDATE, None, None)
        self.wake()

    def subscribe(self, pods: Store, nodes: Store, taint_rules: Store, others: Mapping[EventResource, Store]) -> None:
        """Hear of everything from now on; subscribe after those whose state hints read."""
        nodes.subscribe(self.node)
        pods.subscribe(self.pod)
        taint_rules.subscribe(self.taint_rule)
        for resource, store in others.items():
            store.subscribe(self.other(resource))

    def _is_ours(self, pod: PodInfo) -> bool:
        return pod.scheduler_name in self.scheduler_names

    def _waits(self, pod: PodInfo) -> bool:
        """Whether it is to be scheduled, and neither in the queue nor being bound."""
        is_known = self.queue.get(pod.key) is not None or self.cache.is_assumed(pod.uid)
        return not pod.node_name and self._is_ours(pod) and not is_known

    def _appeared(self, pod: PodInfo) -> None:
        if pod.node_name:
            self._bound(pod)
        elif self.has_begun and self._is_ours(pod):
            self.queue.add(pod)

    def _changed(self, old: PodInfo, new: PodInfo) -> None:
        if old.node_name:
            try:
                self.cache.update_pod(new)
            except CacheError as error:
                _log.error("cannot update a pod in the cache", extra={"pod": str(new.key), "error": str(error)})
            for event in pod_changes(old, new, is_target=False):
                self.queue.move_all_to_active_or_backoff(event, old, new)
        elif new.node_name:
            self.topology_labels.learn(old, new, self.cache.node(new.node_name))
            self._bound(new)
            if self._is_ours(old):
                self.queue.delete(old)
        elif self.has_begun and self._is_ours(old):
            self._waiting_changed(old, new)

    def _waiting_changed(self, old: PodInfo, new: PodInfo) -> None:
        if metadata(old.object).get("resourceVersion") == metadata(new.object).get("resourceVersion"):
            return
        if self.cache.is_assumed(new.uid):
            if new.is_terminating and not old.is_terminating:
                self._assumed_gone(new)
            return
        self.queue.update(old, new)
        if old.nominated_node_name and old.nominated_node_name != new.nominated_node_name:
            self._room_for_others(old)

    def _gone(self, pod: PodInfo) -> None:
        if pod.node_name:
            try:
                self.cache.remove_pod(pod)
            except CacheError as error:
                _log.error("cannot remove a pod from the cache", extra={"pod": str(pod.key), "error": str(error)})
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
        elif self._is_ours(pod):
            self.queue.delete(pod)
            if self.cache.is_assumed(pod.uid):
                self._assumed_gone(pod)
            elif pod.nominated_node_name:
                self._room_for_others(pod)

    def _bound(self, pod: PodInfo) -> None:
        try:
            if (assumed_on := self.cache.add_pod(pod)) is not None:
                _log.warning(
                    "a pod was bound to another node than assumed",
                    extra={"pod": str(pod.key), "node": pod.node_name, "assumed": assumed_on},
                )
        except CacheError as error:
            _log.error("cannot add a pod to the cache", extra={"pod": str(pod.key), "error": str(error)})
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, pod)

    def _assumed_gone(self, pod: PodInfo) -> None:
        """What a Pod was to take is free again at once: its binding will fail."""
        assumed = self.cache.pod(pod.uid)
        if assumed is None:
            return
        waiting = self.in_binding.waiting.get(pod.uid)
        if waiting is None or not waiting.reject("", "removed"):
            self.cache.forget(assumed)
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, assumed, None)

    def _room_for_others(self, nominated: PodInfo) -> None:
        """Its nomination counted as if it ran there, for Pods of lower or equal priority."""
        self.queue.move_all_to_active_or_backoff(
            ASSIGNED_POD_DELETE, nominated, None, lambda pod: pod.priority <= nominated.priority
        )
