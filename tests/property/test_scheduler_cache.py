"""The cache and its snapshot after any events are what the Nodes and Pods that are left would give from the start."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tollbar.model import selectors
from tollbar.model.objects import Object, labels_of
from tollbar.scheduler.cache import groups, table
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.groups import Group, TermKind, TermPods
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.selector import PodSelector, Selector
from tollbar.scheduler.cache.snapshot import Snapshot

NODES = ("n1", "n2", "n3", "n4", "n5")
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NAMESPACES: dict[str, dict[str, str]] = {"red": {"team": "x"}, "blue": {"team": "y"}}
LABELS: tuple[dict[str, str], ...] = ({}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "t"})
SELECTORS: tuple[Object | None, ...] = (
    None,
    {},
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    {
        "matchExpressions": [
            {"key": "tier", "operator": "DoesNotExist"},
            {"key": "app", "operator": "In", "values": ["a"]},
        ]
    },
)
CHOICES = tuple(
    (chosen, terminating)
    for terminating in (True, False)
    for chosen in (
        *((PodSelector(frozenset({"red"}), Selector.of(each)),) for each in SELECTORS),
        (
            PodSelector(None, Selector.of(SELECTORS[2])),
            PodSelector(frozenset({"red", "none"}), Selector.of(SELECTORS[4])),
        ),
        (PodSelector.of_lower_priority(5),),
    )
)
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu")


@st.composite
def terms(draw: st.DrawFn) -> Object:
    scope: Object = draw(
        st.sampled_from(
            [
                {},
                {"namespaces": ["red"]},
                {"namespaceSelector": {}},
                {"namespaceSelector": {"matchLabels": {"team": "y"}}},
            ]
        )
    )
    key = draw(st.sampled_from([ZONE, HOSTNAME]))
    return {"topologyKey": key, "labelSelector": draw(st.sampled_from(SELECTORS)), **scope}


@st.composite
def affinities(draw: st.DrawFn) -> Object:
    found: Object = {}
    for name in ("podAffinity", "podAntiAffinity"):
        if draw(st.booleans()):
            found[name] = {
                "requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms(), max_size=2)),
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": draw(st.sampled_from([1, 5])), "podAffinityTerm": each}
                    for each in draw(st.lists(terms(), max_size=1))
                ],
            }
    return found


@st.composite
def pods(draw: st.DrawFn, name: str, node: str) -> Object:
    requests = draw(st.sampled_from([{}, {"cpu": "100m"}, {"memory": "1Gi", "example.com/gpu": "1"}]))
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "namespace": draw(st.sampled_from(sorted(NAMESPACES))),
            "labels": draw(st.sampled_from(LABELS)),
            **draw(st.sampled_from([{}, {}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])),
        },
        "spec": {
            "nodeName": node,
            "priority": draw(st.sampled_from([0, 5])),
            "containers": [{"name": "c", "resources": {"requests": requests}, "ports": draw(ports)}],
            "volumes": [{"persistentVolumeClaim": {"claimName": each}} for each in draw(claims)],
            **({"affinity": draw(affinities())} if draw(st.booleans()) else {}),
        },
    }


claims = st.sampled_from([[], [], ["data"], ["data", "data"], ["data", "logs"]])
ports = st.sampled_from([[], [], [{"containerPort": 80, "hostPort": 80}]])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Object:
    zone = draw(st.sampled_from([None, "z1", "z2"]))
    taints = st.sampled_from([{"key": "k", "effect": "NoSchedule"}, {"key": "l", "value": "v", "effect": "NoExecute"}])
    images = st.sampled_from([{"names": ["i1", "i1:v"], "sizeBytes": 10}, {"names": ["i2"], "sizeBytes": 20}])
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, **({ZONE: zone} if zone else {})}},
        "spec": {"taints": draw(st.lists(taints, max_size=2)), "unschedulable": draw(st.booleans())},
        "status": {
            "allocatable": {"cpu": draw(st.sampled_from(["4", "8"])), "memory": "8Gi", "pods": "110"}
            | draw(st.sampled_from([{}, {"example.com/gpu": "2"}])),
            "images": draw(st.lists(images, max_size=1)),
        },
    }


class World:
    """A cache with a snapshot, and beside them what they have to show."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.snapshot = Snapshot()
        self.shapes = Shapes()
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, PodInfo] = {}

    def step(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([f"p{number}" for number in range(8)]))
        node = data.draw(st.sampled_from(NODES))
        known = self.pods.get(name)
        match data.draw(st.sampled_from(["node", "node", "no node", "pod", "pod", "pod", "no pod"])):
            case "node":
                self.nodes[node] = data.draw(nodes(node))
                self.cache.set_node(self.nodes[node])
            case "no node" if node in self.nodes:
                del self.nodes[node]
                self.cache.remove_node(node)
            case "pod" if known is None:
                self.pods[name] = self.shapes.pod_info(data.draw(pods(name, node)))
                (self.cache.assume if data.draw(st.booleans()) else self.cache.add_pod)(self.pods[name])
            case "pod" if known is not None:
                assumed = self.cache.is_assumed(known.uid)
                self.pods[name] = self.shapes.pod_info(data.draw(pods(name, node if assumed else known.node_name)))
                (self.cache.add_pod if assumed else self.cache.update_pod)(self.pods[name])
            case "no pod" if known is not None:
                forgotten = self.cache.is_assumed(known.uid) and data.draw(st.booleans())
                (self.cache.forget if forgotten else self.cache.remove_pod)(self.pods.pop(name))

    def anew(self) -> Snapshot:
        return Snapshot.of((self.nodes[each] for each in self.cache.node_names()), self.pods.values())


def node_view(info: NodeInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "node": info.node,
        "pods": set(info.pods),
        "requested": {name: info.requested.get(name) for name in RESOURCES},
        "non-zero": (info.non_zero_milli_cpu, info.non_zero_memory),
        "ports": info.used_ports,
    }


def objects(snapshot: Snapshot) -> list[set[int]]:
    """Which objects stand for the Pods of each Node: one that counts the same may be replaced at any time."""
    return [{id(each) for each in info.pods.values()} for info in snapshot]


def table_view(snapshot: Snapshot) -> dict[str, Any]:
    columns, order = snapshot.table, snapshot.table.order
    found: dict[str, Any] = {"rows": [name_at(snapshot, row) for row in order]}
    for name in RESOURCES:
        found[name] = (columns.allocatable(name)[order].tolist(), columns.requested(name)[order].tolist())
    for name in ("cpu", "memory"):
        found[f"non-zero {name}"] = columns.non_zero_requested(name)[order].tolist()
    for key in (ZONE, HOSTNAME, "none"):
        column = columns.label(key)
        found[key] = [column.values[each] if each >= 0 else None for each in column.ids[order]]
        assert {each for each in column.values if each is not None} == {each for each in found[key] if each is not None}
    found["taints"] = [columns.taints.values[each] for each in columns.taints.ids[order]]
    assert {each for each in columns.taints.values if each is not None} == set(found["taints"])
    found["unschedulable"] = columns.unschedulable[order].tolist()
    return found


def name_at(snapshot: Snapshot, row: int) -> str:
    info = snapshot.table.infos[row]
    return info.name if info is not None else ""


def by_zone(snapshot: Snapshot, counted: Group | TermPods) -> dict[str, int]:
    zones = snapshot.table.label(ZONE)
    domains = snapshot.groups.in_domains(counted, zones)
    assert domains[-1] == 0
    return {zone: int(domains[number]) for number, zone in enumerate(zones.values) if zone is not None}


def groups_view(snapshot: Snapshot) -> dict[Any, Any]:
    order = snapshot.table.order
    found: dict[Any, Any] = {}
    for chosen, terminating in CHOICES:
        group = snapshot.groups.group(*chosen, terminating=terminating)
        found[chosen, terminating] = (group.counts[order].tolist(), by_zone(snapshot, group))
    return found


def terms_view(snapshot: Snapshot, shapes: Shapes) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for namespace, labels in ((namespace, labels) for namespace in NAMESPACES for labels in LABELS):
        pod = shapes.pod_info({"metadata": {"namespace": namespace, "labels": labels}, "spec": {"containers": []}})
        for kind in TermKind:
            counts: Counter[Any] = Counter()
            for each in snapshot.groups.terms(kind, pod, NAMESPACES[namespace]):
                key = (each.term.topology_key, each.term.weight)
                column = snapshot.groups.by_row(each)
                counts.update({("zone", zone, *key): count for zone, count in by_zone(snapshot, each).items()})
                for row, count in each.rows.items():
                    counts[name_at(snapshot, row), *key] += count
                    counts["column", name_at(snapshot, row), *key] += int(column[row])
            found[kind, namespace, str(labels)] = counts
    return found


def view(world: World, snapshot: Snapshot) -> list[Any]:
    return [
        [node_view(each) for each in snapshot],
        {
            name: (each.size, each.nodes, snapshot.has_image(name)[snapshot.table.order].tolist())
            for name, each in snapshot.images.items()
        },
        dict(snapshot.claims),
        table_view(snapshot),
        groups_view(snapshot),
        terms_view(snapshot, world.shapes),
    ]


@pytest.fixture(params=["kept", "evicted"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for all columns and groups, and with room for so few that they come and go; the table grows early."""
    monkeypatch.setattr(table, "FIRST_ROWS", 1)
    if request.param == "evicted":
        monkeypatch.setattr(groups, "MAX_GROUPS", 2)
        monkeypatch.setattr(groups, "MAX_SUMS", 2)
        monkeypatch.setattr(groups, "MAX_LABELS", 2)
        monkeypatch.setattr(table, "MAX_COLUMNS", 2)


@settings(
    max_examples=settings.default.max_examples * 3 // 5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_snapshot_is_what_the_nodes_and_pods_would_give_from_the_start_and_changes_in_update_alone(
    limits: None, data: st.DataObject
) -> None:
    world = World()
    shown = view(world, world.snapshot)
    for _ in range(data.draw(st.integers(1, 25))):
        for _ in range(data.draw(st.integers(0, 3))):
            world.step(data)
        assert view(world, world.snapshot) == shown
        for _ in world.snapshot.catch_up(world.cache) if data.draw(st.booleans()) else ():
            if data.draw(st.booleans()):
                world.step(data)
        world.snapshot.update(world.cache)
        shown, anew = view(world, world.snapshot), world.anew()
        assert shown == view(world, anew)
        assert objects(world.snapshot) == objects(anew)
        assert {each.name for each in world.snapshot} == world.nodes.keys()


@settings(max_examples=settings.default.max_examples * 2 // 5)
@given(data=st.data())
def test_groups_and_terms_count_what_a_walk_over_all_pods_would(data: st.DataObject) -> None:
    world = World()
    for _ in range(data.draw(st.integers(1, 20))):
        world.step(data)
    world.snapshot.update(world.cache)
    infos = world.snapshot.nodes
    for chosen, terminating in CHOICES:
        walked = [
            sum(
                (terminating or not pod.is_terminating)
                and all(
                    (each.namespaces is None or pod.key.namespace in each.namespaces)
                    and each.selector.matches(pod.labels)
                    and (each.below_priority is None or pod.priority < each.below_priority)
                    for each in chosen
                )
                for pod in info.pods.values()
            )
            for info in infos
        ]
        counted = world.snapshot.groups.group(*chosen, terminating=terminating).counts[world.snapshot.table.order]
        assert counted.tolist() == walked
    for namespace, labels in ((namespace, labels) for namespace in NAMESPACES for labels in LABELS):
        pod = world.shapes.pod_info(
            {"metadata": {"namespace": namespace, "labels": labels}, "spec": {"containers": []}}
        )
        for kind in TermKind:
            expected: Counter[str] = Counter()
            for info in infos:
                for other in info.pods.values():
                    for term in kind.of(other.shape):
                        if term.matches(pod, NAMESPACES[namespace]) and ZONE in labels_of(info.node or {}):
                            expected[info.labels[ZONE]] += max(term.weight, 1)
            found: Counter[str] = Counter()
            for each in world.snapshot.groups.terms(kind, pod, NAMESPACES[namespace]):
                for zone, count in by_zone(world.snapshot, each).items():
                    found[zone] += count * max(each.term.weight, 1)
            assert +found == expected


@given(labels=st.sampled_from(LABELS), data=st.data())
def test_a_compiled_selector_matches_what_the_selector_of_the_api_does(
    labels: dict[str, str], data: st.DataObject
) -> None:
    requirement = st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "tier"])},
        optional={
            "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Near"]),
            "values": st.lists(st.sampled_from(["a", "t"]), max_size=2),
        },
    )
    given_selector = data.draw(
        st.none()
        | st.fixed_dictionaries(
            {}, optional={"matchLabels": st.sampled_from(LABELS), "matchExpressions": st.lists(requirement, max_size=2)}
        )
    )
    assert Selector.of(given_selector).matches(labels) == selectors.matches(given_selector, labels)
