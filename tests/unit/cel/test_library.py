"""Functions and methods: what they answer, and how they fail."""

from collections.abc import Callable
from typing import Any

import pytest

TRUE = {
    "startsWith": '"abc".startsWith("ab") && !"abc".startsWith("b") && "abc".startsWith("")',
    "endsWith": '"abc".endsWith("bc") && !"abc".endsWith("b")',
    "contains": '"abc".contains("b") && !"abc".contains("d") && "abc".contains("")',
    "matches searches": '"gpu-12".matches("[0-9]+") && !"gpu-12".matches("^[0-9]+$")',
    "matches as a function": 'matches("gpu-12", "^gpu-[0-9]+$")',
    "matches with a computed pattern": '"gpu-12".matches("^" + x)',
    "matches Unicode": '"é".matches("^.$") && "Ä".matches("\\\\pL")',
    "find": '"gpu-12-34".find("[0-9]+") == "12" && "gpu".find("[0-9]+") == ""',
    "find answers the whole match": '"a=b".find("(a)=(b)") == "a=b"',
    "findAll": '"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1b22".findAll("[0-9]+", 1) == ["1"]',
    "findAll of nothing": '"abc".findAll("[0-9]") == [] && "a1".findAll("[0-9]", 0) == []',
    "lowerAscii leaves other letters": '"ÀBc".lowerAscii() == "Àbc"',
    "upperAscii leaves other letters": '"àBc".upperAscii() == "àBC"',
    "trim": '" \\t a b\\u00a0\\n".trim() == "a b" && "\\x1fa".trim() == "\\x1fa"',
    "indexOf": '"abcabc".indexOf("c") == 2 && "abc".indexOf("d") == -1 && "abc".indexOf("") == 0',
    "indexOf from": '"abcabc".indexOf("c", 3) == 5 && "abc".indexOf("c", 9) == -1 && "abc".indexOf("", 2) == 2',
    "lastIndexOf": '"abcabc".lastIndexOf("c") == 5 && "abc".lastIndexOf("d") == -1 && "abc".lastIndexOf("") == 3',
    "lastIndexOf up to": '"abcabc".lastIndexOf("c", 4) == 2 && "abc".lastIndexOf("c", 3) == -1',
    "lastIndexOf of nothing": '"abc".lastIndexOf("", 1) == 1',
    "substring": '"abcd".substring(1) == "bcd" && "abcd".substring(1, 3) == "bc" && "abcd".substring(4) == ""',
    "positions count characters": '"é😀x".indexOf("x") == 2 && "é😀x".size() == 3 && "é😀x".charAt(1) == "😀"',
    "charAt": '"abc".charAt(0) == "a" && "abc".charAt(3) == ""',
    "replace": '"abab".replace("a", "c") == "cbcb" && "abab".replace("a", "", 1) == "bab"',
    "replace a limited number": '"aaa".replace("a", "b", 0) == "aaa" && "aaa".replace("a", "b", -1) == "bbb"',
    "replace nothing": '"ab".replace("", "-") == "-a-b-" && "ab".replace("", "-", 2) == "-a-b"',
    "split": '"a,b,c".split(",") == ["a", "b", "c"] && "abc".split(",") == ["abc"] && "".split(",") == [""]',
    "split into characters": '"abc".split("") == ["a", "b", "c"] && "".split("") == []',
    "split a limited number": '"a,b,c".split(",", 2) == ["a", "b,c"] && "a,b".split(",", 0) == []',
    "split any number": '"a,b".split(",", -1) == ["a", "b"] && "a,b".split(",", 1) == ["a,b"]',
    "split characters, limited": '"abc".split("", 2) == ["a", "bc"] && "abc".split("", 9) == ["a", "b", "c"]',
    "join": '["a", "b"].join("-") == "a-b" && ["a", "b"].join() == "ab" && [].join("-") == ""',
    "size": 'size("é") == 1 && size(b"é") == 2 && size([1, 2]) == 2 && size({"a": 1}) == 1',
    "size as a method": '"abc".size() == 3 && b"".size() == 0 && [1].size() == 1 && {}.size() == 0',
    "indexOf in a list": "[1, 2, 2].indexOf(2) == 1 && [1].indexOf(5) == -1 && [1].indexOf(1.0) == 0",
    "lastIndexOf in a list": "[1, 2, 2].lastIndexOf(2) == 2 && [].lastIndexOf(2) == -1",
    "sum": "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [2u].sum() == 2u && [].sum() == 0",
    "sum of durations": '[duration("1s"), duration("2s")].sum() == duration("3s")',
    "min and max": '[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && ["b", "a"].min() == "a"',
    "isSorted": "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [].isSorted()",
    "int": 'int("-12") == -12 && int(1.9) == 1 && int(-1.9) == -1 && int(5u) == 5 && int(7) == 7',
    "int of a timestamp": 'int(timestamp("1970-01-01T00:01:00.9Z")) == 60',
    "uint": 'uint("12") == 12u && uint(5) == 5u && uint(1.9) == 1u && uint(7u) == 7u',
    "double": 'double("1.5e1") == 15.0 && double(2) == 2.0 && double(2u) == 2.0 && double(0.5) == 0.5',
    "double of words": 'double("inf") > 1e308 && double("-Infinity") < 0.0',
    "bool": 'bool("true") && !bool("false") && bool(true) && bool("1") && !bool("F")',
    "string": 'string(5) == "5" && string(5u) == "5" && string(true) == "true" && string("a") == "a"',
    "string of bytes": 'string(b"é") == "é"',
    "bytes": 'bytes("é") == b"\\xc3\\xa9" && bytes(b"a") == b"a"',
    "dyn": 'dyn("a") == "a"',
    "quantities compare": (
        'quantity("1Gi").compareTo(quantity("1024Mi")) == 0 && quantity("1").compareTo(quantity("2")) == -1'
        ' && quantity("2").compareTo(quantity("1")) == 1'
    ),
    "quantities are greater or less": (
        'quantity("2Gi").isGreaterThan(quantity("2G")) && quantity("1m").isLessThan(quantity("1"))'
    ),
    "quantities equal by value": 'quantity("1k") == quantity("1000") && quantity("1k") != quantity("1Ki")',
    "quantity arithmetic": (
        'quantity("50k").add(quantity("20k")).sub(quantity("10")).add(5).sub(1) == quantity("69994")'
    ),
    "the sign of a quantity": 'quantity("-5m").sign() == -1 && sign(quantity("0")) == 0 && quantity("1n").sign() == 1',
    "quantities as integers": 'quantity("50k").isInteger() && quantity("50k").asInteger() == 50000',
    "quantities that are no integers": '!quantity("500m").isInteger() && !quantity("1e30").isInteger()',
    "quantities as doubles": (
        'quantity("500m").asApproximateFloat() == 0.5 && quantity("1e999").asApproximateFloat() > 1e308'
    ),
    "isQuantity": 'isQuantity("1.3Gi") && !isQuantity("200K") && !isQuantity("Mi") && !isQuantity("")',
    "a quantity from data": "quantity(y).compareTo(quantity('80Gi')) >= 0",
    "versions compare": (
        'semver("1.2.3").compareTo(semver("1.10.0")) == -1 && semver("1.0.0").compareTo(semver("1.0.0+b")) == 0'
        ' && semver("2.0.0").compareTo(semver("1.0.0")) == 1'
    ),
    "versions are greater or less": (
        'semver("1.0.0").isGreaterThan(semver("1.0.0-rc.1")) && semver("0.9.0").isLessThan(semver("1.0.0"))'
    ),
    "versions equal by precedence": 'semver("1.0.0+a") == semver("1.0.0+b") && semver("1.0.0") != semver("1.0.1")',
    "parts of a version": (
        'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3'
    ),
    "a normalized version": 'semver("v1.2", true) == semver("1.2.0") && semver("1.2.0", false) == semver("1.2.0")',
    "isSemver": 'isSemver("1.2.3") && !isSemver("v1.0") && isSemver("v1.0", true) && !isSemver("x", true)',
    "fields of a timestamp": (
        'timestamp("2024-03-05T06:07:08.009Z").getFullYear() == 2024'
        ' && timestamp("2024-03-05T06:07:08Z").getMonth() == 2'
        ' && timestamp("2024-03-05T06:07:08Z").getDate() == 5 && timestamp("2024-03-05T06:07:08Z").getDayOfMonth() == 4'
        ' && timestamp("2024-03-05T06:07:08Z").getDayOfWeek() == 2'
        ' && timestamp("2024-03-05T06:07:08Z").getDayOfYear() == 64'
        ' && timestamp("2024-03-05T06:07:08Z").getHours() == 6 && timestamp("2024-03-05T06:07:08Z").getMinutes() == 7'
        ' && timestamp("2024-03-05T06:07:08Z").getSeconds() == 8'
        ' && timestamp("2024-03-05T06:07:08.009Z").getMilliseconds() == 9'
    ),
    "fields in a time zone": (
        'timestamp("2024-03-05T06:07:08Z").getHours("Europe/Paris") == 7'
        ' && timestamp("2024-03-05T06:07:08Z").getHours("-07:00") == 23'
    ),
    "fields of a duration": 'duration("3h30m").getHours() == 3 && duration("90s").getMinutes() == 1',
    "all units of a duration": (
        'duration("1h1m1s1ms1us1000ns") > duration("3661s") && duration("1µs") == duration("1us")'
    ),
    "durations with sign, point or zero": 'duration("-1.5h") < duration("0") && duration(".5s") == duration("500ms")',
    "timestamps with offset": 'timestamp("2024-01-01T01:00:00+01:00") == timestamp("2024-01-01T00:00:00z")',
    "times of times": 'timestamp(timestamp("2024-01-01T00:00:00Z")).getHours() == duration(duration("0")).getHours()',
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x="gpu", y="96Gi") is True


# Arguments come from data, so that nothing can be refused before.
FAILURES = {
    "an index before the text": ('x.s.indexOf("a", -1) == 0', "index out of range"),
    "a last index before the text": ('x.s.lastIndexOf("a", -1) == 0', "index out of range"),
    "a substring beyond the text": ('x.s.substring(4) == ""', "index out of range"),
    "a substring that ends before it starts": ('x.s.substring(2, 1) == ""', "index out of range"),
    "a character beyond the text": ('x.s.charAt(4) == ""', "index out of range"),
    "join of what is not string": ("x.list.join() == ''", "join() takes a list of strings"),
    "sum of strings": ('["a", "b"].sum() == 0', "no such overload: sum(string, string)"),
    "sum of one string": ('["a"].sum() == 0', "no such overload: sum(string, string)"),
    "sum of different kinds": ("[1, 2.5].sum() == 0", "no such overload: sum(int, double)"),
    "sum that overflows": ("[9223372036854775807, x.one].sum() == 0", "integer overflow"),
    "min of nothing": ("[].min() == 0", "min() and max() need a non-empty list"),
    "max of different kinds": ("x.list.max() == 0", "no such overload: >(string, int)"),
    "isSorted of different kinds": ("x.list.isSorted()", "no such overload: >(int, string)"),
    "int of a word": ("int(x.s) == 1", "string is not a number"),
    "int of a fraction": ("int(x.fraction) == 1", "string is not a number"),
    "int of a large double": ("int(1e300) == 1", "integer overflow"),
    "int of an infinite double": ("int(1.0 / 0.0) == 1", "integer overflow"),
    "int of a large uint": ("int(18446744073709551615u) == 1", "integer overflow"),
    "int of many digits": ("int(x.digits) == 1", "string is not a number"),
    "uint of a negative int": ("uint(-x.one) == 1u", "unsigned integer overflow"),
    "double of a word": ("double(x.s) == 1.0", "string is not a number"),
    "double of many digits": ("double(x.digits) == 1.0", "string is not a number"),
    "double of an integer beyond 64 bits": ("double(x.big) == 1.0", "integer overflow"),
    "string of an integer beyond 64 bits": ('string(x.big) == ""', "integer overflow"),
    "bool of a word": ("bool(x.s)", "string is not a bool"),
    "string of bytes that are no text": (r'string(b"\xff") == ""', "bytes are not valid UTF-8"),
    "bytes of half a character": ('bytes(x.half) == b""', "string is not valid Unicode"),
    "a pattern that is none": ("x.s.matches(x.s + '(')", "invalid regular expression"),
    "a pattern with look-behind": ("x.s.matches(x.s + '(?<=a)b')", "invalid regular expression"),
    "a text that is half a character": ("x.half.matches('a')", "string is not valid Unicode"),
    "a pattern that is half a character": ("x.s.matches(x.half)", "invalid regular expression"),
    "not a quantity": ("quantity(x.s) == quantity('1')", "not a quantity"),
    "a quantity that is no integer": ("quantity(x.fraction).asInteger() == 1", "cannot convert quantity to integer"),
    "not a version": ("semver(x.s) == semver('1.0.0')", "not a semantic version"),
    "not a version even when normalized": ("semver(x.s, true) == semver('1.0.0')", "not a semantic version"),
    "a version beyond int": ("semver(x.version).major() == 1", "integer overflow"),
    "not a timestamp": ("timestamp(x.s) == timestamp('2024-01-01T00:00:00Z')", "not an RFC 3339 timestamp"),
    "a day that does not exist": (
        "timestamp(x.day) == timestamp('2024-01-01T00:00:00Z')",
        "not an RFC 3339 timestamp",
    ),
    "not a duration": ("duration(x.s) == duration('1s')", "not a duration"),
    "a duration out of range": ("duration(x.long) == duration('1s')", "duration is out of range"),
    "a time out of range": (
        "timestamp('9999-12-31T23:59:59Z') + duration('24h') > timestamp('2024-01-01T00:00:00Z')",
        "time is out of range",
    ),
    "not a time zone": ("timestamp('2024-01-01T00:00:00Z').getHours(x.s + '!') == 1", "not a time zone"),
    "an unknown time zone": (
        "timestamp('2024-01-01T00:00:00Z').getHours(x.s) == 1",
        "not a time zone, or time is out of range",
    ),
    "a time zone that leaves the database": (
        "timestamp('2024-01-01T00:00:00Z').getHours(x.path) == 1",
        "not a time zone",
    ),
    "a method of another kind": ("x.one.startsWith('a')", "no such overload: startsWith(int, string)"),
    "an argument of another kind": ("x.s.startsWith(x.one)", "no such overload: startsWith(string, int)"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_failure(answer: Callable[..., Any], source: str, want: str) -> None:
    data = {
        "s": "abc",
        "one": 1,
        "list": [1, "a", 2],
        "digits": "1" * 65,
        "fraction": "1.5",
        "big": 2**70,
        "half": "\ud800",
        "version": "18446744073709551615.0.0",
        "day": "2024-02-30T00:00:00Z",
        "long": "999999999999h",
        "path": "../../etc/passwd",
    }
    kind, text = answer(source, x=data)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)
