"""Time as a parameter, so that tests can control it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps that others read, monotonic time for durations, and a sleep on the same time."""

    def now(self) -> float:
        """Seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of monotonic time; for zero or less, only yield to the event loop."""
        ...


class SystemClock:
    """The clock of the process.  Monotonic time is the event loop's where one runs, so that it agrees with timeouts."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


class LoopClock(SystemClock):
    """The same in a process with one event loop, which is not looked up for each reading: that is a system call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()
