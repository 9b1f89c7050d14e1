"""NodeUnschedulable: cordoned Nodes."""

from typing import Any

import pytest
from plugins.tables import filtered, handle, hinted, info, node, pod

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.node_unschedulable import NodeUnschedulable

PLUGIN = NodeUnschedulable({}, handle())
KEY = "node.kubernetes.io/unschedulable"
CORDONED = node(unschedulable=True)
REFUSED = ("UnschedulableAndUnresolvable", "node(s) were unschedulable")


def tolerating(**toleration: str) -> PodInfo:
    return pod(tolerations=[toleration])


FILTER: dict[str, tuple[PodInfo, Object, tuple[str, ...]]] = {
    "an ordinary Node": (pod(), node(), ("Success",)),
    "a cordoned Node": (pod(), CORDONED, REFUSED),
    "the Pod tolerates the taint": (
        tolerating(key=KEY, operator="Exists", effect="NoSchedule"),
        CORDONED,
        ("Success",),
    ),
    "the Pod tolerates everything": (tolerating(operator="Exists"), CORDONED, ("Success",)),
    "the taint has no value": (tolerating(key=KEY), CORDONED, ("Success",)),
    "a value is not tolerated then": (tolerating(key=KEY, value="yes"), CORDONED, REFUSED),
    "another effect": (tolerating(key=KEY, operator="Exists", effect="NoExecute"), CORDONED, REFUSED),
}


@pytest.mark.parametrize(("given", "on", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, on: Object, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(on)) == want


NODE_TAINT = (EventResource.NODE, Action.UPDATE_NODE_TAINT)
TOLERATION = (EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
HINTS: dict[str, tuple[tuple[EventResource, Action], Any, Any, str]] = {
    "an open Node is added": ((EventResource.NODE, Action.ADD), None, node(), "Queue"),
    "a cordoned Node is added": ((EventResource.NODE, Action.ADD), None, CORDONED, "QueueSkip"),
    "a Node is opened": (NODE_TAINT, CORDONED, node(), "Queue"),
    "a Node is cordoned": (NODE_TAINT, node(), CORDONED, "QueueSkip"),
    "a Node stays open": (NODE_TAINT, node(), node(), "QueueSkip"),
    "a Node stays cordoned": (NODE_TAINT, CORDONED, CORDONED, "QueueSkip"),
    "the Pod gets the toleration": (TOLERATION, pod(), tolerating(key=KEY, operator="Exists"), "Queue"),
    "the Pod gets another toleration": (TOLERATION, pod(), tolerating(key="gpu", operator="Exists"), "QueueSkip"),
}


@pytest.mark.parametrize(("event", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], old: Any, new: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, pod(), old, new) == want
