"""A simulated cluster: the controllers and the scheduler on one manager, with `SimulatedApi` for a client."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, TypeAlias, cast

import orjson

from controllers import claims, gates, reservations
from controllers.scheduler import profiles_of, setup
from controllers.scheduler.cycle import Observe
from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import drain
from tollbar.cli.simulation.api import SimulatedApi
from tollbar.cli.simulation.loop import VirtualClock, VirtualLoop
from tollbar.decide.pods import admission
from tollbar.decide.pods.admission import AdmissionPlan
from tollbar.devplane.embedded import defaults, matchconditions, patches
from tollbar.model import conditions, pods, selectors
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, spec
from tollbar.model.plan import Event
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, PODS, PRIORITY_CLASSES
from tollbar.offline.scheduling import DEFAULT_PROFILE
from tollbar.runtime import config
from tollbar.runtime.client import Client
from tollbar.runtime.events import Recorder
from tollbar.runtime.manager import Manager
from tollbar.runtime.metrics import Metrics
from tollbar.scheduler.cache.podinfo import DISRUPTION_TARGET
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.plugins import registry
from tollbar.scheduler.queue import Settings
from tollbar.views import kinds
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover

End: TypeAlias = Literal["settled", "time is over", "not settled"]

_QUIET: Final = 15.0
"""Seconds without a change after which nothing is under way any more: longer than any back-off of a controller.

Attempts of the scheduler go on after an error, such as that there is no Node at all, but come to the same.
"""
_BESIDE_BACKOFF: Final = 5.0
"""Seconds that this takes longer than the longest back-off of the scheduler, if that is a long one."""
_LONGEST: Final = 3600.0
"""Seconds after which a cluster that does not settle is left as it is."""
_SHIPPED: Final = webhooks.pods_configuration(webhooks.at_service())["webhooks"][:1]
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The PriorityClasses that every cluster has (k8s.io/kubernetes/pkg/apis/scheduling)."""


@dataclass(slots=True)
class SimulatedPod:
    """What became of one Pod that was created in the simulation.  Times are in seconds since the simulation began.

    `admitted` is None when the API server does not ask the webhook about the Pod; `refused` has the API server's words
    when it does not take it.
    """

    pod: Object
    """As it was last."""
    created: float
    admitted: AdmissionPlan | None = None
    refused: str = ""
    released: float | None = None
    bound: float | None = None
    gone: float | None = None
    """When it was preempted, or rather when the grace period after that was over."""

    @property
    def has_node(self) -> bool:
        return pods.is_bound(self.pod) and self.gone is None


class SimulatedCluster:
    """`start` is the time at which it begins, in epoch seconds; `scheduler` how its scheduler is configured.

    `unserved` are kinds that its API server serves in no version that is read: no Pod waits for an object of those.
    `on_progress` is called whenever one more of the created Pods has a Node; `observe` is told of attempts.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        start: float,
        scheduler: SchedulerConfiguration,
        unserved: Collection[str] = (),
        on_progress: Callable[[], None] = lambda: None,
        observe: Observe | None = None,
    ) -> None:
        self._loop = loop
        self._clock = VirtualClock(loop, start)
        self.api = SimulatedApi(self._clock)
        self.created: dict[Key, SimulatedPod] = {}
        self.victims: list[Object] = []
        """Pods that were there before and had to go for others, as they were last."""
        self._on_progress = on_progress
        self._changed = 0.0
        self._until = 0.0
        self._end: End = "settled"
        self._ended: asyncio.Future[End] | None = None
        manager = self._manager = _Manager(self.api, self._clock)
        self.gatherer = Gatherer(manager.caches.store, manager.configuration)
        self._pending = manager.caches.store(kinds.PENDING_PODS)
        self._gates = gates.setup(manager, self.gatherer, Matches(self._pending))
        takeover = Takeover()
        tolerations = DeviceTolerations(self.gatherer, manager.metrics, kept=lambda: True)
        self._claims = claims.setup(manager, takeover, tolerations)
        takeover.found(None)
        oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), self._clock)
        kept = reservations.setup(manager, takeover, ReservationStates(manager.metrics), oscillations, tolerations)
        self._workload_claims = kept.workload_claims
        settings = Settings(
            initial_backoff=scheduler.pod_initial_backoff_seconds, max_backoff=scheduler.pod_max_backoff_seconds
        )
        self._quiet = max(_QUIET, scheduler.pod_max_backoff_seconds + _BESIDE_BACKOFF)
        self._names = frozenset(each.scheduler_name for each in scheduler.profiles)
        self._scheduler = setup(manager, profiles_of(scheduler, registry.available()), settings, observe)
        self._scheduler.rest = loop.rest
        self.api.follow(manager.caches.stores.values())
        for store in manager.caches.stores.values():
            store.served = store.resource.kind not in unserved
            store.synced.set()
        self.api.on_change = self._on_change

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._loop.time()

    def schedules(self, pod: Object) -> bool:
        """Whether the scheduler here is the one that the Pod asks for."""
        return (spec(pod).get("schedulerName") or DEFAULT_PROFILE) in self._names

    def put(self, objects: Iterable[Object]) -> None:
        """Add objects that are there already, such as Nodes and running Pods, the oldest first.

        Those without a creationTimestamp, as manifests are, are the newest: they are created now.
        """
        for obj in sorted(objects, key=_age):
            self.api.put(obj)

    def create(self, pod: Object) -> SimulatedPod:
        """Create a Pod as the API server does, with its own admission plugins and the decision of Tollbar's webhook."""
        pod = orjson.loads(orjson.dumps(pod))
        simulated = self.created[key_of(pod)] = SimulatedPod(pod, self.now)
        defaults.pod(pod)
        if self.api.find(PODS.kind, key_of(pod)) is not None:
            simulated.refused = f'pods "{key_of(pod).name}" already exists'
            return simulated
        if problem := self._prioritize(pod):
            simulated.refused = problem
            return simulated
        defaults.tolerations(pod)
        defaults.topology_labels(pod, self.api.node_labels(spec(pod).get("nodeName") or ""))
        if self._is_asked_about(pod):
            facts = self.gatherer.admission_facts(pod, self._manager.configuration.admission, releasing=True)
            simulated.admitted = admission.decide(facts)
            pod = patches.json_patch(pod, list(simulated.admitted.patch))
        defaults.new_pod(pod)
        pod["metadata"] = {**metadata(pod), "generation": 1}
        self.api.put(pod)
        return simulated

    def _is_asked_about(self, pod: Object) -> bool:
        """Whether the API server sends the Pod to the webhook.

        By Tollbar's configuration in the cluster; without one, by that of the manifests.
        """
        found = filter(drain.is_ours, self.api.all(MUTATING_WEBHOOK_CONFIGURATIONS.kind))
        hooks = [hook for each in found for hook in each.get("webhooks") or () if webhooks.is_of_pods(hook)]
        hooks = hooks or _SHIPPED
        labels = labels_of(self.gatherer.lookup.namespace(key_of(pod).namespace) or {})
        return any(
            selectors.matches(hook.get("namespaceSelector") or {}, labels)
            and selectors.matches(hook.get("objectSelector") or {}, labels_of(pod))
            and matchconditions.outcome(hook, {"object": pod}) is True
            for hook in hooks
        )

    def _prioritize(self, pod: Object) -> str:
        """The admission plugin Priority; why it refuses the Pod."""
        name = spec(pod).get("priorityClassName") or ""
        classes = {key_of(each).name: each for each in self.api.all(PRIORITY_CLASSES.kind)}
        if not name:
            name = next((each for each, found in classes.items() if found.get("globalDefault")), "")
        found = classes.get(name) or {}
        if name and not found and name not in _SYSTEM_PRIORITIES:
            return f"no PriorityClass with name {name} was found"
        priority = int(found.get("value") or _SYSTEM_PRIORITIES.get(name, 0))
        policy = spec(pod).get("preemptionPolicy") or found.get("preemptionPolicy") or "PreemptLowerPriority"
        spec(pod).update(priority=priority, preemptionPolicy=policy, **({"priorityClassName": name} if name else {}))
        return ""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Controllers and scheduler work, as often as somebody lets time pass by `settle`."""
        await self._claims.unseen.begin()
        async with asyncio.TaskGroup() as tasks:
            controllers = (self._gates, self._claims.controller, self._workload_claims, self._scheduler)
            running = [tasks.create_task(each.run()) for each in controllers]
            yield
            for each in running:
                each.cancel()

    async def settle(self, seconds: float | None = None) -> End:
        """Let time pass until nothing is under way, or for so many seconds; how it ended."""
        self._until = self.now + (_LONGEST if seconds is None else seconds)
        self._end = "not settled" if seconds is None else "time is over"
        self._changed = self.now
        self._ended = self._loop.create_future()
        self._loop.may_pass = self._may_pass
        try:
            return await self._ended
        finally:
            self._loop.may_pass = lambda _seconds: True

    def _may_pass(self, seconds: float) -> bool:
        """Whether so much time may pass: everybody waits for what happens then."""
        assert self._ended is not None  # noqa: S101
        then = self.now + seconds
        if then - self._changed >= self._quiet and self._is_settled:
            self._ended.set_result("settled")
        elif then > self._until:
            self._ended.set_result(self._end)
        return not self._ended.done()

    @property
    def _is_settled(self) -> bool:
        policy = self.gatherer.gate_policy()
        will_expire = policy.release_on_expiry and policy.max_hold is not None
        is_held = will_expire and bool(self._pending.keys_by_index("gate", wellknown.GATE))
        return self._scheduler.is_idle and not self.api.terminating and not is_held

    def _on_change(self, kind: str, old: Object | None, new: Object | None) -> None:
        self._changed = self.now
        if kind != PODS.kind:
            return
        simulated = self.created.get(key_of(new or old or {}))
        if simulated is None or simulated.refused:
            if (
                new is None
                and old is not None
                and conditions.find((old.get("status") or {}).get("conditions"), DISRUPTION_TARGET)
            ):
                self.victims.append(old)
            return
        if new is None:
            simulated.gone = self.now
            return
        simulated.pod = new
        if old is not None and pods.is_gated(old) and not pods.is_gated(new):
            simulated.released = self.now
        if pods.is_bound(new) and simulated.bound is None:
            simulated.bound = self.now
            self._on_progress()


def _age(obj: Object) -> tuple[bool, str]:
    """To sort by, the oldest first."""
    created = str(metadata(obj).get("creationTimestamp") or "")
    return not created, created


class _Manager(Manager):
    """The manager of a process that has a SimulatedApi for a client, and reports no Events."""

    def __init__(self, api: SimulatedApi, clock: VirtualClock) -> None:
        configuration = config.load(None, {"claims": "Replace"})
        super().__init__(configuration, cast("Client", api), Metrics(), clock=clock, rng=Random(0))

    def recorder(self, controller: str) -> Recorder:  # noqa: ARG002
        return _Silent()


class _Silent(Recorder):
    def __init__(self) -> None:
        pass

    def emit(self, regarding: Object, event: Event, related: Object | None = None) -> None:
        pass
