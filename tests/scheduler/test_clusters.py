"""The generator of random clusters is repeatable, and Pods that fit and Pods that do not are common."""

from collections import Counter

import pytest
from scheduler.clusters import FAMILIES, cluster, clusters
from scheduler.comparing import theirs
from scheduler.world import DEFAULT_PROFILE

from tollbar.devplane.real.oracle import Oracle

ALWAYS_FIT = {"images", "default_spread"}
"""Families that are about the choice among Nodes, all of which are good enough for most Pods."""


def test_a_seed_gives_the_same_clusters_whatever_is_asked_for() -> None:
    assert list(clusters(5, 60)) == [*clusters(5, 20), *clusters(5, 40, 20)]


def test_another_seed_gives_others() -> None:
    assert list(clusters(5, 60)) != list(clusters(6, 60))


def test_all_families_take_turns() -> None:
    assert {each.family for each in clusters(1, len(FAMILIES))} == set(FAMILIES)


def test_families_about_plugins_that_are_not_asked_for_are_left_out() -> None:
    found = {each.family for each in clusters(1, 40, plugins={"ImageLocality", "DefaultBinder"})}
    assert found == {"mixture", "nominated", "images", "empty"}


@pytest.mark.parametrize("family", FAMILIES)
def test_kube_scheduler_schedules_some_pods_of_a_family_and_not_others(oracle: Oracle, family: str) -> None:
    answers = theirs(oracle, [cluster(family, seed) for seed in range(100)])
    found = Counter(pod["outcome"] for pods in answers for pod in pods)
    missing = {"scheduled", "unschedulable"} - {outcome for outcome, count in found.items() if count >= 20}
    assert missing <= ({"unschedulable"} if family in ALWAYS_FIT else set()), found


def test_every_plugin_of_the_default_profile_decides_about_something(oracle: Oracle) -> None:
    rejected, scored = Counter[str](), Counter[str]()
    for pods in theirs(oracle, list(clusters(0, 300))):
        for pod in pods:
            rejected.update(each["plugin"] for each in [pod["preFilter"], *pod["nodes"].values()])
            scored.update({name for each in pod["scores"].values() for name in each["raw"]})
    weighted = {name for name, weight in DEFAULT_PROFILE.items() if weight}
    filtering = {name for name in DEFAULT_PROFILE if name not in ONLY_ELSEWHERE}
    assert (weighted - scored.keys(), filtering - rejected.keys()) == (set(), set())


ONLY_ELSEWHERE = {
    "SchedulingGates", "PrioritySort", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality",
    "DefaultBinder", "NodeName", "NodeVolumeLimits",
}  # fmt: skip
"""Plugins that have no Filter, and those whose Filter lets every Pod pass that has neither a Node nor a limit."""
