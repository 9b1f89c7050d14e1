"""How long `tollbar simulate` takes for many Pods on many Nodes, as its users run it.  It needs no API server."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.processes.peak import FILE
from benchmarks.stage import Stage
from benchmarks.workload import Row, Sample, Workload
from tollbar.cli import clusterdump
from tollbar.cli.clusterdump import ClusterDump
from tollbar.model.objects import Object

WALL = Row("from start to end", "s", "< 30; one shape < 60")
CPU = Row("CPU time", "s")
MEMORY = Row("most memory", "MiB", digits=0)
NODES: Final = 5_000
DRIVER: Final = "gpu.example.com"
_WITH_DEVICES: Final = 10
"""One Node in so many is tainted, and has devices."""
_SHAPES: Final = 10
"""So many times the Pods where all are of one shape."""
_SELECTOR: Final = f'device.attributes["{DRIVER}"].model == "h100"'


@dataclass(frozen=True, slots=True)
class Case:
    """`there` is in the cluster; `workloads` are simulated, of which so many Pods get a Node."""

    there: list[Object]
    workloads: list[Object]
    placed: int


def _node(number: int) -> Object:
    name = f"node-{number:05}"
    taint = {"key": DRIVER, "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"},
        },
        "spec": {"taints": [taint]} if number % _WITH_DEVICES == 0 else {},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }


def _slice(number: int) -> Object:
    name = f"node-{number:05}"
    devices = [{"name": f"gpu-{each}", "attributes": {"model": {"string": "a100"}}} for each in range(4)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    }


def _nodes(count: int) -> list[Object]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, *map(_node, range(count))]


def _deployment(name: str, replicas: int, cpu: str = "500m", **spec: Any) -> Object:
    container = {"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}},
        },
    }


def _claiming(name: str, replicas: int) -> Object:
    return _deployment(name, replicas, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])


def _of_devices(nodes: int, **wanted: Any) -> list[Object]:
    """Nodes with devices, the class, the template, and the rule that tolerates the taint."""
    exactly = {"deviceClassName": DRIVER, "count": 1, **wanted}
    expression = f'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "{DRIVER}"))'
    return [
        *_nodes(nodes),
        *map(_slice, range(0, nodes, _WITH_DEVICES)),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
        },
        {
            "apiVersion": "tollbar.dev/v1alpha1",
            "kind": "TolerationRule",
            "metadata": {"name": "gpu"},
            "spec": {
                "match": {"type": "CEL", "cel": {"expression": expression}},
                "tolerations": [{"key": DRIVER, "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    ]


def _mixed(nodes: int, pods: int) -> Case:
    plain, claiming = pods * 6 // 10, pods * 3 // 10
    too_large = _deployment("large", pods - plain - claiming, cpu="64")
    workloads = [_deployment("web", plain), _claiming("train", claiming), too_large]
    return Case(_of_devices(nodes), workloads, plain + claiming)


def _full(nodes: int, pods: int) -> Case:
    """No Node has room for a Pod, since each has one that takes three of its four CPUs."""
    running = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"there-{number}", "namespace": "default"},
            "spec": {
                "nodeName": f"node-{number:05}",
                "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}],
            },
        }
        for number in range(nodes)
    ]
    return Case([*_nodes(nodes), *running], [_deployment("web", pods, cpu="2")], 0)


def _spread(nodes: int, pods: int) -> Case:
    """Over a label that no Node has."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return Case(_nodes(nodes), [_deployment("web", pods, topologySpreadConstraints=[constraint])], 0)


def _unmatched(nodes: int, pods: int) -> Case:
    selecting = _of_devices(nodes, selectors=[{"cel": {"expression": _SELECTOR}}])
    return Case(selecting, [_claiming("train", pods)], 0)


CASES: Final[Mapping[str, Callable[[int, int], Case]]] = {
    "mixed": _mixed,
    "with claims": lambda nodes, pods: Case(_of_devices(nodes), [_claiming("train", pods)], pods),
    "too large": lambda nodes, pods: Case(_nodes(nodes), [_deployment("web", pods, cpu="64")], 0),
    "Nodes full": _full,
    "spread": _spread,
    "no device": _unmatched,
    "one shape": lambda nodes, pods: Case(_nodes(nodes), [_deployment("web", _SHAPES * pods)], _SHAPES * pods),
}


def write(case: Case, directory: Path) -> list[str]:
    """Write the cluster as a dump, and the workloads as a manifest; the arguments of `tollbar` for them."""
    dump, manifest = directory / "cluster.json", directory / "workloads.yaml"
    clusterdump.write(ClusterDump("2026-01-01T00:00:00Z", clusterdump.in_order(case.there), {}), dump)
    manifest.write_text("---\n".join(json.dumps(each) + "\n" for each in case.workloads))
    return ["simulate", "-f", str(manifest), "--cluster", str(dump), "-o", "json"]


async def measure(_stage: Stage, size: int, _turn: int) -> Sample:
    sample: dict[tuple[str, str], float] = {}
    for column, make in CASES.items():
        with tempfile.TemporaryDirectory(prefix="tollbar-benchmark-") as directory:
            case = make(NODES, size)
            for row, value in played(case, Path(directory)).items():
                sample[row, column] = value
    return sample


def played(case: Case, directory: Path) -> dict[str, float]:
    """Figures by the name of their row, of a process of its own."""
    arguments, told, peak = write(case, directory), directory / "told.json", directory / "peak"
    began = time.monotonic()
    with told.open("wb") as output:
        command = [sys.executable, "-m", "benchmarks.processes.peak", *arguments]
        environment = {**os.environ, FILE: str(peak)}
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2], env=environment
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    placed = sum(each["node"] is not None for each in json.loads(told.read_bytes())["pods"])
    if placed != case.placed:
        raise RuntimeError(f"{placed} Pods have a Node, not {case.placed}")
    return {WALL.name: wall, CPU.name: used.ru_utime + used.ru_stime, MEMORY.name: int(peak.read_text()) / 1024}


WORKLOAD: Final = Workload(
    name="simulate",
    title="Simulations of many Pods",
    about=f"""\
`tollbar simulate` in a process of its own, on a dump of {NODES:,} Nodes in three zones, of which one in ten is tainted
and has four devices. *Mixed*: six of ten Pods ask for room alone, three for a device, one for more than any Node has;
*with claims*: each for a device, whose taint a rule tolerates. Of the next four kinds no Pod gets a Node: they are too
large, the Nodes are full, they spread over a label that no Node has, or no device matches their selector. *One shape*:
{_SHAPES} times as many Pods of one Deployment. Time is from the start of the command, Python included, to its end. Most
memory is the largest resident set of the command itself (VmHWM), without that of the process that has started it.""",
    columns=tuple(CASES),
    rows=(WALL, CPU, MEMORY),
    size=1_000,
    things="Pods",
    measure=measure,
)
