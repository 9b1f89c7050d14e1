"""The structure of objects: their fields, the keys of their lists, what is atomic.

A shape is a view of an OpenAPI schema: one of Kubernetes' own (openapi.json, written by scripts/capture_openapi.py) or
a CustomResourceDefinition's.  Metadata is ObjectMeta for every kind.  What a schema does not describe has the shape
`ANY`: granular maps and atomic lists.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from tollbar.model.objects import Object

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
GVK: Final = "x-kubernetes-group-version-kind"


@cache
def definitions() -> Mapping[str, Any]:
    """Schemas of the API's types by name."""
    text = resources.files("tollbar.devplane.embedded").joinpath("openapi.json").read_text(encoding="utf-8")
    return cast("Mapping[str, Any]", json.loads(text))


class Shape:
    """One node of a structure.

    `name` is that of the API type (`MicroTime`), `type` that of OpenAPI (`object`, `array`, ...), "" for any.
    `element` is the shape of a list's members.  A list is `keyed` (list type map, by these keys), `unique` (list type
    set) or atomic.  `merge_key` is the merge key of strategic merge patches, "" for lists of scalars that are merged,
    None for lists that are replaced.
    """

    __slots__ = ("_children", "atomic", "element", "keyed", "merge_key", "name", "properties", "type", "unique")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.name = ""
        while isinstance(target := schema.get("$ref"), str):
            self.name = target.rpartition(".")[2]
            schema = definitions()[target.removeprefix(_REF)]
        self.type = str(schema.get("type") or "")
        self.properties: Mapping[str, Any] = schema.get("properties") or {}
        self._children: dict[str, Shape] = {}
        self.element = Shape(schema["items"]) if isinstance(schema.get("items"), dict) else None
        form = schema.get("x-kubernetes-list-type")
        self.keyed: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if form == "map" else ()
        self.unique = form == "set"
        self.atomic = schema.get("x-kubernetes-map-type") == "atomic"
        merged = "merge" in str(schema.get("x-kubernetes-patch-strategy") or "")
        self.merge_key: str | None = str(schema.get("x-kubernetes-patch-merge-key") or "") if merged else None
        values = schema.get("additionalProperties")
        open_ended = self.type in ("object", "") and not self.properties
        if isinstance(values, dict):
            self._children["*"] = Shape(values)
        elif schema.get("x-kubernetes-preserve-unknown-fields") or open_ended:
            # Anything may contain anything; this line also makes ANY itself.
            self._children["*"] = ANY if self.type or self.properties else self

    @property
    def is_map(self) -> bool:
        """Whether it is a map with keys that users choose."""
        return not self.properties and "*" in self._children

    def child(self, member: str) -> "Shape | None":
        """A member of an object; None when there is none of that name."""
        if member not in self.properties:
            return self._children.get("*")
        key = f".{member}"
        if key not in self._children:
            self._children[key] = Shape(self.properties[member])
        return self._children[key]


ANY: Final = Shape({})
METADATA: Final = Shape({"$ref": _REF + _META})


def whole(schema: Mapping[str, Any]) -> Object:
    """The schema of a top-level object, with apiVersion, kind and metadata."""
    text, meta = {"type": "string"}, {"$ref": _REF + _META}
    head = {"apiVersion": text, "kind": text, "metadata": meta}
    return {**schema, "type": "object", "properties": {**(schema.get("properties") or {}), **head}}


@cache
def described(group: str, version: str, kind: str) -> Shape:
    """The shape of one of Kubernetes' own kinds."""
    wanted = {"group": group, "version": version, "kind": kind}
    return next(Shape(whole(schema)) for schema in definitions().values() if wanted in schema.get(GVK, ()))
