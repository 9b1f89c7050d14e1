"""What updates of built-in kinds may write, beyond the contract."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.model.objects import Object
from tollbar.model.resources import NAMESPACES, NODES, PODS, Resource

POD: Object = {
    "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["example.com/wait"], "generation": 1},
    "spec": {"containers": [{"name": "main", "resources": {}}]},
    "status": {"phase": "Pending"},
}
NAMESPACE: Object = {
    "metadata": {"name": "team"},
    "spec": {"finalizers": ["kubernetes"]},
    "status": {"phase": "Active"},
}


def edited(obj: Object, **members: Any) -> Object:
    return {**deepcopy(obj), **members}


UPDATES: dict[str, tuple[Resource, str, Object, Object, Callable[[Object], Any], Any]] = {
    "a Pod's label is taken away through its status": (
        PODS,
        "status",
        POD,
        edited(POD, metadata={"name": "web", "finalizers": ["example.com/wait"], "generation": 1}),
        lambda pod: pod["metadata"],
        {"name": "web", "finalizers": ["example.com/wait"], "generation": 1},
    ),
    "a Pod's finalizer is not": (
        PODS,
        "status",
        POD,
        edited(POD, metadata={"name": "web"}),
        lambda pod: pod["metadata"],
        {"name": "web", "finalizers": ["example.com/wait"], "generation": 1},
    ),
    "a namespace's finalizers are not an update's business": (
        NAMESPACES,
        "",
        NAMESPACE,
        {"metadata": {"name": "team"}},
        lambda namespace: (namespace["spec"], namespace["status"]),
        ({"finalizers": ["kubernetes"]}, {"phase": "Active"}),
    ),
}


@pytest.mark.parametrize(("res", "subresource", "old", "new", "part", "want"), UPDATES.values(), ids=UPDATES)
def test_updates(
    res: Resource, subresource: str, old: Object, new: Object, part: Callable[[Object], Any], want: Any
) -> None:
    found = deepcopy(new)
    Kinds().at(res).strategy.prepare_for_update(found, old, subresource)
    assert part(found) == want


def test_a_resized_pod_is_refused_rather_than_left_as_it_is() -> None:
    larger = edited(POD, spec={"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]})
    with pytest.raises(Refused, match="does not have resizing of Pods"):
        Kinds().at(PODS).strategy.prepare_for_update(larger, POD, "resize")


def test_a_node_is_registered_with_its_status() -> None:
    node: Object = {"metadata": {"name": "node"}, "status": {"phase": "x"}}
    Kinds().at(NODES).strategy.prepare_for_create(node)
    assert node["status"] == {"phase": "x"}


GRACES: dict[str, tuple[Object, int | None, int]] = {
    "a Pod without a Node": ({"spec": {"terminationGracePeriodSeconds": 30}}, None, 0),
    "a Pod with a Node": ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 20}}, None, 20),
    "as asked": ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 20}}, 5, 5),
    "at once": ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 20}}, 0, 0),
    "a finished Pod": ({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, 5, 0),
}


@pytest.mark.parametrize(("pod", "asked", "want"), GRACES.values(), ids=GRACES)
def test_grace(pod: Object, asked: int | None, want: int) -> None:
    assert Kinds().at(PODS).strategy.grace(pod, asked) == want
