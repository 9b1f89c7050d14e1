"""ResourceClaims, and one consistent view of what they hold: allocations that the cache shows, and those in flight.

An allocation is pending from the moment when it is decided until the claim's status has been written and the cache
shows it.  For each claim the allocation that the cache shows counts, else the one that is pending: never both, and
never neither while it goes from the one to the other.  kube-scheduler's ResourceClaimTracker does the same.

Everything here is synchronous, and so is the cache: no reader sees half a change.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tollbar.dra.malformed import ERRORS, Malformed
from tollbar.dra.state import AllocatedState, Holding, holdings
from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store
from tollbar.wellknown import EXTENDED_RESOURCES_CLAIM

Offered: TypeAlias = Callable[[DeviceId], Mapping[str, int] | None]
"""What a device has of each capacity, in nano units; None for a device that is not known."""


@dataclass(slots=True, eq=False)
class Holder:
    """A claim with an allocation, and what that holds.  Not to be changed by others."""

    uid: str
    claim: Key
    allocation: Object
    held: tuple[Holding, ...]


class Collision(NamedTuple):
    """A device of which more is taken than there is, and the claims that hold it."""

    device: DeviceId
    holders: tuple[Holder, ...]

    def __str__(self) -> str:
        names = ", ".join(str(each.claim) for each in self.holders)
        return f"{self.device} (held by {names})" if names else str(self.device)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an allocation may not become pending.  With collisions, what it wants is taken: search again."""

    message: str
    collisions: tuple[Collision, ...] = ()


@dataclass(slots=True)
class _Pending:
    claim: Key
    allocation: Object
    held: tuple[Holding, ...]
    sharers: int = 1


class Claims:
    """The claims of this store, and the devices that they hold.

    `state` is the sum of all allocations.  It is changed in place, each time with a new `revision`: a search that was
    paused compares it to learn whether what it has found so far is stale.

    Create it before other handlers subscribe to the store, so that they see the state after the change that they are
    told of.
    """

    def __init__(
        self,
        store: Store,
        offered: Offered,
        malformed: Malformed,
        usage_changed: Callable[[DeviceId, bool], None] = lambda *_: None,
    ) -> None:
        """The store keeps the status of claims, and has the index `owner`.

        `usage_changed` is told of devices that are taken (true) or released.
        """
        self.state = AllocatedState()
        self.revision = 0
        self._store = store
        self._offered = offered
        self._malformed = malformed
        self._usage_changed = usage_changed
        self._pending: dict[str, _Pending] = {}
        self._overridden: dict[str, _Pending] = {}
        """What is pending for claims to which somebody else has given another allocation.

        It does not count, but would again if the other allocation were taken back.
        """
        self._holders: dict[str, Holder] = {}
        self._by_device: dict[DeviceId, dict[str, Holder]] = {}
        """Who holds each device, by uid."""
        store.subscribe(self._on_delta)
        store.replay(self._on_delta)

    def get(self, key: Key) -> Object | None:
        """The claim, with what was assumed; a pending allocation is not in it."""
        return self._store.get(key)

    def owned_by(self, uid: str) -> list[Object]:
        """The claims whose controlling owner has this uid."""
        return self._store.by_index("owner", uid)

    def pending_allocation(self, uid: str) -> Object | None:
        """The allocation that is pending for the claim with this uid."""
        found = self._pending.get(uid)
        return found.allocation if found is not None else None

    def allocation(self, uid: str) -> Object | None:
        """The allocation that counts for the claim with this uid: the one that the cache shows, else the pending."""
        found = self._holders.get(uid)
        return found.allocation if found is not None else None

    def holders(self, device: DeviceId) -> tuple[Holder, ...]:
        """The claims that hold this device, or a share of it."""
        return tuple(self._by_device.get(device, {}).values())

    def signal_pending_allocation(self, claim: Object) -> Object | Refused:
        """Make `status.allocation` of this claim pending, or share the one that is pending already.

        Returns the allocation that counts now, which is another one where the claim had one: what is pending is shared
        by as many as have signalled it, and nothing becomes pending for a claim that the cache shows allocated.
        Refused if the claim is gone, and if other claims hold what the allocation takes.  Who has signalled it has to
        call `remove_pending_allocation` in the end.

        KeyError or ValueError for an allocation that the API server would refuse.
        """
        uid, key = uid_of(claim), key_of(claim)
        if (pending := self._pending.get(uid)) is not None:
            pending.sharers += 1
            return self._holders[uid].allocation
        if key.name != EXTENDED_RESOURCES_CLAIM:
            cached = self._store.get(key)
            if cached is None or uid_of(cached) != uid:
                return Refused(f"ResourceClaim {key} does not exist any more")
            if (allocation := claims.allocation(cached)) is not None:
                return allocation
        allocation = claims.allocation(claim) or {}
        held = holdings(allocation)
        if collisions := self._collisions(uid, held, self._besides()):
            taken = ", ".join(map(str, collisions))
            return Refused(f"ResourceClaim {key} cannot be allocated, others hold what it needs: {taken}", collisions)
        self._pending[uid] = _Pending(key, allocation, held)
        self._settle(key, uid)
        return allocation

    def remove_pending_allocation(self, uid: str, *, force: bool = False) -> bool:
        """Take back one `signal_pending_allocation` of the claim with this uid; true if nothing is pending any longer.

        The allocation stays pending while others share it, unless with `force`.  Remove it after `assume`, or when
        nothing will be written; while the outcome of a write is not known, it has to stay.  False if none was pending.
        """
        pending = self._pending.get(uid)
        if pending is None:
            return False
        pending.sharers -= 1
        if pending.sharers and not force:
            return False
        del self._pending[uid]
        self._settle(pending.claim, uid)
        return True

    def created(self, virtual_uid: str, claim: Object) -> None:
        """The virtual claim for a Pod's extended resources (KEP-5004) has been created as this object.

        From now on the pending allocation of the one is that of the other.  Call it with the answer of the API server,
        before the allocation is written.
        """
        pending = self._pending.pop(virtual_uid, None)
        if pending is not None:
            before, pending.claim = pending.claim, key_of(claim)
            self._pending[uid_of(claim)] = pending
            self._settle(before, virtual_uid)
            self._settle(pending.claim, uid_of(claim))
        self.assume(claim, created=True)

    def assume(self, claim: Object, *, created: bool = False) -> None:
        """Show the answer to a write of the claim before the watch does (`Store.assume`)."""
        self._store.assume(claim, created=created)

    def restore(self, key: Key) -> None:
        """Take back what was assumed in memory and will not be written (`Store.restore`).

        An answer of the API server stays: the claim is like that, whatever fails afterwards.
        """
        if not self._store.is_ahead(key):
            self._store.restore(key)

    def collisions_of(self, uid: str, allocation: Object) -> tuple[Collision, ...]:
        """Where this allocation of the claim with this uid, counted or not, takes what other claims hold.

        KeyError or ValueError for an allocation that the API server would refuse.
        """
        return self._collisions(uid, holdings(allocation), ())

    def _collisions(
        self, uid: str, wanted: Iterable[Holding], besides: Iterable[tuple[Holder, Holding]]
    ) -> tuple[Collision, ...]:
        """Of these holdings with the ones that count, but for the claim's own, and those `besides`."""
        found = []
        of_device: dict[DeviceId, list[Holding]] = {}
        for each in wanted:
            of_device.setdefault(each.device, []).append(each)
        for device, parts in of_device.items():
            others = [holder for holder in self._by_device.get(device, {}).values() if holder.uid != uid]
            taken = [each for other in others for each in other.held if each.device == device]
            for holder, holding in besides:
                if holding.device == device:
                    others.append(holder)
                    taken.append(holding)
            if all(each.is_share for each in (*taken, *parts)):
                is_over = _exceeds(_sum((*taken, *parts)), self._offered(device))
            else:
                is_over = bool(taken)
            if is_over:
                found.append(Collision(device, tuple(others)))
        return tuple(found)

    def _besides(self) -> list[tuple[Holder, Holding]]:
        """What is overridden."""
        return [
            (Holder(uid, each.claim, each.allocation, each.held), holding)
            for uid, each in self._overridden.items()
            for holding in each.held
        ]

    def _on_delta(self, delta: Delta) -> None:
        obj = delta.new or delta.old or {}
        self._settle(key_of(obj), uid_of(obj))

    def _settle(self, key: Key, uid: str) -> None:
        """Count what counts for this claim now instead of what counted before."""
        pending = self._pending.get(uid)
        self._count(key, uid, pending)
        if pending is not None and pending.held != self._holders[uid].held:
            self._overridden[uid] = pending
        else:
            self._overridden.pop(uid, None)

    def _count(self, key: Key, uid: str, pending: _Pending | None) -> None:
        cached = self._store.get(key)
        allocation = claims.allocation(cached) if cached is not None and uid_of(cached) == uid else None
        if allocation is None and pending is not None:
            allocation = pending.allocation
        before = self._holders.get(uid)
        if before is not None and before.allocation == allocation:
            before.allocation = allocation
            return
        held = self._held(key, allocation)
        if before is not None and allocation is not None and before.held == held:
            before.allocation = allocation
            return
        if before is not None:
            self._drop(before)
        if allocation is not None:
            self._take(Holder(uid, key, allocation, held))
        if held or (before is not None and before.held):
            self.revision += 1

    def _held(self, key: Key, allocation: Object | None) -> tuple[Holding, ...]:
        """Nothing for an allocation that cannot be read."""
        try:
            held = holdings(allocation) if allocation is not None else ()
        except ERRORS as error:
            self._malformed.add(self._store.resource.kind, key, error)
            return ()
        self._malformed.discard(self._store.resource.kind, key)
        return held

    def _take(self, holder: Holder) -> None:
        self.state.take(holder.held)
        self._holders[holder.uid] = holder
        for device in {each.device for each in holder.held}:
            self._by_device.setdefault(device, {})[holder.uid] = holder
            self._usage_changed(device, True)

    def _drop(self, holder: Holder) -> None:
        self.state.release(holder.held)
        del self._holders[holder.uid]
        for device in {each.device for each in holder.held}:
            holders = self._by_device[device]
            del holders[holder.uid]
            if not holders:
                del self._by_device[device]
            self._usage_changed(device, False)


def _sum(held: Iterable[Holding]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in held:
        for name, value in each.consumed.items():
            total[name] = total.get(name, 0) + value
    return total


def _exceeds(consumed: Mapping[str, int], offered: Mapping[str, int] | None) -> bool:
    """False for a device that is not known; a capacity that it does not have is none."""
    return offered is not None and any(value > offered.get(name, 0) for name, value in consumed.items())
