"""timestamp() and duration() in nanoseconds, their arithmetic and their fields.

Texts are parsed as Go's time package does: digits beyond nanoseconds are cut off, and a duration with a fraction is
rounded as in Go.  Timestamps lie in the years 1 to 9999, as in protobuf; in a time zone they may be in the year before
or after.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from typing import Final
from zoneinfo import ZoneInfo

from tollbar.cel.core.limits import MAX_NUMBER, CostTracker, Fault
from tollbar.cel.core.values import Duration, Timestamp
from tollbar.cel.library.basics import no_conversion, plain, same, to_int
from tollbar.cel.library.functions import overload

SECOND: Final = 10**9
_MIN: Final = -62_135_596_800 * SECOND
_MAX: Final = 253_402_300_800 * SECOND - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = 86_400
_TIMESTAMP_STEPS: Final = 260
_DURATION_STEPS: Final = 80
_TERM_STEPS: Final = 70
"""For each number with its unit in a duration."""
_VALUE_STEPS: Final = 45
"""For making a timestamp or a duration."""
_SUM_STEPS: Final = 90
_FIELD_STEPS: Final = 110
TEXT_STEPS: Final = 250
"""For the text of a timestamp or a duration."""
_OFFSET_STEPS: Final = 95
_ZONE_STEPS: Final = 230
_NEW_ZONE_STEPS: Final = 30_000
"""For a named time zone, which may have to be read from the zone database."""
_TINY: Final = 40
"""Zeros after the point beyond which digits do not amount to a nanosecond."""
_ERA: Final = 146_097
"""Days in 400 years, after which the calendar repeats."""

_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_TERM: Final = re.compile(r"([0-9]*+)(?:(\.)([0-9]*+))?(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_OFFSET: Final = re.compile(r"(?P<hours>[+-]?[0-9]+):(?P<minutes>[+-]?[0-9]+)")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_no_timestamp: Final = partial(no_conversion, "timestamp")
_no_duration: Final = partial(no_conversion, "duration")


def in_range(nanos: int, offset: int = 0) -> Timestamp:
    if _MIN <= nanos <= _MAX:
        return Timestamp(nanos, offset)
    raise Fault("timestamp overflow")


def to_timestamp(cost: CostTracker, text: str) -> Timestamp:
    """RFC 3339, and what Go accepts beyond it."""
    cost.charge(_TIMESTAMP_STEPS)
    cost.read(len(text))
    form = _TIMESTAMP.fullmatch(text)
    if form is None:
        raise _no_timestamp()
    year, month, day, hour, minute, second = map(int, form.groups()[:6])
    fraction, sign = form[7] or "", form[8]
    hours, minutes = int(form[9] or 0), int(form[10] or 0)
    try:
        days = date(year, month, day).toordinal() - 719_163
    except ValueError:
        raise _no_timestamp() from None
    if hour > 23 or minute > 59 or second > 59 or hours > 24 or minutes > 60:
        raise _no_timestamp()
    offset = (hours * 60 + minutes) * (-1 if sign == "-" else 1)
    seconds = days * _DAY + hour * 3600 + (minute - offset) * 60 + second
    return in_range(seconds * SECOND + int(fraction[:9].ljust(9, "0")), offset)


def to_duration(cost: CostTracker, text: str) -> Duration:
    """Go's durations: `1h30m`, `-1.5s`, `0`.  Linear in the text."""
    cost.charge(_DURATION_STEPS)
    cost.read(len(text))
    negative = text.startswith("-")
    at = 1 if text[:1] in ("+", "-") else 0
    if text[at:] == "0":
        return Duration(0)
    total = 0
    while at < len(text) or not text:
        term = _TERM.match(text, at)
        if term is None or not (term[1] or term[3]):
            raise _no_duration()
        cost.charge(_TERM_STEPS)
        total += _nanos(term[1], term[3] or "", _UNITS[term[4]])
        if total > 2**63:
            raise _no_duration()
        at = term.end()
    if (not total and at < 2) or total > 2**63 - (not negative):
        raise _no_duration()
    return Duration(-total if negative else total)


def _nanos(whole: str, fraction: str, unit: int) -> int:
    """One number with its unit.  The fraction is computed as a double, and so rounded, as in Go."""
    digits = whole.lstrip("0")
    if len(digits) > 19:
        raise _no_duration()
    found = int(digits or 0) * unit
    significant = fraction.lstrip("0")
    places = len(fraction) - len(significant)
    if significant and places < _TINY:
        kept = significant[:19] if int(significant[:19]) <= 2**63 else significant[:18]
        found += int(float(int(kept)) * (float(unit) / float(10 ** (places + len(kept)))))
    if found > 2**63:
        raise _no_duration()
    return found


def plus(time: Timestamp, nanos: int) -> Timestamp:
    return in_range(time.nanos + nanos, time.offset)


def timestamp_text(time: Timestamp) -> str:
    """RFC 3339 at the offset of the text that it was parsed from, with as many digits as needed."""
    seconds, nanos = divmod(time.nanos + time.offset * 60 * SECOND, SECOND)
    days, second = divmod(seconds, _DAY)
    year, month, day = _civil(days)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    hours, minutes = divmod(abs(time.offset), 60)
    zone = f"{'-' if time.offset < 0 else '+'}{hours:02d}:{minutes:02d}" if time.offset else "Z"
    return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction_text(nanos)}{zone}"


def fraction_text(nanos: int) -> str:
    """The digits behind the whole seconds, as many as needed."""
    return f".{nanos:09d}".rstrip("0") if nanos else ""


def duration_text(duration: Duration) -> str:
    return f"{plain(_float(duration.nanos, SECOND))}s"


def _float(nanos: int, unit: int) -> float:
    """A duration in a unit, rounded as in Go: whole units and the rest are converted separately."""
    whole, rest = divmod(abs(nanos), unit)
    value = float(whole) + float(rest) / float(unit)
    return -value if nanos < 0 else value


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970, for years that Python's calendar does not have as well."""
    eras, rest = divmod(days + 719_162, _ERA)
    day = date.fromordinal(rest + 1)
    return day.year + eras * 400, day.month, day.day


def _local(cost: CostTracker, time: Timestamp, zone: str) -> tuple[int, int]:
    """Seconds since 1970 and nanoseconds, in the local time of the zone."""
    seconds, nanos = divmod(time.nanos, SECOND)
    if zone in ("", "UTC", "Local"):
        return seconds, nanos
    if len(zone) > MAX_NUMBER:
        raise Fault("not a time zone")
    if ":" in zone:
        cost.charge(_OFFSET_STEPS)
        form = _OFFSET.fullmatch(zone)
        if form is None:
            raise Fault("not a time zone")
        hours, minutes = int(form["hours"]), int(form["minutes"])
        return seconds + (hours * 60 + (-minutes if zone[0] == "-" else minutes)) * 60, nanos
    cost.charge(_ZONE_STEPS)
    cost.charge_once(zone, _NEW_ZONE_STEPS)
    return seconds + _offset(seconds, zone), nanos


# There are some 600 zones of 3 kB; reading one takes half a millisecond.
_zone = lru_cache(maxsize=1024)(ZoneInfo)


def _offset(seconds: int, zone: str) -> int:
    """Seconds east of UTC at a moment."""
    if not _ZONE.fullmatch(zone):
        raise Fault("unknown time zone")
    # Python's calendar ends where CEL's does, so the offset of its first and last days is that of a day within it.
    inside = min(max(seconds, _MIN // SECOND + 2 * _DAY), _MAX // SECOND - 2 * _DAY)
    try:
        offset = (_EPOCH + timedelta(seconds=inside)).astimezone(_zone(zone)).utcoffset()
    except (KeyError, ValueError, OSError):
        raise Fault("unknown time zone") from None
    return int(offset.total_seconds()) if offset is not None else 0


_OF_TIMESTAMP: Final[dict[str, Callable[[int, int], int]]] = {
    "getFullYear": lambda seconds, _: _civil(seconds // _DAY)[0],
    "getMonth": lambda seconds, _: _civil(seconds // _DAY)[1] - 1,
    "getDate": lambda seconds, _: _civil(seconds // _DAY)[2],
    "getDayOfMonth": lambda seconds, _: _civil(seconds // _DAY)[2] - 1,
    "getDayOfWeek": lambda seconds, _: (seconds // _DAY + 4) % 7,
    "getDayOfYear": lambda seconds, _: _day_of_year(seconds // _DAY),
    "getHours": lambda seconds, _: seconds // 3600 % 24,
    "getMinutes": lambda seconds, _: seconds // 60 % 60,
    "getSeconds": lambda seconds, _: seconds % 60,
    "getMilliseconds": lambda _, nanos: nanos // 10**6,
}
_OF_DURATION: Final[dict[str, Callable[[int], int]]] = {
    "getHours": lambda nanos: int(_float(nanos, 3600 * SECOND)),
    "getMinutes": lambda nanos: int(_float(nanos, 60 * SECOND)),
    "getSeconds": lambda nanos: int(_float(nanos, SECOND)),
    "getMilliseconds": lambda nanos: abs(nanos) // 10**6 * (-1 if nanos < 0 else 1),
}


def _day_of_year(days: int) -> int:
    first = date.fromordinal((days + 719_162) % _ERA + 1)
    return first.timetuple().tm_yday - 1


def _field(compute: Callable[[int, int], int]) -> Callable[..., int]:
    def get(cost: CostTracker, time: Timestamp, zone: str = "") -> int:
        return to_int(compute(*_local(cost, time, zone)))

    return get


def _of(compute: Callable[[int], int]) -> Callable[[CostTracker, Duration], int]:
    return lambda _, duration: compute(duration.nanos)


OVERLOADS: Final = (
    overload("timestamp(string) -> timestamp", to_timestamp, _VALUE_STEPS),
    overload("timestamp(int) -> timestamp", lambda _, seconds: in_range(seconds * SECOND), _VALUE_STEPS),
    overload("timestamp(timestamp) -> timestamp", same, _VALUE_STEPS),
    overload("duration(string) -> duration", to_duration),
    overload("duration(duration) -> duration", same),
    overload("int(timestamp) -> int", lambda _, time: time.nanos // SECOND),
    overload("int(duration) -> int", lambda _, duration: duration.nanos),
    overload("string(timestamp) -> string", lambda _, time: timestamp_text(time), TEXT_STEPS),
    overload("string(duration) -> string", lambda _, duration: duration_text(duration), TEXT_STEPS),
    overload("_+_(timestamp, duration) -> timestamp", lambda _, a, b: plus(a, b.nanos), _SUM_STEPS),
    overload("_+_(duration, timestamp) -> timestamp", lambda _, a, b: plus(b, a.nanos), _SUM_STEPS),
    overload("_+_(duration, duration) -> duration", lambda _, a, b: Duration(to_int(a.nanos + b.nanos)), _SUM_STEPS),
    overload("_-_(timestamp, duration) -> timestamp", lambda _, a, b: plus(a, to_int(-b.nanos)), _SUM_STEPS),
    overload("_-_(timestamp, timestamp) -> duration", lambda _, a, b: Duration(to_int(a.nanos - b.nanos)), _SUM_STEPS),
    overload("_-_(duration, duration) -> duration", lambda _, a, b: Duration(to_int(a.nanos - b.nanos)), _SUM_STEPS),
    *(
        overload(f"timestamp.{name}({zone}) -> int", _field(compute), _FIELD_STEPS)
        for name, compute in _OF_TIMESTAMP.items()
        for zone in ("", "string")
    ),
    *(overload(f"duration.{name}() -> int", _of(compute), _VALUE_STEPS) for name, compute in _OF_DURATION.items()),
)
