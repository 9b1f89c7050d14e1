"""The compiled engine: when it falls back to closures, with the same answers, and what its functions can name."""

import inspect
import sys
from typing import Any

import pytest

from tollbar.cel import RULE_ENV, UNKNOWN, CelError, CostBudget, Env
from tollbar.cel.core.limits import CostTracker
from tollbar.cel.engines.closures import ClosureProgram, ClosuresEngine
from tollbar.cel.engines.compiled import CompiledProgram, CompilingEngine

DYN = Env(variables=(("x", "dyn"),))


NOT_COMPILED = {
    "more nested macros than CPython has blocks": "[1].exists(a, " * 12 + "x == 1" + ")" * 12,
    "more terms than compiling is worth": " || ".join(["x == 1"] * 200),
}


@pytest.mark.parametrize("source", NOT_COMPILED.values(), ids=NOT_COMPILED)
def test_an_expression_that_is_not_compiled_is_a_program_of_closures(source: str) -> None:
    program = CompilingEngine().compile(source, DYN)
    assert (type(program), program.evaluate({"x": 1})) == (ClosureProgram, True)


def test_five_nested_macros_are_compiled() -> None:
    program = CompilingEngine().compile("[1].exists(a, " * 5 + "x == 1" + ")" * 5, DYN)
    assert (type(program), program.evaluate({"x": 1})) == (CompiledProgram, True)


FAILURES = {
    "a missing key": ("x.a.b == 1", {"a": {}}),
    "an error that no operator absorbs": ("[x.nope].exists(v, true)", {}),
    "an error in each term": ("x.a == 1 || x.b == 2 || x.c", {}),
    "a cost limit that is exceeded": ("x.all(a, x.all(b, x.all(c, a + b + c >= 0)))", list(range(40))),
    "a result that is not bool": ("x", "text"),
    "a missing key of a map with a bool among its keys": ("dyn({true: x}).b == 1", 1),
    "a missing index of a map with a bool among its keys": ("dyn({true: x})['b'] == 1", 1),
    "a variable that no input has, beside a term that fails": (".x.a == 1 || .x.b == 1", {}),
}


@pytest.mark.parametrize(("source", "x"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_the_error_and_the_cost_of_closures(source: str, x: Any) -> None:
    compiled, closures = (engine.compile(source, DYN) for engine in (CompilingEngine(), ClosuresEngine()))
    budgets = CostBudget(10**6), CostBudget(10**6)
    answers = [
        program.evaluate({"x": x}, budget) for program, budget in zip((compiled, closures), budgets, strict=True)
    ]
    assert isinstance(answers[0], CelError)
    assert (answers[0], budgets[0]) == (answers[1], budgets[1])


@pytest.mark.parametrize("x", [1, "text", True, None, {"a": 1}, [1]], ids=str)
@pytest.mark.parametrize("result", ["int", "string", "list<int>", "map<int>"])
def test_a_result_has_the_kind_that_the_environment_asks_for(result: str, x: Any) -> None:
    env = Env(variables=(("x", "dyn"),), result=result)
    compiled, closures = (
        engine.compile("x", env).evaluate({"x": x}) for engine in (CompilingEngine(), ClosuresEngine())
    )
    assert (type(compiled), compiled) == (type(closures), closures)


def test_a_nearly_full_stack_is_a_compile_error() -> None:
    source = "1"
    for number in range(17):
        source = f"optional.of(x).optMap(a{number}, {source})"

    def deeper(levels: int) -> str:
        if levels:
            return deeper(levels - 1)
        try:
            return type(ClosuresEngine().compile(source, Env(DYN.variables, "dyn"))).__name__
        except CelError as error:
            return error.message

    room = sys.getrecursionlimit() - len(inspect.stack(0)) - 25
    deeper(0)
    assert {deeper(levels) for levels in range(room - 120, room)} == {"expression is nested too deeply"}


def test_a_failure_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program = CompilingEngine().compile("x.all(i, i.a == 1)", DYN)
    assert isinstance(program, CompiledProgram)
    monkeypatch.setattr(ClosureProgram, "evaluate", None)
    assert str(program.evaluate({"x": [{"a": 1}, {}]})) == "1:12: no such key: a"


class Counted(dict[str, Any]):
    """A map that counts the fields that are read."""

    read = 0

    def __getitem__(self, key: str) -> Any:
        self.read += 1
        return super().__getitem__(key)


ABSORBED = {
    "a failing term before the one that decides": "x.nope == 1 || x.a == 1",
    "a failing term, and none that decides": "x.a == 2 || x.nope == 1",
}


@pytest.mark.parametrize("source", ABSORBED.values(), ids=ABSORBED)
def test_an_expression_with_a_term_that_fails_is_evaluated_once(source: str) -> None:
    x = Counted(a=1)
    CompilingEngine().compile(source, DYN).evaluate({"x": x})
    assert x.read == 2


LOOP = "x.all(i, i >= 0) && y != 1"


def test_what_exceeds_the_limit_while_something_is_unknown_is_unknown() -> None:
    program = CompilingEngine().compile(LOOP, Env(variables=(("x", "dyn"), ("y", "dyn"))))
    inputs = {"x": list(range(20_000)), "y": 2}
    assert (program.evaluate(inputs), program.evaluate_partial(inputs, frozenset({"y"}))) == (True, UNKNOWN)


def test_an_expression_that_is_not_compiled_pays_for_closures() -> None:
    inputs = {"x": [0] * 10}
    small, large = (
        CompilingEngine().compile(f"x.all(i, {' || '.join(['i == 1'] * terms)} || true)", DYN) for terms in (10, 200)
    )
    budgets = CostBudget(0), CostBudget(0)
    assert [small.evaluate(inputs, budgets[0]), large.evaluate(inputs, budgets[1])] == [True, True]
    assert budgets[1].steps < 50 * budgets[0].steps


def test_the_function_does_not_fail_if_another_term_decides() -> None:
    source = "claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == 'gpu'))"
    program = CompilingEngine().compile(source, RULE_ENV)
    assert isinstance(program, CompiledProgram)
    requests = [{"firstAvailable": []}, {"exactly": {"deviceClassName": "gpu"}}]
    inputs = {"claims": [{}, {"spec": {"devices": {"requests": requests}}}]}
    assert program.run(inputs, CostTracker()) is True


TEXT_LIKE_CODE = {
    "a name of Python": "[1].exists(print, print == 1)",
    "names of the function's own variables": "[1].exists(t1, [1].exists(K0, t1 == K0))",
    "names of the function's parameters": "[1].exists(cost, [cost].exists(inputs, inputs == 1))",
    "a dunder name": "[{'a': 1}].exists(__class__, __class__.a == 1)",
    "a field in backticks": "{'x.__class__': 1}.`x.__class__` == 1",
    "code in a string": "'\\'; import os #' != \"__import__('os')\"",
}


@pytest.mark.parametrize("source", TEXT_LIKE_CODE.values(), ids=TEXT_LIKE_CODE)
def test_text_never_becomes_code(source: str) -> None:
    assert CompilingEngine().compile(source, DYN).evaluate({"x": 1}) is True


def test_attributes_of_python_objects_are_not_fields() -> None:
    answer = CompilingEngine().compile("x.__class__ == 1 || x.keys == 1", DYN).evaluate({"x": {}})
    assert str(answer) == "1:3: no such key: __class__"


def test_a_function_has_no_builtins() -> None:
    program: Any = CompilingEngine().compile("x.a == 1 && x.b.exists(i, i.c in x.d)", DYN)
    assert program.run.__globals__["__builtins__"] == {}
