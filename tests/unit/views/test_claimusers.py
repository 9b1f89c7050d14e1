"""Pods that use claims, and Pods without a node, from one watch; created claims; uids of what is gone."""

import sys
from typing import Any

import pytest
from builders import Pod, claim, pod

from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.store import Store
from tollbar.views import createdclaims, indexers
from tollbar.views.claimusers import ClaimUsers
from tollbar.views.createdclaims import CreatedClaims
from tollbar.views.deleted import DeletedUids

WEB = pod().templates("gpu")


def stores() -> tuple[ClaimUsers, Store]:
    pending = Store(resources.PODS, indexers=indexers.PODS)
    return ClaimUsers(pending), pending


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
def test_which_pods_are_kept_where(given: list[Pod], users: list[str], waiting: list[str]) -> None:
    store, pending = stores()
    for each in given:
        store.apply(each)
    assert ([o["metadata"]["name"] for o in store.values()], [o["metadata"]["name"] for o in pending.values()]) == (
        users,
        waiting,
    )


@pytest.mark.parametrize("how", ["the watch", "a list"])
def test_a_pod_that_goes_leaves_both(how: str) -> None:
    store, pending = stores()
    store.apply(WEB)
    store.apply(pod("plain"))
    if how == "the watch":
        store.remove(WEB)
        store.remove(pod("plain"))
    else:
        store.replace([])
    assert (len(store), len(pending), sorted(store.keys()), pending.synced.is_set()) == (0, 0, [], how == "a list")


def test_a_pod_without_a_node_is_whole_only_where_rules_read_it() -> None:
    store, pending = stores()
    given = WEB.labelled(app="web").phase("Pending").but("status.conditions", [{}])
    store.apply(given)
    key = Key("ml", "web")
    kept: Any = store.get(key)
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


class Clock(SystemClock):
    now_ = 0.0

    def monotonic(self) -> float:
        return self.now_


MADE = claim("web-gpu-x").generated_for(WEB, "gpu")
HIDDEN: dict[str, tuple[Any, bool]] = {
    "the watch has said nothing": (lambda _claims, _clock: None, True),
    "the watch shows it": (lambda claims, _clock: claims.apply(MADE), False),
    "the watch shows another one of that name": (lambda claims, _clock: claims.apply(claim("web-gpu-x")), False),
    "an hour has passed": (lambda _claims, clock: setattr(clock, "now_", createdclaims.KEPT + 1), False),
}


@pytest.mark.parametrize(("happens", "kept"), HIDDEN.values(), ids=HIDDEN)
def test_a_created_claim_is_known_until(happens: Any, kept: bool) -> None:
    claims, clock = Store(resources.RESOURCE_CLAIMS), Clock()
    created = CreatedClaims(claims, clock)
    created.add(MADE)
    happens(claims, clock)
    found = created.get(Key("ml", "web-gpu-x")), created.owned_by("uid-of-web")
    assert found == ((MADE, [MADE]) if kept else (None, []))


def test_a_watch_that_was_quicker_than_the_answer() -> None:
    claims = Store(resources.RESOURCE_CLAIMS)
    created = CreatedClaims(claims, Clock())
    claims.apply(MADE)
    created.add(MADE)
    assert len(created) == 0


def test_the_uids_of_what_went_last_are_known() -> None:
    gone = DeletedUids(limit=2)
    store = Store(resources.PODS)
    gone.watch(store)
    for name in ("a", "b", "c"):
        store.apply(pod(name))
        store.remove(pod(name))
    gone.add("x")
    gone.discard("x")
    store.apply(pod("d"))
    store.discard(key_of(pod("d")))  # a list that lacks it may lack the whole kind
    assert [uid in gone for uid in ("uid-of-a", "uid-of-b", "uid-of-c", "x", "uid-of-d")] == [
        False,
        False,
        True,
        False,
        False,
    ]
