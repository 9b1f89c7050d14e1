"""Nodes that do not suit a Pod by what they are or have: cordons, labels, room, ports, spread, neighbours, volumes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from tollbar.explain.causes import Cause
from tollbar.explain.changes import MOST, Change, Edit, Group, Rejection, named, with_spec
from tollbar.model import nodeaffinity
from tollbar.model.objects import Object, key_of, labels_of, metadata, spec
from tollbar.model.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tollbar.offline import Cluster
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.resources import from_quantities
from tollbar.scheduler.plugins.inter_pod_affinity import AFFINITY
from tollbar.scheduler.plugins.node_resources_fit import TOO_MANY_PODS, short_resource

_CORDON: Final = "node.kubernetes.io/unschedulable"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def cordoned(cluster: Cluster, _pod: Object, group: Group) -> Iterator[Rejection]:
    changes = []
    for name in group.nodes[:MOST]:
        node = cluster.get(NODES, name) or {}
        taints = [each for each in spec(node).get("taints") or () if each.get("key") != _CORDON]
        put = with_spec(node, unschedulable=None, taints=taints or None)
        changes.append(Change(Cause.NODE_CORDONED, f"node {name} is uncordoned", put=(put,)))
    what, action = f"{group.on}: unschedulable (cordoned)", f"kubectl uncordon {group.nodes[0]}"
    yield Rejection(Cause.NODE_CORDONED, what, "who runs the Nodes", action, tuple(changes))


def other_name(_cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    what = f"{group.on}: the Pod asks for node {spec(pod).get('nodeName')}"
    yield Rejection(Cause.NODE_NAME, what, "the author of the Pod", "name another Node, or none", is_choice=True)


def affinity(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    wanted, texts = _selection(pod)
    changes = []
    for name in group.nodes[:MOST]:
        node = cluster.get(NODES, name) or {}
        missing = {key: value for key, value in wanted.items() if labels_of(node).get(key) != value}
        if missing:
            put = {**node, "metadata": {**metadata(node), "labels": {**labels_of(node), **missing}}}
            labels = ", ".join(f"{key}={value}" for key, value in missing.items())
            changes.append(Change(Cause.NODE_AFFINITY, f"node {name} has the label {labels}", put=(put,)))
    changes.append(Change(Cause.NODE_AFFINITY, "the Pod has no nodeSelector and no node affinity", edit=_anywhere))
    what = f"{group.on}: the labels are not those that the Pod selects: {'; '.join(texts)}"
    who, action = "the author of the Pod, or who labels Nodes", "select labels that Nodes have, or label a Node"
    yield Rejection(Cause.NODE_AFFINITY, what, who, action, tuple(changes), is_choice=True)


def is_asked_for(pod: Object, node: Object) -> bool:
    """Whether the Pod's nodeSelector and required node affinity select the Node."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec(pod).get("nodeSelector") or {}).items()):
        return False
    required = ((spec(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    return required is None or nodeaffinity.selects(required, node)


def _selection(pod: Object) -> tuple[dict[str, str], list[str]]:
    """Labels that would do, as far as labels alone can, and the selection in words."""
    wanted = dict(spec(pod).get("nodeSelector") or {})
    texts = [f"{key}={value}" for key, value in wanted.items()]
    required = ((spec(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for number, term in enumerate(required.get("nodeSelectorTerms") or ()):
        for each in (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())):
            key, operator, values = each["key"], each["operator"], each.get("values") or ()
            texts.append(" ".join(filter(None, (key, operator, ", ".join(values)))))
            if not number and operator in ("In", "Exists"):
                wanted.setdefault(key, values[0] if values else "")
    return wanted, texts


def _anywhere(pod: Object) -> Object:
    return with_spec(_without_affinity(pod, "nodeAffinity"), nodeSelector=None)


def _without_affinity(pod: Object, *kinds: str) -> Object:
    given = spec(pod).get("affinity") or {}
    return with_spec(pod, affinity={kind: value for kind, value in given.items() if kind not in kinds} or None)


def resources(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    asked = cluster.scheduler.info(pod)
    infos = [info for name in group.nodes if (info := cluster.scheduler.snapshot.get(name)) is not None]
    short = [name for each in group.reasons if (name := short_resource(each))]
    size = {name: max(info.allocatable.get(name) for info in infos) for name in short}
    free = {name: max(info.allocatable.get(name) - info.requested.get(name) for info in infos) for name in short}
    wanted = {name: asked.requests.resources.get(name) for name in short}
    too_small = any(wanted[name] > size[name] for name in short)
    cause = Cause.NODE_TOO_SMALL if too_small else Cause.NODE_FULL
    texts = [
        f"the Pod asks for {_text(name, wanted[name])} {name}, at most {_text(name, free[name])} of"
        f" {_text(name, size[name])} is free"
        for name in short
    ] or [f"{TOO_MANY_PODS.lower()}: as many are there as the Nodes allow"]
    changes = [] if too_small else [*_pods_leave(cluster, asked, infos)]
    if short and all(value > 0 for value in free.values()):
        less = {name: free[name] for name in short}
        text = ", ".join(f"{_text(name, value)} {name}" for name, value in less.items())
        changes.append(Change(cause, f"the Pod asks for {text}", edit=_asking(less, wanted)))
    if short:
        changes.append(
            _larger(cluster, cause, group.nodes[0], {name: 2 * max(size[name], wanted[name]) for name in short})
        )
    who = "the author of the Pod, or who runs the Nodes"
    action = "ask for less, or add a larger Node" if too_small else "wait for Pods to end, ask for less, or add a Node"
    yield Rejection(cause, f"{group.on}: {'; '.join(texts)}", who, action, tuple(changes))


def _pods_leave(cluster: Cluster, asked: PodInfo, infos: Sequence[NodeInfo]) -> Iterator[Change]:
    """On each Node the fewest Pods whose requests are enough, large ones first."""
    for info in infos[:MOST]:
        lacking = {
            name: asked.requests.resources.get(name) - (info.allocatable.get(name) - info.requested.get(name))
            for name in ("cpu", "memory", "ephemeral-storage", *asked.requests.resources.scalars)
        }
        lacking["pods"] = len(info.pods) + 1 - info.allocatable.pods
        gone: list[PodInfo] = []
        sizes = sorted(info.pods.values(), key=lambda each: _share(each, lacking), reverse=True)
        for each in sizes:
            if all(value <= 0 for value in lacking.values()):
                break
            gone.append(each)
            lacking = {
                name: value - (1 if name == "pods" else each.requests.resources.get(name))
                for name, value in lacking.items()
            }
        without = [
            found for each in gone if (found := cluster.get(PODS, each.key.name, each.key.namespace)) is not None
        ]
        if without and len(without) == len(gone):
            leaving = named("Pod", [str(key_of(each)) for each in without])
            yield Change(Cause.NODE_FULL, f"{leaving} on node {info.name} ends", without=tuple(without))


def _share(pod: PodInfo, lacking: Mapping[str, int]) -> float:
    """How much of what is lacking a Pod takes."""
    return sum(pod.requests.resources.get(name) / value for name, value in lacking.items() if value > 0)


def _asking(less: Mapping[str, int], wanted: Mapping[str, int]) -> Edit:
    """The Pod with so much less in the container that asks for most."""

    def edit(pod: Object) -> Object:
        containers = [dict(each) for each in spec(pod).get("containers") or ()]
        for name, value in less.items():
            largest = max(containers, key=lambda each: _requested(each, name))
            left = max(0, _requested(largest, name) - (wanted[name] - value))
            given = largest.get("resources") or {}
            requests = {**(given.get("requests") or given.get("limits") or {}), name: _quantity(name, left)}
            largest["resources"] = {"requests": requests}
        return with_spec(pod, containers=containers)

    return edit


def _requested(container: Object, name: str) -> int:
    given = container.get("resources") or {}
    return from_quantities(given.get("requests") or given.get("limits") or {}).get(name)


def _larger(cluster: Cluster, cause: Cause, name: str, amounts: Mapping[str, int]) -> Change:
    """One more Node, like this one but with as much as that."""
    node = cluster.get(NODES, name) or {}
    status, new = node.get("status") or {}, f"{name}-larger"
    allocatable = {
        **(status.get("allocatable") or {}),
        **{each: _quantity(each, value) for each, value in amounts.items()},
    }
    labels = {**labels_of(node), "kubernetes.io/hostname": new}
    put: Object = {
        **node,
        "metadata": {**metadata(node), "name": new, "uid": new, "labels": labels},
        "status": {**status, "allocatable": allocatable},
    }
    text = ", ".join(f"{_text(each, value)} {each}" for each, value in amounts.items())
    return Change(cause, f"there is another node like {name}, with {text}", put=(put,))


def _quantity(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)


def _text(name: str, amount: int) -> str:
    """An amount as people write it: `500m`, `4`, `8Gi`."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in ("memory", "ephemeral-storage"):
        for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount and amount % size == 0:
                return f"{amount // size}{unit}"
    return str(amount)


def ports(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    asked = set(cluster.scheduler.info(pod).shape.host_ports)
    wanted = ", ".join(f"{port}/{protocol}" for _, protocol, port in sorted(asked))
    changes = []
    for name in group.nodes[:MOST]:
        info = cluster.scheduler.snapshot.get(name)
        numbers = {(protocol, port) for _, protocol, port in asked}
        there = [
            each
            for each in (info.pods.values() if info is not None else ())
            if numbers & {(protocol, port) for _, protocol, port in each.shape.host_ports}
        ]
        without = tuple(filter(None, (cluster.get(PODS, each.key.name, each.key.namespace) for each in there)))
        if without:
            leaving = named("Pod", [str(key_of(each)) for each in without])
            changes.append(Change(Cause.HOST_PORTS, f"{leaving} on node {name} ends", without=without))
    what = f"{group.on}: another Pod has the host port {wanted}"
    who, action = "the author of the Pod", "use another host port, or none: a Service needs none"
    yield Rejection(Cause.HOST_PORTS, what, who, action, tuple(changes))


def spread(_cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    given = spec(pod).get("topologySpreadConstraints") or ()
    texts = [f"at most {each.get('maxSkew')} more in one {each.get('topologyKey')} than in another" for each in given]
    soft = [{**each, "whenUnsatisfiable": "ScheduleAnyway"} for each in given]
    change = Change(
        Cause.TOPOLOGY_SPREAD,
        "the Pod's topology spread constraints say ScheduleAnyway",
        edit=lambda each: with_spec(each, topologySpreadConstraints=soft),
    )
    what = f"{group.on}: the Pod's topology spread constraints forbid it: {'; '.join(texts) or group.reason}"
    who, action = "the author of the Pod", "allow more skew, say ScheduleAnyway, or make room in the other domains"
    yield Rejection(Cause.TOPOLOGY_SPREAD, what, who, action, (change,) if given else ())


def pod_affinity(cluster: Cluster, _pod: Object, group: Group) -> Iterator[Rejection]:
    """Either the Pod's own terms, or those of Pods that are there, and both may have to go."""
    changes = [
        Change(
            Cause.POD_AFFINITY,
            "the Pod has no Pod affinity and anti-affinity",
            edit=lambda each: _without_affinity(each, "podAffinity", "podAntiAffinity"),
        )
    ]
    for name in group.nodes[:MOST] if group.reasons != AFFINITY.reasons else ():
        info = cluster.scheduler.snapshot.get(name)
        changes += _each_ends(cluster, Cause.POD_AFFINITY, name, list(info.pods.values()) if info is not None else [])
    what = f"{group.on}: {group.reason.removeprefix('node(s) ')}"
    who, action = "the author of the Pod", "look at podAffinity and podAntiAffinity, and at the Pods that they select"
    yield Rejection(Cause.POD_AFFINITY, what, who, action, tuple(changes))


def _each_ends(cluster: Cluster, cause: Cause, node: str, infos: Sequence[PodInfo]) -> Iterator[Change]:
    for each in infos[:MOST]:
        found = cluster.get(PODS, each.key.name, each.key.namespace)
        if found is not None:
            yield Change(cause, f"Pod {each.key} on node {node} ends", without=(found,))


def volumes(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    what = f"{group.on}: {group.reason.removeprefix('node(s) ')}"
    who, action = "the author of the Pod, or who runs the storage", "look at the Pod's PersistentVolumeClaims"
    yield Rejection(Cause.VOLUMES, what, who, action, tuple(_volumes_there(cluster, pod)))


def _volumes_there(cluster: Cluster, pod: Object) -> Iterator[Change]:
    """Each claim that the Pod names and that has no volume, with one that every Node can use."""
    namespace = key_of(pod).namespace
    for volume in spec(pod).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        known = cluster.get(PERSISTENT_VOLUME_CLAIMS, name, namespace) if name else None
        if not name or spec(known or {}).get("volumeName"):
            continue
        meta = metadata(known or {"metadata": {"name": name, "namespace": namespace}})
        bound = {**(meta.get("annotations") or {}), "pv.kubernetes.io/bind-completed": "yes"}
        claim = {
            **PERSISTENT_VOLUME_CLAIMS.type_meta,
            "metadata": {**meta, "annotations": bound},
            "spec": {**spec(known or {}), "volumeName": f"for-{namespace}-{name}"},
            "status": {"phase": "Bound"},
        }
        there = {**PERSISTENT_VOLUMES.type_meta, "metadata": {"name": f"for-{namespace}-{name}"}, "spec": {}}
        text = f"PersistentVolumeClaim {name} {'is' if known else 'exists,'} bound to a volume"
        yield Change(Cause.VOLUMES, text, put=(claim, there))


def other(_cluster: Cluster, _pod: Object, group: Group) -> Iterator[Rejection]:
    yield by_plugin(f"{group.on}: {group.plugin}", group.reason)


def by_plugin(plugin: str, said: str) -> Rejection:
    """The words of a plugin about which nothing more is known here."""
    return Rejection(Cause.OTHER_PLUGIN, f"{plugin}: {said}", "", "see the text of the plugin")


Rejections: TypeAlias = Callable[[Cluster, Object, Group], Iterator[Rejection]]
"""What stands in the way of a Pod on a group of Nodes that one plugin rejects."""

BY_PLUGIN: Final[Mapping[str, Rejections]] = {
    "InterPodAffinity": pod_affinity,
    "NodeAffinity": affinity,
    "NodeName": other_name,
    "NodePorts": ports,
    "NodeResourcesFit": resources,
    "NodeUnschedulable": cordoned,
    "NodeVolumeLimits": volumes,
    "PodTopologySpread": spread,
    "VolumeBinding": volumes,
    "VolumeRestrictions": volumes,
    "VolumeZone": volumes,
}
