"""Common mistakes are refused when a rule is written, with line and column."""

from typing import Any

import pytest
from cel.mistakes import MISTAKES, PLACE
from objects.builders import toleration_rule

from tollbar.cel import CelEngine
from tollbar.decide.rules.validation import rule_errors


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", ["compiled", "closures"])
def test_a_mistake_is_refused_with_its_place(engines: dict[str, CelEngine], name: str, mistake: str) -> None:
    expression, said = MISTAKES[mistake]
    (error,) = rule_errors(as_rule(expression), engines[name])
    assert (error.field, bool(PLACE.search(error.message)), said in error.message) == (
        "spec.match.cel.expression",
        True,
        True,
    ), error


def as_rule(expression: str) -> Any:
    return toleration_rule("broken").cel(expression)
