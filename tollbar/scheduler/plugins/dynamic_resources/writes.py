"""The API calls of DynamicResources: what becomes of the claims of one Pod once its Node is decided.

Each write is fenced by the resourceVersion of the claim as it was read for that write, and shown to the cache at once.
Writes of one claim take turns: Pods that share it would only be refused by each other's.  Where one gets no answer,
those that wait for their turn fail with it, and do not wait for the API server one after the other.
Source: bindClaim, deleteClaim and Unreserve in pkg/scheduler/framework/plugins/dynamicresources.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from tollbar import wellknown
from tollbar.dra.claims import Holder
from tollbar.dra.manager import DraManager
from tollbar.model import claims, pods, timestamps
from tollbar.model.objects import Key, Object, key_of, metadata, spec, uid_of
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.errors import ApiError, Conflict, NotFound, Unreachable
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import entry_for

KIND: Final = "ResourceClaim"
_ALLOCATED: Final = ("allocation", "reservedFor", "devices")
"""The fields of the status that an allocated claim has."""
_TRIES: Final = 5
"""How often a write that is refused with a conflict is made in all, as by retry.DefaultRetry of client-go."""
_PAUSE: Final = 0.01
"""Seconds between two of these, and between the first two looks for a claim that is being deleted."""
_LONGEST_PAUSE: Final = 30.0
"""Seconds up to which pauses double where nothing tells when to look again."""
_log: Final = logging.getLogger(__name__)


class ClaimError(Exception):
    """Why a claim could not be written; `unanswered` if nobody knows whether it was, and how the claim is now."""

    def __init__(self, message: str, *, unanswered: bool = False) -> None:
        super().__init__(message)
        self.unanswered = unanswered


@dataclass(eq=False)
class _Turns:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    unanswered: str = ""
    """The error of a write without an answer, with which the writes that wait for their turn fail; else empty."""


class ClaimWrites:
    """Makes the API calls, and remembers nothing but which writes wait for their turn."""

    def __init__(self, handle: Handle, manager: DraManager) -> None:
        self._handle = handle
        self._calls = handle.calls
        self._manager = manager
        self._turns: WeakValueDictionary[str, _Turns] = WeakValueDictionary()
        """By the uid of a claim that is being written, or for which writes wait."""

    async def create(self, claim: Object) -> Object:
        """Create the claim for a Pod's extended resources.  ClaimError if that fails."""
        try:
            return await self._calls.create(KIND, claim)
        except ApiError as error:
            namespace = metadata(claim)["namespace"]
            raise ClaimError(f"create claim for extended resources {namespace}/: {error.message}") from error

    async def record_extended(self, pod: PodInfo, claim: Object, mappings: Sequence[Object]) -> None:
        """Say in the Pod's status which claim has its extended resources.  ClaimError if that fails."""
        recorded = {"requestMappings": list(mappings), "resourceClaimName": key_of(claim).name}
        try:
            await self._calls.patch_pod_status(pod, {"status": {"extendedResourceClaimStatus": recorded}})
        except ApiError as error:
            raise ClaimError(f"update pod {pod.key} ExtendedResourceClaimStatus: {error.message}") from error

    async def reserve(self, claim: Object, pod: PodInfo, allocation: Object | None, filtered: Object | None) -> Object:
        """Write the allocation, if there is one, and the Pod's reservation; the claim as it is then.

        Without one the claim has to have the devices of the allocation `filtered`, for which the Node was chosen.
        Raises ClaimError.
        """
        return await self._in_turn(claim, lambda current: self._reserve(current, pod, allocation, filtered))

    async def _reserve(self, claim: Object, pod: PodInfo, allocation: Object | None, filtered: Object | None) -> Object:
        key = key_of(claim)
        if metadata(claim).get("deletionTimestamp"):
            raise ClaimError(f"claim {key} got deleted in the meantime")
        there = claims.allocation(claim)
        if allocation is not None:
            if there is not None:
                raise ClaimError(f"claim {key} got allocated elsewhere in the meantime")
            if not claims.is_protected(claim):
                claim = await self._protect(claim)
        elif there is None:
            raise ClaimError(f"claim {key} got deallocated elsewhere in the meantime")
        elif not claims.has_devices_of(claim, filtered):
            raise ClaimError(f"claim {key} got other devices in the meantime")
        elif claims.is_reserved_for(claim, pod.object):
            return claim  # by an earlier attempt, the answer to which was lost, or for its PodGroup
        status = {
            **(claim.get("status") or {}),
            "allocation": {"allocationTimestamp": timestamps.time(self._handle.now()), **(allocation or there or {})},
            "reservedFor": [*claims.reserved_for(claim), entry_for(claim, pod.object, self._group_of(pod))],
        }
        what = "allocation and reservation" if allocation is not None else "reservation"
        return await self._write({**claim, "status": status}, "status", f"add {what} to claim {key}")

    def _group_of(self, pod: PodInfo) -> Object | None:
        name = pods.scheduling_group(pod.object)
        return self._handle.listers.pod_groups.get(Key(pod.key.namespace, name)) if name else None

    async def _protect(self, claim: Object) -> Object:
        finalizers = [*(metadata(claim).get("finalizers") or ()), wellknown.DELETE_PROTECTION_FINALIZER]
        protected = {**claim, "metadata": {**metadata(claim), "finalizers": finalizers}}
        return await self._write(protected, "", f"add finalizer to claim {key_of(claim)}")

    async def _unprotect(self, claim: Object) -> Object:
        finalizers = metadata(claim).get("finalizers") or []
        left = [each for each in finalizers if each != wellknown.DELETE_PROTECTION_FINALIZER]
        if left == finalizers:
            return claim
        body = {**claim, "metadata": {**metadata(claim), "finalizers": left}}
        return await self._write(body, "", f"update resourceclaim {key_of(claim)}")

    async def release(self, claim: Object, pod: PodInfo) -> None:
        """Take back the Pod's reservation; the allocation stays.  Raises ClaimError."""

        async def write(current: Object) -> Object:
            left = [each for each in claims.reserved_for(current) if each.get("uid") != pod.uid]
            if left == claims.reserved_for(current):
                return current
            body = {**current, "status": {**current["status"], "reservedFor": left}}
            return await self._write(body, "status", f"remove reservation from claim {key_of(claim)}")

        try:
            await self._take_back(claim, write)
        except _Gone:
            return

    async def deallocate(self, claim: Object) -> bool:
        """Give up the allocation and all reservations, unless either have changed since, which is false.

        Raises ClaimError.
        """
        held = claims.allocation(claim), claims.reserved_for(claim)

        async def write(current: Object) -> Object:
            if (claims.allocation(current), claims.reserved_for(current)) != held:
                return current
            status = {name: each for name, each in current["status"].items() if name not in _ALLOCATED}
            return await self._write({**current, "status": status}, "status", f"deallocate claim {key_of(claim)}")

        return claims.allocation(await self._take_back(claim, write)) is None

    async def delete(self, claim: Object) -> None:
        """Delete a claim that the scheduler has created, with what it holds, and wait until the cache shows it.

        Raises ClaimError.
        """

        try:
            await self._take_back(claim, self._unprotect)
            await self._calls.delete(KIND, key_of(claim), uid=uid_of(claim))
        except (_Gone, NotFound):
            pass
        except ApiError as error:
            raise ClaimError(error.message) from error
        pause = _PAUSE
        while (held := self._manager.claims.get(key_of(claim))) is not None and uid_of(held) == uid_of(claim):
            await self._handle.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def has_node(self, pod: PodInfo) -> bool:
        """Whether the Pod has a Node by now, which the cache may not show; true if that cannot be found out."""
        try:
            found = await self._calls.get("Pod", pod.key)
        except NotFound:
            return False
        except ApiError as error:
            _log.warning("a pod cannot be read", extra={"object": str(pod.key), "error": str(error)})
            return True
        return uid_of(found) == pod.uid and bool(spec(found).get("nodeName"))

    async def settle(self, claim: Object) -> None:
        """Find out what became of a write without an answer, and show the cache.  Asks until it knows.

        The API server may still be at work on that write.  So a claim that has no allocation loses its finalizer, which
        it needs with an allocation only: what arrives after that change is a conflict.
        """
        pause = 1.0
        while True:
            try:
                found = await self._calls.get(KIND, key_of(claim))
                if uid_of(found) == uid_of(claim):
                    self._shown(found if claims.allocation(found) is not None else await self._unprotect(found))
                return
            except (NotFound, _Gone):
                return
            except (ApiError, ClaimError) as error:
                _log.warning("a claim is not settled", extra={"object": str(key_of(claim)), "error": str(error)})
            await self._handle.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def resolve_collisions(self, claim: Object) -> None:
        """If the allocation that was just written takes what other claims hold, take the later one back.

        A pending allocation has no time yet, and counts as the earlier one.  Where the Pod of the other claim has a
        Node already, it is this one that gives way; so it does where a device offers less by now than this claim alone
        takes.  ClaimError if it gives way.
        """
        uid, allocation = uid_of(claim), claims.allocation(claim) or {}
        ours = _order(allocation, uid)
        while collisions := self._manager.claims.collisions_of(uid, allocation):
            later = [each for each in collisions[0].holders if _order(each.allocation, each.uid) > ours]
            latest = max(later, key=lambda each: _order(each.allocation, each.uid), default=None)
            if latest is None or not await self._took_back(latest):
                await self.deallocate(claim)
                raise ClaimError(f"allocation of claim {key_of(claim)} was taken back because of {collisions[0]}")

    async def _took_back(self, holder: Holder) -> bool:
        """Whether the other claim gave way."""
        other = self._manager.claims.get(holder.claim)
        if other is None or uid_of(other) != holder.uid or self._is_in_use(other):
            return False
        try:
            return await self.deallocate(other)
        except ClaimError as error:
            _log.warning("a collision remains", extra={"object": str(holder.claim), "error": str(error)})
            return False

    def _is_in_use(self, claim: Object) -> bool:
        users = {each.get("uid") for each in claims.reserved_for(claim)}
        return any(uid in node.pods for node in self._handle.snapshot for uid in users)

    async def _take_back(self, claim: Object, write: Callable[[Object], Awaitable[Object]]) -> Object:
        """As `_in_turn`; where this write or the one before it gets no answer, it fails once the claim was read again,
        into the cache.

        So no later attempt of a Pod relies on what the claim may not have any more.  A write that comes to pass later
        still is a conflict only where the claim was written meanwhile; the API server gives it up when the `timeout` is
        over that was sent with it.
        """
        try:
            return await self._in_turn(claim, write)
        except ClaimError as error:
            if error.unanswered or isinstance(error, _NotMade):
                await self.settle(claim)
            raise

    async def _in_turn(self, claim: Object, write: Callable[[Object], Awaitable[Object]]) -> Object:
        """Make this write of the claim when its turn comes.  Where it gets no answer, those that wait fail with it."""
        turns = self._turns.setdefault(uid_of(claim), _Turns())
        async with turns.lock:
            if turns.unanswered:
                raise _NotMade(turns.unanswered)
            try:
                return await self._with_retries(claim, write)
            except _Outdated:
                raise
            except ClaimError as error:
                if error.unanswered:
                    turns.unanswered = str(error)
                    self._turns.pop(uid_of(claim), None)  # who comes from now on tries it again
                raise

    async def _with_retries(self, claim: Object, write: Callable[[Object], Awaitable[Object]]) -> Object:
        """Write to the claim as the cache has it, and after a conflict to the newer one, `_TRIES` times at most."""
        latest = self._manager.claims.get(key_of(claim))
        if latest is not None and uid_of(latest) == uid_of(claim):
            claim = latest
        for _ in range(_TRIES - 1):
            try:
                return self._shown(await write(claim))
            except _Outdated:
                await self._handle.sleep(_PAUSE)
                claim = await self._newer(claim)
        return self._shown(await write(claim))

    def _shown(self, claim: Object) -> Object:
        self._manager.claims.assume(claim)
        return claim

    async def _newer(self, claim: Object) -> Object:
        key = key_of(claim)
        try:
            found = await self._calls.get(KIND, key)
        except ApiError as error:
            what = f"get updated claim {key} after conflict: {error.message}"
            raise _Gone(what) if isinstance(error, NotFound) else ClaimError(what, unanswered=True) from error
        if uid_of(found) != uid_of(claim):
            raise ClaimError(f"claim {key} got deleted in the meantime")
        return self._shown(found)

    async def _write(self, claim: Object, subresource: str, what: str) -> Object:
        body = {**RESOURCE_CLAIMS.type_meta, **claim}
        try:
            return await self._calls.update(KIND, body, subresource=subresource)
        except Conflict as error:
            raise _Outdated(f"{what}: {error.message}") from error
        except NotFound as error:
            raise _Gone(f"{what}: {error.message}") from error
        except ApiError as error:
            unanswered = error.status >= 500 or (isinstance(error, Unreachable) and error.sent)
            raise ClaimError(f"{what}: {error.message}", unanswered=unanswered) from error


class _Outdated(ClaimError):
    """The claim has changed since, perhaps by this very write: a proxy may send a PUT again whose answer it lost."""

    def __init__(self, message: str) -> None:
        super().__init__(message, unanswered=True)


class _NotMade(ClaimError):
    """The write of the claim before this one got no answer."""


class _Gone(ClaimError):
    """The claim does not exist any more."""


def _order(allocation: Object, uid: str) -> tuple[str, str]:
    """Sorts the later allocation last, of equal ones that of the greater uid."""
    return str(allocation.get("allocationTimestamp") or ""), uid
