"""VolumeBinding: bound claims, and those that have to be bound first."""

from typing import Any

import pytest
from plugins.tables import claiming, filtered, handle, hinted, info, node, obj, pod

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.volume_binding import VolumeBinding


def claim(name: str, volume: str = "", *, bound: bool = True, storage_class: str = "", **fields: Any) -> Object:
    spec = {"volumeName": volume, "storageClassName": storage_class}
    made = obj(name, namespace="ml", spec={field: value for field, value in spec.items() if value})
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume and bound else {}
    meta = {**made["metadata"], "annotations": annotations, **fields.pop("metadata", {})}
    return {**made, "metadata": meta, **fields}


def volume(name: str, *terms: Object) -> Object:
    return obj(name, spec={"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {})


def zone(*values: str) -> Object:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(values)}]}


NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]}
OWNER = {"kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": True}
CLAIMS = [
    claim("free", "free"),
    claim("in-a", "in-a"),
    claim("by-name", "by-name"),
    claim("by-both", "by-both"),
    claim("no-terms", "no-terms"),
    claim("no-volume", "gone"),
    claim("immediate", storage_class="fast"),
    claim("classless"),
    claim("unknown-class", storage_class="gone"),
    claim("waiting", storage_class="local"),
    claim("waiting-too", storage_class="local"),
    claim("prebound", "free", bound=False, storage_class="local"),
    claim("modeless", storage_class="modeless"),
    claim("lost", "gone", status={"phase": "Lost"}),
    claim("deleting", "free", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    claim("web-cache", "free", metadata={"ownerReferences": [OWNER]}),
    claim("web-foreign", "free"),
]
VOLUMES = [
    volume("free"),
    volume("in-a", zone("a"), zone("b")),
    volume("by-name", NAMED),
    volume("by-both", {**zone("a"), **NAMED}),
    volume("no-terms", {}),
]
CLASSES = [
    obj("local", volumeBindingMode="WaitForFirstConsumer"),
    obj("fast", volumeBindingMode="Immediate"),
    obj("modeless"),
]
PLUGIN = VolumeBinding({}, handle(persistent_volume_claims=CLAIMS, persistent_volumes=VOLUMES, storage_classes=CLASSES))


def using(*names: str) -> PodInfo:
    return pod(**claiming(*names))


def ephemeral(name: str) -> PodInfo:
    return pod(volumes=[{"name": name, "ephemeral": {"volumeClaimTemplate": {}}}])


def unresolvable(reason: str) -> tuple[str, str]:
    return ("UnschedulableAndUnresolvable", reason)


A, C = node(labels={"zone": "a"}), node(labels={"zone": "c"})
CONFLICT = unresolvable("node(s) didn't match PersistentVolume's node affinity")
UNBOUND = unresolvable("pod has unbound immediate PersistentVolumeClaims")
WAITS = "pod has PersistentVolumeClaims that wait for their first consumer, which this scheduler does not bind: "
FILTER: dict[str, tuple[PodInfo, Object, tuple[str, ...]]] = {
    "no claims": (pod(volumes=[{"name": "tmp", "emptyDir": {}}]), A, ("Skip",)),
    "a volume that can be used everywhere": (using("free"), A, ("Success",)),
    "a Node that its affinity selects": (using("in-a"), A, ("Success",)),
    "a Node that it does not select": (using("in-a"), C, CONFLICT),
    "names of Nodes do not count": (using("by-name"), A, ("Success",)),
    "beside labels neither": (using("by-both"), C, CONFLICT),
    "a term without requirements selects nothing": (using("no-terms"), A, CONFLICT),
    "every volume has to fit": (using("free", "in-a"), C, CONFLICT),
    "a bound volume that is gone": (
        using("no-volume"),
        A,
        unresolvable("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    ),
    "a missing claim": (using("gone"), A, unresolvable('persistentvolumeclaim "gone" not found')),
    "an unbound claim": (using("immediate"), A, UNBOUND),
    "an unbound claim without a class": (using("classless"), A, UNBOUND),
    "an unbound claim of a missing class": (using("unknown-class"), A, UNBOUND),
    "a claim that names its volume": (using("prebound"), A, UNBOUND),
    "a claim that waits for its first consumer": (using("waiting"), A, unresolvable(f"{WAITS}[waiting]")),
    "two such claims": (using("waiting", "free", "waiting-too"), A, unresolvable(f"{WAITS}[waiting waiting-too]")),
    "an unbound claim beside one that waits": (using("waiting", "immediate"), A, UNBOUND),
    "a class without a mode": (
        using("modeless"),
        A,
        ("Error", 'VolumeBindingMode not set for StorageClass "modeless"'),
    ),
    "a lost claim": (
        using("lost"),
        A,
        unresolvable('persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"'),
    ),
    "a claim that is being deleted": (
        using("deleting"),
        A,
        unresolvable('persistentvolumeclaim "deleting" is being deleted'),
    ),
    "an ephemeral volume": (ephemeral("cache"), A, ("Success",)),
    "an ephemeral volume whose claim is not there yet": (
        ephemeral("new"),
        A,
        unresolvable('waiting for ephemeral volume controller to create the persistentvolumeclaim "web-new"'),
    ),
    "a claim that only has the name": (
        ephemeral("foreign"),
        A,
        unresolvable("PVC ml/web-foreign was not created for pod ml/web (pod is not owner)"),
    ),
}


@pytest.mark.parametrize(("given", "on", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, on: Object, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(on)) == want


CLASS = (EventResource.STORAGE_CLASS, Action.UPDATE)
CLAIM = (EventResource.PERSISTENT_VOLUME_CLAIM, Action.UPDATE)
TOPOLOGY = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
HINTS: dict[str, tuple[tuple[EventResource, Action], PodInfo, Any, Any, str]] = {
    "a class is added": ((EventResource.STORAGE_CLASS, Action.ADD), using("a"), None, CLASSES[0], "Queue"),
    "a class allows other topologies": (
        CLASS,
        using("a"),
        CLASSES[0],
        {**CLASSES[0], "allowedTopologies": TOPOLOGY},
        "Queue",
    ),
    "a class changes otherwise": (CLASS, using("a"), CLASSES[0], CLASSES[0], "QueueSkip"),
    "its claim is bound": (CLAIM, using("free"), CLAIMS[0], CLAIMS[0], "Queue"),
    "another claim is bound": (CLAIM, using("free"), CLAIMS[1], CLAIMS[1], "QueueSkip"),
    "a claim of that name elsewhere": (CLAIM, using("free"), None, obj("free", namespace="other"), "QueueSkip"),
    "the claim of an ephemeral volume": (CLAIM, ephemeral("cache"), None, obj("web-cache", namespace="ml"), "Queue"),
    "a volume changes": ((EventResource.PERSISTENT_VOLUME, Action.UPDATE), using("a"), VOLUMES[0], VOLUMES[0], "Queue"),
    "a Node is added": ((EventResource.NODE, Action.ADD), using("a"), None, A, "Queue"),
}


@pytest.mark.parametrize(("event", "given", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], given: PodInfo, old: Any, new: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, given, old, new) == want
