"""Remedies for a Pod that no scheduler tries yet: what it waits for is put into the copy, and the Pod is tried.

What is missing is put into the copy in the form that asks for least: a class that selects every device, a claim or a
template without requests.  What another form would come to is not known before it is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from tollbar.decide.claims import consumers
from tollbar.decide.pods.package import Missing
from tollbar.explain.case import Case
from tollbar.explain.causes import Cause
from tollbar.explain.changes import remedy_of
from tollbar.explain.devicechanges import deallocated
from tollbar.explain.values import Remedy
from tollbar.model import claims, pods
from tollbar.model.claims import Unresolved
from tollbar.model.objects import Object, key_of, metadata
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    POD_GROUPS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from tollbar.offline import Cluster

MISSING: Final[Mapping[str, Cause]] = {
    "ResourceClaim": Cause.CLAIM_MISSING,
    "ResourceClaimTemplate": Cause.TEMPLATE_MISSING,
    "DeviceClass": Cause.CLASS_MISSING,
    "Namespace": Cause.NAMESPACE_UNKNOWN,
}
"""The cause that an object of this kind is not there."""
KINDS: Final[Mapping[str, Resource]] = {
    each.kind: each for each in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, NAMESPACES)
}
RELEASES: Final = "Tollbar releases the Pod"
_AS_TRIED: Final = {
    "ResourceClaim": ", and asks for nothing",
    "ResourceClaimTemplate": ", and asks for nothing",
    "DeviceClass": ", and selects every device",
}


def released(case: Case) -> Iterator[Remedy]:
    """What would release a Pod that our gate holds: what is missing is there, empty as it may be; or a controller."""
    cluster = case.cluster
    if not pods.is_gated(case.pod):
        return
    if cluster.gate_plan(case.pod).released:
        if case.is_led is False:
            yield Remedy(Cause.NO_CONTROLLER, "a controller runs", RELEASES, helps=True)
        return
    missing = cluster.package(case.pod).missing
    put = _stubs(case, missing)
    if len(put) < len(missing):
        return
    with cluster.changed(put=put):
        is_released = cluster.gate_plan(case.pod).released
    names = ", ".join(map(str, missing))
    result = RELEASES if is_released else "still held"
    change = f"{names} exist{'s' if len(missing) == 1 else ''}"
    yield Remedy(MISSING[missing[0].kind], change, result, is_released)


def ready(case: Case, free: Object, cause: Cause) -> Iterator[Remedy]:
    """What would come of a Pod that no scheduler tries for this cause, if everything that it waits for were there.

    `free` is the Pod without gates.  Nothing of one that our gate holds: what releases it comes first.
    """
    cluster = case.cluster
    if pods.is_gated(case.pod) and not cluster.gate_plan(case.pod).released:
        return
    missing = cluster.package(free).missing
    texts = [f"{each} exists{_AS_TRIED.get(each.kind, '')}" for each in missing]
    put = _stubs(case, missing)
    if len(put) < len(missing):
        return
    if cause is Cause.POD_GROUP_MISSING:
        name = str(pods.scheduling_group(free))
        put.append({**POD_GROUPS.type_meta, "metadata": {"name": name, "namespace": case.key.namespace}, "spec": {}})
        texts.append(f"PodGroup {name} exists, and wants no other Pods with it")
    for claim in _deleting(case, free):
        put.append(claim)
        texts.append(f"ResourceClaim {key_of(claim).name} is made anew")
    with ExitStack() as stack:
        stack.enter_context(cluster.changed(put=put))
        made = dict(_made(cluster, free))
        references = (each for each in pods.claim_references(free) if each["name"] in made)
        templates = dict.fromkeys(str(each["resourceClaimTemplateName"]) for each in references)
        there = [each for each in templates if Missing("ResourceClaimTemplate", each) not in missing]
        texts += [f"ResourceClaim from template {each} is made" for each in there]
        stack.enter_context(cluster.changed(put=made.values()))
        status = free.get("status") or {}
        recorded = [each for each in status.get("resourceClaimStatuses") or () if each.get("name") not in made]
        recorded += [{"name": name, "resourceClaimName": key_of(claim).name} for name, claim in made.items()]
        attempt = cluster.scheduler.attempt({**free, "status": {**status, "resourceClaimStatuses": recorded}})
    if texts:
        yield remedy_of(cause, "; ".join(texts), attempt)


def _stubs(case: Case, missing: Sequence[Missing]) -> list[Object]:
    """What is missing, in the form that asks for least; nothing of kinds that may not be read, or cannot be made up."""
    if not all(case.cluster.knows(KINDS[each.kind], namespace=case.key.namespace) for each in missing):
        return []
    return [obj for each in missing if (obj := _stub(case, each)) is not None]


def _stub(case: Case, missing: Missing) -> Object | None:
    meta: Object = {"name": missing.name}
    inside: Object = {"devices": {"requests": []}}
    match missing.kind:
        case "DeviceClass":
            body: Object = {}
        case "ResourceClaim":
            meta, body = {**meta, "namespace": case.key.namespace}, inside
        case "ResourceClaimTemplate":
            meta, body = {**meta, "namespace": case.key.namespace}, {"spec": inside}
        case _:
            return None
    return {**KINDS[missing.kind].type_meta, "metadata": meta, "spec": body}


def _deleting(case: Case, free: Object) -> Iterator[Object]:
    """The Pod's claims that are being deleted, as if they had just been created."""
    for _, name in claims.resolved(free):
        claim = case.cluster.get(RESOURCE_CLAIMS, str(name), case.key.namespace)
        if claim is not None and metadata(claim).get("deletionTimestamp"):
            meta = {key: value for key, value in metadata(claim).items() if key != "deletionTimestamp"}
            yield {**deallocated(claim), "metadata": meta}


def _made(cluster: Cluster, free: Object) -> Iterator[tuple[str, Object]]:
    """By reference, the claims that are yet to be made from templates, as the ResourceClaim controller makes them."""
    namespace = key_of(free).namespace
    for reference, name in claims.resolved(free):
        template = cluster.get(
            RESOURCE_CLAIM_TEMPLATES, str(reference.get("resourceClaimTemplateName") or ""), namespace
        )
        known = cluster.get(RESOURCE_CLAIMS, name, namespace) if isinstance(name, str) else None
        is_there = known is not None and claims.is_for(known, free)
        if template is None or name is Unresolved.NOT_NEEDED or is_there:
            continue
        claim = consumers.new_claim(free, str(reference["name"]), template)
        meta = metadata(claim)
        yield str(reference["name"]), {**claim, "metadata": {**meta, "name": f"{meta['generateName']}new"}}
