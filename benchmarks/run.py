"""Runs one workload: a fresh control plane, a warm-up, the repetitions, the clean-up."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from processes.stack import Stack, installed

from benchmarks import machine
from benchmarks.stage import OPTIONS, Stage, clients
from benchmarks.workload import Result, Sample, Workload, collect
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.real.launcher import RealPlane

Report = Callable[[str], None]

_WARM_UP_SHARE: Final = 10
_WARM_UP_LEAST: Final = 10


def run(workload: Workload, binaries: Binaries, *, size: int, repetitions: int, report: Report) -> Result:
    """Blocks until it is done.  Leaves no process and no file behind, even when it fails."""
    with tempfile.TemporaryDirectory(prefix="tollbar-benchmark-") as directory:
        busy = machine.others()
        if busy > machine.QUIET:
            report(f"{workload.name}: something else keeps {busy:.0%} of this machine busy: the figures will be wrong")
        report(f"{workload.name}: starting a control plane")
        with (
            RealPlane(binaries, Path(directory) / "plane", OPTIONS) as plane,
            installed(plane, Path(directory)) as stack,
        ):
            return asyncio.run(_repeat(workload, stack, size, repetitions, busy, report))


async def _repeat(workload: Workload, stack: Stack, size: int, repetitions: int, busy: float, report: Report) -> Result:
    async with clients(stack) as stage:
        await _turn(workload, stage, max(_WARM_UP_LEAST, size // _WARM_UP_SHARE), 0, report)
        turns = range(1, repetitions + 1)
        samples = [await _turn(workload, stage, size, turn, report) for turn in turns]
        return Result(
            workload=workload.name,
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            machine=await machine.facts(stage, busy),
            size=size,
            repetitions=repetitions,
            values=collect(samples),
        )


async def _turn(workload: Workload, stage: Stage, size: int, turn: int, report: Report) -> Sample:
    began = time.monotonic()
    sample = await workload.measure(stage, size, turn)
    what = f"repetition {turn}" if turn else "warm-up"
    report(f"{workload.name}: {what}, {size} {workload.things}, {time.monotonic() - began:.0f} s")
    return sample
