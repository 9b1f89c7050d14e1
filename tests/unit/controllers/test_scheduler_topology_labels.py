"""Labels that the API server copies from Nodes to Pods: what a binding means to the scheduler's cache and to counts."""

from typing import Any

import pytest
from clusters.scheduler import World, node, scheduling
from fakes.manager import turns
from objects.builders import Built, pod

from tollbar.model.objects import labels_of
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import Shapes
from tollbar.scheduler.cache.selector import PodSelector, Selector
from tollbar.scheduler.cache.topologylabels import TopologyLabels

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
NODE = node("n1").labelled({ZONE: "a", REGION: "x"})
IN_ZONE = PodSelector(frozenset({"ml"}), Selector.of({"matchLabels": {ZONE: "a"}}))
COPIES = pytest.mark.parametrize("copies", [True, False], ids=["copied", "not copied"])


def counted(world: World) -> int:
    """Pods that the selector selects."""
    snapshot = world.scheduler._snapshot
    snapshot.update(world.scheduler._cache)
    return int(snapshot.groups.group(IN_ZONE).counts.sum())


async def assumed(world: World, given: Built) -> None:
    """A Pod appears and gets a Node, which the watch does not show yet."""
    world.api.store(given)
    world.watch()
    await turns()
    assert world.assumed() == 1


async def bound(world: World, given: Built) -> None:
    await assumed(world, given)
    world.watch()
    assert world.assumed() == 0


def generation(world: World) -> int:
    """Another one after every change of the Node."""
    info = world.scheduler._cache.node("n1")
    assert info is not None
    return info.generation


@COPIES
async def test_the_confirmation_of_a_binding_is_no_change_of_the_node(copies: bool) -> None:
    async with scheduling(NODE) as world:
        world.api.copies_labels = copies
        await bound(world, pod("first").labelled(app="web"))
        await assumed(world, pod("second").labelled(app="web"))
        before = generation(world)
        world.watch()
    assert (world.assumed(), generation(world)) == (0, before)
    assert (labels_of(world.api.find("Pod", "second")).get(ZONE) == "a") == copies


@COPIES
async def test_a_selector_on_a_copied_label_counts_the_pods_that_have_it(copies: bool) -> None:
    counts = []
    async with scheduling(NODE) as world:
        world.api.copies_labels = copies
        await bound(world, pod("first"))
        counts.append(counted(world))
        await assumed(world, pod("second"))
        counts.append(counted(world))
        world.watch()
        counts.append(counted(world))
    assert counts == ([1, 2, 2] if copies else [0, 0, 0])


async def test_when_labels_are_not_copied_any_more_the_next_confirmation_corrects_what_was_counted() -> None:
    counts = []
    async with scheduling(NODE) as world:
        for number, copies in enumerate([True, True, False, False]):
            world.api.copies_labels = copies
            await assumed(world, pod(f"p{number}"))
            counts.append(counted(world))
            world.watch()
            counts.append(counted(world))
    assert counts == [0, 1, 2, 2, 3, 2, 2, 2]


async def test_a_pod_that_cannot_be_bound_is_not_counted_any_more() -> None:
    async with scheduling(NODE) as world:
        world.api.copies_labels = True
        await bound(world, pod("first"))
        world.api.broken.add("bind")
        world.api.store(pod("second"))
        world.watch()
        await turns()
        counts = counted(world)
    assert (counts, world.assumed()) == (1, 0)


OF_PODS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "no labels": ({}, {ZONE: "a", REGION: "x"}),
    "others": ({"app": "web"}, {"app": "web", ZONE: "a", REGION: "x"}),
    "one of its own that is copied over": ({ZONE: "mine"}, {ZONE: "a", REGION: "x"}),
}


@pytest.mark.parametrize(("own", "expected"), OF_PODS.values(), ids=OF_PODS)
def test_an_assumed_pod_has_the_labels_and_the_shape_that_it_will_be_bound_with(
    own: dict[str, str], expected: dict[str, str]
) -> None:
    shapes, info = Shapes(), NodeInfo("n1")
    info.set_node(NODE)
    labels = TopologyLabels(shapes)
    volumes: Any = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    waiting = pod().labelled(own).but("spec.volumes", volumes)
    labels.learn(shapes.pod_info(pod()), shapes.pod_info(pod().labelled({ZONE: "a", REGION: "x"})), info)
    found = labels.assumed(shapes.pod_info(waiting), "n1", info)
    confirmed = shapes.pod_info(waiting.labelled(expected).but("spec.nodeName", "n1"))
    assert (found.labels, found.shape is confirmed.shape, found.counts_as(confirmed)) == (expected, True, True)


ZONED = pod().labelled({ZONE: "a"})
TOLD_NOTHING: dict[str, tuple[Built, Built, NodeInfo | None]] = {
    "its Node has none": (pod(), pod(), NodeInfo("n1")),
    "its Node is not known": (pod(), pod(), None),
    "it had them before": (ZONED, ZONED, NodeInfo("n1", labels={ZONE: "a"})),
}


@pytest.mark.parametrize(("waiting", "after", "on"), TOLD_NOTHING.values(), ids=TOLD_NOTHING)
def test_a_binding_tells_nothing_about_the_api_server_if(waiting: Built, after: Built, on: NodeInfo | None) -> None:
    shapes, info = Shapes(), NodeInfo("n1", labels={ZONE: "a"})
    labels = TopologyLabels(shapes)
    before = labels.assumed(shapes.pod_info(pod()), "n1", info).labels
    labels.learn(shapes.pod_info(waiting), shapes.pod_info(after), on)
    assert labels.assumed(shapes.pod_info(pod()), "n1", info).labels == before
    labels.learn(shapes.pod_info(pod()), shapes.pod_info(pod().labelled({ZONE: "a"})), info)
    labels.learn(shapes.pod_info(waiting), shapes.pod_info(after), on)
    assert labels.assumed(shapes.pod_info(pod()), "n1", info).labels == {ZONE: "a"}
