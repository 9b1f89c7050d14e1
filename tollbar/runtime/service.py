"""The services that a process consists of: each runs until it is told to stop.

`tollbar.runtime.manager` lists them in phases, `tollbar.runtime.chassis` runs them.

Invariants: a service returns from `run` only after `stop` is set (anything else is a failure of the process); when its
`run` is cancelled, the time to shut down has run out, and it ends at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class ServiceError(Exception):
    """A service cannot run, for a reason that its message tells completely; it is logged without a stack trace."""


class Service(Protocol):
    """One part of a process."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish and return."""
        ...


@dataclass(frozen=True, slots=True)
class Background:
    """A service made from a coroutine function that runs until it is cancelled, such as `Recorder.run`."""

    name: str
    work: Callable[[], Awaitable[None]]

    async def run(self, stop: asyncio.Event) -> None:
        work = asyncio.ensure_future(self.work())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            ended = work.done()
            work.cancel()
            await asyncio.wait({work})
        if ended or not work.cancelled():
            work.result()


class LeaderServices:
    """Leader election and the leader's work as two services, so that the lease can be released after everything else.

    `lease` belongs in the first phase and `work` in the last.  Stopping `work` ends the leader's work while the lease
    is still renewed; stopping `lease` then releases the lease.  When the lease is lost, the elector ends the work
    itself, and begins it anew when this process leads again.

    `elect` is `Elector.run`; `work` runs until it is cancelled.
    """

    def __init__(
        self, elect: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]], work: Callable[[], Awaitable[None]]
    ) -> None:
        self._work = Background("elected work", work)
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.lease: Service = Background("leader election", lambda: elect(self._lead))
        self.work: Service = _StopAndWait(self._stop, self._idle)

    async def _lead(self) -> None:
        if not self._stop.is_set():
            self._idle.clear()
            try:
                await self._work.run(self._stop)
            finally:
                self._idle.set()
        if self._stop.is_set():
            await asyncio.Event().wait()  # hold the lease until its own phase is stopped


@dataclass(frozen=True, slots=True)
class _StopAndWait:
    """When it is told to stop, sets `stop_work` and returns once `idle` is set."""

    stop_work: asyncio.Event
    idle: asyncio.Event
    name: str = "elected work"

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.stop_work.set()
        await self.idle.wait()
