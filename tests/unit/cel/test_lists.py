"""List functions and sets."""

from collections.abc import Callable
from typing import Any

import pytest

X: dict[str, Any] = {
    "mixed": [1, "a", 2],
    "numbers": [1, 2.5],
    "maps": [{"n": 2}, {"n": 1}, {"n": 2, "m": 0}],
    "one": 1,
}

TRUE = {
    "indexOf": "[1, 2, 2].indexOf(2) == 1 && [1].indexOf(5) == -1 && [1].indexOf(dyn(1.0)) == 0",
    "lastIndexOf": "[1, 2, 2].lastIndexOf(2) == 2 && [dyn(1)].lastIndexOf(2) == -1",
    "includes": 'x.mixed.includes("a") && !x.mixed.includes(3) && x.mixed.includes(1.0)',
    "a value that is no list includes itself": (
        'dyn("a").includes("a") && !dyn("ab").includes("a") && x.one.includes(1u)'
    ),
    "a map includes no keys": '!dyn({"a": 1}).includes("a")',
    "sum": "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [2u].sum() == 2u && [].sum() == 0",
    "sum of durations": '[duration("1s"), duration("2s")].sum() == duration("3s")',
    "min and max": '[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && ["b", "a"].min() == "a"',
    "min and max of all kinds": (
        '[true, false].max() && [b"a", b"b"].max() == b"b" && [2u, 1u].min() == 1u && [2.5, 1.5].min() == 1.5'
        " && [timestamp(1), timestamp(0)].min() == timestamp(0)"
        ' && [duration("2s"), duration("1s")].min() == duration("1s")'
    ),
    "the largest of numbers of many kinds": "x.numbers.max() == 2.5 && [dyn(2.5), dyn(1)].min() == 1",
    "elements that do not compare are passed over": 'x.mixed.max() == 2 && [dyn("a"), dyn(1)].max() == "a"',
    "the largest with NaN": "[1.0, 0.0 / 0.0].max() == 1.0 && [0.0 / 0.0, 1.0].max() != 1.0",
    "isSorted": "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [].isSorted() && [false, true].isSorted()",
    "elements that do not compare are sorted": "[dyn(1), dyn('a'), dyn(0)].isSorted()",
    "sort": '[3, 1, 2].sort() == [1, 2, 3] && ["b", "a"].sort() == ["a", "b"] && [].sort() == []',
    "sort of all kinds": (
        "[true, false].sort() == [false, true] && [2.5, 1.5].sort() == [1.5, 2.5]"
        " && [b'b', b'a'].sort() == [b'a', b'b'] && [timestamp(1), timestamp(0)].sort()[0] == timestamp(0)"
    ),
    "sort of one element": "[dyn(1)].sort() == [1]",
    "sortBy": (
        "x.maps.sortBy(e, e.n).map(e, e.n) == [1, 2, 2] && [3, 1].sortBy(e, -e) == [3, 1] && [].sortBy(e, e) == []"
    ),
    "slice": "[1, 2, 3].slice(1, 2) == [2] && [1, 2, 3].slice(0, 3) == [1, 2, 3] && [1].slice(1, 1) == []",
    "flatten": "[[1], [2, 3]].flatten() == [1, 2, 3] && [[]].flatten() == [] && dyn([1, 2]).flatten() == [1, 2]",
    "flatten to a depth": (
        "[[[1], [2]], [[3]]].flatten(1) == [[1], [2], [3]] && [[[1], [2]], [[3]]].flatten(2) == [1, 2, 3]"
        " && [[1]].flatten(0) == [[1]] && [[1]].flatten(9) == [1]"
    ),
    "distinct": '[1, 2, 1, 3, 2].distinct() == [1, 2, 3] && ["a", "a"].distinct() == ["a"] && [].distinct() == []',
    "distinct keeps the first of equal elements": (
        'type([dyn(1.0), dyn(1), dyn(1u), dyn("a")].distinct()[0]) == double'
        ' && [dyn(1.0), dyn(1), dyn("a")].distinct().size() == 2 && [[1], [1]].distinct() == [[1]]'
    ),
    "NaN is distinct from NaN": "[0.0 / 0.0, 0.0 / 0.0].distinct().size() == 2",
    "reverse": "[1, 2, 3].reverse() == [3, 2, 1] && [].reverse() == []",
    "range": "lists.range(3) == [0, 1, 2] && lists.range(0) == []",
    "sets.contains": (
        "sets.contains([1, 2], [2, 2]) && sets.contains([], []) && sets.contains([1], []) && !sets.contains([], [1])"
        ' && !sets.contains([1], [1, 2]) && sets.contains(["a", "b"], ["b"])'
    ),
    "sets compare across types": (
        "sets.contains([dyn(1), dyn('a')], [dyn(1.0)]) && sets.equivalent([dyn(1)], [dyn(1u), dyn(1.0)])"
        " && sets.intersects([dyn(1)], [dyn('a'), dyn(1u)])"
    ),
    "sets of lists": "sets.intersects([[1], [2]], [[3], [2]]) && !sets.contains([[1]], [[2]])",
    "sets.equivalent": "sets.equivalent([1, 1, 2], [2, 1]) && !sets.equivalent([1], [1, 2]) && sets.equivalent([], [])",
    "sets.intersects": "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2]) && !sets.intersects([], [])",
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


FAILURES = {
    "sum of strings": ("dyn(['a', 'b']).sum()", "no such overload: sum(list)"),
    "sum of different kinds": ("x.numbers.sum()", "no such overload: +(int, double)"),
    "sum that overflows": ("[9223372036854775807, x.one].sum()", "integer overflow"),
    "min of nothing": ("dyn([]).min()", "min called on empty list"),
    "max of nothing": ("dyn([]).max()", "max called on empty list"),
    "max of lists": ("dyn([[1]]).max()", "no such overload: max(list)"),
    "max with null": ("[dyn(1), dyn(null)].max()", "no such overload: max(null_type)"),
    "isSorted of null": ("dyn([null]).isSorted()", "no such overload: isSorted(null_type)"),
    "sort of different kinds": ("x.mixed.sort()", "list elements must have the same type"),
    "sort of maps": ("x.maps.sort()", "list elements must be comparable"),
    "sortBy with different kinds": ("x.mixed.sortBy(e, e)", "list elements must have the same type"),
    "a slice before the list": ("[1].slice(-x.one, 1)", "cannot slice: negative indexes not supported"),
    "a slice that ends before it starts": (
        "[1, 2].slice(x.one, 0)",
        "cannot slice: start index must be less than or equal to end index",
    ),
    "a slice beyond the list": ("[1].slice(0, x.one + 1)", "cannot slice: end index is beyond the list"),
    "flatten to a negative depth": ("[[1]].flatten(-x.one)", "level must be non-negative"),
    "flatten of what is no list": ("x.one.flatten()", "no such overload: flatten(int)"),
    "range of a negative number": ("lists.range(-x.one)", "lists.range: size must be non-negative"),
    "sets of what is no list": ("sets.contains(x.one, [1])", "no such overload: sets.contains(int, list)"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)


def test_equal_keys_keep_their_order(value: Callable[..., Any]) -> None:
    items = [{"key": index % 3, "index": index} for index in range(100)]
    found = value("x.sortBy(e, e.key)", x=items)
    assert found == sorted(items, key=lambda item: item["key"])
