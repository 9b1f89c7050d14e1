"""A scheduling queue with a clock that stands still, and plugins that say what a test tells them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from plugins.tables import handle
from tollbar.model.objects import Key, Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.framework.events import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintFn,
    PreQueueingHintFn,
    QueueingHint,
)
from tollbar.scheduler.framework.status import Status, unresolvable
from tollbar.scheduler.plugins.priority_sort import PrioritySort
from tollbar.scheduler.plugins.scheduling_gates import SchedulingGates
from tollbar.scheduler.queue import NominatedPods, Profile, QueuedPod, SchedulingQueue, Settings, registrations

NODE_ADD: Final = ClusterEvent(EventResource.NODE, Action.ADD)
CLAIM_ADD: Final = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.ADD)
GATES_GONE: Final = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


@dataclass
class Registering:
    """A Filter plugin that registers for events; `asked` has the names of the Pods that its hint was asked about."""

    name: str
    events: tuple[ClusterEvent, ...] = (NODE_ADD,)
    answer: QueueingHint = QueueingHint.QUEUE
    pre_hint: PreQueueingHintFn | None = None
    asked: list[str] = field(default_factory=list)

    def filter(self, *_: Any) -> Status | None:
        return None

    def hint(self, pod: PodInfo, *_: Any) -> QueueingHint:
        self.asked.append(pod.key.name)
        return self.answer

    def events_to_register(self) -> list[ClusterEventWithHint]:
        hint: HintFn = self.hint
        return [ClusterEventWithHint(event, hint, self.pre_hint) for event in self.events]


@dataclass
class Gate(Registering):
    """A PreEnqueue plugin that rejects the Pods in `closed`."""

    closed: set[str] = field(default_factory=set)
    evaluated: int = 0

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.evaluated += 1
        return unresolvable(f"waiting for {self.name}") if pod.key.name in self.closed else None


class CountedGates(SchedulingGates):
    """kube-scheduler's plugin, which counts how often it is asked."""

    def __init__(self) -> None:
        self.evaluated = 0

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.evaluated += 1
        return super().pre_enqueue(pod)


@dataclass
class Counted:
    """Metrics that count."""

    entered: Counter[tuple[str, str]] = field(default_factory=Counter)
    waiting: Counter[tuple[str, str]] = field(default_factory=Counter)

    def incoming(self, queue: str, event: str) -> None:
        self.entered[queue, event] += 1

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self.waiting[plugin, profile] += change


class World:
    """Pods go by their names; times are in seconds since the queue was made, at a whole second."""

    def __init__(self, *plugins: Any, settings: Settings | None = None) -> None:
        self.time = 1000.0
        self.pods: dict[Key, PodInfo] = {}
        self.metrics = Counted()
        self._shapes = Shapes()
        self.nominator = NominatedPods(self.pods.get)
        profile = Profile([each for each in plugins if hasattr(each, "pre_enqueue")], registrations(plugins))
        self.queue = SchedulingQueue(
            PrioritySort({}, handle()).less,
            {"default-scheduler": profile},
            now=lambda: self.time,
            nominator=self.nominator,
            settings=settings,
            metrics=self.metrics,
        )

    def pod(self, name: str, *, uid: str = "", **fields: Any) -> PodInfo:
        """Fields of the spec; `labels`, `status` and `nominated` are taken apart."""
        metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "labels": fields.pop("labels", {})}
        status: Object = fields.pop("status", {})
        if "nominated" in fields:
            status = {**status, "nominatedNodeName": fields.pop("nominated")}
        return self._shapes.pod_info({"metadata": metadata, "spec": fields, "status": status})

    def __getitem__(self, name: str) -> PodInfo:
        return self.pods[Key("ns", name)]

    def add(self, name: str, **fields: Any) -> PodInfo:
        pod = self.pods[Key("ns", name)] = self.pod(name, **fields)
        self.queue.add(pod)
        return pod

    def update(self, name: str, **fields: Any) -> None:
        old, new = self[name], self.pod(name, **fields)
        self.pods[new.key] = new
        self.queue.update(old, new)

    def delete(self, name: str) -> None:
        self.queue.delete(self.pods.pop(Key("ns", name)))

    def pop(self) -> str | None:
        queued = self.queue.pop()
        return queued.pod.key.name if queued else None

    def popped(self, name: str) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None
        assert queued.pod.key.name == name
        return queued

    def fail(self, queued: QueuedPod, *plugins: str, pending: Iterable[str] = ()) -> bool:
        """The attempt was rejected by these plugins; without any there was an error."""
        queued.failed(queued.pod, plugins, pending)
        return self.queue.add_unschedulable_if_not_present(queued)

    def rejected(self, name: str, *plugins: str, pending: Iterable[str] = (), **fields: Any) -> QueuedPod:
        """A Pod that was tried once, and rejected by these plugins."""
        self.add(name, **fields)
        queued = self.popped(name)
        self.fail(queued, *plugins, pending=pending)
        return queued

    def happened(self, event: ClusterEvent = NODE_ADD, old: Any = None, new: Any = None) -> None:
        self.queue.move_all_to_active_or_backoff(event, old, new)

    def places(self) -> dict[str, list[str]]:
        """Names by queue, without the empty ones."""
        waiting = self.queue.pods_by_queue().items()
        return {place: [queued.pod.key.name for queued in pods] for place, pods in waiting if pods}
