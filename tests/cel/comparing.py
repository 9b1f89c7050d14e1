"""Compares the answers of our engines with those of Kubernetes to the same expressions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from cel.generator import VARIABLES, Case

from tollbar.cel import BUDGET, COMPILE, CelEngine, CelError, Env, encoding
from tollbar.devplane.real.oracle import Oracle
from tollbar.model import quantity

ENV: Final = Env(variables=tuple(VARIABLES.items()), result="dyn")

FAILED: Final = "failed"
"""Any error, of compilation or of evaluation: which of several errors is reported is not specified."""
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
    answers = _ask(oracle, cases, env)
    for name, engine in engines.items():
        for case, (theirs, said) in zip(cases, answers, strict=True):
            ours, message = answer_of(engine, case, env)
            if ours != theirs:
                found.append(Disagreement(case, name, ours, theirs, (message, said)))
    again = _ask(oracle, [each.case for each in found for _ in range(REPEATED)], env)
    return [
        replace(each, varying=any(theirs == each.ours for theirs, _ in again[start : start + REPEATED]))
        for each, start in zip(found, range(0, len(again), REPEATED), strict=True)
    ]


def _ask(oracle: Oracle, cases: Iterable[Case], env: Env) -> list[tuple[Any, str]]:
    """The oracle's answers and messages."""
    variables = dict(env.variables)
    answers = oracle.ask(
        {"expression": case.expression, "variables": variables, "inputs": dict(case.inputs), "typed": True}
        for case in cases
    )
    result = []
    for answer in answers:
        outcome, message = answer["outcome"], answer.get("message", "").partition("\n")[0]
        result.append((normal(answer["value"]), "") if outcome == "value" else (FAILED, f"{outcome}: {message}"))
    return result


def answer_of(engine: CelEngine, case: Case, env: Env) -> tuple[Any, str]:
    """Our value in the oracle's notation, or FAILED; and the message."""
    try:
        found = engine.compile(case.expression, env).evaluate(case.inputs)
    except CelError as error:
        found = error
    except Exception as error:  # what compile() promises not to do
        return "bug", repr(error)
    if isinstance(found, CelError):
        kind = {BUDGET: "budget: ", COMPILE: "compile: "}.get(found.kind, "")
        return "bug" if found.message.startswith("internal error") else FAILED, f"{kind}{found}"
    return normal(encoding.with_kinds(found)), ""


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
