"""Timestamps and durations, to the nanosecond."""

from collections.abc import Callable
from typing import Any

import pytest

from tollbar.cel.core.values import Duration, Timestamp

X: dict[str, Any] = {"s": "abc", "long": "9" * 70 + "h", "day": "2024-02-30T00:00:00Z", "path": "../../etc/passwd"}
T = 'timestamp("2024-03-05T06:07:08.009Z")'

TRUE = {
    "fields of a timestamp": (
        f"{T}.getFullYear() == 2024 && {T}.getMonth() == 2 && {T}.getDate() == 5 && {T}.getDayOfMonth() == 4"
        f" && {T}.getDayOfWeek() == 2 && {T}.getDayOfYear() == 64 && {T}.getHours() == 6 && {T}.getMinutes() == 7"
        f" && {T}.getSeconds() == 8 && {T}.getMilliseconds() == 9"
    ),
    "fields without zone are those of UTC": 'timestamp("2024-01-01T00:30:00+05:00").getHours() == 19',
    "fields before 1970": (
        'timestamp("1969-12-31T23:59:59.999Z").getMilliseconds() == 999'
        ' && timestamp("1969-12-31T23:59:59.999Z").getDayOfWeek() == 3'
    ),
    "fields in a time zone": f'{T}.getHours("Europe/Paris") == 7 && {T}.getHours("-07:00") == 23',
    "summer time": 'timestamp("2024-07-01T00:00:00Z").getHours("America/New_York") == 20',
    "a zone of former times": 'timestamp("1900-01-01T00:00:00Z").getMinutes("Europe/Amsterdam") == 19',
    "offsets as Go reads them": (
        f'{T}.getHours("5:30") == 11 && {T}.getMinutes("+5:30") == 37 && {T}.getMinutes("-0:30") == 37'
        f' && {T}.getMinutes("05:-1") == 6 && {T}.getHours("99:00") == 9'
    ),
    "names for UTC": f'{T}.getHours("") == 6 && {T}.getHours("UTC") == 6 && {T}.getHours("Local") == 6',
    "a zone may lead out of the years": (
        'timestamp("0001-01-01T00:00:00Z").getFullYear("America/New_York") == 0'
        ' && timestamp("9999-12-31T23:59:59Z").getFullYear("Asia/Tokyo") == 10000'
        ' && timestamp("0001-01-01T00:00:00Z").getMonth("-01:00") == 11'
        ' && timestamp("9999-12-31T23:59:59Z").getDayOfYear("+01:00") == 0'
    ),
    "the last day of a leap year": 'timestamp("2024-12-31T00:00:00Z").getDayOfYear() == 365',
    "nanoseconds count": 'timestamp("2024-01-01T00:00:00.000000001Z") > timestamp("2024-01-01T00:00:00Z")',
    "digits beyond nanoseconds do not": (
        'timestamp("2024-01-01T00:00:00.1234567891Z") == timestamp("2024-01-01T00:00:00.123456789Z")'
    ),
    "a comma for the fraction": 'timestamp("2024-01-01T00:00:00,5Z") == timestamp("2024-01-01T00:00:00.5Z")',
    "an hour of one digit": 'timestamp("2024-01-01T3:00:00Z") == timestamp("2024-01-01T03:00:00Z")',
    "offsets": 'timestamp("2024-01-01T01:00:00+01:00") == timestamp("2024-01-01T00:00:00Z")',
    "the largest offset": 'timestamp("2024-01-02T00:00:00+24:00") == timestamp("2024-01-01T00:00:00Z")',
    "a timestamp of seconds": 'timestamp(60) == timestamp("1970-01-01T00:01:00Z") && timestamp(-1) < timestamp(0)',
    "seconds of a timestamp": (
        'int(timestamp("1970-01-01T00:01:00.9Z")) == 60 && int(timestamp("1969-12-31T23:59:59.5Z")) == -1'
    ),
    "the text of a timestamp": (
        'string(timestamp("2024-01-02T03:04:05.120Z")) == "2024-01-02T03:04:05.12Z"'
        ' && string(timestamp("2024-01-02T03:04:05Z")) == "2024-01-02T03:04:05Z"'
        ' && string(timestamp("2024-01-02T03:04:05+05:30")) == "2024-01-02T03:04:05+05:30"'
        ' && string(timestamp("2024-01-02T03:04:05-00:00")) == "2024-01-02T03:04:05Z"'
    ),
    "the text keeps the offset through arithmetic": (
        'string(timestamp("2024-01-02T03:04:05-01:00") + duration("1ns")) == "2024-01-02T03:04:05.000000001-01:00"'
    ),
    "timestamps and durations add up": (
        'timestamp("2024-01-01T00:00:00Z") + duration("1h") == timestamp("2024-01-01T01:00:00Z")'
        ' && duration("1h") + timestamp("2024-01-01T00:00:00Z") == timestamp("2024-01-01T01:00:00Z")'
        ' && timestamp("2024-01-01T00:00:00Z") - duration("1ns") == timestamp("2023-12-31T23:59:59.999999999Z")'
        ' && timestamp("2024-01-01T01:00:00Z") - timestamp("2024-01-01T00:00:00Z") == duration("1h")'
        ' && duration("1h") + duration("1m") - duration("1s") == duration("3659s")'
    ),
    "the last moment": (
        'timestamp("9999-12-31T23:59:59Z") + duration("999999999ns") == timestamp("9999-12-31T23:59:59.999999999Z")'
    ),
    "fields of a duration": (
        'duration("3h30m").getHours() == 3 && duration("90s").getMinutes() == 1 && duration("1.5s").getSeconds() == 1'
        ' && duration("1.5s").getMilliseconds() == 1500'
    ),
    "fields of a negative duration": (
        'duration("-90m").getHours() == -1 && duration("-1.5s").getSeconds() == -1'
        ' && duration("-1.5ms").getMilliseconds() == -1'
    ),
    "all units of a duration": 'duration("1h1m1s1ms1us1000ns") == duration("3661001002us")',
    "both letters for micro": 'duration("1µs") == duration("1us") && duration("1μs") == duration("1us")',
    "units in any order": 'duration("1s1h") == duration("3601s") && duration("1h1h") == duration("2h")',
    "durations with sign, point or zero": (
        'duration("-1.5h") < duration("0") && duration(".5s") == duration("500ms") && duration("1.s") == duration("1s")'
        ' && duration("+0") == duration("-0")'
    ),
    "fractions of a nanosecond are cut off": (
        'duration("1.9ns") == duration("1ns") && duration("0.9ns") == duration("0")'
    ),
    "a long fraction": 'duration("0.3333333333333333333333h") == duration("20m")',
    "leading zeros": f'duration("{"0" * 80}1s") == duration("1s")',
    "the longest durations": (
        'duration("9223372036854775807ns") == duration("2562047h47m16.854775807s")'
        ' && duration("-9223372036854775808ns") < duration("-2562047h47m16.854775807s")'
    ),
    "nanoseconds of a duration": 'int(duration("1s")) == 1000000000',
    "the text of a duration": (
        'string(duration("1h1.5s")) == "3601.5s" && string(duration("0")) == "0s"'
        ' && string(duration("-90m")) == "-5400s" && string(duration("1ns")) == "0.000000001s"'
    ),
    "times of times": f"timestamp({T}) == {T} && duration(duration('1s')) == duration('1s')",
    "types of times": (
        'type(timestamp(0)) == google.protobuf.Timestamp && type(duration("0")) == google.protobuf.Duration'
    ),
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


NO_TIMESTAMP = "type conversion error from 'string' to 'google.protobuf.Timestamp'"
NO_DURATION = "type conversion error from 'string' to 'google.protobuf.Duration'"
FAILURES = {
    "not a timestamp": ("timestamp(x.s)", NO_TIMESTAMP),
    "a day that does not exist": ("timestamp(x.day)", NO_TIMESTAMP),
    "a timestamp out of range": ("timestamp(253402300800 + size(x) - size(x))", "timestamp overflow"),
    "a sum out of range": (
        "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
        "timestamp overflow",
    ),
    "a difference out of range": (
        "timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')",
        "integer overflow",
    ),
    "not a duration": ("duration(x.s)", NO_DURATION),
    "a duration out of range": ("duration(x.long)", NO_DURATION),
    "a sum of durations out of range": ("duration('2562047h') + duration('2562047h')", "integer overflow"),
    "an unknown time zone": (f"{T}.getHours(x.s)", "unknown time zone"),
    "a time zone in the wrong case": (f"{T}.getHours('utc')", "unknown time zone"),
    "a directory of time zones": (f"{T}.getHours('America')", "unknown time zone"),
    "a time zone that leaves the database": (f"{T}.getHours(x.path)", "unknown time zone"),
    "an offset without numbers": (f"{T}.getHours(':')", "not a time zone"),
    "a duration in a time zone": (
        "dyn(duration('1s')).getHours('UTC')",
        "no such overload: getHours(duration, string)",
    ),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)


NO_TIMESTAMPS = {
    "no zone": "2024-01-02T03:04:05",
    "a space": "2024-01-02 03:04:05Z",
    "small letters": "2024-01-02t03:04:05z",
    "a month of one digit": "2024-1-02T03:04:05Z",
    "hour 24": "2024-01-02T24:00:00Z",
    "second 60": "2024-01-02T23:59:60Z",
    "a point without digits": "2024-01-02T03:04:05.Z",
    "an offset without colon": "2024-01-02T03:04:05+0100",
    "an offset beyond a day": "2024-01-02T03:04:05+25:00",
    "year 0": "0000-01-02T03:04:05Z",
    "a year of five digits": "10000-01-02T03:04:05Z",
    "an offset that leads out of the years": "9999-12-31T23:59:59-01:00",
    "nothing": "",
}


@pytest.mark.parametrize("text", NO_TIMESTAMPS.values(), ids=NO_TIMESTAMPS)
def test_the_text_is_not_a_timestamp(answer: Callable[..., Any], text: str) -> None:
    assert answer("timestamp(x) == timestamp(x)", x=text)[0] == "RUNTIME"


NO_DURATIONS = {
    "no unit": "1",
    "an unknown unit": "1d",
    "a large unit": "1S",
    "a sign alone": "-",
    "a unit alone": "s",
    "a point alone": ".s",
    "a sign in the middle": "1h-1m",
    "a space": "1h 1m",
    "an exponent": "1e3s",
    "too long": "9223372036854775808ns",
    "too short": "-9223372036854775809ns",
    "too long in all": "2562047h47m16.854775808s",
    "nothing": "",
}


@pytest.mark.parametrize("text", NO_DURATIONS.values(), ids=NO_DURATIONS)
def test_the_text_is_not_a_duration(answer: Callable[..., Any], text: str) -> None:
    assert answer("duration(x) == duration(x)", x=text) == ("RUNTIME", f"1:1: {NO_DURATION}")


def test_values(value: Callable[..., Any]) -> None:
    found = value('[dyn(timestamp("1970-01-01T00:00:01.000000002+01:00")), dyn(duration("-1.5ns"))]')
    assert (found, found[0].offset) == ([Timestamp(-3_598_999_999_998), Duration(-1)], 60)
