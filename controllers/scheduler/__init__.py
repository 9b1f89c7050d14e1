"""The scheduler: gives Pods a Node, and their ResourceClaims devices of it, as kube-scheduler does.

Hazard: down, its Pods wait without a Node; doubled without leader election, or beside another scheduler on the same
Nodes, a Pod may be rejected by the kubelet and, without exclusive devices, two claims may get one device; behind, it
decides on Nodes as they were, which the same refusals make good.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from controllers.scheduler import events
from controllers.scheduler.calls import ApiCalls
from controllers.scheduler.cycle import Observe, Scheduler
from controllers.scheduler.eventhandlers import EventHandlers
from controllers.scheduler.metrics import FrameworkMetrics, SchedulerMetrics
from controllers.scheduler.statuswriter import StatusWriter
from tollbar.model.objects import Key
from tollbar.runtime.caches import Cached, listed
from tollbar.runtime.clock import Clock
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.topologylabels import TopologyLabels
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.framework.handle import Calls, Handle
from tollbar.scheduler.framework.points import Plugins
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.waiting import InBinding
from tollbar.scheduler.plugins import registry
from tollbar.scheduler.plugins.registry import Registry
from tollbar.scheduler.queue import NominatedPods, Profile, SchedulingQueue, Settings, registrations
from tollbar.views import kinds, scheduling
from tollbar.views.devices import dra_manager

if TYPE_CHECKING:  # it brings the configuration of processes along, which is slow to import
    from tollbar.runtime.manager import Manager


@dataclass(frozen=True, slots=True)
class SchedulerProfile:
    """The Pods with this `schedulerName`, and what schedules them; a percentage of 0 suits the size of the cluster."""

    name: str
    plugins: Callable[[Handle], Plugins]
    percentage_of_nodes_to_score: int = 0


def profiles_of(configuration: SchedulerConfiguration, available: Registry) -> Sequence[SchedulerProfile]:
    """The profiles of a configuration, with the plugins that are available by name."""
    everywhere = configuration.percentage_of_nodes_to_score
    return [
        SchedulerProfile(
            each.scheduler_name,
            partial(registry.plugins, each, available),
            everywhere if each.percentage_of_nodes_to_score is None else each.percentage_of_nodes_to_score,
        )
        for each in configuration.profiles
    ]


def setup(
    manager: "Manager",
    profiles: Sequence[SchedulerProfile],
    settings: Settings,
    observe: Observe | None = None,
    status_delay: float = 0.0,
) -> Scheduler:
    """Every replica keeps Nodes and Pods up to date, and the queue once it has led; the leader schedules.

    What becomes of a Pod is written `status_delay` seconds later (`StatusWriter`).
    """
    scheduler = assemble(
        profiles,
        settings,
        manager.caches.store,
        ApiCalls(manager.leader_client),
        manager.recorder("scheduler"),
        clock=manager.clock,
        rng=manager.rng,
        metrics=manager.metrics,
        observe=observe,
        status_delay=status_delay,
    )

    async def run() -> None:
        await listed(manager.caches.stores.values())
        await scheduler.run()

    manager.leads("scheduler", run)
    return scheduler


def assemble(
    profiles: Sequence[SchedulerProfile],
    settings: Settings,
    store: Callable[[Cached], Store],
    calls: Calls,
    recorder: Recorder,
    *,
    clock: Clock,
    rng: Random,
    metrics: Metrics,
    observe: Observe | None = None,
    status_delay: float = 0.0,
) -> Scheduler:
    """A scheduler that follows the stores it declares with `store`; they have to be listed before its `run`.

    `status_delay` is that of the StatusWriter, in seconds.
    """
    pods, nodes = store(scheduling.SCHEDULABLE_PODS), store(scheduling.NODES)
    dra = dra_manager(store)
    listers = scheduling.listers(store)
    measured = SchedulerMetrics(metrics)
    known: dict[Key, PodInfo] = {}
    cache, snapshot, shapes, in_binding = Cache(), Snapshot(), Shapes(), InBinding()
    topology_labels = TopologyLabels(shapes)
    nominator = NominatedPods(known.get)

    def handle(profile: str) -> Handle:
        return Handle(
            snapshot=snapshot,
            nominator=nominator,
            dra=dra,
            calls=calls,
            now=clock.now,
            monotonic=clock.monotonic,
            sleep=clock.sleep,
            listers=listers,
            metrics=FrameworkMetrics(metrics, profile),
            rng=rng,
            activate=lambda activated: scheduler.activate(activated),
            freed=lambda pod, with_devices, without: scheduler.freed(pod, with_devices, without),
            event=lambda pod, kind, reason, action, note: recorder.emit(
                pod.object, events.of_plugin(kind, reason, action, note)
            ),
            start=lambda work: scheduler.start(work),
        )

    frameworks = {each.name: _framework(each, handle(each.name), in_binding) for each in profiles}
    queue = SchedulingQueue(
        next(iter(frameworks.values())).plugins.queue_sort[0].less,
        {name: _queue_profile(framework) for name, framework in frameworks.items()},
        now=clock.monotonic,
        nominator=nominator,
        settings=settings,
        metrics=measured,
    )
    measured.expose(queue, cache)
    handlers = EventHandlers(
        cache, queue, shapes, topology_labels, known, frameworks.keys(), in_binding, wake=lambda: scheduler.wake()
    )
    handlers.subscribe(pods, nodes, store(kinds.TAINT_RULES), scheduling.others(store))
    scheduler = Scheduler(
        frameworks,
        cache,
        snapshot,
        queue,
        topology_labels,
        current=known.get,
        begin=handlers.begin,
        status=StatusWriter(calls, pods, clock, status_delay),
        recorder=recorder,
        clock=clock,
        rng=rng,
        metrics=measured,
        observe=observe,
    )
    return scheduler


def _framework(profile: SchedulerProfile, handle: Handle, in_binding: InBinding) -> Framework:
    return Framework(
        profile.name,
        profile.plugins(handle),
        handle,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        in_binding=in_binding,
    )


def _queue_profile(framework: Framework) -> Profile:
    return Profile(framework.plugins.pre_enqueue, registrations(framework.plugins.all().values()))
