"""How rows are written: a sentence, what is attempted through an `Api`, and what comes out of it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from contract.api import Answer, Api, Refusal
from planes.parameters import since

Rows = Mapping[str, Any]
"""By sentence: an attempt, and what `told` makes of its outcome; or the same as `newer` has it."""


def newer(minor: str, why: str, attempt: Callable[[Api], Any], want: Any) -> Any:
    """A row that holds of this Kubernetes and newer ones."""
    return pytest.param(attempt, want, marks=since(minor, why))


def rows(table: Rows) -> pytest.MarkDecorator:
    """One test for every row."""
    return pytest.mark.parametrize(("attempt", "want"), table.values(), ids=list(table))


def last(*steps: Any) -> Any:
    """The outcome of the last of several steps.  Fails when the server refused one before it."""
    for step in steps[:-1]:
        if isinstance(step, Answer):
            step.accepted()
    return steps[-1]


def invalid(what: str, *causes: tuple[str, str, str]) -> Refusal:
    """422 as validation words it; `what` is such as `Pod "web"`, causes are (reason, field, message)."""
    lines = [f"{field}: {message}" for _, field, message in causes]
    said = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    return Refusal(422, "Invalid", f"{what} is invalid: {said}", causes)


def forbidden(field: str, message: str) -> tuple[str, str, str]:
    return ("FieldValueForbidden", field, f"Forbidden: {message}")


def wrong(field: str, value: str, message: str) -> tuple[str, str, str]:
    """The cause for a value, written as the server quotes it, if it does."""
    return ("FieldValueInvalid", field, f"Invalid value: {value}: {message}" if value else f"Invalid value: {message}")


def not_found(what: str) -> Refusal:
    """`what` is such as `pods "web"`."""
    return Refusal(404, "NotFound", f"{what} not found")


def outdated(what: str) -> Refusal:
    """409 for a resourceVersion that is not the newest; `what` is such as `configmaps "map"`."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return Refusal(409, "Conflict", f"Operation cannot be fulfilled on {what}: {why}")


STALE = Refusal(422, "Invalid", "the server rejected our request due to an error in our request")
"""A JSON Patch that does not fit the object: no name, no kind, no cause."""
