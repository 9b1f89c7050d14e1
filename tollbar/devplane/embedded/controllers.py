"""What happens by itself: definitions are served, garbage goes, namespaces begin and end, claims and Pods get placed.

`Controllers.run` is a task of the server.  `claims` and `scheduling` switch off the parts that stand in for
kube-controller-manager's claim controller and for kube-scheduler, where another one is to be tried.

Hazard: a change is told to every part before any of them acts; none of them blocks the others.
"""

import asyncio
import logging
from typing import Final, TypeAlias

from tollbar.devplane.embedded.binder import Binder
from tollbar.devplane.embedded.claiming import Claiming
from tollbar.devplane.embedded.definitions import Definitions
from tollbar.devplane.embedded.following import Seen, follow
from tollbar.devplane.embedded.garbage import Garbage
from tollbar.devplane.embedded.namespaces import Namespaces
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.writes import Writer
from tollbar.model.objects import Key, spec
from tollbar.runtime.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_log: Final = logging.getLogger(__name__)

_Part: TypeAlias = Garbage | Namespaces | Claiming | Binder


class Controllers:
    def __init__(self, registry: Registry, *, claims: bool = True, scheduling: bool = True) -> None:
        self._registry = registry
        writer = Writer(registry)
        self._definitions = Definitions(registry.storage, registry.kinds, registry.clock)
        self._parts: list[_Part] = [Garbage(writer), Namespaces(writer)]
        if claims:
            self._parts.append(Claiming(registry))
        if scheduling:
            self._parts.append(Binder(registry))

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts:
                tasks.create_task(_kept_running(part))
            for stored in {kind.stored for kind in self._registry.kinds} - {CUSTOM_RESOURCE_DEFINITIONS}:
                tasks.create_task(self._follow(stored))
            await self._serve(tasks)

    async def _follow(self, stored: Resource) -> None:
        async for seen in follow(self._registry.storage, stored):
            self._tell(stored, seen)

    def _tell(self, stored: Resource, seen: Seen) -> None:
        for part in self._parts:
            try:
                part.note(stored, seen)
            except Exception:
                _log.exception("a controller failed", extra={"controller": type(part).__name__})

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        """Serve what the definitions say, and follow the objects of what is new."""
        followed: dict[Key, Resource] = {}
        async for seen in follow(self._registry.storage, CUSTOM_RESOURCE_DEFINITIONS):
            self._tell(CUSTOM_RESOURCE_DEFINITIONS, seen)
            if seen.after is None:
                self._definitions.abolish(seen.key)
                followed.pop(seen.key, None)
            elif spec(seen.after) != spec(seen.before or {}):
                try:
                    stored = self._definitions.establish(seen.after)
                except Exception:
                    _log.exception("a definition was not served", extra={"definition": seen.key.name})
                    continue
                if followed.get(seen.key) != stored:
                    followed[seen.key] = stored
                    tasks.create_task(self._follow(stored))


async def _kept_running(part: _Part) -> None:
    """A part that fails goes on with what comes next: a mistake of one must not end the plane."""
    while True:
        try:
            await part.run()
        except Exception:
            _log.exception("a controller failed", extra={"controller": type(part).__name__})
