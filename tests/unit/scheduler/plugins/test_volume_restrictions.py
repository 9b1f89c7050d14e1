"""VolumeRestrictions: disks and claims that Pods cannot share."""

from typing import Any

import pytest
from plugins.tables import claiming, cluster, filtered, handle, hinted, info, node, obj, pod, said

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.volume_restrictions import VolumeRestrictions


def claim(name: str, mode: str, namespace: str = "ml") -> Object:
    return obj(name, namespace=namespace, spec={"accessModes": [mode]})


def disk(kind: str, name: str = "web", **fields: Any) -> PodInfo:
    return pod(name, volumes=[{"name": "disk", kind: fields}])


def gce(**fields: Any) -> PodInfo:
    return disk("gcePersistentDisk", **{"pdName": "d", **fields})


def rbd(*monitors: str, image: str = "i", **fields: Any) -> PodInfo:
    return disk("rbd", monitors=list(monitors), image=image, **fields)


def using(*names: str, pod_name: str = "web", **where: str) -> PodInfo:
    return pod(pod_name, **where, **claiming(*names))


CLAIMS = [claim("once", "ReadWriteOncePod"), claim("many", "ReadWriteMany")]
PLUGIN = VolumeRestrictions({}, handle(persistent_volume_claims=CLAIMS))
NO_DISK = ("Unschedulable", "node(s) had no available disk")
IN_USE = (
    "Unschedulable",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
FILTER: dict[str, tuple[PodInfo, PodInfo, tuple[str, ...]]] = {
    "no volumes": (pod(), gce(), ("Skip",)),
    "a disk of its own": (gce(), gce(pdName="other"), ("Success",)),
    "the same GCE disk": (gce(), gce(), NO_DISK),
    "the same GCE disk, only one reads alone": (gce(readOnly=True), gce(), NO_DISK),
    "the same GCE disk, both only read": (gce(readOnly=True), gce(readOnly=True), ("Success",)),
    "the same EBS volume, even if both only read": (
        disk("awsElasticBlockStore", volumeID="v", readOnly=True),
        disk("awsElasticBlockStore", volumeID="v", readOnly=True),
        NO_DISK,
    ),
    "the same iSCSI target": (disk("iscsi", iqn="q"), disk("iscsi", iqn="q"), NO_DISK),
    "the same RBD image": (rbd("a", "b"), rbd("b", "c"), NO_DISK),
    "RBD images of other monitors": (rbd("a"), rbd("b"), ("Success",)),
    "RBD images of other pools": (rbd("a"), rbd("a", pool="fast"), ("Success",)),
    "disks of different kinds": (gce(), disk("iscsi", iqn="d"), ("Success",)),
    "a claim that nobody uses": (using("once"), using("many"), ("Skip",)),
    "a claim that another Pod uses": (using("once"), using("once"), IN_USE),
    "a claim that many may use": (using("many"), using("many"), ("Skip",)),
    "a claim of that name elsewhere": (using("once"), using("once", namespace="other"), ("Skip",)),
    "a missing claim": (
        using("gone"),
        pod(),
        ("UnschedulableAndUnresolvable", 'persistentvolumeclaim "gone" not found'),
    ),
}


@pytest.mark.parametrize(("given", "other", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, other: PodInfo, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(node(), other)) == want


def test_the_claim_is_taken_on_every_node() -> None:
    other = info(node("other"), using("once", pod_name="other", nodeName="other"))
    assert filtered(PLUGIN, using("once"), info(node()), other) == IN_USE


def test_removing_the_pod_that_uses_the_claim_frees_it_and_adding_it_takes_it_again() -> None:
    user = using("once", pod_name="other", nodeName="n")
    on, state, given = info(node(), user), CycleState(), using("once")
    PLUGIN.pre_filter(state, given, cluster(on))
    trial = state.clone()
    PLUGIN.remove_pod(trial, given, user, on)
    freed = said(PLUGIN.filter(trial, given, on))
    PLUGIN.add_pod(trial, given, user, on)
    taken = said(PLUGIN.filter(trial, given, on))
    assert (freed, taken, said(PLUGIN.filter(state, given, on))) == (("Success",), IN_USE, IN_USE)


DELETE = (EventResource.ASSIGNED_POD, Action.DELETE)
CLAIM = (EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
HINTS: dict[str, tuple[tuple[EventResource, Action], PodInfo, Any, Any, str]] = {
    "a Pod with the same disk is gone": (DELETE, gce(), gce(), None, "Queue"),
    "a Pod with another disk is gone": (DELETE, gce(), gce(pdName="other"), None, "QueueSkip"),
    "a Pod with the same claim is gone": (DELETE, using("many"), using("many"), None, "Queue"),
    "a Pod of another namespace is gone": (DELETE, using("many"), using("many", namespace="other"), None, "QueueSkip"),
    "its claim is added": (CLAIM, using("once"), None, CLAIMS[0], "Queue"),
    "another claim is added": (CLAIM, using("once"), None, CLAIMS[1], "QueueSkip"),
    "a Node is added": ((EventResource.NODE, Action.ADD), gce(), None, node(), "Queue"),
}


@pytest.mark.parametrize(("event", "given", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], given: PodInfo, old: Any, new: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, given, old, new) == want
