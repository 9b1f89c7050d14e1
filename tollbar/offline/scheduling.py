"""The scheduler core on the stores of a copy: one attempt at a time, which changes nothing.

Cache, snapshot and the state of devices follow the stores event by event, as those of `controllers.scheduler` do; there
is no queue, and no API to call.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, NoReturn

from tollbar.dra.allocator import Allocator
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.steps import result_of
from tollbar.runtime.caches import Cached
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.nodeinfo import name_of
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes, projected
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.config.types import Profile, SchedulerConfiguration
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import PreEnqueue
from tollbar.scheduler.framework.metrics import NO_METRICS, Metrics, NoMetrics
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import Status, unresolvable
from tollbar.scheduler.plugins import registry
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import NAME as DYNAMIC_RESOURCES
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import PodClaims
from tollbar.scheduler.plugins.registry import IN_TREE
from tollbar.scheduler.queue import NominatedPods
from tollbar.views import scheduling
from tollbar.views.devices import dra_manager

DEFAULT_PROFILE: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Preemption:
    """What PostFilter came to: its message, the Node on which it makes room, and how many Pods have to go for that."""

    message: str = ""
    node_name: str = ""
    victims: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to schedule a Pod.

    `held` is the rejection of PreEnqueue, for which the scheduler does not try the Pod at all: a scheduling gate, a
    claim that is missing.  `result` is what comes of it when it is tried all the same: a Node, a FitError with the
    Diagnosis (per Node the first plugin that rejects it, and its texts), or a Status: no Nodes at all, or an error.
    `allocations` has, by claim, what the Pod's claims without allocation get on that Node (`status.allocation`); the
    claim for extended resources is `<extended-resources>`.
    """

    pod: PodInfo
    profile: str
    held: Status | None
    result: Scheduled | FitError | Status
    allocations: Mapping[Key, Object] = field(default_factory=dict)
    preemption: Preemption | None = None

    @property
    def node_name(self) -> str:
        """The Node, empty if none fits."""
        return self.result.node_name if isinstance(self.result, Scheduled) else ""

    @property
    def message(self) -> str:
        """What the condition PodScheduled would say; empty for a Node."""
        if isinstance(self.result, Scheduled):
            return ""
        if isinstance(self.result, Status):
            return self.result.message
        if self.preemption is not None:
            self.result.diagnosis.post_filter_message = self.preemption.message
        return str(self.result)


class OfflineScheduler:
    """Declares the stores that it needs with `store`, which have to be filled afterwards.

    Raises ConfigError for a configuration that plugins refuse.
    """

    def __init__(
        self,
        store: Callable[[Cached], Store],
        now: Callable[[], float],
        configuration: SchedulerConfiguration | None = None,
    ) -> None:
        given = configuration or registry.configuration(registry.ONLY_SCHEDULER)
        self.dra = dra_manager(store)
        self.snapshot = Snapshot()
        self._listers = scheduling.listers(store)
        self._now = now
        self._cache, self._shapes = Cache(), Shapes()
        self._pods: dict[Key, PodInfo] = {}
        self._nominator = NominatedPods(self._pods.get)
        self._percentage = given.percentage_of_nodes_to_score
        self._plugins = IN_TREE if configuration is None else registry.available()
        self._profiles = {each.scheduler_name: each for each in given.profiles}
        self._frameworks = {name: self._framework(each, self._handle()) for name, each in self._profiles.items()}
        store(scheduling.NODES).subscribe(self._on_node)
        store(scheduling.SCHEDULABLE_PODS).subscribe(self._on_pod)

    def profile_of(self, pod: Object) -> str:
        """The profile that the Pod asks for; the first one if there is none of that name."""
        wanted = (pod.get("spec") or {}).get("schedulerName") or DEFAULT_PROFILE
        return wanted if wanted in self._profiles else next(iter(self._profiles))

    def attempt(self, pod: Object, *, preempt: bool = False) -> Attempt:
        """Try to find a Node for this Pod, which need not be in the copy; with `preempt` also by making room for it.

        Of several best Nodes the first is taken.  KeyError, TypeError or ValueError for a Pod that the API server would
        refuse.
        """
        info, name = self.info(pod), self.profile_of(pod)
        framework = self._frameworks[name]
        held = next(filter(None, (_asked(each, info) for each in framework.plugins.pre_enqueue)), None)
        self.snapshot.update(self._cache)
        state = CycleState()
        result = result_of(schedule_pod(framework, state, info, self.snapshot, 0)).result
        preemption = None
        if preempt and isinstance(result, FitError):
            preemption = self._preempt(name, info)
        return Attempt(info, name, held, result, self._allocations(state, result), preemption)

    def allocator(self) -> Allocator:
        """For the devices and claims as they are at this moment."""
        return Allocator(self.dra.inventory, self.dra.claims.state, self.dra.classes)

    def survey(self, pod: Object, names: Collection[str] | None = None) -> dict[str, Status | None]:
        """What Filter says of these Nodes, by default of all, also where others fit.

        None for one that fits, else the first rejection.
        """
        info, framework = self.info(pod), self._frameworks[self.profile_of(pod)]
        self.snapshot.update(self._cache)
        state = CycleState()
        before = result_of(framework.pre_filter(state, info, self.snapshot))
        nodes = [node for node in self.snapshot if names is None or node.name in names]
        if before.status is not None:
            return {node.name: before.status for node in nodes}
        found: dict[str, Status | None] = {}
        for node in nodes:
            if before.node_names is not None and node.name not in before.node_names:
                plugins = " ".join(sorted(before.plugins))
                found[node.name] = unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]").with_plugin(plugins)
            else:
                found[node.name] = result_of(framework.filter_with_nominated_pods(state, info, node))
        return found

    def _preempt(self, name: str, pod: PodInfo) -> Preemption:
        """With plugins of its own: they remember what they have begun."""
        counted = _Victims()
        framework = self._framework(self._profiles[name], self._handle(counted))
        state = CycleState()
        result = result_of(schedule_pod(framework, state, pod, self.snapshot, 0)).result
        if not isinstance(result, FitError) or not framework.plugins.post_filter:
            return Preemption()
        nominate, status = result_of(framework.post_filter(state, pod, result.diagnosis.statuses))
        return Preemption(status.message, nominate.node_name if nominate is not None else "", counted.victims)

    def _handle(self, metrics: Metrics = NO_METRICS) -> Handle:
        clock = SystemClock()
        return Handle(
            snapshot=self.snapshot,
            nominator=self._nominator,
            dra=self.dra,
            calls=_NoCalls(),
            now=self._now,
            monotonic=clock.monotonic,
            listers=self._listers,
            metrics=metrics,
            rng=Random(0),
        )

    def _allocations(self, state: CycleState, result: object) -> dict[Key, Object]:
        found = state.read(DYNAMIC_RESOURCES, PodClaims)
        if not isinstance(result, Scheduled) or found is None:
            return {}
        on_node = found.on_node(self.snapshot.get(result.node_name))
        return {} if on_node is None else {key_of(found.claims[at]): each for at, each in on_node.by_place.items()}

    def _framework(self, profile: Profile, handle: Handle) -> Framework:
        percentage = profile.percentage_of_nodes_to_score
        return Framework(
            profile.scheduler_name,
            registry.plugins(profile, self._plugins, handle),
            handle,
            percentage_of_nodes_to_score=self._percentage if percentage is None else percentage,
        )

    def info(self, pod: Object) -> PodInfo:
        """The Pod as the scheduler reads it."""
        return self._shapes.pod_info(projected(pod))

    def _on_node(self, delta: Delta) -> None:
        if delta.new is not None:
            self._cache.set_node(delta.new)
        elif delta.old is not None:
            self._cache.remove_node(name_of(delta.old))

    def _on_pod(self, delta: Delta) -> None:
        if (old := self._pods.pop(key_of(delta.new or delta.old or {}), None)) is not None:
            self._nominator.delete(old)
            if old.node_name:
                self._cache.remove_pod(old)
        if delta.new is not None:
            new = self._pods[key_of(delta.new)] = self._shapes.pod_info(delta.new)
            if new.node_name:
                self._cache.add_pod(new)
            else:
                self._nominator.add(new)


class _NoCalls:
    """The calls of plugins that have no API: none is made before a Pod is bound, and none is bound here."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NotImplementedError(name)


class _Victims(NoMetrics):
    """Counts the victims of preemption."""

    victims = 0

    def preempted(self, victims: int) -> None:
        self.victims += victims


def _asked(plugin: PreEnqueue, pod: PodInfo) -> Status | None:
    status = plugin.pre_enqueue(pod)
    return None if status is None else status.with_plugin(plugin.name)
