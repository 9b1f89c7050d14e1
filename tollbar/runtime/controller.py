"""The loop of a controller: take a key, reconcile it, do what the outcome says.  One switch, in one place.

Called by: the controllers' entry point, while leading.  The reconcile function gets a key and nothing else; it re-reads
the store.

Invariants: every outcome counts in one metric and writes one log line; Done and RetryAfter forget the back-off of a
key, everything else lengthens it; no exception of a reconcile ends a worker; between two reconciles of a worker
everything else in the process gets its turn; a stopped controller finishes what runs, for at most `grace` seconds, and
starts nothing.

Hazards: connect the queue when the loop runs, not before: what nobody drains grows with every key there ever was; a
reconcile that never returns occupies one worker.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tollbar.model.plan import Done, Failed, Outcome, Requeue, RetryAfter
from tollbar.runtime import log
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import ShutDown, WorkQueue

K = TypeVar("K", bound=Hashable)

_log: Final = logging.getLogger(__name__)

PATIENCE: Final = 30.0
"""Seconds of back-off, at most, after no answer or a failing server: nothing wakes a key when the outage ends."""
GRACE: Final = 4.0
"""Less than the time between losing a lease and its expiry (15 s - 10 s), so that work has ended when it matters."""


class Controller(Generic[K]):
    """`workers` concurrent reconciles of different keys.  Runs once: stopping closes the queue for good."""

    def __init__(
        self,
        name: str,
        *,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Outcome]],
        workers: int,
        metrics: Metrics,
        clock: Clock,
        grace: float = GRACE,
    ) -> None:
        self.name = name
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._grace = grace
        self._serial = itertools.count(1)
        self._total = metrics.counter("controller_runtime_reconcile_total")
        self._errors = metrics.counter("controller_runtime_reconcile_errors_total").labels(name)
        self._terminal = metrics.counter("controller_runtime_terminal_reconcile_errors_total").labels(name)
        self._seconds = metrics.histogram("controller_runtime_reconcile_time_seconds").labels(name)
        self._active = metrics.gauge("controller_runtime_active_workers").labels(name)
        metrics.gauge("controller_runtime_max_concurrent_reconciles").labels(name).set(workers)

    async def run(self) -> None:
        """Work until the queue is shut down, or until cancelled, which shuts it down."""
        workers = {asyncio.create_task(self._work(), name=f"{self.name} worker {i}") for i in range(self._workers)}
        try:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        finally:
            self._queue.shut_down()
            try:
                await asyncio.wait(workers, timeout=self._grace)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.wait(workers)

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except ShutDown:
                return
            self._active.inc()
            started = self._clock.monotonic()
            try:
                with log.scope(controller=self.name, object=str(key), reconcileID=f"{next(self._serial):08x}"):
                    await self._process(key)
            finally:
                self._seconds.observe(self._clock.monotonic() - started)
                self._active.dec()
                self._queue.done(key)
            await asyncio.sleep(0)  # a reconcile that writes nothing never waits, and the lease is to be renewed

    async def _process(self, key: K) -> None:
        try:
            outcome = await self._reconcile(key)
        except ApiError as error:  # the server's answer says it all
            self._fail(key, at_most=PATIENCE)
            _log.error("reconcile failed", extra={"error": str(error)})
            return
        except Exception:
            self._fail(key)
            _log.exception("reconcile failed")
            return
        match outcome:
            case Done():
                self._count("success")
                self._queue.forget(key)
                _log.debug("reconciled")
            case RetryAfter(seconds):
                self._count("requeue_after")
                self._queue.forget(key)
                self._queue.add_after(key, seconds)
                _log.debug("reconciled, looking again later", extra={"seconds": seconds})
            case Requeue(reason):
                self._count("requeue")
                self._queue.add_rate_limited(key, at_most=PATIENCE)
                _log.debug("reconcile to be repeated", extra={"reason": reason})
            case Failed(reason, at_most):
                self._terminal.inc()
                self._fail(key, at_most=at_most)
                _log.warning("reconcile refused", extra={"reason": reason})

    def _fail(self, key: K, *, at_most: float = float("inf")) -> None:
        self._count("error")
        self._errors.inc()
        self._queue.add_rate_limited(key, at_most=at_most)

    def _count(self, result: str) -> None:
        self._total.labels(self.name, result).inc()
