"""The manager's claims: what is pending, what counts, and what collides."""

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from objects.builders import Built
from objects.devices import DRIVER, a_claim, allocation, published, share, shared, whole

from tollbar.dra.claims import Claims, Refused
from tollbar.dra.state import AllocatedState
from tollbar.model.objects import Key, Object
from tollbar.runtime.store import Store
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled
from tollbar.wellknown import EXTENDED_RESOURCES_CLAIM

TAKEN = "ResourceClaim ml/a cannot be allocated, others hold what it needs:"
A, B = "uid-of-a", "uid-of-b"
ADMIN = {"name": "r0", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
SLICE = published("s", "g0", "g1", "g2", shared("m", memory="10"))


def following(*objects: Object) -> tuple[Claims, Store]:
    manager = dra_manager(filled([SLICE, *objects], KINDS))
    return manager.claims, manager.stores[0]


def held(claims: Claims) -> dict[str, int]:
    """How often each device is held: whole, and in shares."""
    found = {**claims.state.devices, **claims.state.shares}
    return {device.device: count for device, count in sorted(found.items())}


def colliding(claims: Claims, uid: str) -> dict[str, list[str]]:
    """The devices of this claim that are not enough for all who hold them, and the others who do."""
    found = claims.collisions_of(uid, claims.allocation(uid) or {})
    return {each.device.device: [holder.uid for holder in each.holders] for each in found}


def virtual(uid: str, *results: str | Object) -> Built:
    return a_claim(EXTENDED_RESOURCES_CLAIM, *results, uid=uid)


def outcome(found: Object | Refused) -> Any:
    if isinstance(found, Refused):
        return found.message
    return [result["device"] for result in found["devices"]["results"]]


SIGNALS: dict[str, tuple[Sequence[Object], Sequence[Object], Any, dict[str, int]]] = {
    "an allocation of a claim that has none becomes pending": (
        [a_claim("a")],
        [a_claim("a", "g0")],
        ["g0"],
        {"g0": 1},
    ),
    "a second sharer gets the allocation that is pending": (
        [a_claim("a")],
        [a_claim("a", "g0"), a_claim("a", "g1")],
        ["g0"],
        {"g0": 1},
    ),
    "a claim that the cache shows allocated keeps what it has": (
        [a_claim("a", "g0")],
        [a_claim("a", "g1")],
        ["g0"],
        {"g0": 1},
    ),
    "a claim that is gone is refused": (
        [],
        [a_claim("a", "g0")],
        "ResourceClaim ml/a does not exist any more",
        {},
    ),
    "another claim of the same name is not the claim": (
        [a_claim("a", uid="new")],
        [a_claim("a", "g0")],
        "ResourceClaim ml/a does not exist any more",
        {},
    ),
    "a virtual claim need not be in the cache": ([], [virtual("v", "g0")], ["g0"], {"g0": 1}),
    "virtual claims of two Pods are two": ([], [virtual("v", "g0"), virtual("w", "g1")], ["g1"], {"g0": 1, "g1": 1}),
    "a device that an allocated claim holds is refused": (
        [a_claim("a"), a_claim("b", "g0")],
        [a_claim("a", "g0", "g1")],
        f"{TAKEN} gpu.example.com/n1/g0 (held by ml/b)",
        {"g0": 1},
    ),
    "a device that is pending for a claim is refused": (
        [a_claim("a")],
        [virtual("v", "g0"), a_claim("a", "g0")],
        f"{TAKEN} gpu.example.com/n1/g0 (held by ml/<extended-resources>)",
        {"g0": 1},
    ),
    "a device of the same name in another pool is another": (
        [a_claim("a"), a_claim("b", "g0")],
        [a_claim("a", whole("g0", "n2"))],
        ["g0"],
        {"g0": 1},
    ),
    "a device that others hold by admin access is free": (
        [a_claim("a"), a_claim("b", whole("g0", adminAccess=True))],
        [a_claim("a", "g0")],
        ["g0"],
        {"g0": 1},
    ),
    "what a claim asks for does not count, only what its allocation says: unset is no admin access": (
        [a_claim("a"), a_claim("b", "g0").but("spec.devices.requests", [ADMIN])],
        [a_claim("a", "g0")],
        f"{TAKEN} {DRIVER}/n1/g0 (held by ml/b)",
        {"g0": 1},
    ),
    "admin access takes nothing away": (
        [a_claim("a"), a_claim("b", "g0")],
        [a_claim("a", whole("g0", adminAccess=True))],
        ["g0"],
        {"g0": 1},
    ),
    "shares that fit together are taken": (
        [a_claim("a"), a_claim("b", share("m", memory="4"))],
        [a_claim("a", share("m", memory="6"))],
        ["m"],
        {"m": 2},
    ),
    "more of a shared device than is left is refused": (
        [a_claim("a"), a_claim("b", share("m", memory="4"))],
        [a_claim("a", share("m", memory="6001m"))],
        f"{TAKEN} gpu.example.com/n1/m (held by ml/b)",
        {"m": 1},
    ),
    "more of a shared device than there is is refused": (
        [a_claim("a")],
        [a_claim("a", share("m", memory="11"))],
        f"{TAKEN} gpu.example.com/n1/m",
        {},
    ),
    "a capacity that the device does not have is refused": (
        [a_claim("a")],
        [a_claim("a", share("m", cores="1"))],
        f"{TAKEN} gpu.example.com/n1/m",
        {},
    ),
    "the whole of a shared device is refused while somebody has a share": (
        [a_claim("a"), a_claim("b", share("m", memory="1"))],
        [a_claim("a", "m")],
        f"{TAKEN} gpu.example.com/n1/m (held by ml/b)",
        {"m": 1},
    ),
    "a share is refused while somebody has the whole device": (
        [a_claim("a"), a_claim("b", "m")],
        [a_claim("a", share("m", memory="1"))],
        f"{TAKEN} gpu.example.com/n1/m (held by ml/b)",
        {"m": 1},
    ),
    "shares of a device that no slice has any more are not limited": (
        [a_claim("a"), a_claim("b", share("gone", memory="9"))],
        [a_claim("a", share("gone", memory="9"))],
        ["gone"],
        {"gone": 2},
    ),
}


@pytest.mark.behaviour(37, case="an allocation of a claim that has none becomes pending")
@pytest.mark.behaviour(38, case="a device that others hold by admin access is free")
@pytest.mark.behaviour(38, case="what a claim asks for does not count, only what its allocation says")
@pytest.mark.parametrize(("objects", "signalled", "want", "holds"), SIGNALS.values(), ids=SIGNALS)
def test_signal(objects: Sequence[Object], signalled: Sequence[Object], want: Any, holds: dict[str, int]) -> None:
    claims, _ = following(*objects)
    *_, last = [claims.signal_pending_allocation(each) for each in signalled]
    assert (outcome(last), held(claims)) == (want, holds)


REMOVALS: dict[str, tuple[int, Sequence[bool], bool, dict[str, int]]] = {
    "nothing is pending": (0, [False], False, {}),
    "nothing is pending that could be forced": (0, [True], False, {}),
    "the only one that needs it": (1, [False], True, {}),
    "one of two that share it": (2, [False], False, {"g0": 1}),
    "the last of two that share it": (2, [False, False], True, {}),
    "forced while two share it": (2, [True], True, {}),
    "once more than it was signalled": (1, [False, False], False, {}),
}


@pytest.mark.behaviour(37)
@pytest.mark.parametrize(("signals", "removals", "want", "holds"), REMOVALS.values(), ids=REMOVALS)
def test_remove(signals: int, removals: Sequence[bool], want: bool, holds: dict[str, int]) -> None:
    claims, _ = following(a_claim("a"))
    for _ in range(signals):
        claims.signal_pending_allocation(a_claim("a", "g0"))
    *_, last = [claims.remove_pending_allocation(A, force=force) for force in removals]
    assert (last, held(claims), claims.pending_allocation(A) is not None) == (want, holds, bool(holds))


WRITTEN = a_claim("a", "g0", version=5)
ARRIVALS: dict[str, Callable[[Claims, Store], object]] = {
    "answer": lambda claims, _: claims.assume(WRITTEN),
    "event": lambda _, store: store.apply(Built(WRITTEN)),
    "older event": lambda _, store: store.apply(a_claim("a", version=3)),
    "list": lambda _, store: store.replace([Built(WRITTEN)], "6"),
    "removal": lambda claims, _: claims.remove_pending_allocation(A),
}
ORDERS = [
    order
    for order in itertools.permutations(ARRIVALS)
    # An event is older because it comes first; nobody removes what the cache does not show yet.
    if order.index("removal") > min(map(order.index, ("answer", "event", "list")))
    and order.index("older event") < min(map(order.index, ("event", "list")))
]


@pytest.mark.behaviour(37, 48)
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_the_device_is_held_once_all_the_way_into_the_cache(order: Sequence[str]) -> None:
    claims, store = following(a_claim("a"))
    claims.signal_pending_allocation(a_claim("a", "g0"))
    revision = claims.revision
    for each in order:
        ARRIVALS[each](claims, store)
        assert held(claims) == {"g0": 1}, each
    assert (claims.pending_allocation(A), claims.revision) == (None, revision)


CHANGES: dict[str, tuple[Callable[[Claims, Store], object], dict[str, int], bool]] = {
    "another claim is allocated": (lambda _, store: store.apply(a_claim("b", "g1")), {"g0": 1, "g1": 1}, True),
    "the claim is deallocated": (lambda _, store: store.apply(a_claim("a", version=2)), {}, True),
    "the claim is deleted": (lambda _, store: store.remove(a_claim("a")), {}, True),
    "another claim of the name comes": (lambda _, store: store.apply(a_claim("a", uid="new")), {}, True),
    "another claim of the name comes allocated": (
        lambda _, store: store.apply(a_claim("a", "g1", uid="new")),
        {"g1": 1},
        True,
    ),
    "a list lacks the claim": (lambda _, store: store.replace([]), {}, True),
    "the claim is reserved": (
        lambda _, store: store.apply(a_claim("a", "g0", version=2).but("status.reservedFor", [{"uid": "x"}])),
        {"g0": 1},
        False,
    ),
    "the allocation gets a time": (
        lambda _, store: store.apply(a_claim("a", "g0").but("status.allocation.allocationTimestamp", "now")),
        {"g0": 1},
        False,
    ),
    "a claim without allocation comes": (lambda _, store: store.apply(a_claim("b")), {"g0": 1}, False),
    "a claim with admin access comes": (
        lambda _, store: store.apply(a_claim("b", whole("g0", adminAccess=True))),
        {"g0": 1},
        False,
    ),
    "something becomes pending": (
        lambda claims, _: claims.signal_pending_allocation(virtual("v", "g1")),
        {"g0": 1, "g1": 1},
        True,
    ),
    "something is refused": (lambda claims, _: claims.signal_pending_allocation(virtual("v", "g0")), {"g0": 1}, False),
}


@pytest.mark.parametrize(("change", "holds", "is_new"), CHANGES.values(), ids=CHANGES)
def test_the_revision_changes_with_the_state(
    change: Callable[[Claims, Store], object], holds: dict[str, int], is_new: bool
) -> None:
    claims, store = following(a_claim("a", "g0"))
    before = claims.revision
    change(claims, store)
    assert (held(claims), claims.revision != before) == (holds, is_new)


def test_a_virtual_claim_is_created_without_a_gap_and_without_counting_twice() -> None:
    claims, store = following()
    claims.signal_pending_allocation(virtual("v", "g0", share("m", memory="6")))
    steps: list[Callable[[], object]] = [
        lambda: claims.created("v", a_claim("web-x", version=3)),
        lambda: store.apply(a_claim("web-x", version=3)),
        lambda: store.apply(a_claim("web-x", "g0", share("m", memory="6"), version=4)),
        lambda: claims.assume(a_claim("web-x", "g0", share("m", memory="6"), version=4)),
        lambda: claims.remove_pending_allocation("uid-of-web-x", force=True),
    ]
    for step in steps:
        step()
        assert held(claims) == {"g0": 1, "m": 1}
        assert claims.pending_allocation("v") is None


def test_a_created_claim_is_read_before_the_watch_shows_it() -> None:
    claims, _ = following()
    claims.signal_pending_allocation(virtual("v", "g0"))
    claims.created("v", a_claim("web-x", version=3))
    assert claims.get(Key("ml", "web-x")) is not None
    assert claims.pending_allocation("uid-of-web-x") == claims.allocation("uid-of-web-x") == allocation("g0")


def test_a_pending_allocation_outlives_its_claim_until_it_is_removed() -> None:
    """Whoever is writing it finds out that the claim is gone."""
    claims, store = following(a_claim("a"))
    claims.signal_pending_allocation(a_claim("a", "g0"))
    store.remove(a_claim("a"))
    assert held(claims) == {"g0": 1}
    claims.remove_pending_allocation(A)
    assert held(claims) == {}


def test_what_another_claim_of_the_name_holds_is_its_own() -> None:
    claims, store = following(a_claim("a"))
    claims.signal_pending_allocation(a_claim("a", "g0"))
    store.apply(a_claim("a", "g1", version=3, uid="new"))
    assert held(claims) == {"g0": 1, "g1": 1}
    claims.remove_pending_allocation(A)
    assert (held(claims), claims.allocation(A)) == ({"g1": 1}, None)


def test_an_allocation_is_kept_in_memory_once() -> None:
    claims, store = following(a_claim("a", "g0"))
    store.apply(a_claim("a", "g0", version=2).but("status.reservedFor", [{"uid": "x"}]))
    cached = claims.get(Key("ml", "a"))
    assert cached is not None
    assert claims.allocation(A) is cached["status"]["allocation"]


def test_what_somebody_else_allocates_meanwhile_stands_over_what_is_pending() -> None:
    claims, store = following(a_claim("a"), a_claim("b"))
    claims.signal_pending_allocation(a_claim("a", "g0"))
    store.apply(a_claim("a", "g1", version=2))
    assert held(claims) == {"g1": 1}
    assert outcome(claims.allocation(A) or {}) == ["g1"]
    # g0 would be held twice if g1 were given back.
    assert "held by ml/a" in outcome(claims.signal_pending_allocation(a_claim("b", "g0")))
    store.apply(a_claim("a", version=3))
    assert held(claims) == {"g0": 1}


def test_an_answer_of_the_api_server_is_not_taken_back() -> None:
    claims, _ = following(a_claim("a"))
    claims.assume(WRITTEN)
    claims.restore(Key("ml", "a"))
    assert held(claims) == {"g0": 1}


def test_an_answer_is_not_taken_back_with_a_change_in_memory_of_it() -> None:
    claims, _ = following(a_claim("a"), a_claim("b"))
    claims.assume(WRITTEN)
    claims.assume(Built(WRITTEN).but("status.reservedFor", [{"resource": "pods", "name": "web", "uid": "1"}]))
    claims.restore(Key("ml", "a"))
    assert held(claims) == {"g0": 1}
    assert "held by ml/a" in outcome(claims.signal_pending_allocation(a_claim("b", "g0")))


def test_a_change_in_memory_is_taken_back() -> None:
    claims, _ = following(a_claim("a"))
    claims.assume(a_claim("a", "g0"))
    assert held(claims) == {"g0": 1}
    claims.restore(Key("ml", "a"))
    assert held(claims) == {}


def test_collisions_name_the_devices_and_all_who_hold_them() -> None:
    claims, store = following(
        a_claim("a", "g0", share("m", memory="6")),
        a_claim("b", "g0", "g1", share("m", memory="6")),
        a_claim("c", share("m", memory="1")),
    )
    assert colliding(claims, A) == {"g0": [B], "m": [B, "uid-of-c"]}
    of_a = claims.collisions_of(A, allocation("g0", "g2"))
    assert [str(each) for each in of_a] == ["gpu.example.com/n1/g0 (held by ml/b)"]
    store.remove(a_claim("b"))
    assert colliding(claims, A) == {}
    assert claims.collisions_of(A, allocation("g0", share("m", memory="9"))) == ()
    assert len(claims.collisions_of(A, allocation(share("m", memory="9001m")))) == 1


def test_a_collision_is_told_whoever_came_first_to_a_shared_device() -> None:
    claims, _ = following(a_claim("a", "m"), a_claim("b", share("m", memory="1")))
    assert [colliding(claims, each) for each in (A, B)] == [{"m": [B]}, {"m": [A]}]


def test_a_slice_that_offers_less_makes_a_collision() -> None:
    manager = dra_manager(
        filled([SLICE, a_claim("a", share("m", memory="5")), a_claim("b", share("m", memory="5"))], KINDS)
    )
    assert colliding(manager.claims, A) == {}
    manager.stores[1].apply(published("s", shared("m", memory="9")).but("metadata.resourceVersion", "2"))
    assert colliding(manager.claims, A) == {"m": [B]}


def test_an_allocation_that_cannot_be_read_holds_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    manager = dra_manager(filled([], KINDS))
    store, claims = manager.stores[0], manager.claims
    bad = a_claim("a", "g0", {"device": "g1"})
    with caplog.at_level(logging.WARNING):
        for version in (1, 2, 3):
            store.apply(bad.but("metadata.resourceVersion", str(version)).but("status.turn", version))
        assert (held(claims), len(manager.malformed), len(caplog.records)) == ({}, 1, 1)
        assert claims.allocation(A) is not None
        store.apply(a_claim("a", "g0", version=4))
        assert (held(claims), len(manager.malformed)) == ({"g0": 1}, 0)
        store.apply(bad)
        store.remove(bad)
    assert (held(claims), len(manager.malformed)) == ({}, 0)


def test_a_share_whose_capacity_cannot_be_read_holds_the_whole_device() -> None:
    claims, _ = following(a_claim("a", "g0", share("m", memory="much")), a_claim("b"))
    assert held(claims) == {"g0": 1, "m": 1}
    assert "held by ml/a" in outcome(claims.signal_pending_allocation(a_claim("b", "g0")))


def test_a_name_that_is_no_text_leaves_nothing_behind() -> None:
    claims, store = following(a_claim("b"))
    bad = a_claim("a", "g0", {**whole("g1"), "driver": ["x"]})
    store.apply(bad)
    store.remove(bad)
    assert claims.state == AllocatedState()


def test_a_caller_that_signals_what_cannot_be_read_is_told_so() -> None:
    claims, _ = following(a_claim("a"))
    with pytest.raises(KeyError):
        claims.signal_pending_allocation(a_claim("a", "g0", {"device": "g1"}))
    assert (held(claims), claims.pending_allocation(A)) == ({}, None)


def test_a_share_that_consumes_nothing_is_a_share() -> None:
    state = AllocatedState([allocation(share("m", memory="0"))])
    state.add(allocation(share("m", memory="5")))
    state.remove(allocation(share("m", memory="5")))
    assert (list(state.shares.values()), state.capacity) == ([1], {})
    state.remove(allocation(share("m", memory="0")))
    assert state == AllocatedState()


@pytest.mark.behaviour(48)
def test_handlers_that_subscribe_later_see_the_state_after_the_change() -> None:
    claims, store = following()
    seen: list[dict[str, int]] = []
    store.subscribe(lambda _: seen.append(held(claims)))
    store.apply(a_claim("a", "g0"))
    store.remove(a_claim("a"))
    assert seen == [{"g0": 1}, {}]
