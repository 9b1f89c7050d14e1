"""The caches of a process: the stores that its parts declare, and one reflector for each resource.

A part that reads a kind declares it (`Caches.store`) during set-up.  Declarations of one name share a store that keeps
what all of them need.  One list and watch fills all stores of a resource; it uses the selectors and the namespace
that all of their declarations have in common.

Hazards: a kind that cannot be listed never syncs, and the process stays unready unless it is optional; while a watch is
interrupted its stores stay as they are, and the age of the reflector grows.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from tollbar.model.flat import Flat
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.budget import Budget
from tollbar.runtime.client import PAGE
from tollbar.runtime.clock import Clock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.projection import Projection, drop_managed_fields
from tollbar.runtime.reflector import ListerWatcher, Reflector
from tollbar.runtime.store import Indexer, Store

_SILENCE: Final = 300.0
"""Seconds without a watch event after which the process is not ready; bookmarks come every minute."""


@dataclass(frozen=True, slots=True)
class Cached:
    """A declared store: the objects that `accepts` lets in, projected by `project`, with these indexes.

    `name` tells two stores of one resource apart.  The selectors and the namespace limit what the API server sends.
    `locate` finds the served version of a resource that has several.  `page` is how many objects are listed at once
    at most, less for a kind of which there are many: a page is in memory as a whole.  With `alike`, which
    returns the same for objects that are much alike, they are kept as compressed text: for many that are rarely read.
    With `flat`, those of which it returns something are kept as that: for many that are alike and are read one by one.
    The process is ready without one that is `optional`, once its list has failed.
    """

    name: str
    resource: Resource
    project: Projection = drop_managed_fields
    indexers: Mapping[str, Indexer] = field(default_factory=dict)
    accepts: Callable[[Object], bool] | None = None
    field_selector: str = ""
    label_selector: str = ""
    namespace: str = ""
    locate: Callable[[ListerWatcher], Awaitable[Resource | None]] | None = None
    page: int = PAGE
    alike: Callable[[Object], Hashable] | None = None
    flat: Callable[[Object], Flat | None] | None = None
    optional: bool = False


def _listed_by(cached: Cached) -> object:
    """What the API server is asked for."""
    return cached.resource, cached.namespace, cached.field_selector, cached.label_selector


def _common(texts: Iterable[str]) -> str:
    """The text that all of these are; empty when they differ."""
    first, *others = set(texts)
    return "" if others else first


async def listed(stores: Iterable[Store]) -> None:
    """Return once all of these stores have synced."""
    for store in stores:
        await store.synced.wait()


class Caches:
    """Stores by name, and one reflector for each resource."""

    def __init__(self, budget: Budget | None = None) -> None:
        """`budget` limits the memory that all of them together take for objects that may become stubs."""
        self._budget = budget
        self._declared: dict[str, list[Cached]] = {}
        self._stores: dict[str, Store] = {}
        self._reflectors: tuple[Reflector, ...] = ()

    def store(self, cached: Cached) -> Store:
        """The store for this declaration.  Two declarations of one name share a store that keeps what both need.

        Raises ValueError when one store cannot serve both.
        """
        store = self._stores.get(cached.name)
        if store is None:
            store = Store(
                cached.resource,
                project=cached.project,
                indexers=cached.indexers,
                accepts=cached.accepts,
                alike=cached.alike,
                flat=cached.flat,
                budget=self._budget,
            )
            self._declared[cached.name] = [cached]
            self._stores[cached.name] = store
        elif not any(cached is known for known in self._declared[cached.name]):
            if _listed_by(cached) != _listed_by(self._declared[cached.name][0]):
                raise ValueError(f"the store {cached.name} is declared twice, for different objects")
            store.widen(cached.project, cached.indexers)
            self._declared[cached.name].append(cached)
        return store

    @property
    def stores(self) -> Mapping[str, Store]:
        return self._stores

    @property
    def needed(self) -> list[Store]:
        """Those that are not optional to everybody who declares them."""
        return [self._stores[name] for name, each in self._declared.items() if not all(it.optional for it in each)]

    def fill(self, client: ListerWatcher, *, clock: Clock, rng: Random, metrics: Metrics) -> None:
        """Make the reflectors for the declared stores; `run` starts them."""
        by_resource = defaultdict[Resource, list[Cached]](list)
        for cached, *_ in self._declared.values():
            by_resource[cached.resource].append(cached)
        self._reflectors = tuple(
            Reflector(
                client,
                *(self._stores[cached.name] for cached in declared),
                field_selector=_common(cached.field_selector for cached in declared),
                label_selector=_common(cached.label_selector for cached in declared),
                namespace=_common(cached.namespace for cached in declared),
                page=min(cached.page for cached in declared),
                locate=partial(declared[0].locate, client) if declared[0].locate is not None else None,
                clock=clock,
                rng=rng,
                metrics=metrics,
            )
            for declared in by_resource.values()
        )

    async def run(self) -> None:
        """Run the reflectors until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run(), name=f"reflector {reflector.resource.plural}")

    def unsynced(self) -> str | None:
        """A readiness check: names the resources that have not been listed yet.

        Not those whose list failed and that nobody needs: what waits for them asks for itself whether they have synced.
        """
        needed, failing = self.needed, {each.resource for each in self._reflectors if each.failing}
        waiting = dict.fromkeys(
            store.resource.plural
            for store in self._stores.values()
            if not store.synced.is_set() and (store in needed or store.resource not in failing)
        )
        return f"not listed yet: {', '.join(waiting)}" if waiting else None

    def silent(self) -> str | None:
        """A readiness check: fails when a watch of what is needed has had no event for too long."""
        needed = {store.resource for store in self.needed}
        oldest = max((each.age() for each in self._reflectors if each.resource in needed), default=0.0)
        return f"a watch has been silent for {oldest:.0f} s" if oldest > _SILENCE else None
