"""All known differences from Kubernetes' answers; docs/reference/cel-divergences.md is generated from this table.

Every row has an example that is checked on both sides, and says which disagreements of random expressions it explains:
what no row explains is a bug.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cel.comparing import EXCEEDED, FAILED, REFUSED, Disagreement, read_by


@dataclass(frozen=True, slots=True)
class Divergence:
    """`ours` and `theirs` are answers in the form of `comparing.normal`, or REFUSED, FAILED or EXCEEDED."""

    id: str
    sentence: str
    reason: str
    example: str
    ours: Any
    theirs: Any
    explains: Callable[[Disagreement], bool]
    inputs: Mapping[str, Any] = field(default_factory=dict)


def _matching(ours: str = "", theirs: str = "", expression: str = "") -> Callable[[Disagreement], bool]:
    """Whether our outcome, theirs and the expression match; an outcome is `a compile error: ...` or empty."""

    def explains(found: Disagreement) -> bool:
        said = [
            f"{outcome}: {message}" if message else ""
            for outcome, message in zip((found.ours, found.theirs), found.messages, strict=True)
        ]
        wanted = ((ours, said[0]), (theirs, said[1]), (expression, found.case.expression))
        return all(re.search(pattern, text) for pattern, text in wanted if pattern)

    return explains


def _unreached(_found: Disagreement) -> bool:
    """For divergences that random expressions do not reach."""
    return False


_SUM: Final = re.compile(r"\.(add|sub)\(")
_BY_TYPE: Final = (
    "ERROR: .*(expected type|found no matching overload|cannot be range of a comprehension"
    "|does not support field selection)"
)
_NO_KEY: Final = "(?!string|int|uint|double|bool)"
_NULL_REFUSED: Final = (
    r"no such overload: (.*null_type|(or|orValue|unwrapOpt|sum|min|max|isSorted|sort|@sortByAssociatedKeys)\()"
)
_UNTYPED: Final = re.compile(
    r"\[\]|\{\}|optional\.(none|unwrap)\(|\.(first|last|value|unwrapOpt|distinct|slice|flatten)\("
)


def _refused_types(found: Disagreement) -> bool:
    refused = re.match(_BY_TYPE, found.messages[1]) is not None
    return refused or (found.ours, found.theirs) == (REFUSED, FAILED)


def _zero(found: Disagreement) -> bool:
    """The sum of an empty list: 0 here, and a zero of the inferred type there."""
    met = "no such overload" in found.messages[0] and ".sum()" in found.case.expression
    return found.theirs not in (REFUSED, FAILED) and (found.ours in (("int", "0"), ("type", "int")) or met)


DIVERGENCES: Final = (
    Divergence(
        "literals",
        "A quantity, version, address or URL that is written as a literal is checked when the expression is compiled",
        "A wrong literal is a mistake, also in a branch that is not evaluated for the Pods of today",
        'b || semver("one").major() == 1',
        REFUSED,
        ("bool", "true"),
        _matching(ours=r"^a compile error: \S+ (not an? |IPv4-mapped|IPv6 zone)"),
        {"b": True},
    ),
    Divergence(
        "qualifiers",
        "Kubernetes refuses to compile a lookup with a constant key of a type that no map has",
        "Here it is an error when it is evaluated, as it is in Kubernetes with a key that is not constant",
        'true || {0: 1}[dyn(b"")] == 1',
        ("bool", "true"),
        REFUSED,
        _matching(theirs="^a compile error: invalid qualifier type"),
    ),
    Divergence(
        "indices",
        "A key of a type that no map has is refused as well where it is not constant and nothing is known of the map",
        "Kubernetes accepts it, and fails whenever it is evaluated",
        "b || x[doubles] == 1",
        REFUSED,
        ("bool", "true"),
        _matching(
            ours=rf"^a compile error: \S+ no such overload: (\[\]\((dyn|map), {_NO_KEY}|in\({_NO_KEY}\w+, map\))"
        ),
        {"b": True, "x": {}, "doubles": []},
    ),
    Divergence(
        "formatting",
        "Kubernetes checks elements of lists and maps against a literal template when the expression is compiled",
        "Here an element that cannot be formatted is an error when it is evaluated",
        'b || "%s".format([{"a": quantity("1")}]) == ""',
        ("bool", "true"),
        REFUSED,
        _matching(theirs="^a compile error: ERROR: .*error during formatting"),
        {"b": True},
    ),
    Divergence(
        "empty literals",
        "Kubernetes infers types for `[]`, `{}`, `optional.none()` and what functions make of `dyn`; here it is `dyn`",
        "A conflict with a type that is not written is an error of the evaluation, not of the compilation",
        "b || [].sum() == 0u",
        ("bool", "true"),
        REFUSED,
        lambda found: _UNTYPED.search(found.case.expression) is not None and (_refused_types(found) or _zero(found)),
        {"b": True},
    ),
    Divergence(
        "in nothing",
        "`x in []` is false in Kubernetes without evaluating x",
        "Here x is evaluated, and its error is that of the expression",
        "1 / 0 in []",
        FAILED,
        ("bool", "false"),
        _matching(expression=r"\bin \(*\[\]"),
    ),
    Divergence(
        "smallest int",
        "In Kubernetes `sub` of the smallest int64, as an int or a quantity, adds it, because its negation overflows",
        "Here the difference is correct",
        'sign(quantity("0").sub(-9223372036854775808)) == 1',
        ("bool", "true"),
        ("bool", "false"),
        lambda found: (
            ".sub(" in found.case.expression
            and "-9223372036854775808" in found.case.expression + str(read_by(found.case))
        ),
    ),
    Divergence(
        "quantity sums",
        "With `b.add(c)` or `b.sub(c)` on the right, `==` is an error in Kubernetes, in lists and maps true whatever"
        " the sum; `in` and `indexOf` find nothing",
        "A bug of Kubernetes 1.37: the sum has another internal type, which its equality does not support",
        'quantity("1") == quantity("0").add(quantity("1"))',
        ("bool", "true"),
        FAILED,
        lambda found: _SUM.search(found.case.expression) is not None and found.theirs != REFUSED,
    ),
    Divergence(
        "long texts",
        "int(), uint() and double() accept 64 characters, quantities 128 with exponents up to ±999, versions 256",
        "Longer texts are slow to parse, and real values are not longer",
        f'double("{"1" * 65}") > 0.0',
        REFUSED,
        ("bool", "true"),
        _matching(expression=r"[0-9]{65}|[eE][+-]?[0-9]{4}"),
    ),
    Divergence(
        "precision",
        "The precision of %f and %e in a template is at most 100",
        "As in later versions of cel-go; a double does not have more digits",
        '"%.101f".format([0.5]).size() == 103',
        REFUSED,
        ("bool", "true"),
        _matching(ours="error while parsing precision"),
    ),
    Divergence(
        "nested kinds",
        "In lists and maps a quantity, version, URL, address or format is unequal to every other kind",
        "Kubernetes counts the failed comparison as equal there",
        '[dyn(quantity("1"))] == [dyn(1)]',
        ("bool", "false"),
        ("bool", "true"),
        _matching(ours="^$", theirs="^$", expression=r"\b(quantity|semver|url|ip|cidr|format)\b"),
    ),
    Divergence(
        "bytes in constants",
        "In Kubernetes `in` fails with an internal error for bytes and a constant list of strings",
        "Here bytes equal no string, as in Kubernetes with a list that is not constant",
        'dyn(b"a") in ["a", "b"]',
        ("bool", "false"),
        FAILED,
        _matching(theirs="unhashable type"),
    ),
    Divergence(
        "NaN",
        "A list with NaN cannot be sorted",
        "NaN has no order; Kubernetes puts it at an arbitrary position",
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
        "Bytes of a URL that are not UTF-8 become U+FFFD",
        "Strings are Unicode here",
        r'url("http://%ff/").getHost() == "\ufffd"',
        ("bool", "true"),
        ("bool", "false"),
        _matching(expression="url.*%[89a-f]"),
    ),
    Divergence(
        "map keys",
        "Keys of maps are strings, integers or bools",
        "As specified; Kubernetes accepts more types",
        "{1.5: true}[1.5]",
        REFUSED,
        ("bool", "true"),
        _matching(ours="map keys are strings, integers or bools"),
    ),
    Divergence(
        "dyn in literals",
        "A list or map may hold values of one type beside others whose type is not known, as in `[1, ?x.?a]`",
        "Types of inputs are often unknown; Kubernetes wants all elements in dyn(), or none",
        "[1, dyn(1.0)].size() == 2",
        ("bool", "true"),
        REFUSED,
        _matching(theirs=r"^a compile error: ERROR: .*expected type ('[^']*\bdyn\b|.* but found '[^']*\bdyn\b)"),
    ),
    Divergence(
        "Unicode classes",
        r"`\p{Letter}`, `\p{greek}`, `\p{LC}` and `\p{Cn}` are refused: long names, other cases, and these two",
        "RE2 has the names that Go had before version 1.25",
        r'"a".matches(r"\p{Letter}")',
        REFUSED,
        ("bool", "true"),
        _matching(ours="invalid regular expression", expression=r"\\[pP]"),
    ),
    Divergence(
        "group names",
        "Names of groups in regular expressions may have any letters",
        "RE2 allows them, Go does not; no function uses the names",
        '"a".matches("(?P<é>a)")',
        ("bool", "true"),
        REFUSED,
        _matching(ours="^$", expression=r"\(\?P?<"),
    ),
    Divergence(
        "negative durations",
        "A duration cannot be negated with -",
        "Kubernetes refuses it too, unless its type is dyn",
        '-dyn(duration("1s")) == duration("-1s")',
        FAILED,
        ("bool", "true"),
        _matching(ours=r"no such overload: -\(duration\)"),
    ),
    Divergence(
        "URI problems",
        "The problem that format.uri() reports of an address in brackets has another text",
        "Kubernetes has the error text of Go's own parser",
        r'format.uri().validate("http://[a]") == optional.of(["parse \"http://[a]\": invalid host"])',
        ("bool", "true"),
        ("bool", "false"),
        _matching(expression=r"format\.uri"),
    ),
    Divergence(
        "order",
        "Macros visit the keys of a map in the order in which they are written, in Kubernetes in random order",
        "The value of an expression should not change from one evaluation to the next",
        '["b", "a"].map(k, {k: 1}).size() == 2 && {"b": 1, "a": 2}.map(k, k)[0] in ["a", "b"]',
        ("bool", "true"),
        ("bool", "true"),
        lambda found: found.varying,
    ),
    Divergence(
        "null",
        "A literal null where a time, a duration, a quantity or an optional is needed is refused, and a list of it",
        "Kubernetes accepts it, and fails whenever it is evaluated",
        "b || null < null",
        REFUSED,
        ("bool", "true"),
        lambda found: (
            "null" in found.case.expression
            and (
                (found.ours == REFUSED and re.search(_NULL_REFUSED, found.messages[0]) is not None)
                or (
                    found.theirs == REFUSED
                    and re.search("expected type 'null'|found 'null'", found.messages[1]) is not None
                )
            )
        ),
        {"b": True},
    ),
    Divergence(
        "constants in dyn()",
        "Kubernetes computes a conversion of a constant in dyn() when it compiles, and refuses one that fails",
        "dyn() hides what is in it until the evaluation, where it fails here",
        'b || int(dyn("a")) == 1',
        ("bool", "true"),
        REFUSED,
        _matching(theirs="^a compile error: (?!ERROR)", expression=r"\bdyn\("),
        {"b": True},
    ),
    Divergence(
        "or else",
        "What `or()` gives instead must be an optional",
        "Kubernetes accepts any value whose type is not known",
        "[{}.?a.or(x)].size() == 1",
        FAILED,
        ("bool", "true"),
        _matching(ours=r"no such overload: or\("),
        {"x": "b"},
    ),
    Divergence(
        "elements with ?",
        "An element with `?` whose own literal mixes types is refused",
        "Kubernetes refuses mixed literals, too, but here its check ends with a failure of its own, which hides others",
        '[?{"a": 1, "b": 2u}.c] == []',
        REFUSED,
        FAILED,
        _matching(ours="^a compile error: ", theirs="panic: runtime error: index out of range", expression=r"\?"),
    ),
    Divergence(
        "optional elements",
        "An index of an absent optional is never evaluated; in Kubernetes it is if the optional is an element itself",
        "The answer is the same wherever the optional comes from",
        "![x.?nope][0][1 / 0].hasValue()",
        ("bool", "true"),
        FAILED,
        _matching(ours="^$", theirs="^an error: ", expression=r"optional|\?"),
        {"x": {}},
    ),
    Divergence(
        "bound types",
        "A variable of a macro or of cel.bind() may hold a type",
        "Kubernetes looks for a type with the name of the variable",
        "cel.bind(v, int, v == type(1))",
        ("bool", "true"),
        REFUSED,
        _matching(theirs="^a compile error: reference to undefined type"),
    ),
    Divergence(
        "flatten",
        "flatten() costs as much as it looks at, in Kubernetes as much as the depth that is asked for",
        "A list is seldom as deep as the depth",
        "[1, 2].map(i, [i]).flatten(1000000) == [1, 2]",
        ("bool", "true"),
        EXCEEDED,
        _matching(theirs="^a cost error: ", expression=r"\.flatten\("),
    ),
    Divergence(
        "budget",
        "An evaluation is limited to 650,000 steps (6.5 ms) and 1 MiB of new values; Kubernetes has another cost model",
        "A rule shares a process with every other rule",
        "lists.range(1000).map(i, lists.range(40).map(j, j * 2).sum()).size() == 1000",
        EXCEEDED,
        ("bool", "true"),
        _matching(ours="^a cost error: "),
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
