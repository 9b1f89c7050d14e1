"""The whole scheduler in memory: an API server that may fail, and watches that are as late as a test wants them.

The scheduler is that of `controllers.scheduler`, with all its plugins; what stands in for the cluster is `ApiServer`.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import orjson
from fakes.manager import Managed
from history.recording import Change
from objects.builders import Built

from controllers.scheduler import SchedulerProfile, setup
from tollbar.model import pods
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, spec, uid_of
from tollbar.model.resources import Resource
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Conflict, NotFound, ServerError, Unreachable
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.plugins import registry
from tollbar.scheduler.queue import SchedulingQueue, Settings

T = TypeVar("T")

SLOW: Final = 30.0
"""Seconds after which a client gives up to wait for an answer."""
BEFORE: Final[Mapping[str, Callable[[], ApiError]]] = {
    "conflict": lambda: Conflict(409, "Conflict", "modified"),
    "refused": lambda: ApiError(403, "Forbidden", "no"),
    "down": lambda: ServerError(500, "InternalError", "etcd is down"),
    "lost before": lambda: Unreachable("no answer"),
}
"""Faults of a call that has no effect."""
AFTER: Final[Mapping[str, Callable[[], ApiError]]] = {
    "down after": lambda: ServerError(504, "Timeout", "too late"),
    "lost after": lambda: Unreachable("no answer"),
    "hangs after": lambda: Unreachable("timeout"),
}
"""Faults of a call that takes effect."""
REPEATED: Final = "repeated"
"""A fault of PUT and DELETE: the call takes effect, its answer is lost, and a proxy sends it again."""
FAULTS: Final = (*BEFORE, *AFTER, REPEATED)


def enabling(plugin: str) -> Object:
    """The configuration of a cluster's only scheduler that has this plugin as well."""
    (profile,) = registry.ONLY_SCHEDULER["profiles"]
    enabled = {"multiPoint": {"enabled": [{"name": plugin}]}}
    return {**registry.ONLY_SCHEDULER, "profiles": [{**profile, "plugins": enabled}]}


def node(name: str, *, cpu: str = "4", **spec: Any) -> Built:
    """A Node of its own zone, with room for ten Pods."""
    return Built(
        apiVersion="v1",
        kind="Node",
        metadata={"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        spec=spec,
        status={"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    )


class ApiServer:
    """Objects by kind and key, and everything that was stored, in `changes` by kind.

    `faults` become of the next calls, one after the other: `ok` or one of FAULTS.  Calls whose verb is in `broken`
    fail, without effect.  A call takes `latency` seconds on the way there, and again back.  `bound` has the Node of
    every Binding that was accepted, by the uid of the Pod.  With `copies_labels`, a binding copies zone and region of
    the Node into the labels of the Pod.
    """

    def __init__(self, objects: Iterable[Object] = (), *, latency: float = 0.0) -> None:
        self.latency = latency
        self.faults: deque[str] = deque()
        self.broken: set[str] = set()
        self.copies_labels = False
        self.objects: dict[tuple[str, Key], Object] = {}
        self.changes: defaultdict[str, list[Change]] = defaultdict(list)
        self.bound: defaultdict[str, list[str]] = defaultdict(list)
        self.calls: list[str] = []
        self._version = 0
        self._written: list[tuple[Object, bytes]] = []
        for each in objects:
            self.store(each)

    # What others do, at once.

    def store(self, obj: Object) -> Built:
        """Create or replace."""
        stored = self._versioned(obj)
        self.objects[stored["kind"], key_of(stored)] = stored
        self._written.append((stored, orjson.dumps(stored)))
        self.changes[stored["kind"]].append(Change(stored["kind"], False, stored))
        return stored

    def drop(self, obj: Object) -> None:
        """It is gone."""
        gone = self._versioned(self.objects.pop((obj["kind"], key_of(obj))))
        self.changes[gone["kind"]].append(Change(gone["kind"], True, gone))

    def altered(self) -> list[Object]:
        """What somebody has changed in place since it was stored: caches share these objects."""
        return [obj for obj, written in self._written if orjson.dumps(obj) != written]

    def all(self, kind: str) -> list[Any]:
        return [each for (one, _), each in self.objects.items() if one == kind]

    def find(self, kind: str, name: str, namespace: str = "ml") -> Any:
        return self.objects.get((kind, Key(namespace, name)))

    # What the scheduler's client does.

    async def raw(self, _method: str, path: str, body: bytes) -> bytes:
        *_, namespace, _, name, subresource = path.split("/")
        assert subresource == "binding"
        binding = orjson.loads(body)
        return await self._call(f"bind {name}", lambda: self._bind(Key(namespace, name), binding))

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        key = Key(namespace, name)
        return await self._call(f"get {resource.kind} {name}", lambda: self._existing(resource.kind, key))

    async def patch(self, resource: Resource, name: str, patch: Object, *, namespace: str, **_: Any) -> Object:
        key = Key(namespace, name)
        return await self._call(f"patch {resource.kind} {name}", lambda: self._patch(resource.kind, key, patch))

    async def replace(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        said = f"replace {resource.kind} {key_of(obj).name} {subresource}".rstrip()
        return await self._call(said, lambda: self._replace(resource.kind, obj, subresource))

    async def create(self, resource: Resource, obj: Object) -> Object:
        return await self._call(f"create {resource.kind}", lambda: self._create(obj))

    async def delete(self, resource: Resource, name: str, namespace: str = "", *, uid: str = "") -> None:
        key = Key(namespace, name)
        await self._call(f"delete {resource.kind} {name}", lambda: self._delete(resource.kind, key, uid))

    async def _call(self, said: str, effect: Callable[[], T]) -> T:
        self.calls.append(said)
        fault = self.faults.popleft() if self.faults else "ok"
        if said.split()[0] in self.broken:
            fault = "down"
        await asyncio.sleep(self.latency)
        if fault in BEFORE:
            raise BEFORE[fault]()
        answer = effect()
        if fault == REPEATED and said.startswith(("replace", "delete")):
            answer = effect()
        await asyncio.sleep(SLOW if fault == "hangs after" else self.latency)
        if fault in AFTER:
            raise AFTER[fault]()
        return answer

    def _bind(self, key: Key, binding: Object) -> bytes:
        pod, node_name = self._existing("Pod", key), binding["target"]["name"]
        if uid_of(binding) != uid_of(pod) or metadata(pod).get("deletionTimestamp"):
            raise Conflict(409, "Conflict", f"pod {key.name} is another one, or being deleted")
        if spec(pod).get("nodeName"):
            raise Conflict(409, "Conflict", f"pod {key.name} is already assigned to node")
        if spec(pod).get("schedulingGates"):
            raise Conflict(409, "Conflict", f"pod {key.name} has non-empty .spec.schedulingGates")
        self.bound[uid_of(pod)].append(node_name)
        bound = pod.but("spec.nodeName", node_name)
        if self.copies_labels:
            node_labels = labels_of(self.objects.get(("Node", Key("", node_name)), {}))
            bound = bound.labelled(pods.topology_labels(node_labels))
        self.store(bound)
        return b""

    def _patch(self, kind: str, key: Key, patch: Object) -> Object:
        """Of a status, as far as the scheduler patches one."""
        there = self._existing(kind, key)
        if metadata(patch).get("uid", uid_of(there)) != uid_of(there):
            raise Conflict(409, "Conflict", "another uid")
        changed = dict(patch["status"])
        if "conditions" in changed:
            types = {each["type"] for each in changed["conditions"]}
            kept = [each for each in there.at("status.conditions", []) if each["type"] not in types]
            changed["conditions"] = [*kept, *changed["conditions"]]
        status = {**there.get("status", {}), **changed}
        return self.store(there.but("status", {name: each for name, each in status.items() if each is not None}))

    def _replace(self, kind: str, obj: Object, subresource: str) -> Object:
        there = self._existing(kind, key_of(obj))
        if metadata(there)["resourceVersion"] != metadata(obj)["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        status = obj.get("status") if subresource else there.get("status")
        meta = metadata(there) if subresource else metadata(obj)
        return self.store(there.but("metadata", meta).but("status", status))

    def _create(self, obj: Object) -> Object:
        made = Built(obj)
        name = made.at("metadata.name") or f"{made.at('metadata.generateName')}{self._version}"
        return self.store(made.but("metadata.name", name).but("metadata.uid", f"uid-of-{name}"))

    def _delete(self, kind: str, key: Key, uid: str) -> None:
        """A Pod with a Node is gone only when its kubelet has stopped it."""
        there = self._existing(kind, key)
        if uid and uid_of(there) != uid:
            raise Conflict(409, "Conflict", "another uid")
        if spec(there).get("nodeName"):
            self.store(there.but("metadata.deletionTimestamp", "2026-01-01T00:00:01Z"))
        else:
            self.drop(there)

    def _existing(self, kind: str, key: Key) -> Built:
        if (kind, key) not in self.objects:
            raise NotFound(404, "NotFound", f"{kind} {key} not found")
        found: Any = self.objects[kind, key]
        return found

    def _versioned(self, obj: Object) -> Built:
        self._version += 1
        known = obj if isinstance(obj, Built) else Built(obj)
        return known.but("metadata.resourceVersion", str(self._version))


class World:
    """A replica of the scheduler that has listed what there is; it does not lead yet.

    `plugins` are further ones by name, at all their points.  What changes after the list is shown by `watch`.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        plugins: registry.Registry | None = None,
        settings: Settings | None = None,
        configuration: Object = registry.ONLY_SCHEDULER,
        clock: Clock | None = None,
        status_delay: float = 0.0,
    ) -> None:
        self.api = api
        self.manager = Managed(api, clock=clock)
        self.handle: Any = None
        """What the plugins have."""
        own = self._profiles(configuration, plugins or {})
        self.scheduler = setup(self.manager, own, settings or Settings(), status_delay=status_delay)
        self._shown = {kind: len(changes) for kind, changes in api.changes.items()}
        self._leading: asyncio.Task[None] | None = None
        self.manager.fill(api.objects.values())

    @property
    def queue(self) -> SchedulingQueue:
        return self.scheduler._queue

    @property
    def leads(self) -> bool:
        return self._leading is not None

    def lead(self) -> None:
        self._leading = asyncio.create_task(self.manager.leading("scheduler")())

    async def stop(self) -> None:
        """The lease is lost."""
        leading, self._leading = self._leading, None
        if leading is not None:
            leading.cancel()
            with suppress(asyncio.CancelledError):
                await leading

    def watch(self, kind: str = "", count: int | None = None) -> None:
        """Show the next changes of a kind, or all that there are of each kind."""
        for each in [kind] if kind else list(self.api.changes):
            begin = self._shown.get(each, 0)
            shown = self.api.changes[each][begin:][:count]
            self._shown[each] = begin + len(shown)
            for change in shown:
                if change.deleted:
                    self.manager.remove(change.object)
                else:
                    self.manager.fill([change.object])

    def assumed(self) -> int:
        """Pods that count as if they had a Node."""
        cache = self.scheduler._cache
        return cache.sizes()["assumed_pods"]

    def _profiles(self, configuration: Object, plugins: registry.Registry) -> Iterator[Any]:
        def made(profile: Any, handle: Handle) -> Any:
            self.handle = handle
            return registry.plugins(profile, {**registry.IN_TREE, **plugins}, handle)

        return [
            SchedulerProfile(each.scheduler_name, partial(made, each), each.percentage_of_nodes_to_score)
            for each in registry.configuration(configuration).profiles
        ]


@asynccontextmanager
async def scheduling(*objects: Object, **given: Any) -> AsyncIterator[World]:
    """A leader in a cluster of these objects."""
    world = World(ApiServer(objects), **given)
    world.lead()
    try:
        yield world
    finally:
        await world.stop()


async def settled(world: World) -> None:
    """Everything is shown, until nothing comes of it any more."""
    stored = -1
    while stored != (stored := sum(map(len, world.api.changes.values()))):
        world.watch()
        await asyncio.sleep(60)
