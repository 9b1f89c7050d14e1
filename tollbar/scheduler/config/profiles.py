"""Which plugins a profile has at each extension point: the default ones, changed by what a configuration says.

Source: default_plugins.go in pkg/scheduler/apis/config/v1, and expandMultiPointPlugins in framework.go of
pkg/scheduler/framework/runtime.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.types import EnabledPlugin, PluginSet, Profile
from tollbar.scheduler.framework.interface import Plugin
from tollbar.scheduler.framework.points import INTERFACES, Plugins

MULTI_POINT: Final = "multiPoint"
POINTS: Final = {
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "reserve": "reserve",
    "preScore": "pre_score",
    "score": "score",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
    "permit": "permit",
    "preEnqueue": "pre_enqueue",
    "queueSort": "queue_sort",
}
"""Fields of the configuration, and of `Plugins`, in the order in which kube-scheduler looks at them."""
DEFAULT_PLUGINS: Final = (
    EnabledPlugin("SchedulingGates"),
    EnabledPlugin("PrioritySort"),
    EnabledPlugin("NodeName"),
    EnabledPlugin("NodeUnschedulable"),
    EnabledPlugin("TaintToleration", 3),
    EnabledPlugin("NodeAffinity", 2),
    EnabledPlugin("NodePorts"),
    EnabledPlugin("NodeResourcesFit", 1),
    EnabledPlugin("VolumeRestrictions"),
    EnabledPlugin("NodeVolumeLimits"),
    EnabledPlugin("VolumeBinding"),
    EnabledPlugin("VolumeZone"),
    EnabledPlugin("PodTopologySpread", 2),
    EnabledPlugin("InterPodAffinity", 2),
    EnabledPlugin("DynamicResources", 2),
    EnabledPlugin("DefaultPreemption"),
    EnabledPlugin("NodeResourcesBalancedAllocation", 1),
    EnabledPlugin("ImageLocality", 1),
    EnabledPlugin("DefaultBinder"),
    EnabledPlugin("NodeDeclaredFeatures"),
)
"""For all points that they implement, with the feature gates' defaults of Kubernetes 1.37."""
OTHER_PLUGINS: Final = frozenset(
    {"DeferredPodScheduling", "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}
)
"""Plugins that kube-scheduler has, and that it does not enable by default."""
IN_TREE: Final = frozenset(each.name for each in DEFAULT_PLUGINS) | OTHER_PLUGINS


def with_defaults(given: Mapping[str, PluginSet], missing: Collection[str]) -> dict[str, PluginSet]:
    """The sets of a profile, with the default plugins that are not missing."""
    present = tuple(each for each in DEFAULT_PLUGINS if each.name not in missing)
    return {
        point: _merged(present if point == MULTI_POINT else (), given.get(point, PluginSet()))
        for point in (MULTI_POINT, *POINTS)
    }


def _merged(defaults: tuple[EnabledPlugin, ...], given: PluginSet) -> PluginSet:
    """Default plugins keep their place; one that is enabled again takes over the weight that it is given."""
    again = {each.name: (index, each) for index, each in enumerate(given.enabled)}
    replaced = set()
    enabled = []
    if "*" not in given.disabled:
        for default in defaults:
            if default.name in given.disabled:
                continue
            if default.name in again:
                index, default = again[default.name]
                replaced.add(index)
            enabled.append(default)
    enabled += [each for index, each in enumerate(given.enabled) if index not in replaced]
    return PluginSet(tuple(enabled), given.disabled)


def needed(profile: Profile) -> list[str]:
    """The plugins that the profile enables anywhere, sorted."""
    return sorted({each.name for plugins in profile.plugins.values() for each in plugins.enabled})


def expand(profile: Profile, plugins: Mapping[str, Plugin]) -> Plugins:
    """The plugins of a profile at each point, made of these by name.

    Raises ConfigError for a plugin that is not there, named twice, or at a point that it does not implement.
    """
    chosen: dict[str, Any] = {field: _specific(profile, point, plugins) for point, field in POINTS.items()}
    multi_point = profile.plugins[MULTI_POINT].enabled
    if multi_point:
        for point, field in POINTS.items():
            chosen[field] = _with_multi_point(profile, point, plugins, chosen[field])
    _check(profile, chosen)
    weights: dict[str, int] = {}
    for each in (*profile.plugins["score"].enabled, *multi_point):
        if isinstance(plugins[each.name], INTERFACES["score"]):
            weights.setdefault(each.name, each.weight or 1)
    return Plugins(**chosen, weights=weights)


def _specific(profile: Profile, point: str, plugins: Mapping[str, Plugin]) -> tuple[Plugin, ...]:
    """The plugins that the set of this very point enables."""
    names: list[str] = []
    for each in profile.plugins[point].enabled:
        if each.name not in plugins:
            raise _refused(profile, f'{_interface(point)} "{each.name}" does not exist')
        if not isinstance(plugins[each.name], INTERFACES[POINTS[point]]):
            raise _refused(profile, f'plugin "{each.name}" does not extend {_interface(point)} plugin')
        if each.name in names:
            raise _refused(profile, f'plugin "{each.name}" already registered as "{_interface(point)}"')
        names.append(each.name)
    return tuple(plugins[name] for name in names)


def _with_multi_point(
    profile: Profile, point: str, plugins: Mapping[str, Plugin], specific: tuple[Plugin, ...]
) -> tuple[Plugin, ...]:
    """First those that both enable, in the order of the point; then multiPoint's own, then the rest of the point."""
    given = profile.plugins[point]
    if "*" in given.disabled:
        return specific
    own = [each.name for each in given.enabled]
    overridden, added = set(), []
    for each in profile.plugins[MULTI_POINT].enabled:
        if each.name not in plugins:
            raise _refused(profile, f'{_interface(point)} "{each.name}" does not exist')
        if not isinstance(plugins[each.name], INTERFACES[POINTS[point]]) or each.name in given.disabled:
            continue
        if each.name in own:
            overridden.add(each.name)
        elif each.name in added:
            raise _refused(profile, f'plugin "{each.name}" already registered as "{_interface(point)}"')
        else:
            added.append(each.name)
    first = [name for name in own if name in overridden]
    last = [name for name in own if name not in overridden]
    return tuple(plugins[name] for name in (*first, *added, *last))


def _check(profile: Profile, chosen: Mapping[str, Collection[Plugin]]) -> None:
    name, sorters = profile.scheduler_name, len(chosen["queue_sort"])
    if sorters != 1:
        text = f'only one queue sort plugin required for profile with scheduler name "{name}", but got {sorters}'
        raise _refused(profile, text)
    if not chosen["bind"]:
        raise _refused(profile, f'at least one bind plugin is needed for profile with scheduler name "{name}"')


def check_queue_sort(profiles: Mapping[str, Profile], plugins: Mapping[str, Plugins]) -> None:
    """There is one queue: raise ConfigError unless all profiles, by name, sort it alike."""
    first, *others = profiles
    sorter = plugins[first].queue_sort[0].name
    for name in others:
        own = plugins[name].queue_sort[0].name
        if own != sorter:
            text = f'different queue sort plugins for profile "{name}": "{own}", first: "{sorter}"'
            raise ConfigError([("", text)])
        if profiles[name].args.get(own) != profiles[first].args.get(own):
            raise ConfigError([("", f'different queue sort plugin args for profile "{name}"')])


def _interface(point: str) -> str:
    """The name of the Go interface."""
    return f"{point[0].upper()}{point[1:]}Plugin"


def _refused(profile: Profile, text: str) -> ConfigError:
    return ConfigError([("", f"creating profile for scheduler name {profile.scheduler_name}: {text}")])
