"""What schedulers hold in memory of a large cluster, and how soon they are ready."""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import yaml
from objects.builders import namespace
from processes.measuring import memory, most_memory
from processes.stack import eventually

from benchmarks import apiserver
from benchmarks.processes.pauses import FILE
from benchmarks.stage import Stage, cpu_seconds
from benchmarks.workload import Row, Sample, Workload
from benchmarks.workloads.devices import resource_slice
from tollbar.devplane import kubeconfig
from tollbar.devplane.layout import SCHEDULER
from tollbar.model.objects import Object
from tollbar.model.resources import NAMESPACES, NODES, PODS, RESOURCE_SLICES, Resource

AT_REST = Row("memory at rest", "MiB", "200, and less than the peer's", digits=0)
MOST = Row("memory at most", "MiB", digits=0)
CPU = Row("CPU of the process until it was ready", "s", "10")
LISTED = Row("from the start to readiness", "s")
COLLECTION = Row("longest garbage collection", "ms", "50")

KUBERNETES, TOLLBAR = "kube-scheduler", "Tollbar"
EMPTY: Final = "nothing there"
_NODES_OF: Final = 10
"""So many Pods are on a Node."""
_DEVICES: Final = 8
_WORKLOADS: Final = 200
_NAMESPACES: Final = 20
_IMAGES: Final = 30
"""So many of all images are on a Node."""
_ALL_IMAGES: Final = 300
_RESTING_SECONDS: Final = 10.0
_START_SECONDS: Final = 180.0


def _word(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _uid(*parts: object) -> str:
    unique = _word(*parts)
    return f"{unique[:8]}-{unique[8:12]}-{unique[12:16]}-{unique[16:20]}-{unique[20:32]}"


def _written(manager: str, fields: Object) -> list[Object]:
    return [{"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}]


def node(number: int) -> Object:
    """A Node as a kubelet keeps it up to date, with images, some of which are on others."""
    name = f"node-{number:05}"
    images = [(number * 7 + place * 11) % _ALL_IMAGES for place in range(_IMAGES)]
    room = {"cpu": "63770m", "memory": "260000000Ki", "pods": "110", "ephemeral-storage": "95Gi"}
    beat = {"lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pressure = ("MemoryPressure", "DiskPressure", "PIDPressure")
    return {
        "metadata": {
            "name": name,
            "uid": _uid("node", number),
            "resourceVersion": str(100_000 + number),
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
                "topology.kubernetes.io/region": "region",
                "node.kubernetes.io/instance-type": "large",
            },
            "annotations": {"csi.volume.kubernetes.io/nodeid": f'{{"csi.example.com":"i-{_word(number)[:17]}"}}'},
            "managedFields": _written("kubelet", {"f:status": {"f:allocatable": {"f:cpu": {}}}}),
        },
        "spec": {"podCIDR": f"10.{number // 256}.{number % 256}.0/24", "providerID": f"example:///{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {"type": each, "status": "False", **beat, "reason": f"No{each}", "message": "enough"}
                for each in pressure
            ]
            + [{"type": "Ready", "status": "True", **beat, "reason": "KubeletReady", "message": "ready"}],
            "images": [
                {
                    "names": [
                        f"registry.example.com/team/image-{each}@sha256:{_word(each)}",
                        f"registry.example.com/team/image-{each}:v1.{each}.0",
                    ],
                    "sizeBytes": 10_000_000 + each * 12_345,
                }
                for each in images
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"machineID": _word(number)[:32], "kubeletVersion": "v1.37.0"},
        },
    }


def pod(number: int) -> Object:
    """A Pod of a Deployment that runs on a Node."""
    kind = number % _WORKLOADS
    app, template = f"app-{kind}", _word(kind)[:9]
    started = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    evicted = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    reached = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "metadata": {
            "name": f"{app}-{template}-{_word(number)[:5]}",
            "generateName": f"{app}-{template}-",
            "namespace": f"team-{kind % _NAMESPACES}",
            "uid": _uid("pod", number),
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": started,
            "labels": {"app.kubernetes.io/name": app, "pod-template-hash": template},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": _uid(kind), "controller": True}
            ],
            "managedFields": _written("kubelet", {"f:status": {"f:phase": {}, "f:podIP": {}}}),
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": f"node-{number // _NODES_OF:05}",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "serviceAccountName": "default",
            "tolerations": [{"key": f"node.kubernetes.io/{each}", **evicted} for each in ("not-ready", "unreachable")],
            "volumes": [
                {
                    "name": f"kube-api-access-{_word(number)[:5]}",
                    "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]},
                }
            ],
            "containers": [
                {
                    "name": "main",
                    "image": f"registry.example.com/team/image-{kind}:v1.{kind}.0",
                    "env": [{"name": f"VARIABLE_{each}", "value": _word(kind, each)[:40]} for each in range(10)],
                    "resources": resources,
                    "terminationMessagePath": "/dev/termination-log",
                }
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": started,
            "podIP": "10.1.2.3",
            "conditions": [{"type": each, "status": "True", "lastTransitionTime": started} for each in reached],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "containerID": f"containerd://{_word(number)}",
                    "allocatedResources": resources["requests"],
                    "resources": resources,
                }
            ],
        },
    }


def devices_of(number: int) -> Object:
    made = resource_slice(number)
    devices = made["spec"]["devices"][:_DEVICES]
    return {"metadata": made["metadata"], "spec": {**made["spec"], "devices": devices}}


def _some(count: int, make: Callable[[int], Object]) -> tuple[int, apiserver.Texts]:
    def texts(start: int, end: int) -> Sequence[bytes]:
        return [orjson.dumps(make(number)) for number in range(start, end)]

    return count, texts


def objects(pods: int) -> Mapping[Resource, tuple[int, apiserver.Texts]]:
    """A cluster with so many Pods."""
    nodes = -(-pods // _NODES_OF)
    return {
        NAMESPACES: apiserver.given(*(namespace(f"team-{number}") for number in range(_NAMESPACES))),
        NODES: _some(nodes, node),
        PODS: _some(pods, pod),
        RESOURCE_SLICES: _some(nodes, devices_of),
    }


async def measure(stage: Stage, size: int, turn: int) -> Sample:
    sample: dict[tuple[str, str], float] = {}
    starts = {TOLLBAR: _tollbar, KUBERNETES: _kube_scheduler}
    for name in (TOLLBAR, KUBERNETES) if turn % 2 else (KUBERNETES, TOLLBAR):
        for column, pods in ((name, size), (f"{name}, {EMPTY}", 0)):
            for row, value in (await _measure(stage, starts[name], pods)).items():
                sample[row.name, column] = value
    return sample


@dataclass(frozen=True)
class _Started:
    pid: int
    stop: Callable[[], Any]
    figures: Callable[[], Mapping[Row, float]] = dict


async def _measure(stage: Stage, start: Callable[[Stage, Path], _Started], pods: int) -> dict[Row, float]:
    async with apiserver.serving(objects(pods)) as server:
        file = stage.stack.directory / "large.kubeconfig"
        kubeconfig.write(file, kubeconfig.config(server=server.url, authority=b"", token=stage.stack.directory.name))
        began = time.monotonic()
        started = await asyncio.to_thread(start, stage, file)
        figures = {LISTED: time.monotonic() - began, CPU: cpu_seconds(started.pid)}
        await asyncio.sleep(_RESTING_SECONDS)
        figures |= {AT_REST: memory(started.pid) / 2**20, MOST: most_memory(started.pid) / 2**20}
        await asyncio.to_thread(started.stop)
        return figures | dict(started.figures())


def _tollbar(stage: Stage, file: Path) -> _Started:
    pause = stage.stack.directory / "pause"
    os.environ[FILE] = str(pause)
    process = stage.stack.scheduler(module="benchmarks.processes.pauses", verbosity=0, kubeconfig=file, ready=False)
    eventually(process.is_ready, seconds=_START_SECONDS, what="the scheduler ready")
    return _Started(process.child.pid, process.stop, lambda: {COLLECTION: float(pause.read_text())})


def _kube_scheduler(stage: Stage, file: Path) -> _Started:
    plane = stage.stack.plane
    configuration = stage.stack.directory / "footprint.yaml"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    connection = {"kubeconfig": str(file), "qps": 5000, "burst": 5000}
    election = {"leaderElect": False}
    configuration.write_text(yaml.safe_dump({**header, "clientConnection": connection, "leaderElection": election}))
    plane.options = replace(plane.options, flags={**plane.options.flags, SCHEDULER: (f"--config={configuration}",)})
    plane.start_component(SCHEDULER)
    return _Started(plane.pids[SCHEDULER], partial(plane.stop_component, SCHEDULER))


WORKLOAD: Final = Workload(
    name="footprint",
    title="Memory of the scheduler",
    about=f"""\
Both schedulers run beside an API server that lists Pods, each of which has a Node, and {_NODES_OF} of them the same
one, of {_WORKLOADS} workloads; Nodes with {_IMAGES} images and a ResourceSlice of {_DEVICES} devices with seven
attributes each, one of which is a uuid. It answers in JSON, which kube-scheduler would get as protobuf from a real
one. Nothing is scheduled. Memory is the resident set {_RESTING_SECONDS:.0f} s after readiness. What this means for
limits is in [memory](operations/memory.md).

*What misses, and why*: CPU time depends on the machine. On an AMD EPYC (2026-11-27) Tollbar was ready after 7.6 s of
CPU, kube-scheduler after 7.7. The code of that day took 3.23 s to fill the caches with 1,500 Nodes and 15,000 Pods in a
quiet minute of the machine of this table, today's 3.43 (best of four each). The longest garbage collection is one of
50,000 objects while modules are imported, before anything is listed: 29 ms in such a minute.

That it does not grow as long as a scheduler runs is a test in `make test-long`: half an hour in which Nodes,
ResourceSlices, claims and Pods come and go on a real control plane (`tests/faults/test_soak.py`). It fails if the
resident set grows by 100 KiB a minute or more over the second half, if a Pod was bound that only the flush of the queue
had woken, or if one that fits still waits at the end. On 2026-11-28, beside other work, it grew by 27 KiB a minute, to
93 MiB, while 11,485 Pods were bound, and no Pod was flushed. Before, it grew by 97: what cached objects share was known
by texts to each of which orjson left 4 KB.""",
    columns=(KUBERNETES, TOLLBAR, f"{KUBERNETES}, {EMPTY}", f"{TOLLBAR}, {EMPTY}"),
    rows=(AT_REST, MOST, CPU, LISTED, COLLECTION),
    size=50_000,
    things="Pods",
    measure=measure,
)
