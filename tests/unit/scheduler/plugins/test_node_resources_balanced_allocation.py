"""NodeResourcesBalancedAllocation: how much more even a Pod makes the use of a Node."""

from collections.abc import Sequence

import pytest
from plugins.tables import handle, info, node, pod, requesting, scored

from tollbar.model.objects import Object
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation, evenness

GPU = "example.com/gpu"
ROOM = node(allocatable={"cpu": "4", "memory": "4Gi", "pods": "10", GPU: "4"})


def balanced(*names: str) -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation({"resources": [{"name": name, "weight": 1} for name in names]}, handle())


def used(on: Object, **amounts: str) -> NodeInfo:
    return info(on, requesting("other", **amounts))


PLUGIN = balanced("cpu", "memory")
THREE = balanced("cpu", "memory", GPU)
SCORES: dict[str, tuple[NodeResourcesBalancedAllocation, PodInfo, NodeInfo, list[int] | str]] = {
    "a Pod that requests nothing": (PLUGIN, pod(), info(ROOM), "Skip"),
    "a Pod that requests only what does not count": (PLUGIN, requesting(**{GPU: "1"}), info(ROOM), "Skip"),
    "both alike": (PLUGIN, requesting(cpu="1", memory="1Gi"), info(ROOM), [75]),
    "one alone makes it uneven": (PLUGIN, requesting(cpu="2"), info(ROOM), [62]),
    "what was uneven becomes even": (PLUGIN, requesting(cpu="2"), used(ROOM, memory="2Gi"), [87]),
    "Pods without requests count nothing": (PLUGIN, requesting(cpu="2"), info(ROOM, pod("other")), [62]),
    "more than there is counts as all": (PLUGIN, requesting(cpu="9", memory="4Gi"), info(ROOM), [75]),
    "one resource is always even": (balanced("cpu"), requesting(cpu="2"), info(ROOM), [75]),
    "a resource that the Node does not have is left out": (
        PLUGIN,
        requesting(cpu="2"),
        info(node(allocatable={"cpu": "4", "pods": "10"})),
        [75],
    ),
    "three resources": (THREE, requesting(cpu="1", memory="2Gi", **{GPU: "4"}), info(ROOM), [59]),
    "an extended resource that the Pod does not request is left out": (THREE, requesting(cpu="2"), info(ROOM), [62]),
}


@pytest.mark.parametrize(("plugin", "given", "on", "want"), SCORES.values(), ids=SCORES)
def test_scores(plugin: NodeResourcesBalancedAllocation, given: PodInfo, on: NodeInfo, want: list[int] | str) -> None:
    assert scored(plugin, given, on) == want


@pytest.mark.parametrize(
    ("fractions", "want"),
    [((), 100), ((0.5,), 100), ((0.0, 1.0), 50), ((0.25, 0.5), 87), ((0.0, 0.0, 1.0), 52), ((0.1, 0.1, 0.1), 100)],
)
def test_evenness(fractions: Sequence[float], want: int) -> None:
    assert evenness(fractions) == want
