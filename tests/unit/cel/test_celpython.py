"""cel-python as an engine: it evaluates, and expressions that would take its process down end with an error."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from tollbar.cel import BUDGET, COMPILE, RULE_ENV, RUNTIME, UNKNOWN, CelError, CostBudget, Env, engine
from tollbar.cel.core.limits import CostTracker
from tollbar.cel.core.values import Uint
from tollbar.cel.library.times import to_duration, to_timestamp

ANYTHING = Env(variables=(("x", "dyn"),))
NO_VALUE = (RUNTIME, "cel-python: no value")
TOO_MUCH = (BUDGET, "evaluation exceeds the limits set for cel-python")

ANSWERS: dict[str, tuple[str, Any, Any]] = {
    "fields and macros": ('x.a == "b" && x.l.exists(i, i == 2)', {"a": "b", "l": [1, 2]}, True),
    "false": ("x.l.all(i, i < 2)", {"l": [1, 2]}, False),
    "an error that || absorbs": ("x.nope || x.on", {"on": True}, True),
    "an error that stands": ("x.nope && x.on", {"on": True}, NO_VALUE),
    "strings as they were written": (r'x == "é\n\"" && r"\d" == "\\d" && b"\xff" != b""', 'é\n"', True),
    "an error for each of many elements": ("x.exists(i, i.nope == 1)", [{}] * 60, NO_VALUE),
    "an error for each of many terms": (" || ".join(["x.nope"] * 60), {}, NO_VALUE),
    "nested macros": ("x.all(i, x.all(j, i + j >= 0))", list(range(100)), TOO_MUCH),
    "many elements": ("x.exists(i, i == -1)", list(range(100_000)), TOO_MUCH),
    "a duration made for backtracking": ("duration(x) > duration('1s')", "a" * 60 + "!", NO_VALUE),
    "escapes made for backtracking": ('"' + r"\n" * 500 + '" == x', "x", False),
    "strings doubled again and again": (
        "x" + ".map(s, s + s)" * 20 + ".size() == 1",
        ["y" * 1000],
        TOO_MUCH,
    ),
    "an error with large values": ("x.exists(i, i + 1 == 2)", ["y" * 100_000] * 500, TOO_MUCH),
    "a pattern of 100 kB": ("'a'.matches(x)", "a" * 100_000, NO_VALUE),
    "syntax that it does not support": ("x.?a.hasValue()", {}, (COMPILE, "cel-python does not support this syntax")),
    "an error of our own checks": ("y == 1", {}, (COMPILE, "undefined variable 'y'")),
    "a result that is not bool": ("x", "text", (RUNTIME, "must evaluate to bool")),
}


def described(answer: Any) -> Any:
    return (answer.kind, answer.message) if isinstance(answer, CelError) else answer


@pytest.mark.parametrize(("source", "x", "want"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_is_a_value_or_a_short_error(source: str, x: Any, want: Any) -> None:
    upstream = engine("cel-python")
    limit = sys.getrecursionlimit()
    try:
        answer: Any = upstream.compile(source, ANYTHING).evaluate(upstream.prepare({"x": x}))
    except CelError as error:
        answer = error
    assert (described(answer), sys.getrecursionlimit()) == (want, limit)


VALUES: dict[str, Any] = {
    "[x, x + 1, -1, 2u, 1.5, null, true]": [2, 3, -1, Uint(2), 1.5, None, True],
    '{"a": x, "b": "c", "d": b"e"}': {"a": 2, "b": "c", "d": b"e"},
    'timestamp("2024-01-02T03:04:05Z")': to_timestamp(CostTracker(), "2024-01-02T03:04:05Z"),
    'duration("1h")': to_duration(CostTracker(), "1h"),
}


@pytest.mark.parametrize(("source", "want"), VALUES.items(), ids=VALUES)
def test_values_are_of_the_types_of_our_engines(source: str, want: Any) -> None:
    found: Any = engine("cel-python").compile(source, replace(ANYTHING, result="dyn")).evaluate({"x": 2})
    assert (found, type(found)) == (want, type(want))


def test_visited_nodes_are_charged_to_the_cost_budget() -> None:
    budget = CostBudget(1_000)
    engine("cel-python").compile("x == 1", ANYTHING).evaluate({"x": 1}, budget)
    assert 0 < budget.steps < 1_000


@pytest.mark.parametrize(("unknown", "want"), [("pod.metadata.name", UNKNOWN), ("pod.spec", True)])
def test_the_answer_is_unknown_if_anything_unknown_is_read(unknown: str, want: Any) -> None:
    program = engine("cel-python").compile('true || pod.metadata.name == "x"', RULE_ENV)
    assert program.evaluate_partial({"pod": {"metadata": {"name": "x"}}}, frozenset({unknown})) == want
