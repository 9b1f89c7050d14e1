"""resource.Quantity: what the API server reads, as exact numbers."""

from decimal import Decimal

import pytest

from tollbar.model.quantity import amount, integer, nanos, parse, read

VALUES = {
    "a plain number": ("1", "1"),
    "a sign": ("-1.5", "-1.5"),
    "a plus sign": ("+2", "2"),
    "no whole part": (".5", "0.5"),
    "no digits after the point": ("1.", "1"),
    "no digits after the point, with a suffix": ("1.G", "1000000000"),
    "leading zeros": ("007", "7"),
    "nano": ("5n", "0.000000005"),
    "micro": ("5u", "0.000005"),
    "milli": ("500m", "0.5"),
    "kilo": ("1k", "1000"),
    "mega": ("1M", "1000000"),
    "giga": ("1G", "1000000000"),
    "tera": ("1T", "1000000000000"),
    "peta": ("1P", "1000000000000000"),
    "exa": ("1E", "1000000000000000000"),
    "kibi": ("1Ki", "1024"),
    "mebi": ("1Mi", "1048576"),
    "gibi": ("80Gi", "85899345920"),
    "tebi": ("1Ti", "1099511627776"),
    "pebi": ("1Pi", "1125899906842624"),
    "exbi": ("1Ei", "1152921504606846976"),
    "a fraction of a binary unit": ("1.5Ki", "1536"),
    "an exponent": ("12e6", "12000000"),
    "an exponent with a capital E": ("1E3", "1000"),
    "a negative exponent": ("1e-3", "0.001"),
    "an exponent with a plus sign": ("1e+3", "1000"),
    "finer than nano rounds away from zero": ("0.9n", "0.000000001"),
    "finer than nano, negative, rounds away from zero": ("-1e-12", "-0.000000001"),
    "zero stays zero however fine": ("0e-20", "0"),
    "a binary quantity is capped": ("8Ei", "9223372036854775807"),
    "a negative binary quantity is capped too": ("-16Ei", "-9223372036854775807"),
    "a sign alone": ("-", "0"),
    "a point alone": (".", "0"),
    "a suffix alone": ("Ki", "0"),
    "a decimal quantity is not capped": ("18446744073709551616", "18446744073709551616"),
}


@pytest.mark.parametrize(("text", "want"), VALUES.values(), ids=VALUES)
def test_value(text: str, want: str) -> None:
    assert parse(text) == Decimal(want)


REFUSED = {
    "nothing": "",
    "a large unit without a number": "Ei",
    "a small exponent without a number": "e-10",
    "an unknown suffix": "1K",
    "a lower case binary suffix": "1ki",
    "a space": "1 Gi",
    "a trailing newline": "1\n",
    "a comma": "1,5",
    "two points": "1.2.3",
    "an exponent without digits": "1e",
    "a fraction in the exponent": "1e1.5",
    "two suffixes": "1Gim",
    "an exponent and a suffix": "1e3k",
    "digits that are not ASCII": "\u0661",
    "an exponent out of range": "1e1000",
    "a negative exponent out of range": "1e-1000",
    "text that is too long": "1" * 129,
    "a word": "Three",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\Anot a quantity(: exponent out of range)?\Z"):
        parse(text)


def test_nano_units_are_whole() -> None:
    assert [nanos("1.5"), nanos("-2m"), nanos("1Ki")] == [1_500_000_000, -2_000_000, 1_024_000_000_000]


# What Kubernetes' AsInt64 and AsApproximateFloat64 answer, which depends on how it keeps the number.
FORMS: dict[str, tuple[str, int | None, float]] = {
    "an integer": ("5", 5, 5.0),
    "a decimal suffix": ("1k", 1000, 1000.0),
    "a binary suffix": ("1Gi", 2**30, 2.0**30),
    "an exponent": ("1e18", 10**18, 1e18),
    "zero": ("0", 0, 0.0),
    "a fraction of zero": ("1.0", None, 1.0),
    "milli units that are whole": ("1000m", None, 1.0),
    "a fraction of a binary unit that is whole": ("1.5Gi", None, 1.5 * 2**30),
    "a large binary unit": ("1Ei", None, 2.0**60),
    "nineteen digits": ("9223372036854775807", None, 9223372036854775807.0),
    "eighteen digits": ("999999999999999999", 999999999999999999, 999999999999999999.0),
    "an exponent beyond 64 bits": ("1e19", None, 1e19),
    "an exponent beyond double": ("-1e400", None, float("-inf")),
    "a rounding error of the power of ten": ("3e-9", None, 3.0000000000000004e-09),
}


@pytest.mark.parametrize(("text", "integral", "approximate"), FORMS.values(), ids=FORMS)
def test_form(text: str, integral: int | None, approximate: float) -> None:
    quantity = read(text)
    assert (quantity.as_int64(), quantity.as_float()) == (integral, approximate)


SUMS: dict[str, tuple[str, str, int, str, int | None]] = {
    "integers": ("2", "3", 1, "5", 5),
    "a difference": ("2", "3", -1, "-1", -1),
    "nothing added": ("2", "0.0", 1, "2", 2),
    "to nothing": ("0.0", "2", 1, "2", 2),
    "halves stay in milli units": ("500m", "500m", 1, "1", None),
    "a fraction that cancels out stays one": ("0.1", "0.1", -1, "0", None),
    "an arbitrary decimal stays one": ("1.5Gi", "0", 1, "1.5Gi", None),
    "beyond 64 bits": ("9E", "9E", 1, "18E", None),
}


@pytest.mark.parametrize(("a", "b", "sign", "want", "integral"), SUMS.values(), ids=SUMS)
def test_sum(a: str, b: str, sign: int, want: str, integral: int | None) -> None:
    found = read(a).plus(read(b), sign)
    assert (found, found.as_int64()) == (read(want), integral)


def test_the_quantity_of_an_integer() -> None:
    assert (integer(-7), integer(-7).as_int64()) == (read("-7"), -7)


CANONICAL: dict[str, tuple[str, str]] = {
    "a binary unit as large as possible": ("1024Mi", "1Gi"),
    "a fraction of a binary unit": ("1.5Gi", "1536Mi"),
    "a binary number below 1024 is written as a decimal one": ("0.5Ki", "512"),
    "a fraction of a byte is rounded up": ("1025.5Ki", "1050112"),
    "thousands": ("1000", "1k"),
    "not a multiple of a thousand": ("1500", "1500"),
    "thousandths": ("0.5", "500m"),
    "an exponent stays one": ("12000e3", "12e6"),
    "a large decimal number": ("3000000000000000000", "3E"),
    "nothing": ("0Ki", "0"),
    "a negative number": ("-2048Ki", "-2Mi"),
}


@pytest.mark.parametrize(("text", "want"), CANONICAL.values(), ids=CANONICAL)
def test_the_canonical_text(text: str, want: str) -> None:
    assert str(amount(text)) == want
    assert amount(want).nanos >= amount(text).nanos
