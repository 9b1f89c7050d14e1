"""The compiled engine: an expression becomes one Python function over JSON, built as syntax nodes, never as text.

The function is the way of an evaluation that goes well.  A selection is `value["field"]`, comparisons with literals
are in place, && || ?: are statements, macros are loops; everything else calls the operations and the library that
closures call.  A term that fails is skipped, as CEL wants, and if nothing decides, or outside of && || exists all,
the failure leaves the function, whatever it was: then the closures of the same tree evaluate again, and their answer
stands, with the error's text and place.  So the function may fail where CEL has a value, but must never have a value
where CEL has another, or fails.

Both engines pay the same steps.  A spent budget is not evaluated again: the line number of an instruction is the
number of its node, which tells the place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tollbar.cel.analysis.reads import touches
from tollbar.cel.core.interface import BUDGET, CelError, Env, Inputs, Purse, Unknown
from tollbar.cel.core.limits import MAX_ALLOCATION, MAX_STEPS, Budget, Fault
from tollbar.cel.engines.emit import Emitter
from tollbar.cel.engines.program import Checked, ClosureProgram, Measured, checked, closures
from tollbar.cel.syntax.tree import Expr

_FILE: Final = "<expression>"
_LARGE: Final = 500
"""Nodes above which making a function takes longer, tens of milliseconds, than it can save."""

Function = Callable[[Any, Budget | None], Any]


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """`places` are the nodes by line number; `slow` answers when the function does not."""

    source: str
    reads: frozenset[str]
    cost: int = field(repr=False)
    pays: bool = field(repr=False)
    run: Function = field(repr=False)
    places: tuple[Expr, ...] = field(repr=False)
    slow: ClosureProgram = field(repr=False)

    def evaluate(self, inputs: Inputs | Mapping[str, Any], purse: Purse | None = None) -> Any:
        budget = Budget(self.cost) if self.pays else None
        try:
            answer = self.run(inputs, budget)
        except Exception as error:
            answer = self.failed(error)
            if answer is None:
                return self.slow.evaluate(inputs, purse)
        if purse is not None:
            purse.steps -= self.cost if budget is None else MAX_STEPS - budget.steps
        return answer

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], purse: Purse | None = None
    ) -> Any | CelError | Literal[Unknown.UNKNOWN]:
        if not unknown or not touches(unknown, self.reads):
            return self.evaluate(inputs, purse)
        return self.slow.evaluate_partial(inputs, unknown, purse)

    def measure(self, inputs: Inputs | Mapping[str, Any]) -> Measured:
        """evaluate, with its cost."""
        budget = Budget(self.cost)
        try:
            answer = self.run(inputs, budget)
        except Exception as error:
            answer = self.failed(error)
            if answer is None:
                return self.slow.measure(inputs)
        return Measured(answer, MAX_STEPS - budget.steps, MAX_ALLOCATION - budget.allocation)

    def failed(self, error: Exception) -> CelError | None:
        """The answer, if the budget is spent: evaluating again would only spend it again."""
        if not isinstance(error, Fault) or not error.final:
            return None
        trace, line = error.__traceback__, 1
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                line = trace.tb_lineno
            trace = trace.tb_next
        node = self.places[line - 1]
        return CelError(error.message, node.line, node.column, BUDGET)


class CompilingEngine:
    """Compiles to Python functions.  Stateless."""

    def compile(self, source: str, env: Env) -> CompiledProgram | ClosureProgram:
        """Closures alone for what is large, and for what CPython cannot compile: 20 nested blocks, six macros or so."""
        found = checked(source, env)
        slow = closures(found)
        if len(found.types) > _LARGE:
            return slow
        try:
            return _compiled(found, slow)
        except (SyntaxError, RecursionError, MemoryError):
            return slow

    def prepare(self, inputs: Mapping[str, Any]) -> Inputs:
        """Costs next to nothing: evaluation reads JSON in place, there is nothing to convert."""
        return Inputs(dict(inputs))


def _compiled(found: Checked, slow: ClosureProgram) -> CompiledProgram:
    emitter = Emitter(found.types, optionals=any("optional_type" in type_ for type_ in found.types.values()))
    code = compile(emitter.module(found.tree, found.result), _FILE, "exec", dont_inherit=True)
    namespace = emitter.globals
    exec(code, namespace)  # noqa: S102 # made of syntax nodes of our own; text of the expression is only ever a constant
    return CompiledProgram(
        found.source,
        found.reads,
        slow.cost,
        emitter.pays,
        namespace["evaluate"],
        tuple(emitter.places),
        slow,
    )
