"""resource.Quantity: Kubernetes' fixed-point numbers such as `80Gi`, `500m`, `1e3`.

Used by the CEL library, device capacities and allocation.  Values are whole numbers of nano units, which is the
precision that the API keeps: comparison and addition are exact, and no float is ever involved.

The syntax is that of k8s.io/apimachinery/pkg/api/resource.  Two deliberate narrowings: a number needs at least one
digit (the Go parser reads `Ki` as zero), and exponents stay within ±`MAX_EXPONENT` so that no text is costly.
"""

import re
from decimal import Decimal
from typing import Final

NANO: Final = 10**9
MAX_LENGTH: Final = 128
MAX_EXPONENT: Final = 999

_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_MAX: Final = (2**63 - 1) * NANO


def parse(text: str) -> Decimal:
    """The exact value of a quantity; ValueError if the text is none.  The message does not repeat the text."""
    return Decimal(f"{nanos(text)}E-9")


def nanos(text: str) -> int:
    """The value in nano units, finer digits rounded away from zero as the API does; ValueError if the text is none.

    A quantity with a binary suffix is capped at 2^63-1, silently, like in the API.
    """
    form = _FORM.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if form is None:
        raise ValueError("not a quantity")
    exponent = int(form["exponent"] or 0) + _DECIMAL.get(form["decimal"] or "", 0)
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError("not a quantity: exponent out of range")
    fraction = form["fraction"] or ""
    digits = int((form["whole"] + fraction) or 0) << _BINARY.get(form["binary"] or "", 0)
    value = _shift(digits, exponent - len(fraction) + 9)
    if form["binary"]:
        value = min(value, _BINARY_MAX)
    return -value if form["sign"] == "-" else value


def _shift(digits: int, places: int) -> int:
    """digits * 10**places for digits >= 0, rounded up."""
    power = int(10 ** abs(places))
    return digits * power if places >= 0 else -(-digits // power)
