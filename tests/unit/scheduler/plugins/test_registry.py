"""The plugins that there are, and the ones of the default profile in their order."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from plugins.toys import FilterToy, handle

from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments
from tollbar.scheduler.framework.points import Plugins
from tollbar.scheduler.plugins import registry

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Mine(FilterToy):
    """A plugin of somebody else: it keeps its arguments."""

    def __init__(self, args: Arguments, handle: Handle) -> None:
        if "wrong" in args:
            raise ValueError("wrong must not be set")
        super().__init__(str(args.get("name", "Mine")))
        self.args = args


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make these entry points known, by name."""

    def install(**given: str) -> None:
        found = EntryPoints(EntryPoint(name, value, registry.GROUP) for name, value in given.items())
        monkeypatch.setattr(registry, "entry_points", lambda group: found.select(group=group))

    monkeypatch.setitem(sys.modules, "somebody", sys.modules[__name__])
    return install


def made(text: str) -> Plugins:
    (profile,) = registry.configuration(HEAD + text).profiles
    return registry.plugins(profile, registry.available(), handle())


def test_every_plugin_has_the_name_under_which_it_is_known() -> None:
    assert {name: each.name for name, each in made("").all().items()} == {name: name for name in registry.IN_TREE}


def test_the_default_profile() -> None:
    found = made("")

    assert [each.name for each in found.filter] == [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    ]
    assert {each.name: found.weights[each.name] for each in found.score} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert [each.name for each in found.post_filter] == ["DynamicResources", "DefaultPreemption"]
    assert [each.name for each in found.bind] == ["DefaultBinder"]


def test_the_plugins_of_kube_scheduler_that_are_missing() -> None:
    assert set(registry.MISSING) == {
        "DeferredPodScheduling",
        "GangScheduling",
        "NodeDeclaredFeatures",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
    }


def enabling(name: str, args: str = "{}") -> str:
    return (
        f"profiles:\n- plugins: {{filter: {{enabled: [{{name: {name}}}]}}}}\n"
        f"  pluginConfig: [{{name: {name}, args: {args}}}]\n"
    )


def test_a_plugin_by_entry_point(installed: Any) -> None:
    installed(Mine="somebody:Mine")

    last = made(enabling("Mine", "{a: [1]}")).filter[-1]

    assert isinstance(last, Mine)
    assert last.args == {"a": [1]}


FAILURES: dict[str, tuple[dict[str, str], str, str]] = {
    "a name that is taken": (
        {"NodeName": "somebody:Mine"},
        "",
        "entry point tollbar.scheduler.plugins: a plugin named NodeName already exists",
    ),
    "a module that is not there": (
        {"Mine": "nobody:Mine"},
        "",
        "entry point tollbar.scheduler.plugins: cannot load plugin Mine: No module named 'nobody'",
    ),
    "another name": (
        {"Mine": "somebody:Mine"},
        enabling("Mine", "{name: Yours}"),
        "entry point tollbar.scheduler.plugins: plugin Mine calls itself Yours",
    ),
    "arguments that the plugin refuses": (
        {"Mine": "somebody:Mine"},
        enabling("Mine", "{wrong: 1}"),
        'creating profile for scheduler name default-scheduler: initializing plugin "Mine": wrong must not be set',
    ),
    "arguments that our own refuses": (
        {},
        enabling("DynamicResources", "{exclusive: some}"),
        (
            'creating profile for scheduler name default-scheduler: initializing plugin "DynamicResources": exclusive:'
            " must be all, {drivers: [...]} or {nodeSelector: {...}}"
        ),
    ),
    "a plugin that is missing here": (
        {},
        "profiles:\n- plugins: {filter: {enabled: [{name: GangScheduling}]}}\n",
        (
            'line 4: profiles[0].plugins.filter.enabled[0]: Invalid value: "GangScheduling": this plugin of'
            " kube-scheduler is not supported"
        ),
    ),
}


@pytest.mark.parametrize(("entries", "text", "expected"), FAILURES.values(), ids=FAILURES)
def test_what_ends_the_start(entries: dict[str, str], text: str, expected: str, installed: Any) -> None:
    installed(**entries)

    with pytest.raises(ConfigError) as caught:
        made(text)

    assert str(caught.value) == expected
