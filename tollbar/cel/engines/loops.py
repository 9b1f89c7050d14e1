"""The loops of macros, as statements.

Called by `emit` for the body of a comprehension, with the emitter's block being that of a round: each function adds
what is done with one element, and says what comes before the loop, and what when it has run to its end.
"""

import ast
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

from tollbar.cel.engines.pycode import FAIL, Block, Scope, assign, if_, load, method
from tollbar.cel.syntax.tree import Comprehension, Expr

Parts: TypeAlias = tuple[Block, Block]
"""What comes before a loop, and what when it has run to its end."""


class Emitter(Protocol):
    """What a loop needs of `emit.Emitter`."""

    block: Block

    def temporary(self) -> str: ...

    def nested(self) -> AbstractContextManager[Block]: ...

    def budget(self) -> ast.expr: ...

    def value(self, node: Expr, scope: Scope) -> ast.expr: ...

    def branch(self, node: Expr, scope: Scope, true: Block, false: Block) -> None: ...

    def attempt(self, node: Expr, body: Block, failed: str, then: Block) -> ast.stmt: ...

    def run(self, node: Expr, function: str | ast.expr, *arguments: ast.expr) -> ast.expr: ...


def _quantified(emitter: Emitter, node: Comprehension, scope: Scope, _: str, result: str) -> Parts:
    decisive = node.macro == "exists"
    failed = emitter.temporary()
    found: Block = [assign(result, ast.Constant(decisive)), ast.Break()]
    with emitter.nested() as body:
        predicate = node.predicate or node.range
        go_on: Block = [ast.Continue()]
        emitter.branch(predicate, scope, found if decisive else go_on, go_on if decisive else found)
    emitter.block.append(emitter.attempt(node, body, failed, []))
    before: Block = [assign(result, ast.Constant(not decisive)), assign(failed, ast.Constant(False))]
    return before, [if_(load(failed), [FAIL])]


def _counted(emitter: Emitter, node: Comprehension, scope: Scope, _: str, result: str) -> Parts:
    one = ast.AugAssign(ast.Name(result, ast.Store()), ast.Add(), ast.Constant(1))
    emitter.branch(node.predicate or node.range, scope, [one, ast.Continue()], [ast.Continue()])
    return [assign(result, ast.Constant(0))], []


def _kept(emitter: Emitter, node: Comprehension, scope: Scope) -> None:
    if node.predicate is not None:
        emitter.branch(node.predicate, scope, [], [ast.Continue()])


def _listed(emitter: Emitter, node: Comprehension, scope: Scope, first: str, result: str) -> Parts:
    _kept(emitter, node, scope)
    value = load(first) if node.value is None else emitter.value(node.value, scope)
    emitter.block.append(ast.Expr(method(load(result), "append", value)))
    return [assign(result, ast.List([], ast.Load()))], []


def _mapped(emitter: Emitter, node: Comprehension, scope: Scope, first: str, result: str) -> Parts:
    _kept(emitter, node, scope)
    value = emitter.value(node.value or node.range, scope)
    entry = ast.Subscript(load(result), load(first), ast.Store())
    emitter.block.append(ast.Assign([entry], value))
    return [assign(result, ast.Dict([], []))], []


def _entered(emitter: Emitter, node: Comprehension, scope: Scope, _: str, result: str) -> Parts:
    _kept(emitter, node, scope)
    value = emitter.value(node.value or node.range, scope)
    emitter.block.append(
        ast.Expr(emitter.run(node, "insert_all", emitter.budget(), load(result), value)),
    )
    return [assign(result, ast.Dict([], []))], []


LOOPS: Final[dict[str, Callable[[Emitter, Comprehension, Scope, str, str], Parts]]] = {
    "exists": _quantified,
    "all": _quantified,
    "exists_one": _counted,
    "existsOne": _counted,
    "filter": _listed,
    "map": _listed,
    "transformList": _listed,
    "transformMap": _mapped,
    "transformMapEntry": _entered,
}
