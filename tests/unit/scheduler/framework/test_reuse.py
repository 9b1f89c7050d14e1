"""Answers that are kept from Pod to Pod: who is asked about which Nodes again, and when everything is asked anew."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np
import pytest
from plugins.toys import FilterToy, Named, PreFilterToy, done, framework, handle, pod_info

from tollbar.model import changelog
from tollbar.model.objects import Object
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework import reuse
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.interface import DependsOn
from tollbar.scheduler.framework.status import SKIP, Status, unschedulable

ALL = "all"


class Asked(Named):
    """Notes the Nodes about which it is asked.  No Pod goes to a Node with the label `closed`; a `rank` is a score."""

    def __init__(self, on: Any = DependsOn.NODE_AND_PODS) -> None:
        super().__init__("asked")
        self.on = on
        self.filtered: list[str] = []
        self.scored: list[str] = []

    def depends_on(self, pod: PodInfo) -> Any:
        if isinstance(self.on, Exception):
            raise self.on
        return self.on

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        self.filtered.append(node.name)
        return unschedulable("closed") if "closed" in node.labels else None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        self.filtered.append(ALL)
        return np.array(["closed" not in each.labels for each in nodes], np.bool_)

    def score(self, state: Any, pod: Any, node: Any) -> Any:
        self.scored.append(node.name)
        return int(node.labels.get("rank", 0))

    def score_nodes(self, state: Any, pod: Any, nodes: Any, places: Any) -> Any:
        self.scored.append(ALL if len(places) == len(nodes) else "some")
        return np.array([int(nodes.nodes[place].labels.get("rank", 0)) for place in places], np.int64)


def node(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


class World:
    def __init__(self, plugin: Asked) -> None:
        self.plugin = plugin
        self.cache, self.snapshot, self.shapes = Cache(), Snapshot(), Shapes()
        self.framework = framework(plugin)
        for name in ("a", "b", "c"):
            self.cache.set_node(node(name))

    def pod(self, name: str = "web", **spec: Any) -> PodInfo:
        labels, status = spec.pop("labels", {}), spec.pop("status", {})
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
        body = {"containers": [{"name": "main"}], **spec}
        return self.shapes.pod_info({"metadata": meta, "spec": body, "status": status})

    def on(self, node_name: str) -> None:
        """A Pod comes to this Node."""
        self.cache.assume(replace(self.pod(f"on-{node_name}"), node_name=node_name))

    def attempt(self, pod: PodInfo | None = None) -> Any:
        self.snapshot.update(self.cache)
        return done(schedule_pod(self.framework, CycleState(), pod or self.pod(), self.snapshot, 0)).result

    def cycle(self, pod: PodInfo | None = None) -> Any:
        """Where the Pod goes, and about which Nodes the plugin was asked, to filter and to score."""
        self.plugin.filtered, self.plugin.scored = [], []
        result = self.attempt(pod)
        assert isinstance(result, Scheduled)
        return result.node_name, sorted(self.plugin.filtered), sorted(self.plugin.scored)


@pytest.fixture(params=DependsOn)
def world(request: pytest.FixtureRequest) -> World:
    """After two Pods with one spec."""
    made = World(Asked(request.param))
    assert [made.cycle(), made.cycle()] == [("a", [ALL], [ALL])] * 2
    return made


def test_nothing_is_kept_of_a_spec_that_comes_once(world: World) -> None:
    world.cache.set_node(node("b", closed=""))

    found = [world.cycle(world.pod(priority=number)) for number in range(2)]

    assert found == [("a", [ALL], ["some"])] * 2


CHANGES: dict[str, tuple[Callable[[World], object], Any]] = {
    "nothing": (World.pod, ("a", [], [])),
    "a Node": (lambda world: world.cache.set_node(node("b", rank="7")), ("b", ["b"], ["b"])),
    "a Node twice": (
        lambda world: [world.cache.set_node(node("b", rank=rank)) for rank in "79"],
        ("b", ["b"], ["b"]),
    ),
    "a Node that no longer fits": (lambda world: world.cache.set_node(node("a", closed="")), ("b", ["a"], ["a"])),
    "a Node is new": (lambda world: world.cache.set_node(node("d", rank="1")), ("d", [ALL], [ALL])),
    "a Node is gone": (lambda world: world.cache.remove_node("a"), ("b", [ALL], [ALL])),
}


@pytest.mark.parametrize(("change", "want"), CHANGES.values(), ids=CHANGES)
def test_who_is_asked_about_after_a_change(world: World, change: Callable[[World], object], want: Any) -> None:
    change(world)

    assert [world.cycle(), world.cycle()] == [want, (want[0], [], [])]


ON: dict[str, tuple[Any, Any]] = {
    "the Node and its Pods": (DependsOn.NODE_AND_PODS, ["a"]),
    "the Node alone": (DependsOn.NODE, []),
    "anything else": (None, [ALL]),
    "nonsense": ("the weather", [ALL]),
    "it raises": (ValueError("boom"), [ALL]),
}


@pytest.mark.parametrize(("on", "want"), ON.values(), ids=ON)
def test_what_answers_depend_on_when_a_pod_comes_to_a_node(on: Any, want: Any) -> None:
    world = World(Asked(on))
    for _ in range(2):
        world.cycle()
    world.on("a")

    assert world.cycle() == ("a", want, want)


PODS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "other labels": ({"labels": {"pod-index": "1"}}, []),
    "other volumes": ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}]}, []),
    "other tolerations": ({"tolerations": [{"operator": "Exists"}]}, [ALL]),
    "another size than its spec says": (
        {"status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "7"}, "resources": {}}]}},
        [ALL],
    ),
}


@pytest.mark.parametrize(("spec", "want"), PODS.values(), ids=PODS)
def test_which_pods_have_the_same_spec(world: World, spec: dict[str, Any], want: list[str]) -> None:
    assert world.cycle(world.pod("other", **spec))[1] == want


def test_where_many_nodes_have_changed_all_are_asked_about_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "MAX_ONE_BY_ONE", 1)
    for name in ("a", "b"):
        world.cache.set_node(node(name))

    assert world.cycle() == ("a", [ALL], [ALL])


def test_changes_that_are_remembered_no_longer_make_all_be_asked_about(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog, "MAX_LOG", 2)
    for rank in "123":
        world.cache.set_node(node("c", rank=rank))
        world.snapshot.update(world.cache)

    assert world.cycle() == ("c", [ALL], [ALL])


def test_the_spec_that_came_longest_ago_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "MAX_SPECS", 2)
    one, two = world.pod(), world.pod(priority=2)
    for _ in range(2):
        world.cycle(two)
    kept = [world.cycle(each)[1] for each in (one, two)]
    world.cycle(world.pod(priority=3))

    assert (kept, [world.cycle(each)[1] for each in (two, one)]) == ([[], []], [[], [ALL]])


def test_a_score_that_is_none_ends_the_cycle_and_is_not_kept(world: World) -> None:
    failures = []
    for rank in ("many", str(2**63)):
        world.cache.set_node(node("b", rank=rank))
        failures.append(world.attempt())
    world.cache.set_node(node("b", rank="1"))

    found = [each.message.removeprefix('running Score plugins: plugin "asked" failed with: ') for each in failures]
    assert (found, world.cycle()) == (
        [
            "ValueError: invalid literal for int() with base 10: 'many'",
            "OverflowError: Python int too large to convert to C long",
        ],
        ("b", ["b"], [ALL]),
    )


def test_another_snapshot_is_asked_about_anew(world: World) -> None:
    world.snapshot = Snapshot()

    assert world.cycle() == ("a", [ALL], [ALL])


class Closed(World):
    """Every Node is closed to every Pod."""

    def __init__(self, on: Any = DependsOn.NODE_AND_PODS, before: Any = None, **given: Any) -> None:
        super().__init__(Asked(on))
        self.framework = framework(*filter(None, (before, self.plugin)), **given)
        for name in "abc":
            self.cache.set_node(node(name, closed=""))

    def asked(self, pod: PodInfo | None = None) -> list[str]:
        """About which Nodes the plugin is asked why it rejects them, besides for its mask."""
        self.plugin.filtered = []
        result = self.attempt(pod)
        assert isinstance(result, FitError)
        assert str(result) == "0/3 nodes are available: 3 closed."
        assert result.diagnosis.unschedulable_plugins == {"asked"}
        return sorted(each for each in self.plugin.filtered if each != ALL)


REJECTED: dict[str, tuple[Callable[[], Closed], Callable[[Closed], object], list[str]]] = {
    "nothing changes": (Closed, Closed.pod, []),
    "a Node changes: for the mask and for the reason": (
        Closed,
        lambda world: world.cache.set_node(node("b", closed="", rank="1")),
        ["b", "b"],
    ),
    "a Node is another": (
        Closed,
        lambda world: (world.cache.remove_node("b"), world.cache.set_node(node("d", closed=""))),
        ["a", "c", "d"],
    ),
    "it looks at more than the Node": (lambda: Closed(None), Closed.pod, ["a", "b", "c"]),
    "one before it looks at more than the Node": (lambda: Closed(before=FilterToy("f")), Closed.pod, ["a", "b", "c"]),
}


@pytest.mark.parametrize("name", REJECTED)
def test_who_is_asked_again_why_a_node_is_rejected(name: str) -> None:
    made, change, expected = REJECTED[name]
    world = made()
    assert [set(world.asked()), set(world.asked())] == [set("abc")] * 2
    change(world)

    assert world.asked() == expected


FIRST, SECOND, LESSER = (pod_info(name, priority=each) for name, each in (("first", 1), ("second", 1), ("third", -1)))
WEB = pod_info("web")
NOMINATED: dict[str, tuple[list[PodInfo], list[PodInfo], list[str]]] = {
    "the same Pod": ([FIRST], [FIRST], []),
    "the same Pod, which has changed": ([FIRST], [pod_info("first", priority=1)], ["b"]),
    "another Pod": ([FIRST], [SECOND], ["b"]),
    "one more": ([FIRST], [FIRST, SECOND], ["b"]),
    "in another order": ([FIRST, SECOND], [SECOND, FIRST], ["b"]),
    "nobody any more": ([FIRST], [], ["b"]),
    "somebody by now": ([], [FIRST], ["b"]),
    "one of lower priority": ([], [LESSER], []),
    "one of lower priority besides": ([FIRST], [FIRST, LESSER], []),
    "the Pod itself, for which nothing is kept there": ([], [WEB], ["b"]),
    "the Pod itself besides": ([FIRST], [FIRST, WEB], ["b"]),
}


@pytest.mark.parametrize("case", NOMINATED)
def test_who_is_asked_again_after_other_pods_are_nominated(case: str) -> None:
    before, after, expected = NOMINATED[case]
    nominated = {"b": before}
    world = Closed()
    world.framework = framework(world.plugin, handle=handle(nominated))
    first = [set(world.asked()), set(world.asked()), set(world.asked())]
    nominated["b"] = after

    assert (first, world.asked()) == ([set("abc"), set("abc"), set()], expected)


def test_pods_that_wait_for_room_are_each_looked_at_on_their_own_node_alone() -> None:
    """They count on the Nodes of one another, and as long as they wait that is the same for all."""
    world = Closed()
    web, other = (world.pod(name, status={"nominatedNodeName": node}) for name, node in (("web", "a"), ("other", "b")))
    world.framework = framework(world.plugin, handle=handle({"a": [web], "b": [other]}))
    for each in (web, other, web):
        world.asked(each)

    assert [world.asked(each) for each in (other, web, other)] == [["b"], ["a"], ["b"]]


def test_what_is_kept_keeps_no_nominated_pod_that_is_gone() -> None:
    nominated = {"b": [pod_info("gone", priority=1)]}
    counted, world = ref(nominated["b"][0]), Closed()
    world.framework = framework(world.plugin, handle=handle(nominated))
    for _ in range(3):
        world.asked()
    nominated.clear()

    assert counted() is None


def test_what_is_said_with_nominated_pods_is_not_kept_where_a_later_plugin_looks_at_more() -> None:
    """It speaks before the first one is asked without the nominated Pods."""

    class Sociable(Asked):
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            return None if node.pods else unschedulable("lonely")

    class Weather(Named):
        is_fine = True

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            return None if self.is_fine else unschedulable("rain")

    world, weather = Closed(), Weather("weather")
    world.framework = framework(Sociable(), weather, nominated={"b": [FIRST]})
    found = []
    for is_fine in (True, True, True, False):
        weather.is_fine = is_fine
        found.append(str(world.attempt()).partition(": ")[2])

    assert found == ["3 lonely."] * 3 + ["1 rain, 2 lonely."]


def test_other_plugins_are_asked_anew_why_they_reject_a_node() -> None:
    class Sometimes(PreFilterToy, Asked):
        """Its PreFilter is `given`; it is as closed as the other one."""

        def __init__(self) -> None:
            Asked.__init__(self)
            self.name, self.given = "sometimes", SKIP

    first = Sometimes()
    world = Closed(before=first)
    for _ in range(3):
        assert str(world.attempt()) == "0/3 nodes are available: 3 closed."
    first.given = None

    found = world.attempt()

    assert {status.plugin for _, status in found.diagnosis.statuses} == {"sometimes"}


def test_what_is_said_of_a_node_with_promised_room_holds_as_long_as_the_promise() -> None:
    class Crowded(Asked):
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            names = " and ".join(each.key.name for each in node.pods.values())
            return unschedulable(names) if names else super().filter(state, pod, node)

    nominated: dict[str, list[PodInfo]] = {"b": []}
    world = Closed()
    world.framework = framework(Crowded(), handle=handle(nominated))
    web, other = world.pod(), world.pod("other")
    steps = [
        *[(web, [FIRST], "1 first, 2 closed.")] * 3,
        (web, [FIRST, SECOND], "1 first and second, 2 closed."),
        (web, [SECOND], "1 second, 2 closed."),
        (web, [], "3 closed."),
        (web, [LESSER], "3 closed."),
        (web, [FIRST, LESSER], "1 first, 2 closed."),
        (other, [FIRST, other], "1 first, 2 closed."),
        (web, [FIRST, other], "1 first and other, 2 closed."),
        (other, [FIRST, other], "1 first, 2 closed."),
    ]
    found = []
    for pod, now, _ in steps:
        nominated["b"] = now
        found.append(str(world.attempt(pod)).partition(": ")[2])
    world.on("b")
    last = str(world.attempt(other)).partition(": ")[2]

    assert (found, last) == ([said for *_, said in steps], "1 on-b and first, 2 closed.")
