"""Constant folding: quantities, versions, times and patterns of literals are computed, type names resolved.

Evaluation then does not parse "80Gi" for every Pod, and a wrong literal is refused when the expression is compiled.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from tollbar.cel.core.interface import COMPILE, CelError
from tollbar.cel.core.limits import MAX_INSTRUCTIONS, MAX_PATTERNS, CostTracker, Fault
from tollbar.cel.core.values import Pattern
from tollbar.cel.library.basics import TYPES
from tollbar.cel.library.patterns import PATTERN_ARGUMENT, compiled
from tollbar.cel.library.table import CONSTRUCTORS, LIBRARY
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

_WANTED: Final = {"duration": "not a duration", "timestamp": "not an RFC 3339 timestamp"}
"""Messages for a wrong literal, where those of the library are less clear."""


def fold(tree: Expr, names: Iterable[str]) -> Expr:
    """The tree with its constants computed; `names` are the variables, which shadow type names.

    Raises CelError of kind COMPILE.
    """
    calls = _pattern_calls(tree)
    if len(calls) > MAX_PATTERNS:
        _refuse(f"expression has more than {MAX_PATTERNS} regular expressions", calls[MAX_PATTERNS])
    folded = _fold(tree, frozenset(names))
    size = 0
    for call in _pattern_calls(folded):
        pattern = call.arguments[1] if len(call.arguments) > 1 else None
        size += pattern.value.size if isinstance(pattern, Literal) and type(pattern.value) is Pattern else 0
        if size > MAX_INSTRUCTIONS:
            _refuse("regular expressions are too large together", call)
    return folded


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


def _fold(node: Expr, names: frozenset[str]) -> Expr:
    match node:
        case Name(name=name) if name in TYPES and name not in names:
            return Literal(node.line, node.column, TYPES[name])
        case Select() if (path := path_of(node)) in TYPES and path.partition(".")[0] not in names:
            return Literal(node.line, node.column, TYPES[path])
        case Select(operand=operand):
            return replace(node, operand=_fold(operand, names))
        case Index(operand=operand, index=index):
            return replace(node, operand=_fold(operand, names), index=_fold(index, names))
        case Call(arguments=arguments):
            return _constant(replace(node, arguments=_all(arguments, names)))
        case ListLiteral(elements=elements):
            return replace(node, elements=_all(elements, names))
        case MapLiteral(entries=entries):
            return replace(node, entries=tuple((_fold(key, names), _fold(value, names)) for key, value in entries))
        case Logic(terms=terms):
            return replace(node, terms=_all(terms, names))
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            condition, then, otherwise = _all((condition, then, otherwise), names)
            return replace(node, condition=condition, then=then, otherwise=otherwise)
        case Bind(variable=variable, value=value, body=body):
            return replace(node, value=_fold(value, names), body=_fold(body, names | {variable}))
        case Comprehension(variable=variable, second=second):
            inner = names | {variable, second or variable}
            return replace(
                node,
                range=_fold(node.range, names),
                predicate=node.predicate and _fold(node.predicate, inner),
                value=node.value and _fold(node.value, inner),
            )
        case _:
            return node


def _all(nodes: tuple[Expr, ...], names: frozenset[str]) -> tuple[Expr, ...]:
    return tuple(_fold(node, names) for node in nodes)


def _constant(call: Call) -> Expr:
    """The literal that the call evaluates to, or the call, with its literal pattern compiled."""
    match call.arguments:
        case (_, Literal(value=str(pattern)) as literal, *rest) if call.function in PATTERN_ARGUMENT:
            computed = replace(literal, value=_attempt(lambda: compiled(pattern), literal))
            return replace(call, arguments=(call.arguments[0], computed, *rest))
        case (Literal(), *_) if call.function in CONSTRUCTORS and not call.method:
            values: list[Any] = [argument.value for argument in call.arguments if isinstance(argument, Literal)]
            implementation = LIBRARY.exact[call.function, False].get(tuple(map(type, values)))
            if implementation is None or len(values) < len(call.arguments):
                return call
            compute = partial(implementation, CostTracker(), *values)
            return Literal(call.line, call.column, _attempt(compute, call, _WANTED.get(call.function)))
        case _:
            return call


def _attempt(compute: Any, node: Expr, message: str | None = None) -> Any:
    try:
        return compute()
    except Fault as fault:
        raise CelError(message or fault.message, node.line, node.column, COMPILE) from None
