"""Caches without room for all the claims of a control plane: who loses what, and what comes back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from objects.builders import claim
from planes.objects import a_pod, as_written

from tollbar.decide.pods.package import assemble
from tollbar.model.objects import Key, Object, is_stub
from tollbar.model.resources import NAMESPACES, RESOURCE_CLAIMS
from tollbar.runtime import reflector
from tollbar.runtime.budget import Budget
from tollbar.runtime.caches import Cached, Caches, listed
from tollbar.runtime.client import Client
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.lookup import PackageLookup

pytestmark = pytest.mark.timeout(120)

ROOM = 1024 * 1024
"""Bytes, for ten of the large ones."""
LARGE = 14
CLASS = "gpu.example.com"


def large(name: str, namespace: str) -> Object:
    """A hundred kilobytes, in device selectors."""
    wanted = claim(name, namespace)
    for _ in range(3):
        wanted = wanted.request(CLASS, selectors=tuple(f'device.driver == "{n:07900}"' for n in range(4)))
    return as_written(wanted.labelled(of=namespace))


def small(name: str, namespace: str, of: str) -> Object:
    return as_written(claim(name, namespace).request(CLASS).labelled(of=of))


@pytest.fixture
def _short_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end after two seconds, and are as healthy as those that last for minutes; a list may follow each of them."""
    monkeypatch.setattr(reflector, "_WATCH_SECONDS", (2, 2))
    monkeypatch.setattr(reflector, "HEALTHY", 1.0)
    monkeypatch.setattr(reflector, "BRING_BACK", (1.0, 2.0))


@pytest.fixture
async def tenant(admin: Client, namespace: str) -> AsyncIterator[str]:
    """A namespace of a tenant with more claims than there is room for."""
    name = f"{namespace}-tenant"
    await admin.create(NAMESPACES, {**NAMESPACES.type_meta, "metadata": {"name": name}})
    for number in range(LARGE):
        await admin.create(RESOURCE_CLAIMS, large(f"large-{number:02}", name))
    yield name
    await admin.delete(NAMESPACES, name)


@pytest.mark.usefixtures("_short_watches")
async def test_a_tenant_with_too_many_claims_loses_the_largest_of_them_and_nobody_else_any(
    admin: Client, namespace: str, tenant: str
) -> None:
    await admin.create(RESOURCE_CLAIMS, small("small", tenant, of=tenant))
    await admin.create(RESOURCE_CLAIMS, small("own", namespace, of=tenant))
    budget = Budget(ROOM)
    caches = Caches(budget)

    def store(cached: Cached) -> Store:
        """Without the claims of other tests."""
        return caches.store(replace(cached, label_selector=f"of={tenant}") if cached is kinds.CLAIMS else cached)

    lookup = PackageLookup(store)
    caches.fill(admin, clock=SystemClock(), rng=Random(), metrics=Metrics())
    filling = asyncio.create_task(caches.run())
    await listed((lookup.claims, lookup.templates, lookup.classes, lookup.namespaces))
    kept, stubs = halves(lookup.claims)
    asked = [(tenant, stubs[0].name), (tenant, kept[0].name), (tenant, "small"), (namespace, "own")]
    seen = [assemble(a_pod("web", where).claims(name), lookup).too_large for where, name in asked]
    assert (seen, len(stubs), len(kept), ROOM / 2 < budget.used <= ROOM) == (
        [True, False, False, False],
        lookup.claims.stubs,
        LARGE + 2 - len(stubs),
        True,
    )
    for key in kept:
        if key.name.startswith("large"):
            await admin.delete(RESOURCE_CLAIMS, key.name, key.namespace)
    await until(lambda: lookup.claims.stubs == 0)
    assert halves(lookup.claims) == (sorted((*stubs, Key(tenant, "small"), Key(namespace, "own"))), [])
    filling.cancel()
    with suppress(asyncio.CancelledError):
        await filling


def halves(claims: Store) -> tuple[list[Key], list[Key]]:
    """The keys of those that are there whole, and of those of which there is a stub."""
    kept, stubs = list[Key](), list[Key]()
    for key in sorted(claims.keys()):
        (stubs if is_stub(claims.get(key) or {}) else kept).append(key)
    return kept, stubs


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
