"""Views of a Pod: gates, tolerations, owners, extended resources.

They raise nothing on any JSON object whose members have the API's types.
"""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from tollbar import wellknown
from tollbar.model import conditions, quantity
from tollbar.model.objects import Object, annotations_of, controller_of, labels_of, metadata, picked, spec

_TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
_OURS: Final = frozenset({wellknown.LABEL_GATE, wellknown.ANNOTATION_PROVENANCE, wellknown.ANNOTATION_PLACEMENT})
_OUR_GATES: Final = frozenset({wellknown.GATE, wellknown.PLACEMENT_GATE})
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class ResourceRequest(NamedTuple):
    """One container's request of one extended resource; the quantity is positive.

    `container` counts init containers first, then containers; `place` is the index of the resource among the sorted
    names of all that the container requests.  kube-scheduler names the requests of its claim by both (KEP-5004).
    """

    container: int
    place: int
    resource: str
    quantity: Decimal


def gate_names(pod: Object) -> list[str]:
    """Names of the Pod's scheduling gates, in their order."""
    return [gate.get("name") or "" for gate in spec(pod).get("schedulingGates") or ()]


def is_gated(pod: Object) -> bool:
    """Whether the Pod has Tollbar's gate.  Conditions do not tell: only the scheduler updates them."""
    return wellknown.GATE in gate_names(pod)


def tolerations(pod: Object) -> list[Object]:
    return spec(pod).get("tolerations") or []


def is_bound(pod: Object) -> bool:
    """Whether it has a Node."""
    return bool(spec(pod).get("nodeName"))


def topology_labels(node_labels: Mapping[str, str]) -> dict[str, str]:
    """Labels that a Pod gets from its Node, over its own, when it is bound or created with that Node: zone and region.

    Source: admission plugin PodTopologyLabels (KEP-4742), by default since Kubernetes 1.35.
    """
    return picked(node_labels, _TOPOLOGY_LABELS)


def is_deleting(pod: Object) -> bool:
    """Whether its deletion was asked for."""
    return bool(metadata(pod).get("deletionTimestamp"))


def is_terminal(pod: Object) -> bool:
    """Whether its phase is Succeeded or Failed: none of its containers runs any more."""
    return (pod.get("status") or {}).get("phase") in _TERMINAL_PHASES


def is_done(pod: Object) -> bool:
    """Whether it no longer needs its claims: terminal, or deleted before it got a Node (isPodDone, resourceclaim)."""
    return is_terminal(pod) or (is_deleting(pod) and not is_bound(pod))


def is_mirror(pod: Object) -> bool:
    """Whether it is the mirror Pod of a static Pod, which is never scheduled."""
    return wellknown.MIRROR_ANNOTATION in annotations_of(pod)


def is_skipped(obj: Object) -> bool:
    """Whether this Pod or Namespace opts out by label."""
    return labels_of(obj).get(wellknown.LABEL_SKIP) == "true"


def is_daemon(pod: Object) -> bool:
    """Whether a DaemonSet owns the Pod, whose controller sets tolerations itself (enhancements#5282)."""
    owner = controller_of(pod)
    return owner is not None and owner.get("kind") == "DaemonSet" and str(owner.get("apiVersion")).startswith("apps/")


def is_extended_resource(name: str) -> bool:
    """Whether a resource name is an extended resource: with a domain that is not Kubernetes' own.

    Source: IsExtendedResourceName in k8s.io/kubernetes/pkg/apis/core/helper.  The names that stand for a DeviceClass
    (`deviceclass.resource.kubernetes.io/<class>`, KEP-5004) are the exception of Kubernetes' own domain.
    """
    if name.startswith(wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def extended_resources(pod: Object) -> Iterator[ResourceRequest]:
    """Every positive request of an extended resource, container by container, in the order of the names.

    Limits count where requests are absent: the API server defaults requests from them.  Quantity 0 is no request.
    """
    body = spec(pod)
    containers = [*(body.get("initContainers") or ()), *(body.get("containers") or ())]
    for index, container in enumerate(containers):
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for place, name in enumerate(sorted(wanted)):
            if not is_extended_resource(name):
                continue
            try:
                amount = quantity.parse(str(wanted[name]))
            except ValueError:
                continue  # the API server refuses such a Pod after admission
            if amount > 0:
                yield ResourceRequest(index, place, name, amount)


def without_ours(pod: Object) -> Object:
    """The Pod without the gates, label and records of rules, as rules see it: what a rule adds must not change it.

    A projected volume without sources has an empty list of them: the API server writes null (core/v1,
    ProjectedVolumeSource.Sources), which CEL does not take for a list.
    """
    meta, body = dict(metadata(pod)), dict(spec(pod))
    for member in ("labels", "annotations"):
        _set_or_drop(meta, member, {name: text for name, text in (meta.get(member) or {}).items() if name not in _OURS})
    gates = body.get("schedulingGates") or ()
    _set_or_drop(body, "schedulingGates", [gate for gate in gates if gate.get("name") not in _OUR_GATES])
    if isinstance(volumes := body.get("volumes"), list):
        body["volumes"] = [_with_sources(volume) for volume in volumes]
    return {**pod, "metadata": meta, "spec": body}


def _with_sources(volume: Any) -> Any:
    projected = volume.get("projected") if isinstance(volume, dict) else None
    if not isinstance(projected, dict) or projected.get("sources", ()) is not None:
        return volume
    return {**volume, "projected": {**projected, "sources": []}}


def _set_or_drop(part: Object, member: str, value: Collection[object]) -> None:
    if value:
        part[member] = value
    else:
        part.pop(member, None)  # the API server leaves out what is empty


def claim_references(pod: Object) -> list[Object]:
    """`spec.resourceClaims`: entries {name, resourceClaimName | resourceClaimTemplateName}."""
    return spec(pod).get("resourceClaims") or []


def uses_claims(pod: Object) -> bool:
    """Whether it refers to claims, or kube-scheduler has made one for its extended resources."""
    return bool(claim_references(pod)) or extended_resource_claim(pod) is not None


def extended_resource_claim(pod: Object) -> str | None:
    """Name of the claim that kube-scheduler has made for the Pod's extended resources (KEP-5004)."""
    return ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or None


def is_evicted_from_device(pod: Object) -> bool:
    """Whether kube-controller-manager deletes it because a device of its claims is tainted NoExecute (KEP-5055)."""
    disruption = conditions.of(pod, "DisruptionTarget")
    return disruption.get("status") == "True" and disruption.get("reason") == "DeletionByDeviceTaintManager"


def scheduling_group(pod: Object) -> str | None:
    """Name of the PodGroup that the Pod belongs to: `spec.schedulingGroup.podGroupName`."""
    return (spec(pod).get("schedulingGroup") or {}).get("podGroupName") or None
