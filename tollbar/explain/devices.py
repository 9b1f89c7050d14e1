"""Nodes that have no devices for the claims of a Pod: which devices each request cannot get, and why."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tollbar.dra.allocator import Allocator, Failed
from tollbar.dra.exclusions import Excluded, Exclusion, exclusions, unusable_pools
from tollbar.dra.inventory import PoolState
from tollbar.dra.requests import Request
from tollbar.dra.search import FailingDevice, UnusablePool
from tollbar.dra.state import AllocatedState
from tollbar.explain.causes import Cause
from tollbar.explain.changes import MOST, NODES_LOOKED_AT, Change, Group, Rejection, named
from tollbar.explain.devicechanges import changes_for, completed, deallocated, fewer, holders_of, loosened, unselective
from tollbar.explain.nodes import other
from tollbar.explain.values import DeviceGroup
from tollbar.model import claims, nodeaffinity
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS
from tollbar.model.steps import result_of
from tollbar.model.texts import counted
from tollbar.offline import Cluster
from tollbar.scheduler.framework.status import Status
from tollbar.scheduler.plugins.dynamic_resources.plugin import UNAVAILABLE
from tollbar.wellknown import EXTENDED_RESOURCES_CLAIM

_STAGES: Final[tuple[Exclusion | Cause, ...]] = (
    Exclusion.SELECTOR_FAILED,
    Exclusion.NOT_SUPPORTED,
    Exclusion.OTHER_NODE,
    Exclusion.SELECTOR,
    Exclusion.CAPACITY,
    Cause.TOO_FEW_DEVICES,
    Exclusion.TAINT,
    Exclusion.TAKEN,
    Exclusion.COUNTERS,
    Exclusion.CAPACITY_TAKEN,
    Exclusion.FREE,
)
"""Why a request does not get the devices of a Node: the later in this order, the less is missing on the Node.

TOO_FEW_DEVICES is of the Node: fewer devices match than are asked for.  A device that is excluded for what comes after
matches the request.
"""
_TOO_FEW: Final = _STAGES.index(Cause.TOO_FEW_DEVICES)
_CAUSES: Final = {
    Exclusion.SELECTOR_FAILED: Cause.SELECTOR_FAILED,
    Exclusion.NOT_SUPPORTED: Cause.NO_DEVICE_MATCHES,
    Exclusion.OTHER_NODE: Cause.NO_DEVICES,
    Exclusion.SELECTOR: Cause.NO_DEVICE_MATCHES,
    Exclusion.CAPACITY: Cause.NO_DEVICE_MATCHES,
    Exclusion.TAINT: Cause.DEVICE_TAINTED,
    Exclusion.TAKEN: Cause.DEVICE_TAKEN,
    Exclusion.COUNTERS: Cause.COUNTERS_EXHAUSTED,
    Exclusion.CAPACITY_TAKEN: Cause.CAPACITY_EXHAUSTED,
}
_HELD: Final = (Cause.DEVICE_TAKEN, Cause.COUNTERS_EXHAUSTED, Cause.CAPACITY_EXHAUSTED)
"""Causes that are gone when other claims give up their devices."""
_SEARCH: Final = 2.0
"""Seconds in which it is tried whether claims would fit if nobody else had devices."""
_WORDS: Final = {
    Exclusion.FREE: "free",
    Exclusion.SELECTOR: "not selected",
    Exclusion.SELECTOR_FAILED: "whose selector fails",
    Exclusion.CAPACITY: "without the capacity",
    Exclusion.OTHER_NODE: "for other Nodes",
    Exclusion.TAINT: "tainted",
    Exclusion.TAKEN: "taken",
    Exclusion.COUNTERS: "without counters left",
    Exclusion.CAPACITY_TAKEN: "without capacity left",
    Exclusion.NOT_SUPPORTED: "not supported",
}
_ACTIONS: Final = {
    Cause.SELECTOR_FAILED: ("the author of the class or the claim", "guard the field in the selector with has()"),
    Cause.NO_DEVICE_MATCHES: ("the author of the claim", "ask for what the devices have: see the devices below"),
    Cause.TOO_FEW_DEVICES: ("the author of the claim", "ask for fewer devices, or add a Node that has as many"),
    Cause.NO_DEVICES: (
        "who runs the Nodes and the drivers",
        "see whether the driver runs on the Nodes that have devices",
    ),
    Cause.DEVICE_TAINTED: (
        "who set the taint",
        "remove the DeviceTaintRule or repair the device; claims may tolerate it, new ones also by a TolerationRule",
    ),
    Cause.DEVICE_TAKEN: ("who uses the devices", "wait until one of the holders ends, or add devices"),
    Cause.COUNTERS_EXHAUSTED: (
        "who uses the devices",
        "wait until one of the holders ends, or ask for a smaller partition",
    ),
    Cause.CAPACITY_EXHAUSTED: ("who uses the devices", "wait until one of the holders ends, or ask for less capacity"),
    Cause.POOL_INCOMPLETE: (
        "the driver of the devices",
        "publish all ResourceSlices of the pool; see the driver's log",
    ),
    Cause.POOL_INVALID: ("the driver of the devices", "publish ResourceSlices that do not contradict each other"),
    Cause.CONSTRAINT: ("the author of the claim", "loosen the constraint, or ask for fewer devices"),
}


@dataclass(slots=True)
class _OnNode:
    """One Node: the devices of each request that is not satisfied there by itself."""

    name: str
    short: list[tuple[Request, list[Excluded]]] = field(default_factory=list)
    stage: int = len(_STAGES)
    """The place in `_STAGES` of the request that lacks most: how near the Node is to having enough."""


def rejections(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    """Of claims that have no allocation the nearest Nodes tell the cause; and allocated claims that are elsewhere."""
    if group.reason == UNAVAILABLE:
        yield from _elsewhere(cluster, pod, group)
        return
    allocator = cluster.scheduler.allocator()
    asked = list(requests(cluster, pod))
    nodes = [_look(allocator, asked, cluster.get(NODES, name) or {}) for name in group.nodes[:NODES_LOOKED_AT]]
    nearest = max((each.stage for each in nodes), default=0)
    best = [each for each in nodes if each.stage == nearest]
    unusable = {
        pool: state for each in nodes for pool, state in unusable_pools(allocator, cluster.get(NODES, each.name) or {})
    }
    incomplete = [pool for pool, state in unusable.items() if state is PoolState.INCOMPLETE]
    invalid = [str(pool) for pool, state in unusable.items() if state is PoolState.INVALID]
    if invalid:
        yield _rejection(
            Cause.POOL_INVALID, f"{group.on}: the ResourceSlices of {named('pool', invalid)} contradict each other"
        )
    if incomplete:
        pools = named("pool", list(map(str, incomplete)))
        what = f"{group.on}: some ResourceSlices of {pools} are missing, so that it gives no devices"
        yield _rejection(Cause.POOL_INCOMPLETE, what, (completed(cluster, incomplete),))
    if not asked:
        yield from other(cluster, pod, group)
    elif best and not best[0].short:
        yield _together(cluster, asked, best, group, "enough devices are free, but not together")
    elif best and not (nearest in (-1, _TOO_FEW) and (incomplete or invalid)):
        short = _short(cluster, best, group)
        if short.cause in _HELD and not _fits_alone(cluster, pod, best):
            short = _together(cluster, asked, best, group, "not together, even if no other claim had any")
        yield short


def groups(cluster: Cluster, pod: Object, nodes: Sequence[str]) -> tuple[DeviceGroup, ...]:
    """The devices of these Nodes by request and reason."""
    allocator = cluster.scheduler.allocator()
    found: dict[tuple[str, Exclusion, str], dict[DeviceId, None]] = {}
    for request in requests(cluster, pod):
        for name in nodes[:NODES_LOOKED_AT]:
            for each in exclusions(allocator, request, cluster.get(NODES, name) or {}):
                found.setdefault((request.label, each.why, each.detail), {})[each.device] = None
    return tuple(
        DeviceGroup(
            request=request,
            why=str(why),
            detail=detail,
            count=len(devices),
            devices=tuple(map(str, list(devices)[:MOST])),
            holders=tuple(dict.fromkeys(str(key) for key in holders_of(cluster, devices)))[:MOST],
        )
        for (request, why, detail), devices in found.items()
    )


def _to_allocate(cluster: Cluster, pod: Object) -> list[Object]:
    """The claims of the Pod that have no allocation; that for extended resources as it would be."""
    found = []
    for claim in cluster.package(pod).claims:
        key = key_of(claim)
        if key.name == EXTENDED_RESOURCES_CLAIM:
            found.append(claim)
        elif (known := cluster.scheduler.dra.claims.get(key)) is not None and claims.allocation(known) is None:
            found.append(known)
    return found


def requests(cluster: Cluster, pod: Object) -> Iterator[Request]:
    """Those of the Pod's claims that have no allocation; of a prioritized list every alternative."""
    allocator = cluster.scheduler.allocator()
    for place, claim in enumerate(_to_allocate(cluster, pod)):
        for alternatives in result_of(allocator.parsed(place, claim)).requests:
            yield from alternatives


def _look(allocator: Allocator, asked: Sequence[Request], node: Object) -> _OnNode:
    found = _OnNode(key_of(node).name)
    by_request: dict[tuple[int, int], list[tuple[Request, list[Excluded]]]] = {}
    for request in asked:
        devices = list(exclusions(allocator, request, node))
        by_request.setdefault((request.claim, request.index), []).append((request, devices))
    for alternatives in by_request.values():
        stages = [_stage(request, devices) for request, devices in alternatives]
        if max(stages) < len(_STAGES):
            found.short.append(alternatives[stages.index(max(stages))])
            found.stage = min(found.stage, max(stages))
    return found


def _stage(request: Request, devices: Sequence[Excluded]) -> int:
    """What is in the way at the last of the devices that are needed, the nearest ones first.

    The number of stages if enough devices are free, -1 if there are none.
    """
    if request.count is None:
        others = [_STAGES.index(each.why) for each in devices if each.why in (Exclusion.TAINT, Exclusion.TAKEN)]
        is_free = any(each.why is Exclusion.FREE for each in devices)
        return max(others, default=len(_STAGES) if is_free else -1)
    stages = sorted((_STAGES.index(each.why) for each in devices), reverse=True)
    matching = len(_matching(devices))
    if matching < request.count:
        return _TOO_FEW if matching else max(stages, default=-1)
    last = stages[request.count - 1]
    return len(_STAGES) if _STAGES[last] is Exclusion.FREE else last


def _matching(devices: Iterable[Excluded]) -> set[DeviceId]:
    """Those that the request could have if nobody else had them, and without taints."""
    return {each.device for each in devices if _STAGES.index(each.why) > _TOO_FEW}


def _short(cluster: Cluster, nodes: Sequence[_OnNode], group: Group) -> Rejection:
    stage = nodes[0].stage
    request, _ = min(nodes[0].short, key=lambda pair: _stage(*pair))
    devices = {each.device: each for node in nodes for asked, found in node.short for each in found if asked is request}
    counts = Counter(each.why for each in devices.values())
    words = ", ".join(
        f"{counts[why]} {_WORDS[why]}" for why in reversed(_STAGES) if isinstance(why, Exclusion) and counts[why]
    )
    what = f"{_on(nodes, group)}: {_asks(request)}; {words or 'there are none'}"
    reached = _STAGES[stage] if stage >= 0 else Cause.NO_DEVICES
    cause = _CAUSES[reached] if isinstance(reached, Exclusion) else reached
    most = max(len(_matching(found)) for node in nodes for asked, found in node.short if asked is request)
    if cause is Cause.TOO_FEW_DEVICES:
        what += f"; one Node has {'at most ' if len(nodes) > 1 else ''}{most} that match"
    details = [each for each in devices.values() if each.why is _STAGES[stage]] if stage >= 0 else []
    if cause in (Cause.NO_DEVICE_MATCHES, Cause.DEVICE_TAINTED, Cause.COUNTERS_EXHAUSTED, Cause.CAPACITY_EXHAUSTED):
        texts = list(dict.fromkeys(each.detail for each in details if each.detail))
        what += f" ({'; '.join(texts[:MOST])})" if texts else ""
    if cause in (Cause.DEVICE_TAKEN, Cause.CAPACITY_EXHAUSTED):
        holders = list(dict.fromkeys(str(key) for key in holders_of(cluster, [each.device for each in details])))
        what += f", held by {named('ResourceClaim', holders)}" if holders else ""
    changes = [*changes_for(cluster, cause, request, details), *fewer(cluster, cause, request, counts, most)]
    return _rejection(cause, what, tuple(changes))


def _fits_alone(cluster: Cluster, pod: Object, nodes: Sequence[_OnNode]) -> bool:
    """Whether the claims of the Pod would get their devices on one of these Nodes if no other claim had any."""
    dra, given = cluster.scheduler.dra, _to_allocate(cluster, pod)
    allocator = Allocator(dra.inventory, AllocatedState(), dra.classes, deadline=time.monotonic() + _SEARCH)
    found = (allocator.allocate(cluster.get(NODES, each.name) or {}, given) for each in nodes)
    return any(each.timed_out if isinstance(each, Failed) else each is not None for each in found)


def _together(
    cluster: Cluster, asked: Sequence[Request], nodes: Sequence[_OnNode], group: Group, why: str
) -> Rejection:
    """Requests that can be met each by itself: there are too few devices for all of them, or something else forbids it.

    Of alternatives the first one counts.
    """
    allocator = cluster.scheduler.allocator()
    first = list({(each.claim, each.index): each for each in reversed(asked)}.values())
    most = max(
        len(set[DeviceId]().union(*(_matching(exclusions(allocator, request, node)) for request in first)))
        for node in (cluster.get(NODES, each.name) or {} for each in nodes)
    )
    total = sum(each.count or 0 for each in first)
    what = f"{_on(nodes, group)}: {'; '.join(map(_asks, asked[:MOST]))}"
    if total > most:
        at_most = "at most " if len(nodes) > 1 else ""
        return _rejection(Cause.TOO_FEW_DEVICES, f"{what}: {total} in all; one Node has {at_most}{most} that match")
    return _rejection(Cause.CONSTRAINT, f"{what}: {why}", tuple(loosened(cluster, first)))


def _rejection(cause: Cause, what: str, changes: tuple[Change, ...] = ()) -> Rejection:
    who, action = _ACTIONS[cause]
    return Rejection(cause, what, who, action, changes)


def _on(nodes: Sequence[_OnNode], group: Group) -> str:
    """The Nodes, and of how many that were not all looked at."""
    total = len(group.nodes)
    more = f", of {total} of which {NODES_LOOKED_AT} were looked at" if total > NODES_LOOKED_AT else ""
    return f"{named('node', [each.name for each in nodes])}{more}"


def _asks(request: Request) -> str:
    count = "all devices" if request.count is None else counted(request.count, "device")
    return f"{request.label} asks for {count} of class {key_of(request.device_class).name}"


def wanted(cluster: Cluster, asked: Object) -> str:
    """What `exactly` or an entry of `firstAvailable` asks for: `2 of gpu`, `2 of gpu (missing)` without the class."""
    count = "all" if asked.get("allocationMode") == "All" else str(asked.get("count") or 1)
    name = str(asked.get("deviceClassName") or "")
    is_missing = cluster.knows(DEVICE_CLASSES) and cluster.get(DEVICE_CLASSES, name) is None
    return f"{count} of {name}{' (missing)' if is_missing else ''}"


def failure(cluster: Cluster, pod: Object, status: Status) -> Rejection | None:
    """The rejection for a failed search for devices, whose error counts for all Nodes; None for errors of claims."""
    match status.error:
        case UnusablePool(state=PoolState.INCOMPLETE):
            return _rejection(Cause.POOL_INCOMPLETE, status.message)
        case UnusablePool():
            return _rejection(Cause.POOL_INVALID, status.message)
        case FailingDevice():
            return _rejection(Cause.SELECTOR_FAILED, status.message, _without_selectors(cluster, pod))
    return None


def _without_selectors(cluster: Cluster, pod: Object) -> tuple[Change, ...]:
    """What may help where a selector fails, whichever it is: the requests with selectors, each without."""
    selective = [each for each in requests(cluster, pod) if each.selectors]
    return tuple(change for each in selective[:MOST] for change in unselective(cluster, Cause.SELECTOR_FAILED, each))


def _elsewhere(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    """Claims that are allocated for other Nodes."""
    for claim in cluster.package(pod).claims:
        key = key_of(claim)
        known = cluster.get(RESOURCE_CLAIMS, key.name, key.namespace)
        allocation = claims.allocation(known or {})
        selector = (allocation or {}).get("nodeSelector")
        if known is None or selector is None:
            continue
        nodes = [each for each in group.nodes if not nodeaffinity.selects(selector, cluster.get(NODES, each) or {})]
        if not nodes:
            continue
        keepers = [each for each in claims.reserved_for(known) if not claims.is_upstream_entry(each)]
        where = nodes_of(cluster, selector)
        what = f"{named('node', nodes)}: ResourceClaim {key} is allocated for {where}"
        if keepers:
            cause = Cause.RESERVATION_PINNED
            owners = ", ".join(f"{each.get('resource')}/{each.get('name')}" for each in keepers[:MOST])
            what, who = f"{what}, and {owners} keeps it there", f"the owner of {owners}"
            action = f"make room on {where}, or give the reservation up"
        else:
            cause = Cause.CLAIM_ON_OTHER_NODE
            users = [str(each.get("name")) for each in claims.reserved_for(known)]
            what += f", where {', '.join(users[:MOST])} uses it" if users else ""
            who, action = "who uses the claim", f"make room on {where}, or wait until the claim is free"
        change = Change(cause, f"ResourceClaim {key} gives up its devices", put=(deallocated(known),))
        yield Rejection(cause, what, who, action, (change,))


def nodes_of(cluster: Cluster, selector: Object) -> str:
    """The Nodes that an allocation can be used on."""
    names = [key_of(each).name for each in cluster.objects(NODES) if nodeaffinity.selects(selector, each)]
    return named("node", names) if names else "a Node that is gone"
