"""ResourceClaims, their templates and DeviceClasses (resource.k8s.io/v1): names, requests, owners, reservations.

A Pod's reference to a claim is resolved as Kubernetes does it (k8s.io/dynamic-resource-allocation/resourceclaim): by
`resourceClaimName`, or for a template by what `status.resourceClaimStatuses` records; until then it is unresolved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tollbar import wellknown
from tollbar.model import pods
from tollbar.model.objects import Object, annotations_of, controller_of, key_of, metadata, spec, uid_of

RESERVED_FOR_MAX: Final = 256
"""The most entries that the API server accepts in `status.reservedFor`."""
RESULTS_MAX: Final = 32
"""The most devices that one claim can get (AllocationResultsMaxSize)."""
POD_GROUP_API: Final = "scheduling.k8s.io"


class Unresolved(Enum):
    """Why a Pod's claim reference names no claim yet."""

    NOT_CREATED = "not created yet"
    NOT_NEEDED = "needs no claim"
    UNSUPPORTED = "neither resourceClaimName nor resourceClaimTemplateName is set"


def resolved(pod: Object) -> Iterator[tuple[Object, str | Unresolved]]:
    """Every entry of `spec.resourceClaims` with the name of the claim behind it, in the Pod's namespace.

    Linear in the number of references, which only the Pod's size limits: the API server accepts some ten thousand.
    """
    references = pods.claim_references(pod)
    if not references:
        return
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    recorded = {status.get("name"): status.get("resourceClaimName") for status in statuses}
    for reference in references:
        yield reference, _claim_name(reference, recorded)


def _claim_name(reference: Object, recorded: Mapping[str | None, str | None]) -> str | Unresolved:
    if name := reference.get("resourceClaimName"):
        return str(name)
    if not reference.get("resourceClaimTemplateName"):
        return Unresolved.UNSUPPORTED
    entry = reference.get("name")
    return (recorded[entry] or Unresolved.NOT_NEEDED) if entry in recorded else Unresolved.NOT_CREATED


def requests_of(claim: Object) -> list[Object]:
    """`spec.devices.requests` of a claim."""
    return (spec(claim).get("devices") or {}).get("requests") or []


def has_admin_access(claim: Object) -> bool:
    """Whether a request has `exactly.adminAccess`; entries of `firstAvailable` have no such field."""
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests_of(claim))


def template_claim_spec(template: Object) -> Object:
    """The ResourceClaimSpec inside a ResourceClaimTemplate."""
    return spec(template).get("spec") or {}


def with_requests(claim: Object) -> Object:
    """The claim with an empty list of requests where it has none.

    The API server writes null then (resource.k8s.io/v1, DeviceClaim.Requests), which CEL does not take for a list: a
    rule would fail on such a claim.
    """
    wanted = spec(claim).get("devices")
    if not isinstance(wanted, dict) or wanted.get("requests", ()) is not None:
        return claim
    return {**claim, "spec": {**spec(claim), "devices": {**wanted, "requests": []}}}


def device_classes(claim: Object) -> Iterator[str]:
    """Every DeviceClass that a claim's requests name, by `exactly` or in an entry of `firstAvailable`."""
    for request in requests_of(claim):
        exactly = request.get("exactly")
        for wanted in (*([exactly] if exactly else ()), *(request.get("firstAvailable") or ())):
            yield str(wanted.get("deviceClassName") or "")


def owned_by_pod(claim: Object, pod: Object) -> bool:
    """Whether this Pod is the claim's controller: same uid, kind Pod (IsForPod, k8s.io/dynamic-resource-allocation)."""
    owner = controller_of(claim)
    return owner is not None and owner.get("kind") == "Pod" and owner.get("uid") == uid_of(pod)


def is_for(claim: Object, consumer: Object) -> bool:
    """Whether the claim was made for this Pod or PodGroup, or for the PodGroup that the Pod names.

    By its controller.  Source: IsForPod and IsForPodGroup, k8s.io/dynamic-resource-allocation/resourceclaim.
    """
    owner, group = controller_of(claim), pods.scheduling_group(consumer)
    if owner is None:
        return False
    if owner.get("kind") == consumer.get("kind", "Pod") and owner.get("uid") == uid_of(consumer):
        return True
    is_group = owner.get("kind") == "PodGroup" and str(owner.get("apiVersion")).startswith(f"{POD_GROUP_API}/")
    return is_group and group is not None and owner.get("name") == group


def implicit_class(resource: str) -> str | None:
    """The class that an extended resource `deviceclass.resource.kubernetes.io/<class>` stands for (KEP-5004)."""
    if resource.startswith(wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX):
        return resource.removeprefix(wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX)
    return None


def extended_resource_of(device_class: Object) -> str | None:
    """`spec.extendedResourceName` of a DeviceClass."""
    return spec(device_class).get("extendedResourceName") or None


def names_of(pod: Object) -> set[str]:
    """Names of the Pod's claims as far as they are known, the claim for its extended resources included."""
    if not pods.uses_claims(pod):
        return set()
    extended = pods.extended_resource_claim(pod)
    return {name for name in (*(name for _, name in resolved(pod)), extended) if isinstance(name, str)}


def reference_of(claim: Object) -> str | None:
    """The entry of `spec.resourceClaims` that a generated claim was made for."""
    return annotations_of(claim).get(wellknown.POD_CLAIM_NAME_ANNOTATION) or None


def allocation(claim: Object) -> Object | None:
    """`status.allocation`; None for a claim that is not allocated."""
    return (claim.get("status") or {}).get("allocation") or None


def results(allocation: Object | None) -> list[Object]:
    """The devices of a `status.allocation`: entries {request, driver, pool, device, …}; none without an allocation."""
    return ((allocation or {}).get("devices") or {}).get("results") or []


def has_devices_of(claim: Object, other: Object | None) -> bool:
    """Whether the claim has the devices of this `status.allocation`, so that it can be used on the same Nodes."""
    return results(allocation(claim)) == results(other)


def allocation_of(claim: Object) -> str:
    """What tells this allocation of the claim from its others: when it was made, and its devices; empty without one."""
    found = allocation(claim)
    if found is None:
        return ""
    devices = [f"{each.get('driver')}/{each.get('pool')}/{each.get('device')}" for each in results(found)]
    return " ".join([str(found.get("allocationTimestamp") or "-"), *devices])


def reserved_for(claim: Object) -> list[Object]:
    """`status.reservedFor`: entries {apiGroup?, resource, name, uid}, of the claim's namespace, a map by uid."""
    return (claim.get("status") or {}).get("reservedFor") or []


def is_protected(claim: Object) -> bool:
    """Whether it has the delete-protection finalizer."""
    return wellknown.DELETE_PROTECTION_FINALIZER in (metadata(claim).get("finalizers") or ())


def is_shared_with(group: Object | None, reference: Object) -> bool:
    """Whether a PodGroup has this entry of its Pod's `spec.resourceClaims`, and the claim is reserved for the PodGroup.

    Source: BindTo, k8s.io/dynamic-resource-allocation/resourceclaim.
    """
    fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
    return group is not None and any(
        all(each.get(field) == reference.get(field) for field in fields) for each in pods.claim_references(group)
    )


def pod_group_entry(group: Object) -> Object:
    """The entry of `reservedFor` that stands for all Pods of this PodGroup."""
    return {"apiGroup": POD_GROUP_API, "resource": "podgroups", "name": key_of(group).name, "uid": uid_of(group)}


def pod_entry(pod: Object) -> Object:
    """The entry of `reservedFor` that stands for this Pod."""
    return {"resource": "pods", "name": key_of(pod).name, "uid": uid_of(pod)}


def is_pod_entry(entry: Object) -> bool:
    """Whether an entry of `reservedFor` stands for a Pod."""
    return not entry.get("apiGroup") and entry.get("resource") == "pods"


def is_pod_group_entry(entry: Object) -> bool:
    """Whether it stands for a PodGroup, and so for all Pods of that."""
    return entry.get("apiGroup") == POD_GROUP_API and entry.get("resource") == "podgroups"


def is_upstream_entry(entry: Object) -> bool:
    """Whether it is of a Pod or a PodGroup, for which kube-scheduler and kube-controller-manager reserve claims."""
    return is_pod_entry(entry) or is_pod_group_entry(entry)


def is_reserved_for(claim: Object, pod: Object) -> bool:
    """Whether an entry has the Pod's uid, or the name of its PodGroup.

    The name is enough: a PodGroup is not deleted, and so not replaced, while it has Pods.
    Source: IsReservedForPod, k8s.io/dynamic-resource-allocation/resourceclaim.
    """
    uid = uid_of(pod)
    return any(entry.get("uid") == uid for entry in reserved_for(claim)) or is_reserved_for_group(claim, pod)


def is_reserved_for_group(claim: Object, pod: Object) -> bool:
    """Whether an entry has the name of the Pod's PodGroup, and so stands for the Pod."""
    group = pods.scheduling_group(pod)
    return group is not None and any(
        is_pod_group_entry(entry) and entry.get("name") == group for entry in reserved_for(claim)
    )


@dataclass(frozen=True, slots=True)
class Deallocation:
    """`status` is the claim's whole status to be, None when only the finalizer is to go; both are fenced by the
    resourceVersion of the claim that was decided about."""

    status: Object | None
    unprotect: bool
