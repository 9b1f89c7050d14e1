"""A Node with what its Pods take of it.

Source: NodeInfo in pkg/scheduler/framework/types.go.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tollbar.model.objects import Object, labels_of, metadata, picked, spec
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.resources import Resources, from_quantities

_generations: Final = count(1)
_METADATA: Final = ("name", "uid", "resourceVersion", "labels", "annotations")
_SPEC: Final = ("taints", "unschedulable", "podPreemptionPolicy")
_STATUS: Final = ("allocatable", "images", "declaredFeatures")
_FEW: Final = 8
"""So many more Pods that came and went are remembered of a Node than it has."""


@dataclass(eq=False, slots=True)
class NodeInfo:
    """`node` is the API object; of one that is gone while Pods are still on it, it is None.

    `generation` grows with every change, and no two states of any two nodes share one.  `added` and `removed` are the
    Pods that came and went since it was a copy of the one with the generation `copy_of`.  That is 0, and they are
    empty, where it was no copy, and where more Pods have come and gone than it has, and a few.
    """

    name: str
    node: Object | None = None
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    is_unschedulable: bool = False
    allocatable: Resources = field(default_factory=Resources)
    pods: dict[str, PodInfo] = field(default_factory=dict)
    """By uid."""
    requested: Resources = field(default_factory=Resources)
    non_zero_milli_cpu: int = 0
    non_zero_memory: int = 0
    used_ports: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """How many Pods use (IP, protocol, port)."""
    claims: int = 0
    """How many volumes of its Pods name a PersistentVolumeClaim."""
    ephemeral_volumes: int = 0
    generation: int = 0
    copy_of: int = 0
    added: list[PodInfo] = field(default_factory=list)
    removed: list[PodInfo] = field(default_factory=list)

    @property
    def images(self) -> dict[str, int]:
        """Sizes in bytes by each name of an image; the first one counts if there are several.  Made anew each time."""
        status = (self.node or {}).get("status") or {}
        return {
            name: image.get("sizeBytes") or 0
            for image in reversed(status.get("images") or ())
            for name in image.get("names") or ()
        }

    def set_node(self, node: Object) -> None:
        """Take over what the API object says."""
        self.node = node
        self.labels = labels_of(node)
        self.taints = tuple(spec(node).get("taints") or ())
        self.is_unschedulable = bool(spec(node).get("unschedulable"))
        status = node.get("status") or {}
        self.allocatable = from_quantities(status.get("allocatable") or {})
        self.generation = next(_generations)

    def remove_node(self) -> None:
        """The API object is gone; its Pods are not yet."""
        self.node = None
        self.generation = next(_generations)

    def add_pod(self, pod: PodInfo) -> None:
        """Count a Pod that is not there yet."""
        self.pods[pod.uid] = pod
        self._note(self.added, pod)
        self._count(pod, 1)

    def remove_pod(self, uid: str) -> PodInfo:
        """Take back a Pod, and return it.  KeyError if it is not there."""
        pod = self.pods.pop(uid)
        self._note(self.removed, pod)
        self._count(pod, -1)
        return pod

    def copy(self) -> "NodeInfo":
        """A copy to which Pods can be added and from which they can be removed."""
        return NodeInfo(
            name=self.name,
            node=self.node,
            labels=self.labels,
            taints=self.taints,
            is_unschedulable=self.is_unschedulable,
            allocatable=self.allocatable,
            pods=dict(self.pods),
            requested=self.requested.copy(),
            non_zero_milli_cpu=self.non_zero_milli_cpu,
            non_zero_memory=self.non_zero_memory,
            used_ports=dict(self.used_ports),
            claims=self.claims,
            ephemeral_volumes=self.ephemeral_volumes,
            generation=self.generation,
            copy_of=self.generation,
        )

    def _note(self, changes: list[PodInfo], pod: PodInfo) -> None:
        """Remember a change for as long as that is less than all Pods: no cycle may ask for it, while Pods go on to
        come and go."""
        if self.copy_of:
            changes.append(pod)
            if len(self.added) + len(self.removed) > len(self.pods) + _FEW:
                self.copy_of, self.added, self.removed = 0, [], []

    def _count(self, pod: PodInfo, sign: int) -> None:
        self.requested.add(pod.requests.resources, sign)
        self.non_zero_milli_cpu += sign * pod.requests.non_zero_milli_cpu
        self.non_zero_memory += sign * pod.requests.non_zero_memory
        self.claims += sign * len(pod.shape.claims)
        self.ephemeral_volumes += sign * pod.shape.ephemeral_volumes
        for port in pod.shape.host_ports:
            users = self.used_ports.get(port, 0) + sign
            if users:
                self.used_ports[port] = users
            else:
                del self.used_ports[port]
        self.generation = next(_generations)


def projected(node: Object) -> Object:
    """What is worth keeping of a Node: what plugins and hints read of it.  The NodeInfo is the same, but for `node`."""
    meta, body, status = metadata(node), spec(node), node.get("status") or {}
    kept = picked(status, _STATUS)
    kept["conditions"] = [picked(each, ("type", "status")) for each in status.get("conditions") or ()]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": picked(meta, _METADATA),
        "spec": picked(body, _SPEC),
        "status": kept,
    }


def zone_of(node: Object) -> str:
    """Region and zone of a Node, by which the order of Nodes is mixed; empty without either.

    Source: GetZoneKey in k8s.io/component-helpers/node/topology.
    """
    labels = labels_of(node)
    zone = labels.get("failure-domain.beta.kubernetes.io/zone", labels.get("topology.kubernetes.io/zone", ""))
    region = labels.get("failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region", ""))
    return f"{region}:\x00:{zone}" if zone or region else ""


def name_of(node: Object) -> str:
    return str(metadata(node).get("name") or "")
