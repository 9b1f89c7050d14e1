"""From a checked tree to a Python function `evaluate(inputs, cost)`, as syntax nodes of Python, never as text.

A node is emitted in one of two ways: `value` gives a Python expression, after appending the statements that it needs
to the current block; `branch` appends statements that jump on true and on false, for conditions.  Statements keep the
order of what was emitted.  The function can name nothing but the entries of `_GLOBALS`, which all functions share, and
its constants (K0, K1, ...), which are variables of the function that makes it: variables of the expression become
numbered ones, fields and literals stay data.

The line number of a syntax node that can fail is the number of its place in the expression, so the traceback of a
failure tells the place, and the error is found without evaluating again.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from tollbar.cel.core.interface import RUNTIME, CelError
from tollbar.cel.core.limits import SHORT, CostTracker, Fault, quoted, shortened
from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import ABSENT, RELATIONS, Optional, elements, equal, kind, no_overload, ordered, same
from tollbar.cel.engines import operations
from tollbar.cel.engines.prices import Prices, is_bool
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
)

FILE: Final = "<expression>"
"""The name of the file that tracebacks show for functions."""
_INPUTS: Final = "inputs"
_COST: Final = "cost"
_EVALUATE: Final = "evaluate"
_MAKE: Final = "make"
_ABSORB: Final = "absorb"
_PLAIN: Final = (type(None), bool, int, float, str, bytes)
_COMPARE: Final[dict[str, type[ast.cmpop]]] = {"_<_": ast.Lt, "_<=_": ast.LtE, "_>_": ast.Gt, "_>=_": ast.GtE}
_PREFIXES: Final = {"startsWith": "startswith", "endsWith": "endswith"}
_MAPPED: Final = frozenset({"transformMap", "transformMapEntry"})


class Failed(Exception):
    """Raised where no term decides, with the error of the first one that failed."""

    def __init__(self, error: CelError) -> None:
        super().__init__(error)
        self.error = error


Late: TypeAlias = list[CostTracker]
"""The cost of a function that charges for nothing but failures: empty, or the tracker that the first of them made."""


class Place(NamedTuple):
    """Where a function can fail: a node, and the variables that hold its operands, "" for those that are literals."""

    node: Expr
    operands: tuple[str, ...] = ()


def failure(places: Sequence[Place], caught: Exception) -> CelError:
    """The error that an exception of the function stands for; raises again an exception that stands for none."""
    if isinstance(caught, Failed):
        return caught.error
    found = None
    trace = caught.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            found = trace
        trace = trace.tb_next
    if found is None or isinstance(caught, RecursionError):
        raise caught
    node, names = places[found.tb_lineno - 1]
    if isinstance(caught, Fault):
        return CelError(caught.message, node.line, node.column, caught.kind)
    if isinstance(caught, KeyError) and isinstance(node, Select | Index):
        key = node.field if isinstance(node, Select) else caught.args[0]
        return CelError(f"no such key: {shortened(key)}", node.line, node.column, RUNTIME)
    if found.tb_next is not None:
        raise caught
    variables = found.tb_frame.f_locals
    try:
        _again(node, [variables.get(name) for name in names])
    except Fault as fault:
        return CelError(fault.message, node.line, node.column, fault.kind)
    raise caught


def _again(node: Expr, operands: list[Any]) -> None:
    """What the function did in place, by the operation that has an error for it."""
    match node:
        case Name(name=name):
            raise Fault(f"variable {quoted(name)} has no value")
        case Select(field=field):
            operations.select(operands[0], field)
        case Index(index=Literal(value=key)):
            operations.index(CostTracker(), operands[0], key, literal=True)
        case Call(function=name, arguments=arguments):
            pairs = zip(arguments, operands, strict=True)
            raise no_overload(name, *(node.value if isinstance(node, Literal) else value for node, value in pairs))


def absorb(
    places: Sequence[Place],
    prices: tuple[int, tuple[int, int]],
    caught: Exception,
    failed: CelError | None,
    cost: CostTracker | Late,
) -> CelError:
    """The first error of the terms, after one more of them failed; raises again what ends the whole evaluation.

    `prices` are those of the function in advance, and of failures.
    """
    if isinstance(caught, RecursionError) or (isinstance(caught, Fault) and caught.final):
        raise caught
    fixed, steps = prices
    if isinstance(cost, list):
        if not cost:
            cost.append(CostTracker(fixed))
        cost = cost[0]
    cost.charge(steps[failed is not None])
    return failed or failure(places, caught)


def refuse(name: str, *values: Any) -> NoReturn:
    """Ends an operation that is not defined for the kinds of these values."""
    raise no_overload(name, *values)


def refuse_result(wanted: str, value: Any) -> NoReturn:
    raise Fault(f"must evaluate to {wanted} but is {kind(value)}")


_FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    *(bool, dict, int, len, list, str, type, Optional),
    *(elements, equal, kind, ordered, refuse, refuse_result, same),
    *(operations.as_map, operations.contains, operations.has, operations.index, operations.insert_all),
    *(operations.make_list, operations.make_map, operations.optional_index, operations.pairs),
    *(operations.refused, operations.select),
)
_GLOBALS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "ABSENT": ABSENT,
    "ABSORBED": (Fault, Failed, LookupError, TypeError, ArithmeticError, RecursionError),
    "Failed": Failed,
    "UNSET": operations.UNSET,
    **{function.__name__: function for function in _FUNCTIONS},
}


Block: TypeAlias = list[ast.stmt]
Scope: TypeAlias = Mapping[str, str]
"""The names that hold an expression's variables, by variable."""


_LOAD: Final = ast.Load()
_STORE: Final = ast.Store()


def load(name: str) -> ast.Name:
    return ast.Name(name, _LOAD)


def call(function: str | ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(function) if isinstance(function, str) else function, list(arguments), [])


def method(value: ast.expr, name: str, *arguments: ast.expr) -> ast.Call:
    return call(ast.Attribute(value, name, _LOAD), *arguments)


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, _STORE)], value)


def item(value: ast.expr, key: ast.expr) -> ast.Subscript:
    return ast.Subscript(value, key, _LOAD)


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [operator], [right])


def not_(value: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), value)


def if_(test: ast.expr, then: Block, otherwise: Block | None = None) -> ast.If:
    return ast.If(test, then or [ast.Pass()], otherwise or [])


def fail(error: str) -> ast.Raise:
    """Raises the error that the variable holds."""
    return ast.Raise(call("Failed", load(error)))


def _parameters(*names: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _locate(node: ast.AST, line: int) -> None:
    """Gives each node that has no line that of its parent; ast.fix_missing_locations takes three times as long."""
    attributes = node.__dict__
    parts = list(attributes.values())
    line = attributes.setdefault("lineno", line)
    attributes |= {"end_lineno": line, "col_offset": 0, "end_col_offset": 0}
    for part in parts:
        if isinstance(part, ast.AST):
            _locate(part, line)
        elif type(part) is list:
            for each in part:
                if isinstance(each, ast.AST):
                    _locate(each, line)


class Refusal(NamedTuple):
    """What a function calls for a value that is not a bool: `function(what, value)`, at the node."""

    node: Expr
    function: str
    what: str


class Emitter:
    """Emits one tree.

    `fixed` is what the function costs in advance.  After `function`, `places` are those of failures by line number from
    1, and `charges` tells whether the function needs a cost tracker even if nothing fails.
    """

    def __init__(self, tree: Expr, types: Types, prices: Prices) -> None:
        self.tree = tree
        self.types = types
        self.prices = prices
        self.fixed = prices.fixed(tree)
        self.optionals = prices.optionals
        """Whether any value can be an optional, of which a field is not a key."""
        self.places: list[Place] = []
        self.constants: dict[str, Any] = {}
        self.charges = False
        self.block: Block = []
        self.count = 0
        self.thunks: dict[str, str] = {}
        """Of bound variables: the function that computes them at their first use."""

    def function(self, result: str) -> Callable[..., Any]:
        """The function; `result` is the kind that its value must have, or dyn.

        Raises SyntaxError, RecursionError or MemoryError for what CPython cannot compile.
        """
        self.whole(self.tree, result)
        evaluate = ast.FunctionDef(_EVALUATE, _parameters(_INPUTS, _COST), self.block, [])
        making = ast.FunctionDef(_MAKE, _parameters(*self.constants), [evaluate, ast.Return(load(_EVALUATE))], [])
        _locate(making, 1)
        code = compile(ast.Module([making], []), FILE, "exec", dont_inherit=True)
        made: dict[str, Any] = {}
        exec(code, _GLOBALS, made)  # noqa: S102 # our own syntax nodes; text of the expression is only ever a constant
        function: Callable[..., Any] = made[_MAKE](*self.constants.values())
        return function

    def whole(self, tree: Expr, result: str) -> None:
        """Appends the statements of the function."""
        if result == "bool":
            refusal = Refusal(tree, "refuse_result", result)
            self.branch(tree, {}, [ast.Return(ast.Constant(True))], [ast.Return(ast.Constant(False))], refusal)
            return
        value = self.stored(self.value(tree, {}))
        if result != "dyn":
            found = self.run(tree, "kind", value)
            refused = self.run(tree, "refuse_result", ast.Constant(result), value)
            self.block.append(if_(compare(found, ast.NotEq(), ast.Constant(result)), [ast.Expr(refused)]))
        self.block.append(ast.Return(value))

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
        if node.name in scope and not node.root:
            name = scope[node.name]
            if name not in self.thunks:
                return load(name)
            unset = compare(load(name), ast.Is(), load("UNSET"))
            return ast.IfExp(unset, call(self.thunks[name]), load(name))
        return self.placed(item(load(_INPUTS), ast.Constant(node.name)), node)

    def select(self, node: Select, scope: Scope) -> ast.expr:
        operand, field = self.value(node.operand, scope), ast.Constant(node.field)
        if node.optional:
            return self.run(node, "optional_index", self.cost(), operand, field)
        if node.test:
            return self.by_type(
                operand,
                "dict",
                lambda value: compare(field, ast.In(), value),
                lambda value: self.run(node, "has", value, field),
            )
        return self.run(node, "select", operand, field) if self.optionals else self.item(node, operand, field)

    def item(self, node: Select | Index, operand: ast.expr, key: ast.expr) -> ast.expr:
        """operand[key], which fails at the node."""
        name, named = self.named(operand)
        return self.placed(item(named, key), node, name.id)

    def index(self, node: Index, scope: Scope) -> ast.expr:
        if self.optionals and not isinstance(node.index, Literal):
            return self.index_of_present(node, scope)
        operand, index = self.values((node.operand, node.index), scope)
        constant = node.index.value if isinstance(node.index, Literal) else None
        if node.optional:
            return self.run(node, "optional_index", self.cost(), operand, index)
        if type(constant) is str and len(constant) < SHORT and not self.optionals:
            return self.item(node, operand, index)
        if type(constant) is int and constant >= 0:
            return self.by_type(
                operand,
                "list",
                lambda value: self.item(node, value, index),
                lambda value: self.run(node, "index", self.cost(), value, index, ast.Constant(True)),
            )
        literal = ast.Constant(isinstance(node.index, Literal))
        return self.run(node, "index", self.cost(), operand, index, literal)

    def index_of_present(self, node: Index, scope: Scope) -> ast.expr:
        """The index of an absent optional is not evaluated."""
        operand, result = self.stored(self.value(node.operand, scope)), self.temporary()
        with self.nested() as block:
            function = "optional_index" if node.optional else "index"
            index = self.value(node.index, scope)
            block.append(assign(result, self.run(node, function, self.cost(), operand, index)))
        absent = compare(operand, ast.Is(), load("ABSENT"))
        self.block.append(if_(absent, [assign(result, operand)], block))
        return load(result)

    def call(self, node: Call, scope: Scope) -> ast.expr:
        name = node.function
        if name in RELATIONS:
            return self.relation(node, scope)
        if node.method and name in operations.OR_ELSE and len(node.arguments) == 2:
            return self.or_else(node, scope)
        if name == "!_" and is_bool(node.arguments[0], self.types):
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
        names = [""] * len(arguments)
        if not open_:
            return self.placed(call(self.shared(fitting.get(())), self.cost(), *arguments), node, *names)
        types = []
        for position in open_:
            arguments[position], value = named, _ = self.named(arguments[position])
            names[position] = named.id
            types.append(call("type", value))
        if len(types) == 1:
            table = self.shared({key[0]: implementation for key, implementation in fitting.items()})
            key: ast.expr = types[0]
        else:
            table, key = self.shared(fitting), ast.Tuple(list(types), _LOAD)
        return self.placed(call(item(table, key), self.cost(), *arguments), node, *names)

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
            found = ast.BoolOp(ast.Or(), [found, self.run(node, "refused", again, constant)])
        return found

    def contains(self, node: Call, scope: Scope) -> ast.expr:
        wanted, container = node.arguments
        strings = operations.constant_strings(container)
        if strings is not None:
            choice = ast.Tuple([ast.Constant(each) for each in strings], _LOAD)
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
        is_optional = compare(call("type", optional), ast.Is(), load("Optional"))
        refused = self.run(node, "refuse", ast.Constant(node.function), optional)
        self.block.append(if_(not_(is_optional), [ast.Expr(refused)]))
        with self.nested() as other:
            value = self.value(node.arguments[1], scope)
            other.append(assign(result, value))
            if whole:
                is_other = compare(call("type", load(result)), ast.Is(), load("Optional"))
                refused = self.run(node, "refuse", ast.Constant(node.function), optional, load(result))
                other.append(if_(not_(is_other), [ast.Expr(refused)]))
        present = optional if whole else ast.Attribute(optional, "value", _LOAD)
        self.block.append(if_(ast.Attribute(optional, "present", _LOAD), [assign(result, present)], other))
        return load(result)

    def list_literal(self, node: ListLiteral, scope: Scope) -> ast.expr:
        if (constant := operations.constant(node)) is not operations.UNSET:
            return self.shared(constant)
        items = ast.List(self.values(node.elements, scope), _LOAD)
        return self.run(node, "make_list", self.cost(), items, self.shared(node.optional))

    def map_literal(self, node: MapLiteral, scope: Scope) -> ast.expr:
        if (constant := operations.constant(node)) is not operations.UNSET:
            return self.shared(constant)
        flat = self.values(tuple(part for entry in node.entries for part in entry), scope)
        entries: list[ast.expr] = [
            ast.Tuple([key, value], _LOAD) for key, value in zip(flat[::2], flat[1::2], strict=True)
        ]
        items = ast.List(entries, _LOAD)
        return self.run(node, "make_map", self.cost(), items, self.shared(node.optional))

    def conditional(self, node: Conditional, scope: Scope) -> ast.expr:
        result = self.temporary()
        blocks = []
        for part in (node.then, node.otherwise):
            with self.nested() as block:
                value = self.value(part, scope)
                block.append(assign(result, value))
            blocks.append(block)
        self.block.append(if_(self.truth(node.condition, scope, Refusal(node, "refuse", "?:")), *blocks))
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
        thunk, failed = self.temporary(), self.temporary()
        with self.nested() as attempted:
            value = self.value(node.value, scope)
            attempted.append(assign(name, value))
        body: Block = [
            ast.Nonlocal([name, failed]),
            if_(load(failed), [fail(failed)]),
            self.attempt(node, attempted, failed, [fail(failed)]),
            ast.Return(load(name)),
        ]
        self.block += [
            assign(name, load("UNSET")),
            assign(failed, ast.Constant(None)),
            ast.FunctionDef(thunk, _parameters(), body, []),
        ]
        self.thunks[name] = thunk

    def logic(self, node: Logic, scope: Scope) -> ast.expr:
        """The value in a variable, by one `try` statement for each term; `branch` is for conditions, and emits less."""
        result, failed = self.temporary(), self.temporary()
        decisive = node.operator == "||"
        go_on = load(result) if not decisive else not_(load(result))
        self.block.append(assign(failed, ast.Constant(None)))
        for number, term in enumerate(node.terms):
            with self.nested() as body:
                value = self.truth(term, scope, Refusal(term, "refuse", node.operator))
                body.append(assign(result, value))
            attempt = self.attempt(node, body, failed, [assign(result, ast.Constant(not decisive))])
            self.block.append(if_(go_on, [attempt]) if number else attempt)
        self.block.append(if_(ast.BoolOp(ast.And(), [load(failed), go_on]), [fail(failed)]))
        return load(result)

    def attempt(self, node: Expr, body: Block, failed: str, then: Block) -> ast.stmt:
        """The body; after a failure in it `failed` holds the first error, and `then` runs."""
        if _ABSORB not in self.constants:
            self.constants[_ABSORB] = partial(absorb, self.places, (self.fixed, self.prices.failures))
        note = assign(failed, self.run(node, _ABSORB, load("caught"), load(failed), load(_COST)))
        handler = ast.ExceptHandler(load("ABSORBED"), "caught", [note, *then])
        return ast.Try(body, [handler], [], [])

    def truth(self, node: Expr, scope: Scope, refusal: Refusal) -> ast.expr:
        """The value, after making sure that it is a bool."""
        value = self.value(node, scope)
        if is_bool(node, self.types):
            return value
        stored = self.stored(value)
        refused = self.run(refusal.node, refusal.function, ast.Constant(refusal.what), stored)
        self.block.append(if_(compare(call("type", stored), ast.IsNot(), load("bool")), [ast.Expr(refused)]))
        return stored

    # Conditions.

    def branch(self, node: Expr, scope: Scope, true: Block, false: Block, refusal: Refusal) -> None:
        """Appends statements that run `true` or `false`.  One of them may be empty; the other then ends with a jump."""
        match node:
            case Logic(operator="&&") if false:
                self.terms(node, scope, [], false)
                self.block += true
            case Logic(operator="||") if true:
                self.terms(node, scope, true, [])
                self.block += false
            case Call(function="!_", arguments=(operand,)):
                self.branch(operand, scope, false, true, Refusal(node, "refuse", "!_"))
            case _:
                value = self.truth(node, scope, refusal)
                if true:
                    self.block.append(if_(value, true))
                    self.block += false
                else:
                    self.block.append(if_(not_(value), false))

    def terms(self, node: Logic, scope: Scope, true: Block, false: Block) -> None:
        failed = self.temporary()
        self.block.append(assign(failed, ast.Constant(None)))
        for term in node.terms:
            with self.nested() as body:
                self.branch(term, scope, true, false, Refusal(term, "refuse", node.operator))
            self.block.append(self.attempt(node, body, failed, []))
        self.block.append(if_(load(failed), [fail(failed)]))

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
        target: ast.expr = ast.Name(first, _STORE)
        rounds: ast.expr = items
        if node.second is not None:
            second = self.temporary()
            inner[node.second] = second
            target = ast.Tuple([target, ast.Name(second, _STORE)], _STORE)
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
        steps = ast.Attribute(self.cost(), "steps_left", _STORE)
        left = ast.Attribute(self.cost(), "steps_left", _LOAD)
        return [
            ast.AugAssign(steps, ast.Sub(), ast.Constant(self.prices.round(node))),
            if_(compare(left, ast.Lt(), ast.Constant(0)), [ast.Expr(self.run_method(node, "charge", ast.Constant(0)))]),
        ]

    # Loops of macros.  Each method appends the statements of a round, in which `first` is the name of the element, and
    # returns the statements before the loop, and those of its `else`.

    def quantified(self, node: Comprehension, scope: Scope, _: str, result: str) -> tuple[Block, Block]:
        decisive = node.macro == "exists"
        failed = self.temporary()
        found: Block = [assign(result, ast.Constant(decisive)), ast.Break()]
        with self.nested() as body:
            go_on: Block = [ast.Continue()]
            self.predicate(node, scope, found if decisive else go_on, go_on if decisive else found)
        self.block.append(self.attempt(node, body, failed, []))
        before: Block = [assign(result, ast.Constant(not decisive)), assign(failed, ast.Constant(None))]
        return before, [if_(load(failed), [fail(failed)])]

    def counted(self, node: Comprehension, scope: Scope, _: str, result: str) -> tuple[Block, Block]:
        one = ast.AugAssign(ast.Name(result, _STORE), ast.Add(), ast.Constant(1))
        self.predicate(node, scope, [one, ast.Continue()], [ast.Continue()])
        return [assign(result, ast.Constant(0))], []

    def predicate(self, node: Comprehension, scope: Scope, true: Block, false: Block) -> None:
        predicate = node.predicate or node.range
        self.branch(predicate, scope, true, false, Refusal(predicate, "refuse", node.macro))

    def skip_unwanted(self, node: Comprehension, scope: Scope) -> None:
        if node.predicate is not None:
            self.predicate(node, scope, [], [ast.Continue()])

    def listed(self, node: Comprehension, scope: Scope, first: str, result: str) -> tuple[Block, Block]:
        self.skip_unwanted(node, scope)
        value = load(first) if node.value is None else self.value(node.value, scope)
        self.block.append(ast.Expr(method(load(result), "append", value)))
        return [assign(result, ast.List([], _LOAD))], []

    def mapped(self, node: Comprehension, scope: Scope, first: str, result: str) -> tuple[Block, Block]:
        self.skip_unwanted(node, scope)
        value = self.value(node.value or node.range, scope)
        entry = ast.Subscript(load(result), load(first), _STORE)
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
        return sys.intern(f"t{self.count}")  # so that places and code share it

    def shared(self, value: Any) -> ast.expr:
        """A constant, as a variable around the function if Python has no literal for it."""
        if type(value) in _PLAIN:
            return ast.Constant(value)
        name = sys.intern(f"K{len(self.constants)}")
        self.constants[name] = value
        return load(name)

    def cost(self) -> ast.expr:
        self.charges = True
        return load(_COST)

    def placed(self, code: ast.expr, node: Expr, *operands: str) -> ast.expr:
        """The code, with the number of its place as its line number."""
        self.places.append(Place(node, operands))
        code.lineno = len(self.places)
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
        return load(name), ast.NamedExpr(ast.Name(name, _STORE), value)

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
