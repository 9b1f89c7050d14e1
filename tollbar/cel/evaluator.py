"""Evaluation of a tree, within a budget.

Why not cel-python's evaluator: it never short-circuits, it takes the truth of things that are not bool, an error
inside exists() doubles its text with every element, undeclared names dump the whole input, and each macro step
copies the variables.  This one visits the same parse of the same grammar with the library's types for what JSON
lacks, pays a step for every node, and reads JSON in place.

Errors: && || exists all absorb them, as CEL defines: a deciding term decides, whatever else failed.  A spent budget
is never absorbed.  Nothing is shared between evaluations; inputs are only read.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from tollbar.cel.interface import BUDGET, RUNTIME, CelError
from tollbar.cel.library import LIBRARY
from tollbar.cel.limits import ERROR_STEPS, Budget, Fault, quoted, shortened
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
from tollbar.cel.values import KINDS, ORDER, contains, elements, equal, kind, lookup, no_overload, ordered

Scope = Mapping[str, Any]


class Evaluation:
    """One evaluation of one tree."""

    __slots__ = ("budget",)

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def visit(self, node: Expr, scope: Scope) -> Any:
        """The value of the node.  Raises CelError."""
        budget = self.budget
        budget.steps -= 1
        try:
            if budget.steps < 0:
                budget.spend(0)
            return _VISIT[type(node)](self, node, scope)
        except Fault as fault:
            raise CelError(fault.message, node.line, node.column, fault.kind) from None

    def literal(self, node: Literal, scope: Scope) -> Any:  # noqa: ARG002
        return node.value

    def name(self, node: Name, scope: Scope) -> Any:
        try:
            return scope[node.name]
        except KeyError:
            raise Fault(f"variable {quoted(node.name)} has no value") from None

    def select(self, node: Select, scope: Scope) -> Any:
        operand = self.visit(node.operand, scope)
        if KINDS.get(type(operand)) != "map":
            raise Fault(f"no such overload: {kind(operand)} has no fields")
        if node.test:
            return node.field in operand
        try:
            return operand[node.field]
        except KeyError:
            raise Fault(f"no such key: {shortened(node.field)}") from None

    def index(self, node: Index, scope: Scope) -> Any:
        return lookup(self.visit(node.operand, scope), self.visit(node.index, scope))

    def call(self, node: Call, scope: Scope) -> Any:
        arguments = [self.visit(argument, scope) for argument in node.arguments]
        name = node.function
        if name in _RELATIONS:
            return _RELATIONS[name](arguments[0], arguments[1], self.budget)
        implementation = LIBRARY.exact[name, node.method].get(tuple(map(type, arguments)))
        if implementation is None:
            raise no_overload(name, *arguments)
        return implementation(self.budget, *arguments)

    def list_literal(self, node: ListLiteral, scope: Scope) -> Any:
        self.budget.new_list(len(node.elements))
        return [self.visit(element, scope) for element in node.elements]

    def map_literal(self, node: MapLiteral, scope: Scope) -> Any:
        self.budget.new_list(len(node.entries))
        result: dict[Any, Any] = {}
        for key_node, value_node in node.entries:
            key = self.visit(key_node, scope)
            if kind(key) not in ("string", "int", "uint"):
                raise Fault(f"map keys are strings or integers, not {kind(key)}")
            if key in result:
                raise Fault("map key is repeated")
            result[key] = self.visit(value_node, scope)
        return result

    def conditional(self, node: Conditional, scope: Scope) -> Any:
        condition = self.visit(node.condition, scope)
        if type(condition) is not bool:
            raise no_overload("?:", condition)
        return self.visit(node.then if condition else node.otherwise, scope)

    def logic(self, node: Logic, scope: Scope) -> bool:
        decisive = node.operator == "||"
        error: CelError | None = None
        for term in node.terms:
            try:
                if self.truth(term, scope, node.operator) is decisive:
                    return decisive
            except CelError as caught:
                error = self.absorbed(error, caught)
        if error is not None:
            raise error
        return not decisive

    def truth(self, node: Expr, scope: Scope, operator: str) -> bool:
        value = self.visit(node, scope)
        if type(value) is not bool:
            fault = no_overload(operator, value)
            raise CelError(fault.message, node.line, node.column, fault.kind)
        return value

    def bind(self, node: Bind, scope: Scope) -> Any:
        return self.visit(node.body, {**scope, node.variable: self.visit(node.value, scope)})

    def comprehension(self, node: Comprehension, scope: Scope) -> Any:
        items = elements(self.visit(node.range, scope), node.macro)
        match node.macro:
            case "exists" | "all":
                return self.quantified(node, items, dict(scope))
            case "exists_one" | "existsOne":
                return self.counted(node, items, dict(scope)) == 1
            case _:
                return self.listed(node, items, dict(scope))

    def counted(self, node: Comprehension, items: Any, scope: dict[str, Any]) -> int:
        return sum(self.kept(node, item, scope) for item in items)

    def quantified(self, node: Comprehension, items: Any, scope: dict[str, Any]) -> bool:
        decisive = node.macro == "exists"
        error: CelError | None = None
        for item in items:
            try:
                if self.kept(node, item, scope) is decisive:
                    return decisive
            except CelError as caught:
                error = self.absorbed(error, caught)
        if error is not None:
            raise error
        return not decisive

    def absorbed(self, error: CelError | None, caught: CelError) -> CelError:
        """The error to keep of two, the first; a spent budget ends everything."""
        if caught.kind == BUDGET:
            raise caught
        self.budget.spend(ERROR_STEPS)
        return error or caught

    def kept(self, node: Comprehension, item: Any, scope: dict[str, Any]) -> bool:
        scope[node.variable] = item
        return node.predicate is None or self.truth(node.predicate, scope, node.macro)

    def listed(self, node: Comprehension, items: Any, scope: dict[str, Any]) -> list[Any]:
        self.budget.new_list(len(items))
        return [
            item if node.value is None else self.visit(node.value, scope)
            for item in items
            if self.kept(node, item, scope)
        ]


_RELATIONS: Final[dict[str, Callable[[Any, Any, Budget], bool]]] = {
    "_==_": equal,
    "_!=_": lambda a, b, budget: not equal(a, b, budget),
    "_in_": contains,
    **{name: partial(ordered, name) for name in ORDER},
}
_VISIT: Final[dict[type, Callable[[Evaluation, Any, Scope], Any]]] = {
    Literal: Evaluation.literal,
    Name: Evaluation.name,
    Select: Evaluation.select,
    Index: Evaluation.index,
    Call: Evaluation.call,
    ListLiteral: Evaluation.list_literal,
    MapLiteral: Evaluation.map_literal,
    Conditional: Evaluation.conditional,
    Logic: Evaluation.logic,
    Bind: Evaluation.bind,
    Comprehension: Evaluation.comprehension,
}


def evaluate(tree: Expr, inputs: Scope, budget: Budget) -> Any:
    """The value of the expression, or the CelError that it ends in.  Never raises."""
    try:
        return Evaluation(budget).visit(tree, inputs)
    except CelError as error:
        return CelError(error.message, error.line, error.column, error.kind)
    except RecursionError:
        return CelError("evaluation is nested too deeply", tree.line, tree.column, BUDGET)
    except Exception as error:  # the promise to callers: a bug here is one rule's error, not theirs
        return CelError(f"internal error: {type(error).__name__}", tree.line, tree.column, RUNTIME)
