"""The part of Go's text/template that scheduler_perf's files use.

Literal text, `{{.Field}}`, variables, `if`/`else`, `range` over a number, pipelines, and the functions in `FUNCTIONS`.
Anything else is refused by name: a template that is rendered in another way than upstream's would measure another
workload.

Source: https://pkg.go.dev/text/template, and getTemplateFuncs in scheduler_perf/operations.go.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias


class TemplateError(Exception):
    """A template that is not understood, or that lacks a parameter."""


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


def _int(value: Any) -> int:
    return int(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _divide(dividend: Any, divisor: Any) -> int:
    return int(float(dividend) / float(divisor))


def _mod(dividend: Any, divisor: Any) -> int:
    return int(float(dividend)) % int(float(divisor))


def _add(*numbers: Any) -> int:
    return int(sum(map(float, numbers)))


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "AddInt": _add,
    "DivideInt": _divide,
    "Int": _int,
    "JSON": _json,
    "Mod": _mod,
    "eq": lambda one, other: one == other,
    "ge": lambda one, other: one >= other,
    "or": _or,
}
_CONSTANTS: Final = {"nil": None, "true": True, "false": False}

_ACTION: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r'\s*(?P<token>(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+)|(?P<field>\.\w*)|(?P<variable>\$\w+)|(?P<name>\w+)'
    r"|:=|[()|]|(?P<unknown>\S))"
)


@dataclass(slots=True)
class _Scope:
    """What expressions see: the dot, and the variables of this block and of those around it."""

    dot: Any
    variables: dict[str, Any]


Expression: TypeAlias = Callable[[_Scope], Any]
Part: TypeAlias = Callable[[_Scope], Iterator[str]]


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text of a template for these values, which it sees as `.Name`.  Raises TemplateError."""
    try:
        return "".join(_parsed(template)(_Scope(values, {})))
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise TemplateError(f"cannot be rendered: {error}") from error


@lru_cache(maxsize=256)
def _parsed(template: str) -> Part:
    pieces = _ACTION.split(template)
    # Literal text and actions take turns.
    items = [(index % 2 == 1, piece) for index, piece in enumerate(pieces)]
    parser = _Parser(items)
    part, ended_by = parser.block()
    if ended_by:
        raise TemplateError(f"{{{{{ended_by}}}}} without a beginning")
    return part


class _Parser:
    """`items` are literal texts (false) and the insides of actions (true), in their order."""

    def __init__(self, items: Sequence[tuple[bool, str]]) -> None:
        self._items = iter(items)

    def block(self) -> tuple[Part, str]:
        """Everything up to the next `else` or `end`, or up to the end of the text; and which of these it was."""
        parts: list[Part] = []
        for is_action, text in self._items:
            if not is_action:
                parts.append(_literal(text))
                continue
            tokens = _tokens(text)
            match tokens[0] if tokens else "":
                case "else" | "end" as ending:
                    if tokens[1:]:
                        raise TemplateError(f"{{{{{text}}}}} is not supported")
                    return _sequence(parts), ending
                case "if":
                    parts.append(self._if(tokens[1:]))
                case "range":
                    parts.append(self._range(tokens[1:]))
                case name if name.startswith("$") and tokens[1:2] == [":="]:
                    parts.append(_assignment(name, _pipeline(tokens[2:])))
                case _:
                    parts.append(_output(_pipeline(tokens)))
        return _sequence(parts), ""

    def _if(self, tokens: list[str]) -> Part:
        condition = _pipeline(tokens)
        then, ended_by = self.block()
        otherwise = _sequence([])
        if ended_by == "else":
            otherwise, ended_by = self.block()
        _must_end("if", ended_by)

        def part(scope: _Scope) -> Iterator[str]:
            return then(scope) if condition(scope) else otherwise(scope)

        return part

    def _range(self, tokens: list[str]) -> Part:
        name = ""
        if tokens[1:2] == [":="]:
            name, tokens = tokens[0], tokens[2:]
        over = _pipeline(tokens)
        body, ended_by = self.block()
        _must_end("range", ended_by)

        def part(scope: _Scope) -> Iterator[str]:
            count = over(scope)
            if not isinstance(count, int):
                raise TemplateError(f"range over {type(count).__name__} is not supported")
            for number in range(count):
                yield from body(_Scope(number, {**scope.variables, **({name: number} if name else {})}))

        return part


def _must_end(what: str, ended_by: str) -> None:
    if ended_by != "end":
        raise TemplateError(f"{{{{{what}}}}} without {{{{end}}}}")


def _tokens(action: str) -> list[str]:
    found = []
    for match in _TOKEN.finditer(action):
        if match["unknown"]:
            raise TemplateError(f"{{{{{action}}}}} is not supported: {match['unknown']!r}")
        found.append(match["token"])
    return found


def _literal(text: str) -> Part:
    return lambda _scope: iter((text,))


def _sequence(parts: Sequence[Part]) -> Part:
    def part(scope: _Scope) -> Iterator[str]:
        inner = _Scope(scope.dot, dict(scope.variables))
        for each in parts:
            yield from each(inner)

    return part


def _assignment(name: str, value: Expression) -> Part:
    def part(scope: _Scope) -> Iterator[str]:
        scope.variables[name] = value(scope)
        return iter(())

    return part


def _output(value: Expression) -> Part:
    def part(scope: _Scope) -> Iterator[str]:
        found = value(scope)
        if isinstance(found, bool):
            found = str(found).lower()
        if not isinstance(found, str | int | float):
            raise TemplateError(f"{type(found).__name__} cannot be printed")
        yield str(found)

    return part


def _pipeline(tokens: list[str]) -> Expression:
    """The expression that all these tokens are."""
    value, rest = _pipeline_of(tokens)
    if rest:
        raise TemplateError(f"{rest[0]!r} is out of place")
    return value


def _pipeline_of(tokens: list[str]) -> tuple[Expression, list[str]]:
    """Commands with `|` between them, each of which gets the one before as its last argument."""
    value: Expression | None = None
    while True:
        value, tokens = _command(tokens, value)
        if not tokens or tokens[0] != "|":
            return value, tokens
        tokens = tokens[1:]


def _command(tokens: list[str], piped: Expression | None) -> tuple[Expression, list[str]]:
    """A function with its arguments, or a single value."""
    name = tokens[0] if tokens else ""
    function: Callable[..., Any] | None = None
    if name.isidentifier() and name not in _CONSTANTS:
        if name not in FUNCTIONS:
            raise TemplateError(f"the function {name} is not supported")
        function, tokens = FUNCTIONS[name], tokens[1:]
    arguments: list[Expression] = []
    while tokens and tokens[0] not in ("|", ")"):
        argument, tokens = _operand(tokens)
        arguments.append(argument)
    if function is None:
        if len(arguments) != 1 or piped is not None:
            raise TemplateError("a value can neither have arguments nor be one of a pipeline's later commands")
        return arguments[0], tokens
    given = tuple(arguments) if piped is None else (*arguments, piped)

    def called(scope: _Scope) -> Any:
        assert function is not None
        return function(*(each(scope) for each in given))

    return called, tokens


def _operand(tokens: list[str]) -> tuple[Expression, list[str]]:
    first, *rest = tokens
    if first == "(":
        value, rest = _pipeline_of(rest)
        if rest[:1] != [")"]:
            raise TemplateError("a parenthesis is not closed")
        return value, rest[1:]
    if first.startswith("."):
        return _field(first[1:]), rest
    if first.startswith("$"):
        return _variable(first), rest
    if first.startswith('"'):
        text = json.loads(first)
        return lambda _scope: text, rest
    if first in _CONSTANTS:
        constant = _CONSTANTS[first]
        return lambda _scope: constant, rest
    if first.lstrip("-").isdigit():
        number = int(first)
        return lambda _scope: number, rest
    raise TemplateError(f"{first!r} is not supported here")


def _field(name: str) -> Expression:
    if not name:
        return lambda scope: scope.dot

    def value(scope: _Scope) -> Any:
        if not isinstance(scope.dot, Mapping):
            raise TemplateError(f".{name}: the dot is not a map here")
        return scope.dot.get(name)

    return value


def _variable(name: str) -> Expression:
    def value(scope: _Scope) -> Any:
        if name not in scope.variables:
            raise TemplateError(f"undefined variable {name}")
        return scope.variables[name]

    return value
