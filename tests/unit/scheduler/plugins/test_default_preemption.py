"""DefaultPreemption: who has to go, from which Node, and what is written for it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from plugins.topologies import lister
from plugins.toys import Nominations, done

from tollbar.model.objects import Object
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import Diagnosis, FitError, NodeStatuses
from tollbar.scheduler.framework.events import QueueingHint
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import DependsOn, Nominate
from tollbar.scheduler.framework.metrics import NoMetrics
from tollbar.scheduler.framework.points import Plugins
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import Code, Status, failed, unresolvable, unschedulable
from tollbar.scheduler.plugins.default_preemption import (
    Candidate,
    DefaultPreemption,
    choose,
    split_by_budgets,
    without_preemption,
)

NO_ROOM = unschedulable("Insufficient cpu")
HOPELESS = unresolvable("node(s) had untolerated taint(s)")
SHAPES = Shapes()


def pod(
    name: str,
    priority: int = 0,
    *,
    on: str = "",
    cpu: int = 1,
    started: str = "2026-01-01T00:00:00Z",
    labels: Mapping[str, str] | None = None,
    nominated: str = "",
    going: bool = False,
    conditions: Sequence[Object] = (),
    **spec: Any,
) -> PodInfo:
    meta: Object = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "labels": labels or {"app": name}}
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:00:09Z"
    wanted = {"requests": {"cpu": str(cpu)}}
    body = {"priority": priority, "containers": [{"name": "main", "resources": wanted}], **spec}
    status = {"startTime": started, "nominatedNodeName": nominated, "conditions": list(conditions)}
    return SHAPES.pod_info({"metadata": meta, "spec": {**body, "nodeName": on}, "status": status})


def node(name: str, cpu: int = 2) -> Object:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}}}


def budget(name: str, allowed: int, *, disrupted: Iterable[str] = (), **selector: Any) -> Object:
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    return {"metadata": {"namespace": "ml", "name": name}, "spec": {"selector": selector}, "status": status}


class Room:
    """A Filter that counts cpu."""

    name = "Room"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        fits = node.requested.milli_cpu + pod.requests.resources.milli_cpu <= node.allocatable.milli_cpu
        return None if fits else NO_ROOM


class Broken(Room):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return failed(f"{node.name} is broken")


class Unmovable(Room):
    """Cannot imagine a Node without a Pod."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> None:
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        return failed("no idea")


@dataclass
class Calls:
    """Remembers the calls; those about a Pod in `problems` fail."""

    problems: Mapping[str, ApiError] = field(default_factory=dict)
    made: list[tuple[Any, ...]] = field(default_factory=list)

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        return self._make("patch", pod, patch["status"])

    async def delete_pod(self, pod: PodInfo) -> None:
        self._make("delete", pod)

    def _make(self, verb: str, pod: PodInfo, *more: Any) -> Object:
        if pod.key.name in self.problems:
            raise self.problems[pod.key.name]
        self.made.append((verb, pod.key.name, *more))
        return {}


class World:
    """A cluster in which every Node has no room for a Pod, unless `statuses` says something else of it."""

    def __init__(
        self,
        nodes: Iterable[Object],
        pods: Sequence[PodInfo] = (),
        *,
        budgets: Sequence[Object] = (),
        nominated: Mapping[str, Sequence[PodInfo]] | None = None,
        filter_plugin: object = None,
        calls: Calls | None = None,
        args: Mapping[str, int] | None = None,
    ) -> None:
        self.calls = calls or Calls()
        self.activated: list[str] = []
        self.events: list[tuple[str, ...]] = []
        self.coroutines: list[Any] = []
        given: Any = self.calls
        self.snapshot = Snapshot.of(nodes, pods)
        self.handle = Handle(
            snapshot=self.snapshot,
            nominator=Nominations(nominated or {}),
            dra=None,
            calls=given,
            now=lambda: 0.0,
            monotonic=lambda: 0.0,
            rng=Random(1),
            activate=lambda woken: self.activated.extend(each.key.name for each in woken),
            event=lambda about, *said: self.events.append((about.key.name, *said)),
            start=self.coroutines.append,
        )
        self.handle.listers.pod_disruption_budgets = lister(*budgets)
        self.framework = Framework("default-scheduler", Plugins.of(filter_plugin or Room()), self.handle)
        self.plugin = DefaultPreemption(args or {}, self.handle)

    def post_filter(
        self, preemptor: PodInfo, statuses: Mapping[str, Status] | None = None
    ) -> tuple[Nominate | None, Status]:
        found = dict.fromkeys([each.name for each in self.snapshot], NO_ROOM) if statuses is None else dict(statuses)
        answer: tuple[Nominate | None, Status] = done(
            self.plugin.post_filter(CycleState(), preemptor, NodeStatuses(found))
        )
        return answer

    def answer(
        self, preemptor: PodInfo, statuses: Mapping[str, Status] | None = None
    ) -> tuple[Nominate | None, Status]:
        """The answer alone: what was started is not carried out."""
        answer = self.post_filter(preemptor, statuses)
        for coroutine in self.coroutines:
            coroutine.close()
        return answer

    async def carry_out(self) -> None:
        for coroutine in self.coroutines:
            await coroutine
        self.coroutines.clear()

    def victims(self, preemptor: PodInfo) -> Any:
        """The Node and the victims, or what the plugin says instead."""
        nominate, status = self.post_filter(preemptor)
        if status.code is not Code.SUCCESS:
            return status.message
        asyncio.run(self.carry_out())
        return nominate, [name for verb, name, *_ in self.calls.made if verb == "delete"]


VIP = pod("vip", 100)
FULL = [pod("a", 1, on="n1"), pod("b", 2, on="n1")]
VICTIMS: dict[str, tuple[World, Any]] = {
    "the least important Pod goes": (World([node("n1")], FULL), (Nominate("n1"), ["a"])),
    "of equal ones the one that has run for less time goes": (
        World([node("n1")], [pod("old", on="n1"), pod("new", on="n1", started="2026-01-02T00:00:00Z")]),
        (Nominate("n1"), ["new"]),
    ),
    "one that no kubelet has started yet has run for the least time": (
        World([node("n1")], [pod("assumed", on="n1", started=""), pod("new", on="n1")]),
        (Nominate("n1"), ["assumed"]),
    ),
    "a Pod of equal priority stays": (
        World([node("n1")], [pod("a", 1, on="n1"), pod("peer", 100, on="n1")]),
        (Nominate("n1"), ["a"]),
    ),
    "as many go as have to": (
        World([node("n1", 3)], [pod("a", 1, on="n1", cpu=2), pod("b", 2, on="n1")]),
        (Nominate("n1"), ["a"]),
    ),
    "a less important Pod stays that does not help": (
        World([node("n1", 3)], [pod("big", 2, on="n1", cpu=3), pod("none", 1, on="n1", cpu=0)]),
        (Nominate("n1"), ["big"]),
    ),
    "a budget spares its Pods": (
        World([node("n1")], FULL, budgets=[budget("for-a", 0, matchLabels={"app": "a"})]),
        (Nominate("n1"), ["b"]),
    ),
    "a budget is violated where nothing else helps": (
        World([node("n1", 1)], FULL[:1], budgets=[budget("for-a", 0, matchLabels={"app": "a"})]),
        (Nominate("n1"), ["a"]),
    ),
    "a Node whose budgets hold is preferred to one with a less important victim": (
        World(
            [node("n1", 1), node("n2", 1)],
            [pod("a", 1, on="n1"), pod("b", 2, on="n2")],
            budgets=[budget("for-a", 0, matchLabels={"app": "a"})],
        ),
        (Nominate("n2"), ["b"]),
    ),
    "one that terminates already is not deleted again": (
        World([node("n1", 1)], [pod("a", 1, on="n1", going=True)]),
        (Nominate("n1"), []),
    ),
    "nobody has less priority": (
        World([node("n1"), node("n2", 1)], [pod("peer", 100, on="n1"), pod("boss", 200, on="n2")]),
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
    ),
    "even an empty Node has no room": (
        World([node("n1", 0)], FULL),
        "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
    "a Node without anybody does not help": (
        World([node("n1", 0), node("n2", 0)], FULL),
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.",
    ),
    "a Pod that may not preempt": (
        World([node("n1")], FULL),
        "preemption: not eligible due to preemptionPolicy=Never.",
    ),
    "there are no Nodes": (World([]), "preemption: no nodes available"),
    "a plugin fails on every Node": (
        World([node("n1"), node("n2")], [*FULL, pod("c", on="n2")], filter_plugin=Broken()),
        'preemption: [running "Room" filter plugin: n1 is broken, running "Room" filter plugin: n2 is broken]',
    ),
    "a plugin cannot take a Pod away": (
        World([node("n1")], FULL, filter_plugin=Unmovable()),
        'preemption: running RemovePod on PreFilter plugin "Room": no idea',
    ),
}


@pytest.mark.behaviour(33, case="a budget spares its Pods")
@pytest.mark.parametrize("case", VICTIMS)
def test_who_has_to_go(case: str) -> None:
    world, expected = VICTIMS[case]
    preemptor = pod("vip", 100, preemptionPolicy="Never") if "may not" in case else VIP
    assert world.victims(preemptor) == expected


@pytest.mark.parametrize("case", ["nobody has less priority", "even an empty Node has no room"])
def test_a_message_without_what_came_of_preemption(case: str) -> None:
    world, said = VICTIMS[case]
    statuses = NodeStatuses(dict.fromkeys(("n1", "n2"), NO_ROOM))
    message = str(FitError(2, Diagnosis(statuses, post_filter_message=str(world.victims(VIP)))))
    assert message == f"0/2 nodes are available: 2 Insufficient cpu. {said}"
    assert without_preemption(message) == "0/2 nodes are available: 2 Insufficient cpu."


def test_nodes_without_pods_of_lower_priority_take_no_turn() -> None:
    world = World([node("n1", 0), node("n2"), node("n3")], [pod("a", 1, on="n1"), pod("peer", 100, on="n2")])
    statuses = NodeStatuses(dict.fromkeys(["n1", "n2", "n3"], NO_ROOM))

    turns = len(list(world.plugin.post_filter(CycleState(), VIP, statuses)))

    assert turns == 1


class Counting(Room):
    """Notes how many Pods are on the Nodes about which it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE_AND_PODS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked.append((node.name, len(node.pods)))
        return super().filter(state, pod, node)


def test_nodes_that_are_too_small_in_any_case_are_not_tried_again_for_the_same_spec() -> None:
    room = Counting()
    world = World([node("n1", 0), node("n2", 0)], [pod("a", 1, on="n1"), pod("b", 1, on="n2")], filter_plugin=room)
    asked = []
    for number in range(4):
        preemptor, state = pod(f"vip-{number}", 100, labels={"app": "vip"}), CycleState()
        world.framework.filter_nodes(state, preemptor, world.snapshot)
        room.asked.clear()
        _, status = done(world.plugin.post_filter(state, preemptor, NodeStatuses(dict.fromkeys(["n1", "n2"], NO_ROOM))))
        assert status.message == "preemption: 0/2 nodes are available: 2 Insufficient cpu."
        asked.append(sorted(room.asked))

    assert asked == [[("n1", 0), ("n2", 0)], [("n1", 0), ("n2", 0)], [], []]


def full() -> World:
    """Two Nodes with two Pods each, and a Filter that notes what it is asked."""
    pods = [pod(f"{name}-{number}", number, on=name) for name in ("n1", "n2") for number in (1, 2)]
    return World([node("n1"), node("n2")], pods, filter_plugin=Counting())


def asked_about(world: World, number: int) -> list[str]:
    """The Nodes that are tried for one more Pod of the same spec."""
    preemptor, state = pod(f"vip-{number}", 100, labels={"app": "vip"}), CycleState()
    world.framework.filter_nodes(state, preemptor, world.snapshot)
    (room,) = world.framework.plugins.filter
    assert isinstance(room, Counting)
    room.asked.clear()
    done(world.plugin.post_filter(state, preemptor, NodeStatuses(dict.fromkeys(["n1", "n2"], NO_ROOM))))
    for coroutine in world.coroutines:
        coroutine.close()
    world.coroutines.clear()
    return sorted({name for name, _ in room.asked})


def without_a_pod(world: World) -> None:
    info = world.snapshot.nodes[0].copy()
    info.remove_pod("uid-of-n1-1")
    world.snapshot._take(info)


def with_a_budget(world: World) -> None:
    world.handle.listers.pod_disruption_budgets = lister(budget("b", 1, matchLabels={"app": "n1-1"}))


def with_a_nomination(world: World) -> None:
    world.handle.nominator = Nominations({"n2": [pod("other", 100, nominated="n2")]})


KEPT: dict[str, tuple[Callable[[World], None], list[str]]] = {
    "nothing": (lambda _: None, []),
    "a Pod of a Node": (without_a_pod, ["n1"]),
    "a budget": (with_a_budget, ["n1", "n2"]),
    "a nomination to a Node": (with_a_nomination, ["n2"]),
}


@pytest.mark.parametrize("case", KEPT)
def test_victims_are_kept_for_the_next_pod_of_the_spec_until_something_changes(case: str) -> None:
    change, expected = KEPT[case]
    world = full()
    tried = [asked_about(world, number) for number in range(3)]
    change(world)
    assert (tried, asked_about(world, 3)) == ([["n1", "n2"], ["n1", "n2"], []], expected)


def test_victims_are_kept_as_long_as_the_same_pods_are_nominated_to_the_node() -> None:
    one, other, lesser = pod("one", 100, cpu=0), pod("other", 100, cpu=0), pod("lesser", 1, cpu=0)
    nominated = {"n2": [one]}
    world = full()
    world.handle.nominator = Nominations(nominated)
    tried = [asked_about(world, number) for number in range(3)]
    for number, now in enumerate(([one, lesser], [one, other], [one, other], [])):
        nominated["n2"] = now
        tried.append(asked_about(world, 3 + number))
    assert tried == [["n1", "n2"], ["n1", "n2"], [], [], ["n2"], [], ["n2"]]


class Nominating(Counting):
    """Somebody is nominated to n1 while it is tried."""

    nominated: dict[str, list[PodInfo]] | None = None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if self.nominated is not None and node.name == "n1":
            self.nominated["n1"] = [OTHER]
        return super().filter(state, pod, node)


OTHER = pod("other", 100, nominated="n1", cpu=0)


@pytest.mark.parametrize("cpu", [2, 0], ids=["victims", "a rejection"])
def test_what_a_trial_has_come_to_with_a_nomination_in_between_is_not_kept(cpu: int) -> None:
    room = Nominating()
    pods = [pod(f"{name}-{number}", number, on=name) for name in ("n1", "n2") for number in (1, 2)]
    world = World([node("n1", cpu), node("n2", cpu)], pods, filter_plugin=room)
    asked_about(world, 0)
    room.nominated = {}
    world.handle.nominator = Nominations(room.nominated)
    asked_about(world, 1)
    room.nominated.clear()
    assert asked_about(world, 2) == ["n1"]


def test_nodes_whose_victims_are_known_take_a_turn_each() -> None:
    world = full()
    for number in range(2):
        asked_about(world, number)
    preemptor, state = pod("vip", 100, labels={"app": "vip"}), CycleState()
    world.framework.filter_nodes(state, preemptor, world.snapshot)
    turns = sum(
        1 for _ in world.plugin.post_filter(state, preemptor, NodeStatuses(dict.fromkeys(["n1", "n2"], NO_ROOM)))
    )
    for coroutine in world.coroutines:
        coroutine.close()
    assert turns == 2


class Elsewhere(Counting):
    """Its answer depends on more than the Node."""

    name = "Elsewhere"

    def depends_on(self, pod: PodInfo) -> Any:
        return None


def test_victims_are_not_kept_where_a_filter_looks_at_more_than_the_node() -> None:
    world = full()
    world.framework = Framework("default-scheduler", Plugins.of(Elsewhere()), world.handle)
    assert [asked_about(world, number) for number in range(3)] == [["n1", "n2"]] * 3


def test_what_is_kept_changes_no_answer() -> None:
    rng, names = Random(7), [f"n{number}" for number in range(6)]
    world = World([node(name, 4) for name in names], filter_plugin=Counting())
    started: list[Any] = []
    world.plugin._evictions.start = lambda *chosen: started.append(chosen[1:])  # type: ignore[method-assign]
    for step in range(300):
        name = rng.choice(names)
        found = world.snapshot.get(name)
        assert found is not None
        info = found.copy()
        if info.pods and rng.random() < 0.4:
            info.remove_pod(rng.choice(sorted(info.pods)))
        else:
            begun = f"2026-01-01T00:00:{rng.randrange(60):02}Z"
            cpu, priority = rng.randint(1, 2), rng.randrange(3)
            info.add_pod(pod(f"p{step}", priority, on=name, cpu=cpu, started=begun, labels={"app": str(priority)}))
        world.snapshot._take(info)
        if rng.random() < 0.1:
            allowed = [budget("b", 1, matchLabels={"app": str(number)}) for number in range(rng.randrange(3))]
            world.handle.listers.pod_disruption_budgets = lister(*allowed)
        preemptor = pod(f"vip-{step}", 100, cpu=rng.choice([2, 3]), labels={"app": "vip"})
        answers = []
        for keeps in (True, False):
            state = CycleState()
            if keeps:
                world.framework.filter_nodes(state, preemptor, world.snapshot)
            world.handle.rng = Random(step)
            statuses = NodeStatuses(dict.fromkeys(names, NO_ROOM))
            answer = done(world.plugin.post_filter(state, preemptor, statuses))
            answers.append((answer, started.pop() if started else None))
        assert answers[0] == answers[1]


class OfNode(Counting):
    """Lets every Node pass, whatever Pods it has."""

    name = "OfNode"

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked.append((node.name, len(node.pods)))
        return None


def test_what_depends_on_the_node_alone_is_asked_once_and_not_for_each_pod_that_may_stay() -> None:
    world, room, of_node = World([node("n1")], FULL), Counting(), OfNode()
    world.framework = Framework("default-scheduler", Plugins.of(of_node, room), world.handle)
    assert world.answer(VIP)[0] == Nominate("n1")
    assert (of_node.asked, room.asked) == ([("n1", 0)], [("n1", 0), ("n1", 1), ("n1", 2)])


GOING = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
WAITING = (None, unschedulable("preemption: not eligible due to a terminating pod on the nominated node."))
ELIGIBLE: dict[str, tuple[PodInfo, Status, bool]] = {
    "its victim still terminates on the nominated Node": (
        pod("a", 1, on="n1", going=True, conditions=GOING),
        NO_ROOM,
        False,
    ),
    "the victim has not been asked to go": (pod("a", 1, on="n1", conditions=GOING), NO_ROOM, True),
    "one terminates that somebody else has deleted": (pod("a", 1, on="n1", going=True), NO_ROOM, True),
    "one of equal priority terminates": (pod("a", 100, on="n1", going=True, conditions=GOING), NO_ROOM, True),
    "other reasons rule the Node out": (pod("a", 1, on="n1", going=True, conditions=GOING), HOPELESS, True),
}


@pytest.mark.parametrize("case", ELIGIBLE)
def test_a_pod_waits_for_its_victims(case: str) -> None:
    other, said, eligible = ELIGIBLE[case]
    world = World([node("n1"), node("n2", 1)], [other, pod("b", 1, on="n2")])
    answer = world.answer(pod("vip", 100, nominated="n1"), {"n1": said, "n2": NO_ROOM})
    assert (answer != WAITING) is eligible


def test_the_answer_names_the_node_and_how_many_victims_there_are() -> None:
    found = "preemption: found a potential placement for pod on node n1, preempting 2 victims"
    world = World([node("n1")], FULL)
    assert world.answer(pod("vip", 100, cpu=2)) == (Nominate("n1"), Status(Code.SUCCESS, (found,)))


def test_nodes_where_preemption_cannot_help_are_not_tried_and_the_nomination_is_cleared() -> None:
    said = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    world = World([node("n1"), node("n2")], FULL)
    assert world.answer(VIP, {"n1": HOPELESS, "n2": HOPELESS}) == (Nominate(""), unschedulable(said))


def test_where_pre_filter_has_rejected_all_nodes_nothing_is_looked_at() -> None:
    class Unread:
        def values(self) -> list[Object]:
            raise AssertionError

    world = World([node("n1"), node("n2")], FULL)
    world.handle.listers.pod_disruption_budgets = Unread()  # type: ignore[assignment]
    found = done(world.plugin.post_filter(CycleState(), VIP, NodeStatuses()))
    said = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert found == (Nominate(""), unschedulable(said))


def test_an_error_leaves_the_nomination_as_it_is() -> None:
    world = World([node("n1")], FULL, filter_plugin=Broken())
    assert world.answer(VIP) == (None, failed('preemption: running "Room" filter plugin: n1 is broken'))


TRIED: dict[str, tuple[dict[str, int], int]] = {
    "all of few Nodes": ({}, 3),
    "a share of the Nodes": ({"minCandidateNodesPercentage": 34, "minCandidateNodesAbsolute": 1}, 1),
    "at least so many": ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}, 2),
}


@pytest.mark.parametrize("case", TRIED)
def test_candidates_are_looked_for_until_there_are_enough(case: str) -> None:
    args, expected = TRIED[case]
    tried = []

    class Watching(Room):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            tried.append(node.name)
            return super().filter(state, pod, node)

    nodes = [f"n{number}" for number in range(3)]
    pods = [pod(f"on-{each}", on=each) for each in nodes]
    World([node(each, 1) for each in nodes], pods, filter_plugin=Watching(), args=args).answer(VIP)
    assert len(set(tried)) == expected


def test_pods_of_equal_priority_that_are_nominated_to_a_node_are_counted() -> None:
    peer = pod("peer", 100, nominated="n1")
    world = World([node("n1")], FULL, nominated={"n1": [peer]})
    assert world.victims(VIP) == (Nominate("n1"), ["b", "a"])


def candidate(name: str, *victims: PodInfo, violations: int = 0) -> Candidate:
    return Candidate(name, victims, violations)


LATE = "2026-01-02T00:00:00Z"
CHOICES: dict[str, list[Candidate]] = {
    "fewest violated budgets": [candidate("n1", pod("a"), violations=1), candidate("best", pod("b", 9), pod("c", 9))],
    "lowest of the highest priorities": [candidate("n1", pod("a", 3)), candidate("best", pod("b", 2), pod("c", 2))],
    "smallest sum of priorities": [
        candidate("n1", pod("a", 3), pod("b", 2)),
        candidate("best", pod("c", 3), pod("d", 1)),
    ],
    "of negative priorities, too, fewer victims make the smaller sum": [
        candidate("n1", pod("a", -3), pod("b", -3)),
        candidate("best", pod("c", -3)),
    ],
    "latest start of the most important victims": [
        candidate("n1", pod("a", 3, started=LATE), pod("b", 3), pod("c", 2, started=LATE)),
        candidate("best", pod("d", 3, started=LATE), pod("e", 3, started=LATE), pod("f", 2)),
    ],
    "one that no kubelet has started started last": [
        candidate("n1", pod("a", started=LATE)),
        candidate("best", pod("b", started="")),
    ],
    "the first of equal ones": [candidate("best", pod("a")), candidate("n2", pod("b"))],
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_choice_of_the_node(case: str) -> None:
    assert choose(CHOICES[case]).node_name == "best"


BUDGETS: dict[str, tuple[list[Object], list[str]]] = {
    "none": ([], []),
    "no disruption is allowed": ([budget("one", 0, matchLabels={"tier": "x"})], ["a", "b"]),
    "one disruption is allowed": ([budget("one", 1, matchLabels={"tier": "x"})], ["b"]),
    "one has let a Pod pass already": ([budget("one", 0, disrupted=["a"], matchLabels={"tier": "x"})], ["b"]),
    "an empty selector is about nobody": ([budget("one", 0)], []),
    "the selector does not match": ([budget("one", 0, matchLabels={"tier": "y"})], []),
    "expressions count": (
        [budget("one", 0, matchExpressions=[{"key": "app", "operator": "In", "values": ["a"]}])],
        ["a"],
    ),
    "another namespace": ([{**budget("one", 0, matchLabels={"tier": "x"}), "metadata": {"namespace": "other"}}], []),
    "of several, the first violated one counts alone": (
        [budget("one", 0, matchLabels={"app": "a"}), budget("two", 1, matchLabels={"tier": "x"})],
        ["a"],
    ),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_which_deletions_violate_budgets(case: str) -> None:
    budgets, expected = BUDGETS[case]
    labels = {"tier": "x"}
    given = [pod("a", labels={"app": "a", **labels}), pod("b", labels={"app": "b", **labels})]
    violating, harmless = split_by_budgets(given, budgets)
    assert ([each.key.name for each in violating], len(harmless)) == (expected, 2 - len(expected))


MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
    "observedGeneration": 0,
    "lastTransitionTime": "1970-01-01T00:00:00Z",
}
NOTE = "Preempted by pod uid-of-vip on node n1"


async def test_a_victim_is_marked_and_deleted_after_the_cycle_and_nominations_of_lesser_pods_are_cleared() -> None:
    lesser, peer = pod("lesser", 99, nominated="n1", cpu=0), pod("peer", 100, nominated="n1", cpu=0)
    world = World([node("n1", 1)], FULL[:1], nominated={"n1": [lesser, peer]})
    world.post_filter(VIP)
    before = list(world.calls.made)
    await world.carry_out()
    assert (before, world.calls.made, world.events, world.activated) == (
        [],
        [
            ("patch", "lesser", {"nominatedNodeName": None}),
            ("patch", "a", {"conditions": [MARK]}),
            ("delete", "a"),
        ],
        [("a", "Normal", "Preempted", "Preempting", NOTE)],
        [],
    )


async def test_a_victim_that_is_marked_already_is_deleted_at_once() -> None:
    world = World([node("n1", 1)], [pod("a", 1, on="n1", conditions=[MARK])])
    world.post_filter(VIP)
    await world.carry_out()
    assert world.calls.made == [("delete", "a")]


class Told(NoMetrics):
    """Notes what plugins measure of preemption."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def preemption_tried(self) -> None:
        self.noted.append("tried")

    def preempted(self, victims: int) -> None:
        self.noted.append(victims)


def test_attempts_and_victims_are_counted() -> None:
    world = World([node("n1")], FULL)
    world.handle.metrics = told = Told()
    world.answer(pod("vip", 100, cpu=2))
    world.answer(pod("vip", 0))
    assert told.noted == ["tried", 2, "tried"]


async def test_the_scheduler_of_the_pod_is_named() -> None:
    world = World([node("n1", 1)], FULL[:1])
    world.post_filter(pod("vip", 100, schedulerName="tollbar-scheduler"))
    await world.carry_out()
    assert world.calls.made[0][2]["conditions"][0]["message"].startswith("tollbar-scheduler: preempting")


GONE = NotFound(404, "NotFound", "pods a not found")
DOWN = ApiError(500, "InternalError", "etcd is down")
FAULTS: dict[str, tuple[dict[str, ApiError], list[str], list[str]]] = {
    "nothing fails": ({}, ["b", "a"], []),
    "a victim is gone already": ({"b": GONE}, ["a"], []),
    "a victim cannot be deleted: the last one is left alone": ({"b": DOWN}, [], ["vip"]),
    "the last victim cannot be deleted": ({"a": DOWN}, ["b"], ["vip"]),
    "a nomination cannot be cleared": ({"lesser": DOWN}, ["b", "a"], ["vip"]),
}


@pytest.mark.parametrize("case", FAULTS)
async def test_the_pod_is_activated_where_no_deletion_may_wake_it(case: str) -> None:
    problems, deleted, activated = FAULTS[case]
    lesser = pod("lesser", 1, nominated="n1", cpu=0)
    world = World([node("n1")], FULL, nominated={"n1": [lesser]}, calls=Calls(problems))
    world.post_filter(pod("vip", 100, cpu=2))
    await world.carry_out()
    found = [name for verb, name, *_ in world.calls.made if verb == "delete"]
    assert (found, world.activated, world.plugin.pre_enqueue(VIP)) == (deleted, activated, None)


class Binding:
    """A Pod that waits for Permit, or whose PreBind runs."""

    def __init__(self, in_time: bool) -> None:
        self._in_time = in_time
        self.told: list[str] = []

    def preempt(self, plugin: str, message: str) -> bool:
        self.told.append(f"{plugin}: {message}")
        return self._in_time

    def cancel(self, message: str) -> bool:
        self.told.append(message)
        return self._in_time


STOPPED: dict[str, tuple[str, bool, Any]] = {
    "one that waits for Permit goes back to the queue": ("waiting_pods", True, ["DefaultPreemption: preempted"]),
    "one whose PreBind runs goes back to the queue": ("pods_in_pre_bind", True, ["preempted by DefaultPreemption"]),
    "one that was just allowed is deleted": ("waiting_pods", False, ["DefaultPreemption: preempted"]),
    "one whose PreBind has just ended is deleted": ("pods_in_pre_bind", False, ["preempted by DefaultPreemption"]),
}


@pytest.mark.parametrize("case", STOPPED)
async def test_a_victim_that_is_being_bound(case: str) -> None:
    where, in_time, told = STOPPED[case]
    world, binding = World([node("n1", 1)], FULL[:1]), Binding(in_time)
    setattr(world.handle, where, {"uid-of-a": binding})
    world.post_filter(VIP)
    await world.carry_out()
    deleted = ("delete", "a") in world.calls.made
    assert (binding.told, deleted, world.activated, world.events[0][4]) == (
        told,
        not in_time,
        ["vip"] if in_time else [],
        f"{NOTE} (in kube-scheduler memory)." if in_time else NOTE,
    )


GATED = unresolvable("waiting for the preemption for this pod to be finished")


async def test_the_pod_is_gated_until_the_cache_shows_that_the_last_victim_goes() -> None:
    """The deletion that wakes it may be seen before the call of the last deletion has returned."""
    answers: list[Status | None] = []
    gone: list[PodInfo] = []

    class Slow(Calls):
        async def delete_pod(self, pod: PodInfo) -> None:
            answers.append(world.plugin.pre_enqueue(VIP))
            gone.append(pod)
            marked = [{**each.object, "metadata": {**META, "name": each.key.name}} for each in gone]
            world.handle.listers.pods = lister(*(each.object for each in FULL), *marked)
            answers.append(world.plugin.pre_enqueue(VIP))

    world = World([node("n1")], FULL, calls=Slow())
    world.handle.listers.pods = lister(*(each.object for each in FULL))
    world.post_filter(pod("vip", 100, cpu=2))
    answers.append(world.plugin.pre_enqueue(VIP))
    await world.carry_out()
    answers.append(world.plugin.pre_enqueue(VIP))
    assert answers == [GATED, GATED, GATED, GATED, None, None]


META = {"namespace": "ml", "deletionTimestamp": "2026-01-01T00:00:09Z"}


def test_the_end_of_a_pod_never_queues_its_pods() -> None:
    (registered,) = World([node("n1")]).plugin.events_to_register()
    assert registered.hint is not None
    assert (registered.event.label, registered.hint(VIP, FULL[0], None)) == ("AssignedPodDelete", QueueingHint.SKIP)
