"""The estimate of what decoded JSON takes, beside what it does take."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from objects.memory import traced

from tollbar.model.objects import Object, spec
from tollbar.runtime.footprint import footprint

SHAPES: dict[str, Callable[[int], Any]] = {
    "a long text": lambda number: f"{number}" * 3000,
    "a text with one character that takes four bytes": lambda number: f"{number}\U0001f600" + "x" * 9000,
    "a text of characters that take two bytes": lambda number: f"{number}" + "\u4e2d" * 3000,
    "short texts": lambda number: [f"{number}{n}" for n in range(500)],
    "texts of one character": lambda _: [str(n % 10) for n in range(500)],
    "numbers": lambda number: [number * 1000 + n + 0.5 for n in range(500)],
    "empty objects": lambda _: [{} for _ in range(500)],
    "objects of one member": lambda _: [{"a": n} for n in range(500)],
    "empty lists": lambda _: [[] for _ in range(500)],
    "members with names of their own": lambda number: {f"{number}-{n}": f"{n}" for n in range(500)},
    "a few levels": lambda number: [{"cel": {"expression": f"{number}{n}"}} for n in range(300)],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_said_to_be_taken_is_at_least_half_of_what_is(shape: Callable[[int], Any]) -> None:
    kept: list[Object] = []
    taken = traced(lambda number: {"spec": shape(number)}, kept.append, 1000)
    said = sum(footprint(spec(each)) for each in kept) / len(kept)
    assert taken < 2 * said


def test_what_is_nested_too_deeply_to_be_written_takes_more_than_anything() -> None:
    nested: Object = {}
    for _ in range(300):
        nested = {"a": nested}
    assert footprint(nested) == sys.maxsize
