"""The objects of an empty cluster: the system's namespaces, the default roles and their bindings."""

from typing import Any, Final

from tollbar.devplane.embedded.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from tollbar.devplane.embedded.namespaces import SYSTEM_NAMESPACES
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.requests import AUTHENTICATED, MASTERS, Write, WriteOptions
from tollbar.model.objects import Key
from tollbar.model.resources import NAMESPACES, Resource

_EVERYTHING: Final = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
_DISCOVERY: Final = [{"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi/*"], "verbs": ["get"]}]
_BASIC: Final = [
    {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"], "verbs": ["create"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
]
_ROLES: Final = {
    "cluster-admin": (_EVERYTHING, MASTERS),
    "system:discovery": (_DISCOVERY, AUTHENTICATED),
    "system:basic-user": (_BASIC, AUTHENTICATED),
}


async def fill(registry: Registry) -> None:
    """Create the objects that a cluster starts with."""
    for name in SYSTEM_NAMESPACES:
        await _create(registry, NAMESPACES, name)
    group = CLUSTER_ROLES.group
    for name, (rules, subject) in _ROLES.items():
        await _create(registry, CLUSTER_ROLES, name, rules=rules)
        role = {"apiGroup": group, "kind": CLUSTER_ROLES.kind, "name": name}
        subjects = [{"apiGroup": group, "kind": "Group", "name": subject}]
        await _create(registry, CLUSTER_ROLE_BINDINGS, name, roleRef=role, subjects=subjects)


async def _create(registry: Registry, res: Resource, name: str, **fields: Any) -> None:
    write = Write(registry.kinds.at(res), Key("", name), options=WriteOptions("kube-apiserver"))
    await registry.create(write, {"metadata": {"name": name}, **fields})


def open_tables(registry: Registry) -> None:
    """Open storage for every built-in kind."""
    for kind in registry.kinds:
        registry.storage.open(kind.stored, list(kind.selectable.values()))
