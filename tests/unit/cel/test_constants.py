"""What is computed when an expression is compiled, and what is left to its evaluation."""

from typing import Any

import pytest

from tollbar.cel import Env
from tollbar.cel.analysis.checked import checked
from tollbar.cel.core.values import Duration
from tollbar.cel.engines import operations
from tollbar.cel.syntax.tree import Call, Expr, Literal

ANYTHING = Env(variables=(("x", "dyn"),), result="dyn")


def tree(source: str) -> Expr:
    return checked(source, ANYTHING).tree


COMPUTED: dict[str, tuple[str, Any]] = {
    "arithmetic": ("24 * 60 + 1", 1441),
    "a conversion of a computed value": ("double(1 + 1)", 2.0),
    "a sum of durations": ("duration('1h') + duration('30m')", Duration(5400 * 10**9)),
    "a part of a timestamp": ("timestamp('2024-02-29T00:00:00Z').getMonth()", 1),
    "the length of a text": ("'abc'.size()", 3),
    "a negation": ("!true", False),
    "equal times": ("timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')", True),
    "the order of quantities": ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", True),
    "the order of texts": ("'a' >= 'b'", False),
    "texts that differ": ("'a' != 'b'", True),
    "a list": ("[[1], [2]]", [[1], [2]]),
    "a map": ("{'a': {1: 2}, 'b': {3: 4}}", {"a": {1: 2}, "b": {3: 4}}),
}


@pytest.mark.parametrize(("source", "value"), COMPUTED.values(), ids=COMPUTED)
def test_a_constant_is_computed(source: str, value: Any) -> None:
    found = operations.constant(tree(source))
    assert (type(found), found) == (type(value), value)


LEFT = {
    "a call that fails": "1 / 0",
    "a conversion of a computed value that fails": "int(1.0 / 0.0)",
    "a comparison that the check refuses or not by the types": "1 == dyn(1)",
    "a comparison that fails": "0.0 / 0.0 < 1.0",
    "dyn(), which hides the type": "dyn(1)",
    "type()": "type(1)",
    "a text, which the check would look into": "'%' + 's'",
    "a list, whose elements have a type": "'a,b'.split(',')",
    "a call with an input": "x + 1",
}


@pytest.mark.parametrize("source", LEFT.values(), ids=LEFT)
def test_a_call_is_left_to_the_evaluation(source: str) -> None:
    assert isinstance(tree(source), Call)


def test_a_constant_within_an_expression_is_a_literal() -> None:
    found = tree("x < 2 * 1024")
    assert isinstance(found, Call)
    assert [type(argument) for argument in found.arguments][1] is Literal
