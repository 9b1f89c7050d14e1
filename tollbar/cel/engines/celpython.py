"""cel-python's own evaluator within limits, as a second opinion on one expression for people and tests.

It is not for production: see docs/decisions/0008-cel-engines.md.  It answers as cel-python does where that has an
answer (docs/reference/cel.md tells where the two differ); libraries and syntax that it does not have are errors.

Expressions pass the checks of the other engines first, so that cel-python sees no undeclared name and its lexer no
string at all.  Then limited are: visited nodes, inputs, sums, and patterns.  && || exists all keep one error instead of
chaining the texts of all; durations and timestamps are parsed by our own parsers; error texts, which quote inputs, are
dropped.  Objects are converted for every evaluation, which alone takes a hundred times as long as one of our engines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, Literal

import lark
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError, CELParser
from celpy.evaluation import Activation, CELEvalError, CELSyntaxError, CELUnsupportedError, Evaluator, base_functions

from tollbar.cel.analysis.checked import checked
from tollbar.cel.analysis.reads import touches
from tollbar.cel.core.interface import (
    BUDGET,
    COMPILE,
    RUNTIME,
    UNKNOWN,
    CelEngine,
    CelError,
    CostBudget,
    Env,
    Inputs,
    Unknown,
)
from tollbar.cel.core.limits import MAX_PATTERN, MAX_STRING, CostTracker, Fault
from tollbar.cel.core.values import Uint
from tollbar.cel.library.times import to_duration, to_timestamp
from tollbar.cel.syntax.lexing import scan

MAX_VISITS: Final = 1_000
"""Visits of nodes of the parse tree, each of which takes tens of microseconds."""
MAX_INPUT: Final = 10_000
"""Values in all inputs together; a string counts once more for every CHARACTERS characters."""
CHARACTERS: Final = 100

_ERRORS: Final = (CELEvalError, CELSyntaxError, CELUnsupportedError)


class _LimitExceeded(Exception):
    """Ends an evaluation."""


@dataclass(slots=True)
class _Visits:
    left: int = MAX_VISITS

    def charge(self, visits: int = 1) -> None:
        self.left -= visits
        if self.left < 0:
            raise _LimitExceeded


class _Evaluator(Evaluator):
    def __init__(
        self, ast: lark.Tree[Any], activation: Activation, strings: Mapping[int, str | bytes], visits: _Visits
    ) -> None:
        super().__init__(ast, activation)
        self.strings = strings
        self.visits = visits

    def sub_evaluator(self, ast: lark.Tree[Any]) -> "_Evaluator":
        return _Evaluator(ast, self.activation, self.strings, self.visits)

    def visit(self, tree: lark.Tree[Any]) -> Any:
        self.visits.charge()
        return super().visit(tree)

    def literal(self, tree: lark.Tree[Any]) -> Any:
        token: Any = tree.children[0]
        if not token.type.endswith(("STRING_LIT", "BYTES_LIT")):
            return super().literal(tree)
        value = self.strings[token.start_pos]
        return celtypes.StringType(value) if isinstance(value, str) else celtypes.BytesType(value)

    def member_dot_arg(self, tree: lark.Tree[Any]) -> Any:
        token: Any = tree.children[1]
        name = token.value
        if name not in ("all", "exists"):
            return super().member_dot_arg(tree)
        items = self.visit(tree.children[0])
        if isinstance(items, CELEvalError):
            return items
        predicate = self.build_ss_macro_eval(tree)
        decisive = name == "exists"
        return reduce(_deciding(decisive), map(predicate, items), celtypes.BoolType(not decisive))


def _deciding(decisive: bool) -> Callable[[Any, Any], Any]:
    """&& or ||: the deciding operand, else the first error."""

    def decide(left: Any, right: Any) -> Any:
        failures = []
        for value in (left, right):
            if not isinstance(value, celtypes.BoolType):
                failures.append(value if isinstance(value, CELEvalError) else CELEvalError("no such overload"))
            elif bool(value) is decisive:
                return value
        return failures[0] if failures else celtypes.BoolType(not decisive)

    return decide


def _text(parse: Callable[[CostTracker, str], Any], make: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A constructor that fails on texts that our parser refuses; cel-python takes exponential time for some."""

    def construct(value: Any) -> Any:
        if isinstance(value, celtypes.StringType):
            try:
                parse(CostTracker(), str(value))
            except Fault:
                return CELEvalError("not a time")
        return make(value)

    return construct


def _joined(visits: _Visits) -> Callable[[Any, Any], Any]:
    """a + b; strings, bytes and lists are charged by their length, as visits."""

    def add(a: Any, b: Any) -> Any:
        if isinstance(a, str | bytes | list) and isinstance(b, str | bytes | list):
            visits.charge((len(a) + len(b)) // CHARACTERS)
        return base_functions["_+_"](a, b)

    return add


def _matches(text: Any, pattern: Any) -> Any:
    if isinstance(pattern, str) and isinstance(text, str) and (len(pattern) > MAX_PATTERN or len(text) > MAX_STRING):
        return CELEvalError("pattern or text is too long")
    return base_functions["matches"](text, pattern)


def _plain(value: Any) -> Any:
    """The value as our engines represent it; ValueError for a type that only cel-python has."""
    match value:
        case celtypes.BoolType():
            return bool(value)
        case celtypes.UintType():
            return Uint(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case celtypes.TimestampType():
            return to_timestamp(CostTracker(), str(value))
        case celtypes.DurationType():
            return to_duration(CostTracker(), str(value))
        case None:
            return None
    kinds: tuple[Any, ...] = (int, float, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    raise ValueError(f"a value of {type(value).__name__}")


_FUNCTIONS: Final[Any] = {
    **base_functions,
    "matches": _matches,
    "_||_": _deciding(True),
    "_&&_": _deciding(False),
    "duration": _text(to_duration, celtypes.DurationType),
    "timestamp": _text(to_timestamp, celtypes.TimestampType),
}


@dataclass(frozen=True, slots=True)
class CelPythonProgram:
    source: str
    reads: frozenset[str]
    result: str = field(repr=False)
    tree: Any = field(repr=False)
    strings: Mapping[int, str | bytes] = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        visits = _Visits()
        answer = self._answer(inputs, visits)
        if budget is not None:
            budget.steps -= MAX_VISITS - max(visits.left, 0)
        return answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        """UNKNOWN whenever the expression may read something unknown, whether or not the answer depends on it."""
        return UNKNOWN if touches(unknown, self.reads) else self.evaluate(inputs, budget)

    def _answer(self, inputs: Mapping[str, Any], visits: _Visits) -> Any:
        try:
            _bounded(inputs)
            activation = Activation(functions={**_FUNCTIONS, "_+_": _joined(visits)})
            evaluator = _Evaluator(self.tree, activation, self.strings, visits)
            value = _plain(evaluator.evaluate({name: json_to_cel(value) for name, value in inputs.items()}))
        except (_LimitExceeded, RecursionError):
            return CelError("evaluation exceeds the limits set for cel-python", 1, 1, BUDGET)
        except _ERRORS as error:
            return CelError("cel-python: no value", error.line or 1, error.column or 1, RUNTIME)
        except Exception as error:
            return CelError(f"cel-python: {type(error).__name__}", 1, 1, RUNTIME)
        if self.result == "bool" and not isinstance(value, bool):
            return CelError("must evaluate to bool", 1, 1, RUNTIME)
        return value


def _bounded(inputs: Mapping[str, Any]) -> None:
    left, pending = MAX_INPUT, list(inputs.values())
    while pending:
        value = pending.pop()
        left -= 1 + (len(value) // CHARACTERS if isinstance(value, str) else 0)
        if left < 0:
            raise _LimitExceeded
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value


class CelPythonEngine(CelEngine):
    """Compiles for cel-python."""

    def compile(self, source: str, env: Env) -> CelPythonProgram:
        found = checked(source, env)
        scanned = scan(source)
        try:
            tree = CELParser(tree_class=lark.Tree).parse(scanned.text)
        except CELParseError as error:
            raise CelError(
                "cel-python does not support this syntax", error.line or 1, error.column or 1, COMPILE
            ) from None
        return CelPythonProgram(source, found.reads, found.result, tree, scanned.strings)
