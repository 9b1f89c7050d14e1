"""What fills the caches: a list and a watch for each store, Pods by selector."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from random import Random
from typing import Any

from builders import namespace

from tollbar.cel import CelEngine
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.client import WatchEvent
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.views.caches import Caches, ClaimCaches, PodCaches
from tollbar.views.reflectors import Reflectors, listed


class Cluster:
    """Every kind has one object; a kind in `late` is listed when its event is set."""

    def __init__(self, **late: asyncio.Event) -> None:
        self.late = late
        self.lists: dict[str, str] = {}
        self.watches: dict[str, str] = {}
        self.watching = asyncio.Semaphore(0)

    async def list(self, res: Resource, _: str = "", *, field_selector: str = "", **__: Any) -> Object:
        self.lists[res.plural] = field_selector
        if res.plural in self.late:
            await self.late[res.plural].wait()
        return {"metadata": {"resourceVersion": "7"}, "items": [namespace("one")]}

    async def watch(
        self, res: Resource, _: str = "", *, resource_version: str, field_selector: str = "", **__: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        self.watches[res.plural] = f"{resource_version} {field_selector}"
        self.watching.release()
        await asyncio.Event().wait()
        yield WatchEvent("BOOKMARK", {})

    async def served(self, _: str) -> set[str]:
        return set()


class SetClock(SystemClock):
    """Monotonic time is what the test sets."""

    time = 0.0

    def monotonic(self) -> float:
        return self.time


def reflectors(cluster: Cluster, caches: Caches, clock: Clock | None = None) -> Reflectors:
    return Reflectors(cluster, caches.stores, clock=clock or SystemClock(), rng=Random(1), metrics=Metrics())


async def test_every_store_is_listed_and_watched_from_there_and_pods_only_without_a_node(cel: CelEngine) -> None:
    cluster = Cluster()
    caches = PodCaches(engine=cel, managed_namespaces={}, system_namespace="tollbar-system")
    running = asyncio.create_task(reflectors(cluster, caches).run())
    for _ in caches.stores:
        await cluster.watching.acquire()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    kinds = [store.resource.plural for store in caches.stores]
    assert (cluster.lists, cluster.watches, {len(store) for store in caches.stores}) == (
        {**dict.fromkeys(kinds, ""), "pods": "spec.nodeName="},
        {**dict.fromkeys(kinds, "7 "), "pods": "7 spec.nodeName="},
        {1},
    )


async def test_listed_waits_for_the_last_list_and_unsynced_names_it(cel: CelEngine) -> None:
    answered = asyncio.Event()
    cluster = Cluster(namespaces=answered)
    caches = Caches(engine=cel, managed_namespaces={}, system_namespace="tollbar-system")
    filling = reflectors(cluster, caches)
    nothing = filling.unsynced()
    running = asyncio.create_task(filling.run())
    synced = asyncio.create_task(listed(caches.stores))
    for _ in caches.stores[1:]:
        await cluster.watching.acquire()
    before = (filling.unsynced(), synced.done())
    answered.set()
    await synced
    assert (nothing, before, filling.unsynced(), caches.synced) == (
        "not listed yet: " + ", ".join(store.resource.plural for store in caches.stores),
        ("not listed yet: namespaces", False),
        None,
        True,
    )
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_decisions_about_pods_wait_for_no_kind_that_they_do_not_read(cel: CelEngine) -> None:
    """As after an upgrade without the new role: its kind can never be listed."""
    cluster = Cluster(workloadclaims=asyncio.Event())
    caches = ClaimCaches(engine=cel, managed_namespaces={}, system_namespace="tollbar-system")
    filling = reflectors(cluster, caches)
    running = asyncio.create_task(filling.run())
    await listed(caches.decisive)
    for _ in caches.stores[1:]:
        await cluster.watching.acquire()
    assert (caches.synced, filling.unsynced()) == (True, "not listed yet: workloadclaims")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_kind_that_is_silent_for_five_minutes_is_reported(cel: CelEngine) -> None:
    cluster = Cluster(namespaces=asyncio.Event())
    caches = Caches(engine=cel, managed_namespaces={}, system_namespace="tollbar-system")
    clock = SetClock()
    filling = reflectors(cluster, caches, clock)
    clock.time = 300.0
    running = asyncio.create_task(filling.run())
    for _ in caches.stores[1:]:
        await cluster.watching.acquire()
    before = filling.silent()
    clock.time = 301.0
    assert (before, filling.silent()) == (None, "a watch has been silent for 301 s")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
