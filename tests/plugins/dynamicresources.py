"""A cluster with claims and devices in which DynamicResources works: its caches, and an API server for claims."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from objects.builders import Built, device_class, pod, pod_group
from objects.devices import DRIVER, a_claim, published, whole

from plugins.toys import Nominations, done
from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.runtime.errors import ApiError, Conflict, NotFound
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.metrics import NoMetrics
from tollbar.scheduler.framework.status import SKIP, Status
from tollbar.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled

SHAPES = Shapes()
NOW = 1_767_225_600.0
GPU = device_class()


def info(obj: Object) -> PodInfo:
    return SHAPES.pod_info(obj)


def node(name: str, *, labels: Mapping[str, str] | None = None, **allocatable: str) -> Object:
    names = {key.replace("_", "/"): value for key, value in allocatable.items()}
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "status": {"allocatable": names}}


@dataclass
class Api:
    """The API server's ResourceClaims; `problems` are raised by the calls of this kind, one after the other."""

    objects: dict[Key, Object]
    problems: dict[str, list[Exception | None]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    version: int = 100
    statuses: list[Object] = field(default_factory=list)
    on_write: Callable[[], None] = lambda: None

    async def get(self, kind: str, key: Key) -> Object:
        self._call("get", key.name)
        if key not in self.objects:
            raise NotFound(404, "NotFound", f"{key.name} not found")
        return self.objects[key]

    async def create(self, kind: str, obj: Object) -> Object:
        name = f"{metadata(obj)['generateName']}x"
        self._call("create", name)
        return self._store({**obj, "metadata": {**metadata(obj), "name": name, "uid": f"uid-of-{name}"}})

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        key, verb = key_of(obj), f"update{subresource and '/' + subresource}"
        self._call(verb, key.name)
        there = self.objects[key]
        if metadata(there)["resourceVersion"] != metadata(obj)["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        changed = {"status": obj.get("status") or {}} if subresource else {"metadata": metadata(obj)}
        written = self._store({**there, **changed})
        self.on_write()
        return written

    async def delete(self, kind: str, key: Key, *, uid: str = "") -> None:
        self._call("delete", key.name)
        del self.objects[key]
        self.version += 1

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        self._call("patch", pod.key.name)
        self.statuses.append(patch["status"])
        return {}

    def _call(self, verb: str, name: str) -> None:
        self.made.append(f"{verb} {name}")
        problem = self.problems.get(verb, []).pop(0) if self.problems.get(verb) else None
        if problem is not None:
            raise problem

    def _store(self, obj: Object) -> Object:
        self.version += 1
        found = {**obj, "metadata": {**metadata(obj), "resourceVersion": str(self.version)}}
        self.objects[key_of(found)] = found
        return found


class Told(NoMetrics):
    """Notes what the plugin measures."""

    def __init__(self, measured: list[Any]) -> None:
        self._measured = measured

    def claim_created(self, created: bool) -> None:
        self._measured.append(created)

    def waited_for_devices(self, outcome: str, seconds: float, devices: Iterable[Object]) -> None:
        self._measured.append((outcome, seconds, [each["device"] for each in devices]))


class World:
    """A cluster, its caches, and the plugin in it; nobody else's writes are seen before `watch`."""

    def __init__(
        self,
        *objects: Object,
        nodes: Iterable[Object] = (node("n1"), node("n2")),
        problems: Mapping[str, Sequence[Exception | None]] | None = None,
        running: Sequence[PodInfo] = (),
        args: Mapping[str, object] | None = None,
        api: type[Api] = Api,
    ) -> None:
        given = (GPU, *objects)
        self.manager = dra_manager(filled(given, KINDS))
        claims = {key_of(each): dict(each) for each in given if each["kind"] == "ResourceClaim"}
        self.api = api(claims, {verb: list(each) for verb, each in (problems or {}).items()})
        self.activated: list[str] = []
        self.freed: list[str] = []
        self.events: list[tuple[str, ...]] = []
        self.measured: list[Any] = []
        self.coroutines: list[Awaitable[None]] = []
        self.time = 0.0
        self.slept: list[float] = []
        self.while_sleeping: Callable[[], None] = lambda: None
        calls: Any = self.api
        self.handle = Handle(
            snapshot=Snapshot.of(nodes, running),
            nominator=Nominations(),
            dra=self.manager,
            calls=calls,
            metrics=Told(self.measured),
            now=lambda: NOW + self.time,
            monotonic=lambda: self.time,
            activate=lambda woken: self.activated.extend(each.key.name for each in woken),
            freed=self._freed,
            event=lambda about, *said: self.events.append((about.key.name, *said)),
            start=self.coroutines.append,
            sleep=self._sleep,
        )
        self.plugin = DynamicResources({"exclusive": "all", **(args or {})}, self.handle)
        self.state = CycleState()

    def _freed(self, _: PodInfo, with_devices: Object, without: Object) -> None:
        assert claims.allocation(without) is None
        given = [each["device"] for each in claims.results(claims.allocation(with_devices) or {})]
        self.freed.append(f"{key_of(without).name}: {' '.join(given)}")

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.while_sleeping()

    def watch(self) -> None:
        """The caches see what the API server has."""
        self.manager.stores[0].replace(self.api.objects.values(), str(self.api.version))

    def pre_filter(self, pod: Object) -> str:
        return said(self.plugin.pre_filter(self.state, info(pod), self.handle.snapshot))

    def filter(self, pod: Object) -> Any:
        """What PreFilter says, if it says something, else what Filter says to each Node."""
        answer = self.pre_filter(pod)
        return answer if answer != "Success" else {each.name: self._filter(pod, each) for each in self.handle.snapshot}

    def _filter(self, pod: Object, node: Any) -> str:
        answer = self.plugin.filter(self.state, info(pod), node)
        return said(answer if answer is None or isinstance(answer, Status) else done(answer))

    def scores(self, pod: Object) -> Any:
        self.filter(pod)
        if self.plugin.pre_score(self.state, info(pod), self.handle.snapshot.nodes) == SKIP:
            return "Skip"
        raw = [self.plugin.score(self.state, info(pod), each) for each in self.handle.snapshot]
        scores = np.array(raw, np.int64)
        self.plugin.normalize_score(self.state, info(pod), self.handle.snapshot.nodes, scores)
        return raw, scores.tolist()

    def reserve(self, pod: Object, node_name: str = "n1") -> str:
        self.filter(pod)
        return said(self.plugin.reserve(self.state, info(pod), node_name))

    async def pre_bind(self, pod: Object, node_name: str = "n1") -> str:
        return said(await self.plugin.pre_bind(self.state, info(pod), node_name))

    async def bind(self, pod: Object, node_name: str = "n1") -> str:
        answer = self.reserve(pod, node_name)
        return answer if answer != "Success" else await self.pre_bind(pod, node_name)

    async def unreserve(self, pod: Object, node_name: str = "n1") -> None:
        self.plugin.unreserve(self.state, info(pod), node_name)
        await self.carry_out()

    async def carry_out(self) -> None:
        while self.coroutines:
            await self.coroutines.pop(0)

    def post_filter(self, pod: Object) -> str:
        nominate, status = self.plugin.post_filter(self.state, info(pod), NodeStatuses())
        assert nominate is None
        return said(status)

    def held(self) -> list[str]:
        """The devices that count as taken."""
        return sorted(device.device for device in self.manager.claims.state.devices)

    def claim(self, name: str = "gpu") -> Object:
        return self.api.objects[Key("ml", name)]


def said(status: Status | None) -> str:
    if status is None:
        return "Success"
    return ": ".join((status.code.value, *status.reasons))


# What most tests of the plugin begin with.

STAMP = "2026-01-01T00:00:00Z"
"""NOW."""
UU = "UnschedulableAndUnresolvable"
CANNOT = "cannot allocate all claims"
CONFLICT = Conflict(409, "Conflict", "modified")
DOWN = ApiError(500, "InternalError", "etcd is down")
WEB = pod().claims("gpu")
BOUND = WEB.but("spec.nodeName", "n1")
GROUP = pod_group("gang").claims("gpu")
MEMBER = WEB.in_group("gang")
N1, N2 = published("s1", "g0", "g1", node="n1"), published("s2", "g2", node="n2")
"""Two devices of a Node, and one of another."""


def on_node(made: Built, name: str) -> Built:
    """The allocated claim, for this Node alone."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return made.but("status.allocation.nodeSelector", {"nodeSelectorTerms": [{"matchFields": fields}]})


def reserved(made: Built, *pods: Object) -> Built:
    entries = [{"resource": "pods", "name": key_of(each).name, "uid": uid_of(each)} for each in pods]
    return made.but("status.reservedFor", entries)


def wanting(name: str, count: int = 1, **more: Any) -> Built:
    """A claim for so many devices."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    return a_claim(name).but("spec.devices.requests", [{"name": "r0", "exactly": exactly}])


def requesting(**body: Any) -> Built:
    """The claim of WEB, with this in its only request."""
    return a_claim("gpu").but("spec.devices.requests", [{"name": "r0", **body}])


CLAIM = requesting(exactly={"deviceClassName": "gpu"})
ALTERNATIVES = {"firstAvailable": [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "tpu"}]}
DELETING = CLAIM.but("metadata.deletionTimestamp", STAMP)
ALLOCATED = on_node(a_claim("gpu", "g0"), "n1")
WITH_CONDITIONS = a_claim("gpu", whole("g0", bindingConditions=["ready"], bindingFailureConditions=["broken"]))


def conditions(*names: str, claim: Built = WITH_CONDITIONS, at: str = STAMP) -> Built:
    """The claim with these conditions true of its device."""
    found = [{"type": name, "status": "True", "reason": "Why", "message": "so"} for name in names]
    device = {"driver": DRIVER, "pool": "n1", "device": "g0", "conditions": found}
    return claim.but("status.devices", [device]).but("status.allocation.allocationTimestamp", at)
