"""ObjectMeta: names, labels, annotations, finalizers, owners; the same for every kind.

Source: ValidateObjectMeta and ValidateObjectMetaUpdate, k8s.io/apimachinery/pkg/api/validation.
"""

from collections.abc import Callable
from typing import TypeAlias

from tollbar.devplane.embedded.validation.texts import each, unchanged, wrong
from tollbar.model import names
from tollbar.model.fields import FieldError, forbidden, invalid, required, too_long
from tollbar.model.objects import Object, annotations_of, labels_of, metadata

Naming: TypeAlias = Callable[[str], list[str]]
"""The problems of a name, in words that go on after the name; none of a valid one."""


def path_segment(value: str) -> list[str]:
    """Names of RBAC objects: any text that can be one segment of a path."""
    problems = [f"may not be '{value}'"] if value in (".", "..") else []
    return problems + [f"may not contain '{sign}'" for sign in "/%" if sign in value]


def validate(obj: Object, naming: Naming) -> list[FieldError]:
    """`naming` returns the problems of a name of the kind."""
    meta = metadata(obj)
    errors = []
    if not meta.get("name"):
        errors.append(required("metadata.name", "name or generateName is required"))
    errors += [wrong("metadata.name", meta["name"], problem) for problem in naming(meta.get("name") or "x")]
    for key, value in labels_of(obj).items():
        errors += [invalid("metadata.labels", key, problem) for problem in names.qualified_name(key)]
        errors += [invalid("metadata.labels", value, problem) for problem in names.label_value(value)]
    for key in annotations_of(obj):
        errors += [invalid("metadata.annotations", key, problem) for problem in names.qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations_of(obj).items())
    if size > names.ANNOTATIONS_MAX:
        errors.append(too_long("metadata.annotations", names.ANNOTATIONS_MAX))
    errors += each("metadata.ownerReferences", meta.get("ownerReferences"), _owner)
    return errors + each("metadata.finalizers", meta.get("finalizers"), _finalizer)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """The fields that are immutable for every kind."""
    errors = []
    added = [name for name in _names(metadata(new)) if name not in _names(metadata(old))]
    if metadata(old).get("deletionTimestamp") and added:
        listed = ", ".join(f'"{name}"' for name in added)
        detail = "no new finalizers can be added if the object is being deleted, found new finalizers"
        errors.append(forbidden("metadata.finalizers", f"{detail} []string{{{listed}}}"))
    for field in ("name", "namespace", "uid"):
        errors += unchanged(f"metadata.{field}", metadata(new).get(field), metadata(old).get(field))
    return errors


def _names(meta: Object) -> list[str]:
    return meta.get("finalizers") or []


def _finalizer(path: str, name: str) -> list[FieldError]:
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    if "/" not in name and name not in ("orphan", "foregroundDeletion", "kubernetes"):
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid(path, name, detail))
    return errors


def _owner(path: str, owner: Object) -> list[FieldError]:
    absent = [member for member in ("apiVersion", "kind", "name", "uid") if not owner.get(member)]
    return [wrong(f"{path}.{member}", "", "must not be empty") for member in absent]
