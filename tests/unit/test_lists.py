"""What the processes list for their caches: tenants say how large objects are, and no page of them is long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fakes.manager import Managed, turns

import controllers.__main__
import webhooks.__main__
from controllers.scheduler import profiles_of, setup
from tollbar.gates import registry as gates
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.client import PAGE_TEXT
from tollbar.runtime.manager import Manager
from tollbar.scheduler.config.load import API_VERSION, KIND
from tollbar.scheduler.plugins import registry
from tollbar.scheduler.queue import Settings


class Api:
    """Writes down how long a page of each kind may be, and answers no list."""

    def __init__(self) -> None:
        self.bounds: dict[str, float] = {}

    async def create(self, _res: Resource, obj: Object, *_: Any) -> Object:
        return {**obj, "status": {"userInfo": {"username": "system:serviceaccount:toll:controllers"}}}

    async def list(self, res: Resource, _: str = "", *, most: float, **__: Any) -> Object:
        self.bounds[res.plural] = most
        await asyncio.Event().wait()
        return {}

    async def raw(self, *_: Any, **__: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def served(self, _: str) -> set[str]:
        return {"podgroups", "devicetaintrules"}


async def schedule(manager: Manager) -> None:
    configuration = registry.configuration(f"apiVersion: {API_VERSION}\nkind: {KIND}")
    setup(manager, profiles_of(configuration, registry.available()), Settings())


PROCESSES: dict[str, tuple[Callable[[Manager], Awaitable[None]], set[str]]] = {
    "webhook": (webhooks.__main__.setup, {"resourceclaims", "resourceclaimtemplates", "namespaces"}),
    "controllers": (
        controllers.__main__.setup,
        {
            "pods",
            "resourceclaims",
            "resourceclaimtemplates",
            "podgroups",
            "workloadclaims",
            "statefulsets",
            "namespaces",
        },
    ),
    "scheduler": (
        schedule,
        {
            *("pods", "resourceclaims", "services", "replicasets", "statefulsets", "replicationcontrollers"),
            *("poddisruptionbudgets", "persistentvolumeclaims", "namespaces"),
        },
    ),
}
"""Each with kinds that tenants make and it lists."""


@pytest.mark.parametrize(("process", "tenants"), PROCESSES.values(), ids=PROCESSES)
def test_every_list_has_pages_of_bounded_length(
    process: Callable[[Manager], Awaitable[None]], tenants: set[str]
) -> None:
    async def bounds() -> dict[str, float]:
        api = Api()
        manager = Managed(api, claims="Replace", gates=list(gates.IN_TREE))
        await process(manager)
        manager.phases()
        running = asyncio.create_task(manager.caches.run())
        await turns()
        running.cancel()
        await asyncio.wait({running})
        return api.bounds

    found = asyncio.run(bounds())
    assert (tenants - found.keys(), set(found.values())) == (set(), {PAGE_TEXT})
