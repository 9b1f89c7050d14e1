"""Clocks that tests move by hand, and clocks on which nobody waits.

Where nothing else is said, sleeping on them is sleeping on the event loop.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import looptime
from objects.builders import CREATED

from tollbar.runtime.clock import SystemClock

T = TypeVar("T")
EPOCH = 1_800_000_000.0


class Aged(SystemClock):
    """Wall time: `age` seconds after what `objects.builders` makes was created."""

    def __init__(self, age: float = 1.0) -> None:
        self.age = age

    def now(self) -> float:
        return CREATED + self.age


class Hand(SystemClock):
    """Monotonic time: so many `seconds`."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class LoopClock(SystemClock):
    """Wall time is the event loop's as well, which may be fake: it starts at `EPOCH`, and is off by `skew` seconds."""

    def __init__(self, skew: float = 0.0) -> None:
        self.skew = skew

    def now(self) -> float:
        return EPOCH + self.skew + self.monotonic()


class InstantClock:
    """Sleeping takes no time: it is written down, and `time` is later afterwards.

    Wall time is ahead of monotonic time by `wall` seconds.
    """

    def __init__(self, time: float = 1000.0, wall: float = 0.0) -> None:
        self.time = time
        self.wall = wall
        self.slept: list[float] = []

    def now(self) -> float:
        return self.wall + self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.time += seconds
        await asyncio.sleep(0)


def in_fake_time(main: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop in which time passes at once when nobody has anything to do."""
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0, noop_cycles=1)) as runner:
        return runner.run(main)
