"""From the text of an expression to its tree, through cel-python's grammar.

cel-python is the parser of record; its evaluator and its Environment, which sets the process's recursion limit, are
not used.  The parse tree has a level for every rule of the grammar: lowering drops those, flattens chains, resolves
macros and gives up above MAX_DEPTH, so that whatever walks the tree after it may recurse.

Called by the engine.  Raises CelError of kind COMPILE.
"""

import math
import re
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final, NoReturn, cast

import lark

from tollbar.cel.interface import COMPILE, CelError
from tollbar.cel.lexing import Scanned, place, scan
from tollbar.cel.limits import MAX_DEPTH, quoted
from tollbar.cel.syntax import (
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
)
from tollbar.cel.values import Uint

_OPERATORS: Final = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "relation_in": "_in_",
    "addition_add": "_+_",
    "addition_sub": "_-_",
    "multiplication_mul": "_*_",
    "multiplication_div": "_/_",
    "multiplication_mod": "_%_",
    "unary_not": "!_",
    "unary_neg": "-_",
}
_KEPT: Final = frozenset({"list_lit", "map_lit", "member_object"})
"""Rules that mean something even with a single tree in them."""
_INT: Final = range(-(2**63), 2**63)
_UINT: Final = range(2**64)


def parse(source: str) -> Expr:
    """The tree of the expression."""
    scanned = scan(source)
    try:
        tree = _grammar().parse(scanned.text)
    except lark.exceptions.UnexpectedInput as error:
        raise _syntax_error(source, error) from None
    return _Lowering(scanned).lower(tree, 0)


@cache
def _grammar() -> lark.Lark:
    """cel-python's grammar with its own options, except that `true` and `false` keep their place in the text."""
    return lark.Lark(
        resources.files("celpy").joinpath("cel.lark").read_text(encoding="utf-8"),
        parser="lalr",
        start="expr",
        g_regex_flags=re.MULTILINE,
        lexer_callbacks={"IDENT": _keyword},
        propagate_positions=True,
        maybe_placeholders=False,
        priority="invert",
    )


def _keyword(token: lark.Token) -> lark.Token:
    return token.update("BOOL_LIT") if token.value in ("true", "false") else token


def _syntax_error(source: str, error: lark.exceptions.UnexpectedInput) -> CelError:
    token = getattr(error, "token", None)
    if not isinstance(token, lark.Token) or token.type == "$END" or token.start_pos is None:
        line, column = place(source, len(source))
        return CelError("unexpected end of the expression", line, column, COMPILE)
    line, column = place(source, token.start_pos)
    what = "string" if token.type.endswith(("STRING_LIT", "BYTES_LIT")) else quoted(str(token))
    return CelError(f"unexpected {what}", line, column, COMPILE)


def _is_name(tree: Any, name: str) -> bool:
    while isinstance(tree, lark.Tree) and len(tree.children) == 1:
        tree = tree.children[0]
    return isinstance(tree, lark.Token) and tree.type == "IDENT" and tree == name


class _Lowering:
    def __init__(self, scanned: Scanned) -> None:
        self.strings = scanned.strings

    def refuse(self, message: str, at: tuple[int, int]) -> NoReturn:
        raise CelError(message, *at, COMPILE)

    def position(self, item: "lark.Tree[Any] | lark.Token") -> tuple[int, int]:
        """Of a token, or of the first token of a tree."""
        place = item if isinstance(item, lark.Token) else item.meta
        return place.line or 1, place.column or 1

    def lower(self, tree: Any, depth: int) -> Expr:
        while len(tree.children) == 1 and isinstance(tree.children[0], lark.Tree) and tree.data not in _KEPT:
            tree = tree.children[0]
        if depth > MAX_DEPTH:
            self.refuse(f"operations are nested deeper than {MAX_DEPTH}", self.position(tree))
        handler = getattr(self, tree.data, self.operation)
        return cast("Expr", handler(tree, depth + 1))

    def arguments(self, tree: Any, depth: int) -> tuple[Expr, ...]:
        return tuple(self.lower(child, depth) for child in tree.children)

    # Operators.

    def expr(self, tree: Any, depth: int) -> Expr:
        condition, then, otherwise = self.arguments(tree, depth)
        return Conditional(*self.position(tree), condition, then, otherwise)

    def conditionalor(self, tree: Any, depth: int) -> Expr:
        return self.chain(tree, depth, "||")

    def conditionaland(self, tree: Any, depth: int) -> Expr:
        return self.chain(tree, depth, "&&")

    def chain(self, tree: Any, depth: int, operator: Any) -> Expr:
        rule, links = tree.data, []
        while tree.data == rule and len(tree.children) == 2:
            links.append(tree.children[1])
            tree = tree.children[0]
        terms = tuple(self.lower(link, depth) for link in (tree, *reversed(links)))
        return Logic(terms[0].line, terms[0].column, operator, terms)

    def operation(self, tree: Any, depth: int) -> Expr:
        """relation, addition, multiplication, unary: an operator with its left operand inside, then the right one."""
        at = self.position(tree)
        operator, right = tree.children
        arguments = (*self.arguments(operator, depth), self.lower(right, depth))
        return Call(*at, _OPERATORS[operator.data], arguments)

    # Members.

    def member_dot(self, tree: Any, depth: int) -> Expr:
        operand, field = tree.children
        return Select(*self.position(field), self.lower(operand, depth), str(field))

    def member_index(self, tree: Any, depth: int) -> Expr:
        operand, index = self.arguments(tree, depth)
        return Index(*self.position(tree), operand, index)

    def member_dot_arg(self, tree: Any, depth: int) -> Expr:
        receiver, name, *rest = tree.children
        at = self.position(name)
        if name == "bind" and _is_name(receiver, "cel"):
            return self.bind(rest[0].children if rest else [], depth, at)
        if name in MACROS:
            return self.comprehension(str(name), receiver, rest, depth, at)
        arguments = self.arguments(rest[0], depth) if rest else ()
        return Call(*at, str(name), (self.lower(receiver, depth), *arguments), method=True)

    def comprehension(self, macro: str, receiver: Any, rest: Any, depth: int, at: tuple[int, int]) -> Expr:
        trees = rest[0].children if rest else []
        if len(trees) != 2 and not (macro == "map" and len(trees) == 3):
            self.refuse(f"{macro}() takes a variable and an expression", at)
        range_ = self.lower(receiver, depth)
        variable, *body = (self.lower(tree, depth) for tree in trees)
        value = body.pop() if macro == "map" else None
        return Comprehension(*at, macro, range_, self.variable(variable, macro), body[0] if body else None, value)

    def bind(self, trees: list[Any], depth: int, at: tuple[int, int]) -> Expr:
        if len(trees) != 3:
            self.refuse("cel.bind() takes a variable, its value and an expression", at)
        variable, value, body = (self.lower(tree, depth) for tree in trees)
        return Bind(*at, self.variable(variable, "cel.bind"), value, body)

    def variable(self, node: Expr, macro: str) -> str:
        if not isinstance(node, Name):
            self.refuse(f"the first argument of {macro}() must be a simple name", (node.line, node.column))
        return node.name

    def member_object(self, tree: Any, depth: int) -> Expr:  # noqa: ARG002
        self.refuse("messages cannot be constructed", self.position(tree))

    # Primaries.

    def ident(self, tree: Any, depth: int) -> Expr:  # noqa: ARG002
        return Name(*self.position(tree.children[0]), str(tree.children[0]))

    dot_ident = ident

    def ident_arg(self, tree: Any, depth: int) -> Expr:
        name, *rest = tree.children
        at = self.position(name)
        arguments = self.arguments(rest[0], depth) if rest else ()
        if name == "has":
            return self.has(arguments, at)
        return Call(*at, str(name), arguments)

    dot_ident_arg = ident_arg

    def has(self, arguments: tuple[Expr, ...], at: tuple[int, int]) -> Expr:
        if len(arguments) != 1 or not isinstance(arguments[0], Select) or arguments[0].test:
            self.refuse("has() takes one field selection, such as has(pod.spec.nodeName)", at)
        return replace(arguments[0], test=True)

    def list_lit(self, tree: Any, depth: int) -> Expr:
        elements = self.arguments(tree.children[0], depth) if tree.children else ()
        return ListLiteral(*self.position(tree), elements)

    def map_lit(self, tree: Any, depth: int) -> Expr:
        at = self.position(tree)
        flat = self.arguments(tree.children[0], depth) if tree.children else ()
        return MapLiteral(*at, tuple(zip(flat[::2], flat[1::2], strict=True)))

    def literal(self, tree: Any, depth: int) -> Expr:  # noqa: ARG002
        token = tree.children[0]
        at = self.position(token)
        return Literal(*at, self.constant(token, at))

    def constant(self, token: lark.Token, at: tuple[int, int]) -> object:
        match token.type:
            case "BOOL_LIT":
                return str(token) == "true"
            case "NULL_LIT":
                return None
            case "INT_LIT":
                return self.integer(str(token), at, _INT)
            case "UINT_LIT":
                return Uint(self.integer(str(token[:-1]), at, _UINT))
            case "FLOAT_LIT":
                number = float(token)
                return number if math.isfinite(number) else self.refuse("double is out of range", at)
            case _:
                return self.strings[cast("int", token.start_pos)]

    def integer(self, text: str, at: tuple[int, int], allowed: range) -> int:
        value = int(text, 16) if "x" in text.lower() else int(text)
        return value if value in allowed else self.refuse("integer is out of range", at)
