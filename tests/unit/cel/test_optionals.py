"""Optional values: their functions and syntax."""

from collections.abc import Callable
from typing import Any

import pytest

X: dict[str, Any] = {"a": {"b": 1}, "list": [1, 2], "none": None, "text": "abc"}

TRUE = {
    "a value": "optional.of(1).hasValue() && optional.of(1).value() == 1",
    "no value": "!optional.none().hasValue()",
    "optionals are equal by value": (
        "optional.of(1) == optional.of(1) && optional.of(1) != optional.of(2) && optional.none() == optional.none()"
        " && optional.of(dyn(1)) == optional.of(dyn(1.0)) && optional.of(1) != optional.none()"
    ),
    "an optional is not its value": "dyn(optional.of(1)) != dyn(1) && optional.of(optional.none()) != optional.none()",
    "optionals in lists and maps": "[optional.of(1)] == [optional.of(1)] && {'a': optional.none()} != {}",
    "or": "optional.none().or(optional.of(1)).value() == 1 && optional.of(1).or(optional.of(2)).value() == 1",
    "orValue": "optional.none().orValue(1) == 1 && optional.of(1).orValue(2) == 1",
    "or does not evaluate what it does not need": (
        "optional.of(1).orValue(1 / (x.a.b - 1)) == 1 && optional.of(1).or(optional.of(1 / (x.a.b - 1))).hasValue()"
    ),
    "zero values": (
        'optional.ofNonZeroValue(0) == optional.none() && optional.ofNonZeroValue("") == optional.none()'
        " && optional.ofNonZeroValue([]) == optional.none() && optional.ofNonZeroValue({}) == optional.none()"
        " && optional.ofNonZeroValue(false) == optional.none() && optional.ofNonZeroValue(null) == optional.none()"
        ' && optional.ofNonZeroValue(-0.0) == optional.none() && optional.ofNonZeroValue(b"") == optional.none()'
        " && optional.ofNonZeroValue(0u) == optional.none()"
        ' && optional.ofNonZeroValue(duration("0")) == optional.none()'
        ' && optional.ofNonZeroValue(timestamp("0001-01-01T00:00:00Z")) == optional.none()'
    ),
    "values that are not zero": (
        "optional.ofNonZeroValue(1).hasValue() && optional.ofNonZeroValue([0]).hasValue()"
        " && optional.ofNonZeroValue(0.0 / 0.0).hasValue() && optional.ofNonZeroValue(timestamp(0)).hasValue()"
        ' && optional.ofNonZeroValue(quantity("0")).hasValue() && optional.ofNonZeroValue(int).hasValue()'
        " && optional.ofNonZeroValue(optional.none()).hasValue()"
    ),
    "first and last": "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
    "first and last of nothing": "[].first() == optional.none() && [].last() == optional.none()",
    "unwrap": "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]",
    "an optional field": "x.?a.hasValue() && !x.?nope.hasValue() && x.?none.hasValue()",
    "a field of an optional is optional": "x.?a.b.value() == 1 && x.?nope.b.orValue(2) == 2",
    "an optional index": "x[?'a'].hasValue() && x.list[?0].value() == 1 && !x.list[?9].hasValue()",
    "a key of another kind is absent": "!dyn({'a': 1})[?1].hasValue() && !dyn({1: 2})[?true].hasValue()",
    "an index of an optional": "optional.of([1])[0].value() == 1 && !optional.of([1])[3].hasValue()",
    "what has no fields has none of them": "!dyn(1).?a.hasValue() && !dyn(x.text)[?0].hasValue()",
    "the type of an optional": "type(optional.of(1)) == optional_type",
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


FAILURES = {
    "the value of none": ("optional.none().value()", "optional.none() dereference"),
    "unwrap of what is no optional": ("dyn(x.list).unwrapOpt()", "value is not optional"),
    "a list with a key that is no index": ("dyn(x.list)[?'a']", "no such overload: [](list, string)"),
    "or of what is no optional": ("dyn(x.text).orValue(1)", "no such overload: orValue(string)"),
    "hasValue of what is no optional": ("dyn(x.text).hasValue()", "no such overload: hasValue(string)"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)
