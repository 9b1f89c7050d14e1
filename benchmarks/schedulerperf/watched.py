"""The scheduler process, with readings of how long its event loop is held.  The product has no such option.

A reading says how much later than it should a task would be woken that sleeps for a moment, again and again: how long
others have held the loop, the wait for a core included.  No task sleeps, which would cost a share of the CPU that is
measured: the loop tells when it begins to wait and when it is woken, and the readings follow from that.  They are
appended to the file that the environment variable `FILE` names, while the scheduler schedules.
"""

import asyncio
import os
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from controllers.scheduler.__main__ import command
from controllers.scheduler.cycle import Scheduler

FILE: Final = "TOLLBAR_BENCHMARK_STALLS"
_PERIOD: Final = 0.005
_EVERY: Final = 1.0
_MOMENT: Final = 0.0002
"""Seconds that the loop takes at most to find what is ready."""

_run = Scheduler.run


def read(file: Path, end: float) -> list[float]:
    """How long the loop was held at each reading that began until a moment (seconds since the epoch), in seconds."""
    if not file.exists():
        return []
    written = file.read_bytes()
    values = array("d", written[: len(written) // 16 * 16])
    return [held for at, held in zip(values[::2], values[1::2], strict=True) if at <= end]


class Held:
    """The readings: pairs of the time at which each was due and how late it would have been, in seconds.

    Of an event loop: `waits` is called when it has run what was ready and looks for more, `wakes` when it has found
    some.  A reading that is due when the loop looks runs with what else is ready, as the last.
    """

    def __init__(self, now: float) -> None:
        self.readings = array("d")
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
        self.readings.extend((self._due, now - self._due))
        self._due = now + _PERIOD


async def _watched(self: Scheduler) -> None:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    select: Callable[..., Any] = selector.select
    with Path(os.environ[FILE]).open("ab", buffering=0) as out:  # noqa: ASYNC230
        held = Held(time.time())

        def watch(timeout: float | None = None) -> Any:
            held.waits(time.time())
            if len(held.readings) >= 2 * _EVERY / _PERIOD:
                held.readings.tofile(out)
                del held.readings[:]
            happened = select(timeout)
            held.wakes(time.time())
            return happened

        selector.select = watch
        try:
            await _run(self)
        finally:
            selector.select = select
            held.readings.tofile(out)


if __name__ == "__main__":
    Scheduler.run = _watched  # type: ignore[method-assign]
    sys.exit(command())
