"""Expressions and data made to take the process down: each evaluation ends within its limits, with a short error.

Steps, bytes and lengths are asserted.  A hang fails by the test runner's timeout.
"""

from collections.abc import Callable
from typing import Any

import pytest
from cel.adversaries import deep
from cel.costs import Measured

from tollbar.cel import BUDGET, COMPILE, RUNTIME, CelEngine, CelError, Env
from tollbar.cel.core.limits import MAX_ALLOCATION, MAX_STEPS

DYN = Env(variables=(("x", "dyn"),))


def described(error: bool | CelError) -> Any:
    return (error.kind, error.message) if isinstance(error, CelError) else error


SOURCES = {
    "an unterminated string full of escapes": ('"' + r"\n" * 2000, COMPILE, "string is not terminated"),
    "an unterminated raw string full of escapes": ('r"' + r"\n" * 2000, COMPILE, "string is not terminated"),
    "an unterminated triple-quoted string": ('"""' + r"\"" * 2000, COMPILE, "string is not terminated"),
    "unterminated bytes": ("b'" + r"\x" * 2000, COMPILE, "string is not terminated"),
    "a raw string that ends in a backslash": (r'r"' + r"\n" * 30 + '\\" != x', True, None),
    "a terminated string full of escapes": ('"' + r"\n" * 2000 + '" != x', True, None),
    "quotes without end": ('"""' + '""' * 2000, COMPILE, "unexpected string"),
    "an empty string after another": ('""' * 2000, COMPILE, "unexpected string"),
    "a source that is too long": (" " * 10_241, COMPILE, "expression is longer than 10240 bytes"),
    "a source that is too long in bytes": ("'" + "é" * 5120 + "'", COMPILE, "expression is longer than 10240 bytes"),
    "a source of a megabyte": ("x" * 2**20, COMPILE, "expression is longer than 10240 bytes"),
    "200 parentheses": ("(" * 200 + "true" + ")" * 200, COMPILE, "brackets are nested deeper than 60"),
    "60 parentheses": ("(" * 60 + "true" + ")" * 60, True, None),
    "200 lists": ("[" * 200 + "]" * 200 + " == []", COMPILE, "brackets are nested deeper than 60"),
    "9000 opening brackets": ("(" * 9000, COMPILE, "brackets are nested deeper than 60"),
    "9000 closing brackets": (")" * 9000, COMPILE, "expression has more than 4000 tokens"),
    "3000 closing brackets": (")" * 3000, COMPILE, "unexpected ')'"),
    "9000 negations": ("!" * 9000 + "true", COMPILE, "operations are nested deeper than 60"),
    "3000 negations": ("!" * 3000 + "true", COMPILE, "operations are nested deeper than 60"),
    "3000 minus signs": ("-" * 3000 + "1 == 1", COMPILE, "operations are nested deeper than 60"),
    "500 terms of ||": (" || ".join(["false"] * 499 + ["true"]), True, None),
    "500 failing terms of ||": (" || ".join(["x.nope"] * 499 + ["true"]), True, None),
    "500 terms of &&": (" && ".join(["true"] * 500), True, None),
    "1001 terms": ("||".join(["true"] * 1001), COMPILE, "expression has more than 1000 names and literals"),
    "500 terms of +": (" + ".join(["1"] * 500) + " == 500", COMPILE, "operations are nested deeper than 60"),
    "500 selections": ("x" + ".x" * 500, COMPILE, "operations are nested deeper than 60"),
    "500 indices": ("x" + "[0]" * 500, COMPILE, "operations are nested deeper than 60"),
    "500 comparisons": ("true" + " == true" * 500, COMPILE, "operations are nested deeper than 60"),
    "500 conditionals": ("true ? true : " * 400 + "true", COMPILE, "operations are nested deeper than 60"),
    "a number of 9000 digits": ("1" * 9000 + " > 0", COMPILE, "number is longer than 64 characters"),
    "a name of 9000 letters": ("a" * 9000, COMPILE, "undefined variable '" + "a" * 64 + "…'"),
    "a field of 9000 letters": ("x." + "a" * 9000, RUNTIME, "no such key: " + "a" * 64 + "…"),
    "a pattern that is too long": (
        f"'a'.matches('{'a' * 1025}')",
        COMPILE,
        "regular expression is longer than 1024 characters",
    ),
    "a pattern that is too large": (r"'a'.matches('(\\pL{500}){2}')", COMPILE, "invalid regular expression"),
    "many patterns": (
        " || ".join([r"'a'.matches('\\pL{9}\\pN{8}')"] * 33),
        COMPILE,
        "expression has more than 32 regular expressions",
    ),
    "patterns that are large together": (
        " || ".join(f"'a'.matches('\\\\pL{{9}}{i}')" for i in range(9)),
        COMPILE,
        "regular expressions are too large together",
    ),
    "a pattern that would backtrack": (f"!'{'a' * 5000}'.matches('^(((a+)+)+)+b$')", True, None),
}


@pytest.mark.parametrize(("source", "kind", "message"), SOURCES.values(), ids=SOURCES)
def test_an_expression_compiles_or_exceeds_a_limit(
    measured: Callable[..., Measured], source: str, kind: Any, message: str | None
) -> None:
    found = measured(source, x={})
    want = (kind, message) if message else kind
    assert (described(found.answer), found.steps <= MAX_STEPS) == (want, True)


TOO_MANY = (BUDGET, "evaluation exceeds the cost limit of 650000 steps")
TOO_LARGE = (BUDGET, "string becomes too large")
NO_DURATION = (RUNTIME, "type conversion error from 'string' to 'google.protobuf.Duration'")
TEN = "[0,1,2,3,4,5,6,7,8,9]"

EVALUATIONS: dict[str, tuple[str, Any, Any]] = {
    "an error for each of many elements": (
        "x.exists(i, i.nope == 1)",
        list(range(700)),
        (RUNTIME, "no such overload: int has no fields"),
    ),
    "an error for each of many elements, nested": (
        "x.exists(i, x.exists(j, j.nope == 1))",
        [{}] * 26,
        (RUNTIME, "no such key: nope"),
    ),
    "an error for each of many elements of all": (
        "x.all(i, i.nope == 1)",
        [{}] * 1000,
        (RUNTIME, "no such key: nope"),
    ),
    "an error with a large value": (
        "x.exists(i, i + 1 == 2)",
        ["y" * 100_000] * 1000,
        (RUNTIME, "no such overload: +(string, int)"),
    ),
    "nested comprehensions": (
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, a+b+c+d+e >= 0)))))",
        None,
        TOO_MANY,
    ),
    "nested comprehensions that would absorb": (
        f"{TEN}.exists(a, {TEN}.exists(b, {TEN}.exists(c, {TEN}.exists(d, {TEN}.exists(e, e > 9 || a > 9))))) || true",
        None,
        TOO_MANY,
    ),
    "nested maps that multiply": (
        f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, e + 1))))).size() == 10",
        None,
        TOO_MANY,
    ),
    "a comprehension over many elements": ("x.all(i, i >= 0)", list(range(200_000)), TOO_MANY),
    "a filter over many elements": (
        "x.filter(i, true).size() > 0",
        list(range(100_000)),
        (BUDGET, "list becomes too large"),
    ),
    "in among many elements": ("-1 in x", list(range(100_000)), TOO_MANY),
    "in among many keys": ('"nope" in x', {str(i): i for i in range(100_000)}, False),
    "equality of many elements": ("x == x", list(range(100_000)), TOO_MANY),
    "equality of long strings": ("x + 'a' == x", "y" * 60_000, False),
    "concatenation with itself": ("x + x + x + x == ''", "y" * 30_000, TOO_LARGE),
    "doubling": (
        "cel.bind(a, x + x, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, d + d != ''))))",
        "y" * 4_000,
        TOO_LARGE,
    ),
    "bound values that fail, twice each": (
        "cel.bind(a0, x.nope, " + "".join(f"cel.bind(a{i + 1}, a{i} || a{i}, " for i in range(40)) + "a40" + ")" * 41,
        {},
        (RUNTIME, "no such key: nope"),
    ),
    "doubling of lists": (
        "cel.bind(a, x + x, cel.bind(b, a + a, cel.bind(c, b + b, c + c != [])))",
        list(range(1_000)),
        (BUDGET, "list becomes too large"),
    ),
    "a list of too many": ("x.map(i, {}).size() > 0", list(range(20_000)), (BUDGET, "list becomes too large")),
    "strings that together are too large": (
        "x.map(i, i + 'a').size() > 0",
        ["y" * 15_000] * 100,
        (BUDGET, "evaluation needs too much memory"),
    ),
    "replace that grows": ("x.replace('y', 'yyyyyyyyyy') == ''", "y" * 60_000, TOO_LARGE),
    "replace of nothing that grows": ("x.replace('', x) == ''", "y" * 5_000, TOO_LARGE),
    "split into many": ("x.split('').size() == 0", "y" * 60_000, (BUDGET, "list becomes too large")),
    "join of many": ("x.join(',') == ''", ["y" * 1000] * 5_000, TOO_LARGE),
    "join of too many": ("x.join() == ''", ["y"] * 100_000, TOO_MANY),
    "sort check of many": ("x.isSorted()", list(range(100_000)), TOO_MANY),
    "sum of many": ("x.sum() > 0", list(range(100_000)), TOO_MANY),
    "a very long text to search": ("x.contains('z')", "y" * 10_000_000, TOO_MANY),
    "a very long text to match": ("x.matches('(a|b)*c')", "y" * 10_000_000, TOO_MANY),
    "a pattern that is slow on a long text": ("x.matches('a.{100}b')", "a" * 50_000, TOO_MANY),
    "findAll of many": ("x.findAll('y').size() > 0", "y" * 20_000, TOO_MANY),
    "a pattern of 100 kB from data": (
        "'a'.matches(x)",
        "a" * 100_000,
        TOO_MANY,
    ),
    "a pattern of 2 kB from data": (
        "'a'.matches(x) || true",
        "a" * 2_000,
        TOO_MANY,
    ),
    "a pattern from data for each element": ("x.all(p, 'a'.matches(p))", ["a|" + "b" * i for i in range(90)], TOO_MANY),
    "a pattern from data that is too large": (
        "'a'.matches(x)",
        r"\pL{900}" * 3,
        (RUNTIME, "invalid regular expression"),
    ),
    "a long duration": ("duration(x) > duration('1s')", "1h" * 50_000, TOO_MANY),
    "a duration made for backtracking": ("duration(x) > duration('1s')", "a" * 63 + "!", NO_DURATION),
    "a short duration of many units": ("duration(x) > duration('1s')", "1s" * 32, True),
    "a long timestamp": ("timestamp(x) > timestamp(x)", "2" * 20_000_000, TOO_MANY),
    "a long quantity": ("sign(quantity(x)) == 1", "1" * 1_000_000, (RUNTIME, "not a quantity")),
    "a quantity with a huge exponent": ("sign(quantity(x)) == 1", "1e999999999", (RUNTIME, "not a quantity")),
    "quantities that grow": ("sign(quantity(x).add(quantity(x))) == 1", "1e999", True),
    "a long version": ("isSemver(x)", "1.0.0-" + "0" * 1_000_000, False),
    "a long number": ("int(x) == 1", "1" * 1_000_000, (RUNTIME, "type conversion error from 'string' to 'int'")),
    "a long zone": (
        "timestamp('2024-01-01T00:00:00Z').getHours(x) == 1",
        "a" * 1_000_000,
        (RUNTIME, "not a time zone"),
    ),
    "a long string that is no bool": (
        "bool(x)",
        "t" * 1_000_000,
        (RUNTIME, "type conversion error from 'string' to 'bool'"),
    ),
    "a long result that is not bool": ("x", "t" * 1_000_000, (RUNTIME, "must evaluate to bool but is string")),
}


@pytest.mark.parametrize(("source", "x", "want"), EVALUATIONS.values(), ids=EVALUATIONS)
def test_an_evaluation_ends_within_its_limits(
    measured: Callable[..., Measured], source: str, x: Any, want: Any
) -> None:
    found = measured(source, x=x)
    over = isinstance(found.answer, CelError) and found.answer.kind == BUDGET
    within = found.steps <= MAX_STEPS and found.allocated <= MAX_ALLOCATION
    assert (described(found.answer), over or within) == (want, True)


DEEP = {
    "equal as far as it goes": ("x == y", (BUDGET, "values are nested too deeply to compare")),
    "in a list": ("x in [y]", (BUDGET, "values are nested too deeply to compare")),
    "different at once": ("x == 1", False),
    "selected": ("x.a[0].a[0].a[0].size() == 1", True),
    "an exceeded limit is not absorbed": ("x == y || true", (BUDGET, "values are nested too deeply to compare")),
}


@pytest.mark.parametrize(("source", "want"), DEEP.values(), ids=DEEP)
def test_deeply_nested_json(measured: Callable[..., Measured], source: str, want: Any) -> None:
    assert described(measured(source, x=deep(20_000), y=deep(20_000)).answer) == want


def test_the_deepest_expression_evaluates(measured: Callable[..., Measured]) -> None:
    source = "x"
    for _ in range(18):
        source = f"[{source}].map(v, v)[0]"
    assert measured(f"{source} == x", x=1).answer is True


def test_an_evaluation_near_the_end_of_the_stack_is_an_error(cel: CelEngine) -> None:
    program = cel.compile("[[[[true]]]][0][0][0][0]", DYN)

    def descend() -> bool | CelError:
        try:
            return descend()
        except RecursionError:
            return program.evaluate({})

    assert described(descend()) in (True, (BUDGET, "evaluation is nested too deeply"))


def test_messages_do_not_contain_input(measured: Callable[..., Measured]) -> None:
    secret = "s3cret"
    sources = [
        "x.a.b",
        "x[x.key]",
        "int(x.key) == 1",
        "quantity(x.key) == 1",
        "x.key.matches(x.key + '(')",
        "x.key + 1",
        "x.key",
        "{x.key: 1, x.key: 2} == {}",
        "[x.key].sum() == 1",
        "timestamp(x.key) == 1",
    ]
    found = [str(measured(source, x={"key": secret, "a": {secret: secret}}).answer) for source in sources]
    assert [secret in text or len(text) > 100 for text in found] == [False] * len(sources)
