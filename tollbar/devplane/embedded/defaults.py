"""Defaulting of built-in kinds, in place, and the fields that the API server sets in new objects.

Defaults (`pod`, `claim`, ...) are idempotent and run again after mutating admission; `new_...` runs once, at creation.
`tolerations` and `topology_labels` are what two admission plugins add to Pods.
Source: k8s.io/kubernetes/pkg/apis/*/v1/defaults.go, pkg/registry and plugin/pkg/admission.
"""

from collections.abc import Mapping
from typing import Any, Final

from tollbar.model import claims, pods
from tollbar.model.objects import Object, labels_of, metadata, spec

_MAPS: Final = frozenset({"annotations", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests"})
"""Maps that are left out when they are empty; elsewhere an empty object has a meaning."""
_OPAQUE: Final = frozenset({"fieldsV1", "openAPIV3Schema", "parameters"})
_EVICTED_AFTER: Final = 300
"""Default seconds that a Pod stays on a Node that is not ready or unreachable."""
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tidy(obj: Any) -> None:
    """Leave out nulls and empty lists, as Go's `omitempty` does."""
    if isinstance(obj, list):
        for each in obj:
            tidy(each)
    elif isinstance(obj, dict):
        for name, value in list(obj.items()):
            if value is None or value == [] or (value == {} and name in _MAPS):
                del obj[name]
            elif name not in _OPAQUE:
                tidy(value)


def pod(obj: Object) -> None:
    body = obj.setdefault("spec", {})
    _fill(
        body,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        enableServiceLinks=True,
    )
    body.setdefault("securityContext", {})
    for container in (*(body.get("initContainers") or ()), *(body.get("containers") or ())):
        _container(container)


def _container(container: Object) -> None:
    _, _, tag = (container.get("image") or "").rpartition("/")[2].partition(":")
    _fill(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if tag in ("", "latest") else "IfNotPresent",
    )
    resources = container.setdefault("resources", {})
    for member in ("limits", "requests"):
        for name, amount in (resources.get(member) or {}).items():
            resources[member][name] = str(amount)
    for name, amount in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, amount)


def tolerations(pod: Object) -> None:
    """DefaultTolerationSeconds: a Pod tolerates a failing Node for a while, unless it has tolerations of its own."""
    given = pods.tolerations(pod)
    for taint in _TAINTS:
        if not any(
            each.get("key", "") in ("", taint) and each.get("effect", "") in ("", "NoExecute") for each in given
        ):
            default = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTED_AFTER}
            spec(pod)["tolerations"] = [*pods.tolerations(pod), default]


def topology_labels(pod: Object, node_labels: Mapping[str, str]) -> None:
    """PodTopologyLabels: a Pod that is created on a Node has zone and region of the Node as labels."""
    if copied := pods.topology_labels(node_labels):
        pod["metadata"]["labels"] = {**labels_of(pod), **copied}


def new_pod(obj: Object) -> None:
    """Phase Pending, and the condition of a gated Pod.  Of the QoS classes, only BestEffort is set."""
    with_resources = [each for each in spec(obj).get("containers") or () if any((each.get("resources") or {}).values())]
    obj["status"] = {"phase": "Pending"} | ({} if with_resources else {"qosClass": "BestEffort"})
    if pods.gate_names(obj):
        why = {"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}
        obj["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", **why}]


def claim(obj: Object) -> None:
    """A ResourceClaim or a ResourceClaimTemplate."""
    obj.setdefault("spec", {})
    body = claims.template_claim_spec(obj) or spec(obj)
    for request in (body.get("devices") or {}).get("requests") or ():
        for wanted in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if wanted is None:
                continue
            _fill(wanted, allocationMode="ExactCount")
            if wanted["allocationMode"] == "ExactCount" and not wanted.get("count"):
                wanted["count"] = 1
            for toleration in wanted.get("tolerations") or ():
                _fill(toleration, operator="Equal")


def new_claim(obj: Object) -> None:
    obj["status"] = {}


def namespace(obj: Object) -> None:
    metadata(obj).setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata(obj).get("name")


def new_namespace(obj: Object) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}


def webhooks(obj: Object) -> None:
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for webhook in obj.get("webhooks") or ():
        _fill(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        if mutating:
            _fill(webhook, reinvocationPolicy="Never")
        for rule in webhook.get("rules") or ():
            _fill(rule, scope="*")


def definition(obj: Object) -> None:
    body = obj.setdefault("spec", {})
    names = body.setdefault("names", {})
    _fill(names, singular=str(names.get("kind") or "").lower(), listKind=f"{names.get('kind')}List")
    body.setdefault("conversion", {"strategy": "None"})


def new_definition(obj: Object) -> None:
    stored = [version["name"] for version in spec(obj).get("versions") or () if version.get("storage")]
    obj["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def _fill(obj: Object, **values: Any) -> None:
    """Set members that are absent or empty."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value
