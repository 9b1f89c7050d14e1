"""Client-side limits: a token bucket, a pause of all calls after a 429 with Retry-After, and how many are under way.

They are per client, so two replicas may make twice as many calls; API Priority and Fairness limits them on the server.
"""

import asyncio
from collections import deque
from typing import Final

from tollbar.runtime.clock import Clock

LONGEST_PAUSE: Final = 60.0
"""Seconds for which a Retry-After is obeyed, at most."""
FEW: Final = 64
"""Calls that may be under way at one time before any has to wait."""
LOOK_EVERY: Final = 1.0
"""Seconds between two looks at whether more are needed."""
HANGING: Final = 4
"""Calls hang if of so many of them fewer than one has ended since the last look."""


class TokenBucket:
    """At most `rate` a second on average, up to `burst` at once.  First come, first served."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("a token bucket needs a positive rate and a burst of at least one")
        self._interval = 1.0 / rate
        self._slack = (burst - 1) * self._interval
        self._clock = clock
        self._next = clock.monotonic() - self._slack

    async def take(self, *, pause: float = 0.0) -> None:
        """Return when a token is free.  A cancelled wait has used its token.

        A call that must wait does so for at least `pause` seconds, so that the next calls find their tokens at once.
        With a pause there should be one caller, since another one could come first meanwhile.
        """
        now, due = self._now_and_due()
        self._next = due + self._interval
        if due > now:
            await self._clock.sleep(max(due - now, pause))

    def take_free(self) -> bool:
        """Take a token if one is free, and return whether one was."""
        now, due = self._now_and_due()
        if due > now:
            return False
        self._next = due + self._interval
        return True

    def _now_and_due(self) -> tuple[float, float]:
        """The time, and that at which the next token is free."""
        now = self._clock.monotonic()
        return now, max(self._next, now - self._slack)


class Pause:
    """Holds callers back for as long as it was last extended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        return self._until > self._clock.monotonic()

    def extend(self, seconds: float) -> None:
        """Hold callers back for at least so many seconds from now on."""
        self._until = max(self._until, self._clock.monotonic() + seconds)

    async def wait(self) -> None:
        """Return once the pause is over, including extensions made meanwhile."""
        while (left := self._until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)


class Slots:
    """At most `limit` calls under way at one time, and no more than it takes.

    Each needs a connection of its own, whose TLS handshake costs the CPU of many calls.  So a burst begins with FEW,
    and the others wait.  While calls wait, twice as many may be under way as soon as those that are hang, so that they
    hold up no others.  A server that is only slow does not get more: it would be slower still, and in the end refuse
    them.  Nor do calls that wait for the end of a `pause`.
    """

    def __init__(self, limit: int, pause: Pause) -> None:
        self.open = min(FEW, limit)
        """How many calls may be under way now."""
        self._limit = limit
        self._pause = pause
        self._under_way = 0
        self._ended = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._look: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        if self._under_way < self.open and not self._waiting:
            self._under_way += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._look_later()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was let in at that moment
                self._leave()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._ended += 1
        self._leave()

    def refused(self) -> None:
        """The server is too busy: no call begins before fewer than FEW are under way."""
        self.open = min(FEW, self._limit)
        if self._waiting:
            self._look_later()

    def _leave(self) -> None:
        self._under_way -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._under_way < self.open:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._under_way += 1
                turn.set_result(None)

    def _look_later(self) -> None:
        if self._look is None:
            self._ended = 0
            self._look = asyncio.get_running_loop().call_later(LOOK_EVERY, self._widen)

    def _widen(self) -> None:
        self._look = None
        if not self._waiting or self.open == self._limit:
            return
        if self._ended * HANGING < self.open and not self._pause.is_on:
            self.open = min(2 * self.open, self._limit)
            self._let_in()
        self._look_later()
