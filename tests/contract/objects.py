"""The objects that rows send, as small as the API allows, and the kinds that they are of."""

from typing import Any

from planes.access import KINDS

from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import Resource

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
WIDGETS = Resource("contract.example.com", "v1", "widgets", "Widget", namespaced=True)

_OTHERS = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, ACCESS_REVIEWS, WIDGETS)
_KINDS = {**KINDS, **{(each.api_version, each.kind): each for each in _OTHERS}}

GPU = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}
DEFAULTS = [NOT_READY, UNREACHABLE]
"""The tolerations that admission gives to a Pod."""


def resource_of(obj: Object) -> Resource:
    return _KINDS[obj["apiVersion"], obj["kind"]]


def made(res: Resource, name: str, **fields: Any) -> Object:
    """An object of a kind; `metadata` is merged with the name."""
    meta = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": res.api_version, "kind": res.kind, "metadata": meta, **fields}


def config_map(name: str = "map", data: Object | None = None, **metadata: Any) -> Object:
    return made(resources.CONFIG_MAPS, name, data={"a": "1"} if data is None else data, metadata=metadata)


def lease(name: str = "turn", holder: str = "1", **metadata: Any) -> Object:
    """An object of a kind of which nobody else puts any into a test's namespace."""
    return made(resources.LEASES, name, spec={"holderIdentity": holder}, metadata=metadata)


def pod(*gates: str, name: str = "web", metadata: Object | None = None, **spec: Any) -> Object:
    """A Pod that no scheduler looks at, held by these gates."""
    wanted: Object = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}
    if gates:
        wanted["schedulingGates"] = [{"name": gate} for gate in gates]
    return made(resources.PODS, name, metadata=metadata or {}, spec={**wanted, **spec})


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Object:
    return {"op": "remove", "path": path}


def put(path: str, value: Any) -> Object:
    return {"op": "replace", "path": path, "value": value}


def check(path: str, value: Any) -> Object:
    return {"op": "test", "path": path, "value": value}
