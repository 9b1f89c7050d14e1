"""The tree of an expression.  Immutable.

`line` and `column` point to the name or operator that an error about the node refers to.  Operators are calls: `a + b`
is Call("_+_"), `!a` is Call("!_").  && and || are flat, so that a chain of hundreds is one node.
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
    """A constant, which may be the result of a folded call such as quantity("1Gi")."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable; with `root` set, `.name`, which no variable of a macro or of cel.bind() shadows."""

    name: str
    root: bool = False


@dataclass(frozen=True, slots=True)
class Select(Node):
    """operand.field, has(operand.field) when `test` is set, operand.?field when `optional` is."""

    operand: "Expr"
    field: str
    test: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Index(Node):
    """operand[index], or operand[?index] when `optional` is set."""

    operand: "Expr"
    index: "Expr"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A call of a function, of a method (the receiver is the first argument) or of an operator."""

    function: str
    arguments: tuple["Expr", ...]
    method: bool = False


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    """`optional` holds the positions of the elements that were written with a question mark."""

    elements: tuple["Expr", ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapLiteral(Node):
    """`optional` holds the positions of the entries that were written with a question mark."""

    entries: tuple[tuple["Expr", "Expr"], ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """A chain of && or of ||, of at least two terms."""

    operator: OneOf["&&", "||"]
    terms: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """range.macro(variable, predicate); with a second variable over the indices, or keys, and the elements.

    map() and the transform macros have a value; their predicate is optional.
    """

    macro: str
    range: "Expr"
    variable: str
    predicate: "Expr | None"
    value: "Expr | None"
    second: str | None = None


@dataclass(frozen=True, slots=True)
class Bind(Node):
    """cel.bind(variable, value, body): the value is computed at its first use if `lazy`, else before the body."""

    variable: str
    value: "Expr"
    body: "Expr"
    lazy: bool = True


Expr: TypeAlias = (
    Literal | Name | Select | Index | Call | ListLiteral | MapLiteral | Logic | Conditional | Comprehension | Bind
)

QUANTIFIERS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
"""Macros with one or two variables and a predicate."""
TRANSFORMS: Final = frozenset({"transformList", "transformMap", "transformMapEntry"})
"""Macros with two variables, an optional predicate, and a value."""
MACROS: Final = QUANTIFIERS | TRANSFORMS | {"filter", "map"}
"""Methods that become a Comprehension.  Other macros are has(), cel.bind(), sortBy(), optMap() and optFlatMap()."""


def path_of(node: Expr) -> str | None:
    """`a.b.c` for a chain of plain selections from a name; None for anything else."""
    match node:
        case Name(name=name):
            return name
        case Select(operand=operand, field=field, test=False, optional=False):
            path = path_of(operand)
            return path and f"{path}.{field}"
        case _:
            return None


def children(node: Expr) -> tuple[Expr, ...]:
    """The parts of the node, in order of evaluation."""
    match node:
        case Select(operand=operand):
            return (operand,)
        case Index(operand=operand, index=index):
            return operand, index
        case Call(arguments=arguments):
            return arguments
        case ListLiteral(elements=elements):
            return elements
        case MapLiteral(entries=entries):
            return tuple(part for entry in entries for part in entry)
        case Logic(terms=terms):
            return terms
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case Bind(value=value, body=body):
            return value, body
        case Comprehension(range=range_, predicate=predicate, value=value):
            return tuple(part for part in (range_, predicate, value) if part is not None)
        case _:
            return ()
