"""The kinds that Tollbar caches, with their projections and indexes.

An index function depends on the object alone, so that the index values of a cached object never change.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, Final

from tollbar import wellknown
from tollbar.decide.pods.size import is_too_large
from tollbar.model import claims, conditions, pods, resources, workloads
from tollbar.model.flat import flat
from tollbar.model.gates import gate_name
from tollbar.model.objects import Key, Object, annotations_of, controller_of, key_of, metadata, picked, spec
from tollbar.runtime import detection
from tollbar.runtime.caches import Cached
from tollbar.runtime.footprint import footprint
from tollbar.runtime.projection import Keep
from tollbar.runtime.sharing import sharing
from tollbar.runtime.store import Indexer

MOST_BYTES: Final = 1024 * 1024
"""Of memory for a claim or a template.  All that the API server allows, 32 requests with eight alternatives each, with
a selector of a hundred characters for each, takes less than half of it; what it stores may take ten times as much."""
_PAGE: Final = 25
"""Claims, templates or Pods that are listed at once."""

_LONGEST_RECORD: Final = 2048
"""Bytes: some fifteen tolerations.  The Pod's author may write there what they like, up to 256 KiB."""
_SHARED_RECORD: Final = frozenset({("metadata", "annotations"), ("spec", "initContainers"), ("spec", "containers")})
"""The Pods of one rule have equal records, those of one workload equal containers."""

_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
_CLAIM_STATUS: Final = ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")


def _claim_consumer(pod: Object) -> Object:
    """The fields that decisions about claims read, about a tenth of the Pod; of one that Tollbar gave tolerations, also
    what tells whether they are justified."""
    meta, body, status = metadata(pod), spec(pod), pod.get("status") or {}
    evicted = {"conditions": [conditions.of(pod, "DisruptionTarget")]} if pods.is_evicted_from_device(pod) else {}
    kept: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": picked(meta, _IDENTITY),
        "spec": picked(body, ("nodeName", "resourceClaims", "schedulingGroup")),
        "status": {**picked(status, _CLAIM_STATUS), **evicted},
    }
    if (owner := controller_of(pod)) is not None:
        kept["metadata"]["ownerReferences"] = [owner]
    record = annotations_of(pod).get(wellknown.ANNOTATION_PROVENANCE)
    return _with_record(kept, pod, record) if record and len(record) <= _LONGEST_RECORD else kept


def _with_record(kept: Object, pod: Object, record: str) -> Object:
    """With the record of what Tollbar added, when the Pod was created, and the extended resources of its containers."""
    kept["metadata"] |= {
        "annotations": {wellknown.ANNOTATION_PROVENANCE: record},
        "creationTimestamp": metadata(pod).get("creationTimestamp"),
    }
    if any(pods.extended_resources(pod)):
        for name in ("initContainers", "containers"):
            containers = spec(pod).get(name) or ()
            kept["spec"][name] = [{"resources": each.get("resources") or {}} for each in containers]
    shared: Object = sharing(kept, _SHARED_RECORD)
    return shared


_READ_OF_A_CLAIM: Final = (
    wellknown.ANNOTATION_RESERVED_FOR,
    wellknown.ANNOTATION_RELEASE,
    wellknown.ANNOTATION_RESERVED_UID,
    wellknown.ANNOTATION_WORKLOAD_CLAIM,
    wellknown.ANNOTATION_EVICTED_FROM,
    wellknown.POD_CLAIM_NAME_ANNOTATION,
    wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION,
)
"""The annotations that the controllers of claims read."""
_MOST_OF_A_STUB: Final = 16 * 1024
"""Bytes of memory for what a stub has of metadata: above that its longer texts are cut.  Only `evicted-from` of a claim
with many devices of long names can be long and mean something."""
_LONGEST_TEXT: Final = 600
"""Characters of such a text: the name of a workload with its kind, the longest one that is parsed, has 571."""


def _read_of_a_claim(meta: Object) -> Object:
    """The metadata of a claim that its controllers read: their annotations, who made it and owns it, its finalizer."""
    claim: Object = {"metadata": meta}
    written, owner = annotations_of(claim), controller_of(claim)
    kept: Object = picked(meta, ("generateName", "managedFields"))
    if annotations := picked(written, _READ_OF_A_CLAIM):
        kept["annotations"] = annotations
    if owner is not None:
        kept["ownerReferences"] = [owner]
    if claims.is_protected(claim):
        kept["finalizers"] = [wellknown.DELETE_PROTECTION_FINALIZER]
    return kept if footprint(kept) <= _MOST_OF_A_STUB else {name: _cut(each) for name, each in kept.items()}


def _cut(value: Any) -> Any:
    """With no text in it that is longer than `_LONGEST_TEXT`."""
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return {name: _cut(each) for name, each in value.items()} if isinstance(value, dict) else value


def alike(pod: Object) -> Hashable:
    """Pods of one namespace that run the same images are mostly those of one workload."""
    body = spec(pod)
    containers = (*(body.get("initContainers") or ()), *(body.get("containers") or ()))
    return key_of(pod).namespace, *(str(each.get("image")) for each in containers)


def _is_pending(pod: Object) -> bool:
    return not pods.is_bound(pod)


def namespace_of(pod: Object) -> Iterable[str]:
    """The indexer by namespace."""
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


def _held_in(pod: Object) -> Iterable[str]:
    if pods.is_gated(pod) and not pods.is_deleting(pod):
        yield key_of(pod).namespace


def _ungenerated(pod: Object) -> Iterable[Key]:
    """The templates of claims that are yet to be generated, for a Pod for which somebody should generate them."""
    if not pods.claim_references(pod) or pods.scheduling_group(pod) or pods.is_terminal(pod) or pods.is_deleting(pod):
        return
    for reference, name in claims.resolved(pod):
        if name is claims.Unresolved.NOT_CREATED:
            yield Key(key_of(pod).namespace, str(reference.get("resourceClaimTemplateName")))


def _classes_of_claim(claim: Object) -> Iterable[str]:
    return set(claims.device_classes(claim))


def _classes_of_template(template: Object) -> Iterable[str]:
    return _classes_of_claim({"spec": claims.template_claim_spec(template)})


def _extended_resource_of_class(device_class: Object) -> Iterable[str]:
    if name := claims.extended_resource_of(device_class):
        yield name


def _gate_name(gate: Object) -> Iterable[str]:
    yield gate_name(gate)


def _claim_of_workload_claim(obj: Object) -> Iterable[Key]:
    yield workloads.claim_named_by(obj)


def _template_of_workload_claim(obj: Object) -> Iterable[Key]:
    if name := spec(obj).get("resourceClaimTemplateName"):
        yield Key(key_of(obj).namespace, str(name))


def _owner_uid(claim: Object) -> Iterable[str]:
    if (owner := controller_of(claim)) is not None:
        yield str(owner.get("uid"))


def used_claims(pod: Object) -> Iterable[Key]:
    """Keys of the claims of a Pod or PodGroup, as far as their names are known."""
    namespace = key_of(pod).namespace
    return {Key(namespace, name) for name in claims.names_of(pod)}


def _group_of_pod(pod: Object) -> Iterable[Key]:
    if name := pods.scheduling_group(pod):
        yield Key(key_of(pod).namespace, name)


_asked_last: tuple[Object, bool] = {}, False
"""A Pod, and whether it is too large: several indexes ask this of one Pod, one after the other."""


def _if_gathered(indexer: Indexer) -> Indexer:
    """No values for a Pod whose package is too large to gather: no change of another object affects its decision."""

    def index(pod: Object) -> Iterable[Hashable]:
        global _asked_last
        if pod is not _asked_last[0]:
            _asked_last = pod, is_too_large(pod)
        return () if _asked_last[1] else indexer(pod)

    return index


def _unless_ending(indexer: Indexer) -> Indexer:
    """No values for a Pod that has finished or is being deleted: nothing is done about it any more."""

    def index(pod: Object) -> Iterable[Hashable]:
        return () if pods.is_terminal(pod) or pods.is_deleting(pod) else indexer(pod)

    return index


CLAIMS_OF_POD: Final = _if_gathered(_claims_of_pod)
"""Keys of the claims that the Pod refers to."""
TEMPLATES_OF_POD: Final = _if_gathered(_templates_of_pod)
"""Keys of the templates that the Pod refers to."""

PENDING_PODS: Final = Cached(
    "pods",
    resources.PODS,
    indexers={
        "namespace": namespace_of,
        "claim": _unless_ending(CLAIMS_OF_POD),
        "template": _unless_ending(TEMPLATES_OF_POD),
        "extended-resource": _unless_ending(_if_gathered(_extended_resources_of_pod)),
        "gate": _gates_of_pod,
        "held-in": _held_in,
        "ungenerated": _if_gathered(_ungenerated),
    },
    accepts=_is_pending,
    field_selector="spec.nodeName=",
    alike=alike,
    page=_PAGE,
)
"""Whole Pods that have no node yet, packed; a Pod that is bound leaves the store.

`claim`, `template` and `extended-resource` are those whose changes affect the decision about a Pod.
`held-in` is the namespace of Pods that Tollbar's gate holds and nobody deletes; `ungenerated` are the templates whose
claims they wait for.
"""

CLAIM_CONSUMERS: Final = Cached(
    "claim consumers",
    resources.PODS,
    project=_claim_consumer,
    indexers={"claim": used_claims, "template": _templates_of_pod, "group": _group_of_pod},
    accepts=pods.uses_claims,
)
"""Pods of every phase that refer to claims, about a tenth of each, so that memory grows with the use of claims only."""

CLAIMS: Final = Cached(
    "claims",
    resources.RESOURCE_CLAIMS,
    project=Keep(frozenset({"spec"}), most=MOST_BYTES),
    indexers={"class": _classes_of_claim},
    page=_PAGE,
)
"""Without their status where nobody needs it, so that a write of the status is no change for controllers of Pods.
Of what a tenant makes too large only the identity is kept: Pods are not decided by it."""

CLAIMS_WITH_STATUS: Final = replace(
    CLAIMS,
    project=Keep(
        frozenset({"spec", "status"}),
        managers=True,
        most=MOST_BYTES,
        anyway=frozenset({"status"}),
        stub_metadata=_read_of_a_claim,
    ),
    indexers={**CLAIMS.indexers, "owner": _owner_uid},
)
"""With status and field managers, for decisions about reservations; `owner` is the uid of the controlling owner.
Patches are made from the status, so it is whole whatever its size: only drivers and schedulers write it.  Of the
metadata a stub has what is read of them: no labels, nor annotations, owners and finalizers of others."""

CLAIMS_WITH_ALLOCATION: Final = replace(
    CLAIMS,
    project=Keep(
        frozenset({"spec", "status"}),
        shared=frozenset(
            {
                ("metadata", "annotations"),
                ("metadata", "finalizers"),
                ("spec",),
                ("status", "allocation", "nodeSelector"),
            }
        ),
    ),
    indexers={"owner": _owner_uid},
)
"""With status, for what claims hold of devices; the claims of one template are much alike."""

POD_GROUPS: Final = Cached(
    "podgroups",
    resources.POD_GROUPS,
    indexers={"claim": used_claims, "template": _templates_of_pod},
    locate=detection.pod_groups,
)
"""A PodGroup refers to claims and templates in the fields in which a Pod does (KEP-5729)."""

TEMPLATES: Final = Cached(
    "templates",
    resources.RESOURCE_CLAIM_TEMPLATES,
    project=Keep(frozenset({"spec"}), most=MOST_BYTES),
    indexers={"class": _classes_of_template},
    page=_PAGE,
)
"""As claims: without what is too large to decide Pods by; who makes claims of one reads it from the API server."""
CLASSES: Final = Cached(
    "classes",
    resources.DEVICE_CLASSES,
    project=Keep(frozenset({"spec"})),
    indexers={"extended-resource": _extended_resource_of_class},
)
SLICES: Final = Cached(
    "slices",
    resources.RESOURCE_SLICES,
    project=Keep(frozenset({"spec"})),
    flat=flat,
)
"""The devices of one model have all but the values of their attributes in common, and most of these."""
TAINT_RULES: Final = Cached(
    "device taint rules",
    resources.DEVICE_TAINT_RULES,
    project=Keep(frozenset({"spec"})),
    locate=detection.device_taint_rules,
)
"""Served since 1.37; before, where an administrator has switched the beta API on (KEP-5055)."""
NAMESPACES: Final = Cached("namespaces", resources.NAMESPACES, project=Keep())
RULES: Final = Cached("rules", resources.TOLERATION_RULES)
PLACEMENT_RULES: Final = Cached("placement rules", resources.PLACEMENT_RULES, optional=True)
GATES: Final = Cached("gates", resources.SCHEDULING_GATES, indexers={"gate-name": _gate_name})
WORKLOAD_CLAIMS: Final = Cached(
    "workload claims",
    resources.WORKLOAD_CLAIMS,
    indexers={"claim": _claim_of_workload_claim, "template": _template_of_workload_claim},
)
WEBHOOKS: Final = Cached(
    "webhooks", resources.MUTATING_WEBHOOK_CONFIGURATIONS, label_selector="app.kubernetes.io/name=tollbar"
)
"""Tollbar's own webhook configurations for Pods."""
VALIDATING_WEBHOOKS: Final = replace(
    WEBHOOKS, name="validating webhooks", resource=resources.VALIDATING_WEBHOOK_CONFIGURATIONS
)
"""Those for rules."""


def lease(name: str, namespace: str) -> Cached:
    """One Lease, to see that it is renewed."""
    return Cached(
        "lease",
        resources.LEASES,
        project=Keep(frozenset({"spec"})),
        field_selector=f"metadata.name={name}",
        namespace=namespace,
    )


def secret(name: str, namespace: str) -> Cached:
    """One Secret."""
    return Cached("secret", resources.SECRETS, field_selector=f"metadata.name={name}", namespace=namespace)
