"""The phase in which metrics are collected: what is read while it lasts, and the figures that this makes."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.processes.watched import Stalls
from benchmarks.schedulerperf.figures import Histogram, Series, throughput
from benchmarks.stage import cpu_seconds
from benchmarks.workload import Row, percentile

RATE = Row("Pods bound, from the first to the last", "Pods/s", digits=0)
AVERAGE = Row("Pods in one second, average", "Pods/s", digits=0)
PERCENTILES: Final = {
    share: Row(f"Pods in one second, p{share:.0f}", "Pods/s", digits=0) for share in (50.0, 90.0, 95.0, 99.0)
}
ATTEMPT = Row("scheduling attempt, mean", "ms", digits=2)
ATTEMPT_P50 = Row("scheduling attempt, p50", "ms", digits=2)
ATTEMPT_P99 = Row("scheduling attempt, p99", "ms", digits=2)
ALGORITHM = Row("scheduling algorithm, mean", "ms", digits=3)
ALGORITHM_P99 = Row("scheduling algorithm, p99", "ms", digits=2)
CPU = Row("CPU of the scheduler, until it rests", "ms/Pod", digits=2)
LAST_CPU = Row("CPU of the scheduler, until the last binding", "ms/Pod", digits=2)
SERVER_CPU = Row("CPU of the API server, until the scheduler rests", "ms/Pod", digits=2)
WRITES = Row("writes of the scheduler, until it rests", "per Pod", digits=2)
EVENTS = Row("of these Events", "per Pod", digits=2)
ALL_CPU = Row("CPU of the scheduler, with its start and first lists", "ms/Pod", digits=2)
START_CPU = Row("CPU of the scheduler until its first binding", "s", digits=2)
RSS = Row("memory of the scheduler, peak RSS", "MiB", digits=0)
HELD_P99 = Row("event loop held, p99", "ms")
HELD = Row("event loop held, longest", "ms")
CPU_HELD_P99 = Row("event loop held, without the wait for a core, p99", "ms")
CPU_HELD = Row("event loop held, without the wait for a core, longest", "ms")

_EVERY: Final = 0.02
_LEAST: Final = 2


class TooShortError(Exception):
    """A phase in which too little has happened."""


@dataclass
class Phase:
    """`times` are those of the bindings that count, sorted; all times are seconds since the epoch.

    `rest` is when the scheduler had written what follows from the bindings, such as Events.
    """

    begin: float
    end: float = 0.0
    rest: float = 0.0
    times: Sequence[float] = ()
    cpu: Series = field(default_factory=lambda: Series((), ()))
    server_cpu: Series = field(default_factory=lambda: Series((), ()))
    attempts: Histogram = field(default_factory=lambda: Histogram({}, 0.0))
    algorithm: Histogram = field(default_factory=lambda: Histogram({}, 0.0))
    writes: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Times of the scheduler's writes, by plural and subresource."""
    peak_rss: float = 0.0
    stalls: Stalls = field(default_factory=lambda: Stalls([], []))


def figures(phase: Phase) -> dict[Row, float]:
    """The figures of a phase; those that the scheduler does not have are left out.  Raises TooShortError."""
    times = phase.times
    if len(times) < _LEAST:
        raise TooShortError(f"{len(times)} Pods were scheduled: too few to measure anything")
    first, last, pods = times[0], times[-1], len(times)
    found = {
        RATE: (pods - 1) / (last - first),
        CPU: phase.cpu.between(first, phase.rest) / pods * 1e3,
        LAST_CPU: phase.cpu.between(first, last) / pods * 1e3,
        SERVER_CPU: phase.server_cpu.between(first, phase.rest) / pods * 1e3,
        ALL_CPU: phase.cpu.at(phase.rest) / pods * 1e3,
        START_CPU: phase.cpu.at(first),
        RSS: phase.peak_rss,
    }
    if samples := throughput(phase.begin, phase.end, times):
        found[AVERAGE] = statistics.mean(samples)
        found |= {row: percentile(samples, share / 100) for share, row in PERCENTILES.items()}
    if phase.attempts.count:
        found[ATTEMPT] = phase.attempts.mean * 1e3
        found[ATTEMPT_P50] = phase.attempts.quantile(0.5) * 1e3
        found[ATTEMPT_P99] = phase.attempts.quantile(0.99) * 1e3
    if phase.algorithm.count:
        found[ALGORITHM] = phase.algorithm.mean * 1e3
        found[ALGORITHM_P99] = phase.algorithm.quantile(0.99) * 1e3
    written = {what: sum(first <= at <= phase.rest for at in ats) for what, ats in phase.writes.items()}
    found[WRITES] = sum(written.values()) / pods
    found[EVENTS] = written.get("events", 0) / pods
    rows = (HELD_P99, HELD), (CPU_HELD_P99, CPU_HELD)
    for (p99, longest), readings in zip(rows, phase.stalls, strict=True):
        if readings:
            found[p99] = percentile(readings, 0.99) * 1e3
            found[longest] = max(readings) * 1e3
    return found


@dataclass
class Meter:
    """CPU of two processes, read again and again while `run` lasts; the first one need not run yet."""

    scheduler: Callable[[], int | None]
    server: int
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.read()
            await asyncio.sleep(_EVERY)

    def read(self) -> None:
        pid = self.scheduler()
        self.times.append(time.time())
        self.cpu.append(0.0 if pid is None else cpu_seconds(pid))
        self.server_cpu.append(cpu_seconds(self.server))
