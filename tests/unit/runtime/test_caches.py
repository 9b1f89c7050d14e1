"""The caches of a process: a store for each kind that is declared, and a list and a watch for each resource."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fakes.clocks import Hand
from fakes.manager import turns
from objects.builders import claim, namespace

from tollbar.model import resources
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import Resource
from tollbar.runtime.caches import Cached, Caches, listed
from tollbar.runtime.client import WatchEvent
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.errors import error_from_status
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.projection import Keep
from tollbar.runtime.reflector import ListerWatcher
from tollbar.views import kinds

CLAIMS = Cached(
    "claims",
    resources.RESOURCE_CLAIMS,
    project=Keep(frozenset({"spec"})),
    indexers={"name": lambda obj: [key_of(obj).name]},
)


class Cluster:
    """Every kind has one object; a kind in `late` is listed when its event is set, one in `refused` never."""

    def __init__(self, *refused: str, **late: asyncio.Event) -> None:
        self.refused = refused
        self.late = late
        self.lists: dict[str, tuple[str, str]] = {}
        self.limits: dict[str, int] = {}
        self.watches: dict[str, tuple[str, str, str]] = {}
        self.watching = asyncio.Semaphore(0)

    async def list(
        self, res: Resource, _: str = "", *, field_selector: str = "", label_selector: str = "", limit: int, **__: Any
    ) -> Object:
        assert res.plural not in self.lists, "one list for each resource"
        self.lists[res.plural] = (field_selector, label_selector)
        self.limits[res.plural] = limit
        if res.plural in self.late:
            await self.late[res.plural].wait()
        if res.plural in self.refused:
            raise error_from_status({"code": 403, "reason": "Forbidden"})
        return {"metadata": {"resourceVersion": "7"}, "items": [namespace("one")]}

    async def watch(
        self,
        res: Resource,
        _: str = "",
        *,
        resource_version: str,
        field_selector: str = "",
        label_selector: str = "",
        **__: Any,
    ) -> AsyncGenerator[WatchEvent, None]:
        assert res.plural not in self.watches, "one watch for each resource"
        self.watches[res.plural] = (resource_version, field_selector, label_selector)
        self.watching.release()
        await asyncio.Event().wait()
        yield WatchEvent("BOOKMARK", {})

    async def served(self, _: str) -> set[str]:
        return set()


def declaring(*cached: Cached) -> Caches:
    caches = Caches()
    for each in cached:
        caches.store(each)
    return caches


def fill(caches: Caches, cluster: Cluster, clock: Clock | None = None) -> None:
    caches.fill(cluster, clock=clock or SystemClock(), rng=Random(1), metrics=Metrics())


@asynccontextmanager
async def running(caches: Caches, cluster: Cluster, *, but: int = 0) -> AsyncIterator[None]:
    """From when all resources but so many are watched."""
    task = asyncio.create_task(caches.run())
    for _ in range(len({store.resource for store in caches.stores.values()}) - but):
        await cluster.watching.acquire()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_every_store_is_listed_and_watched_from_there_with_its_selectors() -> None:
    cluster, caches = Cluster(), declaring(kinds.PENDING_PODS, kinds.WEBHOOKS, kinds.NAMESPACES)
    fill(caches, cluster)
    async with running(caches, cluster):
        pass
    assert (cluster.lists, cluster.watches, {len(store) for store in caches.stores.values()}) == (
        {
            "pods": ("spec.nodeName=", ""),
            "mutatingwebhookconfigurations": ("", "app.kubernetes.io/name=tollbar"),
            "namespaces": ("", ""),
        },
        {
            "pods": ("7", "spec.nodeName=", ""),
            "mutatingwebhookconfigurations": ("7", "", "app.kubernetes.io/name=tollbar"),
            "namespaces": ("7", "", ""),
        },
        {1},
    )


async def test_a_resource_that_two_stores_read_is_asked_for_once_and_without_selectors() -> None:
    cluster, caches = Cluster(), declaring(kinds.PENDING_PODS, kinds.NAMESPACES, kinds.CLAIM_CONSUMERS)
    fill(caches, cluster)
    async with running(caches, cluster):
        pass
    assert (cluster.lists, cluster.watches, [len(store) for store in caches.stores.values()]) == (
        {"pods": ("", ""), "namespaces": ("", "")},
        {"pods": ("7", "", ""), "namespaces": ("7", "", "")},
        [1, 1, 0],
    )


async def test_two_stores_of_one_resource_are_asked_for_with_what_both_select_by() -> None:
    other = replace(kinds.WEBHOOKS, name="others", field_selector="metadata.name=other")
    cluster, caches = Cluster(), declaring(kinds.WEBHOOKS, other)
    fill(caches, cluster)
    async with running(caches, cluster):
        pass
    assert cluster.lists == {"mutatingwebhookconfigurations": ("", "app.kubernetes.io/name=tollbar")}


async def test_a_page_has_as_many_objects_as_the_most_careful_of_those_who_read_the_kind_wants() -> None:
    few = replace(CLAIMS, name="few", page=10)
    cluster, caches = Cluster(), declaring(CLAIMS, few, kinds.NAMESPACES)
    fill(caches, cluster)
    async with running(caches, cluster):
        pass
    assert cluster.limits == {"resourceclaims": 10, "namespaces": 500}


async def test_a_declaration_that_is_made_twice_still_uses_its_selectors() -> None:
    cluster, caches = Cluster(), declaring(kinds.PENDING_PODS, kinds.PENDING_PODS)
    fill(caches, cluster)
    async with running(caches, cluster):
        pass
    assert cluster.lists == {"pods": ("spec.nodeName=", "")}


async def test_listed_waits_for_the_last_list_and_unsynced_names_it() -> None:
    answered = asyncio.Event()
    cluster, caches = Cluster(namespaces=answered), declaring(kinds.PENDING_PODS, kinds.NAMESPACES, kinds.CLASSES)
    fill(caches, cluster)
    nothing = caches.unsynced()
    async with running(caches, cluster, but=1):
        synced = asyncio.create_task(listed(caches.stores.values()))
        await asyncio.sleep(0)
        before = (caches.unsynced(), synced.done())
        answered.set()
        await synced
        assert (nothing, before, caches.unsynced()) == (
            "not listed yet: pods, namespaces, deviceclasses",
            ("not listed yet: namespaces", False),
            None,
        )


async def test_what_reads_other_kinds_waits_for_none_that_cannot_be_listed() -> None:
    """As after an upgrade without the new role."""
    cluster = Cluster(namespaces=asyncio.Event())
    caches = declaring(kinds.PENDING_PODS, kinds.NAMESPACES, kinds.CLASSES)
    fill(caches, cluster)
    async with running(caches, cluster, but=1):
        await listed([caches.store(kinds.PENDING_PODS), caches.store(kinds.CLASSES)])
        assert caches.unsynced() == "not listed yet: namespaces"


async def test_the_process_is_ready_without_what_is_optional_once_its_list_has_failed() -> None:
    cluster = Cluster("namespaces")
    caches = declaring(kinds.PENDING_PODS, replace(kinds.NAMESPACES, optional=True))
    fill(caches, cluster)
    before = caches.unsynced()
    async with running(caches, cluster, but=1):
        await turns()
        assert (before, caches.unsynced(), list(cluster.lists)) == (
            "not listed yet: pods, namespaces",
            None,
            ["pods", "namespaces"],
        )
        assert caches.needed == [caches.store(kinds.PENDING_PODS)]


async def test_what_is_optional_to_one_and_needed_by_another_is_needed() -> None:
    cluster = Cluster("namespaces")
    caches = declaring(replace(kinds.NAMESPACES, optional=True), kinds.NAMESPACES)
    fill(caches, cluster)
    async with running(caches, cluster, but=1):
        await turns()
        assert caches.unsynced() == "not listed yet: namespaces"


async def test_a_silent_watch_of_what_is_optional_is_not_reported() -> None:
    clock = Hand()
    caches = declaring(replace(kinds.NAMESPACES, optional=True))
    fill(caches, Cluster(), clock)
    clock.seconds += 301
    assert caches.silent() is None


async def test_a_resource_of_two_stores_is_named_once_when_it_is_not_listed_yet() -> None:
    caches = declaring(kinds.PENDING_PODS, Cached("every pod", resources.PODS), kinds.NAMESPACES)
    fill(caches, Cluster())
    assert caches.unsynced() == "not listed yet: pods, namespaces"


async def test_a_kind_that_is_silent_for_five_minutes_is_reported() -> None:
    cluster, clock = Cluster(namespaces=asyncio.Event()), Hand()
    caches = declaring(kinds.PENDING_PODS, kinds.NAMESPACES)
    fill(caches, cluster, clock)
    clock.seconds += 300
    async with running(caches, cluster, but=1):
        before = caches.silent()
        clock.seconds += 1
        assert (before, caches.silent()) == (None, "a watch has been silent for 301 s")


def test_caches_that_nothing_fills_yet_are_not_silent() -> None:
    assert declaring(kinds.PENDING_PODS).silent() is None


async def test_a_kind_of_several_versions_is_looked_for_with_the_client_that_lists_it() -> None:
    beta = replace(resources.POD_GROUPS, version="v1beta9")
    asked: list[Any] = []

    async def locate(client: ListerWatcher) -> Resource | None:
        asked.append(client)
        return beta

    cluster, caches = Cluster(), declaring(Cached("groups", resources.POD_GROUPS, locate=locate))
    fill(caches, cluster)
    async with running(caches, cluster):
        (store,) = caches.stores.values()
        assert (asked, store.resource) == ([cluster], beta)


def test_declarations_of_one_name_share_a_store_that_keeps_what_both_need() -> None:
    wider = replace(CLAIMS, project=Keep(frozenset({"status"})), indexers={"phase": lambda _: ["any"]})
    caches = Caches()
    first, second = caches.store(CLAIMS), caches.store(wider)
    first.apply(claim("c").but("status", {"a": 1}).but("other", 2))
    (kept,) = first.by_index("phase", "any")
    assert (first is second, first.by_index("name", "c"), sorted(kept)) == (
        True,
        [kept],
        ["metadata", "spec", "status"],
    )


def test_stores_of_one_resource_with_different_names_are_different() -> None:
    caches = declaring(kinds.PENDING_PODS, Cached("every pod", resources.PODS))
    assert (list(caches.stores), len({id(store) for store in caches.stores.values()})) == (["pods", "every pod"], 2)


def test_a_declaration_that_is_made_again_changes_nothing_in_a_store_that_is_in_use() -> None:
    caches = Caches()
    store = caches.store(CLAIMS)
    store.apply(claim("c"))
    assert (caches.store(CLAIMS) is store, len(store)) == (True, 1)


DIFFERENT = "the store pods is declared twice, for different objects"
REFUSED = {
    "when it is of another resource": (kinds.PENDING_PODS, Cached("pods", resources.SECRETS), False, DIFFERENT),
    "when it has another selector": (
        kinds.PENDING_PODS,
        replace(kinds.PENDING_PODS, field_selector=""),
        False,
        DIFFERENT,
    ),
    "when it has another namespace": (kinds.PENDING_PODS, replace(kinds.PENDING_PODS, namespace="a"), False, DIFFERENT),
    "when objects are there already": (CLAIMS, CLAIMS, True, "the store of resourceclaims is in use"),
    "when two projections cannot be united": (
        CLAIMS,
        replace(CLAIMS, project=lambda obj: obj),
        False,
        "two projections of resourceclaims",
    ),
    "when two other projections differ": (
        kinds.RULES,
        replace(kinds.RULES, project=Keep()),
        False,
        "two projections of tolerationrules",
    ),
}


@pytest.mark.parametrize(("first", "second", "used", "why"), REFUSED.values(), ids=REFUSED)
def test_a_store_is_not_shared(first: Cached, second: Cached, used: bool, why: str) -> None:
    caches = Caches()
    store = caches.store(first)
    if used:
        store.apply(claim("c"))
    with pytest.raises(ValueError, match=why):
        caches.store(replace(second))
