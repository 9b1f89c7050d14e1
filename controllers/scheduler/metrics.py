"""The scheduler's metrics, under kube-scheduler's names.

Source: pkg/scheduler/metrics/metrics.go.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Final

from tollbar.model.objects import Object
from tollbar.runtime.metrics import Metrics
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.status import Code
from tollbar.scheduler.queue.queue import SchedulingQueue
from tollbar.scheduler.queue.queued import QueuedPod

_ATTEMPTS_SHOWN: Final = 15


class SchedulerMetrics:
    """What concerns all profiles; it also is the queue's QueueMetrics.  All times are in seconds.

    Series of every cycle are looked up once (`cache`): the look-up by labels costs more than to count.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        attempts = metrics.counter("scheduler_schedule_attempts_total")
        latency = metrics.histogram("scheduler_scheduling_attempt_duration_seconds")
        self._attempts = cache(lambda result, profile: attempts.labels(result, profile).inc)
        self._latency = cache(lambda result, profile: latency.labels(result, profile).observe)
        self._algorithm = metrics.histogram("scheduler_scheduling_algorithm_duration_seconds")
        sli = metrics.histogram("scheduler_pod_scheduling_sli_duration_seconds")
        self._sli = cache(lambda attempts: sli.labels(attempts).observe)
        self._tries = metrics.histogram("scheduler_pod_scheduling_attempts")
        self._after_flush = metrics.counter("scheduler_pod_scheduled_after_flush_total")
        incoming = metrics.counter("scheduler_queue_incoming_pods_total")
        self._incoming = cache(lambda queue, event: incoming.labels(queue, event).inc)
        rejected = metrics.gauge("scheduler_unschedulable_pods")
        self._rejected = cache(lambda plugin, profile: rejected.labels(plugin, profile).inc)

    def expose(self, queue: SchedulingQueue, cache: Cache) -> None:
        """Compute the gauges of these when they are read."""
        pending = self._metrics.gauge("scheduler_pending_pods")
        for name in queue.counts():
            pending.labels(name).set_function(partial(_entry, queue.counts, name))
        size = self._metrics.gauge("scheduler_cache_size")
        for kind in cache.sizes():
            size.labels(kind).set_function(partial(_entry, cache.sizes, kind))

    def algorithm(self, seconds: float) -> None:
        """A Node was looked for."""
        self._algorithm.observe(seconds)

    def scheduled(self, queued: QueuedPod, profile: str, started: float, now: float) -> None:
        """A Pod was bound, in an attempt that began at `started`."""
        self._attempt("scheduled", profile, now - started)
        self._tries.observe(queued.attempts)
        if queued.initial_attempt is not None:
            shown = f"{_ATTEMPTS_SHOWN}+" if queued.attempts >= _ATTEMPTS_SHOWN else str(queued.attempts)
            self._sli(shown)(now - queued.initial_attempt)
        if queued.was_flushed:
            self._after_flush.inc()

    def failed(self, profile: str, started: float, now: float, *, rejected: bool) -> None:
        """An attempt ended without a binding."""
        self._attempt("unschedulable" if rejected else "error", profile, now - started)

    def incoming(self, queue: str, event: str) -> None:
        self._incoming(queue, event)()

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self._rejected(plugin, profile)(change)

    def _attempt(self, result: str, profile: str, seconds: float) -> None:
        self._attempts(result, profile)()
        self._latency(result, profile)(seconds)


def _entry(counts: Callable[[], Mapping[str, int]], name: str) -> float:
    return counts()[name]


class FrameworkMetrics:
    """Implements `tollbar.scheduler.framework.metrics.Metrics`."""

    def __init__(self, metrics: Metrics, profile: str) -> None:
        points = metrics.histogram("scheduler_framework_extension_point_duration_seconds")
        plugins = metrics.histogram("scheduler_plugin_execution_duration_seconds")
        evaluated = metrics.counter("scheduler_plugin_evaluation_total")
        permit = metrics.histogram("scheduler_permit_wait_duration_seconds")
        self._point = cache(lambda point, code: points.labels(point.value, code.value, profile).observe)
        self._plugin = cache(lambda point, plugin, code: plugins.labels(plugin, point.value, code.value).observe)
        self._evaluated = cache(lambda point, plugin: evaluated.labels(plugin, point.value, profile).inc)
        self._evaluations: Counter[tuple[Point, str]] = Counter()
        metrics.before_reading(self._count)
        self._permit = cache(lambda code: permit.labels(code.value).observe)
        self._profile = profile
        self._preemptions = metrics.counter("scheduler_preemption_attempts_total")
        self._victims = metrics.histogram("scheduler_preemption_victims")
        self._claims = metrics.counter("dynamic_resource_allocation_resourceclaim_creates_total")
        self._devices = metrics.counter("scheduler_dra_bindingconditions_allocations_total")
        self._device_waits = metrics.histogram("scheduler_dra_bindingconditions_wait_duration_seconds")

    def point(self, point: Point, code: Code, seconds: float) -> None:
        self._point(point, code)(seconds)

    def plugin(self, point: Point, plugin: str, code: Code, seconds: float) -> None:
        self._plugin(point, plugin, code)(seconds)

    def evaluated(self, point: Point, plugin: str, times: int) -> None:
        self._evaluations[point, plugin] += times

    def permit_wait(self, code: Code, seconds: float) -> None:
        self._permit(code)(seconds)

    def preemption_tried(self) -> None:
        self._preemptions.inc()

    def preempted(self, victims: int) -> None:
        self._victims.observe(victims)

    def claim_created(self, created: bool) -> None:
        self._claims.labels("success" if created else "failure", "false", "", "Pod").inc()

    def waited_for_devices(self, outcome: str, seconds: float, devices: Iterable[Object]) -> None:
        """Every device gets the time, and those with binding conditions are counted."""
        for each in devices:
            labels = (self._profile, each["driver"], outcome)
            self._device_waits.labels(*labels).observe(seconds)
            if each.get("bindingConditions"):
                self._devices.labels(*labels).inc()

    def _count(self) -> None:
        for key, times in self._evaluations.items():
            self._evaluated(*key)(times)
        self._evaluations.clear()
