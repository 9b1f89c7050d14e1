"""An event loop on virtual time: where another one would wait for a timer, this one is at that moment already.

Nothing here waits for a file or a socket, so that an idle loop has only timers to wait for.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from typing import Final

_FOREVER: Final = float("inf")


class VirtualLoop(asyncio.SelectorEventLoop):
    """`may_pass` is asked when no callback is ready and nobody rests, with the seconds until the next timer, infinite
    without one: if it says so, that time has passed.  Otherwise it has made a callback ready."""

    def __init__(self) -> None:
        self.virtual_now = 0.0
        self.may_pass: Callable[[float], bool] = lambda _seconds: True
        self._resting: deque[asyncio.Future[None]] = deque()
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.virtual_now

    async def rest(self) -> None:
        """Return once no callback is ready: all others have done what there is to do at this moment."""
        resting = self.create_future()
        self._resting.append(resting)
        await resting

    def passes(self, seconds: float) -> bool:
        """Asked when no callback is ready: whether so many virtual seconds pass; if not, a callback is ready now."""
        while self._resting:
            resting = self._resting.popleft()
            if not resting.done():  # it is when its task was cancelled
                resting.set_result(None)
                return False
        return self.may_pass(seconds)


class _Selector(selectors.DefaultSelector):
    """Never waits; its loop asks it to when no callback is ready."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            self._loop.passes(_FOREVER)
        elif timeout > 0 and self._loop.passes(timeout):
            self._loop.virtual_now += timeout
        return super().select(0)


class VirtualClock:
    """The time of a VirtualLoop as a `tollbar.runtime.clock.Clock`; `start` is when it begins, in epoch seconds."""

    def __init__(self, loop: VirtualLoop, start: float) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> float:
        return self._start + self._loop.virtual_now

    def monotonic(self) -> float:
        return self._loop.virtual_now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))
