"""The namespace controller: gives a new namespace its ServiceAccount, and deletes the contents of a deleted one.

A new namespace gets the ServiceAccount `default`, without which no Pod can be created there, but no ConfigMap with the
API server's certificate.
"""

import asyncio
from typing import Final

from tollbar.devplane.embedded import conversion
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.storage import Delta
from tollbar.devplane.embedded.writes import Writer
from tollbar.model import pods
from tollbar.model.objects import Key, Object, metadata, spec
from tollbar.model.resources import NAMESPACES, NODES, PODS, Resource

SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")

_GRACE_SECONDS: Final = 0.5
"""From the deletion of a namespace to that of its contents: meanwhile clients that write there are refused."""


class NamespaceController:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._clock = writer.registry.clock
        self._ending: dict[str, bool] = {}
        """Namespaces that are being deleted, and whether their grace time is over."""
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def observe(self, stored: Resource, delta: Delta) -> None:
        """A change of anything."""
        name = delta.key.name if stored == NAMESPACES else delta.key.namespace
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
        """Delete its contents; when nothing is left, remove its finalizer."""
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
        """Remove the finalizer in its spec, which no client can do."""
        registry = self._writer.registry
        kind = registry.kinds.at(NAMESPACES)
        if entry := registry.storage.get(NAMESPACES, Key("", name)):
            registry.commit(kind, entry, {**conversion.decoded(kind, entry), "spec": {}})

    def _is_lost(self, resource: Resource, obj: Object) -> bool:
        """Whether it is a Pod on a Node that does not exist, so that no kubelet ends it."""
        if resource != PODS or not pods.is_bound(obj):
            return False
        return self._writer.get(NODES, Key("", spec(obj)["nodeName"])) is None
