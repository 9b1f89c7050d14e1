"""The compiled engine: each expression becomes one Python function over JSON (`tollbar.cel.engines.emitter`).

The function is for evaluations that succeed.  A selection is `value["field"]`, comparisons with literals are in place,
&& || ?: are statements, macros are loops; everything else calls the operations and the library that closures call.
A failing term of && || exists all is skipped, as CEL defines.  If no other term decides, or the failure is elsewhere,
the function raises: then the closures of the same tree evaluate again and give the answer, with the error's text and
place.  So the function may fail where closures have a value, but never has a value that closures do not have.

Both engines charge the same cost.  An evaluation that exceeded a limit is not repeated: the place of the error comes
from the traceback.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tollbar.cel.analysis.checked import Checked, checked
from tollbar.cel.analysis.reads import touches
from tollbar.cel.core.interface import BUDGET, CelEngine, CelError, CostBudget, Env, Inputs, Unknown
from tollbar.cel.core.limits import MAX_ALLOCATION, CostTracker, Fault
from tollbar.cel.engines.closures import ClosureProgram, Measured, closures
from tollbar.cel.engines.emitter import Emitter
from tollbar.cel.syntax.tree import Expr

_FILE: Final = "<expression>"
_LARGE: Final = 500
"""Nodes above which compiling the function, tens of milliseconds, takes longer than it can save."""

Function = Callable[[Any, CostTracker | None], Any]


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """`run` is the function; `charges` tells whether it uses its cost tracker; `fixed_cost` is charged in advance.

    `places` are the nodes by line number; `slow` evaluates again when the function fails.
    """

    source: str
    reads: frozenset[str]
    fixed_cost: int = field(repr=False)
    charges: bool = field(repr=False)
    run: Function = field(repr=False)
    places: tuple[Expr, ...] = field(repr=False)
    slow: ClosureProgram = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        cost = CostTracker(self.fixed_cost) if self.charges else None
        try:
            answer = self.run(inputs, cost)
        except Exception as error:
            answer = self.failed(error)
            if answer is None:
                return self.slow.evaluate(inputs, budget)
        if budget is not None:
            budget.steps -= self.fixed_cost if cost is None else cost.charged
        return answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        if not unknown or not touches(unknown, self.reads):
            return self.evaluate(inputs, budget)
        return self.slow.evaluate_partial(inputs, unknown, budget)

    def measure(self, inputs: Inputs | Mapping[str, Any]) -> Measured:
        """evaluate, with its cost."""
        cost = CostTracker(self.fixed_cost)
        try:
            answer = self.run(inputs, cost)
        except Exception as error:
            answer = self.failed(error)
            if answer is None:
                return self.slow.measure(inputs)
        return Measured(answer, cost.charged, MAX_ALLOCATION - cost.bytes_left)

    def failed(self, error: Exception) -> CelError | None:
        """The error, if a limit of the evaluation was exceeded: evaluating again would exceed it again."""
        if not isinstance(error, Fault) or not error.final:
            return None
        trace, line = error.__traceback__, 1
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                line = trace.tb_lineno
            trace = trace.tb_next
        node = self.places[line - 1]
        return CelError(error.message, node.line, node.column, BUDGET)


class CompilingEngine(CelEngine):
    """Compiles to Python functions."""

    def compile(self, source: str, env: Env) -> CompiledProgram | ClosureProgram:
        """A program of closures alone for a large expression, and for one that CPython cannot compile.

        CPython allows 20 nested blocks, about six nested macros.
        """
        found = checked(source, env)
        slow = closures(found)
        if len(found.types) > _LARGE:
            return slow
        try:
            return _compiled(found, slow)
        except (SyntaxError, RecursionError, MemoryError):
            return slow


def _compiled(found: Checked, slow: ClosureProgram) -> CompiledProgram:
    emitter = Emitter(found.types, optionals=any("optional_type" in type_ for type_ in found.types.values()))
    code = compile(emitter.module(found.tree, found.result), _FILE, "exec", dont_inherit=True)
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
