"""The parts of the stage that need no control plane."""

import asyncio
from pathlib import Path

from benchmarks.stage import Tail, in_parallel
from tollbar.devplane.audit import AuditLog


async def test_work_is_done_in_order_and_so_much_at_one_time() -> None:
    running: list[int] = []
    seen: list[tuple[int, ...]] = []

    async def work(item: int) -> None:
        running.append(item)
        await asyncio.sleep(0)
        seen.append(tuple(running))
        running.remove(item)

    await in_parallel(range(4), work, at_once=2)
    assert seen == [(0, 1), (1, 2), (2, 3), (3,)]


def test_a_tail_begins_now_and_leaves_what_is_half_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_text('{"verb": "before"}\n')
    tail = Tail(log)
    reads = []
    for written in ("", '{"verb": "patch"}\n{"verb": "cre', 'ate"}\n'):
        with log.path.open("a") as file:
            file.write(written)
        reads.append([record.verb for record in tail.read()])
    assert reads == [[], ["patch"], ["create"]]
