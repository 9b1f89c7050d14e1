"""Which key to reconcile next: controller-runtime's work queue for one event loop.

Invariants: a key waits at most once; no key is handed to two workers at a time; a key that is added while it runs is
handed out once more after `done`.  Higher priorities go first; within one, namespaces take turns and the oldest key of
a namespace goes first.  A key that is added again at a higher priority moves up, never down.

Hazards: keys of a high priority starve those of a low one.  A key is not removed when its object is deleted, so a
queue without workers grows without bound.
"""

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from tollbar.runtime.clock import Clock
from tollbar.runtime.metrics import Metrics

K = TypeVar("K", bound=Hashable)

AHEAD: Final = 100
LIVE: Final = 0
RELIST: Final = -100
"""Priorities: keys from watch events go before keys from a list, and keys that are known to have work before both."""


class ShutDown(Exception):
    """The queue hands out no more keys."""


def _namespace(key: Any) -> Hashable:
    namespace: Hashable = key.namespace
    return namespace


class WorkQueue(Generic[K]):
    """Keys to work on.  `base` and `maximum` are the seconds of the first and the longest back-off of a failing key."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        metrics: Metrics,
        base: float = 0.005,
        maximum: float = 1000.0,
    ) -> None:
        self._clock = clock
        self._base = base
        self._maximum = maximum
        self._queues: dict[int, OrderedDict[Hashable, OrderedDict[K, None]]] = {}
        """Waiting keys by priority and namespace; the first namespace is served next.  A dict would search for its
        first key among all that were taken before it."""
        self._waiting: dict[K, tuple[int, float]] = {}
        """Priority and time of the first addition, also of keys that wait for their own worker to finish."""
        self._running: dict[K, float] = {}
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._serial = 0
        self._timer: asyncio.Task[None] | None = None
        self._timer_due = 0.0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._adds = metrics.counter("workqueue_adds_total").labels(name)
        self._retries = metrics.counter("workqueue_retries_total").labels(name)
        self._queue_duration = metrics.histogram("workqueue_queue_duration_seconds").labels(name)
        self._work_duration = metrics.histogram("workqueue_work_duration_seconds").labels(name)
        metrics.gauge("workqueue_depth").labels(name).set_function(self.__len__)
        metrics.gauge("workqueue_unfinished_work_seconds").labels(name).set_function(lambda: sum(self._ages()))
        metrics.gauge("workqueue_longest_running_processor_seconds").labels(name).set_function(
            lambda: max(self._ages(), default=0.0)
        )

    def __len__(self) -> int:
        """Keys that a worker could take now."""
        return len(self._waiting) - len(self._again)

    def add(self, key: K, *, priority: int = LIVE) -> None:
        """Add the key, or raise its priority if it waits already.  Does nothing after `shut_down`."""
        if self._closed:
            return
        waiting = self._waiting.get(key)
        if waiting is None:
            self._adds.inc()
            self._waiting[key] = (priority, self._clock.monotonic())
            if key in self._running:
                self._again.add(key)
            else:
                self._enqueue(key, priority)
        elif priority > waiting[0]:
            self._waiting[key] = (priority, waiting[1])
            if key not in self._again:
                self._dequeue(key, waiting[0])
                self._enqueue(key, priority)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key in so many seconds; of several calls for one key the earliest time counts."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        due = self._clock.monotonic() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._serial += 1
            heapq.heappush(self._timers, (due, self._serial, key))
            self._start_timer()

    def add_rate_limited(self, key: K, *, at_most: float = float("inf")) -> None:
        """Add the key after its back-off, at most `at_most` seconds; it doubles with each call until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._retries.inc()
        self.add_after(key, min(self._base * 2.0 ** min(failures, 64), self._maximum, at_most))

    def forget(self, key: K) -> None:
        """Reset the back-off of a key that succeeded or is not retried."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, which no other caller gets before `done`.  Raises ShutDown."""
        while not self._closed and not self._queues:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                with suppress(ValueError):
                    self._getters.remove(getter)
                if getter.done() and not getter.cancelled():
                    self._wake()  # this getter had been woken: wake the next one instead
                raise
        if self._closed:
            raise ShutDown
        key = self._take()
        now = self._clock.monotonic()
        self._queue_duration.observe(now - self._waiting.pop(key)[1])
        self._running[key] = now
        return key

    def done(self, key: K) -> None:
        """The caller has finished with the key.  Raises KeyError for a key that is not being worked on."""
        self._work_duration.observe(self._clock.monotonic() - self._running.pop(key))
        if key in self._again:
            self._again.remove(key)
            self._enqueue(key, self._waiting[key][0])

    def open(self) -> None:
        """Take keys again after `shut_down`, as a new queue does; all workers must have ended."""
        self._closed = False

    def shut_down(self) -> None:
        """Drop the waiting keys; `get` raises from now on; keys that are being worked on may still finish."""
        self._closed = True
        self._failures.clear()
        self._queues.clear()
        self._waiting.clear()
        self._again.clear()
        self._timers.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    def _ages(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - started for started in self._running.values()]

    def _enqueue(self, key: K, priority: int) -> None:
        line = self._queues.setdefault(priority, OrderedDict())
        line.setdefault(_namespace(key), OrderedDict())[key] = None
        self._wake()

    def _dequeue(self, key: K, priority: int) -> None:
        line = self._queues[priority]
        namespace = _namespace(key)
        del line[namespace][key]
        if not line[namespace]:
            del line[namespace]
        if not line:
            del self._queues[priority]

    def _take(self) -> K:
        priority = max(self._queues)
        line = self._queues[priority]
        namespace = next(iter(line))
        key = next(iter(line[namespace]))
        self._dequeue(key, priority)
        if namespace in line:
            line.move_to_end(namespace)  # so that namespaces take turns
        return key

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _start_timer(self) -> None:
        """Keep one task sleeping until the earliest timer is due."""
        due = self._timers[0][0]
        if self._timer is not None and not self._timer.done():
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().create_task(self._run_timers())

    async def _run_timers(self) -> None:
        while self._timers:
            due, _, key = self._timers[0]
            now = self._clock.monotonic()
            if due > now:
                self._timer_due = due
                await self._clock.sleep(due - now)
                continue
            heapq.heappop(self._timers)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
