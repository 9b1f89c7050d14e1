"""What allocating devices costs for one Node, compared with Kubernetes' own allocator.  It needs no API server."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from dra.world import EVERYWHERE, GPU, NIC, OURS, Problem, World, ask, consumes, counter_set, exactly, first_of, here

from benchmarks.stage import Stage
from benchmarks.workload import Row, Sample, Workload
from tollbar.devplane.real.build import locate
from tollbar.devplane.real.oracle import Oracle
from tollbar.dra import AllocatedState, Allocator, Inventory, Selectors
from tollbar.model.objects import Object

KUBERNETES, COLD, TOLLBAR = COLUMNS = ("kube-scheduler's allocator", "Tollbar, cold", "Tollbar")


def _gpus(count: int) -> list[Object]:
    return [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "model": {"string": "h100" if number % 2 else "a100"},
                "index": {"int": number},
                "driverVersion": {"version": "12.4.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:0{number // 4}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(count)
    ]


def _cluster(nodes: int, devices: list[Object], counters: list[Object] | None = None) -> World:
    """Nodes with the same GPUs each."""
    world = World()
    for name in world.nodes(nodes, nodes):
        count = 2 if counters else 1
        if counters:
            world.slice(GPU, name, here(name), count, sharedCounters=counters)
        world.slice(GPU, name, here(name), count, devices=devices)
    return world


def one_selector() -> Problem:
    world = _cluster(100, _gpus(10))
    world.claim([exactly("gpu", "gpu", 1, [f'{OURS}.model == "h100"'])])
    return world.problem


def one_root() -> Problem:
    world = _cluster(20, _gpus(8))
    match: Object = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}
    world.claim([exactly("gpus", "gpu", 4)], [match, {"distinctAttribute": f"{GPU}/index"}])
    return world.problem


def partitions() -> Problem:
    sizes = [(f"{size}g-{number}", size) for size in (1, 2, 4, 8) for number in range(8 // size)]
    devices: list[Object] = [
        {
            "name": f"part-{name}",
            "attributes": {"size": {"int": size}},
            "consumesCounters": [consumes("card", memory=f"{size * 10}Gi", slices=size)],
        }
        for name, size in sizes
    ]
    world = _cluster(20, devices, [counter_set("card", memory="80Gi", slices=8)])
    for index, (spec, device) in enumerate(world.devices()):
        if index % len(sizes) in (0, 8):
            world.hold_device(spec, device)
    world.claim([exactly("large", "gpu", 1, [f"{OURS}.size == 4"]), exactly("small", "gpu", 1, [f"{OURS}.size <= 2"])])
    return world.problem


def shares() -> Problem:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    devices: list[Object] = [
        {
            "name": f"nic-{number}",
            "allowMultipleAllocations": True,
            "capacity": {"bandwidth": {"value": "40Gi", "requestPolicy": policy}},
        }
        for number in range(4)
    ]
    world = _cluster(20, devices)
    for index, (spec, device) in enumerate(world.devices()):
        world.hold_device(
            spec, device, shareID=f"00000000-0000-4000-8000-{index:012}", consumedCapacity={"bandwidth": "20Gi"}
        )
    more = {"capacity": {"requests": {"bandwidth": "15500Mi"}}}
    world.claim([exactly("first", "gpu", 1, **more), exactly("second", "gpu", 1, **more)])
    return world.problem


def alternatives() -> Problem:
    world = _cluster(20, _gpus(8))
    for index, (spec, device) in enumerate(world.devices()):
        if index % 8 in (1, 3):
            world.hold_device(spec, device)
    selectors = [f'{OURS}.model == "h100"']
    given = (ask("gpu", 4, selectors), ask("gpu", 3, selectors), ask("gpu", 2, selectors))
    world.claim([first_of("gpus", *given)])
    return world.problem


def everything() -> Problem:
    world = _cluster(20, _gpus(8))
    world.claim([exactly("gpus", "gpu", None)])
    return world.problem


def backtracking() -> Problem:
    """Seven claims accept two neighbours of eight devices each; the last one accepts only what the first one takes."""
    world = _cluster(5, _gpus(8))
    for number in range(7):
        world.claim([exactly("gpu", "gpu", 1, [f"{OURS}.index in [{number}, {number + 1}]"])])
    world.claim([exactly("gpu", "gpu", 1, [f"{OURS}.index == 0"])])
    return world.problem


def fabric() -> Problem:
    """Many devices for all Nodes, of which the last one is free."""
    world = World()
    world.nodes(5, 5)
    devices = [{"name": f"port-{number}", "attributes": {"rail": {"int": number % 8}}} for number in range(1024)]
    for start in range(0, len(devices), 128):
        world.slice(NIC, "fabric", EVERYWHERE, len(devices) // 128, devices=devices[start : start + 128])
    for spec, device in list(world.devices())[:512]:
        world.hold_device(spec, device)
    world.claim([exactly("port", "nic", 2, [f'device.attributes["{NIC}"].rail == 7'])])
    return world.problem


CYCLES: Final[Mapping[str, Callable[[], Problem]]] = {
    "a selector, 10 devices": one_selector,
    "4 of 8 devices of one root": one_root,
    "partitions": partitions,
    "shares of capacity": shares,
    "three alternatives": alternatives,
    "all of 8 devices": everything,
    "backtracking": backtracking,
    "1,024 devices for all Nodes": fabric,
}
_ROWS: Final = {
    name: (
        Row(name, "µs"),
        Row(f"{name}: of the peer's", "", "at most 0.6, cold 3", digits=2),
        Row(f"{name}: steps", "", "at most the peer's", digits=0),
    )
    for name in CYCLES
}


async def measure(_stage: Stage, size: int, turn: int) -> Sample:
    """So many scheduling cycles of each kind, and a tenth as many where nothing is kept from one to the next."""
    oracle = Oracle.of(locate())
    sample: dict[tuple[str, str], float] = {}
    for name, make in CYCLES.items():
        cost, ratio, steps = _ROWS[name]
        problem = make()
        variants: dict[str, Callable[[], tuple[float, float]]] = {
            KUBERNETES: lambda problem=problem: _kubernetes(oracle, problem, size),  # type: ignore[misc]
            COLD: lambda problem=problem: _cold(problem, max(1, size // 10)),  # type: ignore[misc]
            TOLLBAR: lambda problem=problem: _warm(problem, size),  # type: ignore[misc]
        }
        first = turn % len(COLUMNS)
        for column in (*COLUMNS[first:], *COLUMNS[:first]):
            sample[cost.name, column], sample[steps.name, column] = variants[column]()
        for column in (COLD, TOLLBAR):
            sample[ratio.name, column] = sample[cost.name, column] / sample[cost.name, KUBERNETES]
    return sample


def _kubernetes(oracle: Oracle, problem: Problem, cycles: int) -> tuple[float, float]:
    (answer,) = oracle.allocate([problem.request() | {"repeat": cycles}])
    nodes = len(problem.nodes)
    return (answer["nanoseconds"] + answer["nanosecondsOnce"] / nodes) / 1e3, sum(
        each["steps"] for each in answer["nodes"]
    ) / nodes


def _warm(problem: Problem, cycles: int) -> tuple[float, float]:
    """What a scheduler that goes on for long costs: slices are parsed, selectors compiled and answered."""
    inventory, state, selectors = Inventory(problem.slices), _state(problem), Selectors()
    _cycle(problem, inventory, state, selectors)
    began = time.process_time()
    for _ in range(cycles):
        steps = _cycle(problem, inventory, state, selectors)
    return _microseconds(began, problem, cycles), steps / len(problem.nodes)


def _cold(problem: Problem, cycles: int) -> tuple[float, float]:
    """What the first cycle of a process costs."""
    began = time.process_time()
    for _ in range(cycles):
        steps = _cycle(problem, Inventory(problem.slices), _state(problem), Selectors())
    return _microseconds(began, problem, cycles), steps / len(problem.nodes)


def _cycle(problem: Problem, inventory: Inventory, state: AllocatedState, selectors: Selectors) -> int:
    """Ask all Nodes; the steps of all together."""
    classes = {each["metadata"]["name"]: each for each in problem.classes}
    allocator = Allocator(inventory, state, classes, selectors=selectors)
    for node in problem.nodes:
        allocator.allocate(node, problem.claims)
    return allocator.steps


def _state(problem: Problem) -> AllocatedState:
    return AllocatedState(each["status"]["allocation"] for each in problem.allocated)


def _microseconds(began: float, problem: Problem, cycles: int) -> float:
    """CPU time for one Node since then."""
    return (time.process_time() - began) / cycles / len(problem.nodes) * 1e6


WORKLOAD: Final = Workload(
    name="allocate",
    title="Allocating devices",
    about="""\
Scheduling cycles of several kinds: one allocator for the claims of a Pod, which is asked about all Nodes, 5 to 100 of
them. The figures are CPU time and steps of the search for one Node; steps of the peer are calls of `allocateOne`. The
peer is the allocator of kube-scheduler (k8s.io/dynamic-resource-allocation/structured), which keeps compiled selectors
from one cycle to the next and evaluates them for every device and Node in every cycle; its garbage collection counts.
Tollbar keeps parsed slices, compiled selectors and their answers as well; *cold* is a cycle that finds nothing of that,
as the first one of a process. Its garbage is collected as in its processes.

Where little is searched, nothing stands out that could be left out. Of the cycles with shares, by a profile, half
of the time goes into two moves of the search, an eighth into the results with their ids, a fourteenth into reading
the claim once, a twentieth into the pools of the Node, and the rest into beginning, pausing and ending; where four
devices have to be of one root, two thirds go into the search, an eighth into the constraints. Cold, a fifth goes
into the slices, a sixth each into compiling the one selector and into the search, and a tenth into what is
allocated already.""",
    columns=COLUMNS,
    rows=tuple(row for rows in _ROWS.values() for row in rows),
    size=100,
    things="cycles of each kind",
    measure=measure,
)
