"""The first engine: cel-python's grammar, our bounded evaluation.

Compiling is limits, parse, constants, checks, reads, in that order; each step trusts the ones before it.  A program
is immutable and an evaluation keeps its state to itself, so programs may be shared between threads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from tollbar.cel.check import check
from tollbar.cel.constants import fold
from tollbar.cel.evaluator import evaluate
from tollbar.cel.interface import COMPILE, RUNTIME, UNKNOWN, CelError, Env, Inputs, Purse, Unknown
from tollbar.cel.limits import MAX_ALLOCATION, MAX_STEPS, Budget
from tollbar.cel.parser import parse
from tollbar.cel.reads import reads_of, touches
from tollbar.cel.syntax import Expr
from tollbar.cel.values import kind


@dataclass(frozen=True, slots=True)
class Measured:
    """An answer and what it took, in steps and in bytes allocated."""

    answer: bool | CelError
    steps: int
    allocated: int


@dataclass(frozen=True, slots=True)
class InterpretedProgram:
    source: str
    reads: frozenset[str]
    tree: Expr = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], purse: Purse | None = None) -> bool | CelError:
        measured = self.measure(inputs)
        if purse is not None:
            purse.steps -= measured.steps
        return measured.answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], purse: Purse | None = None
    ) -> bool | CelError | Literal[Unknown.UNKNOWN]:
        return UNKNOWN if touches(unknown, self.reads) else self.evaluate(inputs, purse)

    def measure(self, inputs: Inputs | Mapping[str, Any]) -> Measured:
        """evaluate, with its cost."""
        budget = Budget()
        value = evaluate(self.tree, inputs, budget)
        if not isinstance(value, bool | CelError):
            value = CelError(f"must evaluate to bool but is {kind(value)}", self.tree.line, self.tree.column, RUNTIME)
        return Measured(value, MAX_STEPS - budget.steps, MAX_ALLOCATION - budget.allocation)


class InterpretingEngine:
    """Compiles to a tree and walks it.  Stateless."""

    def compile(self, source: str, env: Env) -> InterpretedProgram:
        try:
            tree = fold(parse(source), (name for name, _ in env.variables))
            return InterpretedProgram(source, reads_of(tree, check(tree, env), env), tree)
        except RecursionError:
            raise CelError("expression is nested too deeply", 1, 1, COMPILE) from None

    def prepare(self, inputs: Mapping[str, Any]) -> Inputs:
        """Costs nothing: evaluation reads JSON in place, there is nothing to convert."""
        return Inputs(MappingProxyType(dict(inputs)))
