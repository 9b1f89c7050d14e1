"""Why a request cannot get the devices of a Node: of each device, what stands in the way.

It asks what the search asks (`tollbar.dra.candidates`), of one device at a time and without what else the Pod's claims
get: a device that is not excluded here may still be needed for another request, or refused by a constraint.  What lies
in the device comes before what others do with it, since a device that does not match is of no use when it is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tollbar.dra.allocator import Allocator
from tollbar.dra.candidates import Candidate
from tollbar.dra.inventory import Pool, PoolId, PoolState
from tollbar.dra.requests import Request
from tollbar.dra.slices import Device
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object
from tollbar.model.plan import Code
from tollbar.model.tolerations import untolerated


class Exclusion(Code):
    """Reasons for which a request cannot get a device, as `tollbar explain pod` shows them."""

    FREE = "Free", "Nothing excludes the device by itself."
    SELECTOR = "Selector", "A selector of the class or of the request is not true of the device."
    SELECTOR_FAILED = "SelectorFailed", "A selector has no answer for the device, which ends the whole search."
    CAPACITY = "Capacity", "The device does not offer the capacity that is asked for."
    OTHER_NODE = "OtherNode", "The device cannot be used from the Node."
    TAINT = "Taint", "The device has a taint that the request does not tolerate."
    TAKEN = "Taken", "Another claim holds the device."
    COUNTERS = "Counters", "Other devices have used up a counter that the device consumes."
    CAPACITY_TAKEN = "CapacityTaken", "Other claims have so much of the shared device that too little is left."
    NOT_SUPPORTED = "NotSupported", "The device uses a feature that is switched off."


@dataclass(frozen=True, slots=True)
class Excluded:
    """`detail` names the selector, the taint or the counter; `taint` is the taint itself, None for other reasons."""

    device: DeviceId
    why: Exclusion
    detail: str = ""
    taint: Object | None = None


def unusable_pools(allocator: Allocator, node: Object) -> list[tuple[PoolId, PoolState]]:
    """The pools of this Node that give no devices: incomplete, or invalid."""
    pools = allocator.inventory.pools(node)
    return sorted((pool.id, pool.state) for pool in pools if pool.state is not PoolState.USABLE)


def exclusions(allocator: Allocator, request: Request, node: Object) -> Iterator[Excluded]:
    """Of every device in the usable pools of the Node, in the order in which they are tried."""
    for pool in sorted(allocator.inventory.pools(node), key=lambda pool: pool.order):
        yield from in_pool(allocator, request, pool, node)


def in_pool(allocator: Allocator, request: Request, pool: Pool, node: Object) -> Iterator[Excluded]:
    """Of every device of the pool, as the Node sees it; none where the pool is not usable."""
    if allocator.may_use(pool):
        for device in pool.devices:
            yield _examined(allocator, request, pool, device, node)


def _examined(allocator: Allocator, request: Request, pool: Pool, device: Device, node: Object) -> Excluded:
    examiner = allocator.setting.examiner
    candidate = examiner.candidate(request, pool, device, node)
    if candidate is None:
        return Excluded(device.id, *_mismatch(allocator, request, pool, device, node))
    if candidate.error:
        return Excluded(device.id, Exclusion.SELECTOR_FAILED, candidate.error)
    if not examiner.is_allowed(request, device):
        taint = untolerated(device.taints, request.tolerations)
        if taint is None:
            return Excluded(device.id, Exclusion.NOT_SUPPORTED, "counters")
        return Excluded(device.id, Exclusion.TAINT, taint_text(taint), taint)
    if not examiner.is_free(request, device):
        return Excluded(device.id, Exclusion.TAKEN)
    return Excluded(device.id, *_used_up(allocator, candidate))


def _mismatch(
    allocator: Allocator, request: Request, pool: Pool, device: Device, node: Object
) -> tuple[Exclusion, str]:
    if device.binding_conditions and not allocator.inventory.features.binding_conditions:
        return Exclusion.NOT_SUPPORTED, "binding conditions"
    selector = allocator.setting.examiner.refusing(request, device)
    if selector is not None:
        return Exclusion.SELECTOR, f"{selector.origin}: {selector.expression}"
    if pool.is_per_device and not device.reach.includes(node):
        return Exclusion.OTHER_NODE, ""
    return Exclusion.CAPACITY, ", ".join(name for name, _ in request.capacity)


def _used_up(allocator: Allocator, candidate: Candidate) -> tuple[Exclusion, str]:
    state, device = allocator.setting.state, candidate.device
    if device.consumes and not (candidate.is_share and device.id in state.shares):
        free = allocator.setting.counters.of(candidate.pool)
        if free is None:
            return Exclusion.COUNTERS, "more is consumed than there is"
        for (counter_set, counter), value in device.consumes:
            if value > free[counter_set, counter]:
                return Exclusion.COUNTERS, f"{counter_set}/{counter}"
    held = state.capacity.get(device.id, {})
    for name, wanted, limit in candidate.consumed.parts:
        if held and held.get(name, 0) + wanted > limit:
            return Exclusion.CAPACITY_TAKEN, name
    return Exclusion.FREE, ""


def taint_text(taint: Object) -> str:
    """As kubectl describes a taint: `key=value:effect`."""
    value = taint.get("value")
    return f"{taint.get('key')}{f'={value}' if value else ''}:{taint.get('effect')}"
