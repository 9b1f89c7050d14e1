"""Pods as the scheduler keeps them: small records that share whatever Pods of one template have in common.

Source: PodInfo and AffinityTerm in pkg/scheduler/framework.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from sys import intern
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson

from tollbar.model import podresources, selectors
from tollbar.model.flat import Flat, flat, unfolded
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, picked, spec, uid_of
from tollbar.scheduler.cache.resources import PodRequests, pod_requests

_FIELDS: Final = (
    "affinity", "hostNetwork", "nodeSelector", "overhead", "preemptionPolicy", "priority", "resources",
    "schedulerName", "tolerations", "topologySpreadConstraints",
)  # fmt: skip
_CONTAINER_FIELDS: Final = ("image", "ports", "resources", "restartPolicy")
_VOLUME_KINDS: Final = (
    "persistentVolumeClaim", "ephemeral", "gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi",
    "azureDisk", "csi", "image",
)  # fmt: skip
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "labels", "deletionTimestamp")
_STATUS: Final = ("startTime", "nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus")
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
SHARED: Final = frozenset(
    [("metadata", "labels")]
    + [
        ("spec", name)
        for name in (
            "affinity", "containers", "initContainers", "nodeSelector", "resourceClaims", "tolerations",
            "topologySpreadConstraints",
        )
    ]
)  # fmt: skip
"""What Pods of one template have in common."""
_CONDITIONS: Final = (DISRUPTION_TARGET, "PodResizePending")


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A PodAffinityTerm, with the namespaces that it means for its Pod.

    `namespace_selector` of None selects no namespace, `{}` every one; the same holds of `selector` and Pods.
    """

    namespaces: frozenset[str]
    namespace_selector: Object | None
    selector: Object | None
    topology_key: str
    weight: int = 0
    """Of preferred terms alone."""

    def matches(self, pod: "PodInfo", namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term is about this Pod; the labels are those of the Pod's namespace."""
        if pod.key.namespace not in self.namespaces and not selectors.matches(
            self.namespace_selector, namespace_labels
        ):
            return False
        return selectors.matches(self.selector, pod.labels)


@dataclass(eq=False, slots=True, weakref_slot=True)
class Shape:
    """What Pods with equal namespace, labels and scheduling fields share; there is one object for all of them.

    `spec` has the fields of the Pod's spec that scheduling reads.  `memo` keeps what plugins work out from the shape
    alone, by a key of theirs.
    """

    namespace: str
    labels: dict[str, str]
    spec: Object
    requests: PodRequests
    affinity: tuple[AffinityTerm, ...]
    """Required terms of Pod affinity."""
    anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[AffinityTerm, ...]
    preferred_anti_affinity: tuple[AffinityTerm, ...]
    host_ports: tuple[tuple[str, str, int], ...]
    """(IP, protocol, port) of containers and sidecars, with the defaults of fields that are left out."""
    claims: tuple[Key, ...] = ()
    """The PersistentVolumeClaims that its volumes name; those of ephemeral volumes are not among them."""
    ephemeral_volumes: int = 0
    memo: dict[Any, Any] = field(default_factory=dict)
    digest: bytes = b""
    """Of all that the shape is made from."""
    base: "Shape | None" = None
    """`template`, None if that is the shape itself."""

    @property
    def template(self) -> "Shape":
        """This shape without labels and volumes, in which alone the Pods of a StatefulSet differ.

        Its `memo` is for what depends on neither.
        """
        return self.base or self

    @property
    def unlabelled(self) -> "Shape":
        """The shape that has a `memo` for all Pods with this spec, whatever their labels."""
        return self if "volumes" in self.spec else self.template

    @property
    def priority(self) -> int:
        return int(self.spec.get("priority") or 0)


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodInfo:
    """One Pod.  It is not changed once others have it: an update of the Pod makes a new one."""

    key: Key
    uid: str
    generation: int
    """`metadata.generation`, which every change of the spec raises but a binding; 0 where the Pod has none.

    All supported versions of the API server set and raise it, behind no feature gate (updatePodGeneration in
    k8s.io/kubernetes/pkg/registry/core/pod), so this holds while two of them run beside each other, too.
    """
    shape: Shape
    requests: PodRequests
    """Those of the shape, but for a Pod that was resized in place."""
    node_name: str
    nominated_node_name: str
    priority: int
    start_time: str
    """RFC 3339; empty before a kubelet has started it."""
    is_terminating: bool
    is_preempted: bool
    """Whether the scheduler has chosen it as a victim (condition DisruptionTarget)."""
    kept: Object | Flat
    """What `object` returns; of a Pod that has a Node it is kept flat (`tollbar.model.flat`), in less memory."""

    @property
    def object(self) -> Object:
        """The API object, or of a Pod that has a Node as much of it as `projected` keeps."""
        if isinstance(self.kept, dict):
            return self.kept
        built: Object = unfolded(self.kept)
        return built

    def counts_as(self, other: "PodInfo") -> bool:
        """Whether it makes no difference to any other Pod which of the two is on a Node."""
        return (
            self.shape is other.shape
            and self.node_name == other.node_name
            and self.is_terminating == other.is_terminating
            and self.is_preempted == other.is_preempted
            and self.start_time == other.start_time
            and self.requests == other.requests
        )

    @property
    def labels(self) -> dict[str, str]:
        return self.shape.labels

    @property
    def spec(self) -> Object:
        """The fields of the spec that scheduling reads."""
        return self.shape.spec

    @property
    def scheduler_name(self) -> str:
        """The scheduler that it asks for."""
        return self.shape.spec.get("schedulerName") or "default-scheduler"

    @property
    def has_place(self) -> bool:
        """Whether it has a Node, or is promised one."""
        return bool(self.node_name or self.nominated_node_name)


class Shapes:
    """Makes PodInfos, with one Shape for all Pods that are equal to the scheduler, as long as there is such a Pod."""

    def __init__(self) -> None:
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()

    def pod_info(self, pod: Object, known: PodInfo | None = None) -> PodInfo:
        """The record of a Pod; `known` is that of an earlier state of it, if there is one.

        KeyError, TypeError, ValueError for one that the API server would refuse.
        """
        meta, status = metadata(pod), pod.get("status") or {}
        generation = meta.get("generation") or 0
        if known is not None and generation and (uid_of(pod), generation) == (known.uid, known.generation):
            shape = self.labelled(known.shape, labels_of(pod))
        else:
            shape = self._shape(pod)
        return PodInfo(
            key=key_of(pod),
            uid=uid_of(pod),
            generation=generation,
            shape=shape,
            requests=_requests(pod, shape),
            node_name=intern(spec(pod).get("nodeName") or ""),
            nominated_node_name=status.get("nominatedNodeName") or "",
            priority=shape.priority,
            start_time=status.get("startTime") or "",
            is_terminating="deletionTimestamp" in meta,
            is_preempted=any(
                each.get("type") == DISRUPTION_TARGET and each.get("reason") == PREEMPTED
                for each in status.get("conditions") or ()
            ),
            kept=flat_if_bound(pod) or pod,
        )

    def labelled(self, shape: Shape, labels: dict[str, str]) -> Shape:
        """The shape of Pods that have these labels, and else are as those of the given one."""
        if labels == shape.labels:
            return shape
        return self._varied(shape.template, labels, shape.spec.get("volumes"))

    def _shape(self, pod: Object) -> Shape:
        namespace, scheduling = key_of(pod).namespace, _scheduling_fields(pod)
        volumes = scheduling.pop("volumes", None)
        digest = _digest((namespace, scheduling))
        base = self._shapes.get(digest)
        if base is None:
            base = self._shapes[digest] = _shape(namespace, scheduling, digest)
        return self._varied(base, labels_of(pod), volumes)

    def _varied(self, base: Shape, labels: dict[str, str], volumes: list[Object] | None) -> Shape:
        """The base with these labels and volumes; itself where there are none."""
        if not labels and volumes is None:
            return base
        digest = _digest((labels, volumes), base.digest)
        shape = self._shapes.get(digest)
        if shape is None:
            body = base.spec if volumes is None else {**base.spec, "volumes": volumes}
            named = tuple(Key(base.namespace, name) for name in _claim_names(volumes or ()))
            ephemeral = sum("ephemeral" in volume for volume in volumes or ())
            shape = self._shapes[digest] = replace(
                base,
                labels=labels,
                spec=body,
                claims=named,
                ephemeral_volumes=ephemeral,
                memo={},
                digest=digest,
                base=base,
            )
        return shape


def projected(pod: Object) -> Object:
    """What is worth keeping of a Pod: all of one that waits, and of one that has a Node what its PodInfo is made from.

    The PodInfo is the same, but for `object`.
    """
    if not spec(pod).get("nodeName"):
        meta = {name: value for name, value in metadata(pod).items() if name != "managedFields"}
        return {**pod, "metadata": meta}
    by_status = podresources.counts_by_status(pod)
    status = pod.get("status") or {}
    kept = picked(status, _STATUS)
    if conditions := [each for each in status.get("conditions") or () if each.get("type") in _CONDITIONS]:
        kept["conditions"] = conditions
    meta = picked(metadata(pod), _METADATA)
    body = {**_scheduling_fields(pod, names=by_status), **picked(spec(pod), ("nodeName", "resourceClaims"))}
    for given, names in ((meta, ("namespace",)), (body, ("nodeName", "preemptionPolicy", "schedulerName"))):
        given.update((name, intern(given[name])) for name in names if isinstance(given.get(name), str))
    if by_status:
        kept |= picked(status, ("allocatedResources", "resources"))
        for name in ("containerStatuses", "initContainerStatuses"):
            if name in status:
                kept[name] = [picked(each, ("name", "allocatedResources", "resources")) for each in status[name]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": body,
        "status": kept,
    }


def flat_if_bound(pod: Object) -> Flat | None:
    """A Pod that has a Node, flat; most Pods have one, and few are looked at again."""
    return flat(pod, SHARED) if spec(pod).get("nodeName") else None


def _requests(pod: Object, shape: Shape) -> PodRequests:
    if not podresources.counts_by_status(pod):
        return shape.requests
    found = pod_requests(pod)
    return shape.requests if found == shape.requests else found


def _claim_names(volumes: Iterable[Object]) -> Iterator[str]:
    for volume in volumes:
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]


def _digest(value: Any, before: bytes = b"") -> bytes:
    return blake2b(before + orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _scheduling_fields(pod: Object, *, names: bool = False) -> Object:
    body = spec(pod)
    found = picked(body, _FIELDS)
    fields = ("name", *_CONTAINER_FIELDS) if names else _CONTAINER_FIELDS
    for name in ("containers", "initContainers"):
        if name in body:
            found[name] = [picked(each, fields) for each in body[name] or ()]
    if volumes := [each for each in body.get("volumes") or () if any(kind in each for kind in _VOLUME_KINDS)]:
        found["volumes"] = volumes
    return found


def _shape(namespace: str, scheduling: Object, digest: bytes) -> Shape:
    affinity = scheduling.get("affinity") or {}
    pods, anti = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
    return Shape(
        namespace=namespace,
        labels={},
        spec=scheduling,
        requests=pod_requests({"spec": scheduling}),
        affinity=_required(namespace, pods),
        anti_affinity=_required(namespace, anti),
        preferred_affinity=_preferred(namespace, pods),
        preferred_anti_affinity=_preferred(namespace, anti),
        host_ports=tuple(
            (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])  # noqa: S104
            for container in [*_sidecars(scheduling), *(scheduling.get("containers") or ())]
            for port in container.get("ports") or ()
            if port.get("hostPort")
        ),
        digest=digest,
    )


def _sidecars(body: Object) -> list[Object]:
    """Init containers that run as long as the Pod does (KEP-753)."""
    return [each for each in body.get("initContainers") or () if each.get("restartPolicy") == "Always"]


def _required(namespace: str, affinity: Object | None) -> tuple[AffinityTerm, ...]:
    terms = (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_term(namespace, each) for each in terms)


def _preferred(namespace: str, affinity: Object | None) -> tuple[AffinityTerm, ...]:
    terms = (affinity or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_term(namespace, each["podAffinityTerm"], each["weight"]) for each in terms)


def _term(namespace: str, term: Object, weight: int = 0) -> AffinityTerm:
    named, by_label = term.get("namespaces") or (), term.get("namespaceSelector")
    return AffinityTerm(
        namespaces=frozenset(named or ((namespace,) if by_label is None else ())),
        namespace_selector=by_label,
        selector=term.get("labelSelector"),
        topology_key=term["topologyKey"],
        weight=weight,
    )
