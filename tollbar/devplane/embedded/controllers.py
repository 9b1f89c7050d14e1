"""What happens by itself: definitions are served, garbage goes, namespaces begin and end, claims and Pods get placed.

`Controllers.run` is a task of the server.  `claims` and `scheduling` switch off the parts that stand in for
kube-controller-manager's claim controller and for kube-scheduler, where another one is to be tried.

A change is told to every part while it is written, before any of them acts: a definition is served as soon as it is
stored.  None of them blocks the others.
"""

import asyncio
import logging
from typing import Final, TypeAlias

from tollbar.devplane.embedded.binder import Binder
from tollbar.devplane.embedded.claiming import Claiming
from tollbar.devplane.embedded.definitions import Definitions
from tollbar.devplane.embedded.following import Seen, seen
from tollbar.devplane.embedded.garbage import Garbage
from tollbar.devplane.embedded.namespaces import Namespaces
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.writes import Writer
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_log: Final = logging.getLogger(__name__)

_Part: TypeAlias = Garbage | Namespaces | Claiming | Binder


class Controllers:
    def __init__(self, registry: Registry, *, claims: bool = True, scheduling: bool = True) -> None:
        writer, storage = Writer(registry), registry.storage
        self._definitions = Definitions(storage, registry.kinds, registry.clock)
        self._parts: list[_Part] = [Garbage(writer), Namespaces(writer)]
        self._parts += [Claiming(registry)] if claims else []
        self._parts += [Binder(registry)] if scheduling else []
        for stored in {kind.stored for kind in registry.kinds}:
            for key, entry in storage.items(stored):
                self._note(stored, Seen(key, None, entry.decoded()))
        storage.listeners.append(lambda stored, change: self._note(stored, seen(change)))

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts:
                tasks.create_task(_kept_running(part))

    def _note(self, stored: Resource, told: Seen) -> None:
        """Part of a write, which a mistake here must not fail."""
        try:
            if stored == CUSTOM_RESOURCE_DEFINITIONS:
                self._definitions.note(told)
            for part in self._parts:
                part.note(stored, told)
        except Exception:
            _log.exception("a controller failed", extra={"resource": stored.plural, "object": str(told.key)})


async def _kept_running(part: _Part) -> None:
    """A part that fails goes on with what comes next: a mistake of one must not end the plane."""
    while True:
        try:
            await part.run()
        except Exception:
            _log.exception("a controller failed", extra={"controller": type(part).__name__})
