"""What DynamicResources remembers of earlier searches is what a search finds, whatever is taken, freed or published."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from objects.builders import Built, device_class
from objects.devices import a_claim, allocation, published, resource_slice, share, shared, taint_rule, whole

from tollbar.dra import solutions
from tollbar.dra.allocator import Allocator
from tollbar.dra.manager import DraManager
from tollbar.dra.solutions import NodeSolutions, Solutions
from tollbar.model.objects import Object
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.plugins.dynamic_resources.known_nodes import KnownNodes
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled

NODES = ("n1", "n2")
LABELS: tuple[dict[str, str], ...] = ({"zone": "a"}, {"zone": "b"})
COUNTERS = [{"name": "shared", "counters": {"memory": {"value": "3"}}}]


def consuming(name: str, value: str) -> Object:
    counters = {"memory": {"value": value}}
    part = {"attributes": {"part": {"bool": True}}}
    return {"name": name, **part, "consumesCounters": [{"counterSet": "shared", "counters": counters}]}


def partitioned(version: int, count: int = 2) -> list[Object]:
    """A pool of devices that share counters."""
    sets = published("sets", node="n1", pool="parts", sharedCounters=COUNTERS)
    made = published("parts", *(consuming(f"p{each}", "2") for each in range(count)), node="n1", pool="parts")
    pool = {"name": "parts", "generation": version, "resourceSliceCount": 2}
    return [Built(each).but("spec.pool", pool).but("metadata.resourceVersion", str(version)) for each in (sets, made)]


ZONAL = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
REQUESTS: tuple[Object, ...] = (
    {"count": 1},
    {"count": 2},
    {"allocationMode": "All"},
    {"count": 1, "adminAccess": True},
    {"count": 1, "selectors": [{"cel": {"expression": "device.attributes['gpu.example.com'].fast"}}]},
    {"count": 1, "selectors": [{"cel": {"expression": "'part' in device.attributes['gpu.example.com']"}}]},
    {"count": 1, "tolerations": [{"operator": "Exists"}]},
    {"count": 1, "capacity": {"requests": {"memory": "1"}}},
    {"count": 1, "capacity": {"requests": {"memory": "1"}}, "adminAccess": True},
)
DEVICES = st.sampled_from(
    [("g0", "n1"), ("g1", "n1"), ("m0", "n1"), ("g0", "n2"), ("net0", "net"), ("p0", "parts"), ("p1", "parts")]
)


def asking(name: str, request: Object) -> Built:
    exactly = {"deviceClassName": "gpu", **request}
    return a_claim(name).but("spec.devices.requests", [{"name": "r0", "exactly": exactly}])


def local(node: str, version: int, fast: list[bool]) -> Object:
    made = [
        {"name": f"g{place}", "attributes": {"fast": {"bool": each}}} if each else f"g{place}"
        for place, each in enumerate(fast)
    ]
    memory = shared("m0", memory="4")
    pool = {"name": node, "generation": version, "resourceSliceCount": 1}
    return Built(published(f"s-{node}", *made, memory, node=node)).but("spec.pool", pool)


def network(count: int) -> Object:
    made = [{"name": f"net{each}"} for each in range(count)]
    body = resource_slice("net", made, pool="net", nodeSelector=ZONAL)
    return {**body, "kind": "ResourceSlice", "metadata": {"name": "net", "uid": "net", "resourceVersion": "1"}}


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, Any]:
    kind = draw(
        st.sampled_from(["take", "take", "take", "share", "free", "publish", "gone", "net", "parts", "taint", "labels"])
    )
    match kind:
        case "take":
            return kind, (*draw(DEVICES), draw(st.booleans()))
        case "share":
            return kind, draw(st.integers(1, 4))
        case "free":
            return kind, draw(st.integers(0, 5))
        case "publish":
            return kind, (draw(st.sampled_from(NODES)), draw(st.lists(st.booleans(), min_size=0, max_size=3)))
        case "gone":
            return kind, draw(st.sampled_from(NODES))
        case "taint":
            return kind, draw(st.booleans())
    return kind, draw(st.integers(0, 3))


class World:
    def __init__(self) -> None:
        objects = [local(each, 1, [True, False]) for each in NODES]
        self.manager: DraManager = dra_manager(filled([device_class(), network(1), *partitioned(1), *objects], KINDS))
        self.labels = dict(zip(NODES, LABELS, strict=True))
        self.version = 1
        self.held: list[Object] = []
        self.cache, self.nodes = Cache(), Snapshot()
        self.known: dict[NodeSolutions, KnownNodes] = {}
        for each in NODES:
            self.set_node(each)

    def set_node(self, name: str) -> None:
        self.cache.set_node({"metadata": {"name": name, "labels": self.labels.setdefault(name, {})}})
        self.nodes.update(self.cache)

    def known_of(self, solutions: NodeSolutions) -> KnownNodes:
        if solutions not in self.known:
            self.known[solutions] = KnownNodes(self.manager.inventory, self.nodes)
        return self.known[solutions]

    def told(self, solutions: NodeSolutions) -> dict[str, bool]:
        """Whether the claims fit, by the Nodes of which that is known of all at once."""
        fits, rejected, _ = self.known_of(solutions).update(solutions)
        assert not (fits & rejected).any()
        told = zip(self.nodes, fits.tolist(), rejected.tolist(), strict=True)
        return {node.name: fit for node, fit, rejection in told if fit or rejection}

    def apply(self, change: tuple[str, Any]) -> None:
        kind, value = change
        claims, slices, _, rules = self.manager.stores
        self.version += 1
        match kind, value:
            case "take", (device, pool, whole_claim):
                made = a_claim(f"c{self.version}", whole(device, pool), *(["g1"] if whole_claim else []))
                self.held.append(made)
                claims.apply(made)
            case "share", memory:
                self.held.append(a_claim(f"c{self.version}", share("m0", memory=str(memory))))
                claims.apply(self.held[-1])
            case "free", place if self.held:
                claims.remove(self.held.pop(place % len(self.held)))
            case "publish", (node, fast):
                slices.apply(Built(local(node, self.version, fast)).but("metadata.resourceVersion", str(self.version)))
            case "gone", node:
                slices.remove(local(node, 1, []))
            case "net", count:
                slices.apply(Built(network(count)).but("metadata.resourceVersion", str(self.version)))
            case "parts", count:
                for each in partitioned(self.version, count):
                    slices.apply(each)
            case "taint", True:
                rules.apply(taint_rule("broken", driver="gpu.example.com", pool="n1"))
            case "taint", False:
                rules.remove(taint_rule("broken"))
            case "labels", number:
                self.labels["n2"] = LABELS[number % 2]
                self.set_node("n2")

    def search(self, claims: list[Object], node: str) -> Any:
        found = Allocator(self.manager.inventory, self.manager.claims.state, self.manager.classes).allocate(
            {"metadata": {"name": node, "labels": self.labels[node]}}, claims
        )
        return () if found is None else tuple(found) if isinstance(found, list) else found


def without_ids(found: Any) -> Any:
    """Allocations without the ids of shares, which are never the same."""
    if not isinstance(found, tuple):
        return found
    results = [each["devices"]["results"] for each in found]
    return [[{**each, "shareID": "shareID" in each} for each in of_claim] for of_claim in results]


@settings(deadline=None)
@given(
    wanted=st.lists(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=2), min_size=1, max_size=3),
    steps=st.lists(changes(), max_size=12),
)
def test_what_is_remembered_is_what_is_found(wanted: list[list[Object]], steps: list[tuple[str, Any]]) -> None:
    world = World()
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    for change in [("labels", 1), *steps]:
        world.apply(change)
        for requests in wanted:
            claims = [asking(f"new-{place}", each) for place, each in enumerate(requests)]
            of_kind = kept.of(claims, world.manager.classes)
            told = world.told(of_kind)
            for node in NODES:
                known = of_kind.get(node, world.labels[node])
                found = world.search(list(claims), node)
                assert known is None or without_ids(known) == without_ids(found)
                assert node not in told or told[node] == bool(found)
                if isinstance(found, tuple):
                    of_kind.put(node, world.labels[node], found)
                    world.known_of(of_kind).was_asked(node)


def test_equal_claims_share_a_solution_until_its_device_is_taken() -> None:
    world = World()
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    first, second = (kept.of([asking(name, {"count": 1})], world.manager.classes) for name in ("a", "b"))
    first.put("n1", world.labels["n1"], [allocation(whole("g0", "n1"))])
    before = second.get("n1", world.labels["n1"])
    world.apply(("take", ("g0", "n1", False)))
    assert (before, second.get("n1", world.labels["n1"])) == ((allocation(whole("g0", "n1")),), None)


def test_the_kinds_that_were_asked_for_longest_ago_go_when_there_are_too_many_solutions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solutions, "_SOLUTIONS_MAX", 4)
    world = World()
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    kinds = [[asking("a", {"count": count})] for count in (1, 2, 3)]
    for claims in kinds:
        for node in NODES:
            kept.of(claims, world.manager.classes).put(node, world.labels[node], ())
    known = [kept.of(claims, world.manager.classes).get("n1", world.labels["n1"]) for claims in (*kinds[1:], kinds[0])]
    assert known == [(), (), None]


FIRST, THIRD = ("labels", 1), "n3"
FORGOTTEN: dict[str, tuple[Callable[[World], object], dict[str, bool]]] = {
    "nothing": (lambda world: world.nodes.update(world.cache), {"n1": True, "n2": True}),
    "the device of a solution is taken": (lambda world: world.apply(("take", ("g0", "n1", False))), {"n2": True}),
    "another device is taken": (lambda world: world.apply(("take", ("g1", "n1", False))), {"n1": True, "n2": True}),
    "a slice changes": (lambda world: world.apply(("publish", ("n2", [True]))), {"n1": True}),
    "the labels of a Node change": (lambda world: world.apply(("labels", 0)), {"n1": True}),
    "a taint rule for any pool": (
        lambda world: world.manager.stores[3].apply(taint_rule("broken", driver="gpu.example.com")),
        {},
    ),
    "a Node is new: places have changed": (lambda world: world.set_node(THIRD), {}),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_is_known_of_all_nodes_after_a_change(name: str) -> None:
    change, expected = FORGOTTEN[name]
    world = World()
    world.apply(FIRST)
    world.manager.stores[1].remove(network(1))
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    of_kind = kept.of([asking("a", {"count": 1})], world.manager.classes)
    before = world.told(of_kind)
    for node in NODES:
        of_kind.put(node, world.labels[node], [allocation(whole("g0", node))])
        world.known_of(of_kind).was_asked(node)
    asked = world.told(of_kind)
    change(world)

    assert (before, asked, world.told(of_kind)) == ({}, {"n1": True, "n2": True}, expected)


SHARE = {"count": 1, "capacity": {"requests": {"memory": "1"}}}


def test_a_solution_with_a_share_is_used_once() -> None:
    world = World()
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    claims = [asking("a", SHARE)]
    of_kind = kept.of(claims, world.manager.classes)
    for node in NODES:
        of_kind.put(node, world.labels[node], world.search(list(claims), node))
    first, other = (of_kind.get(node, world.labels[node]) for node in NODES)
    assert first is not None
    assert first == of_kind.get("n1", world.labels["n1"])

    world.manager.stores[0].apply(a_claim("user").but("status.allocation", first[0]))

    assert of_kind.get("n1", world.labels["n1"]) is None
    assert of_kind.get("n2", world.labels["n2"]) is other


def test_a_solution_with_a_share_for_an_administrator_is_not_kept() -> None:
    world = World()
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    claims = [asking("a", {**SHARE, "adminAccess": True})]
    of_kind = kept.of(claims, world.manager.classes)
    found = world.search(list(claims), "n1")
    of_kind.put("n1", world.labels["n1"], found)
    assert [each["adminAccess"] for each in found[0]["devices"]["results"]] == [True]
    assert "shareID" in found[0]["devices"]["results"][0]
    assert of_kind.get("n1", world.labels["n1"]) is None


def test_a_share_of_a_device_for_several_nodes_is_used_once() -> None:
    world = World()
    for node in NODES:
        world.apply(("gone", node))
    world.apply(("labels", 0))
    body = resource_slice("net2", [shared("ns0", memory="4")], pool="net2", nodeSelector=ZONAL)
    meta = {"name": "net2", "uid": "net2", "resourceVersion": "1"}
    world.manager.stores[1].apply({**body, "kind": "ResourceSlice", "metadata": meta})
    kept = Solutions(world.manager.inventory, world.manager.claims.state)
    claims = [asking("a", SHARE)]
    of_kind = kept.of(claims, world.manager.classes)
    found = world.search(list(claims), "n1")
    assert [each["device"] for each in found[0]["devices"]["results"]] == ["ns0"]
    for node in NODES:
        of_kind.put(node, world.labels[node], found)

    world.manager.stores[0].apply(a_claim("user").but("status.allocation", found[0]))

    assert [of_kind.get(node, world.labels[node]) for node in NODES] == [None, None]
