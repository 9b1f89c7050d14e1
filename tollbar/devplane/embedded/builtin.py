"""The built-in kinds, a row each: short names, categories, subresources, field selectors, strategy."""

from typing import Any, Final

from tollbar.devplane.embedded import defaults
from tollbar.devplane.embedded.errors import not_implemented
from tollbar.devplane.embedded.strategies import Strategy
from tollbar.devplane.embedded.validation import claims, definitions, metadata, others, pods, podupdates
from tollbar.model import names, resources
from tollbar.model import pods as views
from tollbar.model.objects import Object, spec
from tollbar.model.resources import Resource

_RBAC: Final = ("rbac.authorization.k8s.io", "v1")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
CORE_EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
ROLES: Final = Resource(*_RBAC, "roles", "Role", namespaced=True)
ROLE_BINDINGS: Final = Resource(*_RBAC, "rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLES: Final = Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


def _grace(pod: Object, asked: int | None) -> int:
    phase = (pod.get("status") or {}).get("phase")
    if not views.is_bound(pod) or phase in ("Succeeded", "Failed"):
        return 0
    return spec(pod).get("terminationGracePeriodSeconds", 30) if asked is None else asked


def _check_resize(new: Object, old: Object) -> None:
    resources_of = [[each.get("resources") or {} for each in spec(pod).get("containers") or ()] for pod in (new, old)]
    if resources_of[0] != resources_of[1]:
        raise not_implemented("resizing of Pods")


_POD: Final = Strategy(
    fill=defaults.pod,
    prepare=defaults.new_pod,
    check=pods.validate,
    check_new=pods.validate_new,
    check_update=podupdates.validate,
    check_status=pods.validate_status,
    check_resize=_check_resize,
    has_status=True,
    status_keeps=("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "finalizers", "ownerReferences"),
    counts=True,
    grace=_grace,
)
_NAMESPACE: Final = Strategy(
    fill=defaults.namespace,
    prepare=defaults.new_namespace,
    naming=names.dns_label,
    has_status=True,
    kept=("spec",),
)
_CLAIM: Final = Strategy(
    fill=defaults.claim,
    prepare=defaults.new_claim,
    check=claims.validate_claim,
    check_update=claims.validate_spec_update,
    check_status=claims.validate_status,
    has_status=True,
)
_TEMPLATE: Final = Strategy(
    fill=defaults.claim, check=claims.validate_template, check_update=claims.validate_spec_update
)
_SLICE: Final = Strategy(check=claims.validate_slice, check_update=claims.validate_slice_update, counts=True)
_DEFINITION: Final = Strategy(
    fill=defaults.definition,
    prepare=defaults.new_definition,
    check=definitions.validate,
    check_update=definitions.validate_update,
    has_status=True,
    counts=True,
)
_CONFIG: Final = Strategy(check=others.validate_config_map)
_EVENT: Final = Strategy(check=others.validate_event, check_update=others.validate_event_update)
_LEASE: Final = Strategy(check=others.validate_lease, allow_create_on_update=True)
_WEBHOOKS: Final = Strategy(fill=defaults.webhooks, check=others.validate_webhooks, counts=True)
_ROLE: Final = Strategy(naming=metadata.path_segment)
_BINDING: Final = Strategy(
    naming=metadata.path_segment, check=others.validate_binding, check_update=others.validate_binding_update
)

_REGARDING: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_TEXTS: Final = {"reason": "reason", "type": "type"}
_EVENT_FIELDS: Final = {**{f"regarding.{each}": f"regarding.{each}" for each in _REGARDING}, **_EVENT_TEXTS}
_CORE_EVENT_FIELDS: Final = {**{f"involvedObject.{each}": f"regarding.{each}" for each in _REGARDING}, **_EVENT_TEXTS}


def _fields(*paths: str) -> dict[str, str]:
    return {path: path for path in paths}


_POD_FIELDS: Final = _fields(
    *(f"spec.{each}" for each in ("nodeName", "schedulerName", "restartPolicy", "serviceAccountName", "hostNetwork")),
    *(f"status.{each}" for each in ("phase", "podIP", "nominatedNodeName")),
)
_EXTENSION: Final = ("api-extensions",)

SENT: Final = {
    "DeleteOptions": ("", "v1"),
    "Binding": ("", "v1"),
    "TokenRequest": ("authentication.k8s.io", "v1"),
    "SelfSubjectReview": ("authentication.k8s.io", "v1"),
    "SelfSubjectAccessReview": ("authorization.k8s.io", "v1"),
    "SubjectAccessReview": ("authorization.k8s.io", "v1"),
}
"""Group and version of what is sent and never stored, by kind."""

BUILTIN: Final[tuple[tuple[Resource, Strategy, dict[str, Any]], ...]] = (
    (
        resources.PODS,
        _POD,
        {
            "short_names": ("po",),
            "categories": ("all",),
            "subresources": ("status", "binding", "resize"),
            "selectable": _POD_FIELDS,
        },
    ),
    (
        resources.NAMESPACES,
        _NAMESPACE,
        {"short_names": ("ns",), "subresources": ("status",), "selectable": _fields("status.phase")},
    ),
    (
        resources.NODES,
        Strategy(has_status=True, takes_status=True),
        {"short_names": ("no",), "subresources": ("status",), "selectable": _fields("spec.unschedulable")},
    ),
    (resources.CONFIG_MAPS, _CONFIG, {"short_names": ("cm",)}),
    (resources.SECRETS, _CONFIG, {"selectable": _fields("type")}),
    (SERVICE_ACCOUNTS, Strategy(), {"short_names": ("sa",), "subresources": ("token",)}),
    (CORE_EVENTS, Strategy(), {"short_names": ("ev",), "stored": resources.EVENTS, "selectable": _CORE_EVENT_FIELDS}),
    (resources.EVENTS, _EVENT, {"short_names": ("ev",), "selectable": _EVENT_FIELDS}),
    (resources.LEASES, _LEASE, {}),
    (resources.RESOURCE_CLAIMS, _CLAIM, {"subresources": ("status",)}),
    (resources.RESOURCE_CLAIM_TEMPLATES, _TEMPLATE, {}),
    (resources.DEVICE_CLASSES, Strategy(check=claims.validate_class, counts=True), {}),
    (resources.RESOURCE_SLICES, _SLICE, {"selectable": _fields("spec.nodeName", "spec.driver")}),
    (ROLES, _ROLE, {}),
    (ROLE_BINDINGS, _BINDING, {}),
    (CLUSTER_ROLES, _ROLE, {}),
    (CLUSTER_ROLE_BINDINGS, _BINDING, {}),
    (
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        _DEFINITION,
        {"short_names": ("crd", "crds"), "categories": _EXTENSION, "subresources": ("status",)},
    ),
    (resources.MUTATING_WEBHOOK_CONFIGURATIONS, _WEBHOOKS, {"categories": _EXTENSION}),
    (resources.VALIDATING_WEBHOOK_CONFIGURATIONS, _WEBHOOKS, {"categories": _EXTENSION}),
)
