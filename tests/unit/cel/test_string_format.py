"""string.format(): every clause, and the errors of templates."""

from collections.abc import Callable
from typing import Any

import pytest

from tollbar.cel.library import string_format

TEXTS = {
    "no clause": ('"100%%".format([])', "100%"),
    "many clauses": ('"%s%%%d-%s".format(["a", 1, "b"])', "a%1-b"),
    "a string": ('"%s".format(["é"])', "é"),
    "numbers": ('"%s %s %s %s".format([1, 2u, 1.5, 1e6])', "1 2 1.5 1e+06"),
    "bool, null and bytes": ('"%s %s %s".format([true, null, b"é"])', "true null é"),
    "a timestamp": ('"%s".format([timestamp("2024-01-02T03:04:05.120+02:00")])', "2024-01-02T03:04:05.12+02:00"),
    "a duration": ('"%s".format([duration("1h1.5s")])', "3601.5s"),
    "types": ('"%s %s %s".format([int, type(ip("::1")), type(quantity("1"))])', "int net.IP kubernetes.Quantity"),
    "a list": ('"%s".format([[1, 2]])', "[1, 2]"),
    "an empty list and map": ('"%s %s".format([[], {}])', "[] {}"),
    "texts in a list are quoted": (r'"%s".format([["a\n\"b", "é\u00a0\x01"]])', r'["a\n\"b", "é\u00a0\x01"]'),
    "doubles in a list have six digits": ('"%s".format([[1.5, -0.0]])', "[1.500000, -0.000000]"),
    "doubles without end in a list": ('"%s".format([[0.0 / 0.0, 1.0 / 0.0]])', '["NaN", "+Inf"]'),
    "bytes and null in a list": (r'"%s".format([[dyn(b"a\n"), dyn(null), dyn(true)]])', r'[b"a\n", null, true]'),
    "times in a list": (
        '"%s".format([[dyn(timestamp(0)), dyn(duration("90s"))]])',
        '[timestamp("1970-01-01T00:00:00Z"), duration("90s")]',
    ),
    "a map sorted by its keys": ('"%s".format([{"b": 1, "a": [2]}])', '{"a":[2], "b":1}'),
    "a map sorted by the text of its keys": ('"%s".format([{2: 1, 10: 2}])', "{10:2, 2:1}"),
    "integers": ('"%d %d".format([-12, 12u])', "-12 12"),
    "fixed point": ('"%f %.2f %.0f".format([1.5, 0.125, 2.5])', "1.500000 0.12 2"),
    "fixed point with thousands": ('"%f".format([-1234567.5])', "-1,234,567.500000"),
    "fixed point of zero has no sign": ('"%.1f %.0f".format([-0.0, -0.4])', "0.0 -0"),
    "fixed point without end": ('"%f %f %f".format([1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0])', "∞ -∞ NaN"),
    "fixed point of words": ('"%f %f".format(["NaN", "Infinity"])', "NaN ∞"),
    "scientific": ('"%e".format([1234.5])', "1.234500×10⁰³"),
    "scientific of a small number": ('"%e".format([-0.00012345])', "-1.234500×10⁻⁰⁴"),
    "scientific of zero": ('"%e".format([-0.0])', "0.000000×10⁰⁰"),
    "the precision of scientific is a width": ('"%.3e|%.15e".format([1.5, 1.5])', "1.500000×10⁰⁰|  1.500000×10⁰⁰"),
    "scientific without end": ('"%e".format(["-Infinity"])', "    -∞"),
    "binary": ('"%b %b %b %b".format([5, -5, 7u, true])', "101 -101 111 1"),
    "octal": ('"%o %o %o".format([8, -8, 8u])', "10 -10 10"),
    "hexadecimal numbers": ('"%x %X %x".format([255, -255, 255u])', "ff -FF ff"),
    "hexadecimal texts": (r'"%x %X".format(["aé", b"\xab\xcd"])', "61c3a9 ABCD"),
    "a template from data": ("x.format([1])", "n=1"),
    "a template from data leaves arguments": ('x.format([1, "more"])', "n=1"),
}


@pytest.mark.parametrize(("source", "want"), TEXTS.values(), ids=TEXTS)
def test_the_template_formats_to_this_text(value: Callable[..., Any], source: str, want: str) -> None:
    assert value(source, x="n=%s") == want


FAILURES = {
    "a clause that is none": ("%a", [1], "could not parse formatting clause: unrecognized formatting clause"),
    "a width": ("%5d", [1], "could not parse formatting clause: unrecognized formatting clause"),
    "a template that ends too early": ("a%", [1], "unexpected end of string"),
    "a precision without clause": ("%.2", [1.5], "could not parse formatting clause: error while parsing precision"),
    "a precision without digits": ("%.f", [1.5], "could not parse formatting clause: error while parsing precision"),
    "a precision beyond 100": ("%.101f", [1.5], "could not parse formatting clause: error while parsing precision"),
    "a precision of many digits": (
        f"%.{'9' * 5000}f",
        [1.5],
        "could not parse formatting clause: error while parsing precision",
    ),
    "not enough arguments": ("%s %s", [1], "index 1 out of range"),
    "decimal of a double": (
        "%d",
        [1.5],
        "error during formatting: decimal clause can only be used on integers, was given double",
    ),
    "binary of a string": (
        "%b",
        ["a"],
        "error during formatting: only integers and bools can be formatted as binary, was given string",
    ),
    "octal of a bool": (
        "%o",
        [True],
        "error during formatting: octal clause can only be used on integers, was given bool",
    ),
    **{
        f"%{verb} of an int with 5,000 digits": (f"%{verb}", [value], "integer overflow")
        for verb, value in (("d", 10**5000), ("s", -(10**5000)), ("x", 10**5000), ("b", 10**5000), ("o", 10**5000))
    },
    "an int with 5,000 digits in a list": ("%s", [[10**5000]], "integer overflow"),
    "hexadecimal of a double": (
        "%x",
        [1.5],
        "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double",
    ),
    "fixed point of an int": (
        "%f",
        [1],
        "error during formatting: fixed-point clause can only be used on doubles, was given int",
    ),
    "fixed point of another word": (
        "%f",
        ["one"],
        "error during formatting: fixed-point clause can only be used on doubles, was given string",
    ),
    "scientific of a list": (
        "%e",
        [[]],
        "error during formatting: scientific clause can only be used on doubles, was given list",
    ),
}


@pytest.mark.parametrize(("template", "arguments", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(
    value: Callable[..., Any], template: str, arguments: list[Any], want: str
) -> None:
    kind, text = value("x.format(y)", x=template, y=arguments)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)


def test_values_that_cannot_be_formatted(value: Callable[..., Any]) -> None:
    want = (
        "1:3: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
        "lists, types, durations, and timestamps, was given kubernetes.Quantity"
    )
    assert value('x.format([dyn(quantity("1"))])', x="%s") == ("RUNTIME", want)


CHECKED: dict[str, tuple[str, list[str], str | None]] = {
    "fitting": ("%s %d %.2f %%", ["list", "int", "double"], None),
    "unknown kinds": ("%d %e", ["dyn", "dyn"], None),
    "too few arguments": ("%s %s", ["int"], "index 1 out of range"),
    "too many arguments": ("%s", ["int", "int"], "too many arguments supplied to string.format (expected 1, got 2)"),
    "an argument that does not fit": (
        "%d",
        ["timestamp"],
        "error during formatting: decimal clause can only be used on integers, was given google.protobuf.Timestamp",
    ),
    "no template": ("%", [], "unexpected end of string"),
}


@pytest.mark.parametrize(("template", "kinds", "want"), CHECKED.values(), ids=CHECKED)
def test_the_check_of_a_literal_template(template: str, kinds: list[str], want: str | None) -> None:
    assert string_format.check(template, kinds) == want
