"""Equal parts of cached objects are one object in memory, and nothing else about them changes."""

import copy
import tracemalloc
from typing import Any

import pytest

from tollbar.runtime import sharing as module
from tollbar.runtime.sharing import Path, sharing

DEVICES = frozenset({("spec", "devices", "*", "attributes", "*"), ("spec", "devices", "*", "capacity")})


def a_slice(*models: Any) -> dict[str, Any]:
    devices = [{"name": f"g{n}", "attributes": {"model": {"string": model}}} for n, model in enumerate(models)]
    return {"metadata": {"name": "s"}, "spec": {"devices": devices}}


def test_equal_parts_are_one_within_an_object_and_between_objects() -> None:
    one, other = sharing(a_slice("a100", "h100", "a100"), DEVICES), sharing(a_slice("a100"), DEVICES)
    first, _, third = (device["attributes"]["model"] for device in one["spec"]["devices"])
    assert first is third is other["spec"]["devices"][0]["attributes"]["model"]


UNCHANGED: dict[str, tuple[Any, frozenset[Path]]] = {
    "parts at paths": (a_slice("a100", "h100"), DEVICES),
    "a path that nothing is at": ({"metadata": {}}, DEVICES),
    "something else than an object on the path": ({"spec": ["x"], "devices": None}, DEVICES),
    "no value": ({"spec": None}, frozenset({("spec",)})),
    "members by name and any member": (
        {"a": {"x": {"n": 1}, "y": {"n": 1}}},
        frozenset({("a", "*"), ("a", "x", "n")}),
    ),
}


@pytest.mark.parametrize(("obj", "paths"), UNCHANGED.values(), ids=UNCHANGED)
def test_the_object_stays_equal_and_the_original_as_it_was(obj: Any, paths: frozenset[Path]) -> None:
    before = copy.deepcopy(obj)
    assert sharing(obj, paths) == before
    assert obj == before


def test_the_original_keeps_its_own_parts() -> None:
    sharing(a_slice("a100"), DEVICES)
    original = a_slice("a100")
    own = original["spec"]["devices"][0]["attributes"]["model"]
    assert sharing(original, DEVICES)["spec"]["devices"][0]["attributes"]["model"] is not own
    assert original["spec"]["devices"][0]["attributes"]["model"] is own


def test_numbers_and_truths_that_compare_equal_are_different_parts() -> None:
    found = [sharing({"spec": {"value": value}}, frozenset({("spec",)}))["spec"]["value"] for value in (1, True, 1.0)]
    assert [type(each) for each in found] == [int, bool, float]


def test_what_is_known_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    for number in range(20):
        sharing({"spec": number}, frozenset({("spec",)}))
        assert len(module.known) <= 3


def test_what_is_known_takes_little_more_than_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "known", {})
    tracemalloc.start()
    try:
        for number in range(100):
            sharing({"spec": f"known {number}"}, frozenset({("spec",)}))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 100 * 1024


def nested(levels: int) -> Any:
    found: Any = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def test_a_part_that_is_nested_too_deeply_for_the_encoder_is_left_as_it_is() -> None:
    obj = {"spec": nested(600)}
    assert sharing(obj, frozenset({("spec",)}))["spec"] is obj["spec"]


def test_a_long_part_is_not_kept() -> None:
    before = len(module.known)
    sharing({"spec": "x" * module.LONGEST}, frozenset({("spec",)}))
    assert len(module.known) == before
