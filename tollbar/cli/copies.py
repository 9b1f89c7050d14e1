"""A copy of a cluster for a command: from a dump, or from the cluster that answers."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tollbar.cli import clusterdump, console, dump
from tollbar.decide.rules.rule import Rule
from tollbar.gates import Gate
from tollbar.model import timestamps
from tollbar.model.objects import Object, controller_of, key_of
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from tollbar.offline import Cluster, loading


async def of_live(cluster: console.Cluster, command: str, gates: Iterable[Gate] = ()) -> Cluster:
    """With what these gate classes read.  Raises ApiError and KubeconfigError."""
    async with console.connected(cluster, command) as client:
        with console.reading() as progress:
            return await loading.load(client, gates=gates, progress=progress)


def of_dump(path: Path, gates: Iterable[Gate] = ()) -> Cluster:
    """With what these gate classes read.  Raises Unreadable.  Rules that read what a dump does not have are named."""
    found = clusterdump.read(path)
    dump.warn(found.items)
    now = timestamps.parse(found.taken) if found.taken else None
    return Cluster(found.items, unknown=found.unread, unserved=found.unserved, now=now, gates=gates)


def say_unknown(cluster: Cluster) -> None:
    for kind, why in cluster.unknown.items():
        console.say(f"not read: {kind}: {why}")


def read_by(rule: Rule) -> Iterator[Resource]:
    """What decides about a Pod beside the rule and the Pod."""
    if rule.reads_namespace:
        yield NAMESPACES
    if rule.reads_package:
        yield from (DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS)


def owner_of(pod: Object, cluster: Cluster) -> str:
    """The workload that makes Pods like this one, such as `Deployment web`; empty if nobody does."""
    owner = controller_of(pod)
    if owner is None:
        return ""
    if owner.get("kind") == REPLICA_SETS.kind:
        replica_set = cluster.get(REPLICA_SETS, str(owner.get("name")), key_of(pod).namespace)
        owner = (controller_of(replica_set) if replica_set is not None else None) or owner
    return f"{owner.get('kind')} {owner.get('name')}"
