"""Strategies: how the objects of a kind are defaulted, prepared and validated (k8s.io/apiserver/pkg/registry/rest).

`builtin` has those of the built-in kinds, `definitions` makes one for each custom resource.  The order of the calls is
`default`, mutating admission, `default`, `prepare_for_*`, `validate*`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tollbar.devplane.embedded import defaults
from tollbar.devplane.embedded.validation import metadata
from tollbar.model import names
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object

Change = Callable[[Object], None]
Check = Callable[[Object], list[FieldError]]
UpdateCheck = Callable[[Object, Object], list[FieldError]]

_KEPT: Final = (
    *("deletionTimestamp", "deletionGracePeriodSeconds", "generation"),
    *("labels", "annotations", "finalizers", "ownerReferences"),
)
"""Metadata that a write of the status does not change (ResetObjectMetaForStatus, apimachinery)."""


def _no_errors(*_objects: Object) -> list[FieldError]:
    return []


def _leave(*_objects: Object) -> None:
    """Changes nothing."""


def _at_once(_obj: Object, _asked: int | None) -> int:
    return 0


def keep(new: Object, old: Object, *members: str) -> None:
    """Give these members their old values."""
    for member in members:
        if member in old:
            new[member] = old[member]
        else:
            new.pop(member, None)


@dataclass(frozen=True, slots=True)
class Strategy:
    """The strategy of one kind.  Objects belong to the caller and are changed in place."""

    fill: Change = _leave
    """Defaults; idempotent."""
    prepare: Change = _leave
    """Called at creation."""
    check: Check = _no_errors
    check_new: Check = _no_errors
    check_update: UpdateCheck = _no_errors
    """Called for updates, in addition to `check`."""
    check_status: UpdateCheck = _no_errors
    naming: metadata.Naming = names.dns_subdomain
    has_status: bool = False
    takes_status: bool = False
    """Whether creation may set the status: kubelets register their Nodes with one."""
    status_keeps: tuple[str, ...] = _KEPT
    """Members of the metadata that a write of the status does not change."""
    kept: tuple[str, ...] = ()
    """Members that updates do not change."""
    check_resize: Callable[[Object, Object], None] = _leave
    """Raises Refused for changes that a write to pods/resize may not make."""
    counts: bool = False
    """Whether metadata.generation counts the changes of everything but metadata and status."""
    grace: Callable[[Object, int | None], int] = _at_once
    """The grace period of a deletion in seconds, given the object and the requested one; 0 removes at once."""
    prune: Callable[[Object], list[str]] | None = None
    """Drops unknown fields of a custom resource and returns their paths; None for built-in kinds, which have shapes."""
    allow_create_on_update: bool = False
    """Whether a PUT creates an object that does not exist (Leases)."""
    allow_unconditional_update: bool = True
    """Whether a PUT without resourceVersion is accepted (all but custom resources)."""

    def default(self, obj: Object) -> None:
        if self.prune is None:
            defaults.tidy(obj)
        self.fill(obj)

    def prepare_for_create(self, obj: Object) -> None:
        """Set generation 1 if the kind has one, drop the status, call `prepare`."""
        obj["metadata"].pop("generation", None)
        if self.counts:
            obj["metadata"]["generation"] = 1
        if self.has_status and not self.takes_status:
            obj.pop("status", None)
        self.prepare(obj)

    def validate(self, obj: Object) -> list[FieldError]:
        return metadata.validate(obj, self.naming) + self.check(obj) + self.check_new(obj)

    def prepare_for_update(self, new: Object, old: Object, subresource: str) -> None:
        """Keep what this path may not write, and raise the generation if the spec changed."""
        keep(new["metadata"], old["metadata"], "generation")
        if subresource == "status":
            keep(new, old, *(set(new) | set(old)) - {"metadata", "status"})
            keep(new["metadata"], old["metadata"], *self.status_keeps)
        elif subresource == "resize":
            self.check_resize(new, old)
            keep(new, old, "spec", "status")
        else:
            keep(new, old, *(["status"] if self.has_status else []), *self.kept)
        counted = {*new, *old} - {"metadata", "status" if self.has_status else ""}
        if self.counts and any(new.get(member) != old.get(member) for member in counted):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[FieldError]:
        errors = metadata.validate_update(new, old)
        if subresource == "status":
            return errors + self.check_status(new, old)
        return errors + metadata.validate(new, self.naming) + self.check(new) + self.check_update(new, old)
