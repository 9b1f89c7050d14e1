"""From source to program: the steps that all engines share, and the engine of closures.

Compiling is limits, parse, constants, checks, reads, in that order; each step trusts the ones before it.  A program
is immutable and an evaluation keeps its state to itself, so programs may be shared between threads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from tollbar.cel.analysis.check import Types, check
from tollbar.cel.analysis.constants import fold
from tollbar.cel.analysis.reads import reads_of, touches
from tollbar.cel.core import schema
from tollbar.cel.core.interface import BUDGET, COMPILE, RUNTIME, UNKNOWN, CelError, Env, Inputs, Purse, Unknown
from tollbar.cel.core.limits import MAX_ALLOCATION, MAX_STEPS, Budget, Fault
from tollbar.cel.core.values import kind
from tollbar.cel.engines import operations
from tollbar.cel.engines.closures import Evaluate, Frame, Unsettled, closure, frame, placed
from tollbar.cel.syntax.parser import parse
from tollbar.cel.syntax.tree import Expr


class Checked(NamedTuple):
    """An expression that nothing is wrong with.  `types` go by id() of the nodes of `tree`."""

    source: str
    env: Env
    tree: Expr
    types: Types
    reads: frozenset[str]

    @property
    def result(self) -> str:
        """The kind that the value must have, or `dyn`."""
        return schema.kind(self.env.result)


def checked(source: str, env: Env) -> Checked:
    """Raises CelError of kind COMPILE, and nothing else, for any string."""
    try:
        tree = fold(parse(source), (name for name, _ in env.variables))
        types = check(tree, env)
        reads, _ = reads_of(tree, types, env)
        return Checked(source, env, tree, types, reads)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> CelError:
    return CelError("expression is nested too deeply", 1, 1, COMPILE)


@dataclass(frozen=True, slots=True)
class Measured:
    """An answer and what it took, in steps and in bytes allocated."""

    answer: Any
    steps: int
    allocated: int


@dataclass(frozen=True, slots=True)
class ClosureProgram:
    """`asking` gives the function that is like `run` and asks at each site whether it is known: it takes as much memory
    again, and most programs are never evaluated in part."""

    source: str
    reads: frozenset[str]
    tree: Expr = field(repr=False)
    result: str = field(repr=False)
    cost: int = field(repr=False)
    variables: int = field(repr=False)
    run: Evaluate = field(repr=False)
    asking: Callable[[], Evaluate] = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], purse: Purse | None = None) -> Any:
        budget = Budget(self.cost)
        answer = self.answer(self.run, inputs, frozenset(), budget)
        if purse is not None:
            purse.steps -= MAX_STEPS - budget.steps
        return answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], purse: Purse | None = None
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        if not unknown or not touches(unknown, self.reads):
            return self.evaluate(inputs, purse)
        budget = Budget(self.cost)
        answer = self.answer(self.partly, inputs, unknown, budget)
        if purse is not None:
            purse.steps -= MAX_STEPS - budget.steps
        return answer

    def partly(self, frame: Frame) -> Any:
        return self.asking()(frame)

    def measure(self, inputs: Inputs | Mapping[str, Any]) -> Measured:
        """evaluate, with its cost."""
        budget = Budget(self.cost)
        answer = self.answer(self.run, inputs, frozenset(), budget)
        return Measured(answer, MAX_STEPS - budget.steps, MAX_ALLOCATION - budget.allocation)

    def answer(
        self, run: Evaluate, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: Budget
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        tree = self.tree
        try:
            value = run(frame(budget, inputs, unknown, self.variables))
            found = self.result if self.result == "dyn" else kind(value)
        except Unsettled:
            return UNKNOWN
        except CelError as error:
            return CelError(error.message, error.line, error.column, error.kind)
        except Fault as fault:  # the value itself is none
            return placed(tree, fault)
        except RecursionError:
            return CelError("evaluation is nested too deeply", tree.line, tree.column, BUDGET)
        except Exception as error:  # the promise to callers: a bug here is one rule's error, not theirs
            return CelError(f"internal error: {type(error).__name__}", tree.line, tree.column, RUNTIME)
        if found != self.result:
            return CelError(f"must evaluate to {self.result} but is {found}", tree.line, tree.column, RUNTIME)
        return value


def closures(found: Checked) -> ClosureProgram:
    """Raises CelError for the same reason as `checked`: the stack may be nearly full when it is called."""
    try:
        run, variables = closure(found.tree, found.types)
        cost = operations.nodes(found.tree)
    except RecursionError:
        raise _too_deep() from None
    asking = cache(partial(_asking, found.tree, found.env))
    return ClosureProgram(found.source, found.reads, found.tree, found.result, cost, variables, run, asking)


def _asking(tree: Expr, env: Env) -> Evaluate:
    """Types and sites are found once more: keeping them would take more than it saves."""
    types = check(tree, env)
    _, sites = reads_of(tree, types, env)
    return closure(tree, types, sites)[0]


class ClosuresEngine:
    """Compiles to closures.  Stateless."""

    def compile(self, source: str, env: Env) -> ClosureProgram:
        return closures(checked(source, env))

    def prepare(self, inputs: Mapping[str, Any]) -> Inputs:
        """Costs next to nothing: evaluation reads JSON in place, there is nothing to convert."""
        return Inputs(dict(inputs))
