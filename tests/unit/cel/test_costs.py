"""Every function charges for the data that it looks at or makes, before it does the work."""

from collections.abc import Callable
from typing import Any

import pytest
from cel.costs import Measured

from tollbar.cel import BUDGET, CelError

LONG = "a" * 60_000
LIST = list(range(9_000))
WORDS = [f"word-{index}" for index in range(5_000)]
MIXED = [1, "a"] * 500

# An expression, the data, and the least number of steps that are charged unless the cost limit is exceeded.
COSTS: dict[str, tuple[str, Any, int]] = {
    "contains": ('x.contains("b")', LONG, 7_500),
    "contains a long part": ("x.contains(x)", LONG, 30_000),
    "indexOf": ('x.indexOf("b") == -1', LONG, 7_500),
    "lastIndexOf of a long part": ("x.lastIndexOf('b' + x.substring(30000)) == -1", LONG, 30_000),
    "startsWith": ("x.startsWith(x)", LONG, 3_500),
    "equality": ("x == dyn(x)", LONG, 3_500),
    "order": ("x <= x", LONG, 3_500),
    "split": ('x.split("a").size() == 9001', LONG[:9_000], 3_500),
    "replace": ('x.replace("a", "b") == x', LONG, 11_000),
    "upperAscii": ('x.upperAscii() == ""', LONG, 3_500),
    "upperAscii of what is not ASCII": ('x.upperAscii() == ""', "é" * 60_000, 33_500),
    "quote": ("strings.quote(x).size() == 30002", LONG[:30_000], 60_000),
    "exists_one": ("x.exists_one(i, i)", [True] * 9_000, 36_000),
    "join": ('x.join(",").size() > 1', WORDS, 40_000),
    "format": ('"%s".format([["\\n" + x]]).size() > 1', LONG[:15_000], 250_000),
    "format of a list": ('"%s".format([x]).size() > 1', LIST[:5_000], 450_000),
    "format of large doubles": ('"%s".format([[x, x, x]]).size() > 1', 1.5e300, 3_600),
    "fixed-point format of a large double": ('"%f".format([x]).size() > 1', 1.5e300, 1_200),
    "matches": ('x.matches("(ab|b)*c")', LONG, 200_000),
    "findAll": ('x.findAll("b?").size() == 301', LONG[:300], 180_000),
    "a pattern from data that becomes large": ("'a'.matches(x)", r"\pL{9}", 300_000),
    "a pattern from data with many classes": ("'a'.matches(x)", r"\pL|" * 40, 450_000),
    "string of a double": ('[x, x].all(d, string(d) != "")', 1.5e300, 700),
    "a long version": ("isSemver(x)", "1.0.0-" + "a." * 120 + "a", 3_300),
    "duration": ("duration(x) == duration(x)", "1h" * 1_000, 140_000),
    "timestamp": ("timestamp('2024-01-01T00:00:00.' + x + 'Z') > timestamp(0)", "0" * 60_000, 7_000),
    "text of a timestamp": ("string(timestamp(x)) != ''", 0, 220),
    "fields in a zone": ("timestamp(x).getHours('Europe/Paris') == 1", 0, 30_000),
    "fields in a zone again": ("lists.range(100).all(i, timestamp(i).getHours('Europe/Paris') == 1)", None, 50_000),
    "an IPv6 address": ("isIP(x)", "2001:db8::1", 500),
    "masked": ("cidr(x).masked().prefixLength() == 64", "2001:db8::/64", 750),
    "url": ("url(x).getHost() == ''", "/" * 20_000, 40_000),
    "getQuery": ("url(x).getQuery().size() == 1", "/?" + "a&" * 600, 100_000),
    "validate": ("format.uuid().validate(x).hasValue()", LONG[:5_000], 10_000),
    "in a list": ("-1 in x", LIST, 200_000),
    "list equality": ("x == dyn(x)", LIST, 200_000),
    "nested equality": ("x == dyn(x)", [[index, [index]] for index in range(1_000)], 200_000),
    "equality of maps": ("x == dyn(x)", [{"a": index} for index in range(1_000)], 130_000),
    "indexOf in a list": ("x.indexOf(-1) == -1", LIST, 200_000),
    "includes": ("x.includes(-1)", LIST, 200_000),
    "sum": ("x.sum() > 0", LIST, 190_000),
    "max": ("x.max() > 0", LIST, 600_000),
    "min of many kinds": ("x.min() != 7", MIXED, 70_000),
    "isSorted": ("x.isSorted()", LIST, 600_000),
    "isSorted of many kinds": ("x.isSorted()", MIXED, 70_000),
    "sort": ("x.sort().size() == 700", LIST[:700], 10_000),
    "sort of timestamps": ("x.map(i, timestamp(i)).sort().size() == 700", LIST[:700], 40_000),
    "distinct": ("x.distinct().size() == 5000", WORDS, 30_000),
    "distinct of lists": ("x.distinct().size() == 90", [[index] for index in range(90)], 350_000),
    "flatten": ("x.flatten().size() == 4000", [[index] for index in range(4_000)], 100_000),
    "sets": ("sets.contains(x, x)", LIST[:4_000], 48_000),
    "sets of many types": ("sets.contains(x, x)", [1.5, *LIST[:80]], 75_000),
    "range": ("lists.range(9000).size() == 9000", None, 18_000),
    "failures that exists() absorbs": ("x.exists(i, i.nope) || true", LIST, 500_000),
    "an optional for each element": ("x.all(i, i.?a.orValue(true))", [{}] * 1_000, 100_000),
    "isSorted for each element": ("x.all(i, [i].isSorted())", LIST[:1_000], 160_000),
    "sort for each element": ("x.all(i, [timestamp(i), timestamp(0)].sort() != [])", LIST[:1_000], 330_000),
    "sets for each element": ("x.all(i, !sets.equivalent([i], []))", LIST[:1_000], 330_000),
    "distinct for each element": ("x.all(i, [i].distinct() == [i])", LIST[:1_000], 280_000),
    "indexOf for each element": ("x.all(i, [i].indexOf(i) == 0)", LIST[:1_000], 95_000),
    "flatten for each element": ("x.all(i, [[i]].flatten() == [i])", LIST[:1_000], 295_000),
    "uint for each element": ("x.all(i, uint(i) >= 0u)", LIST[:1_000], 80_000),
    "a key of any kind for each element": ("x.all(i, !(i in i))", [{"a": 1}] * 1_000, 26_000),
    "sums of uints for each element": ("x.all(i, [1u, 1u, uint(i)].sum() > 1u)", LIST[:1_000], 260_000),
    "arithmetic on uints for each element": ("x.all(i, uint(i) / [1u].sum() >= 0u)", LIST[:1_000], 210_000),
    "a double beside an integer": ("x.all(i, -0.5 <= i)", LIST[:1_000], 64_000),
    "types": ("x.all(i, type(i) == int)", LIST[:1_000], 97_000),
    "what includes itself": ("x.all(i, i.includes(i))", LIST[:1_000], 26_000),
    "a list for each element": ("x.all(i, x.map(j, j).size() > 0)", LIST[:100], 45_000),
    "a selection for each element": ("x.all(i, x.filter(j, true).size() > 0)", LIST[:100], 45_000),
    "equality of what may be of any type": ("x.all(i, i == dyn(i))", LIST[:1_000], 36_000),
    "texts that are no cidr": ("x.all(i, !isCIDR(i))", ["a"] * 1_000, 120_000),
    "has() of what has no fields": ("x.all(i, !has(i.a))", LIST[:1_000], 25_000),
    "names of hosts": ("x.all(i, url(i).getHostname() == 'a')", ["http://a/"] * 400, 540_000),
    "keys of many maps": ("x.all(i, i.all(k, true))", [{"a": 1}] * 1_000, 14_000),
    "sums of quantities": ("x.all(i, quantity('1').add(i) != quantity('0'))", LIST[:1_000], 350_000),
    "quantities as doubles": ("x.all(i, quantity('1').add(i).asApproximateFloat() > 1.0)", LIST[1:700], 330_000),
    "cidrs that are compared": ("x.all(i, cel.bind(c, cidr('10.0.0.0/8'), c == c))", LIST[:1_000], 60_000),
    "a field through an optional": ("x.all(i, optional.of(i).a.orValue(true))", [{}] * 1_000, 40_000),
    "a map for each element": ("x.all(i, {i: i} != {})", LIST[:1_000], 130_000),
}


@pytest.mark.parametrize(("source", "x", "least"), COSTS.values(), ids=COSTS)
def test_at_least_so_many_steps_are_charged(measured: Callable[..., Measured], source: str, x: Any, least: int) -> None:
    found = measured(source, x=x)
    spent = isinstance(found.answer, CelError) and found.answer.kind == BUDGET
    assert (isinstance(found.answer, bool) or spent, spent or found.steps >= least) == (True, True)


EXCESSIVE = {
    "a comparison of many kinds with each other": ("x.distinct().size() == 0", [[index] for index in LIST[:300]]),
    "sets of many kinds": ("sets.equivalent(x, x)", [1.5, *LIST[:300]]),
    "a long format": ("x.format(y)", "%s" * 4_000),
    "a long query": ("url(x).getQuery().size() == 0", "/?" + "a&" * 5_000),
    "a duration of many terms": ("duration(x) == duration(x)", "1h" * 20_000),
    "a large range": ("lists.range(10001).size() == 0", None),
}


@pytest.mark.parametrize(("source", "x"), EXCESSIVE.values(), ids=EXCESSIVE)
def test_the_cost_limit_is_exceeded(value: Callable[..., Any], source: str, x: Any) -> None:
    kind, _ = value(source, x=x, y=[1] * 4_000)
    assert kind == BUDGET
