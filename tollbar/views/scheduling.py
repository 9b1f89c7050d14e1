"""What a scheduler keeps of a cluster, and what its plugins read of that."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tollbar.model import pods, resources
from tollbar.model.objects import Object, key_of, spec
from tollbar.runtime.caches import Cached
from tollbar.runtime.projection import Keep
from tollbar.runtime.sharing import sharing
from tollbar.runtime.store import Store
from tollbar.scheduler.cache import nodeinfo, podinfo
from tollbar.scheduler.framework.events import EventResource
from tollbar.scheduler.framework.handle import Listers
from tollbar.views import kinds

_NODE_PARTS: Final = frozenset(
    [("status", "images", "*"), ("status", "conditions"), ("status", "allocatable"), ("spec", "taints")]
)


_CONTAINERS: Final = (("spec", "containers"), ("spec", "initContainers"))
_WAITING: Final = podinfo.SHARED.difference(_CONTAINERS) | {
    (*containers, "*", name)
    for containers in _CONTAINERS
    for name in ("args", "command", "env", "envFrom", "livenessProbe", "ports", "readinessProbe", "resources")
}
"""What Pods of one template have in common that wait for a Node, of which all is kept: not the mounts of containers, in
which the volume of the token has a name of its own."""


def _for_scheduling(pod: Object) -> Object:
    """What the scheduler reads of a Pod; what Pods of one template have in common is kept once."""
    kept: Object = sharing(podinfo.projected(pod), podinfo.SHARED if pods.is_bound(pod) else _WAITING)
    return kept


def _takes_room(pod: Object) -> bool:
    return not pods.is_terminal(pod)


def _node_for_scheduling(node: Object) -> Object:
    kept: Object = sharing(nodeinfo.projected(node), _NODE_PARTS)
    return kept


def selector_label(service: Object) -> Iterable[tuple[str, str, str]]:
    """Namespace, key and value of one label that the Service's selector demands; nothing of one without a selector."""
    selector = spec(service).get("selector")
    if selector:
        yield (key_of(service).namespace, *min(selector.items()))


def attached_node(attachment: Object) -> Iterable[str]:
    yield spec(attachment).get("nodeName") or ""


SCHEDULABLE_PODS: Final = Cached(
    "schedulable pods",
    resources.PODS,
    project=_for_scheduling,
    indexers={"claim": kinds.used_claims},
    accepts=_takes_room,
    flat=podinfo.flat_if_bound,
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)
"""All Pods that need, or take, room on a Node: kube-scheduler's view of them."""
NODES: Final = Cached(
    "nodes",
    resources.NODES,
    project=_node_for_scheduling,
)
_SPEC: Final = Keep(frozenset({"spec"}))
SERVICES: Final = Cached("services", resources.SERVICES, project=_SPEC, indexers={"selector": selector_label})
REPLICATION_CONTROLLERS: Final = Cached("replication controllers", resources.REPLICATION_CONTROLLERS, project=_SPEC)
REPLICA_SETS: Final = Cached("replica sets", resources.REPLICA_SETS, project=_SPEC)
STATEFUL_SETS: Final = Cached("stateful sets", resources.STATEFUL_SETS, project=_SPEC)
POD_DISRUPTION_BUDGETS: Final = Cached(
    "pod disruption budgets", resources.POD_DISRUPTION_BUDGETS, project=Keep(frozenset({"spec", "status"}))
)
PERSISTENT_VOLUMES: Final = Cached(
    "persistent volumes", resources.PERSISTENT_VOLUMES, project=Keep(frozenset({"spec", "status"}))
)
PERSISTENT_VOLUME_CLAIMS: Final = Cached(
    "persistent volume claims", resources.PERSISTENT_VOLUME_CLAIMS, project=Keep(frozenset({"spec", "status"}))
)
STORAGE_CLASSES: Final = Cached("storage classes", resources.STORAGE_CLASSES)
CSI_NODES: Final = Cached("csi nodes", resources.CSI_NODES)
CSI_DRIVERS: Final = Cached("csi drivers", resources.CSI_DRIVERS)
VOLUME_ATTACHMENTS: Final = Cached("volume attachments", resources.VOLUME_ATTACHMENTS, indexers={"node": attached_node})


def listers(store: Callable[[Cached], Store]) -> Listers:
    """`store` is `Caches.store`, or `lookup.filled` for given objects."""
    return Listers(
        pods=store(SCHEDULABLE_PODS),
        namespaces=store(kinds.NAMESPACES),
        services=store(SERVICES),
        replication_controllers=store(REPLICATION_CONTROLLERS),
        replica_sets=store(REPLICA_SETS),
        stateful_sets=store(STATEFUL_SETS),
        pod_disruption_budgets=store(POD_DISRUPTION_BUDGETS),
        persistent_volumes=store(PERSISTENT_VOLUMES),
        persistent_volume_claims=store(PERSISTENT_VOLUME_CLAIMS),
        storage_classes=store(STORAGE_CLASSES),
        csi_nodes=store(CSI_NODES),
        csi_drivers=store(CSI_DRIVERS),
        volume_attachments=store(VOLUME_ATTACHMENTS),
        pod_groups=store(kinds.POD_GROUPS),
    )


def others(store: Callable[[Cached], Store]) -> Mapping[EventResource, Store]:
    """The kinds but Pods and Nodes whose changes may let a Pod be scheduled."""
    return {
        EventResource.RESOURCE_CLAIM: store(kinds.CLAIMS_WITH_ALLOCATION),
        EventResource.RESOURCE_SLICE: store(kinds.SLICES),
        EventResource.DEVICE_CLASS: store(kinds.CLASSES),
        EventResource.POD_GROUP: store(kinds.POD_GROUPS),
        EventResource.PERSISTENT_VOLUME: store(PERSISTENT_VOLUMES),
        EventResource.PERSISTENT_VOLUME_CLAIM: store(PERSISTENT_VOLUME_CLAIMS),
        EventResource.STORAGE_CLASS: store(STORAGE_CLASSES),
        EventResource.CSI_NODE: store(CSI_NODES),
        EventResource.CSI_DRIVER: store(CSI_DRIVERS),
        EventResource.VOLUME_ATTACHMENT: store(VOLUME_ATTACHMENTS),
    }
