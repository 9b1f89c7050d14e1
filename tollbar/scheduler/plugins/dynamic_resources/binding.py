"""Reserve, Unreserve and PreBind of DynamicResources: what becomes of the claims once the Pod's Node is decided."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from tollbar.dra.claims import Refused
from tollbar.dra.manager import DraManager
from tollbar.model import claims
from tollbar.model.objects import Object, key_of, uid_of
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.plugins.dynamic_resources import binding_conditions, extended_resources
from tollbar.scheduler.plugins.dynamic_resources.binding_conditions import BindingFailed
from tollbar.scheduler.plugins.dynamic_resources.extended_resources import Extended
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import ClaimsToBind, OnNode, is_reserved, not_found
from tollbar.scheduler.plugins.dynamic_resources.writes import ClaimError, ClaimWrites

TIMED_OUT: Final = "device binding timeout"
_POLL: Final = 5.0
"""Seconds between two looks at binding conditions."""
_BACK_OFF: Final = 10.0
"""Seconds after which a Pod is tried again whose claims could not be written: kube-scheduler's longest back-off."""
_log: Final = logging.getLogger(__name__)


class ClaimBinding:
    """`timeout` is how long devices may take to become ready, in seconds."""

    def __init__(self, handle: Handle, manager: DraManager, timeout: float) -> None:
        self._handle = handle
        self._manager = manager
        self._writes = ClaimWrites(handle, manager)
        self._timeout = timeout
        self._taking_back: dict[str, set[asyncio.Event]] = {}
        """By the uid of a Pod: what is being taken back of its claims, each set when that is over."""
        self._deleting: set[str] = set()
        """The uids of claims that are being deleted, which takes as long as others keep a finalizer on them."""
        self._unsettled: list[tuple[Object, str, PodInfo]] = []
        """Allocations of which nobody knew whether they were written when this process stopped to schedule."""

    def resume(self) -> None:
        """Go on to find out what became of writes that were under way when this process stopped to schedule."""
        unsettled, self._unsettled = self._unsettled, []
        for claim, uid, pod in unsettled:
            self._handle.start(self._settle(claim, uid, pod))

    def reserve(self, to_bind: ClaimsToBind, on_node: OnNode) -> str:
        """Let the devices count as taken from now on; why that is not possible, empty if it is."""
        to_bind.extended = on_node.plan.extended
        for place, allocation in on_node.by_place.items():
            claim = to_bind.claims[place]
            counts = self._manager.claims.signal_pending_allocation({**claim, "status": {"allocation": allocation}})
            if isinstance(counts, Refused):
                return counts.message
            to_bind.pending[place] = uid_of(claim)
            if counts != allocation:
                return f"claim {key_of(claim)} got allocated elsewhere in the meantime"
            to_bind.allocations[place] = allocation
        return ""

    def unreserve(self, to_bind: ClaimsToBind, pod: PodInfo) -> None:
        """Let the devices be free again, and take back what was written, beside the scheduling cycle."""
        for place, uid in to_bind.pending.items():
            if place in to_bind.unanswered:
                self._handle.start(self._settle(to_bind.claims[place], uid, pod))
            elif self._forget(to_bind.claims[place], uid, pod):
                self._manager.claims.restore(key_of(to_bind.claims[place]))
        to_bind.pending, to_bind.allocations, to_bind.unanswered = {}, {}, set()
        named = [each for place, each in enumerate(to_bind.claims) if place != to_bind.extended_place]
        reserved = [each for each in named if claims.allocation(each) and is_reserved(each, pod)]
        created = [each for each in to_bind.claims[len(named) :] if not extended_resources.is_virtual(each)]
        if reserved or created:
            self._handle.start(self._release(pod, reserved, created, self._begin_taking_back(pod)))

    async def bind(self, to_bind: ClaimsToBind, pod: PodInfo, node_name: str) -> None:
        """Write allocations and reservations, and wait for the devices.  Raises ClaimError and BindingFailed."""
        for over in tuple(self._taking_back.get(pod.uid, ())):
            await over.wait()
        filtered = list(map(claims.allocation, to_bind.claims))
        self._refresh(to_bind)
        for place, allocation in enumerate(filtered):
            claim = to_bind.claims[place]
            if not (claims.is_reserved_for(claim, pod.object) and claims.has_devices_of(claim, allocation)):
                await self._bind_claim(to_bind, place, pod, allocation)
        if any(map(binding_conditions.are_asked_for, to_bind.claims)):
            await self._wait_for_devices(to_bind, pod, node_name)

    def give_up(self, claim: Object, pod: PodInfo) -> None:
        """Take the allocation back, beside the scheduling cycle; the Pod is woken by the event of that."""
        write = partial(self._writes.deallocate, claim)
        self._handle.start(self._unless_bound(pod, write, self._begin_taking_back(pod)))

    def delete(self, claim: Object, pod: PodInfo) -> None:
        """Delete a claim that an earlier attempt has created, and try the Pod again: no event is about it.

        Does nothing while that is under way: the Pod may be tried any number of times meanwhile.
        """
        uid = uid_of(claim)
        if uid in self._deleting:
            return
        self._deleting.add(uid)

        async def delete() -> None:
            await self._writes.delete(claim)
            self._handle.activate([pod])

        async def once() -> None:
            try:
                await self._unless_bound(pod, delete)
            finally:
                self._deleting.discard(uid)

        self._handle.start(once())

    def has_timed_out(self, claim: Object) -> bool:
        return binding_conditions.have_timed_out(claim, self._handle.now(), self._timeout)

    def _refresh(self, to_bind: ClaimsToBind) -> None:
        for place, claim in enumerate(to_bind.claims):
            newer = self._manager.claims.get(key_of(claim))
            if newer is not None and uid_of(newer) == uid_of(claim):
                to_bind.claims[place] = newer

    async def _bind_claim(self, to_bind: ClaimsToBind, place: int, pod: PodInfo, filtered: Object | None) -> None:
        """`filtered` is the allocation with which Filter let the Node pass, if the claim had one."""
        claim, allocation = to_bind.claims[place], to_bind.allocations.get(place)
        if place == to_bind.extended_place and allocation is None:
            return  # the Node has all extended resources by itself
        extended = to_bind.extended if place == to_bind.extended_place else None
        if extended is not None:
            claim = await self._create(to_bind, place, extended)
        if allocation is not None:
            to_bind.unanswered.add(place)
        try:
            written = await self._writes.reserve(claim, pod, allocation, filtered)
        except ClaimError as error:
            if not error.unanswered:
                to_bind.unanswered.discard(place)
            raise
        to_bind.unanswered.discard(place)
        to_bind.claims[place] = written
        if place in to_bind.pending:
            self._manager.claims.remove_pending_allocation(to_bind.pending.pop(place), force=True)
        if allocation is not None:
            await self._writes.resolve_collisions(written)
        if extended is not None:
            await self._writes.record_extended(pod, written, extended.mappings)

    async def _create(self, to_bind: ClaimsToBind, place: int, extended: Extended) -> Object:
        try:
            created = await self._writes.create(extended_resources.to_create(extended.claim))
        except ClaimError:
            self._handle.metrics.claim_created(False)
            raise
        self._handle.metrics.claim_created(True)
        self._manager.claims.created(to_bind.pending[place], created)
        to_bind.claims[place], to_bind.pending[place] = created, uid_of(created)
        return created

    async def _wait_for_devices(self, to_bind: ClaimsToBind, pod: PodInfo, node_name: str) -> None:
        """Wait until the binding conditions of all devices are true."""
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.event(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        started, outcome = self._handle.monotonic(), "error"
        try:
            while not self._are_devices_ready(to_bind):
                left = started + self._timeout - self._handle.monotonic()
                if left <= 0:
                    raise BindingFailed(f"{TIMED_OUT}: context deadline exceeded", "timeout")
                await self._handle.sleep(min(_POLL, left))
            outcome = "success"
        except BindingFailed as error:
            outcome = error.outcome
            raise
        finally:
            devices = [each for claim in to_bind.claims for each in binding_conditions.results(claim)]
            self._handle.metrics.waited_for_devices(outcome, self._handle.monotonic() - started, devices)

    def _are_devices_ready(self, to_bind: ClaimsToBind) -> bool:
        for place, claim in enumerate(to_bind.claims):
            if extended_resources.is_virtual(claim):
                continue
            latest = self._manager.claims.get(key_of(claim))
            if latest is None:
                raise BindingFailed(not_found(key_of(claim)), "error")
            to_bind.claims[place] = latest
            if not binding_conditions.are_true(latest):
                if self.has_timed_out(latest):
                    raise BindingFailed(f"{TIMED_OUT}: claim={key_of(latest).name}", "timeout")
                return False
        return True

    def _begin_taking_back(self, pod: PodInfo) -> Callable[[], None]:
        """Later attempts of the Pod wait in PreBind until the result is called: its claims may lose what they have."""
        over = asyncio.Event()
        under_way = self._taking_back.setdefault(pod.uid, set())
        under_way.add(over)

        def end() -> None:
            over.set()
            under_way.discard(over)
            if not under_way:
                self._taking_back.pop(pod.uid, None)

        return end

    async def _unless_bound(
        self, pod: PodInfo, write: Callable[[], Awaitable[object]], end: Callable[[], None] = lambda: None
    ) -> None:
        """Make this write unless the Pod has a Node by now; the Pod is tried again where it has, or the write fails.

        `end` is called when the write is over.
        """
        try:
            if not await self._writes.has_node(pod):
                await write()
                return
        except ClaimError as error:
            _log.warning("a claim was not given up", extra={"object": str(pod.key), "error": str(error)})
        finally:
            end()
        await self._try_again(pod)

    async def _try_again(self, pod: PodInfo) -> None:
        """Activating a Pod does not keep to its back-off: what fails again and again would be tried without a pause."""
        try:
            await self._handle.sleep(_BACK_OFF)
        finally:
            self._handle.activate([pod])

    async def _release(
        self, pod: PodInfo, reserved: Sequence[Object], created: Sequence[Object], end: Callable[[], None]
    ) -> None:
        """Take back reservations, and delete what was created for extended resources, of a Pod without a Node.

        A Pod that was bound in spite of the failure keeps them.  What fails here is found by the next attempt of the
        Pod, or by the controller of claims once the Pod is gone.
        """
        writes = [
            *(partial(self._writes.release, each, pod) for each in reserved),
            *(partial(self._writes.delete, each) for each in created),
        ]
        try:
            if await self._writes.has_node(pod):
                return
            for write in writes:
                try:
                    await write()
                except ClaimError as error:
                    _log.warning("unreserve failed", extra={"object": str(pod.key), "error": str(error)})
        finally:
            end()

    async def _settle(self, claim: Object, uid: str, pod: PodInfo) -> None:
        """Keep the allocation pending until it is known whether it was written; only then the Pod is tried again."""
        try:
            await self._writes.settle(claim)
        except asyncio.CancelledError:
            self._unsettled.append((claim, uid, pod))
            raise
        self._forget(claim, uid, pod)
        await self._try_again(pod)

    def _forget(self, claim: Object, uid: str, pod: PodInfo) -> bool:
        """Take back this attempt's share in the pending allocation; whether nobody has one any more.

        No object changes then, so the Pods are moved here that wait for its devices, or until it is written.
        """
        pending = self._manager.claims.pending_allocation(uid)
        if not self._manager.claims.remove_pending_allocation(uid):
            return False
        if self._manager.claims.allocation(uid) is None:
            status = claim.get("status") or {}
            self._handle.freed(pod, {**claim, "status": {**status, "allocation": pending}}, claim)
        return True
