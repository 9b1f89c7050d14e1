"""Values of an evaluation as JSON, for people.

JSON has fewer kinds than CEL: whole numbers that a double does not represent exactly are strings, as are values of
kinds that JSON does not have.
"""

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tollbar.cel.core.values import Timestamp, kind
from tollbar.cel.library.times import SECOND, fraction_text, timestamp_text

_EXACT: Final = 2**53
"""Up to here a double represents every whole number exactly."""


def plain(value: Any) -> Any:
    """The value as JSON: an absent optional is null, the keys of maps are strings."""
    match name(value):
        case "null_type" | "bool" | "string":
            return value
        case "int" | "uint":
            return int(value) if -_EXACT <= value <= _EXACT else str(int(value))
        case "double":
            return value if math.isfinite(value) else scalar(value)
        case "list":
            return [plain(item) for item in value]
        case "map":
            return {scalar(key): plain(item) for key, item in value.items()}
        case "optional":
            return plain(value.value) if value.present else None
        case _:
            return scalar(value)


def name(value: Any) -> str:
    """The kind of the value as text for people."""
    return kind(value).removesuffix("_type") if kind(value) == "optional_type" else kind(value)


def scalar(value: Any) -> str:
    """A value without parts as text."""
    return _TEXTS.get(name(value), str)(value)


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _duration(value: Any) -> str:
    """Seconds, as in protobuf's JSON."""
    seconds, nanos = divmod(abs(value.nanos), SECOND)
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction_text(nanos)}s"


def _quantity(value: Any) -> str:
    number = Decimal(value.nanos).scaleb(-9)
    return format(number.normalize() if number % 1 else number.quantize(Decimal(1)), "f")


def _semver(value: Any) -> str:
    pre = ".".join(map(str, value.prerelease))
    return f"{value.major}.{value.minor}.{value.patch}{pre and f'-{pre}'}{value.build and f'+{value.build}'}"


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "null_type": lambda _: "null",
    "bool": lambda value: "true" if value else "false",
    "int": lambda value: str(int(value)),
    "uint": lambda value: str(int(value)),
    "double": _double,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "timestamp": lambda value: timestamp_text(Timestamp(value.nanos)),
    "duration": _duration,
    "quantity": _quantity,
    "semver": _semver,
    "type": lambda value: str(value.name),
}
