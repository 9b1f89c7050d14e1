"""Evaluation by closures: when an expression is compiled, each node becomes a function of a frame.

A frame is a list made for one evaluation: its cost tracker, the inputs, the unknown paths, the prices of failures, then
variables by depth.  So programs are shared between threads, and inputs are only read.

&& || exists all absorb failures, as CEL defines: a deciding term decides, whatever other terms failed with.  Exceeding
a limit of the evaluation is never absorbed.  In partial evaluation, touching an unknown input is a failure as well: it
is absorbed in the same way, and otherwise takes precedence over errors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from typing import Literal as OneOf

from tollbar.cel.analysis.check import check
from tollbar.cel.analysis.checked import Checked, checked, result_kind, too_deep
from tollbar.cel.analysis.reads import Site, reads_of, touched, touches
from tollbar.cel.core.interface import BUDGET, RUNTIME, UNKNOWN, CelEngine, CelError, CostBudget, Env, Inputs, Unknown
from tollbar.cel.core.limits import MAX_STEPS, CostTracker, Fault, quoted
from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import ABSENT, ORDER, Optional, elements, equal, kind, no_overload, ordered, same
from tollbar.cel.engines import operations
from tollbar.cel.engines.prices import Prices, blocks, prices_in_closures
from tollbar.cel.engines.prices import prices as prices_of
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
)

Frame: TypeAlias = list[Any]
Evaluate: TypeAlias = Callable[[Frame], Any]
Scope: TypeAlias = dict[str, int]

_SHALLOW: Final = 4
"""Nested blocks whose closures fit any rest of a piece of CPython's stack, wherever a process evaluates."""
_COST: Final = 0
_INPUTS: Final = 1
_UNKNOWN: Final = 2
_FAILURES: Final = 3
_VARIABLES: Final = 4


class Unsettled(Exception):
    """The value depends on an input that is not known yet."""


class _Broken(NamedTuple):
    """What a bound variable holds after its first use failed: a second attempt would not be charged."""

    error: type[Exception]
    arguments: tuple[Any, ...]


class Charged(NamedTuple):
    """A function of a frame with so many variables, and what is charged for it.

    That is `fixed_cost` in advance, for the nodes outside of loops, and `failures` as in `Prices`.
    """

    run: Evaluate
    variables: int
    fixed_cost: int
    failures: tuple[int, int]

    def answer(
        self,
        tree: Expr,
        result: str,
        inputs: Inputs | Mapping[str, Any],
        unknown: frozenset[str],
        budget: CostBudget | None,
    ) -> Any | CelError | OneOf[Unknown.UNKNOWN]:
        """The value, which must be of the kind `result` unless that is `dyn`, or an error, or UNKNOWN."""
        cost = CostTracker(self.fixed_cost)
        try:
            value = self.run([cost, inputs, unknown, self.failures, *(None,) * self.variables])
            found = result if result == "dyn" else kind(value)
        except Unsettled:
            return UNKNOWN
        except CelError as error:
            return CelError(error.message, error.line, error.column, error.kind)  # without its traceback
        except Fault as fault:  # the value is of no kind that CEL has
            return placed(tree, fault)
        except RecursionError:
            return nested_too_deeply(tree)
        except Exception as error:  # evaluate never raises: a bug here is an error of this rule alone
            return CelError(f"internal error: {type(error).__name__}", tree.line, tree.column, RUNTIME)
        finally:
            if budget is not None:
                budget.steps -= cost.charged
        if found != result:
            return CelError(f"must evaluate to {result} but is {found}", tree.line, tree.column, RUNTIME)
        return value


class Partly:
    """Partial evaluation of a tree, which is always by closures.

    They are made at the first use, types and sites again with them: most programs are never evaluated partially, and
    all of that takes more memory than the rest of a program.
    """

    __slots__ = ("_charged", "_env", "tree")

    def __init__(self, tree: Expr, env: Env) -> None:
        self.tree = tree
        self._env = env
        self._charged: Charged | None = None

    def evaluate(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None
    ) -> Any | CelError | OneOf[Unknown.UNKNOWN]:
        """See `Program.evaluate_partial`."""
        try:
            charged = self._charged or self._made()
        except RecursionError:
            return nested_too_deeply(self.tree)
        answer = charged.answer(self.tree, result_kind(self._env), inputs, unknown, budget)
        return UNKNOWN if isinstance(answer, CelError) and answer.kind == BUDGET else answer

    def _made(self) -> Charged:
        types = check(self.tree, self._env)
        _, sites = reads_of(self.tree, types, self._env)
        self._charged = _charged(self.tree, types, prices_in_closures(self.tree, types), sites)
        return self._charged


@dataclass(frozen=True, slots=True)
class ClosureProgram:
    """`whole` is the function of the tree."""

    source: str
    reads: frozenset[str]
    result: str = field(repr=False)
    whole: Charged = field(repr=False)
    partly: Partly = field(repr=False)

    @property
    def fixed_cost(self) -> int:
        return self.whole.fixed_cost

    def evaluate(self, inputs: Inputs | Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        return self.whole.answer(self.partly.tree, self.result, inputs, frozenset(), budget)

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> Any | CelError | OneOf[Unknown.UNKNOWN]:
        if not unknown or not touches(unknown, self.reads):
            return self.evaluate(inputs, budget)
        return self.partly.evaluate(inputs, unknown, budget)


class ClosuresEngine(CelEngine):
    """Compiles to closures."""

    def compile(self, source: str, env: Env) -> ClosureProgram:
        return closures(checked(source, env))


def closures(found: Checked) -> ClosureProgram:
    """Raises CelError if the remaining stack is too small for the expression."""
    try:
        whole = _charged(found.tree, found.types, prices_of(found.tree, found.types), {})
    except RecursionError:
        raise too_deep() from None
    return ClosureProgram(found.source, found.reads, found.result, whole, Partly(found.tree, found.env))


def failing_constants(source: str, env: Env) -> list[CelError]:
    """See `tollbar.cel.failing_constants`; all parts together may cost what one evaluation may."""
    try:
        found = checked(source, env)
        parts = _constant_parts(found.tree)
        programs = [closures(found._replace(tree=part, env=replace(env, result="dyn"))) for part in parts]
    except (CelError, RecursionError):
        return []
    budget = CostBudget(MAX_STEPS)
    errors = []
    for program in programs:
        answer = program.evaluate({}, budget) if budget.steps > 0 else None
        if isinstance(answer, CelError) and answer.kind == RUNTIME:
            errors.append(answer)
    return errors


def _constant_parts(node: Expr) -> Iterator[Expr]:
    """The largest parts of the tree that need no variable from outside of them, literals excepted."""
    if isinstance(node, Literal):
        return
    if not _needs_variable(node, frozenset()):
        yield node
        return
    for child in children(node):
        yield from _constant_parts(child)


def _needs_variable(node: Expr, bound: frozenset[str]) -> bool:
    match node:
        case Name(name=name, root=root):
            return root or name not in bound
        case Bind(variable=variable, value=value, body=body):
            return _needs_variable(value, bound) or _needs_variable(body, bound | {variable})
        case Comprehension(range=range_, variable=variable, second=second):
            inner = bound | {variable, second or variable}
            parts = [part for part in (node.predicate, node.value) if part is not None]
            return _needs_variable(range_, bound) or any(_needs_variable(part, inner) for part in parts)
        case _:
            return any(_needs_variable(child, bound) for child in children(node))


def _charged(tree: Expr, types: Types, prices: Prices, sites: dict[int, Site]) -> Charged:
    """The function of the whole tree.

    It raises CelError, and Unsettled at a site (by id() of its node) that touches an unknown path.
    """
    builder = _Builder(types, prices, sites)
    run = builder.build(tree, {})
    if blocks(tree) > _SHALLOW:
        run = partial(_with_room, run)
    return Charged(run, builder.variables, prices.fixed(tree), prices.failures)


def _with_room(run: Evaluate, frame: Frame) -> Any:
    """run(frame), whose calls begin in a new piece of the stack.

    CPython keeps the frames of functions in pieces of 16 KiB, and gives a piece back when its first frame returns. A
    loop whose calls begin just before the end of a piece asks the system for memory in every round, and takes ten times
    as long. The frame of this function needs a piece of 256 KiB, of which half is left for deeply nested closures.
    """
    return run(frame)


_with_room.__code__ = _with_room.__code__.replace(co_stacksize=16_500)


class _Builder:
    def __init__(self, types: Types, prices: Prices, sites: dict[int, Site]) -> None:
        self.types = types
        self.prices = prices
        self.sites = sites
        self.variables = 0
        self.lazy: dict[int, Evaluate] = {}
        """How to compute the bound variable in that place of the frame."""

    def build(self, node: Expr, scope: Scope) -> Evaluate:
        """The function of the node; `scope` maps the variables of macros to their places in a frame."""
        run: Evaluate = _BUILD[type(node)](self, node, scope)
        site = self.sites.get(id(node))
        return run if site is None else _guarded(run, site)

    def slot(self, scope: Scope, name: str) -> Scope:
        """The scope with one more variable; each has a place of its own, because bound ones are computed late."""
        self.variables += 1
        return {**scope, name: _VARIABLES + self.variables - 1}

    def literal(self, node: Literal, scope: Scope) -> Evaluate:  # noqa: ARG002
        value = node.value
        return lambda _: value

    def name(self, node: Name, scope: Scope) -> Evaluate:
        name = node.name
        if name in scope and not node.root:
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
        """The function, with its faults as errors at the node."""

        def placing(frame: Frame) -> Any:
            try:
                return run(frame)
            except Fault as fault:
                raise placed(node, fault) from None

        return placing

    def select(self, node: Select, scope: Scope) -> Evaluate:
        operand, field = self.build(node.operand, scope), node.field
        if node.optional:
            return self.faulting(node, lambda frame: operations.optional_index(frame[_COST], operand(frame), field))
        if node.test:
            return self.faulting(node, lambda frame: operations.has(operand(frame), field))
        return self.faulting(node, lambda frame: operations.select(operand(frame), field))

    def index(self, node: Index, scope: Scope) -> Evaluate:
        """The index of an absent optional is not evaluated."""
        operand, index = self.build(node.operand, scope), self.build(node.index, scope)
        literal, optional = isinstance(node.index, Literal), node.optional

        def element(frame: Frame) -> Any:
            container = operand(frame)
            if container is ABSENT:
                return ABSENT
            if optional:
                return operations.optional_index(frame[_COST], container, index(frame))
            return operations.index(frame[_COST], container, index(frame), literal=literal)

        return self.faulting(node, element)

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
            return implementation(frame[_COST], *values)

        return self.faulting(node, call)

    def relation(self, node: Call, left: Evaluate, right: Evaluate) -> Evaluate:
        """Comparisons; those that the compiled engine does in place are not charged here either."""
        name, (a, b) = node.function, node.arguments
        if name in ("_==_", "_!=_") and (operations.plain_literal(a) or operations.plain_literal(b)):
            return self.compared(node, a, right) if operations.plain_literal(a) else self.compared(node, b, left)
        if name == "_in_" and (strings := operations.constant_strings(b)) is not None:
            return lambda frame: left(frame) in strings
        compare = _RELATIONS[name]
        return self.faulting(node, lambda frame: compare(frame[_COST], left(frame), right(frame)))

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
        if (constant := operations.constant(node)) is not operations.UNSET:
            return lambda _: constant
        items = tuple(self.build(element, scope) for element in node.elements)
        optional = node.optional
        return self.faulting(
            node, lambda frame: operations.make_list(frame[_COST], [item(frame) for item in items], optional)
        )

    def map_literal(self, node: MapLiteral, scope: Scope) -> Evaluate:
        if (constant := operations.constant(node)) is not operations.UNSET:
            return lambda _: constant
        entries = tuple((self.build(key, scope), self.build(value, scope)) for key, value in node.entries)
        optional = node.optional
        return self.faulting(
            node,
            lambda frame: operations.make_map(
                frame[_COST], [(key(frame), value(frame)) for key, value in entries], optional
            ),
        )

    # Macros.

    def bind(self, node: Bind, scope: Scope) -> Evaluate:
        value, inner = self.build(node.value, scope), self.slot(scope, node.variable)
        place = inner[node.variable]
        if node.lazy:
            self.lazy[place] = self.faulting(node, _at_first_use(value))
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
        """Sets the variables to one element after the other, and charges for what is done with it."""
        range_, macro = self.build(node.range, scope), node.macro
        per_round = self.prices.round(node)
        first, sized = inner[node.variable], macro in operations.SIZED
        second = None if node.second is None else inner[node.second]

        def rounds(frame: Frame) -> Iterator[Any]:
            items = elements(range_(frame), macro)
            cost = frame[_COST]
            if sized:
                cost.new_list(len(items))
            for item in items if second is None else operations.pairs(items, macro):
                cost.charge(per_round)
                if second is None:
                    frame[first] = item
                else:
                    frame[first], frame[second] = item
                yield frame[first]

        return rounds


def _at_first_use(value: Evaluate) -> Evaluate:
    """The value of a bound variable; a failure is kept, and charged like one that a term absorbs."""

    def compute(frame: Frame) -> Any:
        try:
            return value(frame)
        except (CelError, Unsettled) as caught:
            _absorbed(None, caught)
            frame[_COST].charge(frame[_FAILURES][0])
            raise

    return compute


Rounds: TypeAlias = Callable[[Frame], Iterator[Any]]


def _guarded(run: Evaluate, site: Site) -> Evaluate:
    def guarded(frame: Frame) -> Any:
        if touched(site, frame[_UNKNOWN]):
            raise Unsettled
        return run(frame)

    return guarded


def nested_too_deeply(tree: Expr) -> CelError:
    """The error of an evaluation that the remaining stack is too small for."""
    return CelError("evaluation is nested too deeply", tree.line, tree.column, BUDGET)


def placed(node: Expr, fault: Fault) -> CelError:
    return CelError(fault.message, node.line, node.column, fault.kind)


def _absorbed(failure: Exception | None, caught: Exception) -> Exception:
    """Which of two failures to keep: an unknown input, or else the first error.  An exceeded limit is raised again."""
    if isinstance(caught, CelError) and caught.kind == BUDGET:
        raise caught
    return caught if failure is None or (isinstance(caught, Unsettled) and isinstance(failure, CelError)) else failure


def _order(name: str) -> Callable[[CostTracker, Any, Any], bool]:
    return lambda cost, a, b: ordered(name, a, b, cost)


def _settled(decisive: bool, terms: Iterable[Evaluate], frame: Frame) -> Any:
    """The decisive value if any term has it, whatever others do; else the first failure, or else the other value."""
    failure: Exception | None = None
    for term in terms:
        try:
            if term(frame) is decisive:
                return decisive
        except (CelError, Unsettled) as caught:
            first, failure = failure is None, _absorbed(failure, caught)
            frame[_COST].charge(frame[_FAILURES][not first])
    if failure is None:
        return not decisive
    try:
        raise failure
    finally:
        del failure  # or the exception and this frame would hold on to each other


# The loops of macros, of their rounds, predicate and value.


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
                operations.insert_all(frame[_COST], result, value(frame))
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
_RELATIONS: Final[dict[str, Callable[[CostTracker, Any, Any], bool]]] = {
    "_==_": lambda cost, a, b: equal(a, b, cost),
    "_!=_": lambda cost, a, b: not same(a, b, cost),
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
