"""What nodes of the tree cost, in steps of 10 ns, and which trees become a function.

A program is charged in advance for all nodes outside of loops (`fixed`), and for those of a loop at every round
(`round`).  The prices are what nodes take at most as measured: in a function for trees that the compiled engine makes
one of, else in closures.  They depend on the tree alone, so that all engines charge the same.  What depends on data is
charged by the operations and the library.
"""

from dataclasses import dataclass
from typing import Final

from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import ORDER, RELATIONS
from tollbar.cel.engines import operations
from tollbar.cel.library.table import LIBRARY
from tollbar.cel.syntax.tree import (
    QUANTIFIERS,
    Bind,
    Call,
    Comprehension,
    Conditional,
    Expr,
    Index,
    ListLiteral,
    Literal,
    Logic,
    MapLiteral,
    Name,
    Select,
    children,
)

_LARGE: Final = 500
"""Nodes above which compiling the function, tens of milliseconds, takes longer than it can save."""
_DEEPEST: Final = 16
"""Nested blocks of a function: loops, and attempts to evaluate a term.  CPython allows 20."""


def compilable(tree: Expr, types: Types) -> bool:
    """Whether the tree becomes a function; of any other the compiled engine makes closures as well."""
    return len(types) <= _LARGE and blocks(tree) <= _DEEPEST


def blocks(node: Expr) -> int:
    """How many blocks of a function are nested in each other for this node: loops, and attempts to evaluate a term."""
    match node:
        case Comprehension(macro=macro, range=range_, predicate=predicate, value=value):
            inner = max(blocks(part) for part in (predicate, value) if part is not None)
            return max(blocks(range_), inner + (2 if macro in QUANTIFIERS else 1))
        case _:
            return max(map(blocks, children(node)), default=0) + isinstance(node, Logic | Bind)


def has_optionals(tree: Expr, types: Types) -> bool:
    """Whether any value within the expression can be an optional: `x[?key]` is one even where its type is not known."""
    if "optional_type" in types[id(tree)] or (isinstance(tree, Index) and tree.optional):
        return True
    return any(has_optionals(child, types) for child in children(tree))


def is_bool(node: Expr, types: Types) -> bool:
    """Whether the value is a bool whatever the inputs are, so that a function need not look."""
    match node:
        case Literal(value=value):
            return type(value) is bool
        case Logic():
            return True
        case Select(test=test):
            return test
        case Comprehension(macro=macro):
            return macro in QUANTIFIERS
        case Call(function=name):
            return name in RELATIONS or (types[id(node)] == "bool" and name not in operations.OR_ELSE)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of one tree; `in_closures` if it is not evaluated by a function."""

    types: Types
    in_closures: bool
    optionals: bool

    @property
    def failures(self) -> tuple[int, int]:
        """For the first failure that a && || exists or all absorbs, and for each other one.

        The first one is found in the function, by its line and variables, in time that grows with the function.
        """
        return (500, 500) if self.in_closures else (500 + 8 * len(self.types), 140)

    def fixed(self, node: Expr | None) -> int:
        """An evaluation of the node, without what a loop repeats."""
        if node is None:
            return 0
        if operations.constant(node) is not operations.UNSET:
            return 7 if self.in_closures else 0
        own = self._in_closures(node) if self.in_closures else self._in_function(node)
        if isinstance(node, Comprehension):
            return own + self.fixed(node.range)
        return own + sum(map(self.fixed, children(node)))

    def round(self, node: Comprehension) -> int:
        """A round of a loop."""
        own = 50 if self.in_closures else 3
        if node.second is not None:
            own += 10
        if node.macro in ("exists_one", "existsOne", "map", "filter"):
            own += 1
        if node.macro == "transformMap":
            own += 10
        if node.predicate is not None and not self.in_closures:
            own += 2 * self._looks_at(node.predicate)
        return own + self.fixed(node.predicate) + self.fixed(node.value)

    def _in_function(self, node: Expr) -> int:
        match node:
            case Name():
                return 0
            case Select(optional=True):
                return 100
            case Select(operand=operand, test=test):
                # A value that has no fields is found out by a failure.
                return (28 if self.optionals else 2) + 16 * (test and self.types[id(operand)] == "dyn")
            case Index(index=key, optional=optional):
                if self.optionals:
                    return 100 if optional else 50
                return 4 if isinstance(key, Literal) else 28
            case Conditional(condition=condition):
                return 1 + self._looks_at(condition)
            case Logic(terms=terms):
                return len(terms) + sum(map(self._looks_at, terms))
            case Bind(lazy=lazy):
                return 15 if lazy else 1
            case Comprehension(macro=macro, range=range_, second=second):
                own = 5 if self.types[id(range_)].startswith("list") else 14
                return own + 30 * (second is not None) + 40 * (macro in _MAKE_MAPS) + 5 * (macro in operations.SIZED)
            case Call(function=name):
                if name in RELATIONS:
                    return self._relation(node)
                if name in operations.OR_ELSE:
                    return 4
                if name in _IN_PLACE and (len(node.arguments) == 1 or isinstance(node.arguments[1], Literal)):
                    return 6
                return LIBRARY.steps(name, node.method)
            case ListLiteral():
                return 16
            case MapLiteral(entries=entries, optional=optional):
                return 100 + 30 * len(entries) + 20 * len(optional)
        raise TypeError(node)

    def _looks_at(self, node: Expr) -> int:
        """1 for a value of which a function has to see whether it is a bool."""
        return not is_bool(node, self.types)

    def _relation(self, node: Call) -> int:
        name, (a, b) = node.function, node.arguments
        if name == "_in_":
            return 3 if operations.constant_strings(b) is not None or isinstance(a, Literal) else 18
        if name in ORDER:
            return 2 if isinstance(b, Literal) and type(b.value) is int else 14
        if operations.plain_literal(a) or operations.plain_literal(b):
            return 10 if name == "_==_" and "dyn" in self._types(node) else 2
        return 28

    def _in_closures(self, node: Expr) -> int:
        match node:
            case Name():
                return 7
            case Comprehension():
                return 220 + self._in_function(node)
            case Select(test=True):
                return 80
            case Logic(terms=terms):
                return 25 + 15 * len(terms)
            case Call(function=name):
                return self._in_function(node) + (22 if name in RELATIONS else 70)
            case _:
                return 20 + self._in_function(node)

    def _types(self, node: Call) -> tuple[str, ...]:
        return tuple(self.types[id(argument)] for argument in node.arguments)


_IN_PLACE: Final = frozenset({"!_", "size", "startsWith", "endsWith"})
"""Functions that are done in place for most arguments, the second of which is a literal."""
_MAKE_MAPS: Final = frozenset({"transformMap", "transformMapEntry"})


def prices(tree: Expr, types: Types) -> Prices:
    return Prices(types, in_closures=not compilable(tree, types), optionals=has_optionals(tree, types))


def prices_in_closures(tree: Expr, types: Types) -> Prices:
    """The prices of a partial evaluation, which always takes place in closures."""
    return Prices(types, in_closures=True, optionals=has_optionals(tree, types))
