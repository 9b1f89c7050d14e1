"""Which plugins a profile has at each extension point, in which order and with which weights."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from tollbar.scheduler.config import load, profiles
from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.types import Profile
from tollbar.scheduler.framework.interface import Plugin
from tollbar.scheduler.framework.points import Plugins

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def plugin(name: str, *methods: str) -> Plugin:
    """One that implements these points, and does nothing."""
    found: Plugin = type(name, (), {"name": name} | dict.fromkeys(methods, print))()
    return found


PLUGINS = {
    each.name: each
    for each in (
        plugin("PrioritySort", "less"),
        plugin("NodeName", "filter"),
        plugin("TaintToleration", "filter", "score"),
        plugin("NodeAffinity", "pre_filter", "filter", "score"),
        plugin("ImageLocality", "score"),
        plugin("DefaultBinder", "bind"),
        plugin("Mine", "filter", "score"),
        plugin("Other", "filter", "score"),
        plugin("OtherSort", "less"),
    )
}
MISSING = profiles.IN_TREE - PLUGINS.keys()


def profile(text: str = "") -> Profile:
    (found,) = load.load(f"{HEAD}profiles:\n- plugins: {{{text}}}\n", MISSING).profiles
    return found


def names(found: Plugins) -> dict[str, list[str]]:
    at = {each.name: getattr(found, each.name) for each in fields(Plugins) if each.name != "weights"}
    return {point: [each.name for each in plugins] for point, plugins in at.items() if plugins}


DEFAULT: Mapping[str, list[str]] = {
    "queue_sort": ["PrioritySort"],
    "pre_filter": ["NodeAffinity"],
    "filter": ["NodeName", "TaintToleration", "NodeAffinity"],
    "score": ["TaintToleration", "NodeAffinity", "ImageLocality"],
    "bind": ["DefaultBinder"],
}
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "ImageLocality": 1}

EXPANSIONS: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    "the default": ("", {}, WEIGHTS),
    "a plugin for all its points comes last": (
        "multiPoint: {enabled: [{name: Mine, weight: 7}]}",
        {"filter": [*DEFAULT["filter"], "Mine"], "score": [*DEFAULT["score"], "Mine"]},
        WEIGHTS | {"Mine": 7},
    ),
    "a plugin for one point comes last": (
        "score: {enabled: [{name: Mine}]}",
        {"score": [*DEFAULT["score"], "Mine"]},
        WEIGHTS | {"Mine": 1},
    ),
    "a default plugin that is enabled again keeps its place": (
        "multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}",
        {},
        WEIGHTS | {"NodeAffinity": 9},
    ),
    "a default plugin that is disabled and enabled again comes last": (
        "multiPoint: {disabled: [{name: TaintToleration}], enabled: [{name: Mine}, {name: TaintToleration}]}",
        {
            "filter": ["NodeName", "NodeAffinity", "Mine", "TaintToleration"],
            "score": ["NodeAffinity", "ImageLocality", "Mine", "TaintToleration"],
        },
        WEIGHTS | {"TaintToleration": 1, "Mine": 1},
    ),
    "what a point enables again comes first there, with its own weight": (
        (
            "multiPoint: {enabled: [{name: Mine}, {name: Other}]},"
            " score: {enabled: [{name: ImageLocality, weight: 3}, {name: Other, weight: 8}, {name: NodeAffinity}]}"
        ),
        {
            "filter": [*DEFAULT["filter"], "Mine", "Other"],
            "score": ["ImageLocality", "Other", "NodeAffinity", "TaintToleration", "Mine"],
        },
        {"ImageLocality": 3, "Other": 8, "NodeAffinity": 1, "TaintToleration": 3, "Mine": 1},
    ),
    "overrides, then multiPoint, then the others of the point": (
        (
            "multiPoint: {enabled: [{name: Other}]},"
            " filter: {enabled: [{name: NodeAffinity}, {name: Mine}, {name: NodeName}]}"
        ),
        {
            "filter": ["NodeAffinity", "NodeName", "TaintToleration", "Other", "Mine"],
            "score": [*DEFAULT["score"], "Other"],
        },
        WEIGHTS | {"Other": 1},
    ),
    "a point can leave plugins out": (
        "filter: {disabled: [{name: NodeName}]}, score: {disabled: [{name: ImageLocality}]}",
        {"filter": ["TaintToleration", "NodeAffinity"], "score": ["TaintToleration", "NodeAffinity"]},
        WEIGHTS,
    ),
    "a point can leave all plugins out but its own": (
        "score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity}]}",
        {"score": ["NodeAffinity"]},
        WEIGHTS | {"NodeAffinity": 1},
    ),
    "no default plugin at all": (
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: OtherSort}, {name: DefaultBinder}]}",
        {"queue_sort": ["OtherSort"], "pre_filter": None, "filter": None, "score": None},
        {},
    ),
    "a plugin that nobody knows can be disabled": ("multiPoint: {disabled: [{name: Nobody}]}", {}, WEIGHTS),
}


@pytest.mark.behaviour(18)
@pytest.mark.parametrize(("text", "changed", "weights"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_expand(text: str, changed: dict[str, Any], weights: dict[str, int]) -> None:
    found = profiles.expand(profile(text), PLUGINS)

    expected = {point: plugins for point, plugins in {**DEFAULT, **changed}.items() if plugins is not None}
    assert (names(found), found.weights) == (expected, weights)


REFUSALS: dict[str, tuple[str, str]] = {
    "a plugin that nobody knows": ("score: {enabled: [{name: Nobody}]}", 'ScorePlugin "Nobody" does not exist'),
    "a plugin that nobody knows, for all points": (
        "multiPoint: {enabled: [{name: Nobody}]}",
        'PreFilterPlugin "Nobody" does not exist',
    ),
    "a plugin without a name": ("filter: {enabled: [{weight: 3}]}", 'FilterPlugin "" does not exist'),
    "a plugin at a point that it does not implement": (
        "bind: {enabled: [{name: Mine}]}",
        'plugin "Mine" does not extend BindPlugin plugin',
    ),
    "a plugin twice at a point": (
        "score: {enabled: [{name: Mine}, {name: Mine}]}",
        'plugin "Mine" already registered as "ScorePlugin"',
    ),
    "a plugin twice for all points": (
        "multiPoint: {enabled: [{name: Mine}, {name: Mine}]}",
        'plugin "Mine" already registered as "FilterPlugin"',
    ),
    "nobody sorts the queue": (
        "multiPoint: {disabled: [{name: PrioritySort}]}",
        'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0',
    ),
    "two sort the queue": (
        "multiPoint: {enabled: [{name: OtherSort}]}",
        'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 2',
    ),
    "nobody binds": (
        "multiPoint: {disabled: [{name: DefaultBinder}]}",
        'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
    ),
}


@pytest.mark.parametrize(("text", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_expanded(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        profiles.expand(profile(text), PLUGINS)

    assert str(caught.value) == f"creating profile for scheduler name default-scheduler: {expected}"


OTHER_SORT = "multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: OtherSort}]}"
SORTS: dict[str, tuple[str, str]] = {
    "another plugin": (
        f"plugins: {{{OTHER_SORT}}}",
        'different queue sort plugins for profile "b": "OtherSort", first: "PrioritySort"',
    ),
    "other arguments": (
        "pluginConfig: [{name: PrioritySort, args: {a: 2}}]",
        'different queue sort plugin args for profile "b"',
    ),
}


@pytest.mark.parametrize(("text", "expected"), SORTS.values(), ids=SORTS)
def test_all_profiles_sort_the_queue_alike(text: str, expected: str) -> None:
    found = load.load(f"{HEAD}profiles:\n- schedulerName: a\n- schedulerName: b\n  {text}\n", MISSING)
    by_name = {each.scheduler_name: each for each in found.profiles}

    with pytest.raises(ConfigError) as caught:
        profiles.check_queue_sort(by_name, {name: profiles.expand(each, PLUGINS) for name, each in by_name.items()})

    assert str(caught.value) == expected


def test_missing_plugins_are_not_among_the_default_ones() -> None:
    found = load.default(missing={"NodeDeclaredFeatures", "VolumeZone"}).profiles[0]

    assert [each.name for each in found.plugins["multiPoint"].enabled] == [
        "SchedulingGates",
        "PrioritySort",
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "DefaultPreemption",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "DefaultBinder",
    ]
