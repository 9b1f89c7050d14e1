"""The objects that a fake kubelet writes: Nodes, their Leases, the status of a running Pod, ResourceSlices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tollbar.model import conditions, timestamps
from tollbar.model.objects import Object, metadata, spec, uid_of

LEASE_NAMESPACE: Final = "kube-node-lease"
DEVICES_PER_SLICE: Final = 64
"""The API takes 128, but only half of it when a device has taints."""

_CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"}
_VERSION: Final = "v1.37.0"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A Node to register.  `capacity` adds to, or replaces, the default amounts of cpu, memory and Pods."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)


def node(wanted: NodeSpec, ip: str, now: float) -> Object:
    """A Ready Node as its kubelet would register it."""
    moment = timestamps.time(now)
    capacity = {**_CAPACITY, **wanted.capacity}
    labels = {
        "kubernetes.io/hostname": wanted.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **wanted.labels,
    }
    conditions = [
        _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", moment),
        _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", moment),
        _condition("PIDPressure", "False", "KubeletHasSufficientPID", moment),
        _condition("Ready", "True", "KubeletReady", moment),
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": wanted.name, "labels": labels},
        "spec": {"taints": list(wanted.taints)},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{**each, "lastHeartbeatTime": moment} for each in conditions],
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": wanted.name}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "none://0",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": _VERSION,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "none",
                "systemUUID": "",
            },
        },
    }


def lease(name: str, now: float) -> Object:
    """The heartbeat of a Node."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": timestamps.micro_time(now)},
    }


def allocatable(node: Object) -> Object | None:
    """A merge patch of the status of a Node whose capacity somebody has changed, as one does for extended resources:
    all of it is allocatable.  None if it is already.
    """
    status = node.get("status") or {}
    capacity, there = status.get("capacity") or {}, status.get("allocatable") or {}
    gone = dict.fromkeys(there.keys() - capacity.keys())
    return {"status": {"allocatable": {**capacity, **gone}}} if capacity != there else None


def pod_address(number: int) -> str:
    """The number-th address of 10.128.0.0/9, counted from 1."""
    return f"10.{128 + (number >> 16) % 128}.{number >> 8 & 255}.{number & 255}"


def node_address(number: int) -> str:
    """The number-th address of 172.16.0.0/12, counted from 1."""
    return f"172.{16 + (number >> 16) % 16}.{number >> 8 & 255}.{number & 255}"


def pre_stop(pod: Object) -> float:
    """Seconds that a Pod that is being deleted goes on running: for as long as its preStop hooks sleep, but no longer
    than its grace period.
    """
    if (pod.get("status") or {}).get("phase") != "Running":
        return 0.0
    hooks = [((each.get("lifecycle") or {}).get("preStop") or {}) for each in spec(pod).get("containers") or ()]
    asleep = max(((hook.get("sleep") or {}).get("seconds") or 0 for hook in hooks), default=0)
    return float(min(asleep, metadata(pod).get("deletionGracePeriodSeconds") or 0))


def running(pod: Object, ip: str, host_ip: str, now: float) -> Object:
    """A strategic merge patch of the status of a Pod whose containers all run; a Conflict if the Pod has changed."""
    moment = timestamps.time(now)
    wanted = spec(pod)
    met = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"]
    if not conditions.is_true(pod, "PodScheduled"):
        met.append("PodScheduled")  # it was created with its Node
    return {
        "metadata": {"uid": uid_of(pod), "resourceVersion": metadata(pod)["resourceVersion"]},
        "status": {
            "phase": "Running",
            "startTime": moment,
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [_condition(kind, "True", "", moment) for kind in met],
            "initContainerStatuses": [
                _container(each, _finished(moment)) for each in wanted.get("initContainers") or ()
            ],
            "containerStatuses": [
                _container(each, {"running": {"startedAt": moment}}) for each in wanted.get("containers") or ()
            ],
        },
    }


def finished(pod: Object, now: float) -> Object:
    """A strategic merge patch of the status of a Pod whose containers have all ended with exit code 0."""
    moment = timestamps.time(now)
    return {
        "metadata": {"uid": uid_of(pod)},
        "status": {
            "phase": "Succeeded",
            "conditions": [_condition(kind, "False", "PodCompleted", moment) for kind in ("ContainersReady", "Ready")],
            "containerStatuses": [
                {**_container(each, _finished(moment)), "ready": False, "started": False}
                for each in spec(pod).get("containers") or ()
            ],
        },
    }


def slices(node_name: str, driver: str, devices: Sequence[Object], generation: int) -> list[Object]:
    """One generation of the pool of a Node's devices, in as many ResourceSlices as it takes (at least one)."""
    starts = range(0, max(1, len(devices)), DEVICES_PER_SLICE)
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node_name}-{driver}-{index}"},
            "spec": {
                "driver": driver,
                "nodeName": node_name,
                "pool": {"name": node_name, "generation": generation, "resourceSliceCount": len(starts)},
                "devices": list(devices[start : start + DEVICES_PER_SLICE]),
            },
        }
        for index, start in enumerate(starts)
    ]


def _condition(kind: str, status: str, reason: str, moment: str) -> Object:
    condition = {"type": kind, "status": status, "lastTransitionTime": moment}
    return {**condition, "reason": reason} if reason else condition


def _finished(moment: str) -> Object:
    return {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}}


def _container(container: Object, state: Object) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image") or "",
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": state,
    }
