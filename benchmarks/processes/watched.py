"""The scheduler process, with readings of how long its event loop is held.  The product has no such option.

A reading says how much later than it should a task would be woken that sleeps for a moment, again and again: how long
others have held the loop.  No task sleeps, which would cost a share of the CPU that is measured: the loop tells when it
begins to wait and when it is woken, and the readings follow from that.  They are made twice: by the time, which has the
wait for a core in it, and by a clock that stands still while the loop's thread waits for one in the midst of its work.
Both are appended to files while the scheduler schedules.
"""

import asyncio
import os
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from controllers.scheduler.__main__ import command
from controllers.scheduler.cycle import Scheduler

DIRECTORY: Final = "TOLLBAR_BENCHMARK_STALLS"
"""The environment variable that names the directory of the files."""
_PERIOD: Final = 0.005
_EVERY: Final = 1.0
_MOMENT: Final = 0.0002
"""Seconds that the loop takes at most to find what is ready."""

_run = Scheduler.run


class Stalls(NamedTuple):
    """How long the loop was held at each reading, in seconds: by the time, and without the wait for a core."""

    held: list[float]
    by_cpu: list[float]


_FILES: Final = Stalls._fields


def read(directory: Path, end: float) -> Stalls:
    """The readings that began until a moment (seconds since the epoch)."""
    return Stalls(*(_read(directory / name, end) for name in _FILES))


def _read(file: Path, end: float) -> list[float]:
    if not file.exists():
        return []
    written = file.read_bytes()
    values = array("d", written[: len(written) // 16 * 16])
    return [held for at, held in zip(values[::2], values[1::2], strict=True) if at <= end]


class Held:
    """The readings: pairs of the time at which each was due and how late it would have been, in seconds.

    Of an event loop: `waits` is called when it has run what was ready and looks for more, `wakes` when it has found
    some.  A reading that is due when the loop looks runs with what else is ready, as the last.  `behind` says by
    how many seconds the clock of `now` is behind the time since the epoch.
    """

    def __init__(self, now: float) -> None:
        self.readings = array("d")
        self.behind = 0.0
        self._due = now + _PERIOD
        self._is_ready = False
        self._looked_at = now

    def waits(self, now: float) -> None:
        if self._is_ready:
            self._read(now)
        self._is_ready = self._due <= now
        self._looked_at = now

    def wakes(self, now: float) -> None:
        if self._is_ready and now - self._looked_at > _MOMENT:  # nothing else was ready
            self._read(self._looked_at)
            self._is_ready = False
        while not self._is_ready and self._due <= now:
            self._read(self._due)

    def _read(self, now: float) -> None:
        self.readings.extend((self._due + self.behind, now - self._due))
        self._due = now + _PERIOD


class Watch:
    """The readings of a loop by both clocks, and the files for them."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        now = time.time()
        self._held, self._by_cpu = Held(now), Held(now)
        self._files = [directory / name for name in _FILES]
        self._idle = now - time.thread_time()
        """The second clock is this and the CPU of the thread."""

    def over(self, select: Callable[..., Any]) -> Callable[..., Any]:
        """The selector's method, with a look at the clocks before and after."""

        def watched(timeout: float | None = None) -> Any:
            now, cpu = time.time(), time.thread_time()
            self._held.waits(now)
            self._by_cpu.waits(self._own(now, cpu))
            if len(self._held.readings) >= 2 * _EVERY / _PERIOD:
                self.save()
            happened = select(timeout)
            woken, cpu_then = time.time(), time.thread_time()
            if timeout != 0:
                self._idle += woken - now - (cpu_then - cpu)
            self._held.wakes(woken)
            self._by_cpu.wakes(self._own(woken, cpu_then))
            return happened

        return watched

    def save(self) -> None:
        for held, file in zip((self._held, self._by_cpu), self._files, strict=True):
            with file.open("ab") as out:
                held.readings.tofile(out)
            del held.readings[:]

    def _own(self, now: float, cpu: float) -> float:
        own = self._idle + cpu
        self._by_cpu.behind = now - own
        return own


async def _watched(self: Scheduler) -> None:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    select: Callable[..., Any] = selector.select
    watch = Watch(Path(os.environ[DIRECTORY]))
    selector.select = watch.over(select)
    try:
        await _run(self)
    finally:
        selector.select = select
        watch.save()


if __name__ == "__main__":
    Scheduler.run = _watched  # type: ignore[method-assign]
    sys.exit(command())
