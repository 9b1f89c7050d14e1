"""Random traces of what happens to a scheduling queue, as `oracle queue` takes them.

Times are multiples of an eighth of a second, which floats hold exactly.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tollbar.model.objects import Object
from tollbar.scheduler.framework.events import Action, EventResource

K = TypeVar("K")

NAMES: Final = tuple(f"p{number}" for number in range(8))
GATES: Final = ("G1", "G2", "G3")
FILTERS: Final = ("F1", "F2", "F3", "F4")
NODES: Final = ("n1", "n2", "n3")
DEFAULT: Final = "default-scheduler"
OTHER: Final = "other-scheduler"

_UPDATES: Final = (
    Action.UPDATE_POD_LABEL,
    Action.UPDATE_POD_SCALE_DOWN,
    Action.UPDATE_POD_TOLERATION,
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
)
_REGISTERED: Final = (
    (EventResource.NODE, Action.ADD),
    (EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT),
    (EventResource.NODE, Action.UPDATE),
    (EventResource.ASSIGNED_POD, Action.ADD),
    (EventResource.ASSIGNED_POD, Action.DELETE),
    (EventResource.POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL),
    (EventResource.UNSCHEDULED_POD, Action.ALL),
    (EventResource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE),
    (EventResource.DEVICE_CLASS, Action.ADD),
    (EventResource.TARGET_POD, Action.UPDATE),
    *((EventResource.TARGET_POD, each) for each in _UPDATES),
)
_HAPPENING: Final = (
    (EventResource.NODE, Action.ADD),
    (EventResource.NODE, Action.UPDATE_NODE_LABEL),
    (EventResource.NODE, Action.UPDATE_NODE_CONDITION),
    (EventResource.ASSIGNED_POD, Action.ADD),
    (EventResource.ASSIGNED_POD, Action.UPDATE_POD_LABEL),
    (EventResource.ASSIGNED_POD, Action.DELETE),
    (EventResource.RESOURCE_CLAIM, Action.ADD),
    (EventResource.RESOURCE_CLAIM, Action.UPDATE),
    (EventResource.DEVICE_CLASS, Action.ADD),
    (EventResource.STORAGE_CLASS, Action.ADD),
)
_WILDCARD: Final = (EventResource.WILDCARD, Action.ALL)

_OPERATIONS: Final[Mapping[str, int]] = {
    "add": 5,
    "update": 5,
    "delete": 1,
    "attempt": 12,
    "pop": 3,
    "fail": 3,
    "done": 1,
    "bind": 1,
    "activate": 2,
    "nominate": 2,
    "gate": 3,
    "event": 12,
    "flushBackoff": 5,
    "flushUnschedulable": 2,
    "changes": 1,
}
_PAUSES: Final[Mapping[float, int]] = {0: 6, 0.125: 3, 0.5: 3, 1: 4, 2.25: 3, 7: 1, 301: 1}


@dataclass(frozen=True, slots=True)
class Trace:
    """What `oracle queue` takes; see gomodule/queue.go."""

    seed: int
    request: Object = field(compare=False)


def trace(seed: int) -> Trace:
    """The trace of a seed.  Every third has the gate of pre-queueing hints on."""
    made = _Traces(random.Random(seed), pre_hints=seed % 3 == 0)
    return Trace(seed, made.request(seed))


def _skewed(rng: random.Random, weights: Mapping[K, float]) -> dict[K, float]:
    """Each weight made smaller or greater, so that traces differ in what they are full of."""
    return {key: weight * rng.choice([0.25, 1, 1, 4]) for key, weight in weights.items()}


class _Traces:
    def __init__(self, rng: random.Random, *, pre_hints: bool) -> None:
        self._rng = rng
        self._pre_hints = pre_hints
        self._operations = _skewed(rng, _OPERATIONS)
        self._pauses = _skewed(rng, _PAUSES)
        self._share_of_all = rng.choice([0, 0.1, 0.6])
        self._time = 1_700_000_000 + rng.randrange(8) / 8
        self._version = 0
        self._pods: dict[str, Object] = {}
        self._generation = dict.fromkeys(NAMES, 0)

    def request(self, seed: int) -> Object:
        rng = self._rng
        initial, maximum = rng.choice([(1, 10), (1, 10), (1, 4), (2, 60), (3, 3), (1, 0)])
        profiles = {DEFAULT: self._plugins(), OTHER: self._plugins()}
        return {
            "id": seed,
            "profiles": profiles,
            "initialBackoff": initial,
            "maxBackoff": maximum,
            "flush": rng.choice([300, 300, 10]),
            "preQueueingHints": self._pre_hints,
            "steps": [step for _ in range(rng.randrange(30, 150)) for step in self._steps()],
        }

    def _plugins(self) -> list[Object]:
        rng = self._rng
        names = rng.sample(GATES, rng.randrange(4)) + rng.sample(FILTERS, rng.randrange(2, 5))
        return [{"name": name, "preEnqueue": name in GATES, "events": self._registered()} for name in names]

    def _registered(self) -> list[Object]:
        """With the gate on, upstream forgets plugins without a hint before hints for an event that another has one for.

        A plugin that registers for whatever happens is such a one.
        """
        rng = self._rng
        chosen = rng.sample(_REGISTERED, rng.randrange(2, 8))
        if not self._pre_hints and rng.random() < 0.1:
            chosen.append(_WILDCARD)
        events = []
        for resource, action in chosen:
            narrowed = resource is EventResource.RESOURCE_CLAIM if self._pre_hints else rng.random() < 0.3
            hinted = narrowed or rng.random() < 0.8
            events.append({"resource": resource.value, "action": int(action), "hint": hinted, "preHint": narrowed})
        return events

    def _steps(self) -> list[Object]:
        """One, or the two of an attempt that fails at once."""
        rng = self._rng
        self._time += rng.choices(list(self._pauses), list(self._pauses.values()))[0]
        operation = rng.choices(list(self._operations), list(self._operations.values()))[0]
        if operation == "attempt":
            return [self._step("pop"), self._step("fail") | {"index": -1}]
        return [self._step(operation)]

    def _step(self, operation: str) -> Object:
        rng = self._rng
        name = rng.choice(NAMES)
        if operation in ("update", "delete") and name not in self._pods:
            operation = "add"
        if operation == "add" and name in self._pods:
            operation = "update"
        step = {"at": self._time, "op": operation}
        match operation:
            case "add":
                return step | {"name": name, "pod": self._new_pod(name)}
            case "update":
                return step | {"name": name, "pod": self._changed_pod(name)}
            case "delete":
                del self._pods[name]
                return step | {"name": name}
            case "fail":
                return step | {"index": rng.randrange(5), **self._rejectors()}
            case "done" | "bind":
                return step | {"index": rng.randrange(5), "keep": rng.random() < 0.5}
            case "activate":
                return step | {"name": name}
            case "nominate":
                return step | {"name": name, "node": rng.choice([None, "", *NODES])}
            case "gate":
                return step | {"name": name, "gate": rng.choice(["", "", *GATES])}
            case "event":
                return step | self._event()
            case "changes":
                return step | (_node_change(rng) if rng.random() < 0.5 else self._pod_change())
        return step

    def _rejectors(self) -> Object:
        """None of them after an error."""
        rng = self._rng
        rejectors = rng.sample([*FILTERS, *GATES], rng.choice([0, 1, 1, 1, 2, 3]))
        pending = [each for each in rejectors if rng.random() < 0.25]
        return {"plugins": [each for each in rejectors if each not in pending], "pending": pending}

    def _event(self) -> Object:
        rng = self._rng
        resource, action = rng.choice([*_HAPPENING, *_HAPPENING, _WILDCARD])
        event: Object = {"resource": resource.value, "action": int(action)}
        if rng.random() < 0.2:
            event["priority"] = rng.randrange(3)
        if resource is EventResource.WILDCARD:
            return event | ({"new": rng.choice(list(self._pods.values()))} if self._pods and rng.random() < 0.5 else {})
        about = {"metadata": {"name": "x", "namespace": "ns", "uid": "x", "annotations": self._about()}}
        if resource is EventResource.ASSIGNED_POD:
            about["spec"] = {"nodeName": "n1"}
        old = None if action is Action.ADD else {**about, "metadata": {**about["metadata"], "resourceVersion": "0"}}
        return event | {"old": old, "new": None if action is Action.DELETE else about}

    def _about(self) -> dict[str, str]:
        """Whom an object concerns, by plugin: names of Pods, `*` for all, `!` for a hint that fails."""
        rng = self._rng
        found = {}
        for plugin in (*GATES, *FILTERS):
            names = rng.choice([["!"], [], *([rng.sample(NAMES, rng.randrange(2, 6))] * 5)])
            found[plugin] = "*" if rng.random() < self._share_of_all else ",".join(names)
        return found

    def _new_pod(self, name: str) -> Object:
        rng = self._rng
        self._generation[name] += 1
        uid = f"{name}-{self._generation[name]}"
        pod = {
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "annotations": self._about()},
            "spec": {
                "schedulerName": rng.choice([DEFAULT, DEFAULT, OTHER]),
                "priority": rng.choice([0, 0, 1, 2]),
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
                "schedulingGates": rng.choice([[], [{"name": "g"}], [{"name": "g"}, {"name": "h"}]]),
            },
            "status": {"nominatedNodeName": rng.choice(["", "", "", *NODES])},
        }
        return self._kept(pod)

    def _changed_pod(self, name: str) -> Object:
        pod = self._pods[name]
        for _ in range(self._rng.choice([1, 1, 2, 3])):
            pod = _change(self._rng, pod, self._about())
        return self._kept(pod)

    def _kept(self, pod: Object) -> Object:
        self._version += 1
        pod["metadata"] = pod["metadata"] | {"resourceVersion": str(self._version)}
        self._pods[pod["metadata"]["name"]] = pod
        return pod

    def _pod_change(self) -> Object:
        rng = self._rng
        if not self._pods:
            return _node_change(rng)
        old = rng.choice(list(self._pods.values()))
        new = old
        for _ in range(rng.randrange(4)):
            new = _change(rng, new, {})
        resource = rng.choice([EventResource.TARGET_POD, EventResource.UNSCHEDULED_POD])
        if rng.random() < 0.3:
            new = new | {"spec": new["spec"] | {"nodeName": "n1"}}
        return {"resource": resource.value, "old": old, "new": new}


def _change(rng: random.Random, old: Object, about: dict[str, str]) -> Object:
    """The Pod with one thing changed, which may be nothing that matters."""
    spec, status = old["spec"], old["status"]
    metadata = old["metadata"] | ({"annotations": about} if about else {})
    match rng.randrange(8):
        case 0:
            metadata["labels"] = {"x": str(rng.randrange(3))}
        case 1:
            requests = rng.choice([{"cpu": "1"}, {"cpu": "1500m"}, {"cpu": "2"}, {"cpu": "2", "memory": "1Gi"}, {}])
            spec = spec | {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        case 2:
            spec = spec | {"schedulingGates": spec["schedulingGates"][: rng.randrange(2)]}
        case 3:
            toleration = {"key": str(rng.randrange(9)), "operator": "Exists"}
            spec = spec | {"tolerations": [*spec.get("tolerations", []), toleration]}
        case 4:
            status = status | {"nominatedNodeName": rng.choice(["", *NODES])}
        case 5:
            status = status | {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": str(rng.randrange(3))}]}
        case 6:
            spec = spec | {"priority": rng.randrange(4)}
        case 7:
            status = status | {"extendedResourceClaimStatus": _extended(rng)}
    return {"metadata": metadata, "spec": spec, "status": status}


def _extended(rng: random.Random) -> Object:
    mappings = [{"containerName": "c", "resourceName": "a/b", "requestName": str(rng.randrange(2))}]
    return {"resourceClaimName": str(rng.randrange(2)), "requestMappings": rng.choice([[], mappings])}


def _node_change(rng: random.Random) -> Object:
    return {"resource": EventResource.NODE.value, "old": _node(rng), "new": _node(rng)}


def _node(rng: random.Random) -> Object:
    def some(*values: Any) -> Any:
        return rng.choice(values)

    heartbeat = {"lastHeartbeatTime": f"2026-01-01T00:00:0{rng.randrange(9)}Z"}
    return {
        "metadata": {"name": "n1", "labels": some({}, {}, {"x": "y"}), "annotations": some({}, {}, {"x": "y"})},
        "spec": {
            "unschedulable": some(False, True),
            "taints": some([], [], [{"key": "a", "effect": "NoSchedule"}]),
        },
        "status": {
            "allocatable": some({"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "2"}, {"cpu": "1", "a/b": "0"}, {}),
            "conditions": [{"type": "Ready", "status": some("True", "True", "False"), **heartbeat}],
            "declaredFeatures": some([], ["X"], ["X", "Y"]),
        },
    }
