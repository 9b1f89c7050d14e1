"""What is being written: the state of an emitter, and the small pieces that it writes with.

The base of `emit.Emitter`; the names here are all that a compiled expression can get at.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tollbar.cel.core.limits import Fault
from tollbar.cel.core.values import elements, equal, kind, ordered, same
from tollbar.cel.engines import operations
from tollbar.cel.engines.pycode import Block, assign, call, compare, load, method
from tollbar.cel.syntax.tree import Expr

INPUTS: Final = "inputs"
BUDGET: Final = "budget"
_PLAIN: Final = (type(None), bool, int, float, str, bytes)


class Failed(Exception):
    """Leaves a function that has no value; what went wrong is for the closures to say."""


def absorb(caught: Exception) -> bool:
    """True for a failure of a term; what ends the whole evaluation goes on."""
    if isinstance(caught, RecursionError) or (isinstance(caught, Fault) and caught.final):
        raise caught
    return True


_GLOBALS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "ABSORBED": (Fault, Failed, LookupError, TypeError, ArithmeticError, RecursionError),
    "Failed": Failed,
    "UNSET": operations.UNSET,
    "absorb": absorb,
    "as_map": operations.as_map,
    "contains": operations.contains,
    "dict": dict,
    "elements": elements,
    "equal": equal,
    "has": operations.has,
    "index": operations.index,
    "insert_all": operations.insert_all,
    "int": int,
    "kind": kind,
    "len": len,
    "list": list,
    "make_list": operations.make_list,
    "make_map": operations.make_map,
    "optional_index": operations.optional_index,
    "ordered": ordered,
    "pairs": operations.pairs,
    "refused": operations.refused,
    "same": same,
    "select": operations.select,
    "str": str,
    "type": type,
}
"""All that a compiled expression can name, its own constants (K0, K1, ...) aside."""


class Writer:
    """Collects statements in `block`."""

    def __init__(self) -> None:
        self.globals = dict(_GLOBALS)
        self.pays = False
        """Whether the function uses its budget."""
        self.places: list[Expr] = []
        """Nodes by line number, from 1."""
        self.block: Block = []
        self.count = 0

    def temporary(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def shared(self, value: Any) -> ast.expr:
        """A constant that is an object of ours."""
        if type(value) in _PLAIN:
            return ast.Constant(value)
        name = f"K{len(self.globals)}"
        self.globals[name] = value
        return load(name)

    def budget(self) -> ast.expr:
        self.pays = True
        return load(BUDGET)

    def placed(self, code: Any, node: Expr) -> Any:
        """The syntax node, with the number of this node for a line."""
        self.places.append(node)
        code.lineno = code.end_lineno = len(self.places)
        code.col_offset = code.end_col_offset = 0
        return code

    def run(self, node: Expr, function: str | ast.expr, *arguments: ast.expr) -> ast.expr:
        """A call that can end the evaluation at this node."""
        placed: ast.expr = self.placed(call(function, *arguments), node)
        return placed

    @contextmanager
    def nested(self) -> Iterator[Block]:
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    def held(self, value: ast.expr) -> ast.Name:
        """The value in a variable, assigned by a statement."""
        if isinstance(value, ast.Name):
            return value
        name = self.temporary()
        self.block.append(assign(name, value))
        return load(name)

    def seen(self, value: ast.expr) -> tuple[ast.Name, ast.expr]:
        """A name for the value, and the expression that gives it that name and has to come first."""
        if isinstance(value, ast.Name):
            return value, value
        name = self.temporary()
        return load(name), ast.NamedExpr(ast.Name(name, ast.Store()), value)

    def by_type(
        self,
        value: ast.expr,
        type_: str,
        fast: Callable[[ast.expr], ast.expr],
        slow: Callable[[ast.expr], ast.expr],
    ) -> ast.expr:
        """fast(value) if the value is exactly of the type, else slow(value)."""
        value, seen = self.seen(value)
        return ast.IfExp(compare(call("type", seen), ast.Is(), load(type_)), fast(value), slow(value))

    def run_method(self, node: Expr, name: str, *arguments: ast.expr) -> ast.expr:
        placed: ast.expr = self.placed(method(self.budget(), name, *arguments), node)
        return placed
