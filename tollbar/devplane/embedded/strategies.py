"""What a kind's objects must look like, by kind (names as in k8s.io/apiserver/pkg/registry/rest).

A `Strategy` is a row of rules: `of` makes it from the tables below for the built-in kinds, `definitions` has one for
custom resources.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tollbar.devplane.embedded import defaults
from tollbar.devplane.embedded.errors import Cause, not_implemented
from tollbar.devplane.embedded.validation import claims, definitions, metadata, others, pods, podupdates
from tollbar.model import names
from tollbar.model import pods as views
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object, spec
from tollbar.runtime.resources import Resource


class Strategy(Protocol):
    """Called by the registry in this order: `default`, admission, `default`, `prepare_for_*`, `validate*`.

    Objects are the caller's own and are changed in place.  `subresource` is "" for the object itself.
    """

    @property
    def allow_create_on_update(self) -> bool:
        """A PUT of what is not there creates it (Leases)."""
        ...

    @property
    def allow_unconditional_update(self) -> bool:
        """A PUT without resourceVersion is taken (all but custom resources)."""
        ...

    def prune(self, obj: Object, /) -> list[str]:
        """Drop unknown fields of a custom resource; their paths.  Never called for built-in kinds (see shapes)."""
        ...

    def default(self, obj: Object) -> None:
        """Fill in what the API's defaulting does; idempotent."""

    def prepare_for_create(self, obj: Object) -> None:
        """Generation 1 if the kind has one, no status, derived fields."""

    def validate(self, obj: Object) -> list[Cause]: ...

    def prepare_for_update(self, new: Object, old: Object, subresource: str) -> None:
        """Keep what this path may not write, raise the generation when the spec changed."""

    def validate_update(self, new: Object, old: Object, subresource: str, /) -> list[Cause]: ...

    def grace(self, obj: Object, asked: int | None, /) -> int:
        """Seconds that a deletion waits for a kubelet; 0 removes at once."""
        ...


Change = Callable[[Object], None]
Check = Callable[[Object], list[FieldError]]
UpdateCheck = Callable[[Object, Object], list[FieldError]]


def _nothing(*_objects: Object) -> list[FieldError]:
    return []


def _leave(_obj: Object) -> None:
    """Has no defaults, or nothing to prepare."""


def keep_metadata(new: Object, old: Object) -> None:
    """What a write of the status does not change in the metadata (ResetObjectMetaForStatus, apimachinery)."""
    keep(new["metadata"], old["metadata"], *_KEPT)


def keep(new: Object, old: Object, *members: str) -> None:
    """Give these members their old values."""
    for member in members:
        if member in old:
            new[member] = old[member]
        else:
            new.pop(member, None)


_KEPT: Final = (
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The strategy of a built-in kind."""

    fill: Change = _leave
    """Defaults."""
    prepare: Change = _leave
    """What only creation does."""
    check: Check = _nothing
    check_new: Check = _nothing
    check_update: UpdateCheck = _nothing
    """Beside `check`, which every new state has to pass."""
    check_status: UpdateCheck = _nothing
    naming: metadata.Naming = names.dns_subdomain
    has_status: bool = False
    takes_status: bool = False
    """Whether a status is taken at creation: kubelets register their Nodes with one."""
    kept: tuple[str, ...] = ()
    """Members that updates leave as they are."""
    counts: bool = False
    """Whether metadata.generation counts changes of what is not metadata or status."""
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True

    def prune(self, _obj: Object) -> list[str]:
        raise TypeError("the fields of built-in kinds are known by shapes")

    def default(self, obj: Object) -> None:
        defaults.tidy(obj)
        self.fill(obj)

    def prepare_for_create(self, obj: Object) -> None:
        obj["metadata"].pop("generation", None)
        if self.counts:
            obj["metadata"]["generation"] = 1
        if self.has_status and not self.takes_status:
            obj.pop("status", None)
        self.prepare(obj)

    def validate(self, obj: Object) -> list[Cause]:
        return list(map(Cause.of, metadata.validate(obj, self.naming) + self.check(obj) + self.check_new(obj)))

    def prepare_for_update(self, new: Object, old: Object, subresource: str) -> None:
        keep(new["metadata"], old["metadata"], "generation")
        if subresource == "status":
            keep(new, old, *(set(new) | set(old)) - {"metadata", "status"})
            keep_metadata(new, old)
        else:
            keep(new, old, *(["status"] if self.has_status else []), *self.kept)
        if self.counts and changed(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        errors = metadata.validate_update(new, old)
        if subresource == "status":
            errors += self.check_status(new, old)
        else:
            errors += metadata.validate(new, self.naming) + self.check(new) + self.check_update(new, old)
        return list(map(Cause.of, errors))

    def grace(self, _obj: Object, _asked: int | None) -> int:
        return 0


def changed(new: Object, old: Object) -> bool:
    """Whether something other than metadata and status differs."""
    members = {*new, *old} - {"metadata", "status"}
    return any(new.get(member) != old.get(member) for member in members)


@dataclass(frozen=True, slots=True)
class Pods(BuiltIn):
    """Pods: a status path that takes labels and annotations, a resize path, a grace for those that have a Node."""

    def prepare_for_update(self, new: Object, old: Object, subresource: str) -> None:
        sent = dict(new["metadata"])
        if subresource == "resize":
            if _resources(new) != _resources(old):
                raise not_implemented("resizing of Pods")
            keep(new, old, "spec", "status")
        # Through super() of a slotted dataclass, which is another class than the one that this method was written in.
        BuiltIn.prepare_for_update(self, new, old, subresource)
        if subresource == "status":
            keep(new["metadata"], sent, "labels", "annotations")

    def grace(self, obj: Object, asked: int | None) -> int:
        phase = (obj.get("status") or {}).get("phase")
        if not views.is_bound(obj) or phase in ("Succeeded", "Failed"):
            return 0
        return spec(obj).get("terminationGracePeriodSeconds", 30) if asked is None else asked


def _resources(pod: Object) -> list[Object]:
    return [container.get("resources") or {} for container in spec(pod).get("containers") or ()]


_CLAIM: Final[dict[str, Any]] = {"fill": defaults.claim, "check_update": claims.validate_spec_update}
_BINDING: Final[dict[str, Any]] = {
    "naming": metadata.path_segment,
    "check": others.validate_binding,
    "check_update": others.validate_binding_update,
}
_WEBHOOKS: Final[dict[str, Any]] = {"fill": defaults.webhooks, "check": others.validate_webhooks, "counts": True}
_RBAC: Final = "rbac.authorization.k8s.io"

_STRATEGIES: Final[dict[tuple[str, str], BuiltIn]] = {
    ("", "pods"): Pods(
        fill=defaults.pod,
        prepare=defaults.new_pod,
        check=pods.validate,
        check_new=pods.validate_new,
        check_update=podupdates.validate,
        check_status=pods.validate_status,
        has_status=True,
        counts=True,
    ),
    ("", "namespaces"): BuiltIn(
        fill=defaults.namespace,
        prepare=defaults.new_namespace,
        naming=names.dns_label,
        has_status=True,
        kept=("spec",),
    ),
    ("", "nodes"): BuiltIn(has_status=True, takes_status=True),
    ("", "configmaps"): BuiltIn(check=others.validate_config_map),
    ("", "secrets"): BuiltIn(check=others.validate_config_map),
    ("events.k8s.io", "events"): BuiltIn(check=others.validate_event, check_update=others.validate_event_update),
    ("coordination.k8s.io", "leases"): BuiltIn(check=others.validate_lease, allow_create_on_update=True),
    ("resource.k8s.io", "resourceclaims"): BuiltIn(
        **_CLAIM,
        prepare=defaults.new_claim,
        check=claims.validate_claim,
        check_status=claims.validate_status,
        has_status=True,
    ),
    ("resource.k8s.io", "resourceclaimtemplates"): BuiltIn(**_CLAIM, check=claims.validate_template),
    ("resource.k8s.io", "deviceclasses"): BuiltIn(check=claims.validate_class, counts=True),
    ("resource.k8s.io", "resourceslices"): BuiltIn(
        check=claims.validate_slice, check_update=claims.validate_slice_update, counts=True
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): BuiltIn(
        fill=defaults.definition,
        prepare=defaults.new_definition,
        check=definitions.validate,
        check_update=definitions.validate_update,
        has_status=True,
        counts=True,
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): BuiltIn(**_WEBHOOKS),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): BuiltIn(**_WEBHOOKS),
    (_RBAC, "roles"): BuiltIn(naming=metadata.path_segment),
    (_RBAC, "clusterroles"): BuiltIn(naming=metadata.path_segment, check=others.validate_cluster_role),
    (_RBAC, "rolebindings"): BuiltIn(**_BINDING),
    (_RBAC, "clusterrolebindings"): BuiltIn(**_BINDING),
}


def of(resource: Resource) -> Strategy:
    """The strategy of a built-in kind."""
    return _STRATEGIES.get((resource.group, resource.plural), BuiltIn())
