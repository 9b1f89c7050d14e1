"""Tollbar's scheduler in the place of kube-scheduler: `controllers.scheduler`, on what is in storage.

Its stores follow the storage within each write; those of kinds that are not served are empty.  Its calls are those of
a client, without HTTP.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

import orjson

from controllers.scheduler import assemble, profiles_of
from tollbar.devplane.embedded import conversion, deletion
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.requests import Write, WriteOptions
from tollbar.devplane.embedded.storage import Delta
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import EVENTS, PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime.caches import Caches
from tollbar.runtime.client import PatchType
from tollbar.runtime.errors import error_from_status
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.plugins import registry as plugins
from tollbar.scheduler.queue import Settings

_OPTIONS: Final = WriteOptions("tollbar-scheduler")
_RESOURCES: Final = {each.kind: each for each in (PODS, RESOURCE_CLAIMS, EVENTS)}


class SchedulerController:
    def __init__(self, registry: Registry) -> None:
        caches, metrics, api = Caches(), Metrics(), SchedulerApi(registry)
        self._recorder = Recorder(
            EventApi(api), controller="scheduler", instance="embedded", clock=registry.clock, metrics=metrics
        )
        self._scheduler = assemble(
            profiles_of(plugins.configuration(plugins.ONLY_SCHEDULER), plugins.IN_TREE),
            Settings(),
            caches.store,
            api,
            self._recorder,
            clock=registry.clock,
            rng=Random(),
            metrics=metrics,
        )
        self._stores: defaultdict[Resource, list[Store]] = defaultdict(list)
        for store in caches.stores.values():
            self._stores[store.resource].append(store)
            store.synced.set()

    def observe(self, stored: Resource, delta: Delta) -> None:
        """A change of anything."""
        for store in self._stores.get(stored, ()):
            if delta.after is not None:
                store.apply({**stored.type_meta, **delta.after})
            else:
                store.remove(delta.before or {})

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._scheduler.run())


class SchedulerApi:
    """The calls of the scheduler and of its recorder, without HTTP.

    Implements `tollbar.scheduler.framework.handle.Calls`.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        binding = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node_name}}
        with _raised():
            self._registry.bind(self._registry.kinds.at(PODS), pod.key, binding)

    async def delete_pod(self, pod: PodInfo) -> None:
        await self.delete(PODS.kind, pod.key, uid=pod.uid)

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        body = {"metadata": {"uid": pod.uid}, **patch}
        return await self.patch(PODS, pod.key, body, PatchType.STRATEGIC, "status")

    async def get(self, kind: str, key: Key) -> Object:
        stored = self._registry.kinds.at(_RESOURCES[kind])
        with _raised():
            return conversion.decoded(stored, self._registry.entry(stored, key))

    async def create(self, kind: str, obj: Object) -> Object:
        write = self._write(_RESOURCES[kind], key_of(obj))
        with _raised():
            return (await self._registry.create(write, _copied(obj))).object

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        write = self._write(_RESOURCES[kind], key_of(obj), subresource)
        with _raised():
            return (await self._registry.update(write, _copied(obj))).object

    async def delete(self, kind: str, key: Key, *, uid: str = "") -> None:
        wanted = {"preconditions": {"uid": uid}} if uid else {}
        with _raised():
            await deletion.delete(self._registry, self._write(_RESOURCES[kind], key), wanted)

    async def patch(self, res: Resource, key: Key, body: Object, media: PatchType, subresource: str = "") -> Object:
        """The object as it is then."""
        with _raised():
            return (await self._registry.patch(self._write(res, key, subresource), media, _copied(body))).object

    def _write(self, res: Resource, key: Key, subresource: str = "") -> Write:
        return Write(self._registry.kinds.at(res), key, options=_OPTIONS, subresource=subresource)


class EventApi:
    """Implements `tollbar.runtime.events.EventClient`."""

    def __init__(self, api: SchedulerApi) -> None:
        self._api = api

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:  # noqa: ARG002
        return await self._api.create(res.kind, obj)

    async def patch(
        self, res: Resource, name: str, body: Object, *, namespace: str = "", patch_type: PatchType
    ) -> Object:
        return await self._api.patch(res, Key(namespace, name), body, patch_type)


@contextmanager
def _raised() -> Iterator[None]:
    """Raises ApiError for Refused, as the API client does for the answer."""
    try:
        yield
    except Refused as refused:
        raise error_from_status(refused.status()) from refused


def _copied(obj: Object) -> Object:
    """A copy of an object, of which parts may be in the scheduler's stores."""
    copied: Object = orjson.loads(orjson.dumps(obj))
    return copied
