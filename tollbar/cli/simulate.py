"""`tollbar simulate`: what would happen to the Pods in these files.

The simulation (`tollbar.cli.simulation`) begins with a copy of a cluster, or with the objects in the files.  It writes
to no cluster.
"""

import sys
from pathlib import Path
from typing import Any, Literal

import click
import orjson

from tollbar.api import durations
from tollbar.cli import clusterdump, console, dump, inputs
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.manifests import Unreadable
from tollbar.cli.page import rendering, simulated
from tollbar.cli.page.simulated import Ended
from tollbar.cli.page.values import Page
from tollbar.cli.simulation import report
from tollbar.cli.simulation.plan import Plan, plan
from tollbar.cli.simulation.playing import MAX_COPIES, Outcome, play
from tollbar.cli.simulation.records import Records
from tollbar.model import timestamps
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.resources import LEASES
from tollbar.model.texts import counted
from tollbar.offline import Cluster
from tollbar.runtime.clock import SystemClock
from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.plugins import registry


class _Replicas(click.ParamType[int]):
    """A number of copies, 0 for as many as fit."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text == "max":
            return 0
        if not text.isdecimal() or not 0 < int(text) <= MAX_COPIES:
            self.fail(f"{text!r} is neither a number up to {MAX_COPIES} nor max", param, ctx)
        return int(text)


class _Until(click.ParamType[float]):
    """A duration in seconds, below 0 for `settled`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == "settled" or isinstance(value, float):
            return -1.0 if value == "settled" else float(value)
        try:
            return durations.parse(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither settled nor a duration such as 30s", param, ctx)


@click.command("simulate")
@click.option(
    "-f",
    "--filename",
    "names",
    multiple=True,
    required=True,
    metavar="FILE|DIRECTORY",
    help="Manifests of what would be created, with all that it needs; `-` is standard input.  Repeatable.",
)
@inputs.namespace_option
@click.option(
    "--cluster", "base", type=click.Path(path_type=Path), metavar="DUMP", help="A cluster, from `tollbar dump`."
)
@click.option("--live", is_flag=True, help="The cluster of the kubeconfig, as it is now.")
@console.cluster_options
@click.option(
    "--replicas",
    type=_Replicas(),
    metavar="N|max",
    help="How many Pods of each, instead of what the files say; max: as many as fit.",
)
@click.option(
    "--without-node",
    "without",
    multiple=True,
    metavar="NAME",
    help="Remove this Node: the Pods on it that have a controller are created again.  `*` stands for any"
    " characters.  Repeatable.",
)
@click.option(
    "--with-rule",
    "rules",
    multiple=True,
    metavar="FILE",
    help="TolerationRules to try, as if they were in the cluster.  Repeatable.",
)
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A KubeSchedulerConfiguration.  Default: that of kube-scheduler, for Pods of default-scheduler.",
)
@click.option(
    "--until",
    type=_Until(),
    default="settled",
    show_default=True,
    metavar="settled|DURATION",
    help="When the simulation ends: once nothing more happens, or after this much simulated time.",
)
@click.option(
    "--explain",
    "record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write what the scheduler has tried to this file, as kube-scheduler-simulator's web page imports it.",
)
@rendering.option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result; wide has each Pod, with tolerations and claims.",
)
def command(
    names: tuple[str, ...],
    namespace: str,
    base: Path | None,
    live: bool,
    cluster: console.Cluster,
    replicas: int | None,
    without: tuple[str, ...],
    rules: tuple[str, ...],
    scheduler_config: Path | None,
    until: float,
    record: Path | None,
    html: Path | None,
    output: Literal["table", "wide", "json", "yaml"],
) -> None:
    """Show what would happen to the Pods in these files: tolerations, claims, Node and devices.

    The webhook's decision, the controllers and the scheduler are those of production. They run on a copy of a cluster
    in memory: of the dump in --cluster, of the cluster of the kubeconfig with --live, or of a cluster that has only
    what is in the files. Objects other than Pods are created first. Of Deployments, StatefulSets, Jobs and other
    workloads the Pods are simulated. Simulated time passes at once. Nothing is written to any cluster.

    Exit code 0: every Pod has a Node, or --replicas max was asked, 1: some have none, 2: something cannot be read or
    written.
    """
    if base is not None and live:
        raise click.UsageError("--cluster and --live are two clusters: give one")
    files = inputs.read([*names, *rules], sys.stdin, namespace, needed=not without)
    known = clusterdump.read(base) if base is not None else console.run(_live(cluster), Unreadable) if live else None
    start = timestamps.parse(known.taken) if known is not None and known.taken else SystemClock().now() // 1
    wanted = plan(files, known, without, start)
    if not wanted.new and not wanted.moved:
        places = (f"{each.file}:{each.line('')}: {each.obj['kind']} {key_of(each.obj)}" for each in files)
        first = next(places, ", ".join(names))
        raise Unreadable(f"{first}: no Pod, and no workload, which would make one")
    for line in wanted.notes:
        console.say(line)
    for why in wanted.unread.values():
        console.say(f"not read: {why}")
    if known is not None:
        dump.warn(wanted.objects)
    records = Records() if record is not None else None
    scheduler = _configured(scheduler_config)
    seconds = None if until < 0 else until
    try:
        outcome = play(wanted, scheduler, replicas, seconds, records, for_page=html is not None)
    except ConfigError as error:
        raise _refused(scheduler_config, error) from None
    if record is not None and records is not None:
        with console.writing(record):
            record.write_bytes(orjson.dumps(outcome.snapshot))
        if records.notice:
            console.say(f"{record}: {records.notice}")
    if html is not None:
        rendering.write(html, page_of(outcome, wanted, scheduler))
        console.say(f"{html}: written")
    _print(outcome, wanted, output)
    if replicas != 0 and any(each.pending for each in outcome.results):
        raise click.exceptions.Exit(1)


async def _live(cluster: console.Cluster) -> ClusterDump:
    async with console.connected(cluster, "simulate") as client:
        with console.reading() as progress:
            return await dump.take(client, SystemClock(), progress)


def _configured(path: Path | None) -> SchedulerConfiguration:
    try:
        return registry.configuration(registry.ONLY_SCHEDULER if path is None else path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path}: not text in UTF-8") from None
    except ConfigError as error:
        raise _refused(path, error) from None


def _refused(path: Path | None, error: ConfigError) -> Unreadable:
    """A configuration that the scheduler, or one of its plugins, does not take."""
    return Unreadable(f"{path}: {str(error).splitlines()[0]}")


def page_of(outcome: Outcome, wanted: Plan, scheduler: SchedulerConfiguration) -> Page:
    """Of an outcome that was made for a page."""
    assert outcome.seen is not None  # noqa: S101
    copy = copy_of(outcome, wanted, scheduler)
    ended = Ended(outcome.results, outcome.victims, outcome.end, outcome.seconds, outcome.fitting, copy, outcome.seen)
    notes = [*wanted.notes, *(f"Not read: {why}" for why in wanted.unread.values())]
    return simulated.page(ended, notes)


def copy_of(outcome: Outcome, wanted: Plan, scheduler: SchedulerConfiguration) -> Cluster:
    """The simulated cluster at the end, of an outcome that was made for a page."""
    now = wanted.start + outcome.seconds
    copy = Cluster(
        outcome.objects,
        unknown=wanted.unread,
        unserved=wanted.unserved,
        now=now,
        scheduler_configuration=scheduler,
    )
    copy.put(_lease(copy, now))
    return copy


def _lease(copy: Cluster, now: float) -> Object:
    """That of the controllers, which run in the simulation."""
    election = copy.configuration.leader_election
    return {
        **LEASES.type_meta,
        "metadata": {"name": election.lease_name, "namespace": copy.configuration.system_namespace},
        "spec": {"holderIdentity": "simulated", "leaseDurationSeconds": 15, "renewTime": timestamps.micro_time(now)},
    }


def _print(outcome: Outcome, wanted: Plan, output: Literal["table", "wide", "json", "yaml"]) -> None:
    results = outcome.results
    with_node = sum(not each.pending for each in results)
    data = {
        "end": outcome.end,
        "seconds": round(outcome.seconds, 3),
        "fit": outcome.fit,
        "pods": [each.data() for each in results],
        "preempted": [{**key_of(each)._asdict(), "node": spec(each).get("nodeName")} for each in outcome.victims],
        "unread": wanted.unread,
    }
    format_: console.Output = "table" if output == "wide" else output
    console.emit(report.rows(results, wide=output == "wide"), data, format_)
    for victim in outcome.victims:
        console.say(report.lost(victim))
    if outcome.fitting:
        console.say(f"{outcome.fitting} fit")
    how = f"{outcome.end} after {outcome.seconds:.0f}s"
    console.say(f"{counted(len(results), 'Pod')}, {with_node} with a Node, {len(results) - with_node} without; {how}")
