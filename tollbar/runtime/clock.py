"""Time as a parameter, so that tests own it.  Called by everything in the runtime that waits or measures."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what others read, monotonic time for what is measured, and the wait that goes with them."""

    def now(self) -> float:
        """Seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of monotonic time; at once, but after yielding, for zero or less."""
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
