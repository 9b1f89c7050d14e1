"""The plane's own controllers: definitions, garbage collection, namespaces, ResourceClaims, scheduling.

`claims` and `scheduling` switch off those that stand in for kube-controller-manager's claim controller and for
kube-scheduler, where another one runs.

Every controller observes a change as part of its write, before any of them acts on it: a definition is served as soon
as it is stored.  None of them blocks the others.
"""

import asyncio
import logging
from typing import Final, TypeAlias

from tollbar.devplane.embedded.claimcontroller import ClaimController
from tollbar.devplane.embedded.definitions import Definitions
from tollbar.devplane.embedded.garbage import GarbageCollector
from tollbar.devplane.embedded.namespaces import NamespaceController
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.scheduling import SchedulerController
from tollbar.devplane.embedded.storage import Delta
from tollbar.devplane.embedded.writes import Writer
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_log: Final = logging.getLogger(__name__)

_Controller: TypeAlias = GarbageCollector | NamespaceController | ClaimController | SchedulerController


class Controllers:
    def __init__(self, registry: Registry, *, claims: bool = True, scheduling: bool = True) -> None:
        writer, storage = Writer(registry), registry.storage
        self._definitions = Definitions(storage, registry.kinds, registry.clock)
        self._controllers: list[_Controller] = [GarbageCollector(writer), NamespaceController(writer)]
        self._controllers += [ClaimController(registry)] if claims else []
        self._controllers += [SchedulerController(registry)] if scheduling else []
        for stored in {kind.stored for kind in registry.kinds}:
            for key, entry in storage.items(stored):
                self._observe(stored, Delta(key, None, entry.decoded()))
        storage.listeners.append(lambda stored, change: self._observe(stored, change.decoded()))

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(_run_for_ever(controller))

    def _observe(self, stored: Resource, delta: Delta) -> None:
        """Called within a write, which a failing controller must not fail."""
        try:
            if stored == CUSTOM_RESOURCE_DEFINITIONS:
                self._definitions.observe(delta)
            for controller in self._controllers:
                controller.observe(stored, delta)
        except Exception:
            _log.exception("a controller failed", extra={"resource": stored.plural, "object": str(delta.key)})


async def _run_for_ever(controller: _Controller) -> None:
    """Run a controller again when it fails: a mistake in one must not end the plane."""
    while True:
        try:
            await controller.run()
        except Exception:
            _log.exception("a controller failed", extra={"controller": type(controller).__name__})
