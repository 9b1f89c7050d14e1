"""NodeResourcesFit: what is short on a Node, and how full it gets."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from objects.devices import DRIVER, device, held, resource_slice, selecting
from plugins.tables import filtered, handle, hinted, info, node, obj, pod, requesting, scored

from tollbar.dra import AllocatedState, Inventory
from tollbar.model.objects import Object
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.node_resources_fit import NodeResourcesFit, short_resource
from tollbar.scheduler.plugins.resource_strategies import interpolate

GPU = "example.com/gpu"
BOTH = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
A100 = f'device.attributes["{DRIVER}"].?model.orValue("") == "a100"'
CLASSES: dict[str, Object] = {
    "example.com/dra": obj("gpu"),
    "example.com/a100": obj("a100", spec={"selectors": selecting(A100)}),
    "example.com/broken": obj("broken", spec={"selectors": selecting("device.attributes.nothing == 1")}),
}
INVENTORY = Inventory(
    [
        resource_slice("a", [device("d1", model="a100"), device("d2", model="t4")], node="n", pool="a"),
        resource_slice("b", [device("d3", model="a100")], node="other", pool="b"),
        resource_slice(
            "c",
            [{"name": "d4", "nodeName": "other"}, {"name": "d5", "nodeName": "n"}],
            pool="c",
            perDeviceNodeSelection=True,
        ),
    ]
)
DRA = SimpleNamespace(
    classes=SimpleNamespace(for_extended_resource=CLASSES.get),
    inventory=INVENTORY,
    claims=SimpleNamespace(state=AllocatedState([held("d1", pool="a"), held("d3", pool="b")])),
)


def fit(
    kind: str = "LeastAllocated", resources: Sequence[Object] = BOTH, shape: Any = None, **args: Any
) -> NodeResourcesFit:
    strategy = {"type": kind, "resources": resources, "requestedToCapacityRatio": {"shape": shape or []}}
    return NodeResourcesFit({"scoringStrategy": strategy, **args}, handle(dra=DRA))


def room(cpu: str = "4", memory: str = "4Gi", pods: str = "10", **more: str) -> Object:
    return node(allocatable={"cpu": cpu, "memory": memory, "pods": pods, **more})


def used(on: Object, **amounts: str) -> NodeInfo:
    """The Node with one Pod on it that requests so much."""
    return info(on, requesting("other", **amounts))


PLUGIN = fit()
FILTER: dict[str, tuple[NodeResourcesFit, PodInfo, NodeInfo, tuple[str, ...]]] = {
    "a Pod that requests nothing": (PLUGIN, pod(), info(room(cpu="0")), ("Success",)),
    "room for all of it": (PLUGIN, requesting(cpu="1", memory="1Gi"), info(room()), ("Success",)),
    "exactly what is left": (PLUGIN, requesting(cpu="3"), used(room(), cpu="1"), ("Success",)),
    "another Pod has too much": (
        PLUGIN,
        requesting(cpu="3500m"),
        used(room(), cpu="1"),
        ("Unschedulable", "Insufficient cpu"),
    ),
    "the Node is too small": (
        PLUGIN,
        requesting(cpu="5"),
        info(room()),
        ("UnschedulableAndUnresolvable", "Insufficient cpu"),
    ),
    "all shortages are told, one of them beyond help": (
        PLUGIN,
        requesting(cpu="4", memory="5Gi", **{"ephemeral-storage": "1"}),
        used(room(), cpu="1"),
        (
            "UnschedulableAndUnresolvable",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
        ),
    ),
    "too many Pods": (PLUGIN, pod(), used(room(pods="1")), ("Unschedulable", "Too many pods")),
    "too many Pods and a shortage": (
        PLUGIN,
        requesting(cpu="4"),
        used(room(pods="1"), cpu="1"),
        ("Unschedulable", "Too many pods", "Insufficient cpu"),
    ),
    "extended resources": (
        PLUGIN,
        requesting(**{GPU: "2"}),
        used(room(**{GPU: "2"}), **{GPU: "1"}),
        ("Unschedulable", f"Insufficient {GPU}"),
    ),
    "one that the Node does not have": (
        PLUGIN,
        requesting(**{GPU: "1"}),
        info(room()),
        ("UnschedulableAndUnresolvable", f"Insufficient {GPU}"),
    ),
    "a request of nothing is none": (PLUGIN, requesting(**{GPU: "0"}), info(room()), ("Success",)),
    "huge pages": (
        PLUGIN,
        requesting(**{"hugepages-2Mi": "4Mi"}),
        info(room(**{"hugepages-2Mi": "2Mi"})),
        ("UnschedulableAndUnresolvable", "Insufficient hugepages-2Mi"),
    ),
    "an ignored resource": (fit(ignoredResources=[GPU]), requesting(**{GPU: "1"}), info(room()), ("Success",)),
    "an ignored group": (
        fit(ignoredResourceGroups=["example.com"]),
        requesting(**{GPU: "1"}),
        info(room()),
        ("Success",),
    ),
    "only extended resources can be ignored": (
        fit(ignoredResources=["cpu", "hugepages-2Mi"]),
        requesting(cpu="5", **{"hugepages-2Mi": "2Mi"}),
        info(room()),
        ("UnschedulableAndUnresolvable", "Insufficient cpu", "Insufficient hugepages-2Mi"),
    ),
    "a DeviceClass backs it": (PLUGIN, requesting(**{"example.com/dra": "1"}), info(room()), ("Success",)),
    "a DeviceClass backs it, and the Node has it as well": (
        PLUGIN,
        requesting(**{"example.com/dra": "2"}),
        info(room(**{"example.com/dra": "1"})),
        ("UnschedulableAndUnresolvable", "Insufficient example.com/dra"),
    ),
}


@pytest.mark.parametrize(("plugin", "given", "on", "want"), FILTER.values(), ids=FILTER)
def test_filter(plugin: NodeResourcesFit, given: PodInfo, on: NodeInfo, want: tuple[str, ...]) -> None:
    assert filtered(plugin, given, on) == want


MOST = "MostAllocated"
RATIO = "RequestedToCapacityRatio"
RISING = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
FALLING = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
WEIGHTED = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
GPUS = [{"name": "cpu", "weight": 1}, {"name": GPU, "weight": 4}]


def backed(resource: str) -> NodeResourcesFit:
    return fit(MOST, [{"name": resource, "weight": 1}])


SCORES: dict[str, tuple[NodeResourcesFit, PodInfo, NodeInfo, int]] = {
    "what stays free": (PLUGIN, requesting(cpu="1", memory="2Gi"), info(room()), 62),
    "the Pods on the Node count": (PLUGIN, requesting(cpu="1", memory="2Gi"), used(room(), cpu="2", memory="1Gi"), 25),
    "containers without requests count as 100m and 200Mi": (
        fit(resources=WEIGHTED),
        pod(),
        info(room("1", "2000Mi")),
        90,
    ),
    "so do those on the Node": (PLUGIN, pod(), info(room("1", "2000Mi"), pod("other")), 80),
    "every container does": (
        PLUGIN,
        pod(containers=[{"name": "a"}, {"name": "b"}]),
        info(room("1", "2000Mi")),
        80,
    ),
    "a request of nothing is not a missing one": (PLUGIN, requesting(cpu="0", memory="0"), info(room()), 100),
    "requests of the whole Pod do not count for it": (
        PLUGIN,
        pod(resources={"requests": {"cpu": "1", "memory": "1000Mi"}}),
        info(room("1", "2000Mi")),
        90,
    ),
    "but for those on the Node": (
        PLUGIN,
        requesting(cpu="0", memory="0"),
        info(room("1", "2000Mi"), pod("other", resources={"requests": {"cpu": "500m", "memory": "1000Mi"}})),
        50,
    ),
    "weights": (fit(resources=WEIGHTED), requesting(cpu="2", memory="0"), info(room()), 62),
    "more than there is": (PLUGIN, requesting(cpu="5", memory="2Gi"), info(room()), 25),
    "a resource that the Node does not have": (PLUGIN, requesting(cpu="1", memory="2Gi"), info(room(cpu="0")), 50),
    "a Node without anything": (PLUGIN, pod(), info(node()), 0),
    "an extended resource that the Pod requests": (
        fit(resources=GPUS),
        requesting(cpu="0", **{GPU: "1"}),
        info(room(**{GPU: "2"})),
        60,
    ),
    "and one that it does not": (fit(resources=GPUS), requesting(cpu="1"), info(room(**{GPU: "2"})), 75),
    "devices of a class": (backed("example.com/dra"), requesting(**{"example.com/dra": "1"}), info(room()), 66),
    "devices that its selectors choose": (
        backed("example.com/a100"),
        requesting(**{"example.com/a100": "0"}),
        info(room()),
        0,
    ),
    "all of those are allocated": (
        backed("example.com/a100"),
        requesting(**{"example.com/a100": "1"}),
        info(room()),
        100,
    ),
    "a selector that fails": (backed("example.com/broken"), requesting(**{"example.com/broken": "1"}), info(room()), 0),
    "what the Node has itself comes first": (
        backed("example.com/dra"),
        requesting(**{"example.com/dra": "1"}),
        info(room(**{"example.com/dra": "4"})),
        25,
    ),
    "most allocated": (fit(MOST), requesting(cpu="1", memory="2Gi"), info(room()), 37),
    "more than there is counts as all": (fit(MOST), requesting(cpu="5", memory="0"), info(room()), 50),
    "a shape": (fit(RATIO, shape=RISING), requesting(cpu="1", memory="3Gi"), info(room()), 50),
    "a shape that falls": (fit(RATIO, shape=FALLING), requesting(cpu="1", memory="3Gi"), info(room()), 50),
    "a resource without score does not count": (
        fit(RATIO, shape=RISING),
        requesting(cpu="2", memory="0"),
        info(room()),
        50,
    ),
    "the mean is rounded": (fit(RATIO, WEIGHTED, RISING), requesting(cpu="2", memory="3Gi"), info(room()), 56),
    "more than there is gets the shape's end": (
        fit(RATIO, shape=FALLING),
        requesting(cpu="9", memory="9Gi"),
        info(room()),
        0,
    ),
}


def test_each_reason_tells_of_which_resource_it_is() -> None:
    _, *reasons = filtered(PLUGIN, requesting(cpu="8", **{GPU: "1"}), used(room(pods="1")))
    assert [short_resource(each) for each in reasons] == ["", "cpu", GPU]


@pytest.mark.parametrize(("plugin", "given", "on", "want"), SCORES.values(), ids=SCORES)
def test_scores(plugin: NodeResourcesFit, given: PodInfo, on: NodeInfo, want: int) -> None:
    assert scored(plugin, given, on) == [want]


@pytest.mark.parametrize(
    ("utilization", "want"),
    [(0, 100), (10, 100), (11, 99), (15, 92), (40, 50), (69, 12), (70, 10), (100, 10)],
)
def test_lines_are_cut_off_towards_zero(utilization: int, want: int) -> None:
    assert interpolate([(10, 100), (40, 50), (70, 10)], utilization) == want


DELETE = (EventResource.ASSIGNED_POD, Action.DELETE)
ADD = (EventResource.NODE, Action.ADD)
ALLOCATABLE = (EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
SCALE_DOWN = (EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
CLASS_ADD = (EventResource.DEVICE_CLASS, Action.ADD)
CLASS_UPDATE = (EventResource.DEVICE_CLASS, Action.UPDATE)
TWO = requesting(cpu="2")


def scaled(node_name: str = "n", **amounts: str) -> PodInfo:
    return pod("other", nodeName=node_name, containers=[{"name": "main", "resources": {"requests": amounts}}])


def device_class(name: str = "gpu", resource: str | None = None) -> Object:
    return obj(name, spec={} if resource is None else {"extendedResourceName": resource})


HINTS: dict[str, tuple[tuple[EventResource, Action], PodInfo, Any, Any, str]] = {
    "a Pod with a Node is deleted": (DELETE, TWO, pod(nodeName="n"), None, "Queue"),
    "a Pod without one is deleted": (DELETE, TWO, pod(), None, "QueueSkip"),
    "a Pod that was promised one": (DELETE, TWO, pod(status={"nominatedNodeName": "n"}), None, "Queue"),
    "a Node that is large enough is added": (ADD, TWO, None, room(), "Queue"),
    "one that is too small is added": (ADD, TWO, None, room(cpu="1"), "QueueSkip"),
    "a Node gets more": (ALLOCATABLE, TWO, room(), room(cpu="5"), "Queue"),
    "a Node gets more of something else": (ALLOCATABLE, TWO, room(), room(memory="5Gi"), "QueueSkip"),
    "a Node gets less": (ALLOCATABLE, TWO, room(), room(cpu="3"), "QueueSkip"),
    "a Node takes more Pods": (ALLOCATABLE, TWO, room(), room(pods="11"), "Queue"),
    "a Node gets more and is still too small": (ALLOCATABLE, TWO, room(cpu="0"), room(cpu="1"), "QueueSkip"),
    "an extended resource comes": (ALLOCATABLE, requesting(**{GPU: "1"}), room(), room(**{GPU: "1"}), "Queue"),
    "one that DynamicResources decides about": (
        ALLOCATABLE,
        requesting(**{"example.com/dra": "1"}),
        room(),
        room(),
        "Queue",
    ),
    "another Pod takes less": (SCALE_DOWN, TWO, scaled(cpu="2"), scaled(cpu="1"), "Queue"),
    "another Pod takes less of something else": (SCALE_DOWN, TWO, scaled(memory="2"), scaled(memory="1"), "QueueSkip"),
    "another Pod without a Node takes less": (SCALE_DOWN, TWO, scaled("", cpu="2"), scaled("", cpu="1"), "QueueSkip"),
    "another Pod takes less of an extended resource": (
        SCALE_DOWN,
        requesting(**{GPU: "1"}),
        scaled(**{GPU: "2"}),
        scaled(**{GPU: "1"}),
        "Queue",
    ),
    "the Pod itself takes less": ((EventResource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN), TWO, TWO, TWO, "Queue"),
    "a class comes to back what it requests": (
        CLASS_ADD,
        requesting(**{GPU: "1"}),
        None,
        device_class(resource=GPU),
        "Queue",
    ),
    "a class by whose name it requests": (
        CLASS_ADD,
        requesting(**{"deviceclass.resource.kubernetes.io/gpu": "1"}),
        None,
        device_class(),
        "Queue",
    ),
    "a class for something else": (CLASS_ADD, TWO, None, device_class(resource=GPU), "QueueSkip"),
    "a class changes what it backs": (
        CLASS_UPDATE,
        requesting(**{GPU: "1"}),
        device_class(),
        device_class(resource=GPU),
        "Queue",
    ),
    "a class changes otherwise": (
        CLASS_UPDATE,
        requesting(**{GPU: "1"}),
        device_class(resource=GPU),
        device_class(resource=GPU),
        "QueueSkip",
    ),
    "a class backs nothing any more": (
        CLASS_UPDATE,
        requesting(**{GPU: "1"}),
        device_class(resource=GPU),
        device_class(),
        "QueueSkip",
    ),
}


@pytest.mark.parametrize(("event", "given", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], given: PodInfo, old: Any, new: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, given, old, new) == want
