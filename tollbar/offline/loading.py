"""Fills a copy from a live API server, by lists alone: read-only permissions do.

What may not be read in the whole cluster is read in one namespace, if one is given; a kind that may not be read there
either is `unknown`.  Kinds are listed one after the other, so that a big cluster's API server is not pressed; the copy
is of no single moment.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tollbar.gates import Gate
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.offline.cluster import Cluster
from tollbar.runtime import pager
from tollbar.runtime.caches import Cached
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.config import Configuration
from tollbar.runtime.errors import Forbidden, NotFound
from tollbar.scheduler.config.types import SchedulerConfiguration

Progress: TypeAlias = Callable[[str, int], None]
"""Is told a kind that has been read, and how many objects of it there are."""


def silent(_kind: str, _count: int) -> None:
    """Progress that nobody is told of."""


async def load(
    client: Client,
    *,
    namespace: str = "",
    clock: Clock | None = None,
    configuration: Configuration | None = None,
    scheduler_configuration: SchedulerConfiguration | None = None,
    gates: Iterable[Gate] = (),
    progress: Progress = silent,
) -> Cluster:
    """The cluster that this client talks to.

    `namespace` is where namespaced kinds are read that may not be read everywhere.  `gates` are gate classes that are
    asked about Pods.  Raises ApiError when the API server does not answer.
    """
    now = (clock or SystemClock()).now()
    cluster = Cluster(
        configuration=configuration, scheduler_configuration=scheduler_configuration, now=now, gates=gates
    )
    for resource, declared in cluster.declared.items():
        objects = await _listed(client, resource, declared, namespace, cluster)
        progress(resource.kind, len(objects))
        for obj in objects:
            cluster.put(obj)
    return cluster


async def _listed(
    client: Client, resource: Resource, declared: Sequence[Cached], namespace: str, cluster: Cluster
) -> list[Object]:
    """The objects of this kind; what of them is unknown is noted."""
    first = declared[0]
    if first.locate is not None:
        located = await first.locate(client)
        if located is None:
            for each in declared:
                cluster.store(each).served = False
            return []
        resource = located
    selector, where = ("", "") if len(declared) > 1 else (first.field_selector, first.namespace)
    try:
        return await _all(client, resource, where, selector)
    except Forbidden as error:
        cluster.unknown[resource.kind] = error.excerpt
    if not (resource.namespaced and namespace and not where):
        return []
    try:
        objects = await _all(client, resource, namespace, selector)
    except Forbidden:
        return []
    cluster.unknown[resource.kind] += f"; read in namespace {namespace} alone"
    cluster.read_in[resource.kind] = namespace
    return objects


async def _all(client: Client, resource: Resource, namespace: str, selector: str) -> list[Object]:
    """None of a kind that is not served."""
    try:
        every = pager.every(client, resource, namespace, field_selector=selector)
        return [{**resource.type_meta, **obj} async for obj in every]
    except NotFound:
        return []
