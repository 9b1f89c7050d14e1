"""What a process is made of: services that run until they are told to stop.

Called by: the entry points, which list services in phases; `tollbar.runtime.manager` runs them.

Invariants: a service returns from `run` only after `stop` is set (anything else is a failure of the process); when its
`run` is cancelled, its time is up and it ends without further ado.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class Service(Protocol):
    """One part of a process."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then wind down and return."""
        ...


@dataclass(frozen=True, slots=True)
class Background:
    """A service from a coroutine function that runs until it is cancelled: a reflector, a recorder, an elector."""

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


class Elected:
    """Work that only the leader does, as two services, so that the lease can be the last thing to go.

    `lease` belongs in the first phase and `work` in the last.  Stopping `work` ends the elected work while the lease
    is still renewed; stopping `lease` then gives the lease back.  When leadership is lost, the elector ends the work
    itself and `lease` fails, and the process with it.

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
        self.work: Service = _Until(self._stop, self._idle)

    async def _lead(self) -> None:
        if not self._stop.is_set():
            self._idle.clear()
            try:
                await self._work.run(self._stop)
            finally:
                self._idle.set()
        if self._stop.is_set():
            await asyncio.Event().wait()  # keep the lease until it is its turn to stop


@dataclass(frozen=True, slots=True)
class _Until:
    """Told to stop, pass it on and wait until that is done."""

    passed_on: asyncio.Event
    idle: asyncio.Event
    name: str = "elected work"

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.passed_on.set()
        await self.idle.wait()
