"""Sets of the fields of objects, as `managedFields` holds them (FieldsV1 of structured-merge-diff).

A field is a path, a tuple of elements as FieldsV1 has them: `f:spec`, `k:{"name":"a"}`, `v:"x"`.  The set of an object
has the paths of its scalars, of atomic lists and maps, and of the members of lists of type map and set.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import orjson

from tollbar.devplane.embedded.shapes import ANY, Shape
from tollbar.model.objects import Object, picked

Path: TypeAlias = tuple[str, ...]
Fields: TypeAlias = frozenset[Path]
MEMBER: Any = object()
"""The value of a list's member in `flatten`, which stands for its existence."""


def flatten(obj: Object, shape: Shape) -> dict[Path, Any]:
    """Every field of an object with its value."""
    found: dict[Path, Any] = {}
    _visit(obj, shape, (), found)
    return found


def _visit(value: Any, shape: Shape, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not shape.atomic:
        for key, each in value.items():
            _visit(each, shape.child(key) or ANY, (*path, f"f:{key}"), found)
    elif isinstance(value, list) and (shape.keyed or shape.unique):
        for element, each in members(value, shape):
            here = (*path, element)
            found[here] = MEMBER
            if isinstance(each, dict):
                _visit(each, shape.element or ANY, here, found)
    else:
        found[path] = value


def members(values: list[Any], shape: Shape) -> Iterator[tuple[str, Any]]:
    """The members of a list with keys or of a set, by path element."""
    for each in values:
        if shape.keyed and isinstance(each, dict):
            named = picked(each, sorted(shape.keyed))
            yield f"k:{orjson.dumps(named).decode()}", each
        else:
            yield f"v:{orjson.dumps(each).decode()}", each


def tree(fields: Iterable[Path]) -> Object:
    """The set as FieldsV1."""
    root: Object = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _without_lone_dots(root)


def _without_lone_dots(node: Object) -> Object:
    return {} if node.keys() == {"."} else {key: _without_lone_dots(value) for key, value in node.items()}


def paths(fields: Object) -> Fields:
    """The set of a FieldsV1."""
    return frozenset(_paths(fields, ()))


def _paths(node: Object, path: Path) -> Iterator[Path]:
    if not node and path:
        yield path
    for key, child in node.items():
        if key == ".":
            yield path
        else:
            yield from _paths(child, (*path, key))


def shown(path: Path) -> str:
    """A path as conflicts name it: `.status.conditions[type="A"].status`."""
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_shown(step)}]" for step in path)


def _shown(step: str) -> str:
    if step.startswith("v:"):
        return f"={step[2:]}"
    return ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in orjson.loads(step[2:]).items())
