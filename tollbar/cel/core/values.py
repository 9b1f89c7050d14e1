"""The values of an evaluation: their kinds, equality, order and elements.

JSON is not converted: null, bool, int, float, str, list and dict are the CEL values that they look like, so that any
number of programs can read one object.  Kinds that JSON does not have are classes of this module or of tollbar.model.
Equality and order are those of cel-go: numbers compare across types, values of different kinds are unequal, a bool is
never a number, NaN has no order.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from operator import ge, gt, le, lt
from typing import Any, Final

from tollbar.cel.core.interface import BUDGET, RUNTIME
from tollbar.cel.core.limits import (
    COMPARISON_STEPS,
    MAX_VALUE_DEPTH,
    MEMBER_STEPS,
    NESTED_STEPS,
    OBJECT_STEPS,
    ORDER_STEPS,
    SHORT,
    CostTracker,
    Fault,
)
from tollbar.model.quantity import Quantity
from tollbar.model.semver import Version


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment in nanoseconds since 1970 UTC; `offset`, in minutes east of UTC, is for printing only."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds, 64 bits signed."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Ip:
    """An address of IP version 4 or 6, as a number of 32 or 128 bits."""

    version: int
    number: int

    def __str__(self) -> str:
        return str(IPv6Address(self.number) if self.version == 6 else IPv4Address(self.number))


@dataclass(frozen=True, slots=True)
class Cidr:
    """A block of addresses: those that have the first `length` bits of `address`, which may have others after them."""

    address: Ip
    length: int

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL by its parts; equal when `text`, its normal form, is."""

    text: str
    scheme: str = field(default="", compare=False)
    host: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    query: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format that strings can be validated against."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CelType:
    """A type as a value, the answer of type()."""

    name: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A literal regular expression, compiled with the expression that contains it.

    `size` is the number of instructions of RE2's program, the cost of matching for each character; `found_in_short`
    tells whether a short text contains a match, and caches the results.
    """

    regexp: Any
    size: int = field(compare=False)
    found_in_short: Callable[[str], bool] = field(compare=False)


@dataclass(slots=True, unsafe_hash=True)
class Optional:
    """A value that may be absent; ABSENT is the only absent one.  Compared with equal(), never with ==.

    Never changed; making a frozen one takes three times as long.
    """

    value: Any
    present: bool = True


ABSENT: Final = Optional(None, present=False)


class Domains(dict[str, Any]):
    """Device attributes or capacities by domain: an unknown domain is an empty map, though it is not `in` this one."""

    __slots__ = ()

    def __missing__(self, key: object) -> dict[str, Any]:
        return {}


class Flag:
    """Replaces a bool among the keys of a dict, where True would be the same key as 1."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


_FLAGS: Final = {True: Flag(True), False: Flag(False)}


def _stored(key: Any) -> Any:
    return _FLAGS[key] if type(key) is bool else key


def _shown(key: Any) -> Any:
    return key.value if type(key) is Flag else key


class BoolKeys(dict[Any, Any]):
    """A map with bools among its keys, stored as Flags but read as bools.  Made by `keyed`."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_stored(key), value)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_stored(key))

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(_stored(key))

    def __iter__(self) -> Iterator[Any]:
        return map(_shown, super().__iter__())

    def keys(self) -> Any:
        return list(self)

    def items(self) -> Any:
        return [(_shown(key), value) for key, value in super().items()]


def keyed(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The map of these keys (strings, integers, bools) and values; of equal keys the last one counts."""
    pairs = list(pairs)
    if any(type(key) is bool for key, _ in pairs):
        return BoolKeys((_stored(key), value) for key, value in pairs)
    return dict(pairs)


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
    BoolKeys: "map",
    Timestamp: "timestamp",
    Duration: "duration",
    Quantity: "quantity",
    Version: "semver",
    Url: "url",
    Ip: "ip",
    Cidr: "cidr",
    NamedFormat: "format",
    CelType: "type",
    Pattern: "pattern",
    Optional: "optional_type",
}
TYPE_NAMES: Final = {kind: kind for kind in KINDS.values()} | {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "url": "kubernetes.URL",
    "format": "kubernetes.NamedFormat",
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "pattern": "string",
}
"""The names of the kinds in type() and in CEL's own messages."""
NUMERIC: Final = frozenset({"int", "uint", "double"})
ORDERED: Final = frozenset({"string", "bytes", "bool", "timestamp", "duration"})
NOT_JSON: Final = "input is not JSON"
KUBERNETES: Final = frozenset({"quantity", "semver", "url", "format", "ip", "cidr"})
"""Kinds whose values fail on the left of == with a value of another kind."""
_NESTED: Final = frozenset({"list", "map", "optional_type"})
_PLAIN: Final = frozenset({"null_type", "bool"})
KEYS: Final = frozenset({"string", "int", "uint", "double", "bool"})
"""Kinds that a map may be looked up with; numbers by value, so that 1, 1u and 1.0 are one key."""
ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {"_<_": lt, "_<=_": le, "_>_": gt, "_>=_": ge}
RELATIONS: Final = frozenset({"_==_", "_!=_", "_in_", *ORDER})
"""Operators that are defined for all kinds at once and are not in the table of the library."""


def kind(value: object) -> str:
    """The name of the value's kind; Fault if it is neither JSON nor of a kind of CEL."""
    try:
        return KINDS[type(value)]
    except KeyError:
        raise Fault(NOT_JSON) from None


class NoOverload(Fault):
    """The error of an operation that is not defined for the kinds of these values.

    Its message is made when it is asked for: most of these errors are absorbed.
    """

    kind = RUNTIME
    final = False

    def __init__(self, name: str, types: tuple[type, ...]) -> None:  # not that of Fault, which takes longer
        self.name = name
        self.types = types

    @property
    def message(self) -> str:
        if not KINDS.keys() >= set(self.types):
            return NOT_JSON
        return no_overload_of(self.name, (KINDS[type_] for type_ in self.types))


def no_overload(name: str, *values: object) -> NoOverload:
    return NoOverload(name, tuple(map(type, values)))


def no_overload_of(name: str, kinds: Iterable[str]) -> str:
    """Its message.  The operator + is named `_+_` in the tree, and a compiled pattern was a string in the source."""
    named = ("string" if kind == "pattern" else kind for kind in kinds)
    return f"no such overload: {name.strip('_')}({', '.join(named)})"


def equal(a: Any, b: Any, cost: CostTracker) -> bool:
    """a == b, charged for each element and the length of strings.  a != b is `not same(a, b)`, which never fails."""
    if type(a) is str and type(b) is str:
        cost.read(min(len(a), len(b)))
        return bool(a == b)
    if kind(a) in KUBERNETES and kind(a) != kind(b) and b is not None:
        raise no_overload("==", a, b)
    return same(a, b, cost)


def same(a: Any, b: Any, cost: CostTracker, depth: int = 0) -> bool:
    """Whether two values are equal where cel-go counts a failed comparison as unequal: within lists, and for `in`."""
    if type(a) is str and type(b) is str:
        if len(a) >= SHORT:
            cost.read(min(len(a), len(b)))
        return bool(a == b)
    kind_a, kind_b = kind(a), kind(b)
    if kind_a in NUMERIC and kind_b in NUMERIC:
        return bool(a == b) if type(a) is type(b) else _number(a, b) == _number(b, a)
    if kind_a != kind_b:
        return False
    if kind_a == "bytes":
        cost.read(min(len(a), len(b)))
    elif kind_a in _NESTED:
        if depth > MAX_VALUE_DEPTH:
            raise Fault("values are nested too deeply to compare", BUDGET)
        cost.charge(NESTED_STEPS)
        return _same_items(a, b, cost, depth + 1)
    elif kind_a not in _PLAIN:
        cost.charge(OBJECT_STEPS)
    return bool(a == b)


def _same_items(a: Any, b: Any, cost: CostTracker, depth: int) -> bool:
    if isinstance(a, Optional):
        return a.present == b.present and (not a.present or same(a.value, b.value, cost, depth))
    if len(a) != len(b):
        return False
    if isinstance(a, list):
        for x, y in zip(a, b, strict=True):
            cost.charge(COMPARISON_STEPS)
            if not same(x, y, cost, depth):
                return False
        return True
    for key, value in a.items():
        cost.charge(2 * COMPARISON_STEPS)
        if not (has_key(b, key) and same(value, b[key], cost, depth)):
            return False
    return True


def has_key(container: dict[Any, Any], key: Any) -> bool:
    """Whether a map has the key; False for values of kinds that cannot be keys."""
    if type(key) is str:
        return key in container
    return kind(key) in KEYS and (type(key) is not bool or type(container) is BoolKeys) and key in container


def _number(value: Any, other: Any) -> Any:
    """The number as cel-go compares it with the other one: as a double if the other one is a double."""
    if type(other) is not float or type(value) is float:
        return value
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def compare(a: Any, b: Any, cost: CostTracker) -> int:
    """-1, 0 or 1; Fault for kinds that have no order, and for NaN."""
    kind_a, kind_b = kind(a), kind(b)
    if kind_a in NUMERIC and kind_b in NUMERIC:
        a, b = _number(a, b), _number(b, a)
        if a != a or b != b:
            raise Fault("NaN values cannot be ordered")
    elif kind_a != kind_b or kind_a not in ORDERED:
        raise no_overload("<", a, b)
    elif kind_a == "string" or kind_a == "bytes":
        cost.read(min(len(a), len(b)))
    elif kind_a != "bool":
        cost.charge(2 * OBJECT_STEPS)
    return bool(a > b) - bool(a < b)


def ordered(operator: str, a: Any, b: Any, cost: CostTracker) -> bool:
    """a < b and the like."""
    if type(a) is int and type(b) is int:
        return ORDER[operator](a, b)
    cost.charge(ORDER_STEPS)
    kind_a, kind_b = kind(a), kind(b)
    if not (kind_a in NUMERIC and kind_b in NUMERIC) and (kind_a != kind_b or kind_a not in ORDERED):
        raise no_overload(operator, a, b)
    return ORDER[operator](compare(a, b, cost), 0)


def contains(item: Any, container: Any, cost: CostTracker) -> bool:
    """item in container: an equal element of a list, a key of a map."""
    match kind(container):
        case "list":
            cost.charge(MEMBER_STEPS)
            return among(item, container, cost)
        case "map":
            return has_key(container, item)
        case _:
            raise no_overload("in", item, container)


def among(item: Any, items: list[Any], cost: CostTracker) -> bool:
    """Whether the list has an equal element; charged for those that are compared."""
    return position(item, items, range(len(items)), cost) is not None


def position(item: Any, items: list[Any], order: range, cost: CostTracker) -> int | None:
    """The first index, in this order, of an element that equals the item."""
    for index in order:
        cost.charge(COMPARISON_STEPS)
        if same(items[index], item, cost):
            return index
    return None


def lookup(container: Any, index: Any) -> Any:
    """container[index].  The error does not quote the index, which may be data."""
    if type(container) is dict and type(index) is str and index in container:
        return container[index]
    if (key := _key(container, index)) is not None:
        return container[key]
    raise Fault("no such key" if kind(container) == "map" else "index out of bounds")


def find(container: Any, index: Any) -> Optional:
    """container[?index]; absent for values without fields or elements, Fault for an index of a wrong kind."""
    if kind(index) not in KEYS:
        raise no_overload("[]", container, index)
    if kind(container) in ("map", "list"):
        key = _key(container, index)
        if key is not None:
            return Optional(container[key])
    return ABSENT


def _key(container: Any, index: Any) -> Any:
    """The key or index in Python; None if there is no such element."""
    match kind(container), kind(index):
        case "map", _:
            found = has_key(container, index) or (type(container) is Domains and kind(index) in KEYS)
            return index if found else None
        case "list", "int" | "uint":
            return index if 0 <= index < len(container) else None
        case "list", "double" if float(index).is_integer():
            return int(index) if 0 <= index < len(container) else None
        case _:
            raise no_overload("[]", container, index)


def elements(container: Any, macro: str) -> Any:
    """What a macro iterates over: the elements of a list, the keys of a map."""
    if kind(container) in ("list", "map"):
        return container
    raise no_overload(macro, container)
