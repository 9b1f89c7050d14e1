"""Admission plugins of the API server itself.

These are NamespaceLifecycle, ServiceAccount, Priority, DefaultTolerationSeconds and PodTopologyLabels.  Objects are
changed in place.  Source: k8s.io/kubernetes/plugin/pkg/admission.
"""

from typing import Final

from tollbar.devplane.embedded import defaults
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.errors import forbidden, not_found, not_implemented
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Storage
from tollbar.model import pods
from tollbar.model.fields import FieldError
from tollbar.model.objects import Key, Object, spec
from tollbar.model.resources import NAMESPACES, NODES, PODS

_KEPT: Final = frozenset({"default", "kube-public", "kube-system"})


def check(storage: Storage, write: Write) -> None:
    """NamespaceLifecycle: creation needs a namespace that is not terminating.  Raises Refused."""
    res = write.kind.resource
    if write.operation == "DELETE":
        if res == NAMESPACES and write.key.name in _KEPT:
            raise forbidden("", "namespaces", write.key.name, "this namespace may not be deleted")
        return
    if not res.namespaced:
        return
    entry = storage.get(NAMESPACES, Key("", write.key.namespace))
    if entry is None:
        raise not_found("", "namespaces", write.key.namespace)
    if write.operation == "CREATE" and entry.field("metadata.deletionTimestamp"):
        name = write.key.namespace
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = FieldError("metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating")
        raise forbidden(res.group, res.plural, write.key.name, why, [cause])


def mutate(storage: Storage, write: Write, new: Object) -> None:
    """The mutating plugins, which act on Pods only.  Raises Refused."""
    if write.kind.resource != PODS or write.subresource or write.operation not in ("CREATE", "UPDATE"):
        return
    if write.operation == "CREATE":
        _service_account(storage, write, new)
        _priority(new)
    defaults.tolerations(new)
    if write.operation == "CREATE":
        node = storage.get(NODES, Key("", spec(new).get("nodeName") or ""))
        defaults.topology_labels(new, node.labels if node else {})


def _service_account(storage: Storage, write: Write, pod: Object) -> None:
    body = spec(pod)
    name = body.get("serviceAccountName") or "default"
    if pods.is_mirror(pod):
        return
    if storage.get(SERVICE_ACCOUNTS, Key(write.key.namespace, name)) is None:
        where = f"error looking up service account {write.key.namespace}/{name}"
        raise forbidden("", "pods", write.key.name, f'{where}: serviceaccount "{name}" not found')
    body["serviceAccountName"] = body["serviceAccount"] = name


def _priority(pod: Object) -> None:
    if spec(pod).get("priorityClassName"):
        raise not_implemented("PriorityClasses: leave out priorityClassName")
    spec(pod).update(priority=0, preemptionPolicy=spec(pod).get("preemptionPolicy") or "PreemptLowerPriority")
