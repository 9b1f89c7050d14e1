"""ResourceClaims, their templates and DeviceClasses (resource.k8s.io/v1): names, requests, owners.

Used by decisions, the caches' index functions and the controllers.  The name-resolution rule is Kubernetes' own
(k8s.io/dynamic-resource-allocation/resourceclaim): a by-name reference is that name; a template reference is what
`status.resourceClaimStatuses` records, and is unresolved until it does.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from tollbar import wellknown
from tollbar.model.objects import Key, Object, controller_of, key_of, spec, uid_of


class Unresolved(Enum):
    """Why a Pod's claim reference names no claim yet."""

    NOT_CREATED = "not created yet"
    NOT_NEEDED = "needs no claim"
    UNSUPPORTED = "neither resourceClaimName nor resourceClaimTemplateName is set"


class Subrequest(NamedTuple):
    """One thing a request may turn into: `exactly`, or one entry of `firstAvailable`."""

    request: str
    choice: int
    device_class: str


def resolve(pod: Object, reference: Object) -> str | Unresolved:
    """Name of the claim behind one entry of `spec.resourceClaims`, in the Pod's namespace."""
    if name := reference.get("resourceClaimName"):
        return str(name)
    if not reference.get("resourceClaimTemplateName"):
        return Unresolved.UNSUPPORTED
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name") == reference.get("name"):
            return status.get("resourceClaimName") or Unresolved.NOT_NEEDED
    return Unresolved.NOT_CREATED


def requests_of(claim: Object) -> list[Object]:
    """`spec.devices.requests` of a claim."""
    return (spec(claim).get("devices") or {}).get("requests") or []


def template_claim_spec(template: Object) -> Object:
    """The ResourceClaimSpec inside a ResourceClaimTemplate."""
    return spec(template).get("spec") or {}


def device_classes(claim: Object) -> Iterator[Subrequest]:
    """Every class that a claim's requests name, with the place that names it."""
    for request in requests_of(claim):
        name = str(request.get("name") or "")
        if exactly := request.get("exactly"):
            yield Subrequest(name, 0, str(exactly.get("deviceClassName") or ""))
        for choice, subrequest in enumerate(request.get("firstAvailable") or ()):
            yield Subrequest(name, choice, str(subrequest.get("deviceClassName") or ""))


def owned_by_pod(claim: Object, pod: Object) -> bool:
    """Whether this Pod is the claim's controller: same uid, kind Pod (IsForPod, k8s.io/dynamic-resource-allocation)."""
    owner = controller_of(claim)
    return owner is not None and owner.get("kind") == "Pod" and owner.get("uid") == uid_of(pod)


def implicit_class(resource: str) -> str | None:
    """The class that an extended resource `deviceclass.resource.kubernetes.io/<class>` stands for (KEP-5004)."""
    if resource.startswith(wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX):
        return resource.removeprefix(wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX)
    return None


def extended_resource_of(device_class: Object) -> str | None:
    """`spec.extendedResourceName` of a DeviceClass."""
    return spec(device_class).get("extendedResourceName") or None


def owner_pod(claim: Object) -> Key | None:
    """Key of the Pod that a generated claim belongs to."""
    owner = controller_of(claim)
    if owner is None or owner.get("kind") != "Pod":
        return None
    return Key(key_of(claim).namespace, str(owner.get("name")))
