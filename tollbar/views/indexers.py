"""Index functions of the caches, and what a cache keeps of each object.

An index function answers from the object alone, so that a cached object is always under the same values.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from tollbar.decide.pods.package import is_too_large
from tollbar.model import claims, managers, pods
from tollbar.model.objects import Key, Object, controller_of, key_of, metadata, spec
from tollbar.runtime.store import Indexer, drop_managed_fields

_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "ownerReferences")
_CLAIM_STATUS: Final = ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")


def metadata_and_spec(obj: Object) -> Object:
    """Only what decisions read of a claim, template or class: a write of its status is then no change at all."""
    return {"metadata": metadata(drop_managed_fields(obj)), "spec": spec(obj)}


def metadata_spec_and_status(obj: Object) -> Object:
    """For who decides about reservations, and says so in Events: the status, too, and who wrote what."""
    meta = metadata(obj)
    if "managedFields" in meta:
        meta = {**meta, "managedFields": managers.reduced(obj)}
    return {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "metadata": meta,
        "spec": spec(obj),
        "status": obj.get("status") or {},
    }


def claim_user(pod: Object) -> Object:
    """What the life of claims depends on: about a tenth of the Pod."""
    meta, body, status = metadata(pod), spec(pod), pod.get("status") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: meta[name] for name in _IDENTITY if name in meta},
        "spec": {name: body[name] for name in ("nodeName", "resourceClaims", "schedulingGroup") if name in body},
        "status": {name: status[name] for name in _CLAIM_STATUS if name in status},
    }


def metadata_only(obj: Object) -> Object:
    return {"metadata": metadata(drop_managed_fields(obj))}


def _namespace(pod: Object) -> Iterable[str]:
    yield key_of(pod).namespace


def _claims_of_pod(pod: Object) -> Iterable[Key]:
    namespace = key_of(pod).namespace
    for _, name in claims.resolved(pod):
        if isinstance(name, str):
            yield Key(namespace, name)


def _templates_of_pod(pod: Object) -> Iterable[Key]:
    namespace = key_of(pod).namespace
    for reference in pods.claim_references(pod):
        if name := reference.get("resourceClaimTemplateName"):
            yield Key(namespace, name)


def _extended_resources_of_pod(pod: Object) -> Iterable[str]:
    return {request.resource for request in pods.extended_resources(pod)}


def _gates_of_pod(pod: Object) -> Iterable[str]:
    return set(pods.gate_names(pod))


def _classes_of_claim(claim: Object) -> Iterable[str]:
    return {subrequest.device_class for subrequest in claims.device_classes(claim)}


def _classes_of_template(template: Object) -> Iterable[str]:
    return _classes_of_claim({"spec": claims.template_claim_spec(template)})


def _extended_resource_of_class(device_class: Object) -> Iterable[str]:
    if name := claims.extended_resource_of(device_class):
        yield name


def _gate_name(gate: Object) -> Iterable[str]:
    yield str(spec(gate).get("gateName"))


def _claim_of_workload_claim(obj: Object) -> Iterable[Key]:
    key = key_of(obj)
    yield Key(key.namespace, str(spec(obj).get("resourceClaimName") or key.name))


def _template_of_workload_claim(obj: Object) -> Iterable[Key]:
    if name := spec(obj).get("resourceClaimTemplateName"):
        yield Key(key_of(obj).namespace, str(name))


def _owner_uid(claim: Object) -> Iterable[str]:
    if (owner := controller_of(claim)) is not None:
        yield str(owner.get("uid"))


def _used_claims(pod: Object) -> Iterable[Key]:
    namespace = key_of(pod).namespace
    return {Key(namespace, name) for name in claims.names_of(pod)}


def _group_of_pod(pod: Object) -> Iterable[Key]:
    if name := pods.scheduling_group(pod):
        yield Key(key_of(pod).namespace, name)


def _if_gathered(indexer: Indexer) -> Indexer:
    """Nothing for a Pod whose package is not gathered: no change of another object changes what is decided about it."""

    def index(pod: Object) -> Iterable[Hashable]:
        return () if is_too_large(pod) else indexer(pod)

    return index


PODS: Final[Mapping[str, Indexer]] = {
    "namespace": _namespace,
    "claim": _if_gathered(_claims_of_pod),
    "template": _if_gathered(_templates_of_pod),
    "extended-resource": _if_gathered(_extended_resources_of_pod),
    "gate": _gates_of_pod,
}
CLAIM_USERS: Final[Mapping[str, Indexer]] = {
    "claim": _used_claims,
    "template": _templates_of_pod,
    "group": _group_of_pod,
}
"""Of Pods of every phase, for the controllers of claims."""
CLAIMS: Final[Mapping[str, Indexer]] = {"class": _classes_of_claim}
OWNED_CLAIMS: Final[Mapping[str, Indexer]] = {**CLAIMS, "owner": _owner_uid}
"""For the controllers of claims: by the uid of the controlling owner, too."""
POD_GROUPS: Final[Mapping[str, Indexer]] = {"claim": _used_claims, "template": _templates_of_pod}
"""A PodGroup refers to claims and templates in the fields in which a Pod does (KEP-5729)."""
WORKLOAD_CLAIMS: Final[Mapping[str, Indexer]] = {
    "claim": _claim_of_workload_claim,
    "template": _template_of_workload_claim,
}
TEMPLATES: Final[Mapping[str, Indexer]] = {"class": _classes_of_template}
CLASSES: Final[Mapping[str, Indexer]] = {"extended-resource": _extended_resource_of_class}
GATES: Final[Mapping[str, Indexer]] = {"gate-name": _gate_name}
