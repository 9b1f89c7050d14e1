"""The API server's own admission plugins: NamespaceLifecycle, ServiceAccount, Priority, DefaultTolerationSeconds.

Called by the chain; objects are changed in place.  Source: k8s.io/kubernetes/plugin/pkg/admission.
"""

from typing import Final

from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.errors import forbidden, not_found, not_implemented
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Storage
from tollbar.model import pods
from tollbar.model.fields import FieldError
from tollbar.model.objects import Key, Object, spec
from tollbar.model.resources import NAMESPACES, PODS

_KEPT: Final = frozenset({"default", "kube-public", "kube-system"})
_EVICTED_AFTER: Final = 300
"""Seconds that a Pod stays on a Node that is not ready or not reachable."""
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def check(storage: Storage, about: Write) -> None:
    """NamespaceLifecycle: nothing new without a namespace or in one that ends.  Raises Refused."""
    res = about.kind.resource
    if about.operation == "DELETE":
        if res == NAMESPACES and about.key.name in _KEPT:
            raise forbidden("", "namespaces", about.key.name, "this namespace may not be deleted")
        return
    if not res.namespaced:
        return
    entry = storage.get(NAMESPACES, Key("", about.key.namespace))
    if entry is None:
        raise not_found("", "namespaces", about.key.namespace)
    if about.operation == "CREATE" and entry.field("metadata.deletionTimestamp"):
        name = about.key.namespace
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = FieldError("metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating")
        raise forbidden(res.group, res.plural, about.key.name, why, [cause])


def mutate(storage: Storage, about: Write, new: Object) -> None:
    """What is done to Pods.  Raises Refused."""
    if about.kind.resource != PODS or about.subresource or about.operation not in ("CREATE", "UPDATE"):
        return
    if about.operation == "CREATE":
        _service_account(storage, about, new)
        _priority(new)
    _tolerations(new)


def _service_account(storage: Storage, about: Write, pod: Object) -> None:
    body = spec(pod)
    name = body.get("serviceAccountName") or "default"
    if pods.is_mirror(pod):
        return
    if storage.get(SERVICE_ACCOUNTS, Key(about.key.namespace, name)) is None:
        where = f"error looking up service account {about.key.namespace}/{name}"
        raise forbidden("", "pods", about.key.name, f'{where}: serviceaccount "{name}" not found')
    body["serviceAccountName"] = body["serviceAccount"] = name


def _priority(pod: Object) -> None:
    if spec(pod).get("priorityClassName"):
        raise not_implemented("PriorityClasses: leave out priorityClassName")
    spec(pod).update(priority=0, preemptionPolicy=spec(pod).get("preemptionPolicy") or "PreemptLowerPriority")


def _tolerations(pod: Object) -> None:
    """DefaultTolerationSeconds: every Pod stays a while on a Node that fails, unless it says otherwise."""
    given = pods.tolerations(pod)
    for taint in _TAINTS:
        if not any(
            each.get("key", "") in ("", taint) and each.get("effect", "") in ("", "NoExecute") for each in given
        ):
            default = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTED_AFTER}
            spec(pod)["tolerations"] = [*pods.tolerations(pod), default]
