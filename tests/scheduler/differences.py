"""All known differences from what kube-scheduler decides; what no row explains is a bug."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from scheduler.comparing import Difference
from scheduler.world import DEVICES, STARTED, Cluster, World

from tollbar.model import claims
from tollbar.model.objects import Object, key_of


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that is meant to be, which `explains` recognizes in a random cluster.

    `what` of `example` is `ours` here and `theirs` there.
    """

    id: str
    sentence: str
    reason: str
    example: Cluster
    what: str
    ours: Any
    theirs: Any
    explains: Callable[[Difference], bool]


def _small(plugins: Iterable[str]) -> World:
    world = World()
    world.nodes(1, 1)
    world.cluster.limit(set(plugins))
    return world


def _two_on_one_port() -> Cluster:
    """A Pod that can preempt one of two Pods, which both use the port that it wants."""
    world = _small({"NodePorts", "DefaultPreemption"})
    port = {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    for priority, node in ((0, "node-0"), (100, "node-0"), (10, "")):
        world.pod(node, "default", priority=priority, containers=[{"name": "main", "image": "web", "ports": [port]}])
    return world.cluster


def _has_a_port_of_two(found: Difference) -> bool:
    users = Counter(
        (pod["spec"].get("nodeName"), *port)
        for pod in found.cluster.pods
        for port in {_port(each) for each in _ports(pod["spec"])}
        if "nodeName" in pod["spec"]
    )
    return "NodePorts" in found.cluster.plugins and max(users.values(), default=0) > 1 and _is_about_victims(found)


def _is_about_victims(found: Difference) -> bool:
    return found.plugin == "DefaultPreemption" or (found.what == "message" and "preemption:" in found.theirs)


def _ports(body: Object) -> list[Object]:
    containers = [*body["containers"], *body.get("initContainers", ())]
    return [port for container in containers for port in container.get("ports", ()) if port.get("hostPort")]


def _port(given: Object) -> tuple[str, str, int]:
    return given.get("hostIP") or "0.0.0.0", given["protocol"], given["hostPort"]  # noqa: S104


def _equally_important() -> Cluster:
    """A Pod that needs the place of one of thirteen equal Pods, while a fourteenth is more important."""
    world = _small({"NodeResourcesFit", "DefaultPreemption"})
    world.cluster.nodes[0]["status"]["allocatable"]["pods"] = "14"
    for priority, node in (*[(0, "node-0")] * 13, (1, "node-0"), (10, "")):
        world.pod(node, "default", priority=priority, containers=[EMPTY])
    for pod in world.cluster.pods[:14]:
        pod["status"]["startTime"] = STARTED[0]
    return world.cluster


EMPTY: Final[Object] = {"name": "main", "image": "web"}
STABLE: Final = 12
"""Go sorts more than so many elements in such a way that equal ones may change places."""


def _has_many_equals(found: Difference) -> bool:
    equals = Counter(
        (pod["spec"]["nodeName"], pod["spec"].get("priority"), pod["status"].get("startTime"))
        for pod in found.cluster.pods
        if "nodeName" in pod["spec"]
    )
    nodes = Counter(pod["spec"].get("nodeName") for pod in found.cluster.pods)
    return _is_about_victims(found) and any(
        count > 1 and nodes[node] > STABLE for (node, _, _), count in equals.items()
    )


def _unbound() -> Cluster:
    world = _small({"VolumeBinding"})
    world.add("storage.k8s.io/v1", "StorageClass", "late", "", provisioner="example.com", volumeBindingMode=LATE)
    body = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
    world.add("v1", "PersistentVolumeClaim", "data", spec=body, status={"phase": "Pending"})
    world.pod("", "default", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    return world.cluster


def _in_tree() -> Cluster:
    """A Pod with a disk, on a Node to which the CSI driver of such disks attaches none."""
    world = _small({"NodeVolumeLimits"})
    driver = {"name": "pd.csi.storage.gke.io", "nodeID": "node-0", "topologyKeys": None, "allocatable": {"count": 0}}
    world.add("storage.k8s.io/v1", "CSINode", "node-0", "", spec={"drivers": [driver]})
    world.pod("", "default", volumes=[{"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}])
    return world.cluster


def _counts_disks(found: Difference) -> bool:
    pod = next(each for each in found.cluster.pods if str(key_of(each)) == found.pod)
    named = {name for volume in pod["spec"].get("volumes", ()) for name in volume}
    return found.plugin == "NodeVolumeLimits" and bool(named & {"gcePersistentDisk", "awsElasticBlockStore"})


def _balanced_alone() -> Cluster:
    """Only NodeResourcesBalancedAllocation has to do with the devices that a Pod requests by an extended resource."""
    world = _small({"NodeResourcesBalancedAllocation"})
    world.nodes(1, 1)
    for number, node in enumerate(world.cluster.nodes):
        node["metadata"]["name"] = f"node-{number}"
        node["status"] = {"allocatable": {"memory": "1Gi"}}
    world.add("resource.k8s.io/v1", "DeviceClass", "cards", "", spec={"extendedResourceName": "example.com/card"})
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DEVICES, "pool": pool, "nodeName": "node-0", "devices": [{"name": "dev-0"}]}
    world.add("resource.k8s.io/v1", "ResourceSlice", "slice", "", spec=body)
    counted = [{"name": name, "weight": 1} for name in ("memory", "example.com/card")]
    world.cluster.arguments["NodeResourcesBalancedAllocation"] = {"resources": counted}
    requests = {"requests": {"example.com/card": "1"}}
    world.pod("", "default", containers=[{"name": "main", "image": "web", "resources": requests}])
    return world.cluster


def _lacks_who_hears_of_classes(found: Difference) -> bool:
    is_balance = found.plugin == "NodeResourcesBalancedAllocation"
    return is_balance and found.cluster.plugins.keys().isdisjoint({"NodeResourcesFit", "DynamicResources"})


LATE: Final = "WaitForFirstConsumer"
_REFUSED: Final = (
    "pod has PersistentVolumeClaims that wait for their first consumer, which this scheduler does not bind: [data]"
)


def _waits_for_a_volume(found: Difference) -> bool:
    return "wait for their first consumer" in str(found.ours)


def _twice() -> Cluster:
    """A Pod that refers twice to a claim for one device, where there is one device."""
    world = _small({"DynamicResources"})
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    body = {
        "driver": "devices.example.com",
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-0",
        "devices": [{"name": "dev-0"}],
    }
    world.add("resource.k8s.io/v1", "DeviceClass", "any", "", spec={})
    world.add("resource.k8s.io/v1", "ResourceSlice", "slice", "", spec=body)
    world.add(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "one",
        spec={"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    )
    world.pod("", "default", resourceClaims=[{"name": each, "resourceClaimName": "one"} for each in ("a", "b")])
    return world.cluster


def _names_a_claim_twice(found: Difference) -> bool:
    (pod,) = (each for each in found.cluster.pods if str(key_of(each)) == found.pod)
    names = Counter(name for _, name in claims.resolved(pod))
    return "DynamicResources" in found.cluster.plugins and max(names.values(), default=0) > 1


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        "claim named twice",
        "A Pod that refers to a ResourceClaim twice gets its devices once",
        "Kubernetes looks for devices for each reference, and never binds the Pod: the claim is allocated already",
        _twice(),
        "filter node-0",
        {"code": "Success", "plugin": "", "reasons": []},
        {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "DynamicResources",
            "reasons": ["cannot allocate all claims"],
        },
        _names_a_claim_twice,
    ),
    Known(
        "host port of two Pods",
        "A host port that two Pods of a Node use is free once both are gone",
        "In Kubernetes it is free once either of them is",
        _two_on_one_port(),
        "nominated",
        "",
        "node-0",
        _has_a_port_of_two,
    ),
    Known(
        "equally important Pods",
        "Of Pods with the same priority and start, those that the scheduler heard of first are spared by preemption",
        "In Kubernetes, that holds up to 12 Pods of a Node, which it sorts in a stable way",
        _equally_important(),
        "victims",
        {"node-0": ["default/pod-12"]},
        {"node-0": ["default/pod-1"]},
        _has_many_equals,
    ),
    Known(
        "classes that no plugin waits for",
        "NodeResourcesBalancedAllocation counts devices that an extended resource stands for",
        "Kubernetes hears of DeviceClasses only where NodeResourcesFit or DynamicResources is enabled, too",
        _balanced_alone(),
        "raw scores node-0",
        50,
        75,
        _lacks_who_hears_of_classes,
    ),
    Known(
        "disks of replaced plugins",
        "Disks that a Pod names by an in-tree plugin do not count among the volumes of a CSI driver",
        "In Kubernetes they count for the driver that has replaced the plugin",
        _in_tree(),
        "filter node-0",
        {"code": "Success", "plugin": "", "reasons": []},
        {"code": "Unschedulable", "plugin": "NodeVolumeLimits", "reasons": ["node(s) exceed max volume count"]},
        _counts_disks,
    ),
    Known(
        "unbound volumes",
        "A Pod is refused while one of its PersistentVolumeClaims waits for its first consumer",
        "Kubernetes chooses a volume together with the Node, or has one provisioned",
        _unbound(),
        "preFilter",
        {"code": "UnschedulableAndUnresolvable", "plugin": "VolumeBinding", "reasons": [_REFUSED], "nodes": None},
        {"code": "Success", "plugin": "", "reasons": [], "nodes": None},
        _waits_for_a_volume,
    ),
)


def explained(found: Difference) -> str | None:
    """The id of the known difference that this is, if it is one."""
    return next((each.id for each in KNOWN if each.explains(found)), None)
