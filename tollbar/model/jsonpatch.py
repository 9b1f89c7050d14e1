"""JSON Patch (RFC 6902) operations as values, and JSON Pointers.

Patches are built from the object that they apply to, so that every path exists.  `test` operations make the API server
refuse a patch (422, without details) if the object has changed meanwhile.
"""

from typing import Any, TypeAlias

Operation: TypeAlias = dict[str, Any]
Patch: TypeAlias = tuple[Operation, ...]


def pointer(*parts: str | int) -> str:
    """JSON Pointer (RFC 6901) of the parts: `pointer("metadata", "labels", "a/b")` is `/metadata/labels/a~1b`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def test(path: str, value: Any) -> Operation:
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    return {"op": "remove", "path": path}
