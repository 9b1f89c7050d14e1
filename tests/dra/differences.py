"""All known differences from what Kubernetes' allocator answers; what no row explains is a bug."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dra.comparing import Difference
from dra.world import EVERYWHERE, GPU, NIC, PER_DEVICE, Problem, World, consumes, counter_set, exactly, here


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that is meant to be, which `explains` recognizes in a random problem.

    `ours` and `theirs` are outcomes or messages for the Nodes of `example`.
    """

    id: str
    sentence: str
    reason: str
    example: Problem
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    explains: Callable[[Difference], bool]


def _replaced() -> Problem:
    """Each of two Nodes has a whole generation of a pool, the second one with fewer counters."""
    world = World()
    for generation, (node, size) in enumerate(zip(world.nodes(2, 2), (3, 2), strict=True), 1):
        world.slice(NIC, "replaced", here(node), 2, generation, sharedCounters=[counter_set("c0", memory=size)])
        device = {"name": "dev-0", "consumesCounters": [consumes("c0", memory=3)]}
        world.slice(NIC, "replaced", here(node), 2, generation, devices=[device])
    world.claim([exactly("r0", "nic")])
    return world.problem


def _has_counters_of_two_generations(found: Difference) -> bool:
    specs = [each["spec"] for each in found.problem.slices if each["spec"].get("sharedCounters")]
    pools = {(each["driver"], each["pool"]["name"]) for each in specs}
    generations = {(each["driver"], each["pool"]["name"], each["pool"]["generation"]) for each in specs}
    return len(found.problem.nodes) > 1 and len(generations) > len(pools)


def _inconsistent() -> Problem:
    """Two slices that do not agree on the size of their pool."""
    world = World()
    world.nodes(1, 1)
    device = {"name": "dev-0", "allNodes": True}
    world.slice(GPU, "pool", PER_DEVICE, 2, devices=[device])
    world.slice(GPU, "pool", EVERYWHERE, 3, devices=[])
    world.problem.slices.reverse()
    world.claim([exactly("r0", "gpu")])
    return world.problem


def _has_inconsistent_counts(found: Difference) -> bool:
    pools = [(each["spec"]["driver"], each["spec"]["pool"]) for each in found.problem.slices]
    counts = {(driver, pool["name"], pool["generation"], pool["resourceSliceCount"]) for driver, pool in pools}
    return len(counts) > len({each[:3] for each in counts})


def _skipping() -> Problem:
    world = World()
    world.nodes(1, 1)
    world.slice(GPU, "pool", EVERYWHERE, 1, devices=[{"name": "dev-0"}], skipNodeOperations=["*"])
    world.claim([exactly("r0", "gpu")])
    world.problem.features["ListTypeAttributes"] = True
    return world.problem


def _skips_node_operations(found: Difference) -> bool:
    skips = any(each["spec"].get("skipNodeOperations") for each in found.problem.slices)
    return skips and bool(found.problem.features.get("ListTypeAttributes"))


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        "counters of a generation",
        "While a pool is replaced, each Node's devices consume the counters of the generation that is complete there",
        "Kubernetes keeps the counters of the Node that is tried first and takes them for all others",
        _replaced(),
        ("allocated", "none"),
        ("allocated", "allocated"),
        _has_counters_of_two_generations,
    ),
    Known(
        "inconsistent counts",
        "Where the slices of a pool do not agree on their number, that of the first slice by name counts",
        "In Kubernetes it is that of the slice which happens to be first in its cache",
        _inconsistent(),
        ("allocated",),
        ("none",),
        _has_inconsistent_counts,
    ),
    Known(
        "skipped node operations",
        "A slice with skipNodeOperations is used like any other one, also while list attributes are on",
        "Kubernetes takes another allocator for list attributes, which refuses the field while its feature is off",
        _skipping(),
        ("allocated",),
        ("none",),
        _skips_node_operations,
    ),
)


def explained(found: Difference) -> str | None:
    """The id of the known difference that this is, if it is one."""
    return next((each.id for each in KNOWN if each.explains(found)), None)
