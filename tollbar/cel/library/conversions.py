"""Conversions between the basic types, dyn() and type()."""

from typing import Any, Final

from tollbar.cel.core.limits import PARSE_STEPS, CostTracker, Fault
from tollbar.cel.core.values import TYPE_NAMES, CelType, Uint, kind
from tollbar.cel.library import numbers
from tollbar.cel.library.functions import overload
from tollbar.cel.library.numbers import read_double, read_int, to_int
from tollbar.cel.library.operators import to_uint

_BOOLS: Final = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}


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
        raise Fault("type conversion error from 'string' to 'bool'") from None


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
    cost.charge(PARSE_STEPS)
    return numbers.shortest(value)


def _same(_: CostTracker, value: Any) -> Any:
    return value


def type_of(_: CostTracker, value: Any) -> CelType:
    return CelType(TYPE_NAMES[kind(value)])


OVERLOADS: Final = (
    overload("int(int) -> int", _same),
    overload("int(uint) -> int", lambda _, value: to_int(int(value))),
    overload("int(double) -> int", _to_int),
    overload("int(string) -> int", lambda _, text: read_int(text, signed=True)),
    overload("uint(uint) -> uint", _same),
    overload("uint(int) -> uint", lambda _, value: to_uint(value)),
    overload("uint(double) -> uint", _to_uint),
    overload("uint(string) -> uint", lambda _, text: Uint(read_int(text, signed=False))),
    overload("double(double) -> double", _same),
    overload("double(int) -> double", lambda _, value: float(to_int(value))),
    overload("double(uint) -> double", lambda _, value: float(value)),
    overload("double(string) -> double", lambda _, text: read_double(text)),
    overload("bool(bool) -> bool", _same),
    overload("bool(string) -> bool", _bool),
    overload("string(string) -> string", _same),
    overload("string(int) -> string", lambda _, value: str(to_int(value))),
    overload("string(uint) -> string", lambda _, value: int.__str__(value)),
    overload("string(double) -> string", _double_text),
    overload("string(bool) -> string", lambda _, value: "true" if value else "false"),
    overload("string(bytes) -> string", decode),
    overload("bytes(bytes) -> bytes", _same),
    overload("bytes(string) -> bytes", encode),
    overload("dyn(any) -> dyn", _same),
    overload("type(any) -> type", type_of),
)
_NAMELESS: Final = frozenset({"kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat"})
TYPES: Final = {name: CelType(name) for name in frozenset(TYPE_NAMES.values()) - _NAMELESS}
"""Names that denote a type when they stand alone, as in type(x) == string."""
