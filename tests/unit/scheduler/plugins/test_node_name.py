"""NodeName: a Pod that names its Node."""

import pytest
from plugins.tables import cluster, filtered, handle, hinted, info, node, pod

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.framework.interface import PreFilterResult
from tollbar.scheduler.plugins.node_name import NodeName

PLUGIN = NodeName({}, handle())
FILTER: dict[str, tuple[PodInfo, tuple[str, ...]]] = {
    "a Pod that names no Node": (pod(), ("Success",)),
    "its own Node": (pod(nodeName="n"), ("Success",)),
    "another Node": (
        pod(nodeName="other"),
        ("UnschedulableAndUnresolvable", "node(s) didn't match the requested node name"),
    ),
}


@pytest.mark.parametrize(("given", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(node())) == want


def test_only_the_named_node_is_looked_at() -> None:
    found = PLUGIN.pre_filter(CycleState(), pod(nodeName="n"), cluster(info(node())))
    assert found == PreFilterResult(frozenset({"n"}))


def test_a_new_node_wakes_the_pod() -> None:
    assert hinted(PLUGIN, EventResource.NODE, Action.ADD, pod(nodeName="n"), None, node()) == "Queue"
