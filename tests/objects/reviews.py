"""What an API server sends: the `request` of a review, and the review around it."""

from typing import Any

from objects.builders import Pod, pod, toleration
from tollbar.model.objects import Object, key_of

UID = "11111111-2222-3333-4444-555555555555"
NOT_READY = toleration("node.kubernetes.io/not-ready", effect="NoExecute")
GPU_CLAIM = (
    "claims.exists(c, c.spec.devices.requests.exists(r,"
    ' has(r.exactly) && r.exactly.deviceClassName == "gpu.example.com"))'
)


def new_pod(*templates: str) -> Pod:
    """A Pod with these claims, and with the toleration that the API server has given it by then."""
    return pod().being_created().tolerating(NOT_READY).templates(*templates)


def about_pod(obj: Object | None, operation: str = "CREATE", **members: Any) -> Object:
    return {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": key_of(obj or {}).name,
        "namespace": "ml",
        "operation": operation,
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        **members,
    }


def about_ours(obj: Object, operation: str = "CREATE", **members: Any) -> Object:
    """About a TolerationRule or a SchedulingGate."""
    kind = {"group": "tollbar.dev", "version": "v1alpha1", "kind": obj["kind"]}
    return about_pod(obj, operation, kind=kind, namespace="", **members)


def review_of(request: Object) -> Object:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
