"""NodePorts: ports of the host that two Pods cannot share."""

from typing import Any

import pytest
from plugins.tables import filtered, handle, hinted, info, node, pod

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.node_ports import NodePorts

PLUGIN = NodePorts({}, handle())
REFUSED = ("Unschedulable", "node(s) didn't have free ports for the requested pod ports")


def using(*ports: Object, kind: str = "containers", name: str = "web", **more: Any) -> PodInfo:
    container: Object = {"name": "main", "ports": list(ports)}
    if kind == "initContainers":
        container["restartPolicy"] = "Always"
    spec: Object = {kind: [container], **more}
    return pod(name, **spec)


def port(number: int, ip: str = "", protocol: str = "") -> Object:
    given = {"hostPort": number, "hostIP": ip, "protocol": protocol, "containerPort": 80}
    return {name: value for name, value in given.items() if value}


SPECIFIC = port(80, "10.0.0.1")
FILTER: dict[str, tuple[PodInfo, PodInfo, tuple[str, ...]]] = {
    "no ports of the host": (using({"containerPort": 80}), using(port(80)), ("Skip",)),
    "nobody uses it": (using(port(80)), using(port(81)), ("Success",)),
    "somebody does": (using(port(80)), using(port(80)), REFUSED),
    "TCP is the default protocol": (using(port(80)), using(port(80, protocol="TCP")), REFUSED),
    "other protocols do not collide": (using(port(80)), using(port(80, protocol="UDP")), ("Success",)),
    "no address means all addresses": (using(port(80)), using(SPECIFIC), REFUSED),
    "and is in the way of each of them": (using(SPECIFIC), using(port(80, "0.0.0.0")), REFUSED),  # noqa: S104
    "the same address": (using(SPECIFIC), using(SPECIFIC), REFUSED),
    "another address": (using(SPECIFIC), using(port(80, "10.0.0.2")), ("Success",)),
    "one of several collides": (using(port(79), port(80)), using(port(80), port(81)), REFUSED),
    "sidecars count": (using(port(80), kind="initContainers"), using(port(80)), REFUSED),
    "other init containers do not": (
        pod(initContainers=[{"name": "init", "ports": [port(80)]}]),
        using(port(80)),
        ("Skip",),
    ),
}


@pytest.mark.parametrize(("given", "other", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, other: PodInfo, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(node(), other)) == want


def test_a_port_that_two_pods_used_is_free_when_both_are_gone() -> None:
    on = info(node(), using(port(80), name="a"), using(port(80), name="b"))
    answers = []
    for name in ("a", "b"):
        on.remove_pod(f"uid-of-{name}")
        answers.append(filtered(PLUGIN, using(port(80)), on)[0])
    assert answers == ["Unschedulable", "Success"]


DELETE = (EventResource.ASSIGNED_POD, Action.DELETE)
HINTS: dict[str, tuple[tuple[EventResource, Action], Any, str]] = {
    "the Pod that used it is deleted": (DELETE, using(port(80), nodeName="n"), "Queue"),
    "one that used another port": (DELETE, using(port(81), nodeName="n"), "QueueSkip"),
    "one without ports": (DELETE, pod(nodeName="n"), "QueueSkip"),
    "one that had no Node": (DELETE, using(port(80)), "QueueSkip"),
    "one that was promised a Node": (DELETE, using(port(80), status={"nominatedNodeName": "n"}), "Queue"),
    "a Node is added": ((EventResource.NODE, Action.ADD), None, "Queue"),
}


@pytest.mark.parametrize(("event", "old", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], old: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, using(port(80)), old, None) == want
