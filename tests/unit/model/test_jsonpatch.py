"""JSON Patch values, and the tests' own applier of them."""

from typing import Any

import pytest
from objects import patching

from tollbar.model import jsonpatch

POINTERS = {
    "parts become steps": (("metadata", "labels"), "/metadata/labels"),
    "a slash in a part is escaped": (("metadata", "labels", "a.dev/b"), "/metadata/labels/a.dev~1b"),
    "a tilde is escaped before the slash": (("a~/b",), "/a~0~1b"),
    "an index is a part": (("spec", "schedulingGates", 1, "name"), "/spec/schedulingGates/1/name"),
    "no parts are the whole document": ((), ""),
}


@pytest.mark.parametrize(("given", "want"), POINTERS.values(), ids=POINTERS)
def test_pointer(given: tuple[str | int, ...], want: str) -> None:
    assert jsonpatch.pointer(*given) == want


def test_operations() -> None:
    assert [jsonpatch.test("/a", 1), jsonpatch.add("/b", [2]), jsonpatch.remove("/c")] == [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "/b", "value": [2]},
        {"op": "remove", "path": "/c"},
    ]


OBJECT: Any = {"a": {"x/y": 1}, "l": [1, 2]}
REFUSED = "refused"
APPLIED = {
    "an added member is there": ([jsonpatch.add("/b", 3)], {**OBJECT, "b": 3}),
    "an added member replaces": ([jsonpatch.add("/a/x~1y", 3)], {**OBJECT, "a": {"x/y": 3}}),
    "an element is appended": ([jsonpatch.add("/l/-", 3)], {**OBJECT, "l": [1, 2, 3]}),
    "an element is inserted": ([jsonpatch.add("/l/0", 3)], {**OBJECT, "l": [3, 1, 2]}),
    "an element is removed": ([jsonpatch.remove("/l/0")], {**OBJECT, "l": [2]}),
    "a test of what is there passes": ([jsonpatch.test("/l/1", 2), jsonpatch.remove("/l")], {"a": {"x/y": 1}}),
    "a test of an absent member against null passes": ([jsonpatch.test("/b", None)], OBJECT),
    "a test of what is there against null fails": ([jsonpatch.test("/a", None)], REFUSED),
    "a test of something else fails": ([jsonpatch.test("/l/0", 2)], REFUSED),
    "a test below nothing fails": ([jsonpatch.test("/b/c", None)], REFUSED),
    "adding below nothing fails": ([jsonpatch.add("/b/c", 1)], REFUSED),
    "removing nothing fails": ([jsonpatch.remove("/l/2")], REFUSED),
    "a later failure undoes what was before": ([jsonpatch.add("/b", 1), jsonpatch.remove("/c")], REFUSED),
}


@pytest.mark.parametrize(("given", "want"), APPLIED.values(), ids=APPLIED)
def test_the_applier_follows_the_api_server(given: list[jsonpatch.Operation], want: Any) -> None:
    before = {"a": {"x/y": 1}, "l": [1, 2]}
    try:
        got = patching.apply(before, given)
    except patching.Refused:
        got = REFUSED
    assert (got, before) == (want, OBJECT)
