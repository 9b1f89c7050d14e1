"""The scheduler process, with readings of how long its event loop is held.  The product has no such option.

As long as it schedules, a task sleeps for a moment, again and again.  How much later than that it is woken is how long
others have held the loop, the wait for a core included.  The readings are appended to the file that the environment
variable `FILE` names.
"""

import asyncio
import os
import sys
import time
from array import array
from pathlib import Path
from typing import Final

from controllers.scheduler.__main__ import command
from controllers.scheduler.cycle import Scheduler

FILE: Final = "TOLLBAR_BENCHMARK_STALLS"
_PERIOD: Final = 0.005
_EVERY: Final = 1.0

_run = Scheduler.run


def read(file: Path, end: float) -> list[float]:
    """How long the loop was held at each reading that began until a moment (seconds since the epoch), in seconds."""
    if not file.exists():
        return []
    written = file.read_bytes()
    values = array("d", written[: len(written) // 16 * 16])
    return [held for at, held in zip(values[::2], values[1::2], strict=True) if at <= end]


async def _watch(file: Path) -> None:
    readings = array("d")
    written = time.monotonic()
    with file.open("ab", buffering=0) as out:
        try:
            while True:
                began, before = time.time(), time.monotonic()
                await asyncio.sleep(_PERIOD)
                now = time.monotonic()
                readings.extend((began, max(0.0, now - before - _PERIOD)))
                if now - written >= _EVERY:
                    readings.tofile(out)
                    del readings[:]
                    written = now
        finally:
            readings.tofile(out)


async def _watched(self: Scheduler) -> None:
    watch = asyncio.create_task(_watch(Path(os.environ[FILE])))
    try:
        await _run(self)
    finally:
        watch.cancel()


if __name__ == "__main__":
    Scheduler.run = _watched  # type: ignore[method-assign]
    sys.exit(command())
