"""A manager without a process: its stores are filled with objects, and what its recorders are told is kept."""

import asyncio
from collections.abc import Hashable, Iterable
from random import Random
from typing import Any, TypeVar

from fakes.engine import FakeEngine
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.config import load
from tollbar.runtime.manager import Manager, Run
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import WorkQueue
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.gatherer import Gatherer

K = TypeVar("K", bound=Hashable)


class Told:
    """A recorder that keeps what it is told, as `Kind name: Reason: note`."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def emit(self, regarding: Object, event: Event, _related: Object | None = None) -> None:
        name = (regarding.get("metadata") or {}).get("name")
        self.said.append(f"{regarding.get('kind')} {name}: {event.reason}: {event.note}")

    @property
    def reasons(self) -> list[str]:
        """The same without the notes."""
        return [": ".join(said.split(": ")[:2]) for said in self.said]


async def turns(count: int = 50) -> None:
    """Let the tasks that are ready run, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def drained(queue: WorkQueue[K]) -> list[K]:
    """The keys that wait in this queue, in their order, taken out of it."""
    found = []
    while len(queue):
        key = await queue.get()
        queue.done(key)
        found.append(key)
    return found


class Managed(Manager):
    """What `setup` functions get in unit tests; called `me`.  `overrides` are fields of the configuration."""

    def __init__(self, client: Any = None, *, clock: Clock | None = None, **overrides: object) -> None:
        super().__init__(load(None, overrides), client, Metrics(), clock=clock or SystemClock(), rng=Random(1))
        self.instance = "me"
        self.leader_client = self.client
        self.told = Told()

    def recorder(self, controller: str) -> Any:
        return self.told

    def leading(self, name: str) -> Run:
        """What runs under this name while a process leads."""
        return self._leading[name]

    def gatherer(self, engine: Any = None, managed_namespaces: Object | None = None) -> Gatherer:
        selector = {"managed_namespace_selector": managed_namespaces or {}}
        self.configuration = self.configuration.model_copy(update=selector)
        return Gatherer(self.caches.store, self.configuration, engine or FakeEngine())

    def device_tolerations(self, engine: Any = None) -> DeviceTolerations:
        """Those that new claims get by the rules in the caches."""
        return DeviceTolerations(self.gatherer(engine), self.metrics, kept=lambda: True)

    def fill(self, objects: Iterable[Object]) -> None:
        """Into every store of the kind that has been declared; all of them count as listed from here on."""
        for obj in objects:
            for store in self.caches.stores.values():
                if store.resource.kind == obj["kind"]:
                    store.apply(obj)
        for store in self.caches.stores.values():
            store.synced.set()

    def remove(self, obj: Object) -> None:
        """As when a watch tells of its deletion."""
        for store in self.caches.stores.values():
            if store.resource.kind == obj["kind"]:
                store.remove(obj)
