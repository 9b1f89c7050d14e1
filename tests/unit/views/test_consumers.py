"""Pods that use claims, and Pods without a node: two stores that one list and watch of Pods fills."""

import sys
from collections.abc import AsyncGenerator, Iterable
from random import Random
from typing import Any

import pytest
from objects.builders import Pod, pod

from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.caches import Caches
from tollbar.runtime.client import WatchEvent
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.reflector import Reflector
from tollbar.runtime.store import Store
from tollbar.views import kinds

WEB = pod().templates("gpu")


class Pods:
    """Answers lists with these objects, one after the other, and one watch with these events."""

    def __init__(self, *lists: Iterable[Pod], events: Iterable[tuple[str, Pod]] = ()) -> None:
        self.lists = [list(each) for each in lists]
        self.events = list(events)
        self.version = 10

    def _next(self, obj: Object) -> Object:
        self.version += 1
        return {**obj, "metadata": {**metadata(obj), "resourceVersion": str(self.version)}}

    async def list(self, _res: Resource, *_: Any, **__: Any) -> Object:
        items = [self._next(each) for each in self.lists.pop(0)]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    async def watch(self, _res: Resource, *_: Any, **__: Any) -> AsyncGenerator[WatchEvent, None]:
        for kind, obj in self.events:
            yield WatchEvent(kind, self._next(obj))

    async def served(self, _: str) -> set[str]:
        return {"pods"}


def stores() -> tuple[Store, Store]:
    """Of Pods that use claims, and of those that have no node."""
    caches = Caches()
    return caches.store(kinds.CLAIM_CONSUMERS), caches.store(kinds.PENDING_PODS)


async def filled(pods: Pods) -> tuple[Store, Store]:
    """The stores after the watch, and after every further list."""
    both = stores()
    reflector = Reflector(pods, *both, clock=SystemClock(), rng=Random(1), metrics=Metrics())
    assert await reflector._list()
    await reflector._watch()
    for _ in list(pods.lists):
        assert await reflector._list()
    return both


def names(store: Store) -> list[str]:
    return sorted(key_of(each).name for each in store.values())


KEPT: dict[str, tuple[list[Pod], list[str], list[str]]] = {
    "a Pod without claims waits": ([pod()], [], ["web"]),
    "a Pod without claims gets a node": ([pod(), pod().bound()], [], []),
    "a Pod with a claim waits": ([WEB], ["web"], ["web"]),
    "a Pod with a claim gets a node": ([WEB, WEB.bound()], ["web"], []),
    "a Pod gets a claim for its extended resources": ([pod().bound().for_extended_resources("e")], ["web"], []),
    "another Pod of the name has a node already": ([WEB, WEB.but("metadata.uid", "new").bound()], ["web"], []),
    "another Pod of the name has no claims": ([WEB, pod().but("metadata.uid", "new")], [], ["web"]),
}


@pytest.mark.parametrize(("given", "users", "waiting"), KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("how", ["the watch", "lists"])
async def test_which_pods_are_kept_where(given: list[Pod], users: list[str], waiting: list[str], how: str) -> None:
    pods = (
        Pods([], events=[("MODIFIED", each) for each in given]) if how == "the watch" else Pods(*([o] for o in given))
    )
    consumers, pending = await filled(pods)
    assert (names(consumers), names(pending)) == (users, waiting)


@pytest.mark.parametrize("how", ["the watch", "a list"])
async def test_a_pod_that_goes_leaves_both(how: str) -> None:
    there = [WEB, pod("plain")]
    pods = Pods(there, events=[("DELETED", each) for each in there]) if how == "the watch" else Pods(there, [])
    consumers, pending = await filled(pods)
    assert (names(consumers), names(pending)) == ([], [])


async def test_both_are_synced_by_one_list() -> None:
    both = stores()
    reflector = Reflector(Pods([WEB]), *both, clock=SystemClock(), rng=Random(1), metrics=Metrics())
    before = [store.synced.is_set() for store in both]
    await reflector._list()
    assert (before, [store.synced.is_set() for store in both]) == ([False, False], [True, True])


async def test_both_know_how_far_the_watch_has_come() -> None:
    both = await filled(Pods([WEB], events=[("ADDED", pod("other"))]))
    assert [store.resource_version for store in both] == ["12", "12"]


async def test_an_answer_that_one_of_them_assumes_is_no_concern_of_the_other() -> None:
    """Each is as far as the watch, and as what it was told itself."""
    consumers, pending = await filled(Pods([WEB]))
    consumers.assume(WEB.generated("gpu", "web-gpu-x").but("metadata.resourceVersion", "20"))
    key = Key("ml", "web")
    assert [metadata(store.get(key) or {})["resourceVersion"] for store in (consumers, pending)] == ["20", "11"]


def test_a_pod_without_a_node_is_whole_only_where_rules_read_it() -> None:
    consumers, pending = stores()
    given = WEB.labelled(app="web").phase("Pending").but("status.conditions", [{}])
    for store in (consumers, pending):
        store.apply(given)
    key = Key("ml", "web")
    kept: Any = consumers.get(key)
    assert (pending.get(key), sorted(kept["metadata"]), kept["spec"], kept["status"]) == (
        given,
        ["name", "namespace", "uid"],
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
        {"phase": "Pending"},
    )


def size(value: Any, seen: set[int]) -> int:
    if id(value) in seen:
        return 0
    seen.add(id(value))
    inside = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sys.getsizeof(value) + sum(size(each, seen) for each in inside)


def test_a_bound_pod_with_a_claim_costs_less_than_three_kilobytes() -> None:
    """Of an object as it comes from the API, in which every string is its own."""
    container = {"name": "main", "image": "i" * 80, "env": [{"name": f"E{n}", "value": "v" * 20} for n in range(20)]}
    given: Object = WEB.bound().generated("gpu", "web-gpu-x").but("spec.containers", [container])
    store, _ = stores()
    store.apply({**given, "metadata": {**given["metadata"], "resourceVersion": "123456"}})
    assert size(store.get(Key("ml", "web")), set()) < 3_000
