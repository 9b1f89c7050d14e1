"""NodeAffinity: nodeSelector, required and preferred terms, and what the profile adds."""

from typing import Any

import pytest
from plugins.tables import cluster, filtered, handle, hinted, info, node, pod, said, scored

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.framework.interface import PreFilterResult
from tollbar.scheduler.plugins.node_affinity import NodeAffinity


def label(key: str, *values: str, operator: str = "In") -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str, operator: str = "In") -> Object:
    """One requirement for each name: they are ANDed."""
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]}


def required(*terms: Object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(*terms: tuple[int, Object]) -> Object:
    chosen = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": chosen}


def with_affinity(*parts: Object, **spec: Any) -> PodInfo:
    return pod(affinity={"nodeAffinity": {name: value for part in parts for name, value in part.items()}}, **spec)


PLUGIN = NodeAffinity({}, handle())
ADDED = NodeAffinity(
    {"addedAffinity": {**required(label("pool", "ml")), **preferred((10, label("disk", "ssd")))}}, handle()
)
SSD = node(labels={"disk": "ssd"})
ML = node(labels={"pool": "ml"})
MISMATCH = ("UnschedulableAndUnresolvable", "node(s) didn't match Pod's node affinity/selector")
ENFORCED = ("UnschedulableAndUnresolvable", "node(s) didn't match scheduler-enforced node affinity")
SELECTOR = pod(nodeSelector={"disk": "ssd"})

FILTER: dict[str, tuple[NodeAffinity, PodInfo, Object, tuple[str, ...]]] = {
    "nothing is asked for": (PLUGIN, pod(), node(), ("Skip",)),
    "preferences alone": (PLUGIN, with_affinity(preferred((1, label("a", "b")))), node(), ("Skip",)),
    "a nodeSelector that matches": (PLUGIN, SELECTOR, SSD, ("Success",)),
    "a nodeSelector that does not": (PLUGIN, SELECTOR, node(), MISMATCH),
    "one of two terms is enough": (
        PLUGIN,
        with_affinity(required(label("a", "b"), label("disk", "ssd"))),
        SSD,
        ("Success",),
    ),
    "no term matches": (PLUGIN, with_affinity(required(label("a", "b"))), SSD, MISMATCH),
    "a term without requirements matches nothing": (PLUGIN, with_affinity(required({})), SSD, MISMATCH),
    "both nodeSelector and terms have to match": (
        PLUGIN,
        with_affinity(required(label("disk", "ssd")), nodeSelector={"a": "b"}),
        SSD,
        MISMATCH,
    ),
    "integers are compared": (
        PLUGIN,
        with_affinity(required(label("n", "4", operator="Gt"))),
        node(labels={"n": "5"}),
        ("Success",),
    ),
    "a Node by its name": (PLUGIN, with_affinity(required(named("n"))), node("n"), ("Success",)),
    "any other Node": (PLUGIN, with_affinity(required(named("n", operator="NotIn"))), node("n"), MISMATCH),
    "terms that contradict themselves": (
        PLUGIN,
        with_affinity(required(named("n", "m"))),
        node(),
        ("UnschedulableAndUnresolvable", "pod affinity terms conflict"),
    ),
    "the profile's affinity holds of every Pod": (ADDED, pod(), ML, ("Success",)),
    "and keeps it from other Nodes": (ADDED, pod(), SSD, ENFORCED),
    "the Pod's own is asked afterwards": (ADDED, SELECTOR, ML, MISMATCH),
}


@pytest.mark.parametrize(("plugin", "given", "on", "want"), FILTER.values(), ids=FILTER)
def test_filter(plugin: NodeAffinity, given: PodInfo, on: Object, want: tuple[str, ...]) -> None:
    assert filtered(plugin, given, info(on)) == want


NAMES: dict[str, tuple[PodInfo, set[str] | None]] = {
    "each term names one": (with_affinity(required(named("a"), named("b"))), {"a", "b"}),
    "a term names none": (with_affinity(required(named("a"), label("disk", "ssd"))), None),
    "the name may stand beside labels": (with_affinity(required({**named("a"), **label("disk", "ssd")})), {"a"}),
    "only In counts": (with_affinity(required(named("a", operator="NotIn"))), None),
    "a nodeSelector names no Nodes": (SELECTOR, None),
    "a contradiction beside a term that fits": (with_affinity(required(named("a", "b"), named("c"))), {"c"}),
}


@pytest.mark.behaviour(24)
@pytest.mark.parametrize(("given", "want"), NAMES.values(), ids=NAMES)
def test_nodes_by_name(given: PodInfo, want: set[str] | None) -> None:
    found = PLUGIN.pre_filter(CycleState(), given, cluster(info(node())))
    assert found == (None if want is None else PreFilterResult(frozenset(want)))


SCORES: dict[str, tuple[NodeAffinity, PodInfo, list[Object], list[int] | str]] = {
    "no preferences": (PLUGIN, SELECTOR, [SSD], "Skip"),
    "weights add up": (
        PLUGIN,
        with_affinity(preferred((2, label("disk", "ssd")), (4, label("pool", "ml")))),
        [node(labels={"disk": "ssd", "pool": "ml"}), ML, SSD, node()],
        [100, 66, 33, 0],
    ),
    "nothing matches": (PLUGIN, with_affinity(preferred((2, label("disk", "ssd")))), [ML, node()], [0, 0]),
    "an empty preference matches nothing": (PLUGIN, with_affinity(preferred((2, {}))), [ML], [0]),
    "the profile's preferences count for every Pod": (ADDED, pod(), [SSD, ML], [100, 0]),
    "together with its own": (ADDED, with_affinity(preferred((30, label("pool", "ml")))), [SSD, ML], [33, 100]),
}


@pytest.mark.parametrize(("plugin", "given", "on", "want"), SCORES.values(), ids=SCORES)
def test_scores(plugin: NodeAffinity, given: PodInfo, on: list[Object], want: list[int] | str) -> None:
    assert scored(plugin, given, *map(info, on)) == want


LABELS = (EventResource.NODE, Action.UPDATE_NODE_LABEL)
ADD = (EventResource.NODE, Action.ADD)
HINTS: dict[str, tuple[NodeAffinity, tuple[EventResource, Action], Any, Any, str]] = {
    "a Node that matches is added": (PLUGIN, ADD, None, SSD, "Queue"),
    "another Node is added": (PLUGIN, ADD, None, node(), "QueueSkip"),
    "the label comes": (PLUGIN, LABELS, node(), SSD, "Queue"),
    "the label goes": (PLUGIN, LABELS, SSD, node(), "QueueSkip"),
    "the label was there": (PLUGIN, LABELS, SSD, SSD, "QueueSkip"),
    "the profile keeps the Node from all Pods": (ADDED, ADD, None, SSD, "QueueSkip"),
    "the profile and the Pod match": (ADDED, ADD, None, node(labels={"disk": "ssd", "pool": "ml"}), "Queue"),
    "taints are not its concern": (PLUGIN, (EventResource.NODE, Action.UPDATE_NODE_TAINT), SSD, SSD, "not registered"),
}


@pytest.mark.parametrize(("plugin", "event", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(plugin: NodeAffinity, event: tuple[EventResource, Action], old: Any, new: Any, want: str) -> None:
    assert hinted(plugin, *event, SELECTOR, old, new) == want


def test_filter_does_not_need_pre_filter() -> None:
    assert said(PLUGIN.filter(CycleState(), SELECTOR, info(node()))) == MISMATCH
