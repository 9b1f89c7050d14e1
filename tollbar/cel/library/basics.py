"""Arithmetic operators of the basic types, conversions between them, dyn() and type().

int is 64 bits signed and uint 64 bits unsigned: leaving the range is an error, never a wrap.  Division truncates
toward zero.  double is IEEE 754.  Numbers are read and written in the forms of Go's strconv, which are CEL's: a text is
matched against a form before it is parsed, because Python's own int() and float() accept more and are slow on long
input.
"""

import math
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tollbar.cel.core.limits import MAX_NUMBER, CostTracker, Fault
from tollbar.cel.core.values import TYPE_NAMES, CelType, Uint, kind
from tollbar.cel.library.functions import overload

_INT: Final = re.compile(r"[+-]?[0-9]+")
_UINT: Final = re.compile(r"[0-9]+")
_DIGITS: Final = "[0-9]+(?:_[0-9]+)*"
_DECIMAL: Final = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX: Final = "[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_HEXADECIMAL: Final = re.compile(rf"[+-]?0[xX](?:_?{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})[pP][+-]?{_DIGITS}")
_WORD: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_SHORTEST: Final = 6
"""Digits before the point beyond which the shortest form has an exponent."""
DOUBLE_STEPS: Final = 360
"""For the shortest text of a double."""
_BOOLS: Final = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}


# Arithmetic.


def to_int(value: int) -> int:
    if -(2**63) <= value < 2**63:
        return value
    raise Fault("integer overflow")


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


# Numbers as text.


def read_int(text: str, *, signed: bool) -> int:
    """The integer, of any size; a Fault if the text is none."""
    if len(text) > MAX_NUMBER or not (_INT if signed else _UINT).fullmatch(text):
        raise no_conversion("int" if signed else "uint")
    value = int(text)
    if not (-(2**63) <= value < 2**63 if signed else value < 2**64):
        raise no_conversion("int" if signed else "uint")
    return value


def read_double(text: str) -> float:
    if len(text) > MAX_NUMBER:
        raise no_conversion("double")
    if _WORD.fullmatch(text):
        return float(text)
    try:
        if _DECIMAL.fullmatch(text):
            value = float(text.replace("_", ""))
        elif _HEXADECIMAL.fullmatch(text):
            value = float.fromhex(text.replace("_", ""))
        else:
            raise no_conversion("double")
    except (OverflowError, ValueError):
        raise no_conversion("double") from None
    if math.isinf(value):
        raise no_conversion("double")
    return value


def no_conversion(kind: str) -> Fault:
    """The error of a text that does not name a value of this kind."""
    return Fault(f"type conversion error from 'string' to '{TYPE_NAMES[kind]}'")


def shortest(value: float) -> str:
    """The fewest digits that name this double; %g."""
    if not math.isfinite(value):
        return _words(value)
    sign, digits, places = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    exponent = len(text) - 1 + int(places)
    if -4 <= exponent < _SHORTEST or value == 0:
        return ("-" if sign else "") + plain(abs(value))
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{'-' if sign else ''}{mantissa}e{exponent:+03d}"


def plain(value: float) -> str:
    """The same digits without an exponent; %f with the shortest precision."""
    if not math.isfinite(value):
        return _words(value)
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _words(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


# Conversions.


def _to_int(_: CostTracker, value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise Fault("integer overflow")
    return int(value)


def _to_uint(_: CostTracker, value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise Fault("unsigned integer overflow")
    return Uint(value)


def _bool(_: CostTracker, text: str) -> bool:
    try:
        return _BOOLS[text]
    except KeyError:
        raise no_conversion("bool") from None


def encode(cost: CostTracker, text: str) -> bytes:
    cost.new_string(len(text))
    try:
        return text.encode()
    except UnicodeError:
        raise Fault("string is not valid Unicode") from None


def decode(cost: CostTracker, data: bytes) -> str:
    cost.new_string(len(data))
    try:
        return data.decode()
    except UnicodeError:
        raise Fault("invalid UTF-8 in bytes, cannot convert to string") from None


def _double_text(cost: CostTracker, value: float) -> str:
    cost.charge(DOUBLE_STEPS)
    return shortest(value)


def same(_: CostTracker, value: Any) -> Any:
    return value


def type_of(_: CostTracker, value: Any) -> CelType:
    return CelType(TYPE_NAMES[kind(value)])


_COMPUTE: Final = {
    "_+_": operator.add,
    "_-_": operator.sub,
    "_*_": operator.mul,
    "_/_": _divide,
    "_%_": _remainder,
}
OVERLOADS: Final = (
    *(overload(f"{name}(int, int) -> int", _int(compute)) for name, compute in _COMPUTE.items()),
    *(overload(f"{name}(uint, uint) -> uint", _uint(compute), 30) for name, compute in _COMPUTE.items()),
    overload("_+_(double, double) -> double", _double(operator.add)),
    overload("_-_(double, double) -> double", _double(operator.sub)),
    overload("_*_(double, double) -> double", _double(operator.mul)),
    overload("_/_(double, double) -> double", _divide_double),
    overload("_+_(string, string) -> string", _join(CostTracker.new_string)),
    overload("_+_(bytes, bytes) -> bytes", _join(CostTracker.new_string)),
    overload("_+_(list<A>, list<A>) -> list<A>", _join(CostTracker.new_list)),
    overload("-_(int) -> int", lambda _, a: to_int(-a)),
    overload("-_(double) -> double", lambda _, a: -a),
    overload("!_(bool) -> bool", lambda _, a: not a),
    overload("int(int) -> int", same),
    overload("int(uint) -> int", lambda _, value: to_int(int(value))),
    overload("int(double) -> int", _to_int),
    overload("int(string) -> int", lambda _, text: read_int(text, signed=True), 70),
    overload("uint(uint) -> uint", same, 30),
    overload("uint(int) -> uint", lambda _, value: to_uint(value)),
    overload("uint(double) -> uint", _to_uint),
    overload("uint(string) -> uint", lambda _, text: Uint(read_int(text, signed=False)), 90),
    overload("double(double) -> double", same),
    overload("double(int) -> double", lambda _, value: float(to_int(value))),
    overload("double(uint) -> double", lambda _, value: float(value)),
    overload("double(string) -> double", lambda _, text: read_double(text), 150),
    overload("bool(bool) -> bool", same),
    overload("bool(string) -> bool", _bool, 40),
    overload("string(string) -> string", same),
    overload("string(int) -> string", lambda _, value: str(to_int(value))),
    overload("string(uint) -> string", lambda _, value: int.__str__(value)),
    overload("string(double) -> string", _double_text),
    overload("string(bool) -> string", lambda _, value: "true" if value else "false"),
    overload("string(bytes) -> string", decode),
    overload("bytes(bytes) -> bytes", same),
    overload("bytes(string) -> bytes", encode),
    overload("dyn(any) -> dyn", same, 6),
    overload("type(A) -> type<A>", type_of, 42),
)
_NAMELESS: Final = frozenset({"kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat"})
TYPES: Final = {name: CelType(name) for name in frozenset(TYPE_NAMES.values()) - _NAMELESS}
"""Names that denote a type when they stand alone, as in type(x) == string."""
