"""Leader election on a `coordination.k8s.io/v1` Lease: at most one process leads at any time.

Fields and periods are those of client-go, so that other tools and electors understand the Lease.

Invariants
- `lead()` runs only while no other process can consider the lease expired.  The leader counts from when it *sent* its
  last successful write, a standby from when it *saw* the record change, which is later.  Both use monotonic time,
  because wall clocks may differ.
- `lead()` is cancelled `renew` seconds after that and must have ended before `lease` seconds; otherwise the process
  exits at once (`die`), because two leaders are worse than none.
- Every write carries the resourceVersion that it replaces, so a write that arrives late changes nothing.
- On cancellation the lease is renewed until the work has ended, and only then released.

Hazards.  Down: a standby takes over after `lease` plus one retry, or after one retry when the lease was released.
Doubled: identities must be unique per start of a process, or both lead.  Behind: a process that was suspended
(SIGSTOP, a paused machine) runs one more turn of the event loop before it notices; patches therefore carry
preconditions.  The elector needs a client of its own, since one that is paused by a 429 or busy cannot renew in time.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from tollbar.runtime.metrics import Metrics

_log: Final = logging.getLogger(__name__)

CALL_TIMEOUT: Final = 3.0
_JITTER: Final = 0.2
_MARGIN: Final = 0.5
"""Seconds before the lease expires: the process exits then if the work still runs."""
_TICK: Final = 0.001
"""Seconds added to a wait for a deadline, so that the deadline has passed afterwards at any resolution of the clock."""
_TOO_LATE: Final = "the lease could not be renewed in time"


class LeadershipLost(Exception):
    """The lease could not be renewed in time, or another process holds it.  The work has stopped; end the process."""


class LeaseClient(Protocol):
    """The part of `tollbar.runtime.client.Client` that the elector uses."""

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object: ...
    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object: ...
    async def replace(self, res: Resource, obj: Object) -> Object: ...


def _die() -> None:
    logging.shutdown()
    os._exit(1)


class Elector:
    """One candidate.  `identity` must be unique for this start of this process.

    `lease`, `renew` and `retry` are client-go's leaseDuration, renewDeadline and retryPeriod in seconds; the last one
    varies by a fifth.  `annotations` are read and written to the Lease at every write; `takes_over` is called with the
    Lease as its last holder left it, before the work begins.  `die` ends the process without any clean-up.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        lease: float = 15.0,
        renew: float = 10.0,
        retry: float = 2.0,
        annotations: Mapping[str, str] | None = None,
        takes_over: Callable[[Object], None] = lambda _lease: None,
        die: Callable[[], None] = _die,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._lease = lease
        self._renew = renew
        self._retry = retry
        self._annotations = annotations or {}
        self._takes_over = takes_over
        self._die = die
        self._status = metrics.gauge("leader_election_master_status").labels(name)
        self._record: Object = {}  # the Lease as last seen; empty when there is none
        self._seen = 0.0  # monotonic time at which `_record` was first seen
        self._renewed = 0.0  # monotonic time at which our last successful write was sent
        self._answered = clock.monotonic()

    @property
    def answer_age(self) -> float:
        """Seconds since the API server last answered a call about the lease, for a liveness check."""
        return self._clock.monotonic() - self._answered

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead()` as a task while holding it.

        Returns or raises what `lead()` did, after releasing the lease.  Raises LeadershipLost.  On cancellation it
        cancels `lead()`, holds the lease until that has ended, releases it and raises CancelledError.
        """
        try:
            await self._acquire()
        except asyncio.CancelledError:
            await self._release()  # a write that acquires the lease may be on its way
            raise
        _log.info("became leader", extra={"lease": self._name, "identity": self._identity})
        self._status.set(1)
        work = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew_until_lost(), name=f"renew lease {self._name}")
        try:
            lost, cancelled = await self._hold(work, renewing)
            if lost:
                await self._stop_in_time(work, lost)
        finally:
            self._status.set(0)
            renewing.cancel()
            await asyncio.wait({renewing}, timeout=1.0)
        if not lost:
            await self._release()
        if cancelled:
            raise asyncio.CancelledError
        if lost:
            raise LeadershipLost(lost)
        await work

    async def _hold(self, work: asyncio.Future[None], renewing: asyncio.Task[str]) -> tuple[str, bool]:
        """Wait until the work has ended or the lease is lost.

        Returns why it is lost ("" when the work has ended), and whether this task was cancelled.
        """
        both: set[asyncio.Future[Any]] = {work, renewing}
        cancelled = False
        while not work.done():
            if renewing.done():
                return "the renewal was cancelled" if renewing.cancelled() else renewing.result(), cancelled
            left = self._renewed + self._renew - self._clock.monotonic()
            if left <= 0:
                return _TOO_LATE, cancelled
            try:
                await asyncio.wait(both, timeout=left + _TICK, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                cancelled = True
                work.cancel()
        return "", cancelled

    async def _stop_in_time(self, work: asyncio.Future[None], why: str) -> None:
        """Cancel the work, and end the process if the work has not ended before the lease expires."""
        _log.error("lost the lease, stopping the work", extra={"lease": self._name, "reason": why})
        work.cancel()
        while not work.done():
            left = self._renewed + self._lease - _MARGIN - self._clock.monotonic()
            if left <= 0:
                _log.critical("the work does not stop in time, ending the process", extra={"lease": self._name})
                self._die()
                return
            try:
                await asyncio.wait({work}, timeout=left + _TICK)
            except asyncio.CancelledError:
                work.cancel()  # already stopping, within the same bound
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.error("the work failed while it was stopped", extra={"lease": self._name}, exc_info=error)

    async def _acquire(self) -> None:
        while True:
            try:
                async with asyncio.timeout(CALL_TIMEOUT):
                    if await self._try_to_acquire():
                        return
            except (ApiError, TimeoutError) as error:
                _log.warning("cannot acquire the lease", extra={"lease": self._name, "error": repr(error)})
            await self._pause()

    async def _try_to_acquire(self) -> bool:
        """Acquire the lease if it is free, expired or already held by this identity."""
        record = await self._read()
        holder = _holder(record)
        if holder not in ("", self._identity):
            expires = self._seen + float(_spec(record).get("leaseDurationSeconds") or self._lease)
            if self._clock.monotonic() < expires:
                return False
        await self._write(record, self._holding(record))
        self._takes_over(record)
        return True

    async def _renew_until_lost(self) -> str:
        """Renew the lease until that fails for good; returns why."""
        while True:
            await self._pause()
            left = self._renewed + self._renew - self._clock.monotonic()
            try:
                async with asyncio.timeout(min(left, CALL_TIMEOUT)):
                    if not await self._try_to_renew():
                        return f"the lease is held by {_holder(self._record)}"
            except (ApiError, TimeoutError) as error:
                _log.warning("cannot renew the lease", extra={"lease": self._name, "error": repr(error)})
            except Exception:
                _log.exception("cannot renew the lease", extra={"lease": self._name})
                return "the renewal failed"

    async def _try_to_renew(self) -> bool:
        """Replace the record as last seen, or read it again on a conflict.  False when another process holds it."""
        try:
            await self._write(self._record, self._holding(self._record))
        except (Conflict, NotFound, AlreadyExists):
            record = await self._read()
            if _holder(record) not in ("", self._identity):
                return False
            await self._write(record, self._holding(record))  # after a write of ours that timed out, or an edit
        return True

    async def _release(self) -> None:
        """Release the lease, so that a standby need not wait until it expires.  Best effort."""
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                while True:
                    record = await self._read()
                    if _holder(record) != self._identity:
                        return
                    try:
                        await self._write(record, self._vacant(record))
                    except Conflict:  # a renewal that timed out has arrived after all
                        continue
                    _log.info("released the lease", extra={"lease": self._name, "identity": self._identity})
                    return
        except (ApiError, TimeoutError) as error:
            _log.warning("cannot release the lease", extra={"lease": self._name, "error": repr(error)})

    async def _read(self) -> Object:
        """The Lease at the API server, empty when there is none; remembers when this version was first seen."""
        try:
            record = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            record = {}
        self._answered = self._clock.monotonic()
        if record.get("metadata", {}).get("resourceVersion") != self._record.get("metadata", {}).get("resourceVersion"):
            if _holder(record) != _holder(self._record):
                _log.info("lease changed hands", extra={"lease": self._name, "holder": _holder(record)})
            self._record = record
            self._seen = self._answered
        return record

    async def _write(self, record: Object, spec: Object) -> None:
        """Replace exactly this record, or create the Lease when it is empty.  Raises ApiError."""
        sent = self._clock.monotonic()
        meta = record.get("metadata") or {"name": self._name, "namespace": self._namespace}
        if self._annotations:
            meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **self._annotations}}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta, "spec": spec}
        if record:
            written = await self._client.replace(LEASES, lease)
        else:
            written = await self._client.create(LEASES, lease)
        self._record = written
        self._renewed = sent
        self._seen = self._answered = self._clock.monotonic()

    def _holding(self, record: Object) -> Object:
        """The spec of the Lease when this process holds it after the given record."""
        spec, now = _spec(record), timestamps.micro_time(self._clock.now())
        ours = spec.get("holderIdentity") == self._identity
        return spec | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._lease),
            "acquireTime": (spec.get("acquireTime") if ours else None) or now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (1 if record and not ours else 0),
        }

    def _vacant(self, record: Object) -> Object:
        now = timestamps.micro_time(self._clock.now())
        return _spec(record) | {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}

    async def _pause(self) -> None:
        await self._clock.sleep(self._retry * self._rng.uniform(1 - _JITTER, 1 + _JITTER))


def _spec(record: Object) -> Object:
    return record.get("spec") or {}


def _holder(record: Object) -> str:
    return _spec(record).get("holderIdentity") or ""
