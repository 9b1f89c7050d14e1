"""What could be different where devices are lacking: other claims, requests, taints, classes and slices."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from tollbar.decide.claims import devicetolerations
from tollbar.dra.exclusions import Excluded, Exclusion, taint_text
from tollbar.dra.inventory import PoolId
from tollbar.dra.requests import Request
from tollbar.explain.causes import Cause
from tollbar.explain.changes import MOST, Change, named, with_spec
from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.model.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES
from tollbar.offline import Cluster


def holders_of(cluster: Cluster, devices: Iterable[DeviceId]) -> Iterator[Key]:
    """The claims that have these devices, device by device."""
    for device in devices:
        for holder in cluster.scheduler.dra.claims.holders(device):
            yield holder.claim


def changes_for(cluster: Cluster, cause: Cause, request: Request, details: Sequence[Excluded]) -> Iterator[Change]:
    """Of this cause: `details` are the devices that the request lacks by it."""
    match cause:
        case Cause.DEVICE_TAKEN | Cause.CAPACITY_EXHAUSTED:
            yield from _given_up(cluster, cause, holders_of(cluster, (each.device for each in details)))
        case Cause.COUNTERS_EXHAUSTED:
            yield from _given_up(cluster, cause, _of_pools(cluster, details))
        case Cause.DEVICE_TAINTED:
            yield from _untainted(cluster, request, details)
        case Cause.NO_DEVICE_MATCHES:
            yield from unselective(cluster, cause, request)


def loosened(cluster: Cluster, asked: Sequence[Request]) -> Iterator[Change]:
    """Each claim without its constraints, and each request for one device less."""
    for claim in {key_of(each): each for request in asked if (each := _claim_of(cluster, request))}.values():
        asked_for = spec(claim).get("devices") or {}
        if asked_for.get("constraints"):
            put = with_spec(claim, devices={**asked_for, "constraints": []})
            yield Change(Cause.CONSTRAINT, f"claim {key_of(claim)} has no constraints", put=(put,))
    for request in asked[:MOST]:
        if request.count is not None and request.count > 1:
            text = f"{request.label} asks for {request.count - 1} instead of {request.count}"
            yield Change(Cause.CONSTRAINT, text, put=_with_request(cluster, request, count=request.count - 1))


def fewer(cluster: Cluster, cause: Cause, request: Request, counts: Counter[Exclusion], most: int) -> Iterator[Change]:
    """As many as are free, and as many as match on one Node."""
    for count in dict.fromkeys((counts[Exclusion.FREE], most)):
        if request.count is not None and 0 < count < request.count:
            text = f"{request.label} asks for {count} instead of {request.count}"
            yield Change(cause, text, put=_with_request(cluster, request, count=count))


def _given_up(cluster: Cluster, cause: Cause, holders: Iterable[Key]) -> Iterator[Change]:
    """Each holder without its devices."""
    for key in list(dict.fromkeys(holders))[:MOST]:
        claim = cluster.get(RESOURCE_CLAIMS, key.name, key.namespace)
        if claim is not None:
            users = [str(each.get("name")) for each in claims.reserved_for(claim)]
            by = f" (used by {', '.join(users[:MOST])})" if users else ""
            yield Change(cause, f"ResourceClaim {key}{by} gives up its devices", put=(deallocated(claim),))


def deallocated(claim: Object) -> Object:
    """The claim without allocation, consumers and what drivers said of its devices."""
    status = {
        name: value
        for name, value in (claim.get("status") or {}).items()
        if name not in ("allocation", "devices", "reservedFor")
    }
    return {**claim, "status": status}


def _of_pools(cluster: Cluster, details: Sequence[Excluded]) -> Iterator[Key]:
    """The claims that hold devices of these pools."""
    pools = {(each.device.driver, each.device.pool) for each in details}
    state = cluster.scheduler.dra.claims.state
    held = sorted(each for each in (*state.devices, *state.shares) if (each.driver, each.pool) in pools)
    return holders_of(cluster, held)


def _untainted(cluster: Cluster, request: Request, details: Sequence[Excluded]) -> Iterator[Change]:
    """Without a DeviceTaintRule, without the taints in a slice, and with tolerations."""
    taints = [each.taint for each in details if each.taint is not None]
    yield from _without_rules(cluster, {taint.get("key") for taint in taints})
    yield from _without_taints_in_slices(cluster, {each.device for each in details})
    yield from _with_tolerations_by_rules(cluster, request)
    tolerating = [*request.tolerations, {"operator": "Exists"}]
    yield Change(
        Cause.DEVICE_TAINTED,
        f"{request.label} tolerates {', '.join(sorted(set(map(taint_text, taints)))[:MOST])}",
        put=_with_request(cluster, request, tolerations=tolerating),
    )


def _without_rules(cluster: Cluster, keys: Collection[object]) -> Iterator[Change]:
    """Each DeviceTaintRule whose taint has one of these keys is gone."""
    for rule in cluster.objects(DEVICE_TAINT_RULES):
        if (spec(rule).get("taint") or {}).get("key") in keys:
            text = f"DeviceTaintRule {key_of(rule).name} is gone"
            yield Change(Cause.DEVICE_TAINTED, text, without=(rule,))


def _without_taints_in_slices(cluster: Cluster, tainted: Collection[DeviceId]) -> Iterator[Change]:
    """Each ResourceSlice without the taints that it has for these devices."""
    for obj in cluster.objects(RESOURCE_SLICES):
        devices, pool = spec(obj).get("devices") or (), pool_of(obj)
        names = [each["name"] for each in devices if each.get("taints") and DeviceId(*pool, each["name"]) in tainted]
        if names:
            clean = [
                {key: value for key, value in each.items() if key != "taints" or each["name"] not in names}
                for each in devices
            ]
            text = f"the driver takes the taint from {named('device', names)}"
            yield Change(Cause.DEVICE_TAINTED, text, put=(with_spec(obj, devices=clean),))


def _with_tolerations_by_rules(cluster: Cluster, request: Request) -> Iterator[Change]:
    """The claim made anew, since its spec is immutable, if a rule gives this request tolerations that it lacks."""
    claim = _claim_of(cluster, request)
    if claim is None:
        return
    facts = cluster.gatherer.device_toleration_facts({**claim, **RESOURCE_CLAIMS.type_meta})
    modes = {rule.name: rule.mode for rule in facts.rules}
    enforced = tuple(replace(rule, mode="Enforce") for rule in facts.rules)
    plan = devicetolerations.decide(replace(facts, rules=enforced))
    names = [each.rule for each in plan.additions if each.request == request.full_name]
    if names:
        audits = [name for name in names if modes[name] == "Audit"]
        first = f"{named('rule', audits)} in force instead of in Audit, " if audits else ""
        text = f"{first}the claim made anew, with the tolerations of {named('rule', names)}"
        yield Change(Cause.DEVICE_TAINTED, text, put=(plan.obj,))


def unselective(cluster: Cluster, cause: Cause, request: Request) -> Iterator[Change]:
    """A request without its own selectors, without those of its class, and without capacity."""
    if not all(each.is_of_class for each in request.selectors):
        text = f"{request.label} has no selectors of its own"
        yield Change(cause, text, put=_with_request(cluster, request, selectors=[]))
    if any(each.is_of_class for each in request.selectors):
        name = key_of(request.device_class).name
        put = with_spec({**request.device_class, **DEVICE_CLASSES.type_meta}, selectors=[])
        yield Change(cause, f"DeviceClass {name} selects every device", put=(put,))
    if request.capacity:
        text = f"{request.label} asks for no capacity"
        yield Change(cause, text, put=_with_request(cluster, request, capacity=None))


def _with_request(cluster: Cluster, request: Request, **fields: object) -> tuple[Object, ...]:
    """The claim with other fields in this request; claims are immutable, so it takes a new one."""
    claim = _claim_of(cluster, request)
    if claim is None:
        return ()
    changed = [_changed(each, request, fields) for each in claims.requests_of(claim)]
    return (with_spec(claim, devices={**spec(claim)["devices"], "requests": changed}),)


def _claim_of(cluster: Cluster, request: Request) -> Object | None:
    """None for the claim of extended resources, which is not there yet."""
    key = request.claim_key
    return cluster.get(RESOURCE_CLAIMS, key.name, key.namespace)


def _changed(given: Object, request: Request, fields: dict[str, object]) -> Object:
    if given.get("name") != request.name:
        return given
    if not request.is_alternative:
        return {**given, "exactly": {**(given.get("exactly") or {}), **fields}}
    alternatives = [
        {**each, **fields} if f"{request.name}/{each['name']}" == request.full_name else each
        for each in given["firstAvailable"]
    ]
    return {**given, "firstAvailable": alternatives}


def completed(cluster: Cluster, incomplete: Collection[PoolId]) -> Change:
    """The slices of these pools that are there are all of them."""
    by_pool: dict[PoolId, list[Object]] = {}
    for obj in cluster.objects(RESOURCE_SLICES):
        pool = pool_of(obj)
        if pool in incomplete:
            by_pool.setdefault(pool, []).append(obj)
    put = [
        with_spec(obj, pool={**spec(obj)["pool"], "resourceSliceCount": len(slices)})
        for slices in by_pool.values()
        for obj in slices
    ]
    pools = named("pool", list(map(str, by_pool)))
    return Change(Cause.POOL_INCOMPLETE, f"what is published of {pools} is all of it", put=tuple(put))


def pool_of(obj: Object) -> PoolId:
    """The pool that a ResourceSlice is a part of."""
    body = spec(obj)
    return PoolId(str(body.get("driver")), str((body.get("pool") or {}).get("name")))
