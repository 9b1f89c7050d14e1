"""Devices for claims that no Pod uses, as a cluster that is partly in use has them.

Pure.  Source: allocResourceClaimsOp of scheduler_perf/dra.go.
"""

from collections.abc import Iterator, Sequence
from random import Random

from tollbar.dra import AllocatedState, Allocator, Inventory, Selectors
from tollbar.model.objects import Object


def allocations(
    claims: Sequence[Object], slices: Sequence[Object], classes: Sequence[Object], nodes: Sequence[Object], rng: Random
) -> Iterator[Object]:
    """The claims without an allocation, each with one of a Node that is drawn.  ValueError when none has devices left.

    Objects are as the API server has them.
    """
    by_name = {each["metadata"]["name"]: each for each in classes}
    inventory, selectors, order = Inventory(slices), Selectors(), list(nodes)
    taken = [claim["status"]["allocation"] for claim in claims if claim.get("status", {}).get("allocation")]
    state = AllocatedState(taken)
    for claim in claims:
        if claim.get("status", {}).get("allocation"):
            continue
        rng.shuffle(order)
        allocator = Allocator(inventory, state, by_name, selectors=selectors)
        found = next(filter(None, (_on(allocator, node, claim) for node in order)), None)
        if found is None:
            raise ValueError(f"no Node has devices left for the claim {claim['metadata']['name']}")
        state.add(found)
        yield {**claim, "status": {**claim.get("status", {}), "allocation": found}}


def _on(allocator: Allocator, node: Object, claim: Object) -> Object | None:
    found = allocator.allocate(node, [claim])
    return found[0] if isinstance(found, list) else None
