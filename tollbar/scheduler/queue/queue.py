"""The scheduling queue: which Pod is tried next, and where the others wait.

A Pod is in one of four places, or in flight:

- the active queue, in the order of QueueSort;
- the back-off queue, after an attempt in vain, for a time that doubles with each attempt;
- among the unschedulable Pods, until an event happens that may help it, or for five minutes;
- gated, which is the same for a Pod that PreEnqueue keeps from being tried at all;
- in flight from `pop` to `done`, or until it comes back by `add_unschedulable_if_not_present`.

Everything happens at once, in one thread: nothing here waits or talks to an API.

Source: pkg/scheduler/backend/queue/scheduling_queue.go of Kubernetes 1.37, without groups of Pods.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf, nextafter
from typing import Any, Final

from tollbar.model.objects import Key
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.changes import pod_changes
from tollbar.scheduler.framework.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    ClusterEvent,
)
from tollbar.scheduler.framework.interface import PreEnqueue
from tollbar.scheduler.queue import notready
from tollbar.scheduler.queue.backoff import BackoffQueue
from tollbar.scheduler.queue.gates import rejection
from tollbar.scheduler.queue.heap import KeyedHeap
from tollbar.scheduler.queue.hints import Hints, Registrations, Requeue
from tollbar.scheduler.queue.inflight import InFlight
from tollbar.scheduler.queue.metrics import NO_METRICS, QueueMetrics
from tollbar.scheduler.queue.nominator import NominatedPods
from tollbar.scheduler.queue.notready import Report, Reports
from tollbar.scheduler.queue.queued import QueuedPod
from tollbar.scheduler.queue.unschedulable import Concerned, UnschedulablePods

log = logging.getLogger(__name__)

FLUSH_EVERY: Final = 30
"""Seconds between two looks for Pods that have waited for an event for too long."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the queue needs of a profile: its PreEnqueue plugins, and which events its plugins registered for."""

    pre_enqueue: Sequence[PreEnqueue] = ()
    registrations: Registrations = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """In seconds.  If `not_ready_delay` is None, nothing is reported about gated Pods."""

    initial_backoff: float = 1
    max_backoff: float = 10
    max_in_unschedulable: float = 300
    not_ready_delay: float | None = notready.DELAY


class SchedulingQueue:
    """`less` is that of QueueSort, `profiles` are by name of the scheduler, `now` is a clock in seconds."""

    def __init__(
        self,
        less: Callable[[QueuedPod, QueuedPod], bool],
        profiles: Mapping[str, Profile],
        *,
        now: Callable[[], float],
        nominator: NominatedPods,
        settings: Settings | None = None,
        metrics: QueueMetrics = NO_METRICS,
    ) -> None:
        settings = settings or Settings()
        self.nominator = nominator
        self.in_flight = InFlight()
        self._now = now
        self._metrics = metrics
        self._pre_enqueue = {name: profile.pre_enqueue for name, profile in profiles.items()}
        self._hints = Hints({name: profile.registrations for name, profile in profiles.items()})
        self._active: KeyedHeap[Key, QueuedPod] = KeyedHeap(less)
        self._backoff = BackoffQueue(less, settings.initial_backoff, settings.max_backoff, now)
        self._unschedulable = UnschedulablePods()
        self._max_in_unschedulable = settings.max_in_unschedulable
        self._next_unschedulable_flush = now() + FLUSH_EVERY
        self._reports = Reports(settings.not_ready_delay)
        self._last_entry = -inf

    # What the scheduler does with Pods.

    def pop(self) -> QueuedPod | None:
        """Take the next Pod to be tried; None if there is none.

        When the active queue is empty, a Pod is tried before its back-off is over, unless its last attempt ended with
        an error (KEP-5142).  `done` or `add_unschedulable_if_not_present` must follow.
        """
        while (queued := self._active.pop() or self._pop_from_backoff()) is not None:
            queued.attempts += 1
            if queued.pod.uid in self.in_flight:
                log.error("the same pod is tracked in multiple places in the scheduler: %s", queued.pod.key)
                continue
            self.in_flight.add(queued.pod)
            self._count_rejectors(queued, -1)
            return queued
        return None

    @property
    def can_pop(self) -> bool:
        """Whether there is a Pod to be tried."""
        return len(self._active) > 0 or self._backoff.can_pop

    def done(self, uid: str) -> None:
        """This Pod needs the events no longer that happened since it was popped."""
        self.in_flight.done(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPod) -> bool:
        """Take back a Pod after an attempt that failed, see `QueuedPod.failed`; false if the queue has its key already.

        It waits for an event, unless there was an error or one that helps has happened since the Pod was popped.
        """
        try:
            if self.get(queued.pod.key) is not None:
                return False
            if queued.rejectors:
                queued.unschedulable_count += 1
                queued.consecutive_errors = 0
            else:
                queued.consecutive_errors += 1
            queued.timestamp = self._entry()
            queued.backoff_expiration = None
            queued.was_flushed = False
            queued.flush_timestamp = 0.0
            self._count_rejectors(queued, 1)
            self._requeue(queued, self._requeue_after_flight(queued), SCHEDULE_ATTEMPT_FAILURE)
            return True
        finally:
            self.done(queued.pod.uid)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Try these Pods soon, without back-off; those in flight when they come back.  Others are ignored."""
        for pod in pods:
            if (waiting := self._unschedulable.get(pod.key)) is not None:
                activated = self._move_to_active(waiting, FORCE_ACTIVATE.label)
            elif (backing_off := self._backoff.remove(pod.key)) is not None:
                activated = self._move_to_active(backing_off, FORCE_ACTIVATE.label, from_backoff=True)
            else:
                activated = False
            if not activated and pod.uid in self.in_flight:
                self.in_flight.happened(FORCE_ACTIVATE, None, pod)

    # What happens in the cluster.

    def add(self, pod: PodInfo) -> None:
        """A Pod without a Node appeared."""
        self.nominator.add(pod)
        self._move_to_active(QueuedPod(pod, self._entry()), UNSCHEDULED_POD_ADD.label)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """A Pod without a Node changed.  One that waits for an event is woken if the change helps it."""
        events = pod_changes(old, new, is_target=True)
        if new.uid in self.in_flight:
            for event in events:
                self.in_flight.happened(event, old, new)
            return
        key = old.key
        queued = self.get(key)
        if queued is None:
            self.add(new)
            return
        queued.pod = new
        self.nominator.update(old, new)
        if key in self._active:
            self._active.put(key, queued)
        elif key in self._backoff:
            self._backoff.changed(queued)
        else:
            for event in events:
                self._requeue(queued, self._hints.requeue(queued, event, old, new), event.label)
                if key not in self._unschedulable:
                    break

    def delete(self, pod: PodInfo) -> None:
        """A Pod is gone, or somebody else bound it.  One in flight stays so until it is done."""
        self.nominator.delete(pod)
        self._reports.forget(pod.uid)
        removed = self._active.remove(pod.key) or self._backoff.remove(pod.key) or self._unschedulable.remove(pod.key)
        if removed is not None:
            self._count_rejectors(removed, -1)

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: Any, new: Any, precheck: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Something happened: wake the Pods that it helps, of those that pass the precheck.

        `old` and `new` are PodInfos or API objects, as hints get them.
        """
        if event.is_wildcard:
            self._move(list(self._unschedulable), event, old, new, None, precheck)
        elif not self._unschedulable:
            if self.in_flight and self._hints.are_registered(event):
                self.in_flight.happened(event, old, new)
        elif concerned := self._hints.concerned(event, old, new):
            self._move(self._unschedulable.concerned(concerned), event, old, new, concerned, precheck)

    # What the time does.

    def next_due(self) -> float:
        """When `flush` has something to do, by the clock; infinity if never, unless something else happens before."""
        due = min(self._backoff.next_completed(), self._reports.next_due())
        return min(due, self._next_unschedulable_flush) if self._unschedulable else due

    def flush(self) -> Sequence[Report]:
        """Do what is due, and return the reports about gated Pods that are to be written."""
        now = self._now()
        self.flush_backoff_completed()
        if now >= self._next_unschedulable_flush:
            periods = floor((now - self._next_unschedulable_flush) / FLUSH_EVERY) + 1
            self._next_unschedulable_flush += periods * FLUSH_EVERY
            self.flush_unschedulable_leftover()
        return self._reports.take(now)

    def flush_backoff_completed(self) -> None:
        """Move the Pods whose back-off is over to the active queue."""
        for queued in self._backoff.pop_completed():
            self._move_to_active(queued, BACKOFF_COMPLETE, from_backoff=True)

    def flush_unschedulable_leftover(self) -> None:
        """Wake the Pods that have waited for an event for too long."""
        now = self._now()
        overdue = [
            queued
            for queued in self._unschedulable
            if now - max(queued.timestamp, queued.flush_timestamp) > self._max_in_unschedulable
        ]
        for queued in overdue:
            queued.was_flushed = True
            queued.flush_timestamp = now
        if overdue:
            self._move(overdue, UNSCHEDULABLE_TIMEOUT, None, None, None, None)

    # What can be seen.

    def counts(self) -> dict[str, int]:
        """How many Pods wait in active, backoff, unschedulable and gated: the queues of scheduler_pending_pods."""
        gated = self._unschedulable.gated
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    def pods_by_queue(self) -> dict[str, list[QueuedPod]]:
        """All waiting Pods; those in `active`, `backoff` and `errorBackoff` in the order of popping."""
        return {
            "active": self._active.in_order(),
            "backoff": self._backoff.rejected(),
            "errorBackoff": self._backoff.failed(),
            "unschedulable": [each for each in self._unschedulable if not each.is_gated],
            "gated": [each for each in self._unschedulable if each.is_gated],
        }

    def get(self, key: Key) -> QueuedPod | None:
        """The waiting Pod of this key, wherever it waits; None if it does not, or is in flight."""
        return self._active.get(key) or self._backoff.get(key) or self._unschedulable.get(key)

    # How Pods move.

    def _entry(self) -> float:
        """Now, but later than any other Pod entered: of equal priority, QueueSort has nothing else to go by.

        A clock that stands still, as that of a simulation does, would leave their order to the heap.
        """
        self._last_entry = max(self._now(), nextafter(self._last_entry, inf))
        return self._last_entry

    def _pop_from_backoff(self) -> QueuedPod | None:
        queued = self._backoff.pop()
        if queued is not None:
            self._metrics.incoming("active", POP_FROM_BACKOFF)
        return queued

    def _requeue_after_flight(self, queued: QueuedPod) -> Requeue:
        events = self.in_flight.since(queued.pod.uid)
        if events is None or not queued.rejectors:
            return Requeue.AFTER_BACKOFF
        found = Requeue.NO
        for happened in events:
            found = max(found, self._hints.requeue(queued, happened.event, happened.old, happened.new))
            if found is Requeue.AT_ONCE or (found and not queued.pending_plugins):
                break
        return found

    def _move(
        self,
        pods: Iterable[QueuedPod],
        event: ClusterEvent,
        old: Any,
        new: Any,
        concerned: Concerned | None,
        precheck: Callable[[PodInfo], bool] | None,
    ) -> None:
        for queued in pods:
            if precheck is not None and not precheck(queued.pod):
                continue
            requeue = self._hints.requeue(queued, event, old, new, concerned)
            if requeue is not Requeue.NO:
                self._unschedulable.remove(queued.pod.key)
                self._requeue(queued, requeue, event.label)
        self.in_flight.happened(event, old, new)

    def _requeue(self, queued: QueuedPod, requeue: Requeue, label: str) -> None:
        if requeue is Requeue.NO:
            self._park(queued, label)
        elif requeue is Requeue.AFTER_BACKOFF and self._backoff.is_backing_off(queued):
            self._move_to_backoff(queued, label)
        else:
            self._move_to_active(queued, label)

    def _move_to_active(self, queued: QueuedPod, label: str, *, from_backoff: bool = False) -> bool:
        """Whether it is there: a Pod that PreEnqueue rejects is gated.  A Pod in back-off has passed PreEnqueue."""
        if not from_backoff and self._is_gated(queued, label):
            return False
        if queued.initial_attempt is None:
            queued.initial_attempt = self._now()
        self._unschedulable.remove(queued.pod.key)
        self._active.put(queued.pod.key, queued)
        self._metrics.incoming("active", label)
        return True

    def _move_to_backoff(self, queued: QueuedPod, label: str) -> None:
        if not self._is_gated(queued, label):
            self._unschedulable.remove(queued.pod.key)
            self._backoff.add(queued)
            self._metrics.incoming("backoff", label)

    def _is_gated(self, queued: QueuedPod, label: str) -> bool:
        """Ask PreEnqueue, and park the Pod if it is rejected."""
        status = rejection(self._pre_enqueue[queued.profile], queued)
        if status is None:
            queued.gating_plugin = ""
            self._reports.forget(queued.pod.uid)
            return False
        if status.plugin not in queued.rejectors:
            self._metrics.rejected(status.plugin, queued.profile, 1)
        queued.unschedulable_plugins.add(status.plugin)
        queued.gating_plugin = status.plugin
        queued.was_flushed = False
        self._reports.rejected(queued.pod, status.plugin, status.message, self._now())
        self._park(queued, label)
        return True

    def _park(self, queued: QueuedPod, label: str) -> None:
        if queued.pod.key not in self._unschedulable:
            self._metrics.incoming("unschedulable", label)
        self._unschedulable.put(queued)

    def _count_rejectors(self, queued: QueuedPod, change: int) -> None:
        for plugin in queued.rejectors:
            self._metrics.rejected(plugin, queued.profile, change)
