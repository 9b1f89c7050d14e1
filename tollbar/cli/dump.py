"""`tollbar dump`: writes a copy of a cluster for the commands that answer questions without it.

Reads nothing but lists, page by page, and of every object keeps what decisions about Pods read (`reduction`).

Hazard: the kinds are listed one after the other, so a dump of a busy cluster is not a snapshot of one moment: a Pod may
be on a Node that was created after the Nodes were listed.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from tollbar import cel
from tollbar.cli import clusterdump, console
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.reading import Reading
from tollbar.cli.reduction import KINDS, Kind, unreliable
from tollbar.decide.rules.placements import Placement, compile_placement
from tollbar.decide.rules.rule import Problem, Rule, compile_rule
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import PLACEMENT_RULES, TOLERATION_RULES, Resource
from tollbar.offline.loading import Progress, silent
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock

INCOMPLETE: Final = 3
"""The exit code when something may not be read, as of `tollbar status`."""


async def take(client: Client, clock: Clock, progress: Progress = silent) -> ClusterDump:
    """A copy of the cluster.  Raises ApiError for anything but the refusal of a list."""
    reading = Reading(client)
    items: list[Object] = []
    unread: dict[str, str] = {}
    unserved: list[str] = []
    for name, kind in KINDS.items():
        served = await _served(client, kind)
        if served is None:
            unserved.append(name)
            continue
        found = await reading.list(served, keep=kind.keep, project=kind.reduce)
        if found is None:
            unread[name] = reading.unread[-1]
        progress(name, len(found or ()))
        items += ({**kind.resource.type_meta, **each} for each in found or ())
    return ClusterDump(timestamps.time(clock.now()), clusterdump.in_order(items), unread, tuple(unserved))


async def _served(client: Client, kind: Kind) -> Resource | None:
    """The version of this kind that is served; None without one."""
    return await kind.locate(client) if kind.locate is not None else kind.resource


def warn(objects: Iterable[Object]) -> None:
    """Name the rules in force whose verdicts on a dump may be other ones than in the cluster."""
    for name, path in unreliable(rule for rule in _rules(objects) if rule.mode != "Disabled"):
        console.say(f"warning: rule {name} reads {path}, which a dump does not have: what it says there may be wrong")


def _rules(objects: Iterable[Object]) -> Iterator[Rule]:
    """Those that compile."""
    engine = cel.engine()
    for each in objects:
        found: Rule | Placement | Problem | None = None
        if each["kind"] == TOLERATION_RULES.kind:
            found = compile_rule(each, engine)
        elif each["kind"] == PLACEMENT_RULES.kind:
            found = compile_placement(each, engine)
        rule = found.rule if isinstance(found, Placement) else found
        if isinstance(rule, Rule):
            yield rule


@click.command("dump")
@console.cluster_options
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path, allow_dash=True),
    default="-",
    show_default=True,
    metavar="FILE|DIRECTORY",
    help="Where it goes: a file, a directory that exists, or standard output.",
)
def command(cluster: console.Cluster, target: Path) -> None:
    """Write a copy of the cluster, with which other commands answer questions without it.

    It has Nodes, Pods, ResourceClaims, ResourceSlices, rules and what else decisions about Pods read.  Secrets and
    ConfigMaps are not read.  The values of environment variables, commands, arguments and probes of containers,
    attributes of CSI volumes, and the annotations in which `kubectl apply` and kapp keep what they last applied are
    removed; labels, names and all other annotations are there.  The command names rules in force that read what is
    removed.

    In a directory every kind has a file of its own.  The exit code is 3 if you may not read a kind; the dump names it.
    """
    dump = console.run(_take(cluster))
    with console.writing(target):
        if str(target) == "-":
            sys.stdout.buffer.writelines(clusterdump.encoded(dump))
        else:
            clusterdump.write(dump, target)
    numbers = Counter(str(item["kind"]) for item in dump.items)
    console.say(
        ", ".join(f"{numbers[kind]} {KINDS[kind].resource.plural}" for kind in KINDS if numbers[kind]) or "empty"
    )
    warn(dump.items)
    for why in dump.unread.values():
        console.say(f"not read: {why}")
    if dump.unread:
        raise click.exceptions.Exit(INCOMPLETE)


async def _take(cluster: console.Cluster) -> ClusterDump:
    async with console.connected(cluster, "dump") as client:
        with console.reading() as progress:
            return await take(client, SystemClock(), progress)
