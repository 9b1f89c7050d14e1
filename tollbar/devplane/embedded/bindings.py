"""pods/binding: assigns a Pod to a Node.

Source: BindingREST in k8s.io/kubernetes/pkg/registry/core/pod/storage, and the admission plugin PodTopologyLabels.
"""

from collections.abc import Mapping

from tollbar.model import pods
from tollbar.model.objects import Object, annotations_of, labels_of, metadata, uid_of


def refusal(pod: Object, name: str, uid: str | None) -> str:
    """Why this Pod cannot be bound; empty if it can."""
    if uid and uid != uid_of(pod):
        return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {uid_of(pod)}"
    if pods.is_deleting(pod):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pods.is_bound(pod):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if pods.gate_names(pod) else ""


def bound_by(binding: Object, pod: Object, node_labels: Mapping[str, str], now: str) -> Object:
    """The Pod with the Node, annotations and labels of a Binding, and with the condition PodScheduled.

    It has zone and region of the Node as labels, if the Binding says that its target is a Node.  A nomination ends.
    """
    target, meta, status = binding["target"], metadata(pod), pod.get("status") or {}
    copied = pods.topology_labels(node_labels) if target.get("kind") == "Node" else {}
    given = {"annotations": annotations_of(binding), "labels": {**labels_of(binding), **copied}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    kept = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
    return {
        **pod,
        "metadata": {**meta, **{name: {**(meta.get(name) or {}), **added} for name, added in given.items() if added}},
        "spec": {**pod["spec"], "nodeName": target["name"]},
        "status": {
            **{name: value for name, value in status.items() if name != "nominatedNodeName"},
            "conditions": [*kept, scheduled],
        },
    }
