"""Static checks: what can be known to be wrong before an expression sees an object.

Unknown variables, functions, fields and numbers of arguments, operands that no overload takes, a result that cannot
be bool.  Everything that is not surely wrong passes: the type `dyn` is never refused.  Called by the engine; raises
CelError of kind COMPILE at the first finding.  The types found on the way tell `reads` which values are lists.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from tollbar.cel import schema
from tollbar.cel.functions import Overload
from tollbar.cel.interface import COMPILE, CelError, Env
from tollbar.cel.library import LIBRARY
from tollbar.cel.limits import MAX_QUOTED, quoted
from tollbar.cel.syntax import (
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
)
from tollbar.cel.values import KEYS, NUMERIC, ORDER, ORDERED, no_overload_of
from tollbar.cel.values import kind as kind_of

Types = dict[int, str]
"""The static type of every node, by id(): valid while the tree lives."""

_EQUALITY: Final = frozenset({"_==_", "_!=_"})
_EMPTY: Final[tuple[Overload, ...]] = ()
_INDEXES: Final = {
    "map": KEYS | {"dyn"},
    "list": frozenset({"int", "uint", "dyn"}),
    "dyn": KEYS | {"bool", "dyn"},
}


def check(tree: Expr, env: Env) -> Types:
    """The types of all nodes; raises CelError."""
    checker = _Checker()
    result = checker.infer(tree, dict(env.variables))
    if result not in ("bool", "dyn"):
        raise CelError(f"must evaluate to bool but is {result}", tree.line, tree.column, COMPILE)
    return checker.types


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing."""
    close = difflib.get_close_matches(word, known, n=1) if len(word) <= MAX_QUOTED else []
    return f"; did you mean '{close[0]}'?" if close else ""


class _Checker:
    def __init__(self) -> None:
        self.types: Types = {}

    def infer(self, node: Expr, scope: Mapping[str, str]) -> str:
        found = self.types[id(node)] = self.type_of(node, scope)
        return found

    def refuse(self, message: str, node: Expr) -> NoReturn:
        raise CelError(message, node.line, node.column, COMPILE)

    def type_of(self, node: Expr, scope: Mapping[str, str]) -> str:
        match node:
            case Literal(value=value):
                return kind_of(value)
            case Name():
                return self.name(node, scope)
            case Select():
                return self.select(node, scope)
            case Index():
                return self.index(node, scope)
            case Call():
                return self.call(node, scope)
            case Logic():
                for term in node.terms:
                    self.needs_bool(term, node.operator, scope)
                return "bool"
            case Conditional():
                self.needs_bool(node.condition, "?:", scope)
                return schema.common(self.infer(node.then, scope), self.infer(node.otherwise, scope))
            case Comprehension():
                return self.comprehension(node, scope)
            case Bind():
                return self.infer(node.body, {**scope, node.variable: self.infer(node.value, scope)})
            case ListLiteral() | MapLiteral():
                return self.container(node, scope)

    def needs_bool(self, node: Expr, what: str, scope: Mapping[str, str]) -> None:
        found = schema.kind(self.infer(node, scope))
        if found not in ("bool", "dyn"):
            self.refuse(f"{what} needs bool, not {found}", node)

    def name(self, node: Name, scope: Mapping[str, str]) -> str:
        if node.name not in scope:
            self.refuse(f"undefined variable {quoted(node.name)}{suggestion(node.name, scope)}", node)
        return scope[node.name]

    def select(self, node: Select, scope: Mapping[str, str]) -> str:
        operand = self.infer(node.operand, scope)
        found = self.field(operand, node.field, node)
        return "bool" if node.test else found

    def field(self, operand: str, field: str, node: Select | Index) -> str:
        known = schema.fields(operand)
        if known is not None:
            return known[field] if field in known else self.undefined_field(operand, known, field, node)
        kind = schema.kind(operand)
        if kind not in ("map", "dyn"):
            hint = "; use exists(), all() or an index" if kind == "list" else ""
            self.refuse(f"undefined field {quoted(field)} in {kind}{hint}", node)
        return schema.element(operand)

    def undefined_field(self, operand: str, known: dict[str, str], field: str, node: Select | Index) -> NoReturn:
        hint = suggestion(field, known)
        for name, type_ in known.items():
            # A field that moved one level down between API versions.
            if not hint and field in (schema.fields(type_) or ()):
                hint = f"; did you mean '{_source(node.operand)}{name}.{field}'?"
        self.refuse(f"undefined field {quoted(field)} in {operand}{hint}", node)

    def index(self, node: Index, scope: Mapping[str, str]) -> str:
        operand, index = self.infer(node.operand, scope), schema.kind(self.infer(node.index, scope))
        kind = schema.kind(operand)
        if kind == "map" and isinstance(node.index, Literal) and isinstance(node.index.value, str):
            return self.field(operand, node.index.value, node)
        if index not in _INDEXES.get(kind, ()):
            self.refuse(no_overload_of("[]", (kind, index)), node)
        return schema.element(operand)

    def call(self, node: Call, scope: Mapping[str, str]) -> str:
        kinds = tuple(schema.kind(self.infer(argument, scope)) for argument in node.arguments)
        name = node.function
        if name in _EQUALITY:
            wrong = not _comparable(*kinds)
        elif name in ORDER:
            wrong = not (_comparable(*kinds) and all(kind in ORDERED | NUMERIC | {"dyn"} for kind in kinds))
        elif name == "_in_":
            wrong = kinds[1] not in ("list", "map", "dyn")
        else:
            return self.overload(node, kinds)
        if wrong:
            self.refuse(no_overload_of(name, kinds), node)
        return "bool"

    def overload(self, node: Call, kinds: tuple[str, ...]) -> str:
        name, method = node.function, node.method
        group = LIBRARY.groups.get((name, method), _EMPTY)
        if not group:
            self.undefined_function(node)
        fitting = {item.result for item in group if item.accepts(kinds)}
        if not fitting:
            given = len(kinds) - method
            counts = sorted({len(item.parameters) - method for item in group})
            if given not in counts:
                plural = "" if counts == [1] else "s"
                self.refuse(f"{name}() takes {' or '.join(map(str, counts))} argument{plural}, not {given}", node)
            self.refuse(no_overload_of(name, kinds), node)
        return fitting.pop() if len(fitting) == 1 else "dyn"

    def undefined_function(self, node: Call) -> NoReturn:
        what, other = ("method", "function") if node.method else ("function", "method")
        if (node.function, not node.method) in LIBRARY.groups:
            self.refuse(f"{quoted(node.function)} is a {other}, not a {what}", node)
        hint = suggestion(node.function, LIBRARY.names())
        self.refuse(f"undefined {what} {quoted(node.function)}{hint}", node)

    def container(self, node: ListLiteral | MapLiteral, scope: Mapping[str, str]) -> str:
        if isinstance(node, ListLiteral):
            found = {self.infer(element, scope) for element in node.elements}
            return f"list<{found.pop() if len(found) == 1 else 'dyn'}>"
        for key, _ in node.entries:
            if schema.kind(self.infer(key, scope)) not in ("string", "int", "uint", "dyn"):
                self.refuse("map keys are strings or integers", key)
        found = {self.infer(value, scope) for _, value in node.entries}
        return f"map<{found.pop() if len(found) == 1 else 'dyn'}>"

    def comprehension(self, node: Comprehension, scope: Mapping[str, str]) -> str:
        range_ = self.infer(node.range, scope)
        kind = schema.kind(range_)
        if kind not in ("list", "map", "dyn") or schema.fields(range_):
            self.refuse(f"{node.macro}() needs a list or a map, not {range_}", node)
        item = schema.element(range_) if kind == "list" else "dyn"
        inner = {**scope, node.variable: item}
        if node.predicate is not None:
            self.needs_bool(node.predicate, f"{node.macro}()", inner)
        if node.value is not None:
            return f"list<{self.infer(node.value, inner)}>"
        return f"list<{item}>" if node.macro == "filter" else "bool"


def _comparable(a: str, b: str) -> bool:
    return a == b or "dyn" in (a, b) or "null_type" in (a, b) or {a, b} <= NUMERIC


def _source(node: Expr) -> str:
    """A chain of names with a trailing dot, or nothing if the expression is not one."""
    match node:
        case Name(name=name):
            return f"{name}."
        case Select(operand=operand, field=field, test=False):
            chain = _source(operand)
            return f"{chain}{field}." if chain else ""
        case _:
            return ""
