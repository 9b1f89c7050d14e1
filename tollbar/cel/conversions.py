"""Conversions between the basic types, dyn() and type().

Texts are checked against a short form before anything parses them: Python's own int() and float() accept more than
CEL does, and are slow on long input.
"""

import re
from typing import Any, Final

from tollbar.cel.functions import overload
from tollbar.cel.limits import MAX_NUMBER, Budget, Fault
from tollbar.cel.operators import to_int, to_uint
from tollbar.cel.values import CelType, kind

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_BOOLS: Final = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}


def _number(form: re.Pattern[str], text: str) -> str:
    if len(text) > MAX_NUMBER or not form.fullmatch(text):
        raise Fault("string is not a number")
    return text


def _whole(value: float) -> int:
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise Fault("integer overflow") from None


def _bool(_: Budget, text: str) -> bool:
    try:
        return _BOOLS[text]
    except KeyError:
        raise Fault("string is not a bool") from None


def _encode(budget: Budget, text: str) -> bytes:
    budget.new_string(len(text))
    try:
        return text.encode()
    except UnicodeError:
        raise Fault("string is not valid Unicode") from None


def _decode(budget: Budget, data: bytes) -> str:
    budget.new_string(len(data))
    try:
        return data.decode()
    except UnicodeError:
        raise Fault("bytes are not valid UTF-8") from None


def _same(_: Budget, value: Any) -> Any:
    return value


OVERLOADS: Final = (
    overload("int(int) -> int", _same),
    overload("int(uint) -> int", lambda _, value: to_int(int(value))),
    overload("int(double) -> int", lambda _, value: to_int(_whole(value))),
    overload("int(string) -> int", lambda _, text: to_int(int(_number(_INTEGER, text)))),
    overload("int(timestamp) -> int", lambda _, time: to_int(int(time.timestamp() // 1))),
    overload("uint(uint) -> uint", _same),
    overload("uint(int) -> uint", lambda _, value: to_uint(value)),
    overload("uint(double) -> uint", lambda _, value: to_uint(_whole(value))),
    overload("uint(string) -> uint", lambda _, text: to_uint(int(_number(_INTEGER, text)))),
    overload("double(double) -> double", _same),
    overload("double(int) -> double", lambda _, value: float(to_int(value))),
    overload("double(uint) -> double", lambda _, value: float(value)),
    overload("double(string) -> double", lambda _, text: float(_number(_DOUBLE, text))),
    overload("bool(bool) -> bool", _same),
    overload("bool(string) -> bool", _bool),
    overload("string(string) -> string", _same),
    overload("string(int) -> string", lambda _, value: str(to_int(value))),
    overload("string(uint) -> string", lambda _, value: int.__str__(value)),
    overload("string(bool) -> string", lambda _, value: "true" if value else "false"),
    overload("string(bytes) -> string", _decode),
    overload("bytes(bytes) -> bytes", _same),
    overload("bytes(string) -> bytes", _encode),
    overload("dyn(any) -> dyn", _same),
    overload("type(any) -> type", lambda _, value: CelType(kind(value))),
)
TYPES: Final = {
    name: CelType(name)
    for name in ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint")
}
"""Names that denote a type when they stand alone, as in type(x) == string."""
