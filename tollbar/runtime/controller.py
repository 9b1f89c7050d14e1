"""The loop of a controller: take a key from the work queue, reconcile it, and requeue it as the outcome says.

The reconcile function gets a key and nothing else; it reads the objects from the stores.

Invariants: every outcome is counted in one metric and writes one log line, for debugging only if it is a failure in an
outage of the API server; Done and RetryAfter reset the back-off of a key, Awaiting leaves it as it is, every other
outcome lengthens it; an exception in a reconcile never ends a worker; between the beginnings of two reconciles of one
controller the event loop turns at least once, however many workers there are, so that what else the process does waits
for one reconcile of each controller and not for as many as there are workers; a stopped controller lets running
reconciles finish for at most `grace` seconds, and starts no new ones.

The watches are connected when the loop starts, not before: a queue without workers would grow without bound.  A loop
that was stopped may run again: it begins with the objects that are there, like the first time.
Hazard: a reconcile that never returns occupies one worker.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import cache
from typing import Any, Final, Generic, TypeVar

from tollbar.model.plan import Awaiting, Done, Failed, Outcome, Requeue, RetryAfter
from tollbar.runtime import log
from tollbar.runtime.caches import listed
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.source import Watch
from tollbar.runtime.store import Store
from tollbar.runtime.workqueue import ShutDown, WorkQueue

K = TypeVar("K", bound=Hashable)

_log: Final = logging.getLogger(__name__)

MAX_API_BACKOFF: Final = 30.0
"""Seconds of back-off, at most, after an API error or a stale view: no event requeues the key when an outage ends."""


class Controller(Generic[K]):
    """`workers` concurrent reconciles of different keys.  While it does not run, its queue is closed."""

    def __init__(
        self,
        name: str,
        *,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Outcome]],
        watches: Sequence[Watch[Any, K]] = (),
        needs: Sequence[Store] = (),
        workers: int,
        metrics: Metrics,
        clock: Clock,
        grace: Callable[[], float],
    ) -> None:
        self.name = name
        self.queue = queue
        self.watches = watches
        self.needs = needs
        self.reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._grace = grace
        self._serial = itertools.count(1)
        self._connected = False
        self._turn = asyncio.Lock()
        """Held by the worker that takes the next key."""
        total = metrics.counter("controller_runtime_reconcile_total")
        # To look a series up by its labels costs more than to count.
        self._counted = cache(lambda result: total.labels(name, result).inc)
        self._errors = metrics.counter("controller_runtime_reconcile_errors_total").labels(name)
        self._terminal = metrics.counter("controller_runtime_terminal_reconcile_errors_total").labels(name)
        self._panics = metrics.counter("controller_runtime_reconcile_panics_total").labels(name)
        self._seconds = metrics.histogram("controller_runtime_reconcile_time_seconds").labels(name)
        self._active = metrics.gauge("controller_runtime_active_workers").labels(name)
        metrics.gauge("controller_runtime_max_concurrent_reconciles").labels(name).set(workers)

    async def run(self) -> None:
        """Work until the queue is shut down, or until cancelled, which shuts it down.

        Starts when the stores that it needs have synced.
        """
        await listed(self.needs)
        self.connect()
        workers = {asyncio.create_task(self._work(), name=f"{self.name} worker {i}") for i in range(self._workers)}
        try:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        finally:
            self.queue.shut_down()
            try:
                await asyncio.wait(workers, timeout=self._grace())
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.wait(workers)

    def connect(self) -> None:
        """Let the watches add keys to the queue from now on.  Call it when the workers start."""
        self.queue.open()
        if self._connected:
            self.resync()
            return
        self._connected = True
        for watch in self.watches:
            watch.connect(self.queue)

    def resync(self) -> None:
        """Add the keys of all objects that are there, as at the start."""
        for watch in self.watches:
            watch.replay(self.queue)

    async def _work(self) -> None:
        while True:
            try:
                async with self._turn:
                    await asyncio.sleep(0)  # a reconcile without a write never yields, and the lease must be renewed
                    key = await self.queue.get()
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
                self.queue.done(key)

    async def _process(self, key: K) -> None:
        try:
            outcome = await self.reconcile(key)
        except ApiError as error:  # a stack trace would add nothing to the server's answer
            self._fail(key, at_most=MAX_API_BACKOFF)
            _log.log(error.level(logging.ERROR), "reconcile failed", extra={"error": str(error)})
            return
        except Exception:
            self._panics.inc()
            self._fail(key)
            _log.exception("reconcile failed")
            return
        match outcome:
            case Done():
                self._counted("success")()
                self.queue.forget(key)
                _log.debug("reconciled")
            case Awaiting():
                self._counted("success")()
                _log.debug("reconciled, waiting for an answer")
            case RetryAfter(seconds):
                self._counted("requeue_after")()
                self.queue.forget(key)
                self.queue.add_after(key, seconds)
                _log.debug("reconciled, looking again later", extra={"seconds": seconds})
            case Requeue(reason):
                self._counted("requeue")()
                self.queue.add_rate_limited(key, at_most=MAX_API_BACKOFF)
                _log.debug("reconcile to be repeated", extra={"reason": reason})
            case Failed(reason, at_most):
                self._terminal.inc()
                self._fail(key, at_most=at_most)
                _log.warning("reconcile refused", extra={"reason": reason})

    def _fail(self, key: K, *, at_most: float = float("inf")) -> None:
        self._counted("error")()
        self._errors.inc()
        self.queue.add_rate_limited(key, at_most=at_most)
