"""`tollbar simulate`: what would become of the Pods in these files.

The simulation (`tollbar.cli.simulation`) begins with a copy of a cluster, or with what the files bring.  It writes to
no cluster.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal

import click
import orjson
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from controllers.scheduler.cycle import Attempt
from tollbar import wellknown
from tollbar.api import durations
from tollbar.cli import clusterdump, console, dump, inputs
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.expansion import expand
from tollbar.cli.manifests import Located, Unreadable
from tollbar.cli.page import rendering, simulated
from tollbar.cli.page.simulated import Ended
from tollbar.cli.page.values import Page
from tollbar.cli.simulation import report
from tollbar.cli.simulation.cluster import End, SimulatedCluster, Story
from tollbar.cli.simulation.loop import VirtualLoop
from tollbar.cli.simulation.records import Records
from tollbar.cli.simulation.report import Result
from tollbar.cli.simulation.verdicts import Seen
from tollbar.decide.pods import justification, tolerations
from tollbar.model import pods, timestamps
from tollbar.model.objects import Key, Object, annotations_of, controller_of, key_of, labels_of, metadata, spec
from tollbar.model.resources import LEASES, NAMESPACES, NODES, PODS, RESOURCE_SLICES
from tollbar.offline import Cluster
from tollbar.runtime.clock import SystemClock
from tollbar.scheduler.algorithm import Scheduled
from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.status import Status
from tollbar.scheduler.plugins import registry

_MOST: Final = 10_000
"""Copies of which `--replicas max` tries no more."""
_BATCH: Final = 1024
"""Copies that it tries at a time, at most."""


class _Replicas(click.ParamType[int]):
    """A number of copies, 0 for as many as fit."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text == "max":
            return 0
        if not text.isdecimal() or not 0 < int(text) <= _MOST:
            self.fail(f"{text!r} is neither a number up to {_MOST} nor max", param, ctx)
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


@dataclass(slots=True)
class Plan:
    """What a simulation begins with: `objects` that are there, and what is created then, each with what it is called.

    `moved` are Pods that were on Nodes which are gone, `new` are Pods and workloads of the files.  `unread` has, by
    kind, why the cluster's objects of that kind are not known.  `unserved` are the kinds that its API server serves in
    no version that is read; one that the files bring is none of them.
    """

    objects: list[Object]
    new: list[tuple[str, Object]]
    start: float
    moved: list[tuple[str, Object]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    unserved: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`fit` is how many copies fit, if that was asked; `snapshot` is what was tried, if that was recorded.

    `objects` are those of the simulated cluster at the end, and `seen` what was found of its Nodes, if a page is made.
    """

    results: tuple[Result, ...]
    victims: tuple[Object, ...]
    end: End
    seconds: float
    fit: int | None = None
    snapshot: Object | None = None
    objects: tuple[Object, ...] = ()
    seen: Seen | None = None

    @property
    def fitting(self) -> str:
        """How many copies fit; empty if that was not asked."""
        if self.fit is None:
            return ""
        return f"{self.fit}{' or more' if self.fit >= _MOST else ''}"


def plan(files: Sequence[Located], base: ClusterDump | None, without: Sequence[str], start: float) -> Plan:
    """What to simulate.  Raises UsageError for a Node that does not exist, Unreadable for what is there twice."""
    once = set()
    known = {(obj["kind"], key_of(obj)): obj for obj in (base.items if base is not None else ())}
    made = Plan([], [], start, unread=dict(base.unread) if base is not None else {})
    for located in files:
        obj = located.obj
        if obj["kind"] == "DaemonSet":
            made.notes.append(f"DaemonSet {key_of(obj)}: passed over; Tollbar leaves its Pods alone")
        elif obj["kind"] in inputs.WORKLOADS or (obj["kind"] == PODS.kind and not pods.is_bound(obj)):
            title = f"{obj['kind']} {key_of(obj)}".rstrip("/")
            if key_of(obj).name and title in once:
                raise Unreadable(f"{located.file}:{located.line('')}: {title}: is in the files twice")
            once.add(title)
            made.new.append((title, obj))
        else:
            known[obj["kind"], key_of(obj)] = {**obj, "metadata": {"generation": 1, **metadata(obj)}}
    for kind, count in Counter(kind for kind, _ in known if kind in inputs.OF_GATE_CLASSES).items():
        of_kind = f"{count} {kind}{'' if count == 1 else 's'}"
        made.notes.append(f"{of_kind} passed over: no gate class decides in a simulation")
    made.moved = _without(known, without)
    made.objects = list(known.values())
    made.unserved = frozenset(base.unserved if base is not None else ()) - {obj["kind"] for obj in made.objects}
    namespaces = {key_of(obj).name for kind, obj in ((o["kind"], o) for o in made.objects) if kind == NAMESPACES.kind}
    for name in sorted({key_of(obj).namespace for _, obj in (*made.new, *made.moved)} - namespaces):
        label = {"kubernetes.io/metadata.name": name}
        made.objects.append({**NAMESPACES.type_meta, "metadata": {"name": name, "labels": label}})
        if base is not None:
            made.notes.append(f"namespace {name} is not in the cluster: simulated without labels")
    return made


def _without(known: dict[Any, Object], names: Sequence[str]) -> list[tuple[str, Object]]:
    """Take these Nodes away with their devices and Pods; the Pods that somebody would create again, as `Plan.moved`."""
    nodes = {key_of(obj).name: obj for obj in known.values() if obj["kind"] == NODES.kind}
    for name in names:
        if not any(fnmatchcase(node, name) for node in nodes):
            raise click.UsageError(f"there is no Node {name}")
    gone = {node for node in nodes if any(fnmatchcase(node, name) for name in names)}
    moved = []
    for key, obj in list(known.items()):
        node = spec(obj).get("nodeName")
        if obj["kind"] == NODES.kind and key_of(obj).name in gone:
            del known[key]
        elif obj["kind"] in (RESOURCE_SLICES.kind, PODS.kind) and node in gone:
            del known[key]
            is_made_again = controller_of(obj) is not None and not pods.is_daemon(obj) and not pods.is_mirror(obj)
            if obj["kind"] == PODS.kind and is_made_again and not pods.is_terminal(obj):
                moved.append((f"moved from {node}", _again(obj, labels_of(nodes[node]))))
    return moved


def _again(pod: Object, node_labels: Mapping[str, str]) -> Object:
    """The Pod as its controller would create it again: without Node and status, and without what was added to it.

    Added were the labels that the API server copied from its Node, and what Tollbar gave.
    """
    copied = pods.topology_labels(node_labels).items()
    bare = tolerations.without_recorded(pod, [each.toleration for each in justification.given(pod)])
    meta = {name: value for name, value in metadata(pod).items() if name not in ("uid", "creationTimestamp")}
    meta["labels"] = {
        name: value
        for name, value in labels_of(pod).items()
        if name != wellknown.LABEL_GATE and (name, value) not in copied
    }
    meta["annotations"] = {
        name: value for name, value in annotations_of(pod).items() if name != wellknown.ANNOTATION_PROVENANCE
    }
    body = {name: value for name, value in spec(bare).items() if name != "nodeName"}
    return {**PODS.type_meta, "metadata": meta, "spec": body}


async def simulate(
    loop: VirtualLoop,
    wanted: Plan,
    scheduler: SchedulerConfiguration,
    *,
    replicas: int | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    records: Records | None = None,
    for_page: bool = False,
) -> Outcome:
    """Play it on this loop, which runs.  `replicas` of 0 is as many as fit; `seconds` of None until it is settled."""
    task = progress.add_task("Pods with a Node", total=None) if progress is not None else None

    def on_progress() -> None:
        if progress is not None and task is not None:
            progress.update(task, advance=1, total=len(cluster.stories))

    origins: dict[Key, str] = {}
    seen = Seen(origins.get) if for_page else None

    def observe(attempt: Attempt, result: Scheduled | FitError | Status) -> None:
        for each in (records, seen):
            if each is not None:
                each(attempt, result)

    cluster = SimulatedCluster(
        loop,
        start=wanted.start,
        scheduler=scheduler,
        unserved=wanted.unserved,
        on_progress=on_progress,
        observe=observe,
    )
    cluster.put(wanted.objects)

    def create(given: Sequence[tuple[str, Object]], count: int | None, first: int = 0) -> list[Story]:
        stories = []
        for origin, obj in given:
            made = expand(obj, count)
            if not first:
                cluster.put(made.objects)
            for pod in made.pods[first:]:
                origins[key_of(pod)] = origin
                stories.append(cluster.create(pod))
        return stories

    fit: int | None = None
    async with cluster.running():
        create(wanted.moved, None)
        if replicas == 0:
            copies: list[Story] = []
            done, batch = 0, 1
            while True:
                copies += create(wanted.new, done + batch, done)
                end = await cluster.settle(seconds)
                done += batch
                if done >= _MOST or not all(story.has_node for story in copies):
                    break
                batch = min(2 * batch, _BATCH, _MOST - done)
            fit = sum(story.has_node for story in copies)
        else:
            create(wanted.new, replicas)
            end = await cluster.settle(seconds)
        found = tuple(report.result(cluster, story, origins[key]) for key, story in cluster.stories.items())
    profiles = [each.scheduler_name for each in scheduler.profiles]
    snapshot = records.snapshot(cluster.api.all, profiles) if records is not None else None
    objects = tuple(cluster.api.everything()) if for_page else ()
    return Outcome(found, tuple(cluster.victims), end, cluster.now, fit, snapshot, objects, seen)


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
    help="So many Pods of each, in the place of what the files say; max for as many as fit.",
)
@click.option(
    "--without-node",
    "without",
    multiple=True,
    metavar="NAME",
    help="As if this Node were gone: the Pods on it that have a controller are created again.  `*` stands for any"
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
    help="When to look: once nothing is left to happen, or after so much simulated time.",
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
    """Say what would become of the Pods in these files: tolerations, claims, Node and devices.

    The webhook's decision, the controllers and the scheduler are those of production. They run on a copy of a cluster
    in memory: the one in --cluster, the one that answers with --live, or one that has only what is in the files. What
    the files bring besides Pods is there first. Deployments, StatefulSets, Jobs and other workloads stand for their
    Pods. Simulated time passes at once. Nothing is written to any cluster.

    Exit code 0: every Pod has a Node, or --replicas max was asked, 1: some have none, 2: something cannot be read.
    """
    if base is not None and live:
        raise click.UsageError("--cluster and --live are two clusters: give one")
    try:
        files = inputs.read([*names, *rules], sys.stdin, namespace, needed=not without)
        known = clusterdump.read(base) if base is not None else console.run(_live(cluster)) if live else None
        start = timestamps.parse(known.taken) if known is not None and known.taken else SystemClock().now() // 1
        wanted = plan(files, known, without, start)
    except Unreadable as error:
        console.say(f"Error: {error}")
        raise click.exceptions.Exit(2) from None
    if not wanted.new and not wanted.moved:
        places = (f"{each.file}:{each.line('')}: {each.obj['kind']} {key_of(each.obj)}" for each in files)
        first = next(places, ", ".join(names))
        console.say(f"Error: {first}: no Pod, and no workload, which would make one")
        raise click.exceptions.Exit(2)
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
        console.say(f"Error: {scheduler_config}: {str(error).splitlines()[0]}")
        raise click.exceptions.Exit(2) from None
    if record is not None and records is not None:
        _write(record, outcome.snapshot)
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
        return registry.configuration(registry.ALONE if path is None else path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        console.say(f"Error: {path}: {getattr(error, 'strerror', None) or 'not text in UTF-8'}")
    except ConfigError as error:
        console.say(f"Error: {path}: {str(error).splitlines()[0]}")
    raise click.exceptions.Exit(2)


def _write(target: Path, snapshot: Object | None) -> None:
    try:
        target.write_bytes(orjson.dumps(snapshot))
    except OSError as error:
        raise click.ClickException(f"cannot write {target}: {error.strerror}") from error


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


def play(
    wanted: Plan,
    scheduler: SchedulerConfiguration,
    replicas: int | None = None,
    seconds: float | None = None,
    records: Records | None = None,
    *,
    for_page: bool = False,
) -> Outcome:
    """The outcome of a simulation on a loop of its own."""
    loop = VirtualLoop()
    with (
        _without_warnings(),
        console.terminable(),
        _progress() as progress,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        playing = simulate(
            loop,
            wanted,
            scheduler,
            replicas=replicas,
            seconds=seconds,
            progress=progress,
            records=records,
            for_page=for_page,
        )
        return runner.run(playing)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """What controllers warn of is in the outcome."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """On a terminal alone."""
    terminal = console.stderr()
    if not console.is_watched(terminal):
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True) as progress:
        yield progress


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
    number = f"{len(results)} Pod{'' if len(results) == 1 else 's'}"
    console.say(f"{number}, {with_node} with a Node, {len(results) - with_node} without; {how}")
