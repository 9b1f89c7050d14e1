"""A copy of a cluster for a command: from a dump, or from the cluster that answers."""

from pathlib import Path

from tollbar.cli import clusterdump, console, dump
from tollbar.model import timestamps
from tollbar.model.objects import Object, controller_of, key_of
from tollbar.model.resources import REPLICA_SETS
from tollbar.offline import Cluster, loading


async def of_live(cluster: console.Cluster, command: str) -> Cluster:
    """Raises ApiError and KubeconfigError."""
    async with console.connected(cluster, command) as client:
        return await loading.load(client)


def of_dump(path: Path) -> Cluster:
    """Raises Unreadable.  Rules that read what a dump does not have are named."""
    found = clusterdump.read(path)
    dump.warn(found.items)
    now = timestamps.parse(found.taken) if found.taken else None
    return Cluster(found.items, unknown=found.unread, unserved=found.unserved, now=now)


def say_unknown(cluster: Cluster) -> None:
    for kind, why in cluster.unknown.items():
        console.say(f"not read: {kind}: {why}")


def owner_of(pod: Object, cluster: Cluster) -> str:
    """The workload that makes Pods like this one, such as `Deployment web`; empty if nobody does."""
    owner = controller_of(pod)
    if owner is None:
        return ""
    if owner.get("kind") == REPLICA_SETS.kind:
        replica_set = cluster.get(REPLICA_SETS, str(owner.get("name")), key_of(pod).namespace)
        owner = (controller_of(replica_set) if replica_set is not None else None) or owner
    return f"{owner.get('kind')} {owner.get('name')}"
