"""Compares what queueing hints say about events: those in which one random cluster becomes another."""

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scheduler.clusters import FAMILIES, cluster
from scheduler.comparing import plugins
from scheduler.world import Cluster

from tollbar.devplane.real.oracle import Oracle
from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.framework.events import Action, EventResource, HintFn, QueueingHint

SHAPES: Final = Shapes()
OTHERS: Final = {
    "CSINode": EventResource.CSI_NODE,
    "DeviceClass": EventResource.DEVICE_CLASS,
    "PersistentVolume": EventResource.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": EventResource.PERSISTENT_VOLUME_CLAIM,
    "ResourceClaim": EventResource.RESOURCE_CLAIM,
    "ResourceSlice": EventResource.RESOURCE_SLICE,
    "StorageClass": EventResource.STORAGE_CLASS,
    "VolumeAttachment": EventResource.VOLUME_ATTACHMENT,
}
NODE_UPDATES: Final = (Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT, Action.UPDATE_NODE_ALLOCATABLE)
OWN_UPDATES: Final = (
    Action.UPDATE_POD_TOLERATION,
    Action.UPDATE_POD_LABEL,
    Action.UPDATE_POD_SCALE_DOWN,
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
)
IN_TREE: Final = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "portworxVolume")

Said = tuple[str, str]
"""A plugin and its hint."""


class Happening(NamedTuple):
    """There is no old object of an addition, and no new one of a deletion."""

    resource: EventResource
    action: Action
    old: Object | None
    new: Object | None


@dataclass(frozen=True, slots=True)
class Case:
    """A Pod that waits in a cluster, and what happens."""

    cluster: Cluster
    pod: Object
    happenings: Sequence[Happening]

    def request(self) -> Object:
        """For `Oracle.hints`."""
        events = [
            {"resource": each.resource.value, "action": int(each.action), "old": each.old, "new": each.new}
            for each in self.happenings
        ]
        return {**self.cluster.request(), "pod": self.pod, "events": events}


def case(number: int) -> Case | None:
    """Number n is always the same; None if no Pod waits in its cluster."""
    family = list(FAMILIES)[number % len(FAMILIES)]
    before, after = cluster(family, number), cluster(family, number + 500_000)
    if not before.waiting:
        return None
    rng = random.Random(number)
    pod = rng.choice(before.waiting)
    return Case(
        before,
        pod,
        [*_of_nodes(rng, before, after), *_of_pods(rng, pod, before, after), *_of_others(rng, before, after)],
    )


def ours(case: Case) -> list[list[Said]]:
    """What our plugins say about each of the events."""
    registered = [
        (plugin.name, each)
        for plugin in plugins(case.cluster)
        if hasattr(plugin, "events_to_register")
        for each in plugin.events_to_register()
    ]
    pod = SHAPES.pod_info(case.pod)
    return [
        sorted(
            (name, _hint(each.hint, pod, happening).value)
            for name, each in registered
            if each.event.resource is happening.resource
            and happening.action & each.event.action
            and not is_left_out(name, happening)
        )
        for happening in case.happenings
    ]


def theirs(oracle: Oracle, cases: Iterable[Case]) -> Iterator[list[list[Said]]]:
    """What Kubernetes' plugins say.  ValueError for a cluster that it does not accept."""
    given = list(cases)
    for each, answer in zip(given, oracle.hints(case.request() for case in given), strict=True):
        if "message" in answer:
            raise ValueError(answer["message"])
        yield [
            sorted((one["plugin"], one["hint"]) for one in said if not is_left_out(one["plugin"], happening))
            for happening, said in zip(each.happenings, answer["events"], strict=True)
        ]


def is_left_out(plugin: str, happening: Happening) -> bool:
    """What differs for a reason: volumes of in-tree plugins are not translated to those of CSI drivers."""
    volumes = ((happening.old or {}).get("spec") or {}).get("volumes") or ()
    return (plugin == "VolumeBinding" and happening.resource is EventResource.CSI_NODE) or (
        plugin == "NodeVolumeLimits" and any(kind in volume for volume in volumes for kind in IN_TREE)
    )


def _hint(hint: HintFn | None, pod: PodInfo, happening: Happening) -> QueueingHint:
    if hint is None:
        return QueueingHint.QUEUE
    is_pod = happening.resource in (EventResource.ASSIGNED_POD, EventResource.TARGET_POD)
    old, new = (
        SHAPES.pod_info(each) if is_pod and each is not None else each for each in (happening.old, happening.new)
    )
    return hint(pod, old, new)


def _of_nodes(rng: random.Random, before: Cluster, after: Cluster) -> Iterator[Happening]:
    """Nodes are added, and become others altogether or in part."""
    for each in after.nodes[:3]:
        yield Happening(EventResource.NODE, Action.ADD, None, each)
    for old in rng.sample(before.nodes, min(4, len(before.nodes))) if after.nodes else ():
        new = _as(old, rng.choice(after.nodes))
        part = rng.choice(["metadata", "spec", "status", "all"])
        changed = new if part == "all" else {**old, part: new.get(part) or {}}
        for action in NODE_UPDATES:
            yield Happening(EventResource.NODE, action, old, changed)


def _of_pods(rng: random.Random, pod: Object, before: Cluster, after: Cluster) -> Iterator[Happening]:
    """Other Pods come, go and become others, and the Pod itself takes over parts of others."""
    pods = [*before.pods, *after.pods]
    for _ in range(5):
        old = rng.choice(pods)
        new = _as(old, rng.choice(pods))
        yield Happening(EventResource.ASSIGNED_POD, Action.DELETE, old, None)
        yield Happening(EventResource.ASSIGNED_POD, Action.ADD, None, old)
        for action in (Action.UPDATE_POD_LABEL, Action.UPDATE_POD_SCALE_DOWN):
            yield Happening(EventResource.ASSIGNED_POD, action, old, new)
        taken = {name: new["spec"][name] for name in ("tolerations", "containers") if name in new["spec"]}
        labels = new["metadata"].get("labels") or {}
        changed = {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": {**pod["spec"], **taken}}
        for action in OWN_UPDATES:
            yield Happening(EventResource.TARGET_POD, action, pod, changed)


def _of_others(rng: random.Random, before: Cluster, after: Cluster) -> Iterator[Happening]:
    for kind, resource in OTHERS.items():
        there = [*before.of_kind(kind), *after.of_kind(kind)]
        for old in rng.sample(there, min(3, len(there))):
            yield Happening(resource, Action.ADD, None, old)
            yield Happening(resource, Action.DELETE, old, None)
            if kind != "StorageClass":  # hardly anything of it can change
                yield Happening(resource, Action.UPDATE, old, _as(old, rng.choice(there)))


def _as(old: Object, new: Object) -> Object:
    """The new object under the old one's name."""
    made: dict[str, Any] = copy.deepcopy(new)
    made["metadata"] |= {
        name: old["metadata"][name] for name in ("name", "namespace", "uid") if name in old["metadata"]
    }
    return made
