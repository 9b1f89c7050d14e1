"""Structural schemas of custom resources (apiextensions.k8s.io/v1): pruning, defaulting, validation.

`rules` adds the CEL validation rules.  Paths and texts are the API server's (its OpenAPI validation says `spec.size in
body`).  Schemas are structural: a definition with any other is refused.
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final, NamedTuple

import re2

from tollbar.devplane.embedded.validation import texts
from tollbar.model import timestamps
from tollbar.model.fields import FieldError, required, too_long, too_many, unsupported
from tollbar.model.objects import Object, picked

IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})
"""The members that every object has in addition to those of its schema."""
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"

_LIMITS: Final[tuple[tuple[str, Any, bool, str], ...]] = (
    ("maxLength", str, False, ""),
    ("minLength", str, True, "should be at least {} chars long"),
    ("minimum", int | float, True, "should be greater than or equal to {}"),
    ("maximum", int | float, False, "should be less than or equal to {}"),
    ("maxItems", list, False, ""),
    ("minItems", list, True, "should have at least {} items"),
    ("maxProperties", dict, False, ""),
    ("minProperties", dict, True, "should have at least {} properties"),
)
"""Keyword, the types that it limits, whether it is a minimum, and the text (none: Too long or Too many)."""
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def own(schema: Object) -> Object:
    """A root schema without apiVersion, kind and metadata, which are validated elsewhere."""
    properties = {name: each for name, each in (schema.get("properties") or {}).items() if name not in IMPLICIT}
    return {**schema, "properties": properties}


def type_of(value: Any) -> str:
    """The name of a JSON value's type."""
    return _TYPES.get(type(value), "null")


class Part(NamedTuple):
    """A part of a value, its schema and its path; `key` is its name or index in the whole."""

    schema: Object
    value: Any
    path: str
    key: str | int


def children(schema: Object, value: Any, path: str) -> Iterator[Part]:
    """The parts of a value that have schemas of their own."""
    if isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield Part(schema["items"], each, f"{path}[{index}]", index)
    if isinstance(value, dict):
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, each in value.items():
            if name in properties:
                yield Part(properties[name], each, f"{path}.{name}" if path else name, name)
            elif isinstance(rest, dict):
                yield Part(rest, each, f"{path}[{name}]", name)


def prune(schema: Object, obj: Any, path: str = "") -> list[str]:
    """Drop the fields that the schema does not have, in place, and return their paths."""
    dropped = []
    if isinstance(obj, dict) and not schema.get(PRESERVE) and not schema.get("additionalProperties"):
        known = {*(schema.get("properties") or {}), *(IMPLICIT if not path or schema.get(_EMBEDDED) else ())}
        for name in [name for name in obj if name not in known]:
            del obj[name]
            dropped.append(f"{path}.{name}" if path else name)
    for part in children(schema, obj, path):
        dropped += prune(part.schema, part.value, part.path)
    return dropped


def fill(schema: Object, obj: Any) -> None:
    """Set absent fields to their defaults, in place.  A null in a field that is not nullable counts as absent."""
    properties = schema.get("properties") or {}
    if isinstance(obj, dict):
        for name, inner in properties.items():
            if name in obj and obj[name] is None and not inner.get("nullable"):
                del obj[name]
            if name not in obj and "default" in inner:
                obj[name] = deepcopy(inner["default"])
    for part in children(schema, obj, ""):
        fill(part.schema, part.value)


def validate(schema: Object, value: Any, path: str = "") -> list[FieldError]:
    """The errors of a defaulted object, duplicates in lists of type map and set included."""
    if value is None and schema.get("nullable"):
        return []
    errors = _type(schema, value, path) + _enum(schema, value, path) + _limits(schema, value, path)
    match value:
        case str():
            errors += _text(schema, value, path)
        case list():
            errors += texts.duplicates(path, _identities(schema, value))
        case dict():
            errors += _absent(schema, value, path)
    for part in children(schema, value, path):
        errors += validate(part.schema, part.value, part.path)
    return errors


def has_rules(schema: Any) -> bool:
    """Whether there are CEL rules anywhere in it."""
    if isinstance(schema, dict):
        return "x-kubernetes-validations" in schema or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))


def _type(schema: Object, value: Any, path: str) -> list[FieldError]:
    wanted, found = schema.get("type"), type_of(value)
    if schema.get(INT_OR_STRING):
        fits = found in ("integer", "string")
    else:
        whole = found == "number" and float(value).is_integer()
        fits = wanted in (None, found) or (wanted == "number" and found == "integer") or (wanted == "integer" and whole)
    if fits:
        return []
    shown = f'"{found}"'
    detail = f"{path} in body must be of type {wanted or 'integer,string'}: {shown}"
    return [FieldError(path, f"Invalid value: {shown}: {detail}", "FieldValueTypeInvalid")]


def _enum(schema: Object, value: Any, path: str) -> list[FieldError]:
    if "enum" not in schema or value in schema["enum"]:
        return []
    return [unsupported(path, value, schema["enum"])]


def _text(schema: Object, value: str, path: str) -> list[FieldError]:
    errors = []
    if "pattern" in schema and not _compiled(schema["pattern"]).search(value):
        errors.append(_in_body(path, value, f"should match '{schema['pattern']}'"))
    if schema.get("format") == "date-time" and not _is_time(value):
        errors.append(_in_body(path, value, f"must be of type date-time: {texts.shown(value)}"))
    return errors


def is_pattern(text: str) -> bool:
    """Whether it is a regular expression of RE2."""
    try:
        _compiled(text)
    except re2.error:
        return False
    return True


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _is_time(text: str) -> bool:
    try:
        timestamps.parse(text)
    except ValueError:
        return False
    return True


def _limits(schema: Object, value: Any, path: str) -> list[FieldError]:
    errors = []
    for keyword, types, least, detail in _LIMITS:
        if keyword not in schema or not isinstance(value, types) or isinstance(value, bool):
            continue
        limit, size = schema[keyword], value if types == int | float else len(value)
        if size < limit if least else size > limit:
            if keyword == "maxLength":
                errors.append(too_long(path, limit))
            elif detail:
                errors.append(_in_body(path, value if isinstance(value, str) else size, detail.format(limit)))
            else:
                errors.append(too_many(path, size, limit))
    return errors


def _identities(schema: Object, value: list[Any]) -> Iterator[tuple[str, Any]]:
    """What identifies each member of a list of type set or map, as text, and the value to show."""
    match schema.get("x-kubernetes-list-type"):
        case "set":
            yield from ((texts.shown(each), each) for each in value)
        case "map":
            for each in value:
                names = schema["x-kubernetes-list-map-keys"]
                keys = picked(each, names) if isinstance(each, dict) else {}
                yield texts.shown(keys), keys


def _absent(schema: Object, value: Object, path: str) -> list[FieldError]:
    absent = [name for name in schema.get("required") or () if name not in value]
    return [required(f"{path}.{name}" if path else name) for name in absent]


def _in_body(path: str, value: Any, detail: str) -> FieldError:
    return texts.wrong(path, value, f"{path} in body {detail}")
