"""Client-side rate limits: a token bucket, and a pause of all calls after a 429 with Retry-After.

Both are per client, so two replicas may make twice as many calls; API Priority and Fairness limits them on the server.
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
        """Return when a token is free.  A cancelled wait has used its token."""
        now = self._clock.monotonic()
        due = max(self._next, now - self._slack)
        self._next = due + self._interval
        if due > now:
            await self._clock.sleep(due - now)


class Pause:
    """Holds callers back for as long as it was last extended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def extend(self, seconds: float) -> None:
        """Hold callers back for at least so many seconds from now on."""
        self._until = max(self._until, self._clock.monotonic() + seconds)

    async def wait(self) -> None:
        """Return once the pause is over, including extensions made meanwhile."""
        while (left := self._until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
