"""Compares the answers of our engines with those of Kubernetes to the same expressions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from cel.generator import VARIABLES, Case

from tollbar.cel import BUDGET, COMPILE, RUNTIME, CelEngine, CelError, Env, encoding
from tollbar.devplane.real.oracle import Oracle
from tollbar.model import quantity
from tollbar.model.objects import Object

ENV: Final = Env(variables=tuple(VARIABLES.items()), result="dyn")

REFUSED: Final = "a compile error"
FAILED: Final = "an error"
EXCEEDED: Final = "a cost error"
"""The outcomes without a value.  Which one it is counts; which of several errors is reported is not specified."""
_KINDS: Final = {COMPILE: REFUSED, RUNTIME: FAILED, BUDGET: EXCEEDED}
REPEATED: Final = 16

_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Our answer and Kubernetes' to one expression."""

    case: Case
    engine: str
    ours: Any
    theirs: Any
    messages: tuple[str, str]
    varying: bool = False
    """Whether the oracle's answer varies and can be ours: the order of a map's keys is random there."""

    def __str__(self) -> str:
        ours, theirs = self.messages
        return (
            f"{self.case.expression}\n    inputs:  {read_by(self.case)}\n    {self.engine + ':':9}{self.ours} {ours}\n"
            f"    oracle:  {self.theirs} {theirs}"
        )


def read_by(case: Case) -> Mapping[str, Any]:
    """The inputs whose names occur in the expression."""
    return {name: value for name, value in case.inputs.items() if name in case.expression}


def disagreements(
    cases: Sequence[Case], engines: Mapping[str, CelEngine], oracle: Oracle, env: Env = ENV
) -> list[Disagreement]:
    """The comparisons of all cases, engine by engine."""
    found = []
    answers = ask(oracle, cases, env)
    for name, engine in engines.items():
        for case, (theirs, said) in zip(cases, answers, strict=True):
            ours, message = answer_of(engine, case, env)
            if ours != theirs:
                found.append(Disagreement(case, name, ours, theirs, (message, said)))
    again = ask(oracle, [each.case for each in found for _ in range(REPEATED)], env)
    return [
        replace(each, varying=any(theirs == each.ours for theirs, _ in again[start : start + REPEATED]))
        for each, start in zip(found, range(0, len(again), REPEATED), strict=True)
    ]


def ask(oracle: Oracle, cases: Iterable[Case], env: Env) -> list[tuple[Any, str]]:
    """The oracle's answers and messages."""
    variables = dict(env.variables)
    answers = oracle.evaluate(
        {"expression": case.expression, "variables": variables, "inputs": dict(case.inputs), "typed": True}
        for case in cases
    )
    return [(outcome_of(answer), answer.get("message", "").partition("\n")[0]) for answer in answers]


def outcome_of(answer: Object) -> Any:
    """The value of an answer of the oracle, or what it has instead of one."""
    if answer["outcome"] == "value":
        return normal(answer["value"])
    if answer["outcome"] == "compile_error":
        return REFUSED
    return EXCEEDED if "actual cost limit exceeded" in answer["message"] else FAILED


def answer_of(engine: CelEngine, case: Case, env: Env) -> tuple[Any, str]:
    """Our value in the oracle's notation, or REFUSED, FAILED or EXCEEDED; and the message."""
    try:
        found = engine.compile(case.expression, env).evaluate(case.inputs)
    except CelError as error:
        found = error
    except Exception as error:  # what compile() promises not to do
        return "bug", repr(error)
    if isinstance(found, CelError):
        return "bug" if found.message.startswith("internal error") else _KINDS[found.kind], str(found)
    return normal(with_kinds(found)), ""


def with_kinds(value: Any) -> list[Any]:
    """[kind, text] of a scalar, [kind, [values]] of a list and an optional, [kind, [[key, value]]] of a map."""
    match encoding.name(value):
        case "list":
            return ["list", [with_kinds(item) for item in value]]
        case "map":
            return ["map", [[with_kinds(key), with_kinds(item)] for key, item in value.items()]]
        case "optional":
            return ["optional", [with_kinds(value.value)] if value.present else []]
        case found:
            return [found, encoding.scalar(value)]


def normal(value: Any) -> Any:
    """Comparable with ==: maps without order, numbers by value, texts that may be written in several ways as one."""
    kind, inner = value
    if kind == "map":
        return kind, frozenset((normal(key), normal(item)) for key, item in inner)
    if isinstance(inner, list):
        return kind, tuple(normal(item) for item in inner)
    match kind:
        case "double":
            number = float(inner)
            return kind, "NaN" if number != number else number.hex()
        case "duration":
            return kind, _nanoseconds(inner)
        case "quantity":
            return kind, _amount(inner)
        case _:
            return kind, inner


def _amount(text: str) -> Decimal:
    """The value of a quantity, also where reading it again would end at the largest int64."""
    digits = text.rstrip("KMGTPEi")
    suffix = text.removeprefix(digits)
    if suffix in _BINARY:
        return Decimal(digits) * 1024 ** (_BINARY.index(suffix) + 1)
    return quantity.parse(text)


def _nanoseconds(text: str) -> int:
    if text.endswith("ns"):
        return int(text.removesuffix("ns"))
    whole, _, fraction = text.removesuffix("s").lstrip("-").partition(".")
    return (-1 if text.startswith("-") else 1) * (int(whole) * 10**9 + int(fraction.ljust(9, "0") or 0))
