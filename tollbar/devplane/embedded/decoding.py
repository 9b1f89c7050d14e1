"""Decoding of request bodies: JSON, duplicate keys, unknown fields, types.

The texts are those of the API server's strict decoder, but name the field where that names a Go type.
"""

import json
import re
from collections import Counter
from typing import Any, Final

import orjson

from tollbar.devplane.embedded import shapes
from tollbar.devplane.embedded.builtin import SENT
from tollbar.devplane.embedded.errors import Refused, bad_request
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.shapes import Shape
from tollbar.model.objects import Object

LEVELS: Final = ("Ignore", "Strict", "Warn")
"""Values of `fieldValidation`; the default is Warn."""

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_JSON: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_TIMES: Final = {
    "Time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
    "MicroTime": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)"),
}


class Undecodable(Refused):
    """400: a body is not an object of its kind.  `why` says what is wrong with it, without the kind."""

    def __init__(self, kind: Kind, why: str) -> None:
        res = kind.resource
        said = f'{res.kind} in version "{res.version}" cannot be handled as a {res.kind}: {why}'
        super().__init__(400, "BadRequest", said)
        self.why = why


def parse(body: bytes) -> tuple[Any, list[str]]:
    """The decoded JSON, and a warning for every duplicate key.  Raises ValueError."""
    duplicates: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            duplicates.extend(f'duplicate field "{key}"' for key, count in counts.items() if count > 1)
        return found

    # orjson refuses what Go refuses and Python does not: NaN and lone surrogates.
    found = orjson.loads(body)
    json.loads(body, object_pairs_hook=members)
    return found, duplicates


def parse_object(body: bytes) -> tuple[Object, list[str]]:
    """The object of a request, and warnings as of `parse`.  Raises Refused (400)."""
    try:
        found, duplicates = parse(body)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type valid JSON): {error}") from error
    if not isinstance(found, dict):
        raise bad_request("the object provided is unrecognized: it is not a JSON object")
    return found, duplicates


def check_kind(kind: Kind, obj: Object) -> None:
    """Set apiVersion and kind if they are absent.  Raises Refused (400) when they are another kind's."""
    said = (obj.setdefault("apiVersion", kind.resource.api_version), obj.setdefault("kind", kind.resource.kind))
    if said != (kind.resource.api_version, kind.resource.kind):
        raise bad_request(
            f"the API version in the data ({said[0]}, Kind={said[1]}) does not match the expected API version"
            f" ({kind.resource.api_version}, Kind={kind.resource.kind})"
        )


def check_types(kind: Kind, obj: Object) -> None:
    """Check that every known field has its type.  Raises Undecodable."""
    if not isinstance(obj.get("metadata", {}), dict | None):
        raise Undecodable(kind, f"metadata: cannot unmarshal {_JSON[type(obj['metadata'])]} into type object")
    where = (obj, kind.shape, "") if not kind.custom else (obj.get("metadata"), shapes.METADATA, "metadata")
    if problem := mistyped(*where):
        raise Undecodable(kind, problem)


def check_body(name: str, obj: Object) -> None:
    """Check the types of an object that is sent and never stored (`builtin.SENT`).  Raises Refused (400)."""
    if problem := mistyped(obj, shapes.described(*SENT[name], name), name):
        raise bad_request(f"the object provided is unrecognized: {problem}")


def drop_unknown(kind: Kind, obj: Object) -> list[str]:
    """Remove the fields that the kind does not have; their paths."""
    paths: list[str] = []
    if kind.strategy.prune is None:
        _prune(obj, kind.shape, "", paths)
    else:
        _prune(obj["metadata"], shapes.METADATA, "metadata", paths)
        paths += kind.strategy.prune(obj)
    return paths


def mistyped(value: Any, shape: Shape, path: str) -> str:
    """What is wrong with the first value of the wrong type in what lies at this path; "" when nothing is.

    `path` leads from the object to the value: `spec.containers[0]`, empty for the object itself.
    """
    if value is None or shape.type == "":
        return ""
    wanted = _TYPES[shape.type]
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        return f"json: cannot unmarshal {_JSON[type(value)]} into field {path} of type {shape.type}"
    if isinstance(value, str) and value and shape.name in _TIMES and not _TIMES[shape.name].fullmatch(value):
        return f'parsing time "{value}" of field {path}: not in the expected form'
    if isinstance(value, dict):
        children = ((each, shape.child(key), f"{path}.{key}" if path else key) for key, each in value.items())
    elif isinstance(value, list) and shape.element is not None:
        if None in value:
            return f"null in the list {path}"
        children = ((each, shape.element, f"{path}[{index}]") for index, each in enumerate(value))
    else:
        return ""
    return next((said for each, child, where in children if child and (said := mistyped(each, child, where))), "")


def _prune(value: Any, shape: Shape, path: str, found: list[str]) -> None:
    if isinstance(value, list) and shape.element is not None:
        for index, each in enumerate(value):
            _prune(each, shape.element, f"{path}[{index}]", found)
    if not isinstance(value, dict) or shape is shapes.ANY:
        return
    for key in list(value):
        child = shape.child(key)
        where = f"{path}.{key}" if path else key
        if child is None:
            found.append(where)
            del value[key]
        elif isinstance(value[key], dict | list):
            _prune(value[key], child, where, found)
