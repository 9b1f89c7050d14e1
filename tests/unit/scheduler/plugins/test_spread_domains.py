"""Counts of topology spread that are kept from Pod to Pod: what corrects them, and when all is counted anew."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plugins.topologies import WEB, counted_anew, handle, node, pod
from plugins.toys import done

from tollbar.model.objects import Object
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.domains import DomainSums
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import NodesAt, Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.plugins import spread_domains
from tollbar.scheduler.plugins.pod_topology_spread import PodTopologySpread

RACKS = {"n1": "r1", "n2": "r1", "n3": "r2"}
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def racked(name: str, rack: str, **more: Any) -> Object:
    return node(name, labels={"rack": rack}, **more)


def constraint(action: str, skew: int = 1) -> Object:
    given = {"topologyKey": "rack", "maxSkew": skew, "whenUnsatisfiable": action, "labelSelector": WEB}
    return {**given, "nodeTaintsPolicy": "Honor"}


def spreading(**more: Any) -> PodInfo:
    both = [constraint("DoNotSchedule"), constraint("ScheduleAnyway")]
    return pod(**{"topologySpreadConstraints": both, **more})


class World:
    """A plugin that has seen one Pod, in a cluster of three Nodes in two racks with two Pods."""

    def __init__(self) -> None:
        self.cache, self.snapshot = Cache(), Snapshot()
        self.plugin = PodTopologySpread({}, handle(self.snapshot))
        for name, rack in RACKS.items():
            self.cache.set_node(racked(name, rack))
        self.there = [pod(f"there-{name}", on=name) for name in ("n1", "n3")]
        for each in self.there:
            self.cache.add_pod(each)
        self.answer(self.plugin)

    def answer(self, plugin: PodTopologySpread, given: PodInfo | None = None) -> Any:
        self.snapshot.update(self.cache)
        state, one = CycleState(), given or spreading()
        places = np.arange(len(self.snapshot))
        done(plugin.pre_filter(state, one, self.snapshot))
        done(plugin.pre_score(state, one, NodesAt(self.snapshot, places)))
        fits = plugin.filter_nodes(state, one, self.snapshot)
        return fits.tolist(), plugin.score_nodes(state, one, self.snapshot, places).tolist()

    def come(self, node_name: str, number: int = 1, **more: Any) -> None:
        for each in range(number):
            self.cache.assume(pod(f"more-{node_name}-{each}", on=node_name, **more))


CORRECTED: dict[str, Callable[[World], object]] = {
    "nothing": lambda _: None,
    "a Pod comes": lambda world: world.come("n2"),
    "Pods come and go": lambda world: [world.come("n2", 3), world.cache.remove_pod(world.there[1])],
    "a Pod goes": lambda world: world.cache.remove_pod(world.there[0]),
    "a Pod is deleted": lambda world: world.cache.update_pod(pod("there-n1", on="n1", terminating=True)),
    "a Pod comes that does not count": lambda world: world.come("n2", labels={"app": "db"}),
}
ANEW: dict[str, Callable[[World], object]] = {
    "a Node gets another label": lambda world: world.cache.set_node(racked("n1", "r3")),
    "a Node gets a taint": lambda world: world.cache.set_node(racked("n3", "r2", taints=[TAINT])),
    "a Node comes": lambda world: world.cache.set_node(racked("n4", "r4")),
    "a Node goes": lambda world: world.cache.remove_node("n3"),
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[DomainSums]:
    return counted_anew(monkeypatch)


def check(world: World, counted: list[DomainSums], anew: int, given: PodInfo | None = None) -> None:
    counted.clear()
    answer, made = world.answer(world.plugin, given), len(counted)
    assert (answer, made) == (world.answer(PodTopologySpread({}, handle(world.snapshot)), given), anew)


@pytest.mark.parametrize("change", CORRECTED.values(), ids=CORRECTED)
def test_changes_that_correct_the_counts(counted: list[DomainSums], change: Callable[[World], object]) -> None:
    world = World()
    change(world)
    check(world, counted, 0)


@pytest.mark.parametrize("change", ANEW.values(), ids=ANEW)
def test_changes_after_which_all_is_counted_anew(counted: list[DomainSums], change: Callable[[World], object]) -> None:
    world = World()
    change(world)
    check(world, counted, 2)
    check(world, counted, 0)


PODS: dict[str, tuple[PodInfo, int]] = {
    "another Pod of the same spec": (spreading(labels={"app": "web", "index": "7"}), 0),
    "another spec": (spreading(nodeSelector={"rack": "r1"}), 2),
    "other constraints": (
        spreading(topologySpreadConstraints=[constraint("DoNotSchedule", 2), constraint("ScheduleAnyway", 2)]),
        2,
    ),
}


@pytest.mark.parametrize(("given", "anew"), PODS.values(), ids=PODS)
def test_whose_counts_are_kept(counted: list[DomainSums], given: PodInfo, anew: int) -> None:
    world = World()
    world.come("n1", 2)
    check(world, counted, anew, given)


def test_pods_of_one_spec_may_have_constraints_of_their_own(counted: list[DomainSums]) -> None:
    """By matchLabelKeys: each version of a workload spreads by itself."""
    world, own = World(), {**constraint("DoNotSchedule"), "matchLabelKeys": ["version"]}
    for version, on, anew in (("1", "n1", 2), ("2", "n3", 1)):
        labels = {"app": "web", "version": version}
        world.cache.assume(pod(f"version-{version}", on=on, labels=labels))
        given = spreading(topologySpreadConstraints=[own, constraint("ScheduleAnyway")], labels=labels)
        check(world, counted, anew, given)


def test_counts_are_kept_of_so_many_specs(counted: list[DomainSums], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_domains, "MAX_SPECS", 2)  # one for each action
    world = World()
    check(world, counted, 2, spreading(nodeSelector={"rack": "r1"}))
    check(world, counted, 2)


def test_a_trial_changes_nothing_of_what_is_kept() -> None:
    """Preemption tries what would be without a Pod, and pods that are nominated count as if they were there."""
    world, state = World(), CycleState()
    done(world.plugin.pre_filter(state, spreading(), world.snapshot))
    node_info = world.snapshot.get("n1")
    assert node_info is not None
    for _ in range(5):
        world.plugin.add_pod(state, spreading(), pod("nominated", nominated="n1"), node_info)

    assert world.answer(world.plugin) == world.answer(PodTopologySpread({}, handle(world.snapshot)))


def test_sums_of_a_spec_that_is_counted_anew_are_forgotten() -> None:
    world = World()
    kept = len(world.snapshot.groups._sums)
    for rack in ("r3", "r4", "r5"):
        world.cache.set_node(racked("n1", rack))
        world.answer(world.plugin)
    assert len(world.snapshot.groups._sums) == kept
