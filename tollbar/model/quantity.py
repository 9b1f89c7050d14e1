"""resource.Quantity: Kubernetes' fixed-point numbers such as `80Gi`, `500m`, `1e3`.

Values are whole numbers of nano units, which is the precision that the API keeps: comparison and addition are exact,
and no float is ever involved.

The syntax is that of k8s.io/apimachinery/pkg/api/resource, which also takes a suffix without any digit (`Ki`) as zero.
So that parsing is cheap for any text, a quantity has at most `MAX_LENGTH` characters and an exponent within
±`MAX_EXPONENT`.
"""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

NANO: Final = 10**9
MAX_LENGTH: Final = 128
MAX_EXPONENT: Final = 999

_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES: Final = {0: ""} | {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_EXPONENT: Final = re.compile("[eE][+-]?[0-9]")
_INT64_MAX: Final = 2**63 - 1
_BINARY_MAX: Final = _INT64_MAX * NANO
_INT64_DIGITS: Final = 18
"""The most digits for which Kubernetes takes the 64-bit form without looking at the value."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in nano units; compared by value.

    Kubernetes keeps most quantities as a 64-bit integer times a power of ten and the others as an arbitrary decimal,
    and some of its answers show which.  `exponent` is that power, `small` says that it is the first form.
    """

    nanos: int
    exponent: int = field(default=-9, compare=False)
    small: bool = field(default=False, compare=False)

    def unscaled(self) -> int:
        """The integer that the power of ten multiplies."""
        return _shift(self.nanos, -9 - self.exponent)

    def as_int64(self) -> int | None:
        """The value, if it is kept as a 64-bit integer with a power of ten of at least one."""
        if not self.small or self.exponent < 0:
            return None
        value = self.nanos // NANO
        return value if -_INT64_MAX - 1 <= value <= _INT64_MAX else None

    def as_float(self) -> float:
        """The value with the rounding errors of Kubernetes' AsApproximateFloat64."""
        try:
            base = float(self.unscaled())
        except OverflowError:
            base = float("inf") if self.nanos > 0 else float("-inf")
        return base if self.exponent == 0 else base * _power_of_ten(self.exponent)

    def plus(self, other: "Quantity", sign: int = 1) -> "Quantity":
        """The sum, or with sign -1 the difference."""
        nanos = self.nanos + sign * other.nanos
        exponent = min(self.exponent, other.exponent)
        if self.small and other.small:
            if other.nanos == 0:
                return self
            if self.nanos == 0:
                exponent = other.exponent
            if _fits(self, exponent) and _fits(other, exponent) and _fits(Quantity(nanos), exponent):
                return Quantity(nanos, exponent, small=True)
        return Quantity(nanos, exponent)


def integer(value: int) -> Quantity:
    """The quantity of a 64-bit integer."""
    return Quantity(value * NANO, 0, small=True)


def parse(text: str) -> Decimal:
    """The exact value of a quantity; ValueError if the text is none.  The message does not repeat the text."""
    return Decimal(f"{nanos(text)}E-9")


def nanos(text: str) -> int:
    """The value in nano units; ValueError if the text is none."""
    return read(text).nanos


@lru_cache(maxsize=4096)
def read(text: str) -> Quantity:
    """The quantity; ValueError if the text is none.  Digits finer than nano are rounded away from zero.

    A quantity with a binary suffix is capped at 2^63-1, silently, like in the API.  A cluster has few different ones.
    """
    form = _FORM.fullmatch(text) if 0 < len(text) <= MAX_LENGTH else None
    if form is None:
        raise ValueError("not a quantity")
    exponent = int(form["exponent"] or 0) + _DECIMAL.get(form["decimal"] or "", 0)
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError("not a quantity: exponent out of range")
    whole, fraction = form["whole"], form["fraction"] or ""
    shift = _BINARY.get(form["binary"] or "", 0)
    digits = int((whole + fraction) or 0) << shift
    room = _INT64_DIGITS - len(whole.lstrip("0") or "0") - len(fraction)
    if shift:
        # The margin that Kubernetes leaves for the digits of the binary unit; fractions of it are decimals.
        room -= 4 + shift * 3 // 10 if not fraction else room + 1
    exponent -= len(fraction)
    small = room >= 0 and exponent >= -9 and digits <= _INT64_MAX
    if not small and not whole + fraction:
        raise ValueError("not a quantity")
    value = _shift(digits, exponent + 9)
    if digits and not small:
        exponent = -9
    if shift and value > _BINARY_MAX:
        value, exponent = _BINARY_MAX, 0
    return Quantity(-value if form["sign"] == "-" else value, exponent, small)


class Amount(NamedTuple):
    """A quantity in nano units and the form in which it is written: `Ki` (binary), `e` (exponent) or empty (decimal).

    Compare `nanos`: two amounts of one value may be written in different forms.
    """

    nanos: int
    form: str = ""

    def __str__(self) -> str:
        """The canonical text, with the largest unit that needs no fraction (CanonicalizeBytes of resource.Quantity)."""
        if self.form == "Ki" and abs(self.nanos) >= 1024 * NANO:
            value, power = -(-self.nanos // NANO), 0
            while value % 1024 == 0 and power < len(_BINARY):
                value, power = value // 1024, power + 1
            return f"{value}{('', *_BINARY)[power]}"
        value, exponent = self.nanos, -9
        if value == 0:
            return "0"
        while value % 1000 == 0 and (exponent < 18 or self.form == "e"):
            value, exponent = value // 1000, exponent + 3
        if self.form == "e":
            return f"{value}e{exponent}" if exponent else str(value)
        return f"{value}{_SUFFIXES[exponent]}"


def amount(text: str) -> Amount:
    """The value with its form; ValueError if the text is none."""
    return Amount(read(text).nanos, "Ki" if text.endswith("i") else "e" if _EXPONENT.search(text) else "")


def _shift(digits: int, places: int) -> int:
    """digits * 10**places, rounded away from zero."""
    power = int(10 ** abs(places))
    if places >= 0:
        return digits * power
    return -(-digits // power) if digits >= 0 else digits // power


def _fits(quantity: Quantity, exponent: int) -> bool:
    return -_INT64_MAX - 1 <= _shift(quantity.nanos, -9 - exponent) <= _INT64_MAX


def _power_of_ten(exponent: int) -> float:
    """math.Pow10 of Go, which multiplies two table entries and so is off by a bit here and there."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    coarse, fine = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{coarse * 32}") * float(f"1e{fine}")
    return float(f"1e-{coarse * 32}") / float(f"1e{fine}")
