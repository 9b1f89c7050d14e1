"""Numbers: arithmetic, comparison across types, and conversions."""

import math
from collections.abc import Callable
from typing import Any

import pytest

X: dict[str, Any] = {
    "one": 1,
    "s": "abc",
    "big": 2**70,
    "fraction": "1.5",
    "negative": "-7",
    "digits": "1" * 65,
    "minimum": -(2**63),
    "maximum": 2**63 - 1,
    "exact": 2**53 + 1,
    "half": "\ud800",
}

TRUE = {
    "division truncates toward zero": "7 / 2 == 3 && -7 / 2 == -3 && 7 / -2 == -3 && -7 / -2 == 3",
    "the remainder has the sign of the dividend": "7 % 3 == 1 && -7 % 3 == -1 && 7 % -3 == 1",
    "unsigned arithmetic": "7u / 2u == 3u && 7u % 2u == 1u && 3u * 4u == 12u && 3u - 3u == 0u",
    "double arithmetic": "1.5 + 1.0 == 2.5 && 1.5 * 2.0 == 3.0 && -(1.5) == -1.5 && 3.0 / 2.0 == 1.5",
    "division of doubles by zero": "1.0 / 0.0 > 1e308 && -1.0 / 0.0 < -1e308 && 1.0 / -0.0 < -1e308",
    "NaN is unequal to itself": "0.0 / 0.0 != 0.0 / 0.0 && !(0.0 / 0.0 == 1.0)",
    "numbers are equal across types": "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1.0) == 1u && [dyn(1)] == [dyn(1.0)]",
    "numbers are unequal across types": "dyn(1) != 1.5 && dyn(-1) != 1u",
    "numbers are ordered across types": "1 < 1.5 && 1u < 2 && -1 < 0u && 2.5 > 2u && 1 <= 1.0",
    "integers compare with doubles as doubles": "dyn(x.exact) == 9007199254740992.0 && !(x.exact > 9007199254740992.0)",
    "the ends of the range": "x.maximum < 9223372036854775808.0 == false && x.minimum == -9223372036854775808.0",
    "a bool is no number": "dyn(true) != 1 && dyn(false) != 0.0 && dyn(1) != true && !(dyn(true) in [1])",
    "a number in a list of other numbers": "dyn(1.0) in [1, 2] && !(dyn(1.5) in [1]) && dyn(1u) in [dyn(1.0)]",
    "a number as key": "dyn(1.0) in {1: 2} && {1: 2}[dyn(1u)] == 2 && !(dyn(1.5) in {1: 2}) && !(dyn(true) in {1: 2})",
    "a whole double as index": "[1, 2][dyn(1.0)] == 2 && [1, 2][dyn(0u)] == 1",
    "int of numbers": "int(1.9) == 1 && int(-1.9) == -1 && int(5u) == 5 && int(7) == 7",
    "int of texts": 'int("-12") == -12 && int("+12") == 12 && int("007") == 7',
    "the largest int of a double": "int(9223372036854774784.0) == 9223372036854774784",
    "uint": 'uint("12") == 12u && uint(5) == 5u && uint(1.9) == 1u && uint(7u) == 7u && uint(-0.0) == 0u',
    "double": 'double("1.5e1") == 15.0 && double(2) == 2.0 && double(2u) == 2.0 && double(0.5) == 0.5',
    "double of a text without digits on one side": 'double(".5") == 0.5 && double("5.") == 5.0',
    "double of texts as Go writes numbers": 'double("1_000.5") == 1000.5 && double("0x1p-2") == 0.25',
    "double of a text too small for one": 'double("1e-400") == 0.0',
    "double of words": 'double("inf") > 1e308 && double("-Infinity") < -1e308 && double("NaN") != double("NaN")',
    "bool": 'bool("true") && !bool("false") && bool(true) && bool("1") && !bool("F") && bool("TRUE")',
    "string of numbers": 'string(5) == "5" && string(5u) == "5" && string(-5) == "-5"',
    "string of bools and strings": 'string(true) == "true" && string(false) == "false" && string("a") == "a"',
    "string of short doubles": 'string(1.0) == "1" && string(1.5) == "1.5" && string(-0.0) == "-0"',
    "string of large doubles": 'string(100000.0) == "100000" && string(1e6) == "1e+06" && string(1e100) == "1e+100"',
    "string of small doubles": 'string(0.0001) == "0.0001" && string(0.00001) == "1e-05" && string(5e-324) == "5e-324"',
    "string of a double with many digits": 'string(123456789.0) == "1.23456789e+08"',
    "string of what is no number": 'string(0.0 / 0.0) == "NaN" && string(-1.0 / 0.0) == "-Inf"',
    "string of bytes": 'string(b"é") == "é"',
    "bytes": r'bytes("é") == b"\xc3\xa9" && bytes(b"a") == b"a" && b"a" + b"b" == b"ab"',
    "bytes are ordered": 'b"a" < b"b" && b"" < b"a" && b"b" >= b"a"',
    "bools are ordered": "false < true && true >= true",
    "dyn": 'dyn("a") == "a"',
    "types of numbers": "type(1) == int && type(1u) == uint && type(1.0) == double && type(true) == bool",
    "types of containers": "type([]) == list && type({}) == map && type(null) == null_type && type(b'') == bytes",
    "the type of a type": "type(int) == type && type(type(1)) == type",
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


FAILURES = {
    "integer overflow": ("x.maximum + x.one", "integer overflow"),
    "integer underflow": ("x.minimum - x.one", "integer overflow"),
    "the negative of the smallest integer": ("-x.minimum", "integer overflow"),
    "the smallest integer divided by -1": ("x.minimum / -x.one", "integer overflow"),
    "the remainder of the smallest integer and -1": ("x.minimum % -x.one", "integer overflow"),
    "an integer divided by zero": ("x.one / (x.one - 1)", "division by zero"),
    "the remainder of a division by zero": ("x.one % (x.one - 1)", "modulus by zero"),
    "unsigned underflow": ("1u - uint(x.one) - 1u", "unsigned integer overflow"),
    "unsigned overflow": ("18446744073709551615u + uint(x.one)", "unsigned integer overflow"),
    "an unsigned division by zero": ("1u / uint(x.one - 1)", "division by zero"),
    "the remainder of doubles": ("dyn(1.5) % dyn(1.0)", "no such overload: %(double, double)"),
    "the negative of an unsigned integer": ("-dyn(1u)", "no such overload: -(uint)"),
    "a sum across types": ("dyn(x.one) + 1.5", "no such overload: +(int, double)"),
    "order of NaN": ("0.0 / 0.0 < dyn(x.one)", "NaN values cannot be ordered"),
    "order of NaN on the right": ("dyn(x.one) >= 0.0 / 0.0", "NaN values cannot be ordered"),
    "order of a number and a bool": ("x.one < dyn(true)", "no such overload: <(int, bool)"),
    "a fraction as index": ("[1][dyn(0.5)]", "no such overload: [](list, double)"),
    "int of a word": ("int(x.s)", "type conversion error from 'string' to 'int'"),
    "int of a fraction": ("int(x.fraction)", "type conversion error from 'string' to 'int'"),
    "int of many digits": ("int(x.digits)", "type conversion error from 'string' to 'int'"),
    "int of a large double": ("int(dyn(1e300))", "integer overflow"),
    "int of the double below the smallest integer": ("int(dyn(-9223372036854775808.0))", "integer overflow"),
    "int of an infinite double": ("int(1.0 / 0.0)", "integer overflow"),
    "int of NaN": ("int(0.0 / 0.0)", "integer overflow"),
    "int of a large uint": ("int(dyn(18446744073709551615u))", "integer overflow"),
    "uint of a negative int": ("uint(-x.one)", "unsigned integer overflow"),
    "uint of a negative text": ("uint(x.negative)", "type conversion error from 'string' to 'uint'"),
    "uint of a negative double": ("uint(dyn(-0.5))", "unsigned integer overflow"),
    "double of a word": ("double(x.s)", "type conversion error from 'string' to 'double'"),
    "double of many digits": ("double(x.digits)", "type conversion error from 'string' to 'double'"),
    "double of a text too large for one": (
        "double(x.negative + 'e999')",
        "type conversion error from 'string' to 'double'",
    ),
    "double of an integer beyond 64 bits": ("double(x.big)", "integer overflow"),
    "string of an integer beyond 64 bits": ("string(x.big)", "integer overflow"),
    "string of null": ("string(dyn(null))", "no such overload: string(null_type)"),
    "string of bytes that are no text": (
        r'string(dyn(b"\xff"))',
        "invalid UTF-8 in bytes, cannot convert to string",
    ),
    "bytes of half a character": ("bytes(x.half)", "string is not valid Unicode"),
    "bool of a word": ("bool(x.s)", "type conversion error from 'string' to 'bool'"),
    "bool of an int": ("bool(dyn(1))", "no such overload: bool(int)"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)


DOUBLES = {
    "infinity divided by NaN": ("(1.0 / 0.0) / (0.0 / 0.0)", math.nan),
    "zero divided by zero": ("0.0 / 0.0", math.nan),
    "infinity divided by zero": ("1.0 / 0.0 / 0.0", math.inf),
    "infinity divided by minus zero": ("1.0 / 0.0 / -0.0", -math.inf),
    "an overflow": ("1e308 * 10.0", math.inf),
}


@pytest.mark.parametrize(("source", "want"), DOUBLES.values(), ids=DOUBLES)
def test_a_text_is_read_as_this_double(value: Callable[..., Any], source: str, want: float) -> None:
    assert repr(value(source)) == repr(want)
