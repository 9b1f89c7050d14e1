"""The values of an evaluation: their kinds, equality and order.

JSON stays JSON: null, bool, int, float, str, list and dict are the CEL values that they look like, so that nothing
is converted and any number of programs may read one object.  What JSON lacks has a class here, except times, which
are cel-python's.  Equality and order are those of cel-go: numbers compare across types, values of different kinds
are unequal, a bool is never a number.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final

from celpy.celtypes import DurationType, TimestampType

from tollbar.cel.interface import BUDGET
from tollbar.cel.limits import MAX_VALUE_DEPTH, Budget, Fault
from tollbar.model.semver import Version


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity in nano units."""

    nanos: int


@dataclass(frozen=True, slots=True)
class CelType:
    """A type as a value, the answer of type()."""

    name: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A literal regular expression, compiled with the expression that contains it."""

    regexp: Any


class Domains(dict[str, Any]):
    """Device attributes or capacities by domain: a domain without entries is an empty map, though not `in` this one."""

    __slots__ = ()

    def __missing__(self, key: object) -> dict[str, Any]:
        return {}


KINDS: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Domains: "map",
    TimestampType: "timestamp",
    DurationType: "duration",
    Quantity: "quantity",
    Version: "semver",
    CelType: "type",
    Pattern: "pattern",
}
NUMERIC: Final = frozenset({"int", "uint", "double"})
ORDERED: Final = frozenset({"string", "bytes", "bool", "timestamp", "duration"})
KEYS: Final = frozenset({"string", "int", "uint", "double"})
"""Kinds that a map may be looked up with; numbers by value, so that 1, 1u and 1.0 are one key."""
ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {"_<_": lt, "_<=_": le, "_>_": gt, "_>=_": ge}


def kind(value: object) -> str:
    """The name of the value's kind.  A Fault for something that is neither JSON nor ours."""
    try:
        return KINDS[type(value)]
    except KeyError:
        raise Fault("input is not JSON") from None


def no_overload(name: str, *values: object) -> Fault:
    """The error of an operation that these kinds do not have."""
    return Fault(no_overload_of(name, map(kind, values)))


def no_overload_of(name: str, kinds: Iterable[str]) -> str:
    """Its message; `_+_` is how the tree calls the operator +, and a compiled pattern was written as a string."""
    named = ("string" if kind == "pattern" else kind for kind in kinds)
    return f"no such overload: {name.strip('_')}({', '.join(named)})"


def equal(a: Any, b: Any, budget: Budget, depth: int = 0) -> bool:
    """a == b; costs a step for each element and the length of strings."""
    if type(a) is str and type(b) is str:
        budget.read(min(len(a), len(b)))
        return bool(a == b)
    kind_a, kind_b = kind(a), kind(b)
    if kind_a != kind_b:
        return kind_a in NUMERIC and kind_b in NUMERIC and bool(a == b)
    if kind_a == "bytes":
        budget.read(min(len(a), len(b)))
    elif kind_a == "list" or kind_a == "map":
        if depth > MAX_VALUE_DEPTH:
            raise Fault("values are nested too deeply to compare", BUDGET)
        return len(a) == len(b) and _equal_items(a, b, budget, depth + 1)
    return bool(a == b)


def _equal_items(a: Any, b: Any, budget: Budget, depth: int) -> bool:
    budget.spend(len(a))
    if isinstance(a, list):
        return all(equal(x, y, budget, depth) for x, y in zip(a, b, strict=True))
    return all(key in b and equal(value, b[key], budget, depth) for key, value in a.items())


def ordered(operator: str, a: Any, b: Any, budget: Budget) -> bool:
    """a < b and the like."""
    kind_a, kind_b = kind(a), kind(b)
    if kind_a in NUMERIC and kind_b in NUMERIC:
        return ORDER[operator](a, b)
    if kind_a != kind_b or kind_a not in ORDERED:
        raise no_overload(operator, a, b)
    if kind_a == "string" or kind_a == "bytes":
        budget.read(min(len(a), len(b)))
    return ORDER[operator](a, b)


def contains(item: Any, container: Any, budget: Budget) -> bool:
    """item in container: an equal element of a list, a key of a map."""
    match kind(container):
        case "list":
            budget.spend(len(container))
            return any(equal(item, element, budget) for element in container)
        case "map":
            return kind(item) in KEYS and item in container
        case _:
            raise no_overload("in", item, container)


def lookup(container: Any, index: Any) -> Any:
    """container[index].  The error does not say which index: it may be data."""
    match kind(container), kind(index):
        case "map", index_kind if index_kind in KEYS:
            try:
                return container[index]
            except KeyError:
                raise Fault("no such key") from None
        case "map", "bool":
            raise Fault("no such key")
        case "list", "int" | "uint":
            if 0 <= index < len(container):
                return container[index]
            raise Fault("index out of bounds")
        case _:
            raise no_overload("[]", container, index)


def elements(container: Any, macro: str) -> Any:
    """What a macro runs over: the elements of a list, the keys of a map."""
    if kind(container) in ("list", "map"):
        return container
    raise no_overload(macro, container)
