"""Leader election on a `coordination.k8s.io/v1` Lease: at most one process leads at any time.

Fields and periods are those of client-go, so that other tools and electors understand the Lease.

Invariants
- `lead()` runs only while no other process can consider the lease expired.  The leader counts from when it *sent* its
  last successful write, a standby from when it *saw* the record change, which is later.  Both use monotonic time,
  because wall clocks may differ.
- `lead()` is cancelled `renew` seconds after that and must have ended before `lease` seconds; then this process is a
  standby again.  If the work has not ended by then, the process exits at once (`die`), because two leaders are worse
  than none.  (client-go always exits, because it cannot end its goroutines.  Here the work is tasks, which end when
  they are cancelled, within `grace`; a call that was sent before may take effect later in both cases.)
- A call may take half of `renew`, as in client-go, and a renewal is sent `retry` seconds after the one before was sent,
  not after its answer came.  So the lease is held as long as the API server answers each call within that time.
- Every write carries the resourceVersion that it replaces, so a write that arrives late changes nothing.
- On cancellation the lease is renewed until the work has ended, and only then released.

Hazards.  Down: a standby takes over `lease` seconds after it saw the last renewal, at most one retry after that was
written; or after one retry when the lease was released.  Doubled: identities must be unique per start of a process, or
both lead.  Behind: a process that was suspended (SIGSTOP, a paused machine) runs some more turns of the event loop
before its work is cancelled; patches therefore carry preconditions, and writes that those do not make safe ask
`may_write` when they are sent.  The elector needs a client of its own, since one that is paused by a 429 or busy cannot
renew in time.
"""

import asyncio
import logging
import math
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from tollbar.model import timestamps
from tollbar.model.objects import Object, metadata, spec
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from tollbar.runtime.metrics import Metrics

_log: Final = logging.getLogger(__name__)

_JITTER: Final = 0.2
_MARGIN: Final = 0.5
"""Seconds before the lease expires: the process exits then if the work still runs.  Less where the lease expires so
soon after the renew deadline that it is more than a quarter of the time between them."""
_TICK: Final = 0.001
"""Seconds added to a wait for a deadline, so that the deadline has passed afterwards at any resolution of the clock."""
_TOO_LATE: Final = "the lease could not be renewed in time"


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
        self._margin = min(_MARGIN, (lease - renew) / 4)
        self._call_timeout = max(1.0, renew / 2)
        self._annotations = annotations or {}
        self._takes_over = takes_over
        self._die = die
        self._status = metrics.gauge("leader_election_master_status").labels(name)
        self._record: Object = {}  # the Lease as last seen; empty when there is none
        self._seen = 0.0  # monotonic time at which `_record` was first seen
        self._renewed = -math.inf  # monotonic time at which our last successful write was sent
        self._failures = 0  # calls in a row that failed
        self._failing_since = 0.0

    @property
    def may_write(self) -> bool:
        """Whether no other process can lead yet, as far as this moment's clock tells."""
        return self._clock.monotonic() < self._renewed + self._renew

    @property
    def grace(self) -> float:
        """Seconds for which work that is cancelled now may finish what it has begun.

        Until half of the time from the renew deadline to the end of the lease is over, so that the rest is left for
        ending, also where a busy machine has told of the loss late.
        """
        return max(0.0, self._renewed + (self._lease + self._renew) / 2 - self._clock.monotonic())

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead()` as a task whenever this process holds the lease, and wait for the lease again when it is lost.

        Returns or raises what `lead()` did, after releasing the lease.  On cancellation it cancels `lead()`, holds the
        lease until that has ended, releases it and raises CancelledError.
        """
        while True:
            try:
                await self._acquire()
            except asyncio.CancelledError:
                await self._release()  # a write that acquires the lease may be on its way
                raise
            if await self._lead(lead):
                return

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Run the work until it has ended; False when the lease was lost and this process can go on as a standby."""
        _log.info("became leader", extra={"lease": self._name, "identity": self._identity})
        self._status.set(1)
        work = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew_until_lost(), name=f"renew lease {self._name}")
        try:
            lost, cancelled = await self._hold(work, renewing)
            if lost:
                cancelled |= await self._stop_in_time(work, lost)
        finally:
            self._status.set(0)
            renewing.cancel()
            await asyncio.wait({renewing}, timeout=1.0)
        if not lost:
            await self._release()
        if cancelled:
            raise asyncio.CancelledError
        if lost and work.done() and (work.cancelled() or work.exception() is None):
            return False
        await work
        return True

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

    async def _stop_in_time(self, work: asyncio.Future[None], why: str) -> bool:
        """Cancel the work, and end the process if the work has not ended before the lease expires.

        Returns whether this task was cancelled meanwhile.
        """
        cancelled = False
        _log.error("lost the lease, stopping the work", extra={"lease": self._name, "reason": why})
        work.cancel()
        expires = self._renewed + self._lease
        # Where this is noticed late the work has a moment all the same, as long as the lease is held.
        ends = max(expires - self._margin, min(expires, self._clock.monotonic() + self._margin))
        while not work.done():
            left = ends - self._clock.monotonic()
            if left <= 0:
                _log.critical("the work does not stop in time, ending the process", extra={"lease": self._name})
                self._die()
                return cancelled
            try:
                await asyncio.wait({work}, timeout=left + _TICK)
            except asyncio.CancelledError:
                cancelled = True
                work.cancel()  # already stopping, within the same bound
        return cancelled

    async def _acquire(self) -> None:
        while True:
            at_most = math.inf
            try:
                acquired = await self._try_to_acquire()
                self._succeeded()
                if acquired:
                    return
                at_most = self._expires - self._clock.monotonic() + _TICK
            except (ApiError, TimeoutError) as error:
                self._failed("cannot acquire the lease", error)
            await self._pause(at_most)

    async def _try_to_acquire(self) -> bool:
        """Acquire the lease if it is free, expired or already held by this identity."""
        record = await self._read()
        holder = _holder(record)
        if holder not in ("", self._identity) and self._clock.monotonic() < self._expires:
            return False
        await self._write(record, self._holding(record))
        self._takes_over(record)
        return True

    @property
    def _expires(self) -> float:
        """The monotonic time at which the lease as last seen may be taken from its holder."""
        return self._seen + float(spec(self._record).get("leaseDurationSeconds") or self._lease)

    async def _renew_until_lost(self) -> str:
        """Renew the lease until that fails for good; returns why."""
        began = self._renewed
        while True:
            await self._pause(since=began)
            began = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._renewed + self._renew - began):
                    if not await self._try_to_renew():
                        return f"the lease is held by {_holder(self._record)}"
                self._succeeded()
            except (ApiError, TimeoutError) as error:
                self._failed("cannot renew the lease", error)
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
            async with asyncio.timeout(self._call_timeout):
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
            async with asyncio.timeout(self._call_timeout):
                record = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            record = {}
        if metadata(record).get("resourceVersion") != metadata(self._record).get("resourceVersion"):
            if _holder(record) != _holder(self._record):
                _log.info("lease changed hands", extra={"lease": self._name, "holder": _holder(record)})
            self._record = record
            self._seen = self._clock.monotonic()
        return record

    async def _write(self, record: Object, new: Object) -> None:
        """Replace exactly this record, or create the Lease when it is empty.  Raises ApiError, TimeoutError."""
        sent = self._clock.monotonic()
        meta = metadata(record) or {"name": self._name, "namespace": self._namespace}
        if self._annotations:
            meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **self._annotations}}
        lease = {**LEASES.type_meta, "metadata": meta, "spec": new}
        async with asyncio.timeout(self._call_timeout):
            if record:
                written = await self._client.replace(LEASES, lease)
            else:
                written = await self._client.create(LEASES, lease)
        self._record = written
        self._renewed = sent
        self._seen = self._clock.monotonic()

    def _holding(self, record: Object) -> Object:
        """The spec of the Lease when this process holds it after the given record."""
        old, now = spec(record), timestamps.micro_time(self._clock.now())
        ours = old.get("holderIdentity") == self._identity
        return old | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._lease),
            "acquireTime": (old.get("acquireTime") if ours else None) or now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (1 if record and not ours else 0),
        }

    def _vacant(self, record: Object) -> Object:
        now = timestamps.micro_time(self._clock.now())
        return spec(record) | {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}

    def _failed(self, what: str, error: Exception) -> None:
        """Log the first of several failures in a row."""
        if not self._failures:
            self._failing_since = self._clock.monotonic()
        level = logging.DEBUG if self._failures else logging.WARNING
        _log.log(level, what, extra={"lease": self._name, "error": repr(error)})
        self._failures += 1

    def _succeeded(self) -> None:
        if self._failures:
            seconds = round(self._clock.monotonic() - self._failing_since, 1)
            said = {"lease": self._name, "failures": self._failures, "seconds": seconds}
            _log.info("calls about the lease succeed again", extra=said)
        self._failures = 0

    async def _pause(self, at_most: float = math.inf, *, since: float | None = None) -> None:
        """Wait for `retry`, less the time since that moment, but at most for so many seconds."""
        passed = 0.0 if since is None else self._clock.monotonic() - since
        wanted = self._retry * self._rng.uniform(1 - _JITTER, 1 + _JITTER) - passed
        await self._clock.sleep(max(0.0, min(wanted, at_most)))


def _holder(record: Object) -> str:
    return spec(record).get("holderIdentity") or ""
