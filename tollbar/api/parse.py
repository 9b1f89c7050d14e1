"""From decoded JSON to a type, with field errors in the API server's words instead of exceptions.

Null means absent, as for the API server, except as the value of a label in a selector: without that label the selector
would select more.  The status is not validated, so that nothing a controller wrote can make an object invalid.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tollbar.api.base import ApiType
from tollbar.api.schema import structural
from tollbar.model.fields import FieldError, entry, forbidden, invalid, required, too_long, too_many, unsupported

T = TypeVar("T", bound=ApiType)

MAX_ERRORS: Final = 16
"""The most errors that are reported of one object: conditions and refusals are read by people."""

_DEEPEST: Final = 64


def parse(
    model: type[T], obj: Any, problems: Callable[[T], Iterable[FieldError]], reason: Callable[[str], str]
) -> T | list[FieldError]:
    """The value, or one to `MAX_ERRORS` errors in the order of the type's fields.  Never raises.

    `problems` finds in a value what its type cannot tell; `reason` is that of an error of this field without one.
    """
    errors = [invalid("", obj, "must be an object")]
    if isinstance(obj, dict):
        given = _without_nulls({key: obj[key] for key in obj if key != "status"})
        value, errors = _validate(model, given)
        if errors and value is None:
            value, _ = _validate(model, _known(_schema(model), given))
        if value is not None:
            errors += problems(value)
            if not errors:
                return value
    if len(errors) > MAX_ERRORS:
        errors = [*errors[: MAX_ERRORS - 1], FieldError("", f"Too many errors: {len(errors) - MAX_ERRORS + 1} more")]
    return [replace(error, reason=error.reason or reason(error.field)) for error in errors]


def _validate(model: type[T], given: Any) -> tuple[T | None, list[FieldError]]:
    try:
        return model.model_validate(given), []
    except ValidationError as wrong:
        found = wrong.errors(include_url=False)
        return None, [_field_error(model, details) for details in found if _is_original(details)]


def _known(schema: dict[str, Any], value: Any) -> Any:
    """Without the fields that the schema does not know, so that the others can be looked at."""
    if isinstance(value, dict) and (properties := schema.get("properties")):
        return {key: _known(properties[key], member) for key, member in value.items() if key in properties}
    if isinstance(value, list):
        return [_known(schema.get("items") or {}, member) for member in value]
    return value


def _without_nulls(value: Any, depth: int = 0) -> Any:
    """Without null members, down to a depth that no valid object has; what is deeper is refused anyway."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {
            key: member if key == "matchLabels" else _without_nulls(member, depth + 1)
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, list):
        return [_without_nulls(member, depth + 1) for member in value]
    return value


def _is_original(details: ErrorDetails) -> bool:
    """False for `too short` of a list with invalid members: pydantic counts the valid ones only."""
    return details["type"] != "too_short" or len(details["input"]) < details["ctx"]["min_length"]


def _field_error(model: type[ApiType], details: ErrorDetails) -> FieldError:
    field, siblings = _place(_schema(model), details["loc"])
    given = details["input"]
    if details["type"] == "extra_forbidden":
        return forbidden(field, "unknown field" + _suggestion(str(details["loc"][-1]), siblings))
    if build := _BUILDERS.get(details["type"]):
        return build(field, given, details.get("ctx", {}))
    return invalid(field, given, _EXPECTED.get(details["type"], details["msg"]))


@cache
def _schema(model: type[ApiType]) -> dict[str, Any]:
    return structural(model)


def _place(schema: dict[str, Any], location: Sequence[str | int]) -> tuple[str, list[str]]:
    """The path as the API has it, and the known names at the place of its last part."""
    path, siblings = "", []
    for part in location:
        if part == "[key]":
            break
        if isinstance(part, int) or "additionalProperties" in schema or not part.isidentifier():
            path = entry(path, part)
            schema = schema.get("items") or schema.get("additionalProperties") or {}
        else:
            path += f".{part}"
            siblings = list(schema.get("properties", {}))
            schema = schema.get("properties", {}).get(part, {})
    return path.removeprefix("."), siblings


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""


def _literal(field: str, given: Any, limits: Mapping[str, Any]) -> FieldError:
    error = unsupported(field, given, re.findall(r"'([^']*)'", limits["expected"]))
    if isinstance(given, bool):
        # YAML 1.1 reads Off, No, On and Yes as booleans.
        return FieldError(field, f"{error.message} (an unquoted Off or No is a boolean in YAML)")
    return error


_Builder = Callable[[str, Any, Mapping[str, Any]], FieldError]
_BUILDERS: Final[dict[str, _Builder]] = {
    "missing": lambda field, _given, _limits: required(field),
    "literal_error": _literal,
    "too_long": lambda field, given, limits: too_many(field, len(given), limits["max_length"]),
    "too_short": lambda field, _given, _limits: required(field, "must have at least 1 item"),
    "string_too_long": lambda field, _given, limits: too_long(field, limits["max_length"]),
    "string_too_short": lambda field, _given, _limits: required(field),
}
_EXPECTED: Final = {
    "string_type": "must be a string",
    "bool_type": "must be a boolean",
    "int_type": "must be an integer",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "invalid_key": "field names must be strings",
    "less_than_equal": "must be a 64-bit integer",
    "greater_than_equal": "must be a 64-bit integer",
}
