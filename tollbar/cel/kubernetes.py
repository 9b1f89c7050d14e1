"""Kubernetes' own CEL types: quantity and semver.

`sign` is declared by Kubernetes as a function and documented as a method; both work here.
"""

from collections.abc import Callable
from typing import Any, Final

from tollbar.cel.functions import Overload, overload
from tollbar.cel.interface import BUDGET
from tollbar.cel.limits import PARSE_STEPS, Budget, Fault
from tollbar.cel.operators import to_int
from tollbar.cel.values import Quantity
from tollbar.model import quantity, semver
from tollbar.model.quantity import NANO
from tollbar.model.semver import Version


def to_quantity(budget: Budget, text: str) -> Quantity:
    budget.spend(PARSE_STEPS)
    try:
        return Quantity(quantity.nanos(text))
    except ValueError:
        raise Fault("not a quantity") from None


def to_semver(budget: Budget, text: str, normalize: bool = False) -> Version:
    budget.spend(PARSE_STEPS)
    try:
        return semver.parse(text, normalize=normalize)
    except ValueError:
        raise Fault("not a semantic version") from None


def _is(parse: Callable[..., object]) -> Callable[..., bool]:
    def check(budget: Budget, *arguments: Any) -> bool:
        try:
            parse(budget, *arguments)
        except Fault as fault:
            if fault.kind == BUDGET:
                raise
            return False
        return True

    return check


def _is_integer(_: Budget, value: Quantity) -> bool:
    return value.nanos % NANO == 0 and -(2**63) <= value.nanos // NANO < 2**63


def _as_integer(budget: Budget, value: Quantity) -> int:
    if not _is_integer(budget, value):
        raise Fault("cannot convert quantity to integer")
    return value.nanos // NANO


def _as_float(_: Budget, value: Quantity) -> float:
    try:
        return value.nanos / NANO
    except OverflowError:
        return float("inf") if value.nanos > 0 else float("-inf")


def _add(_: Budget, a: Quantity, b: Quantity | int) -> Quantity:
    return Quantity(a.nanos + (b.nanos if isinstance(b, Quantity) else b * NANO))


def _subtract(_: Budget, a: Quantity, b: Quantity | int) -> Quantity:
    return Quantity(a.nanos - (b.nanos if isinstance(b, Quantity) else b * NANO))


def _sign(_: Budget, value: Quantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


def _comparisons(kind: str, rank: Callable[[Any], Any]) -> tuple[Overload, ...]:
    def compare(_: Budget, a: Any, b: Any) -> int:
        return bool(rank(a) > rank(b)) - bool(rank(a) < rank(b))

    return (
        overload(f"{kind}.compareTo({kind}) -> int", compare),
        overload(f"{kind}.isGreaterThan({kind}) -> bool", lambda _, a, b: rank(a) > rank(b)),
        overload(f"{kind}.isLessThan({kind}) -> bool", lambda _, a, b: rank(a) < rank(b)),
    )


OVERLOADS: Final = (
    overload("quantity(string) -> quantity", to_quantity),
    overload("isQuantity(string) -> bool", _is(to_quantity)),
    overload("quantity.isInteger() -> bool", _is_integer),
    overload("quantity.asInteger() -> int", _as_integer),
    overload("quantity.asApproximateFloat() -> double", _as_float),
    overload("quantity.add(quantity) -> quantity", _add),
    overload("quantity.add(int) -> quantity", _add),
    overload("quantity.sub(quantity) -> quantity", _subtract),
    overload("quantity.sub(int) -> quantity", _subtract),
    overload("quantity.sign() -> int", _sign),
    overload("sign(quantity) -> int", _sign),
    *_comparisons("quantity", lambda value: value.nanos),
    overload("semver(string) -> semver", to_semver),
    overload("semver(string, bool) -> semver", to_semver),
    overload("isSemver(string) -> bool", _is(to_semver)),
    overload("isSemver(string, bool) -> bool", _is(to_semver)),
    overload("semver.major() -> int", lambda _, value: to_int(value.major)),
    overload("semver.minor() -> int", lambda _, value: to_int(value.minor)),
    overload("semver.patch() -> int", lambda _, value: to_int(value.patch)),
    *_comparisons("semver", lambda value: value.rank),
)
