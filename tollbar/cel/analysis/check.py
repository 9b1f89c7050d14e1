"""The type check of an expression.

It refuses what cel-go's checker, with Kubernetes' options, refuses in an environment of the same types: unknown
variables, functions, fields and numbers of arguments, operands that no overload takes, comparisons of values that can
never be equal, a result of the wrong type.  `dyn` is never refused.  The check ends at the first error.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from tollbar.cel.core import schema
from tollbar.cel.core.interface import COMPILE, CelError, Env
from tollbar.cel.core.limits import MAX_QUOTED, quoted
from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import KEYS, NUMERIC, ORDER, ORDERED, RELATIONS, TYPE_NAMES, CelType, no_overload_of
from tollbar.cel.core.values import kind as kind_of
from tollbar.cel.library import string_format
from tollbar.cel.library.table import LIBRARY
from tollbar.cel.syntax.lexing import SYNONYMS
from tollbar.cel.syntax.tree import (
    MACROS,
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
    path_of,
)

_EQUALITY: Final = frozenset({"_==_", "_!=_"})
_INDEXES: Final = {
    "map": KEYS | {"dyn"},
    "list": frozenset({"int", "dyn"}),
    "dyn": KEYS | {"dyn"},
    "null_type": KEYS | {"dyn"},
}
_KIND_OF: Final = {name: kind for kind, name in TYPE_NAMES.items() if kind != "pattern"}
_MAP_KEYS: Final = frozenset({"string", "int", "uint", "bool", "dyn"})


def check(tree: Expr, env: Env) -> Types:
    """The types of all nodes.  Raises CelError of kind COMPILE."""
    checker = _Checker(env)
    result = checker.infer(tree, checker.root)
    if result != "dyn" and not schema.alike(result, env.result):
        raise CelError(f"must evaluate to {env.result} but is {result}", tree.line, tree.column, COMPILE)
    return checker.types


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing.  Words of up to three letters resemble too many others."""
    known = sorted(set(known))
    alike = [each for each in known if each.lower() == word.lower()]
    close = alike or (difflib.get_close_matches(word, known, n=1) if 3 < len(word) <= MAX_QUOTED else [])
    if (other := SYNONYMS.get(word)) is not None and (other in known or not other[0].isalpha()):
        close = [other]
    return f"; did you mean '{close[0]}'?" if close else ""


class _Checker:
    def __init__(self, env: Env) -> None:
        self.root = dict(env.variables)
        self.types: Types = {}
        self.mixing = False
        """Whether the node is within the arguments of format(), which may be of several types."""

    def infer(self, node: Expr, scope: Mapping[str, str]) -> str:
        found = self.types[id(node)] = self.type_of(node, scope)
        return found

    def refuse(self, message: str, node: Expr) -> NoReturn:
        raise CelError(message, node.line, node.column, COMPILE)

    def type_of(self, node: Expr, scope: Mapping[str, str]) -> str:
        match node:
            case Literal(value=value):
                return f"type<{_KIND_OF[value.name]}>" if isinstance(value, CelType) else kind_of(value)
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
                return self.conditional(node, scope)
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

    def conditional(self, node: Conditional, scope: Mapping[str, str]) -> str:
        self.needs_bool(node.condition, "?:", scope)
        then, otherwise = self.infer(node.then, scope), self.infer(node.otherwise, scope)
        if not schema.alike(then, otherwise):
            self.refuse(f"the branches of ?: have different types, {then} and {otherwise}", node)
        if then == "null_type" or _untyped(node.then):
            return otherwise
        return then if otherwise == "null_type" or _untyped(node.otherwise) else schema.common(then, otherwise)

    # Variables, fields, elements.

    def name(self, node: Name, scope: Mapping[str, str]) -> str:
        scope = self.root if node.root else scope
        if node.name not in scope:
            self.refuse(f"undefined variable {quoted(node.name)}{suggestion(node.name, scope)}", node)
        return scope[node.name]

    def select(self, node: Select, scope: Mapping[str, str]) -> str:
        operand, optional = _unwrapped(self.infer(node.operand, scope))
        found = self.field(operand, node.field, node)
        if node.test:
            return "bool"
        return f"optional_type<{found}>" if optional or node.optional else found

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
        path = path_of(node.operand)
        for name, type_ in known.items():
            # A field that moved down one level between API versions.
            if not hint and field in (schema.fields(type_) or ()):
                hint = f"; did you mean '{f'{path}.' if path else ''}{name}.{field}'?"
        if not hint and "metadata" in known:
            hint = f"; a rule sees its {' and '.join(known)}"
        self.refuse(f"undefined field {quoted(field)} in {operand}{hint}", node)

    def index(self, node: Index, scope: Mapping[str, str]) -> str:
        operand, optional = _unwrapped(self.infer(node.operand, scope))
        index, kind = schema.kind(self.infer(node.index, scope)), schema.kind(operand)
        if index not in _INDEXES.get(kind, ()) or not (kind == "list" or schema.alike(index, schema.key(operand))):
            self.refuse(no_overload_of("[]", (kind, index)), node)
        if kind == "map" and isinstance(node.index, Literal) and isinstance(node.index.value, str):
            found = self.field(operand, node.index.value, node)
        else:
            found = schema.element(operand)
        if kind == "dyn" and not optional:
            return "dyn"
        if kind == "null_type":  # which cel-go takes for an optional map, or list
            return "dyn" if index in ("int", "dyn") else "optional_type<dyn>"
        return f"optional_type<{found}>" if optional or node.optional else found

    # Operators and functions.

    def call(self, node: Call, scope: Mapping[str, str]) -> str:
        if (node.function, node.method) not in LIBRARY.groups and node.function not in RELATIONS:
            self.undefined_function(node)
        mixing, self.mixing = self.mixing, self.mixing or node.function == "format"
        types = tuple(self.infer(argument, scope) for argument in node.arguments)
        self.mixing = mixing
        kinds, name = tuple(map(schema.kind, types)), node.function
        if name in _EQUALITY:
            wrong = not schema.alike(*types)
        elif name in ORDER:
            wrong = not all(kind in ORDERED | NUMERIC | {"dyn"} for kind in kinds) or not (
                schema.alike(*types) or NUMERIC.issuperset(kinds)
            )
        elif name == "_in_":
            wrong = not _searchable(*types)
        else:
            return self.overload(node, types)
        if wrong:
            null = "null_type" in kinds and name in _EQUALITY
            self.refuse(no_overload_of(name, kinds) + ("; use has() for what may be absent" if null else ""), node)
        return "bool"

    def overload(self, node: Call, types: tuple[str, ...]) -> str:
        name, method = node.function, node.method
        group = LIBRARY.groups[name, method]
        found = LIBRARY.result_type(name, method, types)
        if found is None:
            given = len(types) - method
            counts = sorted({len(item.parameters) - method for item in group})
            if given not in counts:
                plural = "" if counts == [1] else "s"
                self.refuse(f"{name}() takes {' or '.join(map(str, counts))} argument{plural}, not {given}", node)
            self.refuse(no_overload_of(name, map(schema.kind, types)), node)
        match node:
            case Call(function="format", arguments=(Literal(value=str(template)), ListLiteral(elements=elements))):
                kinds = [schema.kind(self.types[id(element)]) for element in elements]
                if (problem := string_format.check(template, kinds)) is not None:
                    self.refuse(problem, node)
        return found

    def undefined_function(self, node: Call) -> NoReturn:
        what, other = ("method", "function") if node.method else ("function", "method")
        if (node.function, not node.method) in LIBRARY.groups:
            self.refuse(f"{quoted(node.function)} is a {other}, not a {what}", node)
        hint = suggestion(node.function, (*LIBRARY.names(), *MACROS))
        self.refuse(f"undefined {what} {quoted(node.function)}{hint}", node)

    # Literals and macros.

    def container(self, node: ListLiteral | MapLiteral, scope: Mapping[str, str]) -> str:
        if isinstance(node, ListLiteral):
            return f"list<{self.element(node.elements, node.optional, 'list', scope)}>"
        keys = tuple(key for key, _ in node.entries)
        for key in keys:
            if schema.kind(self.infer(key, scope)) not in _MAP_KEYS:
                self.refuse("map keys are strings, integers or bools", key)
        key_type = self.element(keys, frozenset(), "map's keys", scope)
        values = tuple(value for _, value in node.entries)
        return schema.map_of(key_type, self.element(values, node.optional, "map", scope))

    def element(self, nodes: tuple[Expr, ...], optional: frozenset[int], what: str, scope: Mapping[str, str]) -> str:
        """The common type of the elements of a literal; raises CelError if there is none."""
        joined, open_ = "", False
        for position, node in enumerate(nodes):
            found = self.infer(node, scope)
            if position in optional:
                if schema.kind(found) not in ("optional_type", "dyn"):
                    self.refuse(f"an entry with ? needs an optional, not {found}", node)
                found = schema.element(found)
            several = joined and (not schema.alike(joined, found) or _other_type(joined, found) or _null(joined, found))
            if several and not self.mixing:
                self.refuse(f"a {what} must be of one type, not {joined} and {found}; dyn() takes any", node)
            if several:
                joined = "dyn"
            elif not joined or open_:  # what is of any type so far is of this one
                joined, open_ = found, _untyped(node)
            elif not _untyped(node):
                joined = schema.common(joined, found)
        return joined or "dyn"

    def comprehension(self, node: Comprehension, scope: Mapping[str, str]) -> str:
        range_ = self.infer(node.range, scope)
        kind = schema.kind(range_)
        if kind not in ("list", "map", "dyn") or schema.fields(range_):
            self.refuse(f"{node.macro}() needs a list or a map, not {range_}", node)
        element = schema.element(range_)
        key, item = ("int", element) if kind == "list" else (schema.key(range_),) * 2
        inner = {**scope, node.variable: item}
        if node.second is not None:
            inner = {**scope, node.variable: key, node.second: element}
        if node.predicate is not None:
            self.needs_bool(node.predicate, f"{node.macro}()", inner)
        value = "" if node.value is None else self.infer(node.value, inner)
        match node.macro:
            case "map" | "transformList":
                return f"list<{value}>"
            case "transformMap":
                return schema.map_of(key, value)
            case "transformMapEntry":
                if schema.kind(value) not in ("map", "dyn"):
                    self.refuse(f"transformMapEntry() needs a map of one entry, not {value}", node)
                return schema.map_of(schema.key(value), schema.element(value))
            case "filter":
                return f"list<{item}>"
            case _:
                return "bool"


def _unwrapped(type_: str) -> tuple[str, bool]:
    """The type without optional_type<>, and whether it had one."""
    return (schema.element(type_), True) if type_.startswith("optional_type") else (type_, False)


def _other_type(a: str, b: str) -> bool:
    """Whether both are types of types, but of different ones, which no literal mixes."""
    return schema.kind(a) == "type" and a != b and "dyn" not in (schema.element(a), schema.element(b))


def _null(a: str, b: str) -> bool:
    """Whether one of them is null alone, which no literal mixes with values of another type."""
    return "null_type" in (a, b) and a != b and "dyn" not in (a, b)


def _untyped(node: Expr) -> bool:
    """Whether the node is of the type that is wanted of it: an empty literal, or optional.none()."""
    match node:
        case ListLiteral(elements=()) | MapLiteral(entries=()):
            return True
        case Call(function="optional.none"):
            return True
        case _:
            return False


def _searchable(item: str, container: str) -> bool:
    """Whether `item in container` can be true."""
    match schema.kind(container):
        case "list":
            return schema.alike(item, schema.element(container))
        case "map":
            return schema.kind(item) in KEYS | {"dyn"} and schema.alike(item, schema.key(container))
        case kind:
            return kind == "dyn"
