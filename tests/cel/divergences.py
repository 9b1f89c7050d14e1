"""Where our answers differ from Kubernetes' on purpose, one by one; docs/reference/cel-divergences.md is made from it.

Every row has an example that is checked on both sides, and says which disagreements of random expressions it explains:
what no row explains is a bug.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cel.comparing import FAILED, Disagreement


@dataclass(frozen=True, slots=True)
class Divergence:
    """`ours` and `theirs` are answers in the form of `comparing.normal`, or FAILED."""

    id: str
    sentence: str
    reason: str
    example: str
    ours: Any
    theirs: Any
    explains: Callable[[Disagreement], bool]
    inputs: Mapping[str, Any] = field(default_factory=dict)


def _matching(ours: str = "", theirs: str = "", expression: str = "") -> Callable[[Disagreement], bool]:
    """Whether our message, theirs (which begins with compile_error for what is refused) and the expression match."""

    def explains(found: Disagreement) -> bool:
        said = found.messages
        wanted = ((ours, said[0]), (theirs, said[1]), (expression, found.case.expression))
        return all(re.search(pattern, text) for pattern, text in wanted if pattern)

    return explains


def _unreached(_found: Disagreement) -> bool:
    """Random expressions do not get there."""
    return False


_UNTYPED: Final = re.compile(r"\[\]|\{\}|optional\.none\(\)")


def _refused_types(found: Disagreement) -> bool:
    return re.match("compile_error: ERROR: .*(expected type|found no matching overload)", found.messages[1]) is not None


def _zero(found: Disagreement) -> bool:
    """The sum of nothing: 0 here, and a zero of the type that was inferred there."""
    met = "no such overload" in found.messages[0] and ".sum()" in found.case.expression
    return found.theirs != FAILED and (found.ours in (("int", "0"), ("type", "int")) or met)


DIVERGENCES: Final = (
    Divergence(
        "literals",
        "A quantity, version, address or URL that is written as a literal is checked when the expression is compiled",
        "What can never be right is a mistake, also in a branch that today's Pods do not reach",
        'b || semver("one").major() == 1',
        FAILED,
        ("bool", "true"),
        _matching(ours=r"^compile: \S+ (not an? |IPv4-mapped|IPv6 zone)"),
        {"b": True},
    ),
    Divergence(
        "literals of literals",
        "A number made of an address, quantity or version that is written as a literal is checked then, too",
        "As above; Kubernetes computes literals in one step and these in two",
        'b || double(string(ip("10.0.0.1"))) == 1.0',
        FAILED,
        ("bool", "true"),
        _matching(ours=r"^compile: \S+ type conversion", expression=r"string\(+(ip|cidr|url|quantity|semver)\("),
        {"b": True},
    ),
    Divergence(
        "qualifiers",
        "Kubernetes refuses to plan a lookup with a constant key of a type that no map has",
        "Here it is an error when it is reached, as it is there when the key is not constant",
        'true || {0: 1}[dyn(b"")] == 1',
        ("bool", "true"),
        FAILED,
        _matching(theirs="^compile_error: invalid qualifier type"),
    ),
    Divergence(
        "formatting",
        "Kubernetes compares what is inside lists and maps with a literal format text when the expression is compiled",
        "Here an operand that the text cannot show is an error when it is reached",
        'b || "%s".format([{"a": quantity("1")}]) == ""',
        ("bool", "true"),
        FAILED,
        _matching(theirs="^compile_error: ERROR: .*error during formatting"),
        {"b": True},
    ),
    Divergence(
        "empty literals",
        "Kubernetes infers what `[]`, `{}` and `optional.none()` could hold; here they may hold anything",
        "A conflict that only an empty list could have is found when the expression is evaluated",
        "b || [].sum() == 0u",
        ("bool", "true"),
        FAILED,
        lambda found: _UNTYPED.search(found.case.expression) is not None and (_refused_types(found) or _zero(found)),
        {"b": True},
    ),
    Divergence(
        "in nothing",
        "`x in []` is false in Kubernetes without a look at x",
        "Here an error of x is an error; who writes an empty list meant something else",
        "1 / 0 in []",
        FAILED,
        ("bool", "false"),
        _matching(expression=r"\bin \(*\[\]"),
    ),
    Divergence(
        "quantity sums",
        "`a == b.add(c)` and `a == b.sub(c)` are errors in Kubernetes, though not with the sum on the left",
        "A mistake in Kubernetes 1.37: the sum has another internal type, which its equality does not know",
        'quantity("1") == quantity("0").add(quantity("1"))',
        ("bool", "true"),
        FAILED,
        _matching(theirs="^error: no such overload", expression=r"\.(add|sub)\("),
    ),
    Divergence(
        "smallest int",
        "`sub` of the smallest int64, or of a quantity that is it, adds it in Kubernetes, where its negation overflows",
        "Here the difference is right",
        'sign(quantity("0").sub(-9223372036854775808)) == 1',
        ("bool", "true"),
        ("bool", "false"),
        _matching(ours="^$", theirs="^$", expression=r"\.sub\(.*(922337203685477580[78]|\b[ij]\b)"),
    ),
    Divergence(
        "long texts",
        "int(), uint() and double() read up to 64 characters, quantities 128 with exponents up to ±999, versions 256",
        "No text may be costly to read, and none of these is longer in earnest",
        f'double("{"1" * 65}") > 0.0',
        FAILED,
        ("bool", "true"),
        _matching(expression=r"[0-9]{65}|[eE][+-]?[0-9]{4}"),
    ),
    Divergence(
        "precision",
        "The precision of %f and %e in a format text ends at 100",
        "As in later versions of cel-go; more digits than a double has say nothing",
        '"%.101f".format([0.5]).size() == 103',
        FAILED,
        ("bool", "true"),
        _matching(ours="error while parsing precision"),
    ),
    Divergence(
        "nested kinds",
        "In lists and maps a quantity, version, URL, address or format is unequal to every other kind",
        "Kubernetes takes the refusal to compare for equality there",
        '[dyn(quantity("1"))] == [dyn(1)]',
        ("bool", "false"),
        ("bool", "true"),
        _matching(ours="^$", theirs="^$", expression=r"\bdyn\(.*\b(quantity|semver|url|ip|cidr|format)\b"),
    ),
    Divergence(
        "bytes in constants",
        "Bytes cannot be looked for in a constant list of strings in Kubernetes: an internal error",
        "Here bytes are equal to no string, as with a list that is not constant",
        'dyn(b"a") in ["a", "b"]',
        ("bool", "false"),
        FAILED,
        _matching(theirs="unhashable type"),
    ),
    Divergence(
        "NaN",
        "A list with NaN cannot be sorted",
        "It has no place; Kubernetes puts it anywhere",
        "[2.0, 0.0 / 0.0].sort().size() == 2",
        FAILED,
        ("bool", "true"),
        _matching(ours="NaN values cannot be ordered"),
    ),
    Divergence(
        "stable sort",
        "sortBy() keeps the order of elements with equal keys",
        "Kubernetes does not, from 13 elements on",
        "lists.range(100).sortBy(e, e % 3).filter(e, e % 3 == 0) == lists.range(100).filter(e, e % 3 == 0)",
        ("bool", "true"),
        ("bool", "false"),
        _unreached,
    ),
    Divergence(
        "bytes in URLs",
        "Bytes of a URL that are no UTF-8 become U+FFFD",
        "Strings are Unicode here",
        r'url("http://%ff/").getHost() == "\ufffd"',
        ("bool", "true"),
        ("bool", "false"),
        _matching(expression="url.*%[89a-f]"),
    ),
    Divergence(
        "map keys",
        "Keys of maps are strings, integers or bools",
        "So the specification says; Kubernetes takes more",
        "{1.5: true}[1.5]",
        FAILED,
        ("bool", "true"),
        _matching(ours="map keys are strings, integers or bools"),
    ),
    Divergence(
        "number keys",
        "A map with number keys is searched with numbers of any type, not only with the type of its keys",
        "The types of keys are not tracked; equal numbers are equal keys, as they are there behind dyn()",
        "{1: 2}[1.0]",
        ("int", "2"),
        FAILED,
        _matching(theirs=r"^compile_error: ERROR: .*no matching overload for '(_\[_\]|@in)'.*map\((int|uint),"),
    ),
    Divergence(
        "dyn in literals",
        "A list or map may hold values of one type beside others whose type is not known, as in `[1, ?x.?a]`",
        "What the inputs hold is mostly not known; Kubernetes wants all or none in dyn()",
        "[1, dyn(1.0)].size() == 2",
        ("bool", "true"),
        FAILED,
        _matching(theirs="^compile_error: ERROR: .*expected type ('dyn'|.* but found 'dyn')"),
    ),
    Divergence(
        "Unicode classes",
        r"`\p{Letter}`, `\p{greek}`, `\p{LC}` and `\p{Cn}` are no classes: long names, other cases, and these two",
        "RE2 here has the names of Go before version 1.25",
        r'"a".matches(r"\p{Letter}")',
        FAILED,
        ("bool", "true"),
        _matching(ours="invalid regular expression", expression=r"\\[pP]"),
    ),
    Divergence(
        "group names",
        "Groups of regular expressions may have names with any letters",
        "RE2 allows them, Go does not; no function shows a group by its name",
        '"a".matches("(?P<é>a)")',
        ("bool", "true"),
        FAILED,
        _matching(ours="^$", expression=r"\(\?P?<"),
    ),
    Divergence(
        "negative durations",
        "There is no -d for a duration d",
        "Kubernetes refuses it too, unless its type is dyn",
        '-dyn(duration("1s")) == duration("-1s")',
        FAILED,
        ("bool", "true"),
        _matching(ours=r"no such overload: -\(duration\)"),
    ),
    Divergence(
        "URI problems",
        "format.uri() does not say what is wrong with an address in brackets as Go does",
        "The text is Go's, for logs of Go programs",
        r'format.uri().validate("http://[a]") == optional.of(["parse \"http://[a]\": invalid host"])',
        ("bool", "true"),
        ("bool", "false"),
        _matching(expression=r"format\.uri"),
    ),
    Divergence(
        "order",
        "The keys of a map are visited in the order in which they are written; in Kubernetes in any",
        "What an expression comes to should not change from one evaluation to the next",
        '["b", "a"].map(k, {k: 1}).size() == 2 && {"b": 1, "a": 2}.map(k, k)[0] in ["a", "b"]',
        ("bool", "true"),
        ("bool", "true"),
        lambda found: found.varying,
    ),
    Divergence(
        "budget",
        "An evaluation may take 10,000 steps and make 1 MiB of values; Kubernetes counts a cost of its own",
        "A rule shares a process with every other rule",
        "lists.range(200).map(i, lists.range(200).sum()).size() == 200",
        FAILED,
        ("bool", "true"),
        _matching(ours="^budget: "),
    ),
)

SPECIFICATION: Final = {
    "dyn({0:1,2:2,5:3}[dyn(b'')]) || true": "qualifiers",
    "dyn({0:1,2:2,5:3}[dyn(b'')]) && false": "qualifiers",
}
"""Rows of the specification's corpus that a divergence is about: its id by expression."""


def listed(expression: str) -> bool:
    """Whether a row of the specification's corpus is one of ours."""
    return expression in SPECIFICATION


def explained(found: Disagreement) -> str | None:
    """The id of the divergence that this is, if it is one."""
    return next((each.id for each in DIVERGENCES if each.explains(found)), None)
