"""What is served: built-in kinds as a table, and the registry that CustomResourceDefinitions add to.

Read by the router, discovery, RBAC, admission rules and printing; `definitions` adds and removes custom kinds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tollbar.devplane.embedded import strategies
from tollbar.devplane.embedded.strategies import Strategy
from tollbar.model.objects import Object
from tollbar.runtime import resources
from tollbar.runtime.resources import Resource

EVERY_VERB: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column: `path` is a JSONPath as CRDs write it (`.spec.size`); built-in kinds compute their cells."""

    name: str
    type: str = "string"
    path: str = ""
    priority: int = 0
    description: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One served version of one kind.

    `stored` is the resource under which its objects are kept: versions of one kind share it, and core Events are kept
    as events.k8s.io.  `selectable` maps field selector labels to dotted paths, beside metadata.name and .namespace.
    `schema` is the openAPIV3Schema of a custom resource, None for built-in kinds.
    """

    resource: Resource
    strategy: Strategy
    singular: str
    list_kind: str
    stored: Resource
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    selectable: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    schema: Object | None = None

    @property
    def custom(self) -> bool:
        return self.schema is not None


_STATUS: Final = frozenset({"status"})
_POD_FIELDS: Final = {
    label: label
    for label in (
        "spec.nodeName",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
}
_REGARDING: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS: Final = {
    **{f"regarding.{each}": f"regarding.{each}" for each in _REGARDING},
    "reason": "reason",
    "type": "type",
    "reportingController": "reportingController",
}
_CORE_EVENT_FIELDS: Final = {
    **{f"involvedObject.{each}": f"regarding.{each}" for each in _REGARDING},
    "reason": "reason",
    "type": "type",
    "reportingComponent": "reportingController",
    "source": "reportingController",
}

_RBAC: Final = ("rbac.authorization.k8s.io", "v1")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
CORE_EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
ROLES: Final = Resource(*_RBAC, "roles", "Role", namespaced=True)
ROLE_BINDINGS: Final = Resource(*_RBAC, "rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLES: Final = Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)

BUILTIN: Final[tuple[tuple[Resource, dict[str, Any]], ...]] = (
    (
        resources.PODS,
        {
            "short_names": ("po",),
            "categories": ("all",),
            "subresources": frozenset({"status", "binding", "resize"}),
            "selectable": _POD_FIELDS,
        },
    ),
    (
        resources.NAMESPACES,
        {
            "short_names": ("ns",),
            "subresources": frozenset({"status", "finalize"}),
            "selectable": {"status.phase": "status.phase"},
        },
    ),
    (
        resources.NODES,
        {
            "short_names": ("no",),
            "subresources": _STATUS,
            "selectable": {"spec.unschedulable": "spec.unschedulable"},
        },
    ),
    (resources.CONFIG_MAPS, {"short_names": ("cm",)}),
    (resources.SECRETS, {"selectable": {"type": "type"}}),
    (SERVICE_ACCOUNTS, {"short_names": ("sa",), "subresources": frozenset({"token"})}),
    (CORE_EVENTS, {"short_names": ("ev",), "stored": resources.EVENTS, "selectable": _CORE_EVENT_FIELDS}),
    (resources.EVENTS, {"short_names": ("ev",), "selectable": _EVENT_FIELDS}),
    (resources.LEASES, {}),
    (resources.RESOURCE_CLAIMS, {"subresources": _STATUS}),
    (resources.RESOURCE_CLAIM_TEMPLATES, {}),
    (resources.DEVICE_CLASSES, {}),
    (
        resources.RESOURCE_SLICES,
        {"selectable": {"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"}},
    ),
    (ROLES, {}),
    (ROLE_BINDINGS, {}),
    (CLUSTER_ROLES, {}),
    (CLUSTER_ROLE_BINDINGS, {}),
    (PRIORITY_CLASSES, {"short_names": ("pc",)}),
    (
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        {"short_names": ("crd", "crds"), "categories": ("api-extensions",), "subresources": _STATUS},
    ),
    (resources.MUTATING_WEBHOOK_CONFIGURATIONS, {"categories": ("api-extensions",)}),
    (resources.VALIDATING_WEBHOOK_CONFIGURATIONS, {"categories": ("api-extensions",)}),
)


def builtin() -> list[Kind]:
    """The kinds that are always there."""
    return [
        Kind(
            resource=res,
            strategy=strategies.of(res),
            singular=res.kind.lower(),
            list_kind=f"{res.kind}List",
            **{"stored": res, **more},
        )
        for res, more in BUILTIN
    ]


class Kinds:
    """All served kinds, by group, version and plural.  `generation` grows with every change: caches compare it."""

    def __init__(self) -> None:
        self.generation = 0
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in builtin():
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve a kind, in place of what was served there before."""
        res = kind.resource
        self._kinds[res.group, res.version, res.plural] = kind
        self.generation += 1

    def remove(self, res: Resource) -> None:
        """Serve it no longer; its objects are the caller's business."""
        if self._kinds.pop((res.group, res.version, res.plural), None) is not None:
            self.generation += 1

    def at(self, res: Resource) -> Kind:
        """The kind that is served there.  Raises KeyError."""
        return self._kinds[res.group, res.version, res.plural]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        """By what an object says of itself."""
        group, _, version = api_version.rpartition("/")
        for each in self._kinds.values():
            res = each.resource
            if (res.group, res.version, res.kind) == (group, version, kind):
                return each
        return None

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))
