"""Plugins that have nothing to do for Pods with a certain spec: they say so once."""

from typing import Any, Final

import pytest
from plugins.toys import Named, done, framework, handle, snapshot

from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import NOT_CONCERNED, SKIP
from tollbar.scheduler.plugins import registry

SHAPES = Shapes()
NODES = snapshot("a", "b")
PLUGIN: Final = "toy"
DEFAULTS: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Toy(Named):
    """Counts how often it is called."""

    def __init__(self, given: Any) -> None:
        super().__init__(PLUGIN)
        self.given = given
        self.calls = 0

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        self.calls += 1
        return self.given

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        raise AssertionError

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Any:
        return self.pre_filter(state, pod, nodes)

    def score(self, state: Any, pod: Any, node: Any) -> Any:
        raise AssertionError


def pod(name: str = "web", labels: dict[str, str] | None = None, **spec: Any) -> PodInfo:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}}
    return SHAPES.pod_info({"metadata": meta, "spec": {"containers": [{"name": "main"}], **spec}})


def skipped(own: Framework, given: PodInfo, *, every_plugin: bool = False) -> tuple[frozenset[str], frozenset[str]]:
    """Whose Filter and whose Score is not called in a cycle for this Pod."""
    state = CycleState()
    state.record_metrics = every_plugin
    done(own.pre_filter(state, given, NODES))
    done(own.pre_score(state, given, NODES.nodes))
    return state.skip_filter, state.skip_score


CALLS: dict[str, tuple[Any, PodInfo, bool, int]] = {
    "another Pod with this spec": (NOT_CONCERNED, pod("other"), False, 2),
    "one with other labels": (NOT_CONCERNED, pod("other", {"pod-index": "1"}), False, 2),
    "one with volumes": (
        NOT_CONCERNED,
        pod("other", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
        False,
        4,
    ),
    "one with another spec": (NOT_CONCERNED, pod("other", tolerations=[{"operator": "Exists"}]), False, 4),
    "a cycle that records what each plugin takes": (NOT_CONCERNED, pod("other"), True, 4),
    "Skip alone says nothing about other Pods": (SKIP, pod("other"), False, 4),
}


@pytest.mark.parametrize("name", CALLS)
def test_who_is_called_again(name: str) -> None:
    given, other, every_plugin, calls = CALLS[name]
    toy = Toy(given)
    own, first = framework(toy), pod()

    found = [skipped(own, first), skipped(own, other, every_plugin=every_plugin)]

    assert (found, toy.calls) == ([(frozenset({PLUGIN}),) * 2] * 2, calls)


def test_a_cycle_that_records_finds_out_that_a_plugin_is_concerned_after_all() -> None:
    """It has looked at what is no part of `pod.spec`: the two Pods are alike in that."""
    toy, first, other = Toy(NOT_CONCERNED), pod(), pod("other", runtimeClassName="kata")
    assert first.shape.unlabelled is other.shape.unlabelled
    own = framework(toy)
    assert skipped(own, first) == (frozenset({PLUGIN}),) * 2
    toy.given = None
    assert skipped(own, other, every_plugin=True) == (frozenset(),) * 2
    assert skipped(own, other) == (frozenset(),) * 2


def test_each_profile_has_plugins_of_its_own() -> None:
    toys = [Toy(NOT_CONCERNED), Toy(NOT_CONCERNED)]
    given = pod()
    for toy in toys:
        skipped(framework(toy), given)
    assert [toy.calls for toy in toys] == [2, 2]


BY_VOLUMES: Final = {"NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"}
SCORES: Final = {"NodeAffinity", "VolumeBinding"}
CONCERNED: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    "a plain one": ({}, {"NodeAffinity", "NodePorts", *BY_VOLUMES}, SCORES),
    "a nodeSelector": ({"nodeSelector": {"a": "b"}}, {"NodePorts", *BY_VOLUMES}, SCORES),
    "a host port": (
        {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]},
        {"NodeAffinity", *BY_VOLUMES},
        SCORES,
    ),
    "a disk": (
        {"volumes": [{"name": "data", "gcePersistentDisk": {"pdName": "data"}}]},
        {"NodeAffinity", "NodePorts", *BY_VOLUMES} - {"VolumeRestrictions"},
        SCORES,
    ),
    "a claim": (
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"NodeAffinity", "NodePorts"},
        SCORES,
    ),
    "a constraint that filters": (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
            ]
        },
        {"NodeAffinity", "NodePorts", *BY_VOLUMES},
        {"PodTopologySpread", *SCORES},
    ),
    "a constraint that scores": (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
            ]
        },
        {"NodeAffinity", "NodePorts", "PodTopologySpread", *BY_VOLUMES},
        SCORES,
    ),
}


@pytest.mark.parametrize("name", CONCERNED)
def test_which_plugins_of_the_default_profile_a_spec_does_not_concern(name: str) -> None:
    spec, in_filter, in_score = CONCERNED[name]
    (profile,) = registry.configuration(DEFAULTS).profiles
    own = handle()
    own.snapshot = NODES
    plugins = registry.plugins(profile, registry.available(), own)
    state, given = CycleState(), pod(name, **spec)

    assert (
        {each.name for each in plugins.pre_filter if done(each.pre_filter(state, given, NODES)) is NOT_CONCERNED},
        {each.name for each in plugins.pre_score if done(each.pre_score(state, given, NODES.nodes)) is NOT_CONCERNED},
    ) == (in_filter, in_score)
