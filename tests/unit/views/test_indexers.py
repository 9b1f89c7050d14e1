"""What the caches keep of an object, and under which values they find it."""

from typing import Any

import pytest
from builders import claim, device_class, pod, scheduling_gate, template

from tollbar.model.objects import Key, Object
from tollbar.views import indexers

FULL: Object = {
    "apiVersion": "v1",
    "kind": "X",
    "metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"a": 1},
    "status": {"b": 2},
}
PROJECTED: dict[str, tuple[Any, Object]] = {
    "metadata and spec": (indexers.metadata_and_spec, {"metadata": {"name": "a"}, "spec": {"a": 1}}),
    "metadata only": (indexers.metadata_only, {"metadata": {"name": "a"}}),
    "for the controllers of claims": (
        indexers.metadata_spec_and_status,
        {**FULL, "metadata": {"name": "a", "managedFields": []}},
    ),
}


@pytest.mark.parametrize(("project", "want"), PROJECTED.values(), ids=PROJECTED)
def test_projections(project: Any, want: Object) -> None:
    assert project(FULL) == want


SMALL = pod().claims("a", "b").templates("t").generated("t", "web-t-x").wants({"example.com/gpu": "1"})
LARGE = SMALL.templates(*(f"t{i}" for i in range(1021))).gated()

INDEXED: dict[str, tuple[Any, Any, list[Any]]] = {
    "a Pod by its claims": (indexers.PODS["claim"], SMALL, [Key("ml", name) for name in ("a", "b", "web-t-x")]),
    "a Pod by its templates": (indexers.PODS["template"], SMALL, [Key("ml", "t")]),
    "a Pod by its extended resources": (indexers.PODS["extended-resource"], SMALL, ["example.com/gpu"]),
    "a Pod whose package is too large not by its claims": (indexers.PODS["claim"], LARGE, []),
    "nor by its templates": (indexers.PODS["template"], LARGE, []),
    "nor by its extended resources": (indexers.PODS["extended-resource"], LARGE, []),
    "but by its gate": (indexers.PODS["gate"], LARGE, ["tollbar.dev/tolerations"]),
    "and its claims have it as a user": (
        indexers.CLAIM_USERS["claim"],
        LARGE,
        [Key("ml", name) for name in ("a", "b", "web-t-x")],
    ),
    "a claim by the classes of all its choices": (
        indexers.CLAIMS["class"],
        claim().request("a").request("b", "c").request("a"),
        ["a", "b", "c"],
    ),
    "a template by the classes of its claims": (indexers.TEMPLATES["class"], template().request("a", "b"), ["a", "b"]),
    "a class by what it backs": (
        indexers.CLASSES["extended-resource"],
        device_class().backing("example.com/gpu"),
        ["example.com/gpu"],
    ),
    "a class that backs nothing": (indexers.CLASSES["extended-resource"], device_class(), []),
    "a SchedulingGate by the gate": (indexers.GATES["gate-name"], scheduling_gate("x", "a.dev/x"), ["a.dev/x"]),
}


@pytest.mark.parametrize(("indexer", "given", "want"), INDEXED.values(), ids=INDEXED)
def test_indexers(indexer: Any, given: Any, want: list[Any]) -> None:
    assert sorted(indexer(given)) == want
