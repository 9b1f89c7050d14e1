"""A minimal scheduler: binds pending Pods to the first Node that fits and allocates their claims.

It stands in for kube-scheduler.  `placement` decides.  Only one may run: it counts on being the only one to allocate
devices.
"""

import asyncio
from typing import Final

from tollbar import wellknown
from tollbar.devplane.embedded import bindings
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.placement import place
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.storage import Delta
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
        self._active: dict[Key, None] = {}
        """Pods to schedule, in the order in which they came."""
        self._unschedulable: dict[Key, None] = {}
        """Pods that did not fit, until something changes that may make them fit."""

    def observe(self, stored: Resource, delta: Delta) -> None:
        """A change of anything."""
        if self._world.observe(stored, delta):
            self._active |= self._unschedulable
            self._unschedulable.clear()
        if stored == PODS:
            self._active.pop(delta.key, None)
            self._unschedulable.pop(delta.key, None)
            if delta.after is not None and _is_pending(delta.after):
                self._active[delta.key] = None
        if self._active:
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for key in list(self._active):
                self._active.pop(key, None)
                self._unschedulable[key] = None
                await self._schedule(key)

    async def _schedule(self, key: Key) -> None:
        pod = self._writer.get(PODS, key)
        its_claims = self._claims_of(pod) if pod is not None and _is_pending(pod) else None
        if pod is None or its_claims is None:
            return
        found = place(pod, its_claims, self._world)
        if isinstance(found, str):
            await self._report_unschedulable(pod, found)
            return
        self._world.assume(pod, found)
        for claim in its_claims:
            await self._reserve(claim, pod, found)
        try:
            bindings.bind(self._registry, self._registry.kinds.at(PODS), key, {"target": {"name": found.node}})
        except Refused as error:
            await self._report_unschedulable(pod, error.message)

    def _claims_of(self, pod: Object) -> list[Object] | None:
        """The Pod's claims; None when one of them does not exist yet, and the Pod is tried again when it does."""
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
        """Set finalizer and allocation if the claim has none yet, and reserve it for the Pod."""
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

    async def _report_unschedulable(self, pod: Object, why: str) -> None:
        def reported(now: Object) -> Object | None:
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

        await self._writer.edit(PODS, pod, reported, "status")


def _is_pending(pod: Object) -> bool:
    """Whether this scheduler has to bind the Pod now."""
    return (
        spec(pod).get("schedulerName") == NAME
        and not pods.is_bound(pod)
        and not pods.gate_names(pod)
        and not pods.is_deleting(pod)
        and not pods.is_terminal(pod)
    )
