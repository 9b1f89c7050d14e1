"""Flat objects: what is read is what was given, and what is equal is kept once."""

from typing import Any

import pytest

from tollbar.model import flat as module
from tollbar.model.flat import DEPTH, KEPT, LONGEST, SHORT, WIDEST, Flat, flat, one_text, unfolded


def nested(levels: int) -> Any:
    return {"inside": nested(levels - 1)} if levels else "innermost"


CASES: dict[str, Any] = {
    "nothing": {},
    "members without anything in them": {"a": {}, "b": [], "c": "", "d": None, "e": {"f": [{}, []]}},
    "values that Python takes for equal": {"a": 1, "b": True, "c": 1.0, "d": 0, "e": False, "f": [1, True, 1.0]},
    "lists in lists": {"a": [[1, [2, {"b": "c"}]], []]},
    "texts of any length": {"a": "x" * SHORT, "b": "x" * (SHORT + 1), "c": "\u0000\u2028"},
    "as deep as is taken apart": nested(DEPTH),
    "deeper than that": nested(3 * DEPTH),
    "far deeper than that": nested(200),
    "a list": [{"a": 1}, {"a": 2}],
    "as wide as is taken apart": {"a": dict.fromkeys(map(str, range(WIDEST)), 1), "d": [{}] * WIDEST},
    "wider than that": {"a": dict.fromkeys(map(str, range(WIDEST + 1)), 1), "d": [{}] * (WIDEST + 1)},
}


def read_later(made: Flat) -> Any:
    """What is read when something else has been given meanwhile."""
    flat("")
    return unfolded(made)


def kinds(value: Any) -> Any:
    """The value with the types that JSON tells apart, and the order of members."""
    if isinstance(value, dict):
        return [(name, kinds(each)) for name, each in value.items()]
    return [kinds(each) for each in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
@pytest.mark.parametrize("whole", [frozenset(), frozenset({("a",), ("e", "f"), ("*", "b")})], ids=["", "whole parts"])
def test_what_is_read_is_what_was_given(given: Any, whole: frozenset[tuple[str, ...]]) -> None:
    assert kinds(read_later(flat(given, whole))) == kinds(given)


def test_objects_that_are_alike_share_their_layout_and_short_texts() -> None:
    first, second = ({"name": name, "spec": {"texts": ["of-both", name]}} for name in ("one", "two"))
    (one, *ones), (other, *others) = flat(first), flat(second)
    assert (one is other, [a is b for a, b in zip(ones, others, strict=True)]) == (True, [False, True, False])


def test_parts_that_others_have_are_not_taken_apart() -> None:
    labels = {"app": "web"}
    given = {"metadata": {"name": "a", "labels": labels}, "spec": {"any": labels}}
    read = read_later(flat(given, frozenset({("metadata", "labels"), ("spec", "*")})))
    assert (read["metadata"]["labels"] is labels, read["spec"]["any"] is labels) == (True, True)


def test_an_object_that_is_given_twice_in_a_row_is_kept_once() -> None:
    given = {"a": "b"}
    whole = frozenset({("a",)})
    assert (flat(given) is flat(given), flat(given, whole) is flat(given)) == (True, False)


def test_what_is_read_again_at_once_is_built_once() -> None:
    given, other = {"a": {"b": "c"}}, flat({"d": "e"})
    made = flat(given)
    as_given = unfolded(made)
    flat("")
    built = unfolded(made)
    again = unfolded(made)
    unfolded(other)
    later = unfolded(made)
    assert (as_given is given, built is given, again is built, later is built) == (True, False, True, False)
    assert given == built == later


@pytest.mark.parametrize(
    "made_up",
    [dict.fromkeys(map(str, range(WIDEST + 1)), ""), {"x" * (LONGEST + 1): ""}, [""] * (WIDEST + 1)],
    ids=["many names", "a long name", "a long list"],
)
def test_of_what_its_author_makes_as_large_as_they_like_nothing_stays(made_up: Any) -> None:
    """Such as the attributes of a CSI volume, of a Pod that is gone again."""
    module._layouts.clear()
    read = read_later(flat({"volumes": [{"csi": {"volumeAttributes": made_up}}]}))
    layouts = {names for names, _ in module._layouts}
    assert (read["volumes"][0]["csi"]["volumeAttributes"] is made_up, layouts) == (
        True,
        {("volumes",), None, ("csi",), ("volumeAttributes",)},
    )


def test_what_never_comes_again_does_not_stay() -> None:
    for number in range(2 * KEPT):
        one_text(f"text-{number}")
        flat({f"member-{number}": 1})
    assert (len(module._texts) <= KEPT, len(module._layouts) <= KEPT) == (True, True)
