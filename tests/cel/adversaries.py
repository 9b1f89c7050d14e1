"""Expressions and inputs made to cost as much as they can.

`x` is what a Pod's author controls.  Inputs are functions, because some are large.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tollbar.cel import Env

ENV: Final = Env(variables=(("x", "dyn"),), result="dyn")

_TEN: Final = "[0,1,2,3,4,5,6,7,8,9]"


@dataclass(frozen=True, slots=True)
class Adversary:
    """`harmless` ones may have a value; all others end with an error."""

    expression: str
    x: Callable[[], Any] = lambda: None
    harmless: bool = False


def nested(levels: int, macro: str, innermost: str) -> str:
    """Nested macros that evaluate the innermost predicate 10^levels times."""
    text = innermost
    for level in reversed(range(levels)):
        text = f"{_TEN}.{macro}(v{level}, {text})"
    return text


def doubled(times: int, first: str) -> str:
    """2^times copies of the first, joined by cel.bind."""
    text = f"v{times} != v0"
    for number in range(times, 0, -1):
        text = f"cel.bind(v{number}, v{number - 1} + v{number - 1}, {text})"
    return f"cel.bind(v0, {first}, {text})"


def levels(count: int, macro: str, innermost: str, doubling: int) -> str:
    """Nested macros over lists of one element, and of two in the outermost `doubling` ones."""
    text = innermost
    for level in reversed(range(count)):
        text = f"{'[1, 2]' if level < doubling else '[1]'}.{macro}(v{level}, {text})"
    return text


def near_limit(count: int) -> str:
    """Literal patterns that take long to compile, each another one."""
    classes = r"[\\pL\\pN]|" * 24
    return " || ".join(f"x.matches('{classes}{number}')" for number in range(count))


def mapped(times: int) -> str:
    """A string that doubles with every map()."""
    text = "x.map(s, s + s)"
    for number in range(times - 1):
        text += f".map(s{number}, s{number} + s{number})"
    return f"{text}[0].size() > 0"


def unrepeated(length: int, letters: str) -> str:
    """A text without a pattern that a matcher could cache; the same one each time."""
    source = Random(1)
    return "".join(source.choices(letters, k=length))


def deep(levels: int) -> Any:
    """A map in a list in a map, and so on."""
    value: Any = 0
    for _ in range(levels):
        value = {"a": [value]}
    return value


ADVERSARIES: Final[dict[str, Adversary]] = {
    "an error of 26 elements whose text would double with each": Adversary(
        "x.exists(i, i.nope == 1)", lambda: [{"a": "y" * 100}] * 26
    ),
    "errors that macros absorb within macros": Adversary(
        "x.all(i, x.exists(j, x.all(k, i.nope == j.nope)))", lambda: [{"a": 1}] * 100
    ),
    "an error chain of ||": Adversary(" || ".join(["x.nope"] * 500), dict),
    "an error that quotes a large value": Adversary("x.exists(i, i + 1 == 2)", lambda: ["y" * 100_000] * 500),
    "an unterminated string with 30 escapes": Adversary('x == "' + r"\n" * 30),
    "an unterminated string with 3,000 escapes": Adversary('x == "' + r"\n" * 3000),
    "an unterminated triple-quoted string with escapes": Adversary('x == """' + r"\"" * 3000),
    "an unterminated raw string": Adversary('x == r"' + "\\" * 3001),
    "unterminated bytes": Adversary("x == b'" + r"\377" * 2000),
    "a duration that makes a regular expression backtrack": Adversary(
        "duration(x) > duration('1s')", lambda: "1" * 60 + "!"
    ),
    "a duration of 100,000 units": Adversary("duration(x) > duration('1s')", lambda: "1h" * 50_000),
    "a duration literal that makes a regular expression backtrack": Adversary(f"duration('{'1' * 5000}x') == x"),
    "a timestamp of a megabyte": Adversary("timestamp(x) > timestamp(x)", lambda: "2" * 1_000_000),
    "a quantity of a megabyte": Adversary("sign(quantity(x)) == 1", lambda: "1" * 1_000_000),
    "a quantity with a huge exponent": Adversary("sign(quantity(x)) == 1", lambda: "1e999999999"),
    "a number of a megabyte": Adversary("int(x) == 1", lambda: "1" * 1_000_000),
    "a version of a megabyte": Adversary("semver(x).major() == 1", lambda: "1.0.0-" + "0" * 1_000_000),
    "nested comprehensions, 10^5": Adversary(nested(5, "all", "v0 >= 0"), harmless=True),
    "nested comprehensions, 10^6": Adversary(nested(6, "all", "v0 >= 0")),
    "nested comprehensions, 10^7": Adversary(nested(7, "all", "v0 >= 0")),
    "nested comprehensions that absorb errors, 10^7": Adversary(nested(7, "exists", "x.nope")),
    "nested maps, 10^7": Adversary(nested(7, "map", "v6")),
    "nested filters, 10^5": Adversary(nested(5, "exists_one", "v4 == 1"), harmless=True),
    "nested comprehensions with two variables": Adversary(
        "x.transformList(i, a, x.transformList(j, b, x.transformList(k, c, i * j * k)))", lambda: list(range(300))
    ),
    "a comprehension over 10^5 elements": Adversary("x.all(i, i >= 0)", lambda: list(range(100_000)), harmless=True),
    "a string doubled by map": Adversary(mapped(20), lambda: ["y" * 1000]),
    "a string doubled by cel.bind, as a reduction would": Adversary(doubled(25, "'yyyyyyyyyyyyyyyy'")),
    "a list doubled by cel.bind": Adversary(doubled(25, "[1, 2, 3, 4]")),
    "bytes doubled by cel.bind": Adversary(doubled(25, "b'yyyyyyyyyyyyyyyy'")),
    "a string replaced into a larger one": Adversary("x.replace('y', x).size() > 0", lambda: "y" * 10_000),
    "a string replaced at every place": Adversary("x.replace('', x).size() > 0", lambda: "y" * 10_000),
    "a join of much": Adversary("x.join(x[0]).size() > 0", lambda: ["y" * 1000] * 5000),
    "a format of much": Adversary("'%s%s%s%s%s%s%s%s'.format([x, x, x, x, x, x, x, x]) == ''", lambda: "y" * 60_000),
    "a format of a deep list": Adversary("'%s'.format([x]) == ''", lambda: deep(20_000)),
    "a precision of a million digits": Adversary("'%.1000000f'.format([1.5]).size() > 0"),
    "a split into much": Adversary("x.split('').map(s, s + x).size() > 0", lambda: "y" * 60_000),
    "in among 10^5 elements": Adversary("-1 in x", lambda: list(range(100_000))),
    "in among 10^5 strings": Adversary("'z' in x", lambda: ["y" * 50] * 100_000),
    "equality of 10^5 elements": Adversary("x == x.map(i, i)", lambda: list(range(100_000))),
    "a sum of 10^5 elements": Adversary("x.sum() > 0", lambda: list(range(100_000))),
    "sorting 10^5 elements": Adversary("x.sort()[0] == 1", lambda: list(range(100_000, 0, -1))),
    "distinct of many lists": Adversary("x.distinct().size() > 0", lambda: [[i] * 20 for i in range(5000)]),
    "sets of many elements": Adversary("sets.equivalent(x, x)", lambda: [str(i) for i in range(9000)], harmless=True),
    "flattening what is deep": Adversary("x.flatten(1000000).size() > 0", lambda: [[[1] * 100] * 100] * 100),
    "a range of 10^9": Adversary("lists.range(1000000000).size() > 0"),
    "500 terms of &&": Adversary(" && ".join(["true"] * 500), harmless=True),
    "500 terms of +": Adversary(" + ".join(["1"] * 500) + " == 500", harmless=True),
    "1,500 terms of ||": Adversary(" || ".join(["x"] * 1500)),
    "500 selections": Adversary("x" + ".x" * 500),
    "500 conditionals": Adversary("true ? true : " * 400 + "true"),
    "200 parentheses": Adversary("(" * 200 + "true" + ")" * 200),
    "200 lists": Adversary("[" * 200 + "]" * 200 + " == x"),
    "3,000 negations": Adversary("!" * 3000 + "true"),
    "9,000 opening brackets": Adversary("(" * 9000),
    "a regular expression of 100 KB": Adversary("'a'.matches(x)", lambda: "a" * 100_000),
    "a literal regular expression of 9 KB": Adversary(f"x.matches('{'(a|b)' * 1800}')"),
    "a regular expression that becomes large": Adversary(r"'a'.matches(x)", lambda: r"(\pL{100}){20}"),
    "a regular expression that would backtrack": Adversary(f"'{'a' * 5000}'.matches('^(((a+)+)+)+b$')", harmless=True),
    "a regular expression on 10 MB": Adversary("x.matches('(a|b)*c')", lambda: "y" * 10_000_000),
    "a regular expression for each element": Adversary(
        "x.all(p, 'a'.matches(p))", lambda: [f"a|{'b' * i}" for i in range(1000)]
    ),
    "every match of a long text": Adversary("x.findAll('y').size() > 0", lambda: "y" * 50_000),
    "matches that each look through the rest of the text": Adversary(
        "x.findAll('a(?:[ab]*a[ab]{30}c)?', 700).size() > 0", lambda: "a" * 700 + unrepeated(15_000, "ab")
    ),
    "matches that each look through the rest of a text of four-byte characters": Adversary(
        "x.findAll('😀(?:.*😀.{30}c)?', 700).size() > 0",
        lambda: "😀" * 700 + unrepeated(4_000, "😀😁"),
    ),
    "deep JSON compared": Adversary("x == [x]", lambda: deep(20_000), harmless=True),
    "deep JSON compared with its copy": Adversary("x == dyn([x])[0].a[0]", lambda: deep(20_000), harmless=True),
    "deep JSON in a list": Adversary("dyn(x) in [dyn({'a': [x]})]", lambda: deep(20_000), harmless=True),
    "a key of 10 MB": Adversary("{x: 1}[x + 'a'] == 1", lambda: "y" * 10_000_000),
    "an address of a megabyte": Adversary("ip(x).family() == 4", lambda: "1." * 500_000),
    "a URL of a megabyte": Adversary("url(x).getQuery().size() > 100", lambda: "http://a/?" + "a=1&" * 250_000),
    "a label of a megabyte": Adversary("format.dns1123Label().validate(x).value().size() > 9", lambda: "a" * 1_000_000),
    "a time zone of a megabyte": Adversary(
        "timestamp('2024-01-01T00:00:00Z').getHours(x) == 1", lambda: "a/" * 500_000
    ),
    "a time zone that is a path": Adversary(
        "timestamp('2024-01-01T00:00:00Z').getHours(x) == 1", lambda: "../../../../etc/passwd"
    ),
    "a format of many large doubles": Adversary(
        "cel.bind(l, lists.range(1000).map(i, 1.1e300), '%s'.format([l+l+l+l+l+l+l]) == '')"
    ),
    "a format of a list of large doubles": Adversary("'%s'.format([x]) == ''", lambda: [1.2345678e300] * 9_900),
    "a large double with many places": Adversary(
        "x.all(d, '%.100f'.format([d]) != '') && 1/0 == 1", lambda: [1.2345678e300] * 9_900
    ),
    "texts of doubles": Adversary("x.all(d, string(d) != '') && 1/0 == 1", lambda: [1.2345678e-300] * 9_900),
    "isSorted of many kinds": Adversary("x.isSorted() && 1/0 == 1", lambda: [1, "a"] * 4_900),
    "min of many kinds": Adversary("x.min() != 7 && 1/0 == 1", lambda: [1, "a"] * 4_900),
    "nested equality, then an error": Adversary(
        "x[0] == x[1] && 1/0 == 1", lambda: [[[1.5, 2, "a"] * 4 for _ in range(900)] for _ in range(2)]
    ),
    "equality of many maps, then an error": Adversary(
        "x[0] == x[1] && 1/0 == 1", lambda: [[{"a": {"b": [1, 2.0]}} for _ in range(4_000)] for _ in range(2)]
    ),
    "40 nested exists whose body fails": Adversary(levels(40, "exists", "x.nope", 10), dict),
    "the truth of elements": Adversary("x.all(j, x.all(i, i)) && 1/0 == 1", lambda: [True] * 380),
    "20 nested all": Adversary(levels(20, "all", "v0 >= 0", 20)),
    "20 nested all whose body fails": Adversary(levels(20, "all", "x.nope", 20), dict),
    "failures that exists absorbs": Adversary("x.exists(i, i.nope)", lambda: [{}] * 100_000),
    "a large expression in a loop": Adversary(f"x.all(i, {'i == 1 || ' * 200}true)", lambda: [0] * 9_000),
    "32 patterns near their limits": Adversary(near_limit(32)),
}
