"""Kubernetes' CEL types quantity and semver."""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from tollbar.cel.core.limits import CostTracker, Fault
from tollbar.cel.library.functions import Overload, overload, parses
from tollbar.model import quantity, semver
from tollbar.model.quantity import Quantity
from tollbar.model.semver import Version

_SHORT: Final = 64
"""Characters of a text whose value is cached: data has few different quantities and versions."""
_QUANTITY_STEPS: Final = 210
_SUM_STEPS: Final = 310
_VERSION_STEPS: Final = 330
_VERSION_STEPS_PER_CHARACTER: Final = 13
read_quantity: Final = lru_cache(maxsize=4096)(quantity.read)
read_semver: Final = lru_cache(maxsize=4096)(semver.parse)


def to_quantity(cost: CostTracker, text: str) -> Quantity:
    cost.charge(_QUANTITY_STEPS)
    try:
        return read_quantity(text) if len(text) <= _SHORT else quantity.read(text)
    except ValueError:
        raise Fault("not a quantity") from None


def to_semver(cost: CostTracker, text: str, normalize: bool = False) -> Version:
    cost.charge(_VERSION_STEPS + min(len(text), semver.MAX_LENGTH) * _VERSION_STEPS_PER_CHARACTER)
    try:
        read = read_semver if len(text) <= _SHORT else semver.parse
        return read(text, normalize=normalize)
    except ValueError:
        raise Fault("not a semantic version") from None


def _as_integer(_: CostTracker, value: Quantity) -> int:
    found = value.as_int64()
    if found is None:
        raise Fault("cannot convert value to integer")
    return found


def _as_float(_: CostTracker, value: Quantity) -> float:
    return value.as_float()


def _sum(sign: int) -> Callable[[CostTracker, Quantity, Quantity | int], Quantity]:
    def add(cost: CostTracker, a: Quantity, b: Quantity | int) -> Quantity:
        cost.charge(_SUM_STEPS)
        return a.plus(b if isinstance(b, Quantity) else quantity.integer(b), sign)

    return add


def _sign(_: CostTracker, value: Quantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


def _part(value: int) -> int:
    """A number of a version as an int; beyond 63 bits it wraps around, as in Kubernetes."""
    return (value + 2**63) % 2**64 - 2**63


def _comparisons(kind: str, attribute: str) -> tuple[Overload, ...]:
    """compareTo(), isGreaterThan() and isLessThan(), by an attribute of the values."""
    rank = attrgetter(attribute)

    def compare(_: CostTracker, a: Any, b: Any) -> int:
        first, second = rank(a), rank(b)
        return 0 if first == second else 1 if first > second else -1

    return (
        overload(f"{kind}.compareTo({kind}) -> int", compare, 24),
        overload(f"{kind}.isGreaterThan({kind}) -> bool", lambda _, a, b: rank(a) > rank(b)),
        overload(f"{kind}.isLessThan({kind}) -> bool", lambda _, a, b: rank(a) < rank(b)),
    )


OVERLOADS: Final = (
    overload("quantity(string) -> quantity", to_quantity),
    overload("isQuantity(string) -> bool", parses(to_quantity)),
    overload("quantity.isInteger() -> bool", lambda _, value: value.as_int64() is not None, 22),
    overload("quantity.asInteger() -> int", _as_integer, 22),
    overload("quantity.asApproximateFloat() -> double", _as_float, 90),
    overload("quantity.add(quantity) -> quantity", _sum(1)),
    overload("quantity.add(int) -> quantity", _sum(1)),
    overload("quantity.sub(quantity) -> quantity", _sum(-1)),
    overload("quantity.sub(int) -> quantity", _sum(-1)),
    overload("sign(quantity) -> int", _sign),
    *_comparisons("quantity", "nanos"),
    overload("semver(string) -> semver", to_semver),
    overload("semver(string, bool) -> semver", to_semver),
    overload("isSemver(string) -> bool", parses(to_semver)),
    overload("isSemver(string, bool) -> bool", parses(to_semver)),
    overload("semver.major() -> int", lambda _, value: _part(value.major)),
    overload("semver.minor() -> int", lambda _, value: _part(value.minor)),
    overload("semver.patch() -> int", lambda _, value: _part(value.patch)),
    *_comparisons("semver", "rank"),
)
