"""What the cache refuses, and the order in which it gives the Nodes."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tollbar.model.objects import Object
from tollbar.scheduler.cache.cache import Cache, CacheError
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot

SHAPES = Shapes()


def pod(node: str = "n1", *, uid: str = "u", name: str = "web") -> PodInfo:
    meta = {"namespace": "shop", "name": name, "uid": uid}
    return SHAPES.pod_info({"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": "c"}]}})


def node(name: str, *, zone: str = "", **status: Any) -> Object:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def assumed(cache: Cache) -> None:
    cache.assume(pod())


def added(cache: Cache) -> None:
    cache.add_pod(pod())


def nothing(cache: Cache) -> None:
    pass


ERRORS: dict[str, tuple[Callable[[Cache], None], Callable[[Cache], object], type[CacheError], str]] = {
    "assume a Pod twice": (
        assumed,
        lambda cache: cache.assume(pod()),
        CacheError,
        "pod u(shop/web) is in the cache, so can't be assumed",
    ),
    "assume a bound Pod": (
        added,
        lambda cache: cache.assume(pod()),
        CacheError,
        "pod u(shop/web) is in the cache, so can't be assumed",
    ),
    "assume a Pod without a uid": (
        nothing,
        lambda cache: cache.assume(pod(uid="")),
        CacheError,
        "cannot get cache key for pod with empty UID",
    ),
    "forget a bound Pod": (
        added,
        lambda cache: cache.forget(pod()),
        CacheError,
        "pod u(shop/web) is not assumed, so it cannot be removed or forgotten",
    ),
    "forget a Pod on another Node": (
        assumed,
        lambda cache: cache.forget(pod("n2")),
        CacheError,
        "pod u(shop/web) was assumed on n2 but assigned to n1",
    ),
    "add a Pod twice": (
        added,
        lambda cache: cache.add_pod(pod()),
        CacheError,
        "pod u(shop/web) was already in added state",
    ),
    "update a Pod that is not known": (
        nothing,
        lambda cache: cache.update_pod(pod()),
        CacheError,
        "pod u(shop/web) is not added to scheduler cache, so cannot be updated",
    ),
    "update an assumed Pod": (
        assumed,
        lambda cache: cache.update_pod(pod()),
        CacheError,
        "assumed pod u(shop/web) should not be updated",
    ),
    "update a Pod on another Node": (
        added,
        lambda cache: cache.update_pod(pod("n2")),
        CacheError,
        "pod u(shop/web) updated on a different node than previously added to",
    ),
    "remove a Pod that is not known": (
        nothing,
        lambda cache: cache.remove_pod(pod()),
        CacheError,
        "pod u(shop/web) is not found in scheduler cache, so cannot be removed from it",
    ),
    "remove a Pod from another Node": (
        added,
        lambda cache: cache.remove_pod(pod("n2")),
        CacheError,
        "pod u(shop/web) was added to a different node than it was assumed",
    ),
    "remove a Node that is not known": (
        nothing,
        lambda cache: cache.remove_node("n1"),
        CacheError,
        "node n1 is not found",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_does_not_go_with_what_is_known_is_an_error_and_changes_nothing(name: str) -> None:
    prepare, operation, kind, message = ERRORS[name]
    cache = Cache()
    prepare(cache)
    before = cache.sizes()
    with pytest.raises(CacheError) as caught:
        operation(cache)
    assert (type(caught.value), str(caught.value), cache.sizes()) == (kind, message, before)


def test_a_pod_is_assumed_then_added_then_gone() -> None:
    cache = Cache()
    seen = []
    steps: list[Callable[[], object]] = [
        lambda: cache.assume(pod()),
        lambda: cache.add_pod(pod()),
        lambda: cache.update_pod(pod()),
        lambda: cache.remove_pod(pod("")),
    ]
    for step in steps:
        step()
        seen.append((cache.is_assumed("u"), cache.pod("u") is not None, cache.sizes()["nodes"]))
    assert seen == [(True, True, 1), (False, True, 1), (False, True, 1), (False, False, 0)]


def test_a_forgotten_pod_is_not_known_and_to_forget_it_again_is_nothing() -> None:
    cache = Cache()
    cache.assume(pod())
    cache.forget(pod())
    cache.forget(pod())
    assert cache.sizes() == {"assumed_pods": 0, "pods": 0, "nodes": 0}


def test_a_pod_that_is_bound_elsewhere_than_assumed_moves_and_the_log_can_say_so() -> None:
    cache = Cache()
    cache.assume(pod("n1"))
    assert (cache.add_pod(pod("n2")), cache.node("n1"), set(cache.node("n2").pods)) == ("n1", None, {"u"})  # type: ignore[union-attr]


def test_a_node_that_is_gone_is_in_no_snapshot_but_its_pods_count_when_it_is_back() -> None:
    cache, snapshot = Cache(), Snapshot()
    cache.set_node(node("n1"))
    cache.add_pod(pod("n1"))
    seen = []
    steps: list[Callable[[], object]] = [
        lambda: cache.remove_node("n1"),
        lambda: cache.set_node(node("n1")),
        lambda: cache.remove_node("n1"),
    ]
    for step in steps:
        step()
        snapshot.update(cache)
        seen.append([(each.name, len(each.pods)) for each in snapshot])
    cache.remove_pod(pod("n1"))
    assert (seen, cache.sizes()["nodes"]) == ([[], [("n1", 1)], []], 0)


def test_a_pod_may_come_before_its_node() -> None:
    cache, snapshot = Cache(), Snapshot()
    cache.add_pod(pod("n1"))
    snapshot.update(cache)
    without = len(snapshot)
    cache.set_node(node("n1"))
    snapshot.update(cache)
    assert (without, [(each.name, len(each.pods)) for each in snapshot]) == (0, [("n1", 1)])


ORDERS: dict[str, tuple[list[tuple[str, str | None]], list[str]]] = {
    "one zone: as they came": ([("a", ""), ("c", ""), ("b", "")], ["a", "c", "b"]),
    "zones take turns, the first to come first": (
        [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("c1", "c"), ("b2", "b")],
        ["a1", "b1", "c1", "a2", "b2", "a3"],
    ),
    "a Node without a zone is in one of its own": ([("a1", "a"), ("x", ""), ("a2", "a")], ["a1", "x", "a2"]),
    "a Node that is updated keeps its place": ([("a", ""), ("b", ""), ("a", "")], ["a", "b"]),
    "a Node that was gone is last": ([("a", ""), ("b", ""), ("a", None), ("a", "")], ["b", "a"]),
    "a Node that changes its zone is last there": (
        [("a1", "a"), ("b1", "b"), ("b2", "b"), ("a1", "b"), ("a2", "a")],
        ["b1", "a2", "b2", "a1"],
    ),
    "a zone that was empty is last": (
        [("a1", "a"), ("b1", "b"), ("a1", None), ("a2", "a")],
        ["b1", "a2"],
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_nodes_are_tried_zone_by_zone_in_turn(name: str) -> None:
    events, expected = ORDERS[name]
    cache, snapshot = Cache(), Snapshot()
    for each, zone in events:
        if zone is None:
            cache.remove_node(each)
        else:
            cache.set_node(node(each, zone=zone))
    snapshot.update(cache)
    assert [each.name for each in snapshot] == expected


def test_an_image_counts_the_nodes_that_have_it_with_the_size_that_came_first() -> None:
    cache, snapshot = Cache(), Snapshot()

    def seen() -> dict[str, tuple[int, int, list[bool]]]:
        snapshot.update(cache)
        return {
            name: (each.size, each.nodes, snapshot.has_image(name)[snapshot.table.order].tolist())
            for name, each in snapshot.images.items()
        }

    cache.set_node(node("n1", images=[{"names": ["app:1", "app@sha256:0"], "sizeBytes": 10}]))
    cache.set_node(node("n2", images=[{"names": ["app:1"], "sizeBytes": 20}, {"names": ["db:2"], "sizeBytes": 5}]))
    both = seen()
    cache.set_node(node("n1"))
    cache.set_node(node("n2", images=[{"names": ["app:1"], "sizeBytes": 20}]))
    assert (both, seen(), bool(snapshot.has_image("db:2").any())) == (
        {"app:1": (10, 2, [True, True]), "app@sha256:0": (10, 1, [True, False]), "db:2": (5, 1, [False, True])},
        {"app:1": (10, 1, [False, True])},
        False,
    )


def test_an_update_without_a_change_touches_nothing() -> None:
    cache, snapshot = Cache(), Snapshot()
    cache.set_node(node("n1"))
    snapshot.update(cache)
    nodes, version = snapshot.nodes, snapshot.changed.version
    snapshot.update(cache)
    assert (snapshot.nodes is nodes, snapshot.changed.version, cache.take_changes(snapshot.nodes[0].generation)) == (
        True,
        version,
        [],
    )


def test_a_pod_changes_the_record_and_the_row_of_its_node_alone() -> None:
    cache, snapshot = Cache(), Snapshot()
    for name in ("n1", "n2", "n3"):
        cache.set_node(node(name))
    snapshot.update(cache)
    before, version = list(snapshot), snapshot.changed.version
    cache.assume(pod("n2"))
    snapshot.update(cache)
    same = [one is other for one, other in zip(before, snapshot, strict=True)]
    assert (same, snapshot.changed.since(version)) == ([True, False, True], {1})


def test_of_a_node_with_many_pods_those_alone_are_counted_that_have_come_or_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, snapshot = Cache(), Snapshot()
    cache.set_node(node("n1"))
    for number in range(9):
        cache.add_pod(pod(uid=f"u{number}"))
    snapshot.update(cache)
    counted = []
    monkeypatch.setattr(snapshot.groups, "count", lambda _row, pod, sign: counted.append((pod.uid, sign)))

    cache.assume(pod(uid="new"))
    cache.remove_pod(pod(uid="u3"))
    snapshot.update(cache)

    assert counted == [("new", 1), ("u3", -1)]


def test_pods_that_come_and_go_while_nothing_is_scheduled_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, snapshot = Cache(), Snapshot()
    counted: Counter[str] = Counter()
    monkeypatch.setattr(snapshot.groups, "count", lambda _, pod, sign: counted.update({pod.uid: sign}))
    cache.set_node(node("n1"))
    cache.add_pod(pod(uid="stays"))
    snapshot.update(cache)

    for number in range(100):
        cache.add_pod(pod(uid=f"u{number}"))
        cache.remove_pod(pod(uid=f"u{number}"))
    cache.add_pod(pod(uid="last"))
    remembered = cache.node("n1")
    snapshot.update(cache)

    assert remembered is not None
    assert len(remembered.added) + len(remembered.removed) < 100
    assert +counted == Counter(("stays", "last"))


CONFIRMED: dict[str, tuple[Object, bool]] = {
    "as it was assumed": ({}, False),
    "it runs": ({"status": {"phase": "Running", "podIP": "10.0.0.1"}}, False),
    "it was nominated, and its claim was made": (
        {"status": {"nominatedNodeName": "n1", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}]}},
        False,
    ),
    "it has other labels": ({"metadata": {"labels": {"app": "web"}}}, True),
    "it requests more": ({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}, True),
    "it was resized in place": (
        {
            "status": {
                "containerStatuses": [
                    {
                        "name": "c",
                        "allocatedResources": {"cpu": "2"},
                        "resources": {"requests": {"cpu": "2"}},
                    }
                ]
            }
        },
        True,
    ),
    "it has a priority": ({"spec": {"priority": 1}}, True),
    "it was started": ({"status": {"startTime": "2026-01-01T00:00:00Z"}}, True),
    "it is being deleted": ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
    "it is a victim": (
        {"status": {"conditions": [{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}]}},
        True,
    ),
}


@pytest.mark.parametrize("confirm", [Cache.add_pod, Cache.update_pod])
@pytest.mark.parametrize("name", CONFIRMED)
def test_what_the_api_says_of_a_pod_changes_its_node_only_if_the_pod_counts_otherwise(
    name: str, confirm: Callable[[Cache, PodInfo], object]
) -> None:
    given, changes = CONFIRMED[name]
    cache, snapshot = Cache(), Snapshot()
    cache.set_node(node("n1"))
    (Cache.assume if confirm is Cache.add_pod else Cache.add_pod)(cache, pod("n1"))
    snapshot.update(cache)
    version = snapshot.changed.version
    meta = {"namespace": "shop", "name": "web", "uid": "u", **given.get("metadata", {})}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}], **given.get("spec", {})}
    new = SHAPES.pod_info({"metadata": meta, "spec": spec, "status": given.get("status", {})})

    confirm(cache, new)
    snapshot.update(cache)

    held = [cache.pod("u"), cache.node("n1").pods["u"], snapshot.nodes[0].pods["u"]]  # type: ignore[union-attr]
    assert (held, cache.is_assumed("u"), snapshot.changed.version != version) == ([new] * 3, False, changes)
