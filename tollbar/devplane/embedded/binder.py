"""A scheduler for trials: gives Pods that wait the first Node that will do, and their claims the first devices.

Run by `controllers`, in the place of kube-scheduler; switched off where another one runs (`scheduling=False`).  What it
decides is in `placement`.

Hazard: it is alone.  It counts what it knows to be stored, so two of them would give a device twice.
"""

import asyncio
from typing import Final

from tollbar import wellknown
from tollbar.devplane.embedded import bindings
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.following import Seen
from tollbar.devplane.embedded.placement import place
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.world import Placement, World
from tollbar.devplane.embedded.writes import Writer
from tollbar.model import claims, conditions, pods
from tollbar.model.objects import Key, Object, key_of, metadata, spec
from tollbar.model.resources import PODS, RESOURCE_CLAIMS, Resource

NAME: Final = "default-scheduler"


class Binder:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._writer = Writer(registry, "kube-scheduler")
        self._world = World()
        self._changed = asyncio.Event()
        self._waiting: dict[Key, None] = {}
        """Pods to look at, in the order in which they came."""
        self._hopeless: dict[Key, None] = {}
        """Pods that wait for something else to change."""

    def note(self, stored: Resource, seen: Seen) -> None:
        """A change of anything."""
        if self._world.note(stored, seen):
            self._waiting |= self._hopeless
            self._hopeless.clear()
        if stored == PODS:
            self._waiting.pop(seen.key, None)
            self._hopeless.pop(seen.key, None)
            if seen.after is not None and _waits(seen.after):
                self._waiting[seen.key] = None
        if self._waiting:
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for key in list(self._waiting):
                self._waiting.pop(key, None)
                self._hopeless[key] = None
                await self._schedule(key)

    async def _schedule(self, key: Key) -> None:
        pod = self._writer.get(PODS, key)
        its_claims = self._claims_of(pod) if pod is not None and _waits(pod) else None
        if pod is None or its_claims is None:
            return
        found = place(pod, its_claims, self._world)
        if isinstance(found, str):
            await self._say_unschedulable(pod, found)
            return
        self._world.assume(pod, found)
        for claim in its_claims:
            await self._reserve(claim, pod, found)
        try:
            bindings.bind(self._registry, self._registry.kinds.at(PODS), key, {"target": {"name": found.node}})
        except Refused as error:
            await self._say_unschedulable(pod, error.message)

    def _claims_of(self, pod: Object) -> list[Object] | None:
        """None when one of them is not there yet: there is nothing to say about such a Pod."""
        found = []
        for _, name in claims.resolved(pod):
            if name is claims.Unresolved.NOT_NEEDED:
                continue
            claim = self._writer.get(RESOURCE_CLAIMS, Key(key_of(pod).namespace, str(name)))
            if not isinstance(name, str) or claim is None or metadata(claim).get("deletionTimestamp"):
                return None
            found.append(claim)
        return found

    async def _reserve(self, claim: Object, pod: Object, found: Placement) -> None:
        """Protect and allocate the claim if it has nothing yet, and enter the Pod."""
        finalizer, allocation = wellknown.DELETE_PROTECTION_FINALIZER, found.allocations.get(metadata(claim)["name"])

        def protected(now: Object) -> Object | None:
            there = metadata(now).get("finalizers") or []
            return None if claims.is_protected(now) else {"metadata": {"finalizers": [*there, finalizer]}}

        def entered(now: Object) -> Object | None:
            if claims.is_reserved_for(now, pod):
                return None
            status: Object = {"reservedFor": [*claims.reserved_for(now), claims.pod_entry(pod)]}
            return {"status": status if allocation is None else {**status, "allocation": allocation}}

        if allocation is not None:
            await self._writer.edit(RESOURCE_CLAIMS, claim, protected)
        await self._writer.edit(RESOURCE_CLAIMS, claim, entered, "status")

    async def _say_unschedulable(self, pod: Object, why: str) -> None:
        def told(now: Object) -> Object | None:
            there = (now.get("status") or {}).get("conditions")
            old = conditions.find(there, "PodScheduled") or {}
            if (old.get("reason"), old.get("message")) == ("Unschedulable", why):
                return None
            new = conditions.with_condition(
                there,
                type_="PodScheduled",
                status="False",
                reason="Unschedulable",
                message=why,
                generation=metadata(now)["generation"],
                now=self._registry.clock.now(),
            )
            return {"status": {"conditions": new}}

        await self._writer.edit(PODS, pod, told, "status")


def _waits(pod: Object) -> bool:
    """Whether it is ours to place, now."""
    return (
        spec(pod).get("schedulerName") == NAME
        and not pods.is_bound(pod)
        and not pods.gate_names(pod)
        and not pods.is_deleting(pod)
        and not pods.is_terminal(pod)
    )
