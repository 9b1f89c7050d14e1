"""What following all devices and claims of a cluster costs, in a process of its own.  It needs no API server."""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.stage import Stage
from benchmarks.workload import Row, Sample, Workload
from tollbar.dra.allocator import Allocator
from tollbar.dra.manager import DraManager
from tollbar.model.objects import Object
from tollbar.model.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from tollbar.runtime import collector
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled

GROWTH: Final = (1, 4, 16)
COLUMNS: Final = tuple(f"x{times}" for times in GROWTH)
CACHED = Row("memory of the cached objects", "MiB", digits=0)
FOLLOWED = Row("memory that the manager adds", "MiB", digits=0)
STARTED = Row("following what has been listed", "s", digits=2)
CLAIM = Row("a claim is allocated or deallocated", "µs")
RESERVED = Row("a claim's status changes otherwise", "µs")
SLICE = Row("a slice changes", "µs")
RULE_OF_POOL = Row("a taint rule for a pool changes", "µs")
RULE_OF_ALL = Row("a taint rule for a device in any pool changes", "µs")
QUESTION = Row("allocating one claim on a Node, the first time", "µs")
AGAIN = Row("allocating one claim on a Node, again", "µs")

PER_SLICE: Final = 10
DRIVER: Final = "gpu.example.com"
_EVENTS: Final = 2_000
_RULES: Final = 20


async def measure(_stage: Stage, size: int, _turn: int) -> Sample:
    """So many devices where it has grown most, half of them allocated."""
    sample: dict[tuple[str, str], float] = {}
    for times, column in zip(GROWTH, COLUMNS, strict=True):
        devices = max(PER_SLICE, size * times // GROWTH[-1])
        for row, value in _in_a_process(devices).items():
            sample[row, column] = value
    return sample


def _in_a_process(devices: int) -> dict[str, float]:
    """Memory is that of a process that has done nothing else."""
    command = [sys.executable, "-m", "benchmarks.workloads.devices", str(devices)]
    told: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return told


def resource_slice(number: int) -> Object:
    """A Node's slice with ten devices, of which each has a uuid and an index of its own."""
    node = f"node-{number:05}"
    return _object(RESOURCE_SLICES, f"{node}-{DRIVER}-x7k2p", number) | {
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {
                        "model": {"string": "a100"},
                        "index": {"int": index},
                        "shared": {"bool": True},
                        "driverVersion": {"version": "12.4.0"},
                        "uuid": {"string": f"GPU-{number:08}-06c0-7d70-1a51-{index:012}"},
                        "numa": {"int": index % 2},
                        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index:02}"},
                    },
                    "capacity": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}},
                }
                for index in range(PER_SLICE)
            ],
        }
    }


def resource_claim(number: int, version: int = 1, device: int | None = None, turn: int = 0) -> Object:
    """A claim as it was generated for a Pod; with a device it is allocated, by its number among all."""
    made = _object(RESOURCE_CLAIMS, f"trainer-{number}-gpu-h4x2p", number, version)
    made["metadata"] |= {
        "namespace": f"team-{number % 50}",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": f"trainer-{number}",
                "uid": f"9b0bd9a4-7b5d-4d3a-8f0e-{number:012}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    made["spec"] = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    if device is not None:
        node = f"node-{device // PER_SLICE:05}"
        result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{device % PER_SLICE}"}
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        pod = {"resource": "pods", "name": f"trainer-{number}", "uid": f"9b0bd9a4-7b5d-4d3a-8f0e-{number + turn:012}"}
        made["status"] = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}},
            "reservedFor": [pod],
        }
    return made


def taint_rule(turn: int, **selector: str) -> Object:
    taint = {"key": "example.com/broken", "value": str(turn), "effect": "NoSchedule"}
    return _object(DEVICE_TAINT_RULES, "broken", 1) | {"spec": {"deviceSelector": selector, "taint": taint}}


def _object(resource: Resource, name: str, number: int, version: int = 1) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "uid": f"4cf8db2d-06c0-7d70-1a51-{number:012}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    }


def received(obj: Object) -> Object:
    """As from the network."""
    found: Object = orjson.loads(orjson.dumps(obj))
    return found


def _main(devices: int) -> dict[str, float]:
    count = devices // PER_SLICE
    store = filled([], KINDS)
    claims, slices, classes, _ = map(store, KINDS)
    classes.apply(_object(DEVICE_CLASSES, DRIVER, 1) | {"spec": {}})
    for number in range(10):  # so that what everything needs once is there
        dra_manager(filled([received(resource_slice(number)), received(resource_claim(number, 1, number))], KINDS))
    before = _memory()
    for number in range(count):
        slices.apply(received(resource_slice(number)))
    for number in range(devices // 2):
        claims.apply(received(resource_claim(number, 1, 2 * number)))
    cached = _memory()
    began = time.process_time()
    manager = dra_manager(store)
    started = time.process_time() - began
    told = {CACHED.name: cached - before, FOLLOWED.name: _memory() - cached, STARTED.name: started}
    gc.freeze()  # as a process does once it has listed everything
    return told | _costs(manager, devices, count)


def _costs(manager: DraManager, devices: int, count: int) -> dict[str, float]:
    claims, slices, _, rules = manager.stores
    numbers = range(0, devices // 2, max(1, devices // 2 // _EVENTS))
    deallocated = [received(resource_claim(number, 2)) for number in numbers]
    allocated = [received(resource_claim(number, 3, 2 * number)) for number in numbers]
    reserved = [received(resource_claim(number, 4, 2 * number, turn=1)) for number in numbers]
    some = range(0, count, max(1, count // _EVENTS))
    changed = []
    for number in some:
        each = received(resource_slice(number))
        each["spec"]["devices"][0]["attributes"]["index"]["int"] = 99
        changed.append(each)
    nodes = [{"kind": "Node", "metadata": {"name": f"node-{number:05}"}} for number in some]
    wanted = resource_claim(devices)
    allocator = Allocator(manager.inventory, manager.claims.state, manager.classes)

    def allocate(node: Object) -> None:
        if not allocator.allocate(node, [wanted]):
            raise RuntimeError("half of the devices are free, but none was allocated")

    told = {
        CLAIM.name: _microseconds(claims.apply, [*deallocated, *allocated]),
        RESERVED.name: _microseconds(claims.apply, reserved),
        RULE_OF_POOL.name: _microseconds(
            rules.apply, [taint_rule(turn, driver=DRIVER, pool=f"node-{turn:05}") for turn in range(_RULES)]
        ),
        RULE_OF_ALL.name: _microseconds(rules.apply, [taint_rule(turn, device="gpu-0") for turn in range(_RULES)]),
    }
    rules.discard(next(rules.keys()))
    told[SLICE.name] = _microseconds(slices.apply, changed)
    told[QUESTION.name] = _microseconds(allocate, nodes)
    told[AGAIN.name] = _microseconds(allocate, nodes)
    return told


def _microseconds(work: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    """CPU time of one call, on the average of all of them."""
    gc.collect()
    began = time.process_time()
    for each in arguments:
        work(each)
    return (time.process_time() - began) / len(arguments) * 1e6


def _memory() -> float:
    """Resident memory in MiB."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return resident * 4096 / 2**20


WORKLOAD: Final = Workload(
    name="devices",
    title="Following devices and claims",
    about="""\
All ResourceSlices, ResourceClaims and DeviceTaintRules of a cluster in the caches, and the manager that says which
devices are free. A Node has one slice with ten devices, each with seven attributes and two capacities; half of the
devices are allocated, to one claim each. *x16* is a cluster with the full number of devices, *x1* has a sixteenth of
it: a figure that grows with the columns grows with the cluster. Events are applied to the caches as a watch does it;
times are CPU time, memory is resident memory. *The first time* a Node is asked about since one of its slices or a taint
rule has changed, its pools are made.""",
    columns=COLUMNS,
    rows=(
        CACHED,
        FOLLOWED,
        STARTED,
        CLAIM,
        RESERVED,
        SLICE,
        RULE_OF_POOL,
        RULE_OF_ALL,
        QUESTION,
        AGAIN,
    ),
    size=100_000,
    things="devices",
    measure=measure,
)

if __name__ == "__main__":
    collector.tune()
    print(json.dumps(_main(int(sys.argv[1]))))
