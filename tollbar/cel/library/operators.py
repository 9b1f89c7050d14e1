"""Arithmetic and negation, as overloads of the names that the parser gives operators (`_+_`, `-_`).

int is 64 bits signed and uint 64 bits unsigned: leaving the range is an error, never a wrap.  Division truncates
toward zero.  double is IEEE 754.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from tollbar.cel.core.limits import CostTracker, Fault
from tollbar.cel.core.values import Duration, Uint
from tollbar.cel.library.functions import overload
from tollbar.cel.library.numbers import to_int
from tollbar.cel.library.times import minus, plus


def to_uint(value: int) -> Uint:
    if 0 <= value < 2**64:
        return Uint(value)
    raise Fault("unsigned integer overflow")


def _int(compute: Callable[[int, int], int]) -> Callable[[CostTracker, int, int], int]:
    return lambda _, a, b: to_int(compute(a, b))


def _uint(compute: Callable[[int, int], int]) -> Callable[[CostTracker, Uint, Uint], Uint]:
    return lambda _, a, b: to_uint(compute(int(a), int(b)))


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise Fault("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise Fault("modulus by zero")
    if b == -1 and a == -(2**63):
        raise Fault("integer overflow")
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _divide_double(_: CostTracker, a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if math.isnan(a) or a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)


def _join(allocate: Callable[[CostTracker, int], None]) -> Callable[[CostTracker, Any, Any], Any]:
    def concatenate(cost: CostTracker, a: Any, b: Any) -> Any:
        allocate(cost, len(a) + len(b))
        return a + b

    return concatenate


def _double(compute: Callable[[float, float], float]) -> Callable[[CostTracker, float, float], float]:
    return lambda _, a, b: compute(a, b)


_COMPUTE: Final = {
    "_+_": operator.add,
    "_-_": operator.sub,
    "_*_": operator.mul,
    "_/_": _divide,
    "_%_": _remainder,
}
OVERLOADS: Final = (
    *(overload(f"{name}(int, int) -> int", _int(compute)) for name, compute in _COMPUTE.items()),
    *(overload(f"{name}(uint, uint) -> uint", _uint(compute)) for name, compute in _COMPUTE.items()),
    overload("_+_(double, double) -> double", _double(operator.add)),
    overload("_-_(double, double) -> double", _double(operator.sub)),
    overload("_*_(double, double) -> double", _double(operator.mul)),
    overload("_/_(double, double) -> double", _divide_double),
    overload("_+_(string, string) -> string", _join(CostTracker.new_string)),
    overload("_+_(bytes, bytes) -> bytes", _join(CostTracker.new_string)),
    overload("_+_(list<A>, list<A>) -> list<A>", _join(CostTracker.new_list)),
    overload("_+_(timestamp, duration) -> timestamp", lambda _, a, b: plus(a, b.nanos)),
    overload("_+_(duration, timestamp) -> timestamp", lambda _, a, b: plus(b, a.nanos)),
    overload("_+_(duration, duration) -> duration", lambda _, a, b: Duration(to_int(a.nanos + b.nanos))),
    overload("_-_(timestamp, duration) -> timestamp", lambda _, a, b: plus(a, -b.nanos)),
    overload("_-_(timestamp, timestamp) -> duration", lambda _, a, b: minus(a, b)),
    overload("_-_(duration, duration) -> duration", lambda _, a, b: Duration(to_int(a.nanos - b.nanos))),
    overload("-_(int) -> int", lambda _, a: to_int(-a)),
    overload("-_(double) -> double", lambda _, a: -a),
    overload("!_(bool) -> bool", lambda _, a: not a),
)
