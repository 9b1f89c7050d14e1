"""What the nodes of a tree do to values, for every engine alike; also how much of the budget they take.

An engine pays for the nodes of a stretch of code that has no loop when it enters it (`nodes`), so a program without
loops pays once, in advance; data is paid for here and in the library, by its length.  Everything raises Fault: the
engine knows the place.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tollbar.cel.core.limits import CHARACTERS_PER_STEP, CostTracker, Fault, shortened
from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import KINDS, KUBERNETES, Optional, elements, keyed, kind, lookup, no_overload
from tollbar.cel.core.values import contains as _contains
from tollbar.cel.library.optionals import maybe
from tollbar.cel.library.table import LIBRARY
from tollbar.cel.syntax.tree import Call, Comprehension, Expr, ListLiteral, Literal, children

SHORT: Final = CHARACTERS_PER_STEP
"""Characters below which comparing with a literal string costs nothing, so that engines may do it in place."""
MANY: Final = 64
"""Literals in a list that `in` may search in place."""
_EXACT: Final = 2**53
"""Integers below it are exact as doubles, which numbers of different types are compared as."""
OR_ELSE: Final = frozenset({"or", "orValue"})
"""Methods of an optional whose argument is evaluated only when there is no value."""

SIZED: Final = frozenset({"filter", "map", "transformList", "transformMap"})
"""Macros that make a list, or a map, of at most as many elements as they look at."""
UNSET: Final = object()
"""The value of a bound variable before its first use."""


def nodes(node: Expr | None) -> int:
    """How many nodes are evaluated, at most, when the node is, without what loops repeat."""
    if node is None:
        return 0
    if isinstance(node, Comprehension):
        return 1 + nodes(node.range)
    return 1 + sum(map(nodes, children(node)))


def repeated(node: Comprehension) -> int:
    """The same for each round of a loop, with what a round itself takes, and an error that it may end in."""
    return 2 + nodes(node.predicate) + nodes(node.value)


def constant_list(node: Expr) -> list[Any] | None:
    """What a list of literals holds, which nobody may change; None for any other node."""
    if not isinstance(node, ListLiteral) or node.optional:
        return None
    values = [element.value for element in node.elements if isinstance(element, Literal)]
    return values if len(values) == len(node.elements) else None


def constant_strings(node: Expr) -> tuple[str, ...] | None:
    """What a list of a few short literal strings holds; None for any other node."""
    values = constant_list(node)
    if values is None or len(values) > MANY or any(type(value) is not str or len(value) >= SHORT for value in values):
        return None
    return tuple(values)


def plain_literal(node: Expr) -> bool:
    """Whether == with this node is decided by Python's ==, for JSON at no cost; see also `refused`."""
    if not isinstance(node, Literal):
        return False
    value = node.value
    if type(value) is int or type(value) is float:
        return abs(value) < _EXACT
    return value is None or type(value) is bool or (type(value) is str and len(value) < SHORT)


def equals_plain(value: Any, literal: Any) -> bool:
    """value == literal, for a plain literal: a bool is never a number, whatever Python says."""
    if type(literal) is bool or literal is None:
        return value is literal
    return type(value) is not bool and bool(value == literal)


def refused(value: Any, literal: Any) -> bool:
    """False, for a value on the left of == that does not equal the plain literal; Fault for a kind that minds."""
    if literal is not None and KINDS.get(type(value)) in KUBERNETES:
        raise no_overload("==", value, literal)
    return False


def implementations(call: Call, types: Types) -> dict[tuple[type, ...], Any]:
    """What may be called, by the types of the arguments; static types tell what an empty list does not."""
    if call.function == "sum":
        return LIBRARY.typed(call.function, call.method, tuple(types[id(argument)] for argument in call.arguments))
    return LIBRARY.exact[call.function, call.method]


def select(container: Any, field: str) -> Any:
    """container.field; subclasses of dict are maps here because Python's own selection knows no better."""
    if isinstance(container, dict):
        try:
            return container[field]
        except KeyError:
            raise Fault(f"no such key: {shortened(field)}") from None
    if type(container) is Optional:
        return maybe(container, field)
    raise Fault(f"no such overload: {kind(container)} has no fields")


def has(container: Any, field: str) -> bool:
    """has(container.field): what has no fields does not have this one."""
    return bool(maybe(container, field).present)


def optional_index(cost: CostTracker, container: Any, key: Any) -> Optional:
    """container[?key] and container.?key"""
    if type(key) is str:
        cost.read(len(key))
    return maybe(container, key)


def index(cost: CostTracker, container: Any, key: Any, *, literal: bool = False) -> Any:
    """container[key].  An error names the key when the expression does; any other may be data."""
    if type(key) is str:
        cost.read(len(key))
        if isinstance(container, dict):
            try:
                return container[key]
            except KeyError:
                raise Fault(f"no such key: {shortened(key)}" if literal else "no such key") from None
    return maybe(container, key) if type(container) is Optional else lookup(container, key)


def contains(cost: CostTracker, item: Any, container: Any) -> bool:
    """item in container"""
    if type(item) is str and KINDS.get(type(container)) == "map":
        if len(item) >= CHARACTERS_PER_STEP:
            cost.read(len(item))
        if type(container) is dict:
            return item in container
    return _contains(item, container, cost)


def make_list(cost: CostTracker, items: list[Any], optional: Iterable[int] = ()) -> list[Any]:
    """[items]; the items at the positions in `optional` are optionals, and left out when they are absent."""
    cost.new_list(len(items))
    if not optional:
        return items
    return [value for position, item in enumerate(items) for value in _given(item, position in optional)]


def make_map(cost: CostTracker, pairs: list[tuple[Any, Any]], optional: Iterable[int] = ()) -> dict[Any, Any]:
    """{pairs}, in the same way; the last of equal keys wins."""
    cost.new_list(len(pairs))
    return keyed(
        (_key(key), found)
        for position, (key, value) in enumerate(pairs)
        for found in _given(value, position in optional)
    )


def as_map(result: dict[Any, Any]) -> dict[Any, Any]:
    """What a macro collected, as a value: of its keys, bools are no integers."""
    return keyed(result.items()) if any(type(key) is bool for key in result) else result


def _given(value: Any, optional: bool) -> tuple[Any, ...]:
    if not optional:
        return (value,)
    if type(value) is not Optional:
        raise Fault(f"an entry with ? needs an optional, not {kind(value)}")
    return (value.value,) if value.present else ()


def _key(key: Any) -> Any:
    if kind(key) not in ("string", "int", "uint", "bool"):
        raise Fault(f"map keys are strings, integers or bools, not {kind(key)}")
    return key


def insert_all(cost: CostTracker, result: dict[Any, Any], entry: Any) -> None:
    """What transformMapEntry() does with the map that it is given for each element."""
    if kind(entry) != "map":
        raise no_overload("transformMapEntry", entry)
    cost.new_list(len(entry))
    if not result.keys().isdisjoint(entry):
        raise Fault("map key is repeated")
    result.update(entry)


def pairs(container: Any, macro: str) -> Iterator[tuple[Any, Any]]:
    """What a macro with two variables runs over: indices, or keys, and elements."""
    found = elements(container, macro)
    return iter(found.items()) if kind(found) == "map" else enumerate(found)
