"""Namespaces: what a new one gets, and its end, which takes everything in it along.

Run by `controllers`, which tells it of every change.  A new namespace gets the ServiceAccount `default`, without which
no Pod can be created; the ConfigMap with the API server's certificate is left out.
"""

import asyncio
from typing import Final

from tollbar.devplane.embedded import versions
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.following import Seen
from tollbar.devplane.embedded.writes import Writer
from tollbar.model import pods
from tollbar.model.objects import Key, Object, metadata, spec
from tollbar.model.resources import NAMESPACES, NODES, PODS, Resource

SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


_GRACE_SECONDS: Final = 0.5
"""Between the deletion of a namespace and that of what is in it: whoever still writes there hears that it ends."""


class Namespaces:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._clock = writer.registry.clock
        self._ending: dict[str, bool] = {}
        """Whether the grace of an ending namespace is over."""
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def note(self, stored: Resource, seen: Seen) -> None:
        """A change of anything."""
        name = seen.key.name if stored == NAMESPACES else seen.key.namespace
        if stored == NAMESPACES or name in self._ending:
            self._queue.put_nowait(name)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                name = await self._queue.get()
                namespace = self._writer.get(NAMESPACES, Key("", name))
                if namespace is None:
                    self._ending.pop(name, None)
                elif not metadata(namespace).get("deletionTimestamp"):
                    await self._begin(name)
                elif name not in self._ending:
                    self._ending[name] = False
                    tasks.create_task(self._wait(name))
                elif self._ending[name]:
                    await self._empty(namespace)

    async def _wait(self, name: str) -> None:
        await self._clock.sleep(_GRACE_SECONDS)
        self._ending[name] = True
        self._queue.put_nowait(name)

    async def _begin(self, name: str) -> None:
        if self._writer.get(SERVICE_ACCOUNTS, Key(name, "default")) is None:
            await self._writer.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}})

    async def _empty(self, namespace: Object) -> None:
        """Delete what is in it; when nothing is left, let it go."""
        name, left = metadata(namespace)["name"], 0
        stored = {kind.stored for kind in self._writer.registry.kinds if kind.resource.namespaced}
        for resource in sorted(stored, key=str):
            for obj in self._writer.all(resource, name):
                left += 1
                if self._is_lost(resource, obj):
                    await self._writer.delete(resource, obj, gracePeriodSeconds=0)
                elif not metadata(obj).get("deletionTimestamp"):
                    await self._writer.delete(resource, obj, propagationPolicy="Background")
        if not left:
            self._release(name)

    def _release(self, name: str) -> None:
        """Take the finalizer of its spec away, which nobody else can."""
        registry = self._writer.registry
        kind = registry.kinds.at(NAMESPACES)
        if entry := registry.storage.get(NAMESPACES, Key("", name)):
            registry.commit(kind, entry, {**versions.decoded(kind, entry), "spec": {}})

    def _is_lost(self, resource: Resource, obj: Object) -> bool:
        """Whether it is a Pod whose Node does not exist: nobody would ever end it."""
        if resource != PODS or not pods.is_bound(obj):
            return False
        return self._writer.get(NODES, Key("", spec(obj)["nodeName"])) is None
