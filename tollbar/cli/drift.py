"""`tollbar drift`: Pods that have tolerations or node affinity of Tollbar's which no rule justifies any more.

The API does not allow removing either from a Pod, so the Pod has to be replaced.  `tollbar.decide.pods.justification`
decides what is justified, and `placementdrift` for node affinity.  This command can evict a Pod that waits if a
controller makes another one; running Pods are left to their owners.

Hazard: users who may write a Pod may also change its record of what was added.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from tollbar import wellknown
from tollbar.cli import console, copies
from tollbar.cli.manifests import Unreadable
from tollbar.cli.placementdrift import Narrowed, narrowed
from tollbar.decide.pods import justification
from tollbar.decide.pods.justification import Given, Standing
from tollbar.gates.placement import PlacementGate
from tollbar.model import pods, tolerations
from tollbar.model.objects import Object, annotations_of, controller_of, key_of, metadata, uid_of
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    PLACEMENT_RULES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    TOLERATION_RULES,
    Resource,
)
from tollbar.model.tolerations import identity
from tollbar.offline import Cluster, loading
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Conflict, NotFound
from tollbar.runtime.retry import READ

FOUND: Final = 1
"""The exit code when Pods are found and left."""
EVICTED: Final = "evicted"
SETTLED: Final = "it is gone, or needs no eviction any more"
_UNJUSTIFIED: Final = (Standing.RULE_CHANGED, Standing.UNTRUE)
_ATTEMPTS: Final = 5
"""For a Pod that changes while it is judged, by the scheduler's condition for instance."""
_READ: Final = (
    TOLERATION_RULES,
    PLACEMENT_RULES,
    NAMESPACES,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
"""What decides about a Pod."""
_REPLACING: Final = frozenset(
    {("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("", "ReplicationController")}
)
"""Controllers, by group and kind, for which a Pod that is gone is no failure: they make another one in any case."""


@dataclass(frozen=True, slots=True)
class Drifted:
    """A Pod with what it has without justification; `owner` is the workload that makes its like, empty without one."""

    pod: Object
    owner: str
    given: tuple[Given, ...]
    why: tuple[str, ...]
    """For each of `given`, for a person."""
    narrowed: tuple[Narrowed, ...] = ()

    @property
    def is_pending(self) -> bool:
        return not pods.is_bound(self.pod)

    @property
    def is_replaced(self) -> bool:
        """Whether its controller makes another one when it is gone, and does nothing else, as a Job may that fails."""
        owner = controller_of(self.pod) or {}
        group = str(owner.get("apiVersion") or "").rpartition("/")[0]
        return (group, owner.get("kind")) in _REPLACING

    @property
    def may_be_deleted(self) -> bool:
        """Whether it waits, and is replaced."""
        return self.is_pending and self.is_replaced

    @property
    def action(self) -> str:
        """What to do about it."""
        if self.may_be_deleted:
            return f"delete it: {self.owner} makes another one"
        if self.owner:
            return f"restart {self.owner} when that suits{', or evict the Pod' if self.is_replaced else ''}"
        return "delete it, and create it again: no controller does"


def drifted(cluster: Cluster, namespace: str = "") -> Iterator[Drifted]:
    """The Pods of the copy, or of one namespace of it, in the order of their keys, that are not ending."""
    for pod in cluster.objects(PODS):
        if namespace in ("", key_of(pod).namespace) and (found := judged(cluster, pod)) is not None:
            yield found


def judged(cluster: Cluster, pod: Object) -> Drifted | None:
    """The Pod with what it has without justification; None if it has nothing of the kind, or is ending."""
    if pods.is_terminal(pod) or pods.is_deleting(pod):
        return None
    found, narrow = tuple(_unjustified(cluster, pod)), tuple(narrowed(cluster, pod))
    if not (found or narrow):
        return None
    return Drifted(pod, copies.owner_of(pod, cluster), found, tuple(_why(each, cluster) for each in found), narrow)


def _unjustified(cluster: Cluster, pod: Object) -> Iterator[Given]:
    if wellknown.ANNOTATION_PROVENANCE not in annotations_of(pod):
        return
    ruleset = cluster.gatherer.ruleset
    for each in justification.judge(cluster.package(pod), ruleset.rules, ruleset.engine, ruleset.selector):
        if each.standing in _UNJUSTIFIED and _is_decided(each, pod, cluster):
            yield each


def _is_decided(given: Given, pod: Object, cluster: Cluster) -> bool:
    """Whether the copy has all that says so: the generation of the rule, and what the rules read that give the same.

    A rule that is younger than the Pod may have been made again, with generations that count from 1.
    """
    rule = cluster.get(TOLERATION_RULES, given.rule)
    if rule is not None and _created(rule) <= _created(pod) and _generation(rule) < given.generation:
        return False
    this = identity(given.toleration)
    in_force = (each for each in cluster.rules.values() if each.mode == "Enforce")
    return all(cluster.knows(*copies.read_by(each)) for each in in_force if this in map(identity, each.tolerations))


def _generation(obj: Object) -> int:
    return int(metadata(obj).get("generation") or 0)


def _created(obj: Object) -> str:
    return str(metadata(obj).get("creationTimestamp") or "")


def _why(given: Given, cluster: Cluster) -> str:
    rule = cluster.get(TOLERATION_RULES, given.rule)
    if rule is None:
        return "the rule is gone"
    if given.standing is Standing.UNTRUE:
        return "the rule is not true for it any more"
    return "the rule has changed"


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of one Pod: EVICTED, SETTLED, or why it is left."""

    pod: str
    result: str


async def delete(client: Client, cluster: Cluster, found: Sequence[Drifted]) -> list[Deleted]:
    """Evict these Pods, one after the other, as long as they have what they have without justification.

    `cluster` is a copy that has just been made; rules and Pods are read once more.
    """
    return [Deleted(str(key_of(each.pod)), await _delete(client, cluster, each.pod)) for each in found]


async def _delete(client: Client, cluster: Cluster, pod: Object) -> str:
    refused: ApiError
    for _ in range(_ATTEMPTS):
        try:
            return await _evicted(client, cluster, pod)
        except NotFound:
            return SETTLED
        except Conflict as error:
            refused = error
        except ApiError as error:
            return error.excerpt
    return refused.excerpt


async def _evicted(client: Client, cluster: Cluster, pod: Object) -> str:
    """By the eviction API, which honours PodDisruptionBudgets; uid and version of what was judged are preconditions."""
    key = key_of(pod)
    now: Object = await READ(client.get, PODS, key.name, key.namespace)
    for kind in (TOLERATION_RULES, PLACEMENT_RULES):
        if kind in cluster.declared:
            rules = {key_of(each): each async for each in pager.every(client, kind)}
            for known in cluster.objects(kind):
                if key_of(known) not in rules:
                    cluster.remove(known)
            for rule in rules.values():
                cluster.put({**kind.type_meta, **rule})
    again = judged(cluster, cluster.put({**PODS.type_meta, **now}))
    if uid_of(now) != uid_of(pod) or again is None:
        return SETTLED
    if not again.may_be_deleted:
        return f"left alone: {again.action}"
    await client.evict(now, resource_version=str(metadata(now)["resourceVersion"]))
    return EVICTED


@click.command("drift")
@click.option("--cluster", "base", type=click.Path(path_type=Path), metavar="DUMP", help="A copy from `tollbar dump`.")
@console.cluster_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only Pods of this namespace.")
@click.option(
    "--delete-pending",
    is_flag=True,
    help="Evict Pods that wait for a Node, if their controller makes others; by default only say which.",
)
@click.option("--dry-run/--no-dry-run", default=True, show_default=True, help="Whether --delete-pending only says so.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is deleted.")
@console.output_option
def command(
    base: Path | None,
    cluster: console.Cluster,
    namespace: str,
    delete_pending: bool,
    dry_run: bool,
    yes: bool,
    output: console.Output,
) -> None:
    """Find Pods whose tolerations or node affinity their rules no longer justify, with owner and what to do.

    The API does not allow removing either. So a Pod keeps what a rule gave it when the rule is deleted or changed, or
    is not true for the Pod any more. For a changed PlacementRule, Pods are found that lack something that it requires
    now. Looks at the cluster, or at a dump of it.

    With --delete-pending --no-dry-run, Pods without a Node are evicted if they belong to a ReplicaSet, StatefulSet,
    DaemonSet or ReplicationController, which makes others in their place; the command asks first. Running Pods are left
    alone, and so are those of Jobs, for which a missing Pod is a failure.

    Exit code 0: nothing found, or all of it deleted, 1: Pods are left, 2: something cannot be read.
    """
    if delete_pending and base is not None:
        raise click.UsageError("--delete-pending needs the cluster itself, not a dump")
    if base is not None:
        found = copies.of_dump(base, [PlacementGate()])
    else:
        found = console.run(copies.of_live(cluster, "drift", [PlacementGate()]), Unreadable)
    copies.say_unknown(found)
    if needed := _unknown(found, (TOLERATION_RULES, PODS)):
        raise Unreadable(
            f"nothing can be said without {needed}: the ClusterRole tollbar-explain grants all that is read"
        )
    left = list(drifted(found, namespace))
    console.emit([row for each in left for row in _rows(each)], {"pods": [_data(each) for each in left]}, output)
    if delete_pending and (unknown := _unknown(found, _READ)):
        raise Unreadable(f"nothing is deleted: without {unknown} it is not certain what Pods still need")
    counts = Counter("pending" if each.is_pending else "running" for each in left)
    console.say(f"{len(left)} found: {counts['pending']} pending, {counts['running']} running")
    if delete_pending:
        left = _deleted(cluster, left, dry_run=dry_run, yes=yes)
    if left:
        raise click.exceptions.Exit(FOUND)


def _unknown(cluster: Cluster, kinds: Iterable[Resource]) -> str:
    """Which of these kinds could not be read."""
    return ", ".join(each.plural for each in kinds if not cluster.knows(each))


def _deleted(cluster: console.Cluster, found: Sequence[Drifted], *, dry_run: bool, yes: bool) -> list[Drifted]:
    """Those that are left."""
    wanted = [each for each in found if each.may_be_deleted]
    for each in wanted:
        console.say(f"would evict {key_of(each.pod)}" if dry_run else f"to be evicted: {key_of(each.pod)}")
    if dry_run or not wanted:
        return list(found)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("nobody is there to be asked: give --yes")
    if not yes and not click.confirm(f"Evict {len(wanted)} Pods?", err=True):
        return list(found)
    results = {each.pod: each.result for each in console.run(_delete_all(cluster, wanted), Unreadable)}
    for name, result in results.items():
        console.say(f"{name}: {result}")
    return [each for each in found if results.get(str(key_of(each.pod))) not in (EVICTED, SETTLED)]


async def _delete_all(cluster: console.Cluster, found: Sequence[Drifted]) -> list[Deleted]:
    async with console.connected(cluster, "drift") as client:
        console.say(f"cluster {client.cluster}")
        with console.reading() as progress:
            copy = await loading.load(client, gates=[PlacementGate()], progress=progress)
        if unknown := _unknown(copy, _READ):
            raise Unreadable(f"nothing is deleted: {unknown} cannot be read any more")
        return await delete(client, copy, found)


def _rows(found: Drifted) -> Iterator[dict[str, str]]:
    for given, why in zip(found.given, found.why, strict=True):
        yield {
            "pod": str(key_of(found.pod)),
            "state": "pending" if found.is_pending else "running",
            "toleration": tolerations.text(given.toleration),
            "rule": given.rule,
            "why": why,
            "owner": found.owner or "-",
            "action": found.action,
        }
    for each in found.narrowed:
        yield {
            "pod": str(key_of(found.pod)),
            "state": "pending" if found.is_pending else "running",
            "toleration": "- (its node affinity)",
            "rule": each.rule,
            "why": each.why,
            "owner": found.owner or "-",
            "action": found.action,
        }


def _data(found: Drifted) -> dict[str, Any]:
    return {
        **key_of(found.pod)._asdict(),
        "pending": found.is_pending,
        "owner": found.owner or None,
        "action": found.action,
        "unjustified": [
            {"toleration": given.toleration, "rule": given.rule, "generation": given.generation, "why": why}
            for given, why in zip(found.given, found.why, strict=True)
        ],
        "narrowed": [{"rule": each.rule, "why": each.why} for each in found.narrowed],
    }
