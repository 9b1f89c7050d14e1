"""How fast we may ask: a token bucket, and a pause that the server orders for everybody.  Called by the client.

Both are per client: a doubled replica has a doubled share, and the server's priority and fairness has the last word.
"""

from tollbar.runtime.clock import Clock


class TokenBucket:
    """At most `rate` a second on average, up to `burst` at once.  First come, first served."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("a token bucket needs a positive rate and a burst of at least one")
        self._interval = 1.0 / rate
        self._slack = (burst - 1) * self._interval
        self._clock = clock
        self._next = clock.monotonic() - self._slack

    async def take(self) -> None:
        """Return when the caller may go on.  A cancelled wait has spent its token."""
        now = self._clock.monotonic()
        due = max(self._next, now - self._slack)
        self._next = due + self._interval
        if due > now:
            await self._clock.sleep(due - now)


class Pause:
    """A gate that is open unless somebody closed it for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def extend(self, seconds: float) -> None:
        """Closed for at least so many seconds from now on."""
        self._until = max(self._until, self._clock.monotonic() + seconds)

    async def wait(self) -> None:
        """Return once it is open, however often it is extended meanwhile."""
        while (left := self._until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
