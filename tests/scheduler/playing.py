"""Plays a trace to the scheduling queue, and says after each step where every Pod is, as `oracle queue` does."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from scheduler.traces import NODES, Trace

from tollbar.devplane.real.oracle import Oracle
from tollbar.model.objects import Key, Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.framework.changes import node_changes, pod_changes
from tollbar.scheduler.framework.events import Action, ClusterEvent, ClusterEventWithHint, EventResource, QueueingHint
from tollbar.scheduler.framework.interface import Nominate
from tollbar.scheduler.framework.status import Status, unresolvable
from tollbar.scheduler.queue import NominatedPods, Profile, QueuedPod, SchedulingQueue, Settings

PODS: Final = frozenset(
    {EventResource.WILDCARD, EventResource.ASSIGNED_POD, EventResource.TARGET_POD, EventResource.UNSCHEDULED_POD}
)
"""The kinds of events whose objects are Pods."""


class AskedToFail(Exception):
    """A hint that fails."""


class TracePlugin:
    """A plugin of a trace; `closed` says which Pods which plugin gates."""

    def __init__(self, given: Object, closed: dict[str, str]) -> None:
        self.name: str = given["name"]
        self.events = [
            ClusterEventWithHint(
                ClusterEvent(EventResource(each["resource"]), Action(each["action"])),
                self.hint if each["hint"] else None,
                self.pre_hint if each["preHint"] else None,
            )
            for each in given["events"]
        ]
        self._closed = closed

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable("closed") if self._closed.get(pod.key.name) == self.name else None

    def hint(self, pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        named = self._named(old, new)
        return QueueingHint.QUEUE if "*" in named or pod.key.name in named else QueueingHint.SKIP

    def pre_hint(self, old: Any, new: Any) -> Iterable[Key] | None:
        named = self._named(old, new)
        return None if "*" in named else [Key("ns", name) for name in named]

    def _named(self, old: Any, new: Any) -> list[str]:
        about = new if new is not None else old
        if about is None:
            return []
        obj = about.object if isinstance(about, PodInfo) else about
        named: list[str] = (obj["metadata"].get("annotations") or {}).get(self.name, "").split(",")
        if "!" in named:
            raise AskedToFail
        return named


class Player:
    """Leaves out what cannot happen, such as the update of a Pod that is gone."""

    def __init__(self, trace: Trace) -> None:
        request = trace.request
        self._time = request["steps"][0]["at"]
        self._shapes = Shapes()
        self._current: dict[Key, PodInfo] = {}
        self._last: dict[str, PodInfo] = {}
        self._popped: list[QueuedPod] = []
        self._closed: dict[str, str] = {}
        self._nominator = NominatedPods(self._current.get)
        self._queue = SchedulingQueue(
            _less,
            {name: self._profile(plugins) for name, plugins in request["profiles"].items()},
            now=lambda: self._time,
            nominator=self._nominator,
            settings=Settings(request["initialBackoff"], request["maxBackoff"], request["flush"]),
        )

    def _profile(self, given: Sequence[Object]) -> Profile:
        plugins = [TracePlugin(each, self._closed) for each in given]
        gates = [plugin for plugin, each in zip(plugins, given, strict=True) if each["preEnqueue"]]
        return Profile(gates, {plugin.name: plugin.events for plugin in plugins})

    def step(self, step: Object) -> Object:
        """What `describe` says after this step."""
        self._time = step["at"]
        return self._do(step) | self._describe()

    def _do(self, step: Object) -> Object:
        queue, name = self._queue, step.get("name", "")
        current = self._current.get(Key("ns", name))
        last = self._last.get(name)
        match step["op"]:
            case "add" if current is None:
                queue.add(self._keep(step["pod"]))
            case "update" if current is not None:
                queue.update(current, self._keep(step["pod"]))
            case "delete" if current is not None:
                queue.delete(self._current.pop(current.key))
            case "pop" if (popped := queue.pop()) is not None:
                self._popped.append(popped)
                return {"popped": popped.pod.uid}
            case "fail" | "done" | "bind" if self._popped:
                self._finish(step, step["index"] % len(self._popped))
            case "activate" if last is not None:
                queue.activate([last])
            case "nominate" if last is not None:
                self._nominator.add(last, None if step["node"] is None else Nominate(step["node"]))
            case "gate":
                self._closed[name] = step["gate"]
            case "event":
                self._event(step)
            case "flushBackoff":
                queue.flush_backoff_completed()
            case "flushUnschedulable":
                queue.flush_unschedulable_leftover()
            case "changes":
                return self._changes(step)
        return {}

    def _keep(self, pod: Object) -> PodInfo:
        info = self._shapes.pod_info(pod)
        self._current[info.key] = self._last[info.key.name] = info
        return info

    def _finish(self, step: Object, index: int) -> None:
        popped = self._popped[index]
        if step["op"] != "done" or not step["keep"]:
            del self._popped[index]
        current = self._current.get(popped.pod.key)
        if current is not None and current.uid != popped.pod.uid:
            current = None
        if step["op"] == "fail" and current is not None:
            popped.failed(current, step["plugins"], step["pending"])
            self._queue.add_unschedulable_if_not_present(popped)
            return
        if step["op"] == "bind" and current is not None:
            self._queue.delete(self._current.pop(current.key))
        self._queue.done(popped.pod.uid)

    def _event(self, step: Object) -> None:
        event = ClusterEvent(EventResource(step["resource"]), Action(step["action"]))
        old, new = (
            self._shapes.pod_info(each) if each is not None and event.resource in PODS else each
            for each in (step.get("old"), step.get("new"))
        )
        highest = step.get("priority")
        check = None if highest is None else lambda pod: pod.priority <= highest
        self._queue.move_all_to_active_or_backoff(event, old, new, check)

    def _changes(self, step: Object) -> Object:
        resource, old, new = EventResource(step["resource"]), step["old"], step["new"]
        if resource is EventResource.NODE:
            events = node_changes(old, new)
        else:
            before, after = self._shapes.pod_info(old), self._shapes.pod_info(new)
            events = pod_changes(before, after, is_target=resource is EventResource.TARGET_POD)
        return {"events": [event.label for event in events]} if events else {}

    def _describe(self) -> Object:
        places = self._queue.pods_by_queue()
        found: Object = {place: [each.pod.uid for each in pods] for place, pods in places.items()}
        nominated = {node: [pod.uid for pod in self._nominator.nominated_pods(node)] for node in NODES}
        return found | {
            "errorBackoff": _uids(places["errorBackoff"]),
            "unschedulable": sorted(found["unschedulable"]),
            "gated": sorted(found["gated"]),
            "inFlight": sorted(pod.uid for pod in self._queue.in_flight.pods),
            "nominated": {node: uids for node, uids in nominated.items() if uids},
            "pods": {each.pod.uid: _text(each) for pods in places.values() for each in pods},
        }


def ours(trace: Trace) -> list[Object]:
    """Where Tollbar has every Pod, after each step."""
    player = Player(trace)
    return [player.step(step) for step in trace.request["steps"]]


def theirs(oracle: Oracle, traces: Sequence[Trace]) -> list[list[Object]]:
    """Where kube-scheduler has them."""
    return [_states(answer) for answer in oracle.queue(each.request for each in traces)]


def _states(answer: Object) -> list[Object]:
    if "message" in answer:
        raise ValueError(answer["message"])
    states: list[Object] = answer["states"]
    return states


def difference(trace: Trace, states: Sequence[Object]) -> str:
    """The first step after which the two differ, and in what; empty if they agree."""
    for number, (mine, other) in enumerate(zip(ours(trace), states, strict=True)):
        if mine != other:
            differing = [key for key in mine.keys() | other.keys() if mine.get(key) != other.get(key)]
            return "\n".join(
                [
                    f"trace {trace.seed}, step {number}: {trace.request['steps'][number]}",
                    *(f"    {key}\n      ours:   {mine.get(key)}\n      theirs: {other.get(key)}" for key in differing),
                ]
            )
    return ""


def _rank(queued: QueuedPod) -> tuple[Any, ...]:
    """PrioritySort with a last word for Pods that entered at the same time of the trace, as the oracle has it."""
    return -queued.pod.priority, round(queued.timestamp, 3), queued.pod.uid


def _less(one: QueuedPod, other: QueuedPod) -> bool:
    return _rank(one) < _rank(other)


def _uids(failed: Iterable[QueuedPod]) -> list[str]:
    """After errors, Pods whose back-off ends at the same time are popped together, in any order."""
    return [each.pod.uid for each in sorted(failed, key=lambda each: (each.backoff_expiration or 0, *_rank(each)))]


def _text(queued: QueuedPod) -> str:
    rejectors = [*sorted(queued.unschedulable_plugins), *(f"{name}?" for name in sorted(queued.pending_plugins))]
    return (
        f"rv={queued.pod.object['metadata']['resourceVersion']} attempts={queued.attempts}"
        f" unschedulable={queued.unschedulable_count} errors={queued.consecutive_errors}"
        f" flushed={str(queued.was_flushed).lower()} expiration={int(queued.backoff_expiration or 0)}"
        f" gate={queued.gating_plugin} by={','.join(rejectors)}"
    )
