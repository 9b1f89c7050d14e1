"""Accessors of API objects, which stay plain dicts as they came from JSON.

They raise nothing on well-formed metadata: absent optional fields read as empty.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Object: TypeAlias = dict[str, Any]
"""An API object, or a part of one, as decoded JSON.  Never mutated once it is in a cache."""


class Key(NamedTuple):
    """Namespace and name; the namespace is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_last = Key("", "")
"""What `key_of` has returned last."""

STUB: Final = "stub"
"""A member that only objects of a cache have, of which parts are left out because they are too large."""


def is_stub(obj: Object) -> bool:
    """Whether the object was too large for the cache: it exists, and decisions must not read what it holds."""
    return STUB in obj


def metadata(obj: Object) -> Object:
    return obj.get("metadata") or {}


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def picked(given: Mapping[str, T], names: Iterable[str]) -> dict[str, T]:
    """These of its members, in this order, as far as it has them: of an object the fields that are worth keeping."""
    return {name: given[name] for name in names if name in given}


def text_at(obj: Any, path: str) -> str:
    """A scalar at a dotted path as a field selector writes it; empty where there is none."""
    for step in path.split("."):
        obj = obj.get(step) if isinstance(obj, dict) else None
    if obj is None:
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)


def key_of(obj: Object) -> Key:
    """Its key; one object where it is asked for again at once, since several caches keep an object when it comes."""
    global _last
    meta, last = metadata(obj), _last
    namespace, name = meta.get("namespace") or "", meta.get("name") or ""
    if name != last.name or namespace != last.namespace:
        last = _last = Key(intern(namespace) if type(namespace) is str else namespace, name)
    return last


def uid_of(obj: Object) -> str:
    return str(metadata(obj).get("uid") or "")


def labels_of(obj: Object) -> dict[str, str]:
    return metadata(obj).get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    return metadata(obj).get("annotations") or {}


def controller_reference(controller: Object, type_meta: Mapping[str, str]) -> Object:
    """The entry of `ownerReferences` for an object of which this one is the managing controller.

    As metav1.NewControllerRef makes it, without blockOwnerDeletion.  `type_meta` is the controller's apiVersion and
    kind, which objects of a cache or a list may lack.
    """
    return {**type_meta, "name": key_of(controller).name, "uid": uid_of(controller), "controller": True}


def controller_of(obj: Object) -> Object | None:
    """The owner reference marked as the managing controller, if there is one."""
    for owner in metadata(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None
