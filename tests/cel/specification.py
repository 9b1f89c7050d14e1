"""The simple tests of the CEL specification that concern the core and the libraries that Kubernetes enables.

One row each in specification.jsonl: section, expression, variables and inputs, what the specification wants
([kind, text] as in `cel.comparing.with_kinds`, null for an error), and under `kubernetes` what Kubernetes 1.37
answers where that is something else.  Lists and maps of several types are written with dyn(), which Kubernetes' checks
require.  Left out is what needs protocol buffers, or an expression that is evaluated although it was refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cel.comparing import EXCEEDED, FAILED, REFUSED, answer_of, normal
from cel.generator import Case

from tollbar.cel import CelEngine, Env
from tollbar.model.objects import Object

LIBRARIES: Final = frozenset({"optionals", "macros2", "string_ext", "bindings_ext"})
"""Sections about extensions; the others are the core of the language."""


@dataclass(frozen=True, slots=True)
class Row:
    section: str
    expression: str
    variables: Mapping[str, str]
    inputs: Mapping[str, Any]
    want: Any
    kubernetes: Any
    """Answers in the form of `comparing.normal`, or FAILED."""

    def request(self) -> Object:
        """For the oracle."""
        return {
            "expression": self.expression,
            "variables": dict(self.variables),
            "inputs": dict(self.inputs),
            "typed": True,
        }

    def ask(self, engine: CelEngine) -> Any:
        """Our answer, in the same form."""
        env = Env(tuple(self.variables.items()), "dyn")
        return of_one_kind(answer_of(engine, Case(self.expression, "dyn", self.inputs), env)[0])


def of_one_kind(answer: Any) -> Any:
    """The answer; FAILED for any error, because the specification does not tell errors apart."""
    return FAILED if answer in (REFUSED, EXCEEDED) else answer


def read() -> tuple[Row, ...]:
    text = Path(__file__).with_name("specification.jsonl").read_text(encoding="utf-8")
    return tuple(_row(json.loads(line)) for line in text.splitlines())


def _row(row: Object) -> Row:
    want = row["want"]
    return Row(
        row["section"],
        row["expression"],
        row.get("variables", {}),
        row.get("inputs", {}),
        _answer(want),
        _answer(row.get("kubernetes", want)),
    )


def _answer(encoded: Any) -> Any:
    return FAILED if encoded is None else normal(encoded)
