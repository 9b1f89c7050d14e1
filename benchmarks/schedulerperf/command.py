"""`python -m benchmarks schedule`: which workloads, of whom, how often; and what cannot be run."""

import sys
from collections.abc import Sequence
from typing import Final

import click
from rich.console import Console

from benchmarks import report
from benchmarks.schedulerperf import files
from benchmarks.schedulerperf.executor import WorkloadError
from benchmarks.schedulerperf.operations import Refused
from benchmarks.schedulerperf.peers import COLUMNS, RAISED, TOLLBAR
from benchmarks.schedulerperf.report import record, sheet
from benchmarks.schedulerperf.run import Runner
from benchmarks.schedulerperf.sets import SETS
from tollbar.cli import console
from tollbar.devplane.real.build import locate

NAME: Final = "schedule"
_WIDTH: Final = 170


def run(
    *,
    cases: Sequence[str],
    nodes: str,
    peers: Sequence[str],
    repetitions: int,
    pods: int | None,
    live: bool,
    only_list: bool,
    records: bool,
) -> None:
    """Measure the workloads named, or else the set for so many Nodes.  One that fails or is refused stops no other."""
    try:
        known = files.load(files.locate(console.say))
    except Refused as error:
        raise click.ClickException(str(error)) from error
    refused = files.refused(known)
    if only_list:
        for name, reason in refused.items():
            click.echo(f"{name}: {reason}")
        console.say(f"recorded in {record(refused=refused)}")
        return
    columns = [column for column in COLUMNS if not peers or any(part in column for part in peers)]
    records = records and not live and {RAISED, TOLLBAR} <= {*columns}
    runner = Runner(locate(report=console.say), columns, repetitions, live, console.say)
    failed: dict[str, str] = {}
    for name in cases or SETS[nodes]:
        try:
            chosen = files.choose(known, f"{name},measurePods={pods}" if pods else name)
            result = runner.run(chosen)
        except (Refused, WorkloadError) as error:
            failed[name] = str(error)
            console.say(f"{name}: {error}")
            continue
        out = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
        out.print(report.table(sheet(result), result))
        if records:
            console.say(f"recorded in {record(result, refused=refused)}")
    if not records:
        console.say("not recorded: fewer repetitions, other Pods or not both schedulers")
    if failed:
        raise click.ClickException("not measured: " + "; ".join(f"{name}: {why}" for name, why in failed.items()))
