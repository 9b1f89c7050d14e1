"""What a table about one scheduler plugin is made of: Pods, Nodes, a Handle, and the plugin's answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plugins.listing import Listing
from plugins.toys import done
from tollbar.model.objects import Object, key_of
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.framework.handle import Handle, Listers
from tollbar.scheduler.framework.status import Code, Status

NAMESPACE = "ml"
SHAPES = Shapes()


def obj(name: str = "it", *, namespace: str = "", labels: Mapping[str, str] | None = None, **fields: Any) -> Object:
    """Any API object, with these fields beside its metadata."""
    meta: Object = {"name": name, "uid": f"uid-of-{name}", "labels": dict(labels or {})}
    return {"metadata": {**meta, "namespace": namespace} if namespace else meta, **fields}


def pod(name: str = "web", *, namespace: str = NAMESPACE, **spec: Any) -> PodInfo:
    """A Pod with these fields in its spec; `status` and `priority` have their usual places."""
    status = spec.pop("status", {})
    return SHAPES.pod_info(
        obj(name, namespace=namespace, spec={"containers": [{"name": "main"}], **spec}, status=status)
    )


@dataclass
class Waiting:
    """What a QueueSort plugin compares: a Pod, and when it came into the queue, in seconds."""

    pod: PodInfo
    timestamp: float


def requesting(name: str = "web", **amounts: str) -> PodInfo:
    """A Pod with one container that requests so much."""
    return pod(name, containers=[{"name": "main", "resources": {"requests": amounts}}])


def claiming(*names: str) -> Object:
    """Fields of a Pod's spec: volumes of these PersistentVolumeClaims."""
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def node(
    name: str = "n",
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    images: Sequence[Object] = (),
    **spec: Any,
) -> Object:
    """A Node with room for ten Pods and nothing else, unless `allocatable` says so."""
    status = {"allocatable": {"pods": "10"} if allocatable is None else dict(allocatable), "images": list(images)}
    return obj(name, labels=labels, spec=spec, status=status)


def info(obj: Object, *pods: PodInfo) -> NodeInfo:
    """The Node with these Pods on it."""
    found = NodeInfo(key_of(obj).name)
    found.set_node(obj)
    for each in pods:
        found.add_pod(each)
    return found


class NoNominations:
    def nominated_pods(self, _node_name: str) -> Iterable[PodInfo]:
        return ()


def handle(
    snapshot: Snapshot | None = None, *, dra: Any = None, calls: Any = None, **listers: Iterable[Object]
) -> Handle:
    """A Handle on these objects, by the names of `Listers`."""
    return Handle(
        snapshot=Snapshot() if snapshot is None else snapshot,
        nominator=NoNominations(),
        dra=dra,
        calls=calls,
        now=lambda: 0.0,
        monotonic=lambda: 0.0,
        listers=Listers(**{kind: Listing(objects) for kind, objects in listers.items()}),
    )


def cluster(*nodes: NodeInfo) -> Snapshot:
    """A snapshot of these Nodes, with their Pods."""
    on_nodes = (replace(pod, node_name=each.name) for each in nodes for pod in each.pods.values())
    return Snapshot.of([each.node or {} for each in nodes], on_nodes)


def said(status: Status | None) -> tuple[str, ...]:
    """The code and the reasons; of success only that."""
    return ("Success",) if status is None else (status.code.value, *status.reasons)


def filtered(plugin: Any, pod: PodInfo, node: NodeInfo, *others: NodeInfo) -> tuple[str, ...]:
    """What PreFilter says if it says something, else Filter."""
    state = CycleState()
    if hasattr(plugin, "pre_filter"):
        answer = done(plugin.pre_filter(state, pod, cluster(node, *others)))
        if isinstance(answer, Status):
            return said(answer) if answer.code is not Code.SKIP else ("Skip",)
    return said(plugin.filter(state, pod, node))


def scored(plugin: Any, pod: PodInfo, *nodes: NodeInfo) -> list[int] | str:
    """The normalised scores, or `Skip`."""
    state = CycleState()
    if hasattr(plugin, "pre_score") and done(plugin.pre_score(state, pod, nodes)) is not None:
        return "Skip"
    scores = np.array([plugin.score(state, pod, each) for each in nodes], np.int64)
    if hasattr(plugin, "normalize_score"):
        plugin.normalize_score(state, pod, nodes, scores)
    return scores.tolist()


def hinted(plugin: Any, resource: EventResource, action: Action, pod: PodInfo, old: Any, new: Any) -> str:
    """What the plugin's hint for this event says; `not registered` if it has none."""
    for each in plugin.events_to_register():
        if each.event.resource is resource and action in each.event.action:
            return "Queue" if each.hint is None else str(each.hint(pod, old, new).value)
    return "not registered"
