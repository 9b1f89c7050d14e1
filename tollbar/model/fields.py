"""Field errors as the API server words them: a path, and a one-line text such as `Invalid value: "x": must be ...`.

A text quotes at most the first 80 characters of a user's value.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field of an object.

    `field` is a path (`spec.tolerations[0].key`), `message` starts with the kind of error (`Required value`), and
    `reason` is a CamelCase word for a condition, or empty.
    """

    field: str
    message: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    @property
    def cause(self) -> str:
        """The reason that the API server gives this error in `status.details.causes`."""
        kind = self.message.split(":", 1)[0]
        return _CAUSES.get(kind, "FieldValueInvalid")


_CAUSES: Final = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def quoted(value: object) -> str:
    """A value as an error text shows it: JSON on one line, shortened, with all that does not show escaped."""
    try:
        text = printable(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(type(value).__name__)
    if len(text) <= _SHOWN:
        return text
    return text[:_SHOWN] + "..." + ('"' if text.startswith('"') else "")


def printable(text: str) -> str:
    """The text with control, bidirectional and other characters that do not show as JSON escapes.

    Nobody can move a reader's cursor with it, or let a line look like another one.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def entry(path: str, key: object) -> str:
    """The path of a map's entry: `spec.attributes[model]`.  A key that is long or not printable is quoted."""
    text = str(key)
    return f"{path}[{text}]" if len(text) <= _SHOWN and text.isprintable() else f"{path}[{quoted(text)}]"


def invalid(field: str, value: Any, detail: str, reason: str = "") -> FieldError:
    return FieldError(field, f"Invalid value: {quoted(value)}: {detail}", reason)


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, f"Required value: {detail}" if detail else "Required value")


def forbidden(field: str, detail: str, reason: str = "") -> FieldError:
    return FieldError(field, f"Forbidden: {detail}", reason)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in supported)
    return FieldError(field, f"Unsupported value: {quoted(value)}: supported values: {names}")


def too_long(field: str, limit: int, reason: str = "") -> FieldError:
    return FieldError(field, f"Too long: may not be more than {limit} bytes", reason)


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(field, f"Too many: {count}: must have at most {limit} items")


def duplicate(field: str, value: Any, reason: str = "") -> FieldError:
    return FieldError(field, f"Duplicate value: {quoted(value)}", reason)
