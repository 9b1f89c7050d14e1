"""`python -m benchmarks [WORKLOAD...]`: measure, print, and record; see docs/performance.md."""

import sys
from typing import Any

import click
from rich.console import Console

from benchmarks import report
from benchmarks.run import run
from benchmarks.schedulerperf import command as schedulerperf
from benchmarks.schedulerperf.report import section
from benchmarks.schedulerperf.sets import SETS
from benchmarks.workload import Workload
from benchmarks.workloads import (
    admission,
    allocate,
    cache,
    cel,
    claims,
    cycle,
    devices,
    footprint,
    simulate,
    ungate,
    wakeup,
)
from tollbar.cli import console
from tollbar.devplane.real.build import locate
from tollbar.runtime import collector

WORKLOADS = {
    each.name: each
    for each in (
        ungate.WORKLOAD,
        admission.WORKLOAD,
        wakeup.WORKLOAD,
        cache.WORKLOAD,
        claims.WORKLOAD,
        cel.WORKLOAD,
        allocate.WORKLOAD,
        devices.WORKLOAD,
        cycle.WORKLOAD,
        footprint.WORKLOAD,
        simulate.WORKLOAD,
    )
}
REPETITIONS = 3
_WIDTH = 150
"""Columns where there is no terminal to ask."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...", type=click.Choice([*WORKLOADS, schedulerperf.NAME]))
@click.option("-n", "--repetitions", type=click.IntRange(min=1), default=REPETITIONS, show_default=True)
@click.option("--pods", type=click.IntRange(min=1), help="Pods, or wake-ups, in each repetition.")
@click.option("--report", "only_report", is_flag=True, help="Measure nothing; write docs/performance.md anew.")
@click.option("-w", "--case", "cases", multiple=True, help="schedule: this workload of scheduler_perf; repeatable.")
@click.option("--nodes", type=click.Choice([*SETS]), default="500", show_default=True, help="schedule: which set.")
@click.option("--peer", "peers", multiple=True, help="schedule: only columns whose names have this in them.")
@click.option("--live", is_flag=True, help="schedule: create the Pods while the scheduler runs.")
@click.option("--list", "only_list", is_flag=True, help="schedule: measure nothing; say what cannot be run, and why.")
def main(workloads: tuple[str, ...], repetitions: int, pods: int | None, only_report: bool, **schedule: Any) -> None:
    """Measure workloads (all but `schedule`, unless some are named) on a real control plane that is started for each.

    A run with fewer repetitions or another number of Pods than usual is only printed; any other one is recorded in
    benchmarks/results and in docs/performance.md.
    """
    if only_report:
        _write_document()
        return
    collector.tune()  # what is measured in this process runs as in Tollbar's own
    with console.terminable():
        for name in workloads or WORKLOADS:
            if name == schedulerperf.NAME:
                records = repetitions >= REPETITIONS and pods is None
                schedulerperf.run(repetitions=repetitions, pods=pods, records=records, **schedule)
                _write_document()
            else:
                _measure(WORKLOADS[name], repetitions, pods)


def _measure(workload: Workload, repetitions: int, pods: int | None) -> None:
    binaries = locate(report=console.say)
    size = pods or workload.size
    result = run(workload, binaries, size=size, repetitions=repetitions, report=console.say)
    out = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    out.print(report.table(workload, result))
    if repetitions < REPETITIONS or size != workload.size:
        console.say("not recorded: fewer repetitions or another number of Pods than usual")
        return
    console.say(f"recorded in {report.save(result)}")
    _write_document()


def _write_document() -> None:
    report.DOCUMENT.write_text(report.document([(each, report.load(each)) for each in WORKLOADS.values()], section()))


if __name__ == "__main__":
    main()
