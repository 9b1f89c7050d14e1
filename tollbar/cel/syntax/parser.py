"""From the text of an expression to its tree, through cel-python's grammar.

Of cel-python the grammar alone is used, not its Environment, which sets the recursion limit of the process.  Rules for
what CEL gained later (optionals, escaped field names, trailing commas) replace those of the grammar; if it changed in
an unexpected way, parsing the first expression fails.  The parse tree has a level for every rule of the grammar.
Lowering removes these levels, flattens chains, expands macros, and refuses trees deeper than MAX_DEPTH, so that
functions over the tree can be recursive.
"""

import math
import re
from collections.abc import Callable, Container
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final, NoReturn, cast

import lark

from tollbar.cel.core.interface import COMPILE, CelError
from tollbar.cel.core.limits import MAX_DEPTH, quoted
from tollbar.cel.core.values import Uint
from tollbar.cel.syntax.lexing import Scanned, place, scan
from tollbar.cel.syntax.tree import (
    MACROS,
    QUANTIFIERS,
    TRANSFORMS,
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
_KEPT: Final = frozenset({"member_object"})
"""Rules that have a meaning even with a single child."""
_RULES: Final = {
    "member         ": "member_dot | member_opt_dot | member_dot_arg | member_index | member_opt_index | member_object"
    " | primary",
    "member_dot     ": 'member "." (IDENT | ESC_IDENT)',
    "member_index   ": 'member LSQB expr "]"\n'
    'member_opt_dot : member "." "?" (IDENT | ESC_IDENT)\n'
    'member_opt_index : member LSQB "?" expr "]"',
    "unary_not      ": "NOT",
    "unary_neg      ": "MINUS",
    "list_lit       ": 'LSQB [","] "]" | LSQB _elements [","] "]"\n'
    '_elements      : _element | _elements "," _element\n'
    "_element       : expr | opt_element\n"
    'opt_element    : "?" expr',
    "map_lit        ": 'LBRACE [","] "}" | LBRACE _entries [","] "}"\n'
    '_entries       : _entry | _entries "," _entry\n'
    "_entry         : entry | opt_entry\n"
    'entry          : expr ":" expr\n'
    'opt_entry      : "?" expr ":" expr',
    "FLOAT_LIT      ": '/-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT\n'
    "ESC_IDENT      : /`[^`\\n]+`/\n"
    'LSQB           : "["\nLBRACE         : "{"\nNOT            : "!"\nMINUS          : "-"',
}
"""Replacements of rules of the grammar, by the beginning of their lines."""
_LEVELS: Final = (
    *("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication"),
    *("unary", "member", "primary"),
)
"""Rules without a meaning if they have a single child: there are ten around every operand."""
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
        *("namespace", "return", "var", "void", "while"),
    )
)
_KEYWORDS: Final = {"true": "BOOL_LIT", "false": "BOOL_LIT", "null": "NULL_LIT", "in": "IN"}
"""Terminals of words that are never names, even where the grammar allows only a name."""
_ACCUMULATOR: Final = "__result__"
"""The name of the variable that Kubernetes' macros declare themselves."""
_PARSING: Final = Lock()
"""lark builds its scanners at their first use, which is not safe for threads."""
_INT: Final = range(-(2**63), 2**63)
_UINT: Final = range(2**64)


def parse(source: str, namespaced: Container[str]) -> Expr:
    """The tree of the expression; `namespaced` are the functions whose names have a namespace (`optional.of`).

    Raises CelError of kind COMPILE.
    """
    scanned = scan(source)
    try:
        with _PARSING:
            tree = _grammar().parse(scanned.text)
    except lark.exceptions.UnexpectedInput as error:
        raise _syntax_error(source, error) from None
    return _Lowering(scanned, namespaced).lower(tree, 0)


@cache
def _grammar() -> lark.Lark:
    """cel-python's grammar with its own options, except that the tokens `true` and `false` keep their positions."""
    return lark.Lark(
        patched(_path_of_the_library().joinpath("cel.lark").read_text(encoding="utf-8")),
        parser="lalr",
        start="expr",
        g_regex_flags=re.MULTILINE,
        lexer_callbacks={"IDENT": _keyword},
        maybe_placeholders=False,
        priority="invert",
    )


def patched(grammar: str) -> str:
    """The grammar with the rules of _RULES; ValueError if it has not exactly one of each."""
    for head, body in _RULES.items():
        grammar = _replaced(rf"^{head}:.*$", f"{head}: {body}", grammar)
    for rule in _LEVELS:
        grammar = _replaced(rf"^{rule} *:", f"?{rule} :", grammar)
    return grammar


def _replaced(line: str, by: str, grammar: str) -> str:
    grammar, count = re.subn(line, lambda _: by, grammar, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"cel-python's grammar has {count} lines like {line}")
    return grammar


def _path_of_the_library() -> Path:
    """Where cel-python is: to import it would load its evaluator and what that needs, 2.5 MB."""
    spec = find_spec("celpy")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("cel-python is not installed")
    return Path(spec.origin).parent


def _keyword(token: lark.Token) -> lark.Token:
    return token.update(_KEYWORDS[token.value]) if token.value in _KEYWORDS else token


def _syntax_error(source: str, error: lark.exceptions.UnexpectedInput) -> CelError:
    token = getattr(error, "token", None)
    if not isinstance(token, lark.Token) or token.type == "$END" or token.start_pos is None:
        line, column = place(source, len(source))
        return CelError("unexpected end of the expression", line, column, COMPILE)
    line, column = place(source, token.start_pos)
    what = "string" if token.type.endswith(("STRING_LIT", "BYTES_LIT")) else quoted(str(token))
    return CelError(f"unexpected {what}", line, column, COMPILE)


def _is_name(tree: Any, name: str) -> bool:
    while isinstance(tree, lark.Tree) and len(tree.children) == 1 and tree.data != "dot_ident":
        tree = tree.children[0]
    return isinstance(tree, lark.Token) and tree.type == "IDENT" and tree == name


def _marked(trees: list[Any], rule: str) -> frozenset[int]:
    return frozenset(index for index, tree in enumerate(trees) if tree.data == rule)


class _Lowering:
    def __init__(self, scanned: Scanned, namespaced: Container[str]) -> None:
        self.strings = scanned.strings
        self.namespaced = namespaced

    def refuse(self, message: str, at: tuple[int, int]) -> NoReturn:
        raise CelError(message, *at, COMPILE)

    def position(self, item: Any) -> tuple[int, int]:
        """Of a token, or of the first token of a tree.  Propagating positions in lark doubles the time of parsing."""
        while not isinstance(item, lark.Token):
            item = item.children[0]
        return item.line or 1, item.column or 1

    def lower(self, tree: Any, depth: int) -> Expr:
        while len(tree.children) == 1 and isinstance(tree.children[0], lark.Tree) and tree.data not in _KEPT:
            tree = tree.children[0]
        if depth > MAX_DEPTH:
            self.refuse(f"operations are nested deeper than {MAX_DEPTH}", self.position(tree))
        # A plain string: to compare lark's own needs a stack frame, without which Python would not find the method.
        handler = getattr(self, str(tree.data), self.operation)
        return cast("Expr", handler(tree, depth + 1))

    def arguments(self, tree: Any, depth: int) -> tuple[Expr, ...]:
        return tuple(self.lower(child, depth) for child in tree.children)

    # Operators.

    def expr(self, tree: Any, depth: int) -> Expr:
        condition, then, otherwise = self.arguments(tree, depth)
        return Conditional(*self.position(tree), condition, then, otherwise)

    def conditionalor(self, tree: Any, depth: int) -> Expr:
        rule, links = tree.data, []
        while tree.data == rule and len(tree.children) == 2:
            links.append(tree.children[1])
            tree = tree.children[0]
        terms = tuple(self.lower(link, depth) for link in (tree, *reversed(links)))
        return Logic(terms[0].line, terms[0].column, "||" if rule == "conditionalor" else "&&", terms)

    conditionaland = conditionalor

    def operation(self, tree: Any, depth: int) -> Expr:
        """relation, addition, multiplication, unary: an operator with its left operand inside, then the right one."""
        at = self.position(tree)
        operator, right = tree.children
        if operator.data.startswith("unary"):
            return self.unary(tree, depth)
        left = self.arguments(operator, depth)
        return Call(*at, _OPERATORS[operator.data], (*left, self.lower(right, depth)))

    def unary(self, tree: Any, depth: int) -> Expr:
        """Two signs in a row cancel out, whatever follows them."""
        operator, right = tree.children
        if right.data == "unary" and right.children[0].data == operator.data:
            return self.lower(right.children[1], depth)
        token = right.children[0]
        if operator.data == "unary_neg" and right.data == "literal" and token.startswith("-"):
            at = self.position(token)
            return Literal(*at, self.constant(token.update(value=token[1:]), at))
        if operator.data == "unary_neg" and right.data == "literal" and token.type == "INT_LIT":
            at = self.position(tree)  # the least integer has no positive counterpart
            return Literal(*at, self.constant(token.update(value=f"-{token}"), at))
        return Call(*self.position(tree), _OPERATORS[operator.data], (self.lower(right, depth),))

    # Members.

    def member_dot(self, tree: Any, depth: int) -> Expr:
        operand, field = tree.children
        optional = tree.data == "member_opt_dot"
        return Select(*self.position(field), self.lower(operand, depth), field.strip("`"), optional=optional)

    member_opt_dot = member_dot

    def member_index(self, tree: Any, depth: int) -> Expr:
        operand, bracket, index = tree.children
        optional = tree.data == "member_opt_index"
        return Index(*self.position(bracket), self.lower(operand, depth), self.lower(index, depth), optional=optional)

    member_opt_index = member_index

    def member_dot_arg(self, tree: Any, depth: int) -> Expr:
        target, name, *rest = tree.children
        at, trees = self.position(name), rest[0].children if rest else []
        if name == "bind" and _is_name(target, "cel"):
            return self.bind(trees, depth, at)
        receiver = self.lower(target, depth)
        if name in MACROS:
            return self.comprehension(str(name), receiver, trees, depth, at)
        arguments = tuple(self.lower(tree, depth) for tree in trees)
        if name in _DERIVED and len(arguments) == 2:
            return _DERIVED[name](self, at, receiver, *arguments)
        qualified = f"{path_of(receiver)}.{name}"
        if qualified in self.namespaced:
            return Call(*at, qualified, arguments)
        return Call(*at, str(name), (receiver, *arguments), method=True)

    def comprehension(self, macro: str, range_: Expr, trees: list[Any], depth: int, at: tuple[int, int]) -> Expr:
        count = len(trees)
        two = macro in TRANSFORMS or macro == "existsOne" or (macro in QUANTIFIERS and count == 3)
        variables = 2 if two else 1
        bodies = count - variables
        if bodies != 1 and not (bodies == 2 and (macro == "map" or macro in TRANSFORMS)):
            names = "two variables" if two else "a variable"
            self.refuse(f"{macro}() takes {names} and an expression", at)
        first, *others = (self.lower(tree, depth) for tree in trees)
        variable = self.variable(first, macro)
        second = self.second(others.pop(0), variable, macro) if two else None
        value = others.pop() if macro == "map" or macro in TRANSFORMS else None
        return Comprehension(*at, macro, range_, variable, others[0] if others else None, value, second)

    def bind(self, trees: list[Any], depth: int, at: tuple[int, int]) -> Expr:
        if len(trees) != 3:
            self.refuse("cel.bind() takes a variable, its value and an expression", at)
        variable, value, body = (self.lower(tree, depth) for tree in trees)
        return Bind(*at, self.variable(variable, "cel.bind"), value, body)

    def variable(self, node: Expr, macro: str, which: str = "first") -> str:
        if not isinstance(node, Name) or node.root:
            self.refuse(f"the {which} argument of {macro}() must be a simple name", (node.line, node.column))
        if node.name == _ACCUMULATOR and macro in MACROS:
            self.refuse(f"{quoted(node.name)} is a reserved name", (node.line, node.column))
        return node.name

    def second(self, node: Expr, first: str, macro: str) -> str:
        name = self.variable(node, macro, "second")
        if name == first:
            self.refuse(f"the variables of {macro}() must have different names", (node.line, node.column))
        return name

    # Macros that expand to other expressions.  Their own variables have names that no expression can contain.

    def sort_by(self, at: tuple[int, int], receiver: Expr, variable: Expr, key: Expr) -> Expr:
        items = Name(*at, "@items")
        keys = Comprehension(*at, "map", items, self.variable(variable, "sortBy"), None, key)
        result = Call(*at, "@sortByAssociatedKeys", (items, keys), method=True)
        return Bind(*at, "@items", receiver, result, lazy=False)

    def opt_map(self, at: tuple[int, int], receiver: Expr, variable: Expr, body: Expr) -> Expr:
        return self.if_present(at, receiver, self.variable(variable, "optMap"), body, wrap=True)

    def opt_flat_map(self, at: tuple[int, int], receiver: Expr, variable: Expr, body: Expr) -> Expr:
        return self.if_present(at, receiver, self.variable(variable, "optFlatMap"), body, wrap=False)

    def if_present(self, at: tuple[int, int], receiver: Expr, variable: str, body: Expr, *, wrap: bool) -> Expr:
        optional = Name(*at, "@optional")
        found: Expr = Bind(*at, variable, Call(*at, "value", (optional,), method=True), body, lazy=False)
        if wrap:
            found = Call(*at, "optional.of", (found,))
        present = Call(*at, "hasValue", (optional,), method=True)
        result = Conditional(*at, present, found, Call(*at, "optional.none", ()))
        return Bind(*at, "@optional", receiver, result, lazy=False)

    def member_object(self, tree: Any, depth: int) -> Expr:  # noqa: ARG002
        self.refuse("messages cannot be constructed", self.position(tree))

    # Primaries.

    def ident(self, tree: Any, depth: int) -> Expr:  # noqa: ARG002
        name, at = str(tree.children[0]), self.position(tree.children[0])
        return self.refuse(f"{quoted(name)} is a reserved word", at) if name in _RESERVED else Name(*at, name)

    def dot_ident(self, tree: Any, depth: int) -> Expr:
        found = self.ident(tree, depth)
        return replace(found, root=True) if isinstance(found, Name) else found

    def ident_arg(self, tree: Any, depth: int) -> Expr:
        name, *rest = tree.children
        at = self.position(name)
        arguments = self.arguments(rest[0], depth) if rest else ()
        if name == "has":
            return self.has(arguments, at)
        return Call(*at, str(name), arguments)

    def dot_ident_arg(self, tree: Any, depth: int) -> Expr:
        """A call of a function in the root scope, where there are no macros."""
        name, *rest = tree.children
        return Call(*self.position(name), str(name), self.arguments(rest[0], depth) if rest else ())

    def has(self, arguments: tuple[Expr, ...], at: tuple[int, int]) -> Expr:
        (one,) = arguments if len(arguments) == 1 else (None,)
        if not isinstance(one, Select) or one.test or one.optional:
            self.refuse("has() takes one field selection, such as has(pod.spec.nodeName)", at)
        return replace(one, test=True)

    def list_lit(self, tree: Any, depth: int) -> Expr:
        bracket, *trees = tree.children
        elements = tuple(self.lower(child, depth) for child in trees)
        return ListLiteral(*self.position(bracket), elements, _marked(trees, "opt_element"))

    def map_lit(self, tree: Any, depth: int) -> Expr:
        bracket, *trees = tree.children
        entries = tuple(
            (self.lower(key, depth), self.lower(value, depth)) for key, value in (tree.children for tree in trees)
        )
        return MapLiteral(*self.position(bracket), entries, _marked(trees, "opt_entry"))

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
            case "UINT_LIT" if token.startswith("-"):
                return self.refuse("no such overload: -(uint)", at)
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


_DERIVED: Final[dict[str, Callable[[_Lowering, tuple[int, int], Expr, Expr, Expr], Expr]]] = {
    "sortBy": _Lowering.sort_by,
    "optMap": _Lowering.opt_map,
    "optFlatMap": _Lowering.opt_flat_map,
}
