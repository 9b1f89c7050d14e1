"""Evaluation by closures: each node becomes a function of a frame, once, when the expression is compiled.

Called by the engines: as an engine of its own, as what the compiled engine falls back to for errors, and for partial
evaluation.  A frame is a list made for one evaluation (budget, inputs, unknown paths, then variables by depth), so
programs are shared between threads; inputs are only read.

Errors: && || exists all absorb them, as CEL defines: a deciding term decides, whatever else failed.  A spent budget
is never absorbed.  What is not known yet is an error that gives way to a decision, and comes before other errors.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from tollbar.cel.analysis.check import Types
from tollbar.cel.analysis.reads import Site, touched
from tollbar.cel.core.interface import BUDGET, CelError
from tollbar.cel.core.limits import Budget, Fault, quoted
from tollbar.cel.core.values import ORDER, Optional, elements, equal, no_overload, ordered, same
from tollbar.cel.engines import operations
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

Frame: TypeAlias = list[Any]
Evaluate: TypeAlias = Callable[[Frame], Any]
Scope: TypeAlias = dict[str, int]

_BUDGET: Final = 0
_INPUTS: Final = 1
_UNKNOWN: Final = 2
_VARIABLES: Final = 3


class Unsettled(Exception):
    """The value depends on an input that is not known yet."""


class _Broken(NamedTuple):
    """What a bound variable has instead of a value after its first use failed: another attempt would be for free."""

    error: type[Exception]
    arguments: tuple[Any, ...]


def frame(budget: Budget, inputs: Any, unknown: frozenset[str], variables: int) -> Frame:
    return [budget, inputs, unknown, *(None,) * variables]


def closure(tree: Expr, types: Types, sites: dict[int, Site] | None = None) -> tuple[Evaluate, int]:
    """The function of the whole tree, and how many variables its frames need.

    It raises CelError, and with `sites` Unsettled where one of them (by id() of its node) touches an unknown path.
    """
    builder = _Builder(types, sites or {})
    return builder.build(tree, {}), builder.variables


class _Builder:
    def __init__(self, types: Types, sites: dict[int, Site]) -> None:
        self.types = types
        self.sites = sites
        self.variables = 0
        self.lazy: dict[int, Evaluate] = {}
        """How to compute the bound variable in that place of the frame."""

    def build(self, node: Expr, scope: Scope) -> Evaluate:
        """The function of the node; `scope` tells where in a frame the variables of macros are."""
        run: Evaluate = _BUILD[type(node)](self, node, scope)
        site = self.sites.get(id(node))
        return run if site is None else _guarded(run, site)

    def slot(self, scope: Scope, name: str) -> Scope:
        """The scope with one more variable; no two have the same place, because bound ones are computed late."""
        self.variables += 1
        return {**scope, name: _VARIABLES + self.variables - 1}

    def literal(self, node: Literal, scope: Scope) -> Evaluate:  # noqa: ARG002
        value = node.value
        return lambda _: value

    def name(self, node: Name, scope: Scope) -> Evaluate:
        name = node.name
        if name in scope:
            return self.bound(scope[name])

        def variable(frame: Frame) -> Any:
            try:
                return frame[_INPUTS][name]
            except KeyError:
                raise placed(node, Fault(f"variable {quoted(name)} has no value")) from None

        return variable

    def bound(self, place: int) -> Evaluate:
        compute = self.lazy.get(place)
        if compute is None:
            return lambda frame: frame[place]

        def first_use(frame: Frame) -> Any:
            value = frame[place]
            if value is operations.UNSET:
                try:
                    value = frame[place] = compute(frame)
                except (CelError, Unsettled) as caught:
                    frame[place] = _Broken(type(caught), caught.args)
                    raise
            elif type(value) is _Broken:
                raise value.error(*value.arguments)
            return value

        return first_use

    def faulting(self, node: Expr, run: Evaluate) -> Evaluate:
        """The function, with the faults of its own work placed at the node."""

        def placing(frame: Frame) -> Any:
            try:
                return run(frame)
            except Fault as fault:
                raise placed(node, fault) from None

        return placing

    def select(self, node: Select, scope: Scope) -> Evaluate:
        operand, field = self.build(node.operand, scope), node.field
        if node.optional:
            return self.faulting(node, lambda frame: operations.optional_index(frame[_BUDGET], operand(frame), field))
        if node.test:
            return self.faulting(node, lambda frame: operations.has(operand(frame), field))
        return self.faulting(node, lambda frame: operations.select(operand(frame), field))

    def index(self, node: Index, scope: Scope) -> Evaluate:
        operand, index = self.build(node.operand, scope), self.build(node.index, scope)
        if node.optional:
            return self.faulting(
                node, lambda frame: operations.optional_index(frame[_BUDGET], operand(frame), index(frame))
            )
        literal = isinstance(node.index, Literal)
        return self.faulting(
            node, lambda frame: operations.index(frame[_BUDGET], operand(frame), index(frame), literal=literal)
        )

    # Operators and functions.

    def call(self, node: Call, scope: Scope) -> Evaluate:
        arguments = tuple(self.build(argument, scope) for argument in node.arguments)
        if node.function in _RELATIONS:
            return self.relation(node, *arguments)
        if node.method and node.function in operations.OR_ELSE and len(arguments) == 2:
            return self.or_else(node, *arguments)
        found = operations.implementations(node, self.types)
        name = node.function

        def call(frame: Frame) -> Any:
            values = [argument(frame) for argument in arguments]
            try:
                implementation = found[tuple(map(type, values))]
            except KeyError:
                raise no_overload(name, *values) from None
            return implementation(frame[_BUDGET], *values)

        return self.faulting(node, call)

    def relation(self, node: Call, left: Evaluate, right: Evaluate) -> Evaluate:
        """Comparisons; those that the compiled engine does in place cost nothing here either."""
        name, (a, b) = node.function, node.arguments
        if name in ("_==_", "_!=_") and (operations.plain_literal(a) or operations.plain_literal(b)):
            return self.compared(node, a, right) if operations.plain_literal(a) else self.compared(node, b, left)
        if name == "_in_" and (strings := operations.constant_strings(b)) is not None:
            return lambda frame: left(frame) in strings
        compare = _RELATIONS[name]
        return self.faulting(node, lambda frame: compare(frame[_BUDGET], left(frame), right(frame)))

    def compared(self, node: Call, literal: Any, run: Evaluate) -> Evaluate:
        wanted, equals = literal.value, operations.equals_plain
        if node.function == "_!=_":
            return lambda frame: not equals(run(frame), wanted)
        if literal is node.arguments[0]:
            return lambda frame: equals(run(frame), wanted)

        def compare(frame: Frame) -> bool:
            value = run(frame)
            return equals(value, wanted) or operations.refused(value, wanted)

        return self.faulting(node, compare)

    def or_else(self, node: Call, optional: Evaluate, other: Evaluate) -> Evaluate:
        name, whole = node.function, node.function == "or"

        def choose(frame: Frame) -> Any:
            value = optional(frame)
            if type(value) is not Optional:
                raise no_overload(name, value)
            if value.present:
                return value if whole else value.value
            found = other(frame)
            if whole and type(found) is not Optional:
                raise no_overload(name, value, found)
            return found

        return self.faulting(node, choose)

    def conditional(self, node: Conditional, scope: Scope) -> Evaluate:
        condition, then, otherwise = (self.build(part, scope) for part in (node.condition, node.then, node.otherwise))

        def choose(frame: Frame) -> Any:
            value = condition(frame)
            if type(value) is not bool:
                raise no_overload("?:", value)
            return then(frame) if value else otherwise(frame)

        return self.faulting(node, choose)

    def logic(self, node: Logic, scope: Scope) -> Evaluate:
        terms = tuple(self.truth(term, scope, node.operator) for term in node.terms)
        decisive: bool = node.operator == "||"

        return self.faulting(node, lambda frame: _settled(decisive, terms, frame))

    def truth(self, node: Expr, scope: Scope, what: str) -> Evaluate:
        run = self.build(node, scope)

        def truth(frame: Frame) -> bool:
            value = run(frame)
            if type(value) is not bool:
                raise placed(node, no_overload(what, value))
            return value

        return self.faulting(node, truth)

    # Literals.

    def list_literal(self, node: ListLiteral, scope: Scope) -> Evaluate:
        if (constant := operations.constant_list(node)) is not None:
            return lambda _: constant
        items = tuple(self.build(element, scope) for element in node.elements)
        optional = node.optional
        return self.faulting(
            node, lambda frame: operations.make_list(frame[_BUDGET], [item(frame) for item in items], optional)
        )

    def map_literal(self, node: MapLiteral, scope: Scope) -> Evaluate:
        entries = tuple((self.build(key, scope), self.build(value, scope)) for key, value in node.entries)
        optional = node.optional
        return self.faulting(
            node,
            lambda frame: operations.make_map(
                frame[_BUDGET], [(key(frame), value(frame)) for key, value in entries], optional
            ),
        )

    # Macros.

    def bind(self, node: Bind, scope: Scope) -> Evaluate:
        value, inner = self.build(node.value, scope), self.slot(scope, node.variable)
        place = inner[node.variable]
        if node.lazy:
            self.lazy[place] = value
        body = self.build(node.body, inner)

        def eager(frame: Frame) -> Any:
            frame[place] = value(frame)
            return body(frame)

        def lazy(frame: Frame) -> Any:
            frame[place] = operations.UNSET
            return body(frame)

        return lazy if node.lazy else eager

    def comprehension(self, node: Comprehension, scope: Scope) -> Evaluate:
        inner = self.inner(node, scope)
        rounds = self.rounds(node, scope, inner)
        predicate = None if node.predicate is None else self.truth(node.predicate, inner, node.macro)
        value = None if node.value is None else self.build(node.value, inner)
        run = _LOOPS[node.macro](rounds, predicate, value)
        return self.faulting(node, run)

    def inner(self, node: Comprehension, scope: Scope) -> Scope:
        inner = self.slot(scope, node.variable)
        return inner if node.second is None else self.slot(inner, node.second)

    def rounds(self, node: Comprehension, scope: Scope, inner: Scope) -> "Rounds":
        """Sets the variables for one element after the other, and pays for what is done with it."""
        range_, macro = self.build(node.range, scope), node.macro
        cost = operations.repeated(node)
        first, sized = inner[node.variable], macro in operations.SIZED

        if node.second is None:

            def one(frame: Frame) -> Iterator[Any]:
                items = elements(range_(frame), macro)
                budget = frame[_BUDGET]
                if sized:
                    budget.new_list(len(items))
                for item in items:
                    budget.spend(cost)
                    frame[first] = item
                    yield item

            return one
        second = inner[node.second]

        def two(frame: Frame) -> Iterator[Any]:
            items = elements(range_(frame), macro)
            budget = frame[_BUDGET]
            if sized:
                budget.new_list(len(items))
            for key, item in operations.pairs(items, macro):
                budget.spend(cost)
                frame[first], frame[second] = key, item
                yield key

        return two


Rounds: TypeAlias = Callable[[Frame], Iterator[Any]]


def _guarded(run: Evaluate, site: Site) -> Evaluate:
    def guarded(frame: Frame) -> Any:
        if touched(site, frame[_UNKNOWN]):
            raise Unsettled
        return run(frame)

    return guarded


def placed(node: Expr, fault: Fault) -> CelError:
    return CelError(fault.message, node.line, node.column, fault.kind)


def _absorbed(failure: Exception | None, caught: Exception) -> Exception:
    """The failure to keep of two: the first error, but rather what is not known; a spent budget ends everything."""
    if isinstance(caught, CelError) and caught.kind == BUDGET:
        raise caught
    return caught if failure is None or (isinstance(caught, Unsettled) and isinstance(failure, CelError)) else failure


def _order(name: str) -> Callable[[Budget, Any, Any], bool]:
    return lambda budget, a, b: ordered(name, a, b, budget)


def _settled(decisive: bool, terms: Iterable[Evaluate], frame: Frame) -> Any:
    """The decisive value if any term has it, whatever others do; else the first failure, or else the other value."""
    failure: Exception | None = None
    for term in terms:
        try:
            if term(frame) is decisive:
                return decisive
        except (CelError, Unsettled) as caught:
            failure = _absorbed(failure, caught)
    if failure is None:
        return not decisive
    try:
        raise failure
    finally:
        del failure  # or the exception and this frame would hold on to each other


# The loops: each gets the rounds, the predicate and the value.


def _quantified(decisive: bool) -> Callable[..., Evaluate]:
    def loop(rounds: Rounds, predicate: Evaluate, _: None) -> Evaluate:
        return lambda frame: _settled(decisive, (predicate for _ in rounds(frame)), frame)

    return loop


def _exactly_one(rounds: Rounds, predicate: Evaluate, _: None) -> Evaluate:
    return lambda frame: sum(predicate(frame) for _ in rounds(frame)) == 1


def _filter(rounds: Rounds, predicate: Evaluate, _: None) -> Evaluate:
    return lambda frame: [item for item in rounds(frame) if predicate(frame)]


def _map(rounds: Rounds, predicate: Evaluate | None, value: Evaluate) -> Evaluate:
    if predicate is None:
        return lambda frame: [value(frame) for _ in rounds(frame)]
    return lambda frame: [value(frame) for _ in rounds(frame) if predicate(frame)]


def _transform_map(rounds: Rounds, predicate: Evaluate | None, value: Evaluate) -> Evaluate:
    if predicate is None:
        return lambda frame: operations.as_map({key: value(frame) for key in rounds(frame)})
    return lambda frame: operations.as_map({key: value(frame) for key in rounds(frame) if predicate(frame)})


def _transform_entries(rounds: Rounds, predicate: Evaluate | None, value: Evaluate) -> Evaluate:
    def transform(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for _ in rounds(frame):
            if predicate is None or predicate(frame):
                operations.insert_all(frame[_BUDGET], result, value(frame))
        return operations.as_map(result)

    return transform


_LOOPS: Final[dict[str, Callable[..., Evaluate]]] = {
    "exists": _quantified(True),
    "all": _quantified(False),
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
}
_RELATIONS: Final[dict[str, Callable[[Budget, Any, Any], bool]]] = {
    "_==_": lambda budget, a, b: equal(a, b, budget),
    "_!=_": lambda budget, a, b: not same(a, b, budget),
    "_in_": operations.contains,
    **{name: _order(name) for name in ORDER},
}
_BUILD: Final[dict[type, Callable[[_Builder, Any, Scope], Evaluate]]] = {
    Literal: _Builder.literal,
    Name: _Builder.name,
    Select: _Builder.select,
    Index: _Builder.index,
    Call: _Builder.call,
    ListLiteral: _Builder.list_literal,
    MapLiteral: _Builder.map_literal,
    Conditional: _Builder.conditional,
    Logic: _Builder.logic,
    Bind: _Builder.bind,
    Comprehension: _Builder.comprehension,
}
