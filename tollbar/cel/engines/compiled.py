"""The compiled engine: each expression becomes one Python function over JSON (`tollbar.cel.engines.emitter`).

A selection is `value["field"]`, comparisons with literals are in place, && || ?: are statements, macros are loops;
everything else calls the operations and the library that closures call.  A failing term of && || exists all is skipped,
as CEL defines.  If no other term decides, or the failure is elsewhere, the function raises: the traceback tells the
place of the error, and the operation that failed its text, so that nothing is evaluated twice.

Both engines charge the same cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tollbar.cel.analysis.checked import Checked, checked
from tollbar.cel.analysis.reads import touches
from tollbar.cel.core.interface import BUDGET, RUNTIME, CelEngine, CelError, CostBudget, Env, Inputs, Unknown
from tollbar.cel.core.limits import CostTracker
from tollbar.cel.engines.closures import ClosureProgram, closures
from tollbar.cel.engines.emitter import FILE, Emitter, Place, Uncharged, failure
from tollbar.cel.engines.prices import Prices
from tollbar.cel.engines.prices import prices as prices_of

Function = Callable[[Any, CostTracker | None], Any]


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """`run` is the function; `fixed_cost` is charged in advance; `charges` tells whether more is if nothing fails.

    `places` are those of failures by line number; `slow` is for partial evaluation.
    """

    source: str
    reads: frozenset[str]
    fixed_cost: int = field(repr=False)
    charges: bool = field(repr=False)
    run: Function = field(repr=False)
    places: tuple[Place, ...] = field(repr=False)
    slow: ClosureProgram = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        cost = CostTracker(self.fixed_cost) if self.charges else None
        try:
            try:
                answer = self.run(inputs, cost)
            except Uncharged:  # such a function has no loops, and takes microseconds
                cost = CostTracker(self.fixed_cost)
                answer = self.run(inputs, cost)
        except Exception as error:
            answer = self.failed(error)
        if budget is not None:
            budget.steps -= self.fixed_cost if cost is None else cost.charged
        return answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        if not unknown or not touches(unknown, self.reads):
            return self.evaluate(inputs, budget)
        return self.slow.evaluate_partial(inputs, unknown, budget)

    def failed(self, error: Exception) -> CelError:
        """The error for an exception of the function."""
        tree = self.slow.tree
        try:
            return failure(self.places, error)
        except RecursionError:
            return CelError("evaluation is nested too deeply", tree.line, tree.column, BUDGET)
        except Exception as bug:  # evaluate never raises: a bug here is an error of this rule alone
            return CelError(f"internal error: {type(bug).__name__}", tree.line, tree.column, RUNTIME)


class CompilingEngine(CelEngine):
    """Compiles to Python functions."""

    def compile(self, source: str, env: Env) -> CompiledProgram | ClosureProgram:
        """A program of closures alone for a large or deeply nested expression, and for what CPython cannot compile."""
        found = checked(source, env)
        slow = closures(found)
        prices = prices_of(found.tree, found.types)
        if prices.in_closures:
            return slow
        try:
            return _compiled(found, slow, prices)
        except (SyntaxError, RecursionError, MemoryError):
            return slow


def _compiled(found: Checked, slow: ClosureProgram, prices: Prices) -> CompiledProgram:
    emitter = Emitter(found.types, prices)
    code = compile(emitter.module(found.tree, found.result), FILE, "exec", dont_inherit=True)
    namespace = emitter.globals
    exec(code, namespace)  # noqa: S102 # our own syntax nodes; text of the expression is only ever a constant
    return CompiledProgram(
        found.source,
        found.reads,
        slow.fixed_cost,
        emitter.charges,
        namespace["evaluate"],
        tuple(emitter.places),
        slow,
    )
