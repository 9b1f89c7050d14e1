"""Every function charges for the data that it looks at or makes, before it does the work."""

from collections.abc import Callable
from typing import Any

import pytest

from tollbar.cel import BUDGET, CelError
from tollbar.cel.engines.closures import Measured

LONG = "a" * 60_000
LIST = list(range(9_000))
WORDS = [f"word-{index}" for index in range(5_000)]

# An expression, the data, and the least number of steps that are charged unless the cost limit is exceeded.
COSTS: dict[str, tuple[str, Any, int]] = {
    "contains": ('x.contains("b")', LONG, 900),
    "contains a long part": ("x.contains(x)", LONG, 4_500),
    "indexOf": ('x.indexOf("b") == -1', LONG, 900),
    "lastIndexOf of a long part": ("x.lastIndexOf('b' + x.substring(30000)) == -1", LONG, 4_500),
    "startsWith": ("x.startsWith(x)", LONG, 900),
    "equality": ("x == dyn(x)", LONG, 900),
    "order": ("x <= x", LONG, 900),
    "split": ('x.split("a").size() == 60001', LONG[:9_000], 600),
    "replace": ('x.replace("a", "b") == x', LONG, 1_000),
    "upperAscii": ('x.upperAscii() == ""', LONG, 200),
    "quote": ("strings.quote(x).size() == 30002", LONG[:30_000], 3_500),
    "join": ('x.join(",").size() > 1', WORDS, 5_000),
    "format": ('"%s".format([[x]]).size() > 1', LONG[:15_000], 7_500),
    "format of a list": ('"%s".format([x]).size() > 1', LIST, 9_000),
    "matches": ('x.matches("(ab|b)*c")', LONG, 1_000),
    "findAll": ('x.findAll("b?").size() == 301', LONG[:300], 3_000),
    "a pattern from data that becomes large": ("'a'.matches(x)", r"\pL{9}", 6_000),
    "a pattern from data with many classes": ("'a'.matches(x)", r"\pL|" * 40, 9_000),
    "string of a double": ('[x, x].all(d, string(d) != "")', 1.5e300, 40),
    "a long version": ("isSemver(x)", "1.0.0-" + "a." * 120 + "a", 80),
    "duration": ("duration(x) == duration(x)", "1h" * 1_000, 8_000),
    "timestamp": ("timestamp('2024-01-01T00:00:00.' + x + 'Z') > timestamp(0)", "0" * 60_000, 900),
    "fields in a zone": ("timestamp(0).getHours('Europe/Paris') == 1", None, 400),
    "url": ("url(x).getHost() == ''", "/" * 20_000, 5_000),
    "getQuery": ("url(x).getQuery().size() == 1", "/?" + "a&" * 600, 4_800),
    "validate": ("format.uuid().validate(x).hasValue()", LONG[:5_000], 5_000),
    "in a list": ("-1 in x", LIST, 9_000),
    "list equality": ("x == dyn(x)", LIST, 9_000),
    "indexOf in a list": ("x.indexOf(-1) == -1", LIST, 9_000),
    "includes": ("x.includes(-1)", LIST, 9_000),
    "sum": ("x.sum() > 0", LIST, 9_000),
    "max": ("x.max() > 0", LIST, 9_000),
    "isSorted": ("x.isSorted()", LIST, 9_000),
    "sort": ("x.sort().size() == 700", LIST[:700], 7_000),
    "distinct": ("x.distinct().size() == 5000", WORDS, 5_000),
    "distinct of lists": ("x.distinct().size() == 90", [[index] for index in range(90)], 8_000),
    "flatten": ("x.flatten().size() == 4000", [[index] for index in range(4_000)], 8_000),
    "sets": ("sets.contains(x, x)", LIST[:4_000], 8_000),
    "sets of many types": ("sets.contains(x, x)", [1.5, *LIST[:80]], 6_000),
    "range": ("lists.range(9000).size() == 9000", None, 500),
}


@pytest.mark.parametrize(("source", "x", "least"), COSTS.values(), ids=COSTS)
def test_at_least_so_many_steps_are_charged(measured: Callable[..., Measured], source: str, x: Any, least: int) -> None:
    found = measured(source, x=x)
    spent = isinstance(found.answer, CelError) and found.answer.kind == BUDGET
    assert (isinstance(found.answer, bool) or spent, spent or found.steps >= least) == (True, True)


EXCESSIVE = {
    "a comparison of many kinds with each other": ("x.distinct().size() == 0", [1.5, *LIST[:200]]),
    "sets of many kinds": ("sets.equivalent(x, x)", [1.5, *LIST[:200]]),
    "a long format": ("x.format(y)", "%s" * 1_000),
    "a long query": ("url(x).getQuery().size() == 0", "/?" + "a&" * 5_000),
    "a duration of many terms": ("duration(x) == duration(x)", "1h" * 20_000),
    "a large range": ("lists.range(10001).size() == 0", None),
}


@pytest.mark.parametrize(("source", "x"), EXCESSIVE.values(), ids=EXCESSIVE)
def test_the_cost_limit_is_exceeded(value: Callable[..., Any], source: str, x: Any) -> None:
    kind, _ = value(source, x=x, y=[1] * 1_000)
    assert kind == BUDGET
