"""Readings of how long an event loop is held, made from when it waits and when it is woken."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.processes import watched
from benchmarks.processes.watched import Held

HELD: dict[str, tuple[Sequence[tuple[float, float]], Sequence[tuple[float, float]]]] = {
    "it waits all the time": ([(0, 16)], [(5, 0), (10, 0), (15, 0)]),
    "it runs and waits": ([(1, 2), (3, 7), (8, 11)], [(5, 0), (10, 0)]),
    "what is due runs after what it waits for, where there is nothing else": ([(8, 20)], [(5, 3), (13, 0), (18, 0)]),
    "what is due runs with what else is ready, as the last": ([(8, 8), (14, 16)], [(5, 9)]),
    "what becomes due meanwhile runs once": ([(3, 3), (30, 30), (32, 33)], [(5, 27)]),
}
"""When the loop looks for something to run and when it has found it, from 0 on, and the readings; in milliseconds."""


@pytest.mark.parametrize(("looks", "want"), HELD.values(), ids=HELD)
def test_how_late_readings_would_be(looks: Sequence[tuple[float, float]], want: Sequence[tuple[float, float]]) -> None:
    held = Held(0.0)
    for waits, wakes in looks:
        held.waits(waits / 1e3)
        held.wakes(wakes / 1e3)

    found = list(zip(held.readings[::2], held.readings[1::2], strict=True))
    assert [(round(due * 1e3, 6), round(late * 1e3, 6)) for due, late in found] == [*want]


async def test_an_event_loop_that_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_scheduler: object) -> None:
        await asyncio.sleep(0.03)
        time.sleep(0.2)  # noqa: ASYNC251
        await asyncio.sleep(0.03)
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0.03)

    monkeypatch.setenv(watched.DIRECTORY, str(tmp_path / "stalls"))
    monkeypatch.setattr(watched, "_run", run)
    scheduler: object = None
    await watched._watched(scheduler)  # type: ignore[arg-type]

    found = watched.read(tmp_path / "stalls", time.time())
    assert max(found.held) > 0.19
    assert 0.04 < max(found.by_cpu) < 0.19
    assert min(map(len, found)) >= 4
    assert watched.read(tmp_path / "stalls", 0.0) == ([], [])
