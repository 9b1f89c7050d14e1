"""From a checked tree to a Python function `evaluate(inputs, cost)`, as syntax nodes of Python, never as text.

A node is emitted in one of two ways: `value` gives a Python expression, after appending the statements that it needs
to the current block; `branch` appends statements that jump on true and on false, for conditions.  Statements keep the
order of what was emitted.  The function can name nothing but the entries of `_GLOBALS` and its constants (K0, K1, ...):
variables of the expression become numbered ones, fields and literals stay data.

The line number of a syntax node is the number of the node of the tree that it comes from, so that the traceback of an
exceeded limit tells the place in the expression.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from tollbar.cel.core.limits import Fault
from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import RELATIONS, Optional, elements, equal, kind, ordered, same
from tollbar.cel.engines import operations
from tollbar.cel.engines.operations import SHORT
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
)

_INPUTS: Final = "inputs"
_COST: Final = "cost"
_PLAIN: Final = (type(None), bool, int, float, str, bytes)
_COMPARE: Final[dict[str, type[ast.cmpop]]] = {"_<_": ast.Lt, "_<=_": ast.LtE, "_>_": ast.Gt, "_>=_": ast.GtE}
_PREFIXES: Final = {"startsWith": "startswith", "endsWith": "endswith"}
_MAPPED: Final = frozenset({"transformMap", "transformMapEntry"})


class Failed(Exception):
    """Raised by a function that has no value; the closures then tell the error."""


def absorb(caught: Exception) -> bool:
    """True for a failure of a term; raises again what ends the whole evaluation."""
    if isinstance(caught, RecursionError) or (isinstance(caught, Fault) and caught.final):
        raise caught
    return True


_GLOBALS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "ABSORBED": (Fault, Failed, LookupError, TypeError, ArithmeticError, RecursionError),
    "Failed": Failed,
    "UNSET": operations.UNSET,
    "absorb": absorb,
    "as_map": operations.as_map,
    "contains": operations.contains,
    "dict": dict,
    "elements": elements,
    "equal": equal,
    "has": operations.has,
    "index": operations.index,
    "insert_all": operations.insert_all,
    "int": int,
    "kind": kind,
    "len": len,
    "list": list,
    "make_list": operations.make_list,
    "make_map": operations.make_map,
    "optional_index": operations.optional_index,
    "ordered": ordered,
    "pairs": operations.pairs,
    "refused": operations.refused,
    "same": same,
    "select": operations.select,
    "str": str,
    "type": type,
}


Block: TypeAlias = list[ast.stmt]
Scope: TypeAlias = Mapping[str, str]
"""The names that hold an expression's variables, by variable."""


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def call(function: str | ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(function) if isinstance(function, str) else function, list(arguments), [])


def method(value: ast.expr, name: str, *arguments: ast.expr) -> ast.Call:
    return call(ast.Attribute(value, name, ast.Load()), *arguments)


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def item(value: ast.expr, key: ast.expr) -> ast.Subscript:
    return ast.Subscript(value, key, ast.Load())


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [operator], [right])


def not_(value: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), value)


def if_(test: ast.expr, then: Block, otherwise: Block | None = None) -> ast.If:
    return ast.If(test, then or [ast.Pass()], otherwise or [])


FAIL: Final = ast.Raise(load("Failed"))


class Emitter:
    """Emits one tree.

    After `module`, `globals` are those of the function, `places` the nodes by line number from 1, and `charges` tells
    whether the function uses its cost tracker.
    """

    def __init__(self, types: Types, *, optionals: bool) -> None:
        """`optionals` tells whether any value can be an optional, of which a field is not a key."""
        self.types = types
        self.optionals = optionals
        self.globals = dict(_GLOBALS)
        self.places: list[Expr] = []
        self.charges = False
        self.block: Block = []
        self.count = 0
        self.thunks: dict[str, str] = {}
        """Of bound variables: the function that computes them at their first use."""

    def module(self, tree: Expr, result: str) -> ast.Module:
        """The function; `result` is the kind that its value must have, or dyn."""
        if result == "bool":
            self.branch(tree, {}, [ast.Return(ast.Constant(True))], [ast.Return(ast.Constant(False))])
        else:
            value = self.stored(self.value(tree, {}))
            if result != "dyn":
                self.block.append(if_(compare(call("kind", value), ast.NotEq(), ast.Constant(result)), [FAIL]))
            self.block.append(ast.Return(value))
        arguments = ast.arguments([], [ast.arg(_INPUTS), ast.arg(_COST)], None, [], [], None, [])
        function = ast.FunctionDef("evaluate", arguments, self.block, [])
        return ast.fix_missing_locations(ast.Module([function], []))

    # Values.

    def values(self, nodes: tuple[Expr, ...], scope: Scope) -> list[ast.expr]:
        """Expressions for all of them, evaluated in this order."""
        found: list[ast.expr] = []
        for node in nodes:
            before = len(self.block)
            value = self.value(node, scope)
            after, self.block[before:] = self.block[before:], []
            if after:
                found = [each if isinstance(each, ast.Constant | ast.Name) else self.stored(each) for each in found]
            self.block += after
            found.append(value)
        return found

    def value(self, node: Expr, scope: Scope) -> ast.expr:
        found: ast.expr = _VALUE[type(node)](self, node, scope)
        return found

    def literal(self, node: Literal, scope: Scope) -> ast.expr:  # noqa: ARG002
        return self.shared(node.value)

    def variable(self, node: Name, scope: Scope) -> ast.expr:
        if node.name in scope:
            name = scope[node.name]
            if name not in self.thunks:
                return load(name)
            unset = compare(load(name), ast.Is(), load("UNSET"))
            return ast.IfExp(unset, call(self.thunks[name]), load(name))
        return item(load(_INPUTS), ast.Constant(node.name))

    def select(self, node: Select, scope: Scope) -> ast.expr:
        operand, field = self.value(node.operand, scope), ast.Constant(node.field)
        if node.optional:
            return self.run(node, "optional_index", self.cost(), operand, field)
        if node.test:
            return self.by_type(
                operand,
                "dict",
                lambda value: compare(field, ast.In(), value),
                lambda value: call("has", value, field),
            )
        return call("select", operand, field) if self.optionals else item(operand, field)

    def index(self, node: Index, scope: Scope) -> ast.expr:
        operand, index = self.values((node.operand, node.index), scope)
        constant = node.index.value if isinstance(node.index, Literal) else None
        if node.optional:
            return self.run(node, "optional_index", self.cost(), operand, index)
        if type(constant) is str and len(constant) < SHORT and not self.optionals:
            return item(operand, index)
        if type(constant) is int and constant >= 0:
            return self.by_type(
                operand,
                "list",
                lambda value: item(value, index),
                lambda value: self.run(node, "index", self.cost(), value, index),
            )
        return self.run(node, "index", self.cost(), operand, index)

    def call(self, node: Call, scope: Scope) -> ast.expr:
        name = node.function
        if name in RELATIONS:
            return self.relation(node, scope)
        if node.method and name in operations.OR_ELSE and len(node.arguments) == 2:
            return self.or_else(node, scope)
        if name == "!_" and self.is_bool(node.arguments[0]):
            return not_(self.value(node.arguments[0], scope))
        arguments = self.values(node.arguments, scope)
        if len(arguments) == 1 and name == "size":
            return self.by_type(
                arguments[0], "list", lambda value: call("len", value), lambda value: self.overload(node, [value])
            )
        prefix = node.arguments[1].value if name in _PREFIXES and isinstance(node.arguments[1], Literal) else None
        if type(prefix) is str and len(prefix) < SHORT:
            return self.by_type(
                arguments[0],
                "str",
                lambda value: method(value, _PREFIXES[name], arguments[1]),
                lambda value: self.overload(node, [value, arguments[1]]),
            )
        return self.overload(node, arguments)

    def overload(self, node: Call, arguments: list[ast.expr]) -> ast.expr:
        """Looked up by the types of those arguments that are not literals."""
        given = {
            position: type(argument.value)
            for position, argument in enumerate(node.arguments)
            if isinstance(argument, Literal)
        }
        fitting = {
            tuple(type_ for position, type_ in enumerate(types) if position not in given): implementation
            for types, implementation in operations.implementations(node, self.types).items()
            if len(types) == len(arguments) and all(types[position] is type_ for position, type_ in given.items())
        }
        open_ = [position for position in range(len(arguments)) if position not in given]
        if not open_:
            return self.run(node, self.shared(fitting.get(())), self.cost(), *arguments)
        types = []
        for position in open_:
            arguments[position], value = self.named(arguments[position])
            types.append(call("type", value))
        if len(types) == 1:
            table = self.shared({key[0]: implementation for key, implementation in fitting.items()})
            return self.run(node, item(table, types[0]), self.cost(), *arguments)
        key = ast.Tuple(list(types), ast.Load())
        return self.run(node, item(self.shared(fitting), key), self.cost(), *arguments)

    def relation(self, node: Call, scope: Scope) -> ast.expr:
        name, (a, b) = node.function, node.arguments
        if name in ("_==_", "_!=_"):
            if operations.plain_literal(a) or operations.plain_literal(b):
                literal, other = (a, b) if operations.plain_literal(a) else (b, a)
                return self.equals_plain(node, literal, other, scope)
            values = self.values((a, b), scope)
            if name == "_==_":
                return self.run(node, "equal", *values, self.cost())
            return not_(self.run(node, "same", *values, self.cost()))
        if name == "_in_":
            return self.contains(node, scope)
        left, right = self.values((a, b), scope)

        def general(value: ast.expr) -> ast.expr:
            return self.run(node, "ordered", ast.Constant(name), value, right, self.cost())

        if isinstance(b, Literal) and type(b.value) is int:
            return self.by_type(left, "int", lambda value: compare(value, _COMPARE[name](), right), general)
        return general(left)

    def equals_plain(self, node: Call, literal: Any, other: Expr, scope: Scope) -> ast.expr:
        value, wanted, positive = self.value(other, scope), literal.value, node.function == "_==_"
        constant = ast.Constant(wanted)
        if type(wanted) is bool or wanted is None:
            found: ast.expr = compare(value, ast.Is() if positive else ast.IsNot(), constant)
            may_refuse = False
        else:
            may_refuse = positive and other is node.arguments[0] and self.types[id(other)] == "dyn"
            again = load("")
            if may_refuse or wanted in (0, 1):
                again, value = self.named(value)
            found = compare(value, ast.Eq() if positive else ast.NotEq(), constant)
            if wanted in (0, 1):
                # In Python these two numbers equal a bool.
                number = compare(again, ast.IsNot() if positive else ast.Is(), ast.Constant(bool(wanted)))
                found = ast.BoolOp(ast.And() if positive else ast.Or(), [found, number])
        if may_refuse:
            found = ast.BoolOp(ast.Or(), [found, call("refused", again, constant)])
        return found

    def contains(self, node: Call, scope: Scope) -> ast.expr:
        wanted, container = node.arguments
        strings = operations.constant_strings(container)
        if strings is not None:
            choice = ast.Tuple([ast.Constant(each) for each in strings], ast.Load())
            return compare(self.value(wanted, scope), ast.In(), choice)
        key, value = self.values((wanted, container), scope)

        def general(value: ast.expr) -> ast.expr:
            return self.run(node, "contains", self.cost(), key, value)

        if isinstance(wanted, Literal) and type(wanted.value) is str and len(wanted.value) < SHORT:
            return self.by_type(value, "dict", lambda value: compare(key, ast.In(), value), general)
        return general(value)

    def or_else(self, node: Call, scope: Scope) -> ast.expr:
        optional = self.stored(self.value(node.arguments[0], scope))
        result, whole = self.temporary(), node.function == "or"
        is_optional = compare(call("type", optional), ast.Is(), self.shared(Optional))
        self.block.append(if_(not_(is_optional), [FAIL]))
        with self.nested() as other:
            value = self.value(node.arguments[1], scope)
            other.append(assign(result, value))
            if whole:
                is_other = compare(call("type", load(result)), ast.Is(), self.shared(Optional))
                other.append(if_(not_(is_other), [FAIL]))
        present = optional if whole else ast.Attribute(optional, "value", ast.Load())
        self.block.append(if_(ast.Attribute(optional, "present", ast.Load()), [assign(result, present)], other))
        return load(result)

    def list_literal(self, node: ListLiteral, scope: Scope) -> ast.expr:
        if (constant := operations.constant_list(node)) is not None:
            return self.shared(constant)
        items = ast.List(self.values(node.elements, scope), ast.Load())
        return self.run(node, "make_list", self.cost(), items, self.shared(node.optional))

    def map_literal(self, node: MapLiteral, scope: Scope) -> ast.expr:
        flat = self.values(tuple(part for entry in node.entries for part in entry), scope)
        entries: list[ast.expr] = [
            ast.Tuple([key, value], ast.Load()) for key, value in zip(flat[::2], flat[1::2], strict=True)
        ]
        items = ast.List(entries, ast.Load())
        return self.run(node, "make_map", self.cost(), items, self.shared(node.optional))

    def conditional(self, node: Conditional, scope: Scope) -> ast.expr:
        result = self.temporary()
        blocks = []
        for part in (node.then, node.otherwise):
            with self.nested() as block:
                value = self.value(part, scope)
                block.append(assign(result, value))
            blocks.append(block)
        self.block.append(if_(self.truth(node.condition, scope), *blocks))
        return load(result)

    def bind(self, node: Bind, scope: Scope) -> ast.expr:
        name = self.temporary()
        if node.lazy:
            self.bind_later(node, scope, name)
        else:
            value = self.value(node.value, scope)
            self.block.append(assign(name, value))
        return self.value(node.body, {**scope, node.variable: name})

    def bind_later(self, node: Bind, scope: Scope, name: str) -> None:
        """The value is computed at most once: a second attempt after a failure would not be charged."""
        thunk, tried = self.temporary(), self.temporary()
        with self.nested() as body:
            body += [ast.Nonlocal([name, tried]), if_(load(tried), [FAIL]), assign(tried, ast.Constant(True))]
            value = self.value(node.value, scope)
            body += [assign(name, value), ast.Return(load(name))]
        arguments = ast.arguments([], [], None, [], [], None, [])
        self.block += [
            assign(name, load("UNSET")),
            assign(tried, ast.Constant(False)),
            ast.FunctionDef(thunk, arguments, body, []),
        ]
        self.thunks[name] = thunk

    def logic(self, node: Logic, scope: Scope) -> ast.expr:
        """The value in a variable, by one `try` statement for each term; `branch` is for conditions, and emits less."""
        result, failed = self.temporary(), self.temporary()
        decisive = node.operator == "||"
        go_on = load(result) if not decisive else not_(load(result))
        self.block.append(assign(failed, ast.Constant(False)))
        for number, term in enumerate(node.terms):
            with self.nested() as body:
                value = self.truth(term, scope)
                body.append(assign(result, value))
            attempt = self.attempt(node, body, failed, [assign(result, ast.Constant(not decisive))])
            self.block.append(if_(go_on, [attempt]) if number else attempt)
        self.block.append(if_(ast.BoolOp(ast.And(), [load(failed), go_on]), [FAIL]))
        return load(result)

    def attempt(self, node: Expr, body: Block, failed: str, then: Block) -> ast.stmt:
        """The body; after a failure in it `failed` is True, and `then` runs."""
        note = assign(failed, self.run(node, "absorb", load("caught")))
        handler = ast.ExceptHandler(load("ABSORBED"), "caught", [note, *then])
        return ast.Try(body, [handler], [], [])

    def truth(self, node: Expr, scope: Scope) -> ast.expr:
        """The value, after making sure that it is a bool."""
        value = self.value(node, scope)
        if self.is_bool(node):
            return value
        stored = self.stored(value)
        self.block.append(if_(compare(call("type", stored), ast.IsNot(), self.shared(bool)), [FAIL]))
        return stored

    def is_bool(self, node: Expr) -> bool:
        """Whether the value is a bool whatever the inputs are."""
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
                return name in RELATIONS or (self.types[id(node)] == "bool" and name not in operations.OR_ELSE)
            case _:
                return False

    # Conditions.

    def branch(self, node: Expr, scope: Scope, true: Block, false: Block) -> None:
        """Appends statements that run `true` or `false`.  One of them may be empty; the other then ends with a jump."""
        match node:
            case Logic(operator="&&") if false:
                self.terms(node, scope, [], false)
                self.block += true
            case Logic(operator="||") if true:
                self.terms(node, scope, true, [])
                self.block += false
            case Call(function="!_", arguments=(operand,)):
                self.branch(operand, scope, false, true)
            case _:
                value = self.truth(node, scope)
                if true:
                    self.block.append(if_(value, true))
                    self.block += false
                else:
                    self.block.append(if_(not_(value), false))

    def terms(self, node: Logic, scope: Scope, true: Block, false: Block) -> None:
        failed = self.temporary()
        self.block.append(assign(failed, ast.Constant(False)))
        for term in node.terms:
            with self.nested() as body:
                self.branch(term, scope, true, false)
            self.block.append(self.attempt(node, body, failed, []))
        self.block.append(if_(load(failed), [FAIL]))

    # Macros.

    def comprehension(self, node: Comprehension, scope: Scope) -> ast.expr:
        range_ = self.value(node.range, scope)
        items = load(self.temporary())
        self.block.append(assign(items.id, range_))
        if operations.constant_list(node.range) is None:
            self.block.append(
                if_(
                    compare(call("type", items), ast.IsNot(), load("list")),
                    [assign(items.id, self.run(node, "elements", items, ast.Constant(node.macro)))],
                )
            )
        if node.macro in operations.SIZED:
            self.block.append(ast.Expr(self.run_method(node, "new_list", call("len", items))))
        first = self.temporary()
        inner = {**scope, node.variable: first}
        target: ast.expr = ast.Name(first, ast.Store())
        rounds: ast.expr = items
        if node.second is not None:
            second = self.temporary()
            inner[node.second] = second
            target = ast.Tuple([target, ast.Name(second, ast.Store())], ast.Store())
            rounds = call("pairs", items, ast.Constant(node.macro))
        result = self.temporary()
        loop = _LOOPS[node.macro]
        with self.nested() as body:
            self.block += self.charge_round(node)
            before, after = loop(self, node, inner, first, result)
        self.block += before
        self.block.append(ast.For(target, rounds, body, after))
        if node.macro in ("exists_one", "existsOne"):
            return compare(load(result), ast.Eq(), ast.Constant(1))
        return call("as_map", load(result)) if node.macro in _MAPPED else load(result)

    def charge_round(self, node: Comprehension) -> Block:
        """cost.charge() for a round, in place unless it fails."""
        steps = ast.Attribute(self.cost(), "steps_left", ast.Store())
        left = ast.Attribute(self.cost(), "steps_left", ast.Load())
        return [
            ast.AugAssign(steps, ast.Sub(), ast.Constant(operations.repeated(node))),
            if_(compare(left, ast.Lt(), ast.Constant(0)), [ast.Expr(self.run_method(node, "charge", ast.Constant(0)))]),
        ]

    # Loops of macros.  Each method appends the statements of a round, in which `first` is the name of the element, and
    # returns the statements before the loop, and those of its `else`.

    def quantified(self, node: Comprehension, scope: Scope, _: str, result: str) -> tuple[Block, Block]:
        decisive = node.macro == "exists"
        failed = self.temporary()
        found: Block = [assign(result, ast.Constant(decisive)), ast.Break()]
        with self.nested() as body:
            predicate = node.predicate or node.range
            go_on: Block = [ast.Continue()]
            self.branch(predicate, scope, found if decisive else go_on, go_on if decisive else found)
        self.block.append(self.attempt(node, body, failed, []))
        before: Block = [assign(result, ast.Constant(not decisive)), assign(failed, ast.Constant(False))]
        return before, [if_(load(failed), [FAIL])]

    def counted(self, node: Comprehension, scope: Scope, _: str, result: str) -> tuple[Block, Block]:
        one = ast.AugAssign(ast.Name(result, ast.Store()), ast.Add(), ast.Constant(1))
        self.branch(node.predicate or node.range, scope, [one, ast.Continue()], [ast.Continue()])
        return [assign(result, ast.Constant(0))], []

    def skip_unwanted(self, node: Comprehension, scope: Scope) -> None:
        if node.predicate is not None:
            self.branch(node.predicate, scope, [], [ast.Continue()])

    def listed(self, node: Comprehension, scope: Scope, first: str, result: str) -> tuple[Block, Block]:
        self.skip_unwanted(node, scope)
        value = load(first) if node.value is None else self.value(node.value, scope)
        self.block.append(ast.Expr(method(load(result), "append", value)))
        return [assign(result, ast.List([], ast.Load()))], []

    def mapped(self, node: Comprehension, scope: Scope, first: str, result: str) -> tuple[Block, Block]:
        self.skip_unwanted(node, scope)
        value = self.value(node.value or node.range, scope)
        entry = ast.Subscript(load(result), load(first), ast.Store())
        self.block.append(ast.Assign([entry], value))
        return [assign(result, ast.Dict([], []))], []

    def entries(self, node: Comprehension, scope: Scope, _: str, result: str) -> tuple[Block, Block]:
        self.skip_unwanted(node, scope)
        value = self.value(node.value or node.range, scope)
        self.block.append(ast.Expr(self.run(node, "insert_all", self.cost(), load(result), value)))
        return [assign(result, ast.Dict([], []))], []

    # Names, constants, and calls with a place.

    def temporary(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def shared(self, value: Any) -> ast.expr:
        """A constant, as a global variable of the function if Python has no literal for it."""
        if type(value) in _PLAIN:
            return ast.Constant(value)
        name = f"K{len(self.globals)}"
        self.globals[name] = value
        return load(name)

    def cost(self) -> ast.expr:
        self.charges = True
        return load(_COST)

    def placed(self, code: ast.Call, node: Expr) -> ast.Call:
        """The call, with the number of the node as its line number."""
        self.places.append(node)
        code.lineno = code.end_lineno = len(self.places)
        code.col_offset = code.end_col_offset = 0
        return code

    def run(self, node: Expr, function: str | ast.expr, *arguments: ast.expr) -> ast.expr:
        """A call that can end the evaluation at this node."""
        return self.placed(call(function, *arguments), node)

    @contextmanager
    def nested(self) -> Iterator[Block]:
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    def stored(self, value: ast.expr) -> ast.Name:
        """A variable that holds the value, assigned by a statement."""
        if isinstance(value, ast.Name):
            return value
        name = self.temporary()
        self.block.append(assign(name, value))
        return load(name)

    def named(self, value: ast.expr) -> tuple[ast.Name, ast.expr]:
        """A name for the value, and the expression that assigns it, which has to be evaluated first."""
        if isinstance(value, ast.Name):
            return value, value
        name = self.temporary()
        return load(name), ast.NamedExpr(ast.Name(name, ast.Store()), value)

    def by_type(
        self,
        value: ast.expr,
        type_: str,
        fast: Callable[[ast.expr], ast.expr],
        slow: Callable[[ast.expr], ast.expr],
    ) -> ast.expr:
        """fast(value) if the value is exactly of the type, else slow(value)."""
        value, named = self.named(value)
        return ast.IfExp(compare(call("type", named), ast.Is(), load(type_)), fast(value), slow(value))

    def run_method(self, node: Expr, name: str, *arguments: ast.expr) -> ast.expr:
        return self.placed(method(self.cost(), name, *arguments), node)


_LOOPS: Final[dict[str, Callable[[Emitter, Comprehension, Scope, str, str], tuple[Block, Block]]]] = {
    "exists": Emitter.quantified,
    "all": Emitter.quantified,
    "exists_one": Emitter.counted,
    "existsOne": Emitter.counted,
    "filter": Emitter.listed,
    "map": Emitter.listed,
    "transformList": Emitter.listed,
    "transformMap": Emitter.mapped,
    "transformMapEntry": Emitter.entries,
}
_VALUE: Final[dict[type, Callable[[Emitter, Any, Scope], ast.expr]]] = {
    Literal: Emitter.literal,
    Name: Emitter.variable,
    Select: Emitter.select,
    Index: Emitter.index,
    Call: Emitter.call,
    ListLiteral: Emitter.list_literal,
    MapLiteral: Emitter.map_literal,
    Conditional: Emitter.conditional,
    Logic: Emitter.logic,
    Bind: Emitter.bind,
    Comprehension: Emitter.comprehension,
}
