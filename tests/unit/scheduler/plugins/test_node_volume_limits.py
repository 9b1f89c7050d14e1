"""NodeVolumeLimits: how many volumes a CSI driver attaches to a Node."""

from typing import Any

import pytest
from plugins.listing import Listing
from plugins.tables import claiming, filtered, handle, hinted, info, node, obj, pod

from tollbar.model.objects import Key, Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.node_volume_limits import NodeVolumeLimits

OWNER = {"kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": True}


def claim(name: str, volume: str = "", **spec: str) -> Object:
    return obj(name, namespace="ml", spec={"volumeName": volume, **spec} if volume else spec)


def volume(name: str, driver: str = "disk") -> Object:
    return obj(name, spec={"csi": {"driver": driver, "volumeHandle": f"handle-{name}"}})


def csi_node(**limits: int | None) -> Object:
    drivers = [
        {"name": driver} if limit is None else {"name": driver, "allocatable": {"count": limit}}
        for driver, limit in limits.items()
    ]
    return obj("n", spec={"drivers": drivers})


def attachment(volume: str, on: str = "n") -> Object:
    return obj(f"{volume}-{on}", spec={"attacher": "disk", "nodeName": on, "source": {"persistentVolumeName": volume}})


CLAIMS = [
    *(claim(name, name) for name in "abc"),
    claim("other", "other"),
    claim("hosted", "hosted"),
    claim("unbound", storageClassName="class"),
    claim("vanished", "gone", storageClassName="class"),
    claim("classless"),
    {**claim("web-cache", "a"), "metadata": {**claim("web-cache")["metadata"], "ownerReferences": [OWNER]}},
]
VOLUMES = [*map(volume, "abc"), volume("other", "other"), obj("hosted", spec={"hostPath": {}})]
MISSING = "UnschedulableAndUnresolvable"


def plugin(*attachments: Object, limits: Object | None = None, drivers: tuple[Object, ...] = ()) -> NodeVolumeLimits:
    return NodeVolumeLimits(
        {},
        handle(
            persistent_volume_claims=CLAIMS,
            persistent_volumes=VOLUMES,
            storage_classes=[obj("class", provisioner="disk")],
            csi_nodes=[limits or csi_node(disk=2)],
            csi_drivers=drivers,
            volume_attachments=attachments,
        ),
    )


def using(*names: str, pod_name: str = "web", **more: Any) -> PodInfo:
    return pod(pod_name, **claiming(*names), **more)


REFUSED = ("Unschedulable", "node(s) exceed max volume count")
OPTED = obj("disk", spec={"preventPodSchedulingIfMissing": True})
FILTER: dict[str, tuple[NodeVolumeLimits, PodInfo, PodInfo, tuple[str, ...]]] = {
    "no claims": (plugin(), pod(), using("a"), ("Skip",)),
    "up to the limit": (plugin(), using("b"), using("a"), ("Success",)),
    "beyond the limit": (plugin(), using("b", "c"), using("a"), REFUSED),
    "a volume that is there already": (plugin(), using("a", "b"), using("a"), ("Success",)),
    "volumes of another driver": (plugin(), using("b", "c"), using("other"), ("Success",)),
    "volumes without a driver": (plugin(), using("b", "c"), using("hosted"), ("Success",)),
    "a driver without a limit": (plugin(limits=csi_node(disk=None)), using("b", "c"), using("a"), ("Success",)),
    "attached volumes whose Pods are gone": (plugin(attachment("a")), using("b", "c"), pod(), REFUSED),
    "attached to another Node": (plugin(attachment("a", "other")), using("b", "c"), pod(), ("Success",)),
    "attached for a Pod that is there": (plugin(attachment("a")), using("b"), using("a"), ("Success",)),
    "a claim that will be bound": (plugin(), using("unbound", "b"), using("a"), REFUSED),
    "a claim whose volume is gone": (plugin(), using("vanished", "b"), using("a"), REFUSED),
    "a claim without volume and class": (plugin(), using("classless", "b"), using("a"), ("Success",)),
    "a missing claim": (
        plugin(),
        using("gone"),
        pod(),
        (MISSING, 'looking up PVC ml/gone: persistentvolumeclaim "gone" not found'),
    ),
    "a missing claim of a Pod that is there": (plugin(), using("b", "c"), using("gone"), ("Success",)),
    "a claim without a name": (plugin(), using(""), pod(), ("Error", "PersistentVolumeClaim had no name")),
    "an ephemeral volume": (plugin(), pod(volumes=[{"name": "cache", "ephemeral": {}}]), using("b"), ("Success",)),
    "a claim that only has the name": (
        plugin(),
        pod("other", volumes=[{"name": "cache", "ephemeral": {}}]),
        pod(),
        (MISSING, 'looking up PVC ml/other-cache: persistentvolumeclaim "other-cache" not found'),
    ),
    "a driver that has to be installed is": (plugin(drivers=(OPTED,)), using("a"), pod(), ("Success",)),
    "a driver that has to be installed is not": (
        plugin(drivers=(OPTED,), limits=csi_node(other=1)),
        using("a"),
        pod(),
        ("Unschedulable", "disk CSI driver is not installed on the node"),
    ),
    "a driver that need not be installed": (
        plugin(drivers=(obj("disk", spec={}),), limits=csi_node(other=1)),
        using("a"),
        pod(),
        ("Success",),
    ),
}


@pytest.mark.parametrize(("limits", "given", "other", "want"), FILTER.values(), ids=FILTER)
def test_filter(limits: NodeVolumeLimits, given: PodInfo, other: PodInfo, want: tuple[str, ...]) -> None:
    assert filtered(limits, given, info(node(), other)) == want


class Lister(Listing):
    """Notes which objects are looked up."""

    def __init__(self, objects: list[Object]) -> None:
        super().__init__(objects)
        self.asked: list[str] = []

    def get(self, key: Key) -> Object | None:
        self.asked.append(key.name)
        return super().get(key)


@pytest.mark.parametrize(("limit", "want"), [(2, ["b"]), (1, ["b", "a"])])
def test_claims_of_other_pods_are_looked_up_only_if_they_may_reach_the_limit(limit: int, want: list[str]) -> None:
    given = handle(persistent_volumes=VOLUMES, csi_nodes=[csi_node(disk=limit)])
    claims = given.listers.persistent_volume_claims = Lister(CLAIMS)
    filtered(NodeVolumeLimits({}, given), using("b"), info(node(), using("a")))

    assert claims.asked == want


DELETE = (EventResource.ASSIGNED_POD, Action.DELETE)
CSI_NODE = (EventResource.CSI_NODE, Action.UPDATE)
CLAIM = (EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
HINTS: dict[str, tuple[tuple[EventResource, Action], Any, Any, str]] = {
    "a CSINode is added": ((EventResource.CSI_NODE, Action.ADD), None, csi_node(disk=1), "Queue"),
    "a limit grows": (CSI_NODE, csi_node(disk=1), csi_node(disk=2), "Queue"),
    "a limit shrinks": (CSI_NODE, csi_node(disk=2), csi_node(disk=1), "QueueSkip"),
    "a driver comes": (CSI_NODE, csi_node(), csi_node(disk=1), "Queue"),
    "a limit goes away": (CSI_NODE, csi_node(disk=1), csi_node(disk=None), "QueueSkip"),
    "a Pod with a claim is deleted": (DELETE, using("a", nodeName="n"), None, "Queue"),
    "a Pod without claims is deleted": (DELETE, pod(nodeName="n"), None, "QueueSkip"),
    "a Pod without a Node is deleted": (DELETE, using("a"), None, "QueueSkip"),
    "its claim is added": (CLAIM, None, CLAIMS[0], "Queue"),
    "another claim is added": (CLAIM, None, CLAIMS[1], "QueueSkip"),
    "a volume is detached": ((EventResource.VOLUME_ATTACHMENT, Action.DELETE), attachment("a"), None, "Queue"),
}


@pytest.mark.parametrize(("event", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], old: Any, new: Any, want: str) -> None:
    assert hinted(plugin(), *event, using("a"), old, new) == want
