"""timestamp(), duration() and their fields, on cel-python's time types (microseconds).

cel-python's own parsing of durations backtracks exponentially, and its timestamps accept many formats: both see only
short texts that already have the form of RFC 3339 or of Go's durations.
"""

import re
from collections.abc import Callable
from typing import Any, Final, cast

from celpy.celtypes import DurationType, TimestampType
from celpy.evaluation import base_functions

from tollbar.cel.functions import Overload, overload
from tollbar.cel.limits import MAX_NUMBER, PARSE_STEPS, ZONE_STEPS, Budget, Fault

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_DURATION: Final = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|ms|s|m|h))+")
_ZONE: Final = re.compile(r"[+-]?[0-9]{2}:[0-9]{2}|[A-Za-z][A-Za-z0-9_+/-]*")


def to_timestamp(budget: Budget, text: str) -> TimestampType:
    budget.spend(PARSE_STEPS)
    if len(text) > MAX_NUMBER or not _TIMESTAMP.fullmatch(text):
        raise Fault("not an RFC 3339 timestamp")
    try:
        return TimestampType(text.upper())
    except (ValueError, OverflowError):
        raise Fault("not an RFC 3339 timestamp") from None


def to_duration(budget: Budget, text: str) -> DurationType:
    budget.spend(PARSE_STEPS)
    text = text[: MAX_NUMBER + 1].replace("µ", "u")
    if text in ("0", "+0", "-0"):
        return DurationType(0)
    if len(text) > MAX_NUMBER or not _DURATION.fullmatch(text):
        raise Fault("not a duration")
    try:
        return DurationType(text)
    except (ValueError, OverflowError):
        raise Fault("duration is out of range") from None


def _field(name: str) -> Callable[..., int]:
    function = base_functions[name]

    def get(budget: Budget, time: Any, zone: str | None = None) -> int:
        if zone is not None:
            budget.spend(ZONE_STEPS)
            if len(zone) > MAX_NUMBER or not _ZONE.fullmatch(zone):
                raise Fault("not a time zone")
        try:
            return int(cast("int", function(time, zone)))
        except (ValueError, OverflowError, OSError):
            raise Fault("not a time zone, or time is out of range") from None

    return get


def _fields() -> tuple[Overload, ...]:
    of_duration = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")
    of_timestamp = ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", *of_duration)
    return (
        *(overload(f"timestamp.{name}() -> int", _field(name)) for name in of_timestamp),
        *(overload(f"timestamp.{name}(string) -> int", _field(name)) for name in of_timestamp),
        *(overload(f"duration.{name}() -> int", _field(name)) for name in of_duration),
    )


OVERLOADS: Final = (
    overload("timestamp(string) -> timestamp", to_timestamp),
    overload("timestamp(timestamp) -> timestamp", lambda _, time: time),
    overload("duration(string) -> duration", to_duration),
    overload("duration(duration) -> duration", lambda _, duration: duration),
    *_fields(),
)
