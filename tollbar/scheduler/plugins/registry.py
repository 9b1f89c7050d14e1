"""Which plugins there are: those of kube-scheduler that ship with the scheduler, and those of others by entry point.

A package adds plugins by the entry point group `tollbar.scheduler.plugins`, where a name stands for a class.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias

from tollbar.model.objects import Object
from tollbar.scheduler.config import profiles
from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.load import API_VERSION, KIND, load
from tollbar.scheduler.config.types import Profile, SchedulerConfiguration
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments, Plugin
from tollbar.scheduler.framework.points import Plugins
from tollbar.scheduler.plugins.default_binder import DefaultBinder
from tollbar.scheduler.plugins.default_preemption import DefaultPreemption
from tollbar.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from tollbar.scheduler.plugins.image_locality import ImageLocality
from tollbar.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from tollbar.scheduler.plugins.node_affinity import NodeAffinity
from tollbar.scheduler.plugins.node_name import NodeName
from tollbar.scheduler.plugins.node_ports import NodePorts
from tollbar.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tollbar.scheduler.plugins.node_resources_fit import NodeResourcesFit
from tollbar.scheduler.plugins.node_unschedulable import NodeUnschedulable
from tollbar.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from tollbar.scheduler.plugins.pod_topology_spread import PodTopologySpread
from tollbar.scheduler.plugins.priority_sort import PrioritySort
from tollbar.scheduler.plugins.scheduling_gates import SchedulingGates
from tollbar.scheduler.plugins.taint_toleration import TaintToleration
from tollbar.scheduler.plugins.volume_binding import VolumeBinding
from tollbar.scheduler.plugins.volume_restrictions import VolumeRestrictions
from tollbar.scheduler.plugins.volume_zone import VolumeZone

GROUP: Final = "tollbar.scheduler.plugins"
Factory: TypeAlias = Callable[[Arguments, Handle], Plugin]
Registry: TypeAlias = Mapping[str, Factory]

IN_TREE: Final[Registry] = {
    each.name: each
    for each in (
        DefaultBinder,
        DefaultPreemption,
        DynamicResources,
        ImageLocality,
        InterPodAffinity,
        NodeAffinity,
        NodeName,
        NodePorts,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        NodeUnschedulable,
        NodeVolumeLimits,
        PodTopologySpread,
        PrioritySort,
        SchedulingGates,
        TaintToleration,
        VolumeBinding,
        VolumeRestrictions,
        VolumeZone,
    )
}
MISSING: Final = profiles.IN_TREE - IN_TREE.keys()
"""The plugins of kube-scheduler that this one does not have."""
ONLY_SCHEDULER: Final[Object] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": DynamicResources.name, "args": {"exclusive": "all"}}],
        }
    ],
}
"""The configuration of a cluster's only scheduler: kube-scheduler's defaults, and all devices are its own."""


def available() -> Registry:
    """The plugins that ship with the scheduler, and those of other packages.

    Raises ConfigError for an entry point that cannot be loaded, or whose name is taken.
    """
    found: dict[str, Factory] = dict(IN_TREE)
    for each in entry_points(group=GROUP):
        if each.name in found:
            raise ConfigError([("", f"entry point {GROUP}: a plugin named {each.name} already exists")])
        found[each.name] = _loaded(each)
    return found


def configuration(given: str | Object) -> SchedulerConfiguration:
    """A KubeSchedulerConfiguration in the text of a file, or decoded, with its defaults filled in.

    Default plugins of kube-scheduler that this scheduler does not have (`MISSING`) are left out.  Raises ConfigError.
    """
    return load(given, MISSING)


def plugins(profile: Profile, known: Registry, handle: Handle) -> Plugins:
    """Make the plugins of a profile, and put them at their extension points.  Raises ConfigError."""
    return profiles.expand(
        profile,
        {name: _made(profile, name, known[name], handle) for name in profiles.needed(profile) if name in known},
    )


def _loaded(entry: EntryPoint) -> Factory:
    try:
        factory: Factory = entry.load()
    except Exception as error:
        raise ConfigError([("", f"entry point {GROUP}: cannot load plugin {entry.name}: {error}")]) from error
    return factory


def _made(profile: Profile, name: str, factory: Factory, handle: Handle) -> Plugin:
    try:
        plugin = factory(profile.args.get(name, {}), handle)
    except Exception as error:
        text = f'creating profile for scheduler name {profile.scheduler_name}: initializing plugin "{name}": {error}'
        raise ConfigError([("", text)]) from error
    if plugin.name != name:
        raise ConfigError([("", f"entry point {GROUP}: plugin {name} calls itself {plugin.name}")])
    return plugin
