"""VolumeZone: volumes of a zone, on Nodes of that zone."""

from typing import Any

import pytest
from plugins.tables import claiming, filtered, handle, hinted, info, node, obj, pod

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.volume_zone import VolumeZone

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def claim(name: str, volume: str = "", storage_class: str | None = None, **annotations: str) -> Object:
    spec = {"volumeName": volume, "storageClassName": storage_class}
    made = obj(name, namespace="ml", spec={field: value for field, value in spec.items() if value})
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def volume(name: str, **labels: str) -> Object:
    return obj(name, labels=labels)


def storage_class(name: str, mode: str | None) -> Object:
    return obj(name) if mode is None else obj(name, volumeBindingMode=mode)


CLAIMS = [
    claim("a", "in-a"),
    claim("ab", "in-a-or-b"),
    claim("beta", "beta"),
    claim("region", "region"),
    claim("anywhere", "anywhere"),
    claim("strange", "strange"),
    claim("lost", "gone"),
    claim("no-class"),
    claim("waiting", storage_class="local"),
    claim("immediate", storage_class="fast"),
    claim("annotated", **{"volume.beta.kubernetes.io/storage-class": "local"}),
    claim("modeless", storage_class="modeless"),
    claim("classless", storage_class="gone"),
]
VOLUMES = [
    volume("in-a", **{ZONE: "a"}),
    volume("in-a-or-b", **{ZONE: "a__ b"}),
    volume("beta", **{BETA_ZONE: "a"}),
    volume("region", **{REGION: "r", ZONE: "a"}),
    volume("anywhere"),
    volume("strange", **{ZONE: "a__"}),
]
CLASSES = [
    storage_class("local", "WaitForFirstConsumer"),
    storage_class("fast", "Immediate"),
    storage_class("modeless", None),
]
PLUGIN = VolumeZone({}, handle(persistent_volume_claims=CLAIMS, persistent_volumes=VOLUMES, storage_classes=CLASSES))
REFUSED = ("UnschedulableAndUnresolvable", "node(s) had no available volume zone")


def using(*names: str) -> PodInfo:
    return pod(**claiming(*names))


def of(**labels: str) -> Object:
    return node(labels=labels)


def unresolvable(reason: str) -> tuple[str, str]:
    return ("UnschedulableAndUnresolvable", reason)


A, B = of(**{ZONE: "a"}), of(**{ZONE: "b"})
FILTER: dict[str, tuple[PodInfo, Object, tuple[str, ...]]] = {
    "no volumes": (pod(), A, ("Skip",)),
    "a volume of no zone": (using("anywhere"), A, ("Skip",)),
    "the volume's zone": (using("a"), A, ("Success",)),
    "another zone": (using("a"), B, REFUSED),
    "one of its zones": (using("ab"), B, ("Success",)),
    "none of its zones": (using("ab"), of(**{ZONE: "c"}), REFUSED),
    "a label without any value counts for nothing": (using("strange"), B, ("Skip",)),
    "a Node of no zone takes every volume": (using("a"), node(), ("Success",)),
    "a Node that has only a region": (using("a"), of(**{REGION: "r"}), REFUSED),
    "all labels have to fit": (using("region"), of(**{ZONE: "a", REGION: "other"}), REFUSED),
    "every volume has to fit": (using("ab", "a"), B, REFUSED),
    "an old volume on an old Node": (using("beta"), of(**{BETA_ZONE: "a"}), ("Success",)),
    "an old volume on a newer Node": (using("beta"), A, ("Success",)),
    "a newer volume on an old Node": (using("a"), of(**{BETA_ZONE: "a"}), REFUSED),
    "a missing claim": (using("gone"), A, unresolvable('persistentvolumeclaim "gone" not found')),
    "a missing volume": (using("lost"), A, unresolvable('persistentvolume "gone" not found')),
    "an unbound claim that waits": (using("waiting"), A, ("Skip",)),
    "its class in the annotation": (using("annotated"), A, ("Skip",)),
    "an unbound claim that should be bound": (using("immediate"), A, unresolvable("PersistentVolume had no name")),
    "an unbound claim without a class": (
        using("no-class"),
        A,
        unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
    ),
    "a missing class": (using("classless"), A, unresolvable('storageclass.storage.k8s.io "gone" not found')),
    "a class without a mode": (
        using("modeless"),
        A,
        unresolvable('VolumeBindingMode not set for StorageClass "modeless"'),
    ),
    "a claim without a name": (using(""), A, unresolvable("PersistentVolumeClaim had no name")),
}


@pytest.mark.parametrize(("given", "on", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, on: Object, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(on)) == want


CLASS = (EventResource.STORAGE_CLASS, Action.ADD)
CLAIM = (EventResource.PERSISTENT_VOLUME_CLAIM, Action.UPDATE)
VOLUME = (EventResource.PERSISTENT_VOLUME, Action.UPDATE)
HINTS: dict[str, tuple[tuple[EventResource, Action], Any, Any, str]] = {
    "a class that waits": (CLASS, None, CLASSES[0], "Queue"),
    "a class that does not": (CLASS, None, CLASSES[1], "QueueSkip"),
    "its claim changes": (CLAIM, CLAIMS[0], CLAIMS[0], "Queue"),
    "another claim changes": (CLAIM, CLAIMS[1], CLAIMS[1], "QueueSkip"),
    "a claim of that name elsewhere": (CLAIM, None, obj("a", namespace="other"), "QueueSkip"),
    "a volume is added": ((EventResource.PERSISTENT_VOLUME, Action.ADD), None, VOLUMES[0], "Queue"),
    "a volume's zone changes": (VOLUME, volume("v", **{ZONE: "a"}), volume("v", **{ZONE: "b"}), "Queue"),
    "a volume's other labels change": (VOLUME, volume("v", a="b"), volume("v", a="c"), "QueueSkip"),
    "a Node changes its labels": ((EventResource.NODE, Action.UPDATE_NODE_LABEL), A, B, "Queue"),
}


@pytest.mark.parametrize(("event", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], old: Any, new: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, using("a"), old, new) == want
