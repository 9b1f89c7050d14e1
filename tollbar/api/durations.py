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
