"""Which Node a Pod goes to, and which devices its claims get: the first that fit.

There is no scoring, preemption or backtracking: it is only enough to see Pods run.  Taints, nodeSelector, required node
affinity, resource requests and claims count; topology spread constraints, affinity between Pods and extended resources
that a DeviceClass backs do not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from tollbar import cel
from tollbar.cel import devices as device_inputs
from tollbar.devplane.embedded.world import Placement, World, needs
from tollbar.model import claims, conditions, nodeaffinity, pods, quantity, tolerations
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, metadata, spec


def place(pod: Object, its_claims: Sequence[Object], world: World) -> Placement | str:
    """A placement, or why there is none, with kube-scheduler's text."""
    if not world.nodes:
        return "no nodes available to schedule pods"
    reasons = []
    for node in world.nodes.values():
        found = _misfit(pod, its_claims, node, world)
        if found:
            reasons.append(found)
            continue
        allocations = _allocate(its_claims, node, world)
        if allocations is not None:
            return Placement(metadata(node)["name"], allocations)
        reasons.append("cannot allocate all claims")
    counts = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
    return f"0/{len(world.nodes)} nodes are available: {counts}."


def _misfit(pod: Object, its_claims: Sequence[Object], node: Object, world: World) -> str:
    """Why the Pod does not fit the Node; empty when it does."""
    ready = conditions.find((node.get("status") or {}).get("conditions"), "Ready")
    if spec(node).get("unschedulable") or (ready or {}).get("status") != "True":
        return "node(s) were unschedulable"
    if tolerations.untolerated(spec(node).get("taints") or (), pods.tolerations(pod)):
        return "node(s) had untolerated taint(s)"
    if not nodeaffinity.allows(pod, node) or not all(_is_reachable(claim, node) for claim in its_claims):
        return "node(s) didn't match Pod's node affinity/selector"
    free = (node.get("status") or {}).get("allocatable") or {}
    used = world.used(metadata(node)["name"])
    for name, amount in needs(pod).items():
        if used.get(name, 0) + amount > quantity.parse(str(free.get(name, "0"))):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return ""


def _is_reachable(claim: Object, node: Object) -> bool:
    """Whether the Node can use the devices of the claim, if it is allocated."""
    selector = (claims.allocation(claim) or {}).get("nodeSelector")
    return selector is None or nodeaffinity.selects(selector, node)


def _allocate(its_claims: Sequence[Object], node: Object, world: World) -> dict[str, Object] | None:
    """Allocations of the claims that have none yet; None when one of them cannot be allocated."""
    taken, found = world.taken(), {}
    offered = [each for each in world.slices.values() if _offers(each, node)]
    for claim in its_claims:
        if claims.allocation(claim):
            continue
        results = _results(claim, offered, world.classes, taken)
        if results is None:
            return None
        allocation: Object = {"devices": {"results": results}} if results else {"devices": {}}
        if any(spec(each).get("nodeName") for each in offered):
            field_is = {"key": "metadata.name", "operator": "In", "values": [metadata(node)["name"]]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field_is]}]}
        found[metadata(claim)["name"]] = allocation
    return found


def _offers(resource_slice: Object, node: Object) -> bool:
    body = spec(resource_slice)
    selector = body.get("nodeSelector")
    return bool(
        body.get("allNodes")
        or body.get("nodeName") == metadata(node)["name"]
        or (selector is not None and nodeaffinity.selects(selector, node))
    )


def _results(
    claim: Object, offered: Sequence[Object], classes: Mapping[str, Object], taken: set[DeviceId]
) -> list[Object] | None:
    """`allocation.devices.results`; the allocated devices are added to `taken`."""
    if (spec(claim).get("devices") or {}).get("constraints"):
        return None
    results: list[Object] = []
    for request in claims.requests_of(claim):
        wanted = (
            [(request["name"], request["exactly"])]
            if "exactly" in request
            else [(f"{request['name']}/{each['name']}", each) for each in request.get("firstAvailable") or ()]
        )
        for name, alternative in wanted:
            chosen = _devices(alternative, offered, classes, taken)
            if chosen:
                taken |= set(chosen)
                results += [{"request": name, **each._asdict()} for each in chosen]
                break
        else:
            return None
    return results


def _devices(
    wanted: Object, offered: Sequence[Object], classes: Mapping[str, Object], taken: Collection[DeviceId]
) -> list[DeviceId]:
    """The devices for one request; empty when there are not enough."""
    device_class = classes.get(wanted["deviceClassName"])
    if device_class is None:
        return []
    expressions = [
        each["cel"]["expression"] for holder in (spec(device_class), wanted) for each in holder.get("selectors") or ()
    ]
    fitting = [known for known, device, driver in _newest(offered) if _fits(expressions, device, driver)]
    free = [each for each in fitting if each not in taken]
    if wanted.get("allocationMode") == "All":
        return free if free == fitting else []
    count = wanted.get("count", 1)
    return free[:count] if len(free) >= count else []


def _newest(offered: Sequence[Object]) -> Iterator[tuple[DeviceId, Object, str]]:
    """Devices of the newest generation of each pool."""
    newest: dict[tuple[str, str], int] = {}
    for body in map(spec, offered):
        pool = (body["driver"], body["pool"]["name"])
        newest[pool] = max(newest.get(pool, 0), body["pool"].get("generation", 0))
    for body in map(spec, offered):
        pool = (body["driver"], body["pool"]["name"])
        if body["pool"].get("generation", 0) == newest[pool]:
            for device in body.get("devices") or ():
                yield DeviceId(*pool, device["name"]), device, body["driver"]


def _fits(expressions: Sequence[str], device: Object, driver: str) -> bool:
    try:
        inputs = device_inputs.prepare(driver, device.get("attributes") or {}, device.get("capacity") or {})
    except ValueError:
        return False
    return all(_compiled(expression).evaluate(inputs) is True for expression in expressions)


@lru_cache(maxsize=256)
def _compiled(expression: str) -> cel.Program:
    return cel.engine().compile(expression, cel.DEVICE_ENV)
