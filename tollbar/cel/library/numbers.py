"""How numbers are read and written: the forms of Go's strconv, which are CEL's.

Texts are checked against a form before anything parses them: Python's own int() and float() accept more, and are slow
on long input.  Called by conversions and formatting.
"""

import math
import re
from decimal import Decimal
from typing import Final

from tollbar.cel.core.limits import MAX_NUMBER, Fault

_INT: Final = re.compile(r"[+-]?[0-9]+")
_UINT: Final = re.compile(r"[0-9]+")
_DIGITS: Final = "[0-9]+(?:_[0-9]+)*"
_DECIMAL: Final = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX: Final = "[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_HEXADECIMAL: Final = re.compile(rf"[+-]?0[xX](?:_?{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})[pP][+-]?{_DIGITS}")
_WORD: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_SHORTEST: Final = 6
"""Digits before the point beyond which the shortest form has an exponent."""


def to_int(value: int) -> int:
    if -(2**63) <= value < 2**63:
        return value
    raise Fault("integer overflow")


def read_int(text: str, *, signed: bool) -> int:
    """The integer, of any size; a Fault if the text is none."""
    if len(text) > MAX_NUMBER or not (_INT if signed else _UINT).fullmatch(text):
        raise _not("int" if signed else "uint")
    value = int(text)
    if not (-(2**63) <= value < 2**63 if signed else value < 2**64):
        raise _not("int" if signed else "uint")
    return value


def read_double(text: str) -> float:
    if len(text) > MAX_NUMBER:
        raise _not("double")
    if _WORD.fullmatch(text):
        return float(text)
    try:
        if _DECIMAL.fullmatch(text):
            value = float(text.replace("_", ""))
        elif _HEXADECIMAL.fullmatch(text):
            value = float.fromhex(text.replace("_", ""))
        else:
            raise _not("double")
    except (OverflowError, ValueError):
        raise _not("double") from None
    if math.isinf(value):
        raise _not("double")
    return value


def _not(kind: str) -> Fault:
    return Fault(f"type conversion error from 'string' to '{kind}'")


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
