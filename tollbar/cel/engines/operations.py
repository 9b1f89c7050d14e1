"""What nodes of the tree do with values, in closures and compiled functions alike.

Work on data is charged by its length, here and in the library.  Failures are Faults.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tollbar.cel.core.limits import SHORT, CostTracker, Fault, shortened
from tollbar.cel.core.schema import Types
from tollbar.cel.core.values import KINDS, KUBERNETES, Optional, Uint, elements, keyed, kind, lookup, no_overload
from tollbar.cel.core.values import contains as _contains
from tollbar.cel.library.optionals import maybe
from tollbar.cel.library.table import LIBRARY
from tollbar.cel.syntax.tree import Call, Expr, ListLiteral, Literal, MapLiteral

MANY: Final = 64
"""The most literals of a list that `in` may search in place."""
_EXACT: Final = 2**53
"""Integers below it are exact as doubles; numbers of different types are compared as doubles."""
OR_ELSE: Final = frozenset({"or", "orValue"})
"""Methods of an optional whose argument is evaluated only when there is no value."""

SIZED: Final = frozenset({"filter", "map", "transformList", "transformMap"})
"""Macros that make a list, or a map, of at most as many elements as their range has."""
_OPTIONAL_STEPS: Final = 45
"""For an item of a list with optionals."""
_ENTRY_STEPS: Final = 30
"""For an entry that transformMapEntry() adds."""
_LITERAL_KEYS: Final = frozenset({str, int, Uint, bool})
UNSET: Final = object()
"""The value of a bound variable before its first use."""


def constant(node: Expr) -> Any:
    """The value of a literal, or of a list or map of constants, which must not be changed; UNSET for any other node."""
    match node:
        case Literal(value=value):
            return value
        case ListLiteral(elements=elements, optional=optional) if not optional:
            values = [constant(element) for element in elements]
            return UNSET if any(value is UNSET for value in values) else values
        case MapLiteral(entries=entries, optional=optional) if not optional:
            pairs = [(constant(key), constant(value)) for key, value in entries]
            known = all(type(key) in _LITERAL_KEYS and value is not UNSET for key, value in pairs)
            return keyed(pairs) if known else UNSET
        case _:
            return UNSET


def constant_list(node: Expr) -> list[Any] | None:
    """The elements of a constant list; None for any other node."""
    value = constant(node)
    return value if isinstance(node, ListLiteral) and isinstance(value, list) else None


def constant_strings(node: Expr) -> tuple[str, ...] | None:
    """The elements of a list of a few short literal strings; None for any other node."""
    values = constant_list(node)
    if values is None or len(values) > MANY or any(type(value) is not str or len(value) >= SHORT for value in values):
        return None
    return tuple(values)


def plain_literal(node: Expr) -> bool:
    """Whether == with this literal may be Python's == on JSON, which is not charged; see also `refused`."""
    if not isinstance(node, Literal):
        return False
    value = node.value
    if type(value) is int or type(value) is float:
        return abs(value) < _EXACT
    return value is None or type(value) is bool or (type(value) is str and len(value) < SHORT)


def equals_plain(value: Any, literal: Any) -> bool:
    """value == literal for a plain literal: unlike in Python, a bool is never a number."""
    if type(literal) is bool or literal is None:
        return value is literal
    return type(value) is not bool and bool(value == literal)


def refused(value: Any, literal: Any) -> bool:
    """False for a value that does not equal the plain literal on its right; Fault for kinds that cannot be compared."""
    if literal is not None and KINDS.get(type(value)) in KUBERNETES:
        raise no_overload("==", value, literal)
    return False


def implementations(call: Call, types: Types) -> dict[tuple[type, ...], Any]:
    """The implementations by the types of the arguments; static types tell the overload for an empty list."""
    if call.function == "sum":
        return LIBRARY.typed(call.function, call.method, tuple(types[id(argument)] for argument in call.arguments))
    return LIBRARY.exact[call.function, call.method]


def select(container: Any, field: str) -> Any:
    """container.field; subclasses of dict count as maps, as in the compiled engine's selections."""
    if isinstance(container, dict):
        try:
            return container[field]
        except KeyError:
            raise Fault(f"no such key: {shortened(field)}") from None
    if type(container) is Optional:
        return maybe(container, field)
    raise Fault(f"no such overload: {kind(container)} has no fields")


def has(container: Any, field: str) -> bool:
    """has(container.field); false for values without fields."""
    return bool(maybe(container, field).present)


def optional_index(cost: CostTracker, container: Any, key: Any) -> Optional:
    """container[?key] and container.?key"""
    if type(key) is str:
        cost.read(len(key))
    return maybe(container, key)


def index(cost: CostTracker, container: Any, key: Any, literal: bool = False) -> Any:
    """container[key].  An error quotes the key only if it is a literal; any other may be data."""
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
        if len(item) >= SHORT:
            cost.read(len(item))
        if type(container) is dict:
            return item in container
    return _contains(item, container, cost)


def make_list(cost: CostTracker, items: list[Any], optional: Iterable[int] = ()) -> list[Any]:
    """[items]; items at the positions in `optional` are optionals, which are left out if they are absent."""
    cost.new_list(len(items))
    if not optional:
        return items
    cost.charge(_OPTIONAL_STEPS * len(items))
    return [value for position, item in enumerate(items) for value in _given(item, position in optional)]


def make_map(cost: CostTracker, pairs: list[tuple[Any, Any]], optional: Iterable[int] = ()) -> dict[Any, Any]:
    """{pairs}, with optionals in the same way; the last of equal keys wins."""
    cost.new_list(len(pairs))
    return keyed(
        (_key(key), found)
        for position, (key, value) in enumerate(pairs)
        for found in _given(value, position in optional)
    )


def as_map(result: dict[Any, Any]) -> dict[Any, Any]:
    """The map that a macro made, with keys of which bools are not integers."""
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
    """Adds the map that transformMapEntry() got for an element."""
    if kind(entry) != "map":
        raise no_overload("transformMapEntry", entry)
    cost.new_list(len(entry))
    cost.charge(_ENTRY_STEPS * (1 + len(entry)))
    if not result.keys().isdisjoint(entry):
        raise Fault("map key is repeated")
    result.update(entry)


def pairs(container: Any, macro: str) -> Iterator[tuple[Any, Any]]:
    """What a macro with two variables iterates over: indices, or keys, and elements."""
    found = elements(container, macro)
    return iter(found.items()) if kind(found) == "map" else enumerate(found)
