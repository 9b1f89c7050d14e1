"""Constant folding: calls of functions with literals alone are computed, patterns compiled, type names resolved.

Evaluation then does not parse "80Gi" for every Pod, and a wrong literal quantity, version, time or pattern is refused
when the expression is compiled.  A call that fails is left as it is: its error is one of the evaluation.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

from tollbar.cel.core.interface import COMPILE, CelError
from tollbar.cel.core.limits import MAX_CLASSES, MAX_INSTRUCTIONS, MAX_PATTERNS, CostTracker, Fault
from tollbar.cel.core.values import ORDER, TYPE_NAMES, Pattern, equal, kind, ordered, same
from tollbar.cel.library.basics import TYPES
from tollbar.cel.library.patterns import PATTERN_ARGUMENT, compiled, unicode_classes
from tollbar.cel.library.table import CONSTRUCTORS, CONVERSIONS, LIBRARY
from tollbar.cel.syntax.tree import (
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
    path_of,
)

_SIMPLE: Final = frozenset(TYPE_NAMES) - {"list", "map", "optional_type", "pattern", "string", "bytes"}
"""Kinds whose type the value tells, and that the check does not look into."""
_TYPED: Final = frozenset({"dyn", "type"})
"""Functions whose result has another static type than the value has."""
_COMPARISONS: Final[dict[str, Callable[[Any, Any, CostTracker], bool]]] = {
    "_==_": equal,
    "_!=_": lambda a, b, cost: not same(a, b, cost),
    **{operator: partial(ordered, operator) for operator in ORDER},
}
_WANTED: Final = {"duration": "not a duration", "timestamp": "not an RFC 3339 timestamp"}
"""Messages for a wrong literal, where those of the library are less clear."""


def fold(tree: Expr, names: Iterable[str]) -> Expr:
    """The tree with its constants computed; `names` are the variables, which shadow type names.

    Raises CelError of kind COMPILE.
    """
    calls = _pattern_calls(tree)
    if len(calls) > MAX_PATTERNS:
        _refuse(f"expression has more than {MAX_PATTERNS} regular expressions", calls[MAX_PATTERNS])
    return _fold(tree, _Scope(frozenset(names), _Patterns()))


class _Patterns:
    """The literal patterns of an expression so far; each is compiled only while all are within their limits."""

    def __init__(self) -> None:
        self.classes = 0
        self.size = 0

    def compiled(self, text: str, node: Literal, call: Call) -> Pattern:
        self.classes += unicode_classes(text)
        if self.classes > MAX_CLASSES:
            _refuse(f"regular expressions have more than {MAX_CLASSES} Unicode classes together", call)
        try:
            found = compiled(text)
        except Fault as fault:
            _refuse(fault.message, node)
        self.size += found.size
        if self.size > MAX_INSTRUCTIONS:
            _refuse("regular expressions are too large together", call)
        return found


class _Scope(NamedTuple):
    """The variables, and the patterns of the whole expression."""

    names: frozenset[str]
    patterns: _Patterns

    def within(self, *variables: str) -> "_Scope":
        return self._replace(names=self.names.union(variables))


def _pattern_calls(tree: Expr) -> list[Call]:
    found: list[Call] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        pending += reversed(children(node))
        if isinstance(node, Call) and node.function in PATTERN_ARGUMENT:
            found.append(node)
    return found


def _refuse(message: str, node: Expr) -> NoReturn:
    raise CelError(message, node.line, node.column, COMPILE)


def _fold(node: Expr, scope: _Scope) -> Expr:
    match node:
        case Name(name=name) if name in TYPES and name not in scope.names:
            return Literal(node.line, node.column, TYPES[name])
        case Select() if (path := path_of(node)) in TYPES and path.partition(".")[0] not in scope.names:
            return Literal(node.line, node.column, TYPES[path])
        case Select(operand=operand):
            return replace(node, operand=_fold(operand, scope))
        case Index(operand=operand, index=index):
            return replace(node, operand=_fold(operand, scope), index=_fold(index, scope))
        case Call(arguments=arguments):
            if node.function in PATTERN_ARGUMENT and len(arguments) > 1 and isinstance(arguments[1], Literal):
                return _with_pattern(replace(node, arguments=_all(arguments, scope)), scope.patterns)
            literal = all(map(_is_literal, arguments))
            return _computed(replace(node, arguments=_all(arguments, scope)), literal)
        case ListLiteral(elements=elements):
            return replace(node, elements=_all(elements, scope))
        case MapLiteral(entries=entries):
            return replace(node, entries=tuple((_fold(key, scope), _fold(value, scope)) for key, value in entries))
        case Logic(terms=terms):
            return replace(node, terms=_all(terms, scope))
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            condition, then, otherwise = _all((condition, then, otherwise), scope)
            return replace(node, condition=condition, then=then, otherwise=otherwise)
        case Bind(variable=variable, value=value, body=body):
            return replace(node, value=_fold(value, scope), body=_fold(body, scope.within(variable)))
        case Comprehension(variable=variable, second=second):
            inner = scope.within(variable, second or variable)
            return replace(
                node,
                range=_fold(node.range, scope),
                predicate=node.predicate and _fold(node.predicate, inner),
                value=node.value and _fold(node.value, inner),
            )
        case _:
            return node


def _all(nodes: tuple[Expr, ...], scope: _Scope) -> tuple[Expr, ...]:
    return tuple(_fold(node, scope) for node in nodes)


def _is_literal(node: Expr) -> bool:
    """Whether Kubernetes takes the node for a literal when it checks the argument of a constructor."""
    match node:
        case Call(function=name, method=False, arguments=arguments) if name in CONVERSIONS:
            return all(map(_is_literal, arguments))
        case _:
            return isinstance(node, Literal)


def _with_pattern(call: Call, patterns: _Patterns) -> Expr:
    """The call, with its literal pattern compiled."""
    match call.arguments:
        case (text, Literal(value=str(pattern)) as literal, *rest):
            computed = replace(literal, value=patterns.compiled(pattern, literal, call))
            return replace(call, arguments=(text, computed, *rest))
        case _:
            return call


def _computed(call: Call, literal: bool) -> Expr:
    """The value of a call whose arguments are all known, else the call; `literal` if they are so in the source."""
    values: list[Any] = [argument.value for argument in call.arguments if isinstance(argument, Literal)]
    if call.function in _COMPARISONS and len(values) == 2 and type(values[0]) is type(values[1]):
        return _compared(call, *values)
    implementation = LIBRARY.exact.get((call.function, call.method), {}).get(tuple(map(type, values)))
    if implementation is None or len(values) < len(call.arguments) or not values or call.function in _TYPED:
        return call
    constructor = literal and call.function in CONSTRUCTORS and not call.method
    try:
        value = implementation(CostTracker(), *values)
    except Fault as fault:
        if constructor:
            _refuse(_WANTED.get(call.function, fault.message), call)
        return call
    return Literal(call.line, call.column, value) if constructor or kind(value) in _SIMPLE else call


def _compared(call: Call, a: Any, b: Any) -> Expr:
    """The answer of a comparison of two values of one kind, which the check never refuses, else the call."""
    compare = _COMPARISONS[call.function]
    try:
        return Literal(call.line, call.column, compare(a, b, CostTracker()))
    except Fault:
        return call
