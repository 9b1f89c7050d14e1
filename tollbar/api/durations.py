"""Durations as Kubernetes writes them: Go's syntax, `90s`, `1m30s`, `1.5h`."""

import re
from typing import Final

PATTERN: Final = r"^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$"
"""Six digits a unit, so that only absurd texts overflow the API server's 64-bit nanoseconds."""
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse(text: str) -> float:
    """The duration in seconds.  Raises ValueError for texts that `PATTERN` does not match."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError("must be a duration such as 60s or 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def is_positive(text: str) -> bool:
    """Whether it is a duration longer than nothing."""
    try:
        return parse(text) > 0
    except ValueError:
        return False


def text(seconds: float) -> str:
    """The duration as Go prints it: `1m30s`, `1h0m0s`, `1.5s`, `250ms`, `0s`; to the microsecond."""
    micros = round(seconds * 1_000_000)
    if micros < 0:
        return f"-{text(-seconds)}"
    if micros < 1_000:
        return f"{micros}µs" if micros else "0s"
    if micros < 1_000_000:
        return f"{_decimal(micros, 1_000)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    below = f"{_decimal(rest, 1_000_000)}s"
    return f"{hours}h{minutes}m{below}" if hours else f"{minutes}m{below}" if minutes else below


def _decimal(number: int, unit: int) -> str:
    whole, part = divmod(number, unit)
    return f"{whole}.{part:0{len(str(unit)) - 1}}".rstrip("0") if part else str(whole)
