"""The compiled engine: each expression becomes one Python function over JSON (`tollbar.cel.engines.emitter`).

A selection is `value["field"]`, comparisons with literals are in place, && || ?: are statements, macros are loops;
everything else calls the operations and the library that closures call.  A failing term of && || exists all is skipped,
as CEL defines.  If no other term decides, or the failure is elsewhere, the function raises: the traceback tells the
place of the error, and the operation that failed its text, so that nothing is evaluated twice.

Both engines charge the same cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tollbar.cel.analysis.checked import Checked, checked
from tollbar.cel.analysis.reads import touches
from tollbar.cel.core.interface import RUNTIME, CelEngine, CelError, CostBudget, Env, Inputs, Unknown
from tollbar.cel.core.limits import CostTracker
from tollbar.cel.engines.closures import ClosureProgram, Partly, closures, nested_too_deeply
from tollbar.cel.engines.emitter import Emitter, Late, Place, failure
from tollbar.cel.engines.prices import Prices
from tollbar.cel.engines.prices import prices as prices_of

Function = Callable[[Any, CostTracker | Late], Any]


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """`run` is the function; `fixed_cost` is charged in advance; `charges` tells whether more is than failures.

    `places` are those of failures by line number.
    """

    source: str
    reads: frozenset[str]
    fixed_cost: int = field(repr=False)
    charges: bool = field(repr=False)
    run: Function = field(repr=False)
    places: Sequence[Place] = field(repr=False)
    partly: Partly = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        cost: CostTracker | Late = CostTracker(self.fixed_cost) if self.charges else []
        try:
            answer = self.run(inputs, cost)
        except Exception as error:
            answer = self.failed(error)
        if budget is not None:
            trackers = cost if isinstance(cost, list) else [cost]
            budget.steps -= trackers[0].charged if trackers else self.fixed_cost
        return answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        if not unknown or not touches(unknown, self.reads):
            return self.evaluate(inputs, budget)
        return self.partly.evaluate(inputs, unknown, budget)

    def failed(self, error: Exception) -> CelError:
        """The error for an exception of the function."""
        tree = self.partly.tree
        try:
            return failure(self.places, error)
        except RecursionError:
            return nested_too_deeply(tree)
        except Exception as bug:  # evaluate never raises: a bug here is an error of this rule alone
            return CelError(f"internal error: {type(bug).__name__}", tree.line, tree.column, RUNTIME)


class CompilingEngine(CelEngine):
    """Compiles to Python functions."""

    def compile(self, source: str, env: Env) -> CompiledProgram | ClosureProgram:
        """A program of closures alone for a large or deeply nested expression, and for what CPython cannot compile."""
        found = checked(source, env)
        try:
            prices = prices_of(found.tree, found.types)
            return closures(found) if prices.in_closures else _compiled(found, prices)
        except (SyntaxError, RecursionError, MemoryError):
            return closures(found)


def _compiled(found: Checked, prices: Prices) -> CompiledProgram:
    emitter = Emitter(found.tree, found.types, prices)
    run = emitter.function(found.result)
    return CompiledProgram(
        found.source,
        found.reads,
        emitter.fixed,
        emitter.charges,
        run,
        emitter.places,
        Partly(found.tree, found.env),
    )
