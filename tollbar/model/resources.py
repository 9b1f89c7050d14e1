"""The kinds of the Kubernetes API that Tollbar reads or writes, as values: group, version, plural, kind, scope."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from tollbar import wellknown


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource.  The group is empty for the core API; the plural is the name in paths and RBAC."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`: `v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection (no name) or an object; all namespaces when none is given.

        Raises ValueError for an object of a namespaced kind without its namespace.  Names are percent-encoded, so no
        name can reach another path.
        """
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(map(_quoted, parts))


@lru_cache(maxsize=4096)
def _quoted(part: str) -> str:
    """Cached: the same names and plurals come again with every request about an object."""
    return quote(part, safe="")


PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)

RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)

POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", namespaced=True)

TOLERATION_RULES: Final = Resource(
    wellknown.GROUP, wellknown.VERSION, "tolerationrules", "TolerationRule", namespaced=False
)
SCHEDULING_GATES: Final = Resource(
    wellknown.GROUP, wellknown.VERSION, "schedulinggates", "SchedulingGate", namespaced=False
)
WORKLOAD_CLAIMS: Final = Resource(
    wellknown.GROUP, wellknown.VERSION, "workloadclaims", "WorkloadClaim", namespaced=True
)

EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
