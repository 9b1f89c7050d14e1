"""What fills the caches: one reflector for each store.

Called by the webhook and the controllers.  Pods are asked for by `spec.nodeName=` unless claims are looked after: the
ones that have a node are nobody else's business, and a Pod that gets one leaves the cache like a deleted one.  Of the
webhook configurations only ours are asked for.

Hazards: a kind that cannot be listed keeps `synced` false for ever and the process unready; one whose watch is cut
leaves its cache as it was, and `age` grows.  Doubling is harmless.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Final

from tollbar.model import resources
from tollbar.runtime.clock import Clock
from tollbar.runtime.detection import pod_groups
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.reflector import Reflector, Source
from tollbar.runtime.store import Store
from tollbar.views.claimusers import ClaimUsers

_FIELDS: Final = {resources.PODS: "spec.nodeName="}
_LABELS: Final = {resources.MUTATING_WEBHOOK_CONFIGURATIONS: "app.kubernetes.io/name=tollbar"}
"""Selectors by kind: what the API server need not send."""
_SILENCE: Final = 300.0
"""Seconds; bookmarks come every minute."""


async def listed(stores: Iterable[Store]) -> None:
    """Returns once all of them have been listed."""
    for store in stores:
        await store.synced.wait()


class Reflectors:
    """All reflectors of a process, as one thing to run and to ask."""

    def __init__(self, client: Source, stores: Iterable[Store], *, clock: Clock, rng: Random, metrics: Metrics) -> None:
        self._stores = tuple(stores)
        self._reflectors = tuple(
            Reflector(
                client,
                store,
                field_selector="" if isinstance(store, ClaimUsers) else _FIELDS.get(store.resource, ""),
                label_selector=_LABELS.get(store.resource, ""),
                locate=partial(pod_groups, client) if store.resource.kind == resources.POD_GROUPS.kind else None,
                clock=clock,
                rng=rng,
                metrics=metrics,
            )
            for store in self._stores
        )

    async def run(self) -> None:
        """Fill the caches and keep them so, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for store, reflector in zip(self._stores, self._reflectors, strict=True):
                tasks.create_task(reflector.run(), name=f"reflector {store.resource.plural}")

    def unsynced(self) -> str | None:
        """A readiness check: what has not been listed yet."""
        waiting = [store.resource.plural for store in self._stores if not store.synced.is_set()]
        return f"not listed yet: {', '.join(waiting)}" if waiting else None

    def silent(self) -> str | None:
        """A readiness check: a kind that the API server has not said anything about for too long."""
        oldest = max(reflector.age() for reflector in self._reflectors)
        return f"a watch has been silent for {oldest:.0f} s" if oldest > _SILENCE else None
