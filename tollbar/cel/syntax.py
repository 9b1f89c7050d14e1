"""The tree of an expression, as every part of this package reads it.

Made by the parser, never changed after.  `line` and `column` point to the name or operator that an error about the
node is about.  Operators are calls: `a + b` is Call("_+_"), `!a` is Call("!_"); && and || are flat, so that a chain
of hundreds is one node.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from typing import Literal as OneOf


@dataclass(frozen=True, slots=True)
class Node:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; also a constant call that was folded, such as quantity("1Gi")."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """operand.field, or has(operand.field) when `test` is set."""

    operand: "Expr"
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index(Node):
    operand: "Expr"
    index: "Expr"


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function, a method (its receiver is the first argument) or an operator."""

    function: str
    arguments: tuple["Expr", ...]
    method: bool = False


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    elements: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class MapLiteral(Node):
    entries: tuple[tuple["Expr", "Expr"], ...]


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """A chain of && or of ||, at least two terms."""

    operator: OneOf["&&", "||"]
    terms: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """range.macro(variable, predicate); map() has a value, and a predicate only when written with three arguments."""

    macro: str
    range: "Expr"
    variable: str
    predicate: "Expr | None"
    value: "Expr | None"


@dataclass(frozen=True, slots=True)
class Bind(Node):
    """cel.bind(variable, value, body): the value is computed once, before the body."""

    variable: str
    value: "Expr"
    body: "Expr"


Expr: TypeAlias = (
    Literal | Name | Select | Index | Call | ListLiteral | MapLiteral | Logic | Conditional | Comprehension | Bind
)

MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
"""Methods that take a variable.  The other macros are has() and cel.bind()."""
