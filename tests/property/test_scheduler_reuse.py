"""All Nodes at once or one by one, with what is kept from Pod to Pod or without: the same decision.

Random clusters change between the attempts, so that some of what is kept still holds and some does not.
"""

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugins.toys import done
from scheduler.clusters import cluster
from scheduler.comparing import Simulation

from tollbar.model.objects import Object, metadata, spec
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import NodesAt, Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.interface import DependsOn, Mask
from tollbar.scheduler.framework.points import INTERFACES, Plugins
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import Code, Status, unschedulable
from tollbar.scheduler.plugins import inter_pod_affinity
from tollbar.scheduler.plugins.default_preemption import _DryRun
from tollbar.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from tollbar.scheduler.plugins.pod_topology_spread import PodTopologySpread

ABOUT = ("mixture", "nodes_apart", "nodes_apart", "resources", "ports", "spread", "pod_affinity", "nominated", "cards")
"""Families of clusters."""
STEPS = 4
AT_ONCE = {"filter_nodes", "filter_reasons", "score_nodes"}


class Spare:
    """A plugin that has nothing but `filter`."""

    name = "Spare"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("crowded") if len(node.pods) > 4 else None


class Nowhere:
    """Lets no Pod go anywhere, so that each Node is explained."""

    name = "Nowhere"

    def __init__(self, on: DependsOn | None) -> None:
        self._on = on

    def depends_on(self, pod: PodInfo) -> DependsOn | None:
        return self._on

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable(f"{len(node.pods)} Pods are there" if self._on is DependsOn.NODE_AND_PODS else "nowhere")

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        return np.zeros(len(nodes), np.bool_)


CLOSED = [[], *([Nowhere(on)] for on in (*DependsOn, None))]


def one_by_one(plugins: Plugins) -> Plugins:
    """The same plugins without the methods that answer for several Nodes at once."""
    points = {name: tuple(map(_bare, getattr(plugins, name))) for name in INTERFACES}
    return Plugins(**points, weights=plugins.weights)


def _bare(plugin: Any) -> Any:
    kept = {name for name in dir(plugin) if not name.startswith("_")} - AT_ONCE
    return SimpleNamespace(**{name: getattr(plugin, name) for name in kept})


def changed(simulation: Simulation, family: str, rng: Random) -> None:
    """Something happens to some Nodes: they come, go, change, or Pods come to them or leave them."""
    cache, other = simulation.cache, cluster(family, rng.randrange(10**6))
    for _ in range(rng.randrange(5)):
        names = cache.node_names()
        name = rng.choice(names) if names else "node-0"
        on_node = list(node.pods.values()) if (node := cache.node(name)) is not None else []
        match rng.randrange(9):
            case 0 if names:
                cache.remove_node(name)
            case 1 | 2 | 3 | 4 if other.nodes:
                as_other = rng.choice(other.nodes)
                cache.set_node({**as_other, "metadata": {**metadata(as_other), "name": name}})
            case 5 | 6 if on_node:
                cache.remove_pod(rng.choice(on_node))
            case _ if other.pods:
                pod, uid = simulation.shapes.pod_info(rng.choice(other.pods)), f"uid-{rng.random()}"
                cache.assume(replace(pod, uid=uid, node_name=name))


def renominated(simulation: Simulation, waiting: list[Object], rng: Random) -> None:
    """Half of the time, Pods that wait are nominated to other Nodes, some of them with another priority."""
    names = simulation.cache.node_names()
    if not names or rng.random() < 0.5:
        return
    nominated = simulation.nominations.by_node
    nominated.clear()
    for obj in waiting:
        if rng.random() < 0.5:
            pod = simulation.shapes.pod_info({**obj, "spec": {**spec(obj), "priority": rng.choice((0, 1, 5, 50))}})
            nominated.setdefault(rng.choice(names), []).append(pod)


def attempt(simulation: Simulation, plugins: Framework, pod: PodInfo, start: int) -> Any:
    found = done(schedule_pod(plugins, CycleState(), pod, simulation.snapshot, start))
    match found.result:
        case FitError(diagnosis=diagnosis) as error:
            why = dict(diagnosis.statuses.by_node), diagnosis.statuses.absent, diagnosis.unschedulable_plugins
            return found.next_start, str(error), why
        case Scheduled(name, feasible, scores):
            totals = None if scores is None else scores.totals.tolist()
            return found.next_start, name, feasible, totals
        case status:
            return found.next_start, status.code, status.reasons


@settings(max_examples=settings.default.max_examples * 2 // 5)
@given(st.sampled_from(ABOUT), st.integers(0, 10**6), st.sampled_from(CLOSED))
def test_the_same_decision_however_it_is_worked_out(family: str, seed: int, nowhere: list[Nowhere]) -> None:
    rng, generated = Random(seed), cluster(family, seed)
    simulation = Simulation(generated)
    plugins, handle = simulation.framework.plugins, simulation.framework.handle
    filters = [*plugins.filter, Spare()]
    place = rng.randrange(len(filters) + 1)
    plugins = replace(plugins, filter=(*filters[:place], *nowhere, *filters[place:]))
    lasting = Framework("lasting", plugins, handle)
    plain = Framework("plain", one_by_one(plugins), handle)
    for _ in range(STEPS):
        for obj in generated.waiting:
            pod, start = simulation.shapes.pod_info(obj), rng.randrange(10)
            found = attempt(simulation, lasting, pod, start)
            assert found == attempt(simulation, Framework("fresh", plugins, handle), pod, start)
            # While some Nodes fit, an Error goes unnoticed on a Node that a mask leaves out.
            alone = attempt(simulation, plain, pod, start)
            assert found == alone or Code.ERROR in alone
        changed(simulation, family, rng)
        simulation.snapshot.update(simulation.cache)
        renominated(simulation, generated.waiting, rng)


def victims(simulation: Simulation, plugins: Framework, pod: PodInfo) -> Any:
    """What a dry run of preemption says of each Node, unless PreFilter lets the Pod go nowhere."""
    state, handle = CycleState(), simulation.framework.handle
    if done(plugins.pre_filter(state, pod, simulation.snapshot)).status is not None:
        return None
    plugins.filter_nodes(state, pod, simulation.snapshot)
    handle.runner = plugins
    dry_run = _DryRun(handle, state, pod)
    done(dry_run.run(list(simulation.snapshot), len(simulation.snapshot)))
    return dict(dry_run.statuses.by_node), dry_run.candidates


class Alone:
    """Lets Pods go to Nodes without other Pods alone."""

    name = "Alone"

    def depends_on(self, pod: PodInfo) -> DependsOn:
        return DependsOn.NODE_AND_PODS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable(f"{len(node.pods)} Pods are there") if node.pods else None


@settings(max_examples=settings.default.max_examples * 3 // 5)
@given(st.sampled_from(["preemption", "nominated", "spread", "pod_affinity", "mixture"]), st.integers(0, 10**6))
def test_the_same_victims_with_what_is_kept_or_without(family: str, seed: int) -> None:
    rng, generated = Random(seed), cluster(family, seed)
    simulation = Simulation(generated)
    plugins, handle = simulation.framework.plugins, simulation.framework.handle
    place = rng.randrange(2 * len(plugins.filter))
    if place <= len(plugins.filter):
        plugins = replace(plugins, filter=(*plugins.filter[:place], Alone(), *plugins.filter[place:]))
    lasting = Framework("lasting", plugins, handle)
    for _ in range(STEPS):
        for number, obj in enumerate(3 * generated.waiting):
            priority = (1, 5, 50)[number % len(generated.waiting) % 3]
            pod = simulation.shapes.pod_info({**obj, "spec": {**spec(obj), "priority": priority}})
            assert victims(simulation, lasting, pod) == victims(simulation, Framework("fresh", plugins, handle), pod)
        changed(simulation, family, rng)
        simulation.snapshot.update(simulation.cache)
        renominated(simulation, generated.waiting, rng)


def answers(plugin: PodTopologySpread | InterPodAffinity, pod: PodInfo, snapshot: Snapshot) -> Any:
    """Where the plugin lets the Pod go, and how it ranks the Nodes."""
    state, places = CycleState(), np.arange(len(snapshot))
    status = done(plugin.pre_filter(state, pod, snapshot))
    fits = None if status is not None else plugin.filter_nodes(state, pod, snapshot).tolist()
    status = done(plugin.pre_score(state, pod, NodesAt(snapshot, places)))
    return fits, None if status is not None else plugin.score_nodes(state, pod, snapshot, places).tolist()


@pytest.mark.parametrize(
    ("make", "family", "few"),
    [(PodTopologySpread, "spread", 0), (InterPodAffinity, "pod_affinity", 0), (InterPodAffinity, "pod_affinity", 32)],
)
@settings(
    max_examples=settings.default.max_examples * 2 // 5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6))
def test_counts_that_are_kept_are_those_that_would_be_made_anew(
    monkeypatch: pytest.MonkeyPatch,
    make: type[PodTopologySpread | InterPodAffinity],
    family: str,
    few: int,
    seed: int,
) -> None:
    monkeypatch.setattr(inter_pod_affinity, "MAX_ONE_BY_ONE", few)
    rng, generated = Random(seed), cluster(family, seed)
    simulation = Simulation(generated)
    handle = simulation.framework.handle
    lasting = make({}, handle)
    for _ in range(3 * STEPS):
        anew = Snapshot()
        anew.update(simulation.cache)
        for obj in generated.waiting:
            pod = simulation.shapes.pod_info(obj)
            found = answers(lasting, pod, simulation.snapshot)
            assert found == answers(make({}, replace(handle, snapshot=anew)), pod, anew)
        changed(simulation, family, rng)
        simulation.snapshot.update(simulation.cache)
