"""The scheduler at work: one scheduling cycle after the other, and a task for each Pod that is being bound.

A cycle awaits nothing but its turn in the event loop, and sees the Nodes as they were when it began.  What talks to the
API server runs in the tasks, so that a slow one holds up no cycle.

Invariants: a Pod that was popped is done or in the queue again when its cycle or its binding ends, however it ends; an
assumed Pod is bound or forgotten.

Source: pkg/scheduler/schedule_one.go.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

from controllers.scheduler import events
from controllers.scheduler.metrics import SchedulerMetrics
from controllers.scheduler.statuswriter import StatusWriter
from tollbar.model.objects import Key, Object
from tollbar.model.steps import Steps
from tollbar.runtime.clock import Clock
from tollbar.runtime.events import Recorder
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.cache import Cache, CacheError
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.topologylabels import TopologyLabels
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import Diagnosis, FitError
from tollbar.scheduler.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, EventResource
from tollbar.scheduler.framework.interface import Nominate
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import Code, Status, failed
from tollbar.scheduler.framework.waiting import Waits
from tollbar.scheduler.queue import notready
from tollbar.scheduler.queue.notready import Report
from tollbar.scheduler.queue.queue import SchedulingQueue
from tollbar.scheduler.queue.queued import QueuedPod

_log: Final = logging.getLogger(__name__)
T = TypeVar("T")

_TURN: Final = 0.001
"""Seconds for which cycles hold the event loop at a time: a long queue must not starve what fills the caches."""
_BINDINGS: Final = 32
"""After so many cycles that found a Node, their bindings run: until then each keeps all that its cycle has found."""
_CLEAR: Final = Nominate("")
_CLAIM_UPDATE: Final = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE)
_METRICS_SHARE: Final = 0.1
"""The share of cycles in which each plugin is timed, as upstream."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a Pod was not scheduled, and what becomes of its nomination: None leaves it as it is."""

    status: Status
    fit: FitError | None = None
    nominate: Nominate | None = _CLEAR

    @property
    def message(self) -> str:
        return self.status.message if self.fit is None else str(self.fit)


@dataclass(slots=True)
class Attempt:
    """One Pod from `pop` on.  `assumed` is the Pod with its Node, once it has one."""

    framework: Framework
    queued: QueuedPod
    started: float
    state: CycleState = field(default_factory=CycleState)
    assumed: PodInfo | None = None

    @property
    def pod(self) -> PodInfo:
        return self.queued.pod


Observe: TypeAlias = Callable[[Attempt, Scheduled | FitError | Status], None]
"""Told what every attempt has found, before anything comes of it; it may not change the attempt."""


class Scheduler:
    """`profiles` are by name of the scheduler.  `current` finds a Pod as the watch showed it last.

    `begin` puts the Pods into the queue that wait for a Node.
    """

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        cache: Cache,
        snapshot: Snapshot,
        queue: SchedulingQueue,
        topology_labels: TopologyLabels,
        *,
        current: Callable[[Key], PodInfo | None],
        begin: Callable[[], Awaitable[None]],
        status: StatusWriter,
        recorder: Recorder,
        clock: Clock,
        rng: Random,
        metrics: SchedulerMetrics,
        observe: Observe | None = None,
    ) -> None:
        self._profiles = profiles
        self._cache = cache
        self._snapshot = snapshot
        self._queue = queue
        self._topology_labels = topology_labels
        self._current = current
        self._begin = begin
        self._status = status
        self._recorder = recorder
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._observe = observe
        self._next_start = 0
        self._turn_ends = 0.0
        self._bindings_left = _BINDINGS
        self._tells_of_freed_devices = True
        """Whether Pods that wait for devices are moved when devices are given back.  Not where Reserve took them in the
        same scheduling cycle: no other Pod was tried since, and so none was rejected for want of them."""
        self._beside: asyncio.TaskGroup | None = None
        self._changed = asyncio.Event()
        self._looks_at = inf
        """When the queue is looked at in any case, while that is waited for, in seconds of the clock."""
        self.rest: Callable[[], Awaitable[None]] | None = None
        """Awaited before a Pod is taken from the queue: a simulation lets everybody else finish first."""

    @property
    def is_idle(self) -> bool:
        """Whether no Pod is about to be tried, or is being bound.

        Then nothing will happen until an event does, a back-off ends, or a Pod has waited so long that it is tried
        again in any case.
        """
        in_binding = [framework.in_binding for framework in self._profiles.values()]
        are_bound = any(each.waiting or each.pre_binding for each in in_binding)
        return not (self._queue.counts()["active"] or are_bound)

    def wake(self) -> None:
        """The queue may have changed: look at it if it has something to pop, or to flush earlier than before.

        Most of what happens in a cluster concerns no Pod that waits, and a look takes two turns of the event loop.
        """
        if self._queue.can_pop or self._queue.next_due() < self._looks_at:
            self._changed.set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this beside the cycles.  It is cancelled after them, but not before it has begun: it may clean up.

        What it raises is logged, and ends nothing else.
        """
        if self._beside is None:
            work.close()
        else:
            self._beside.create_task(_logged(work))

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Try these waiting Pods soon."""
        self._queue.activate(pods)
        self.wake()

    def freed(self, pod: PodInfo, with_devices: Object, without: Object) -> None:
        """Move the other Pods that wait for devices, as after an update of the claim that a watch shows.

        They move once this Pod, which has given up the devices, is in the queue again: else it would wake itself.
        """

        def is_other(other: PodInfo) -> bool:
            return other.uid != pod.uid

        def tell() -> None:
            self._queue.move_all_to_active_or_backoff(_CLAIM_UPDATE, with_devices, without, is_other)
            self.wake()

        if self._tells_of_freed_devices:
            asyncio.get_running_loop().call_soon(tell)

    async def run(self) -> None:
        """Schedule until cancelled; what is being bound then is forgotten and waits again."""
        await self._begin()
        try:
            async with asyncio.TaskGroup() as self._beside:
                self._beside.create_task(self._status.run())
                try:
                    await self._catch_up()
                    async with asyncio.TaskGroup() as bindings:
                        while True:
                            await self._schedule_one(await self._pop(), bindings)
                finally:
                    await asyncio.sleep(0)  # what the last bindings have started begins
        finally:
            self._beside = None

    async def _catch_up(self) -> None:
        """Fill the snapshot for the first time, Node by Node, so that other tasks run in between.

        If a Node raises an error, that is logged, and the first scheduling cycle takes over the Nodes after it.
        """
        try:
            for _ in self._snapshot.catch_up(self._cache):
                await self._turn()
        except Exception:
            _log.exception("cannot take over a node")

    async def _pop(self) -> QueuedPod:
        """The next Pod; meanwhile the queue's timers run."""
        while True:
            await self._turn()
            if self.rest is not None:
                await self.rest()
            self._changed.clear()
            for report in self._queue.flush():
                self._report(report)
            if (queued := self._queue.pop()) is not None:
                return queued
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Wait until there is something to pop or to flush."""
        due = self._looks_at = self._queue.next_due()
        delay = max(due - self._clock.monotonic(), 0.0)
        timer = None if due == inf else asyncio.get_running_loop().call_later(delay, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _schedule_one(self, queued: QueuedPod, bindings: asyncio.TaskGroup) -> None:
        attempt = Attempt(self._profiles[queued.profile], queued, self._clock.monotonic())
        if self._skip_pod_schedule(attempt.pod):
            self._queue.done(queued.pod.uid)
            return
        attempt.state.record_metrics = self._rng.random() < _METRICS_SHARE
        failure = await self._failure_of(attempt, self._scheduling_cycle(attempt))
        if failure is not None:
            self._tells_of_freed_devices = False  # Reserve and Permit await nothing: no other Pod was tried since
            try:
                self._unreserve_and_forget(attempt)
            finally:
                self._tells_of_freed_devices = True
            self._handle_scheduling_failure(attempt, failure)
        else:
            bindings.create_task(self._run_binding_cycle(attempt))
            self._bindings_left -= 1

    async def _scheduling_cycle(self, attempt: Attempt) -> Failure | None:
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        # 1. The Nodes as they are.
        self._snapshot.update(self._cache)
        # 2. The best Node that fits.
        steps = schedule_pod(framework, state, pod, self._snapshot, self._next_start, self._rng)
        found = await self._in_turns(steps)
        self._next_start = found.next_start
        self._metrics.algorithm(self._clock.monotonic() - attempt.started)
        if self._observe is not None:
            self._observe(attempt, found.result)
        # 3. None fits: plugins may make room.
        if isinstance(found.result, FitError):
            return await self._post_filter(attempt, found.result)
        if isinstance(found.result, Status):
            return Failure(found.result)
        # 4. From here on the Pod counts as if it ran there.
        node_name = found.result.node_name
        attempt.assumed = self._assume(pod, node_name)
        # 5. Plugins take what it needs.
        if (status := framework.reserve(state, attempt.assumed, node_name)) is not None:
            return _rejected_on(node_name, status)
        # 6. Plugins allow it, or let it wait.
        permit = framework.permit(state, attempt.assumed, node_name)
        if isinstance(permit, Waits):
            framework.add_waiting_pod(attempt.assumed, permit)
        elif permit is not None:
            return _rejected_on(node_name, permit)
        return None

    async def _post_filter(self, attempt: Attempt, fit: FitError) -> Failure:
        framework = attempt.framework
        status = Status(Code.UNSCHEDULABLE)
        if not framework.plugins.post_filter:
            return Failure(status, fit)
        nominate, made_room = await self._in_turns(
            framework.post_filter(attempt.state, attempt.pod, fit.diagnosis.statuses)
        )
        fit.diagnosis.post_filter_message = made_room.message
        return Failure(status, fit, nominate)

    async def _run_binding_cycle(self, attempt: Attempt) -> None:
        """The binding cycle of one Pod, whatever becomes of it."""
        failure = await self._failure_of(attempt, self._binding_cycle(attempt))
        if failure is not None:
            forgotten = self._unreserve_and_forget(attempt)
            self._handle_scheduling_failure(attempt, failure)
            if forgotten is not None:
                # Not before it is in the queue again: else the event would wake the Pod itself.
                others = (lambda other: other.uid != attempt.pod.uid) if failure.status.is_rejected else None
                self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, forgotten, None, others)
                self.wake()
            return
        await _logged(self._bound(attempt))

    async def _binding_cycle(self, attempt: Attempt) -> Failure | None:
        framework, state, pod = attempt.framework, attempt.state, attempt.assumed
        assert pod is not None  # noqa: S101
        node_name = pod.node_name
        # 1. Autoscalers see where it will go, if that takes a while.
        pre_flight = framework.pre_bind_pre_flight(state, pod, node_name)
        has_pre_bind = pre_flight is None
        if pre_flight is not None and pre_flight.code is not Code.SKIP:
            return Failure(pre_flight)
        if has_pre_bind or framework.is_waiting(pod):
            self._status.write(attempt.pod, nominated_node_name=node_name)
        # 2. Until all plugins allow it.
        if (status := await framework.wait_on_permit(pod)) is not None:
            return _rejected_on(node_name, status)
        # 3. From here on a failure is no rejection: the events of its time in flight are not needed any more.
        self._queue.done(pod.uid)
        if has_pre_bind and (status := await framework.pre_bind(state, pod, node_name)) is not None:
            return Failure(status)
        # 4. The API server has the last word.  What was to be written of a Pod that is bound is not needed any more; of
        # one that is not, `_handle_scheduling_failure` says it anew.
        await self._status.forget(pod.uid)
        if (status := await framework.bind(state, pod, node_name)) is not None:
            return Failure(status)
        return None

    async def _bound(self, attempt: Attempt) -> None:
        """The Pod has its Node; nothing takes that back."""
        assert attempt.assumed is not None  # noqa: S101
        pod, node_name = attempt.assumed, attempt.assumed.node_name
        self._recorder.emit(attempt.pod.object, events.scheduled(pod, node_name))
        self._metrics.scheduled(attempt.queued, attempt.framework.name, attempt.started, self._clock.monotonic())
        for failure in await attempt.framework.post_bind(attempt.state, pod, node_name):
            _log.error("a PostBind plugin failed", extra={"pod": str(pod.key), "error": failure.message})

    def _report(self, report: Report) -> None:
        """PreEnqueue has kept a Pod waiting for so long that its status says so (KEP-5501)."""
        pod = self._current(report.key)
        if pod is not None and pod.uid == report.uid:
            self._status.write(pod, reason=notready.REASON, message=report.message)

    async def _failure_of(self, attempt: Attempt, cycle: Coroutine[Any, Any, Failure | None]) -> Failure | None:
        """Run a cycle; what it raises is a failure of this Pod alone."""
        try:
            return await cycle
        except asyncio.CancelledError:
            self._give_back(attempt)
            raise
        except Exception as error:
            _log.exception("scheduling failed", extra={"pod": str(attempt.pod.key)})
            return Failure(failed(repr(error), error))

    # What cycles consist of.

    def _skip_pod_schedule(self, pod: PodInfo) -> bool:
        """Whether there is nothing to schedule: the Pod is being deleted, or has got its Node in the meantime."""
        if pod.is_terminating:
            self._recorder.emit(pod.object, events.skipped(pod))
            return True
        return self._cache.is_assumed(pod.uid)

    async def _in_turns(self, steps: Steps[T]) -> T:
        """The result of work that can be paused, with turns for others in between."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self._turn()

    async def _turn(self) -> None:
        """Let others run, if their last turn was a while ago, or many bindings wait for it."""
        if self._bindings_left <= 0 or self._clock.monotonic() >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = self._clock.monotonic() + _TURN
            self._bindings_left = _BINDINGS

    def _assume(self, pod: PodInfo, node_name: str) -> PodInfo:
        assumed = self._topology_labels.assumed(pod, node_name, self._snapshot.get(node_name))
        self._cache.assume(assumed)
        self._queue.nominator.delete(pod)
        return assumed

    def _unreserve_and_forget(self, attempt: Attempt) -> PodInfo | None:
        """Take back what the Pod was given; the Pod as it no longer counts."""
        pod, attempt.assumed = attempt.assumed, None
        if pod is None:
            return None
        attempt.framework.in_binding.waiting.pop(pod.uid, None)
        for failure in attempt.framework.unreserve(attempt.state, pod, pod.node_name):
            _log.error("an Unreserve plugin failed", extra={"pod": str(pod.key), "error": failure.message})
        try:
            self._cache.forget(pod)
        except CacheError as error:  # it was bound in the meantime, by whomever
            _log.error("cannot forget a pod", extra={"pod": str(pod.key), "error": str(error)})
            return None
        return pod

    def _handle_scheduling_failure(self, attempt: Attempt, failure: Failure) -> None:
        """Back to the queue, and tell the user."""
        rejected = failure.status.is_rejected
        self._metrics.failed(attempt.framework.name, attempt.started, self._clock.monotonic(), rejected=rejected)
        if not rejected:
            _log.error("Error scheduling pod; retrying", extra={"pod": str(attempt.pod.key), "error": failure.message})
        pod = self._requeue(attempt, failure.fit)
        if pod is None:
            return
        message = failure.message
        self._queue.nominator.add(pod, failure.nominate)
        self._recorder.emit(pod.object, events.failed(message))
        self._status.write(
            pod,
            reason="Unschedulable" if rejected else "SchedulerError",
            message=message,
            nominated_node_name=failure.nominate.node_name if failure.nominate is not None else None,
        )
        self.wake()

    def _requeue(self, attempt: Attempt, fit: FitError | None) -> PodInfo | None:
        """The Pod as it is by now, if it still waits for a Node."""
        pod = self._current(attempt.pod.key)
        if pod is None or pod.node_name or pod.uid != attempt.pod.uid:
            self._queue.done(attempt.pod.uid)
            return None
        if fit is None:
            attempt.queued.failed(pod)
        else:
            attempt.queued.failed(pod, fit.diagnosis.unschedulable_plugins, fit.diagnosis.pending_plugins)
        self._queue.add_unschedulable_if_not_present(attempt.queued)
        return pod

    def _give_back(self, attempt: Attempt) -> None:
        """The scheduler stops: nothing is written, and the Pod is tried again by whoever schedules next."""
        self._unreserve_and_forget(attempt)
        self._requeue(attempt, None)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        _log.exception("work beside the scheduling cycles failed")


def _rejected_on(node_name: str, status: Status) -> Failure:
    """A rejection of the one Node that was chosen; an Error stays what it is."""
    if not status.is_rejected:
        return Failure(status)
    diagnosis = Diagnosis()
    diagnosis.statuses.by_node[node_name] = status
    diagnosis.add_plugin(status)
    return Failure(status, FitError(1, diagnosis))
