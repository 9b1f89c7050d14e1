"""The API server's own admission plugins: NamespaceLifecycle, ServiceAccount, Priority, DefaultTolerationSeconds.

Called by the chain; objects are changed in place.  Source: k8s.io/kubernetes/plugin/pkg/admission.
"""

from typing import Final

from tollbar.devplane.embedded.errors import Cause, Refused, forbidden, not_found
from tollbar.devplane.embedded.kinds import PRIORITY_CLASSES, SERVICE_ACCOUNTS
from tollbar.devplane.embedded.requests import Attributes
from tollbar.devplane.embedded.storage import Storage
from tollbar.model import pods
from tollbar.model.objects import Key, Object, spec
from tollbar.runtime.resources import NAMESPACES, PODS

_KEPT: Final = frozenset({"default", "kube-public", "kube-system"})
_EVICTED_AFTER: Final = 300
"""Seconds that a Pod stays on a Node that is not ready or not reachable."""
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def check(storage: Storage, about: Attributes) -> None:
    """NamespaceLifecycle: nothing new without a namespace or in one that ends.  Raises Refused."""
    res = about.kind.resource
    if about.operation == "DELETE":
        if res == NAMESPACES and about.name in _KEPT:
            raise forbidden("", "namespaces", about.name, "this namespace may not be deleted")
        return
    if not res.namespaced:
        return
    entry = storage.get(NAMESPACES, Key("", about.namespace))
    if entry is None:
        raise not_found("", "namespaces", about.namespace)
    if about.operation == "CREATE" and entry.field("metadata.deletionTimestamp"):
        name = about.namespace
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = Cause("NamespaceTerminating", "metadata.namespace", f"namespace {name} is being terminated")
        raise forbidden(res.group, res.plural, about.name, why, [cause])


def mutate(storage: Storage, about: Attributes, new: Object) -> None:
    """What is done to Pods.  Raises Refused."""
    if about.kind.resource != PODS or about.subresource or about.operation not in ("CREATE", "UPDATE"):
        return
    if about.operation == "CREATE":
        _service_account(storage, about, new)
        _priority(storage, about, new)
    _tolerations(new)


def _service_account(storage: Storage, about: Attributes, pod: Object) -> None:
    body = spec(pod)
    name = body.get("serviceAccountName") or "default"
    if pods.is_mirror(pod):
        return
    if storage.get(SERVICE_ACCOUNTS, Key(about.namespace, name)) is None:
        where = f"error looking up service account {about.namespace}/{name}"
        raise _refused(about, f'{where}: serviceaccount "{name}" not found')
    body["serviceAccountName"] = body["serviceAccount"] = name


def _priority(storage: Storage, about: Attributes, pod: Object) -> None:
    body = spec(pod)
    classes = [entry.decoded() for _, entry in storage.items(PRIORITY_CLASSES)]
    wanted = body.get("priorityClassName")
    found = [each for each in classes if (each["metadata"]["name"] == wanted if wanted else each.get("globalDefault"))]
    if wanted and not found:
        raise _refused(about, f"no PriorityClass with name {wanted} was found")
    body["priority"] = found[0].get("value", 0) if found else 0
    policy = found[0].get("preemptionPolicy") if found else None
    body.setdefault("preemptionPolicy", policy or "PreemptLowerPriority")


def _refused(about: Attributes, why: str) -> Refused:
    return forbidden("", "pods", about.name, why)


def _tolerations(pod: Object) -> None:
    """DefaultTolerationSeconds: every Pod stays a while on a Node that fails, unless it says otherwise."""
    given = pods.tolerations(pod)
    for taint in _TAINTS:
        if not any(
            each.get("key", "") in ("", taint) and each.get("effect", "") in ("", "NoExecute") for each in given
        ):
            default = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTED_AFTER}
            spec(pod)["tolerations"] = [*pods.tolerations(pod), default]
