"""Field errors that show values as the API server does: JSON without blanks, whole.

`tollbar.model.fields` shortens values, because its texts reach people through events and conditions.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tollbar.model import names
from tollbar.model.fields import FieldError, required
from tollbar.model.objects import Object

IMMUTABLE = "field is immutable"


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def wrong(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, f"Invalid value: {shown(value)}: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, f"Duplicate value: {shown(value)}")


def not_found(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, f"Not found: {shown(value)}: {detail}")


def each(path: str, items: Iterable[Any] | None, check: Callable[[str, Any], Iterable[FieldError]]) -> list[FieldError]:
    """The errors of the members of a list."""
    return [error for index, item in enumerate(items or ()) for error in check(f"{path}[{index}]", item)]


def named(field: str, value: str | None, problems: Callable[[str], list[str]]) -> list[FieldError]:
    """The errors of a required name."""
    if not value:
        return [required(field)]
    return [wrong(field, value, problem) for problem in problems(value)]


def members(field: str, obj: Mapping[str, Any], *wanted: str) -> list[FieldError]:
    """An error for every required member that is absent or empty."""
    return [required(f"{field}.{name}" if field else name) for name in wanted if not obj.get(name)]


def unchanged(field: str, new: Any, old: Any) -> list[FieldError]:
    return [] if new == old else [wrong(field, new, IMMUTABLE)]


def duplicates(field: str, items: Iterable[tuple[Any, Any]], member: str = "") -> list[FieldError]:
    """An error for every pair (identity, value to show) whose identity occurred before."""
    errors, seen = [], set()
    for index, (identity, value) in enumerate(items):
        if identity in seen:
            errors.append(duplicate(f"{field}[{index}]{member}", value))
        seen.add(identity)
    return errors


def labelled(
    path: str, items: Sequence[Object] | None, check: Callable[[str, Object], list[FieldError]] = lambda *_: []
) -> list[FieldError]:
    """The errors of a list whose members have different DNS labels as names, and those that `check` finds."""

    def checked(where: str, item: Object) -> list[FieldError]:
        return named(f"{where}.name", item.get("name"), names.dns_label) + check(where, item)

    return each(path, items, checked) + duplicates(path, ((item.get("name"),) * 2 for item in items or ()), ".name")
