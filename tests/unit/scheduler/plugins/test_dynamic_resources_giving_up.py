"""DynamicResources: which allocations are given up for a Pod that fits no Node."""

import asyncio
from collections.abc import Sequence

import pytest
from objects.builders import pod as a_pod
from objects.devices import a_claim
from plugins.dynamicresources import ALLOCATED, BOUND, CLAIM, DOWN, N1, WEB, World, conditions, info, on_node, reserved

from tollbar.model.objects import Key, Object, key_of

ELSEWHERE = on_node(a_claim("gpu", "g9"), "n9")
POST_FILTER: dict[str, tuple[list[Object], dict[str, Sequence[Exception | None]], str, list[str], list[str]]] = {
    "a claim that nobody uses is given up": (
        [ELSEWHERE],
        {},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web", "update/status gpu"],
        [],
    ),
    "a claim that the Pod alone uses is given up": (
        [reserved(ELSEWHERE, WEB)],
        {},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web", "update/status gpu"],
        [],
    ),
    "a claim that another Pod uses stays": ([reserved(ELSEWHERE, WEB, a_pod("other"))], {}, "Unschedulable", [], []),
    "a claim that fits is not touched": ([CLAIM, N1], {}, "Unschedulable", [], []),
    "the Pod is tried again if nobody knows whether it has a Node": (
        [ELSEWHERE],
        {"get": [DOWN]},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web"],
        ["web"],
    ),
    "the Pod is tried again if the claim cannot be given up": (
        [ELSEWHERE],
        {"update/status": [DOWN]},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web", "update/status gpu", "get gpu"],
        ["web"],
    ),
}


@pytest.mark.parametrize("case", POST_FILTER)
async def test_what_post_filter_gives_up(case: str) -> None:
    objects, problems, expected, calls, activated = POST_FILTER[case]
    world = World(*objects, problems=problems)
    world.filter(WEB)
    answer = world.post_filter(WEB)
    await world.carry_out()
    assert (answer, world.api.made, world.activated) == (expected, calls, activated)
    assert world.slept == [10.0] * len(activated), "what failed is not tried again without a pause"


async def test_a_claim_that_another_pod_has_reserved_meanwhile_is_not_given_up() -> None:
    world = World(ELSEWHERE)
    world.filter(WEB)
    world.api.objects[Key("ml", "gpu")] = reserved(ELSEWHERE, a_pod("other")).but("metadata.resourceVersion", "50")
    world.post_filter(WEB)
    await world.carry_out()
    assert (world.api.made, "allocation" in world.claim()["status"]) == (
        ["get web", "update/status gpu", "get gpu"],
        True,
    )


async def test_a_claim_is_not_given_up_under_a_pod_that_has_a_node() -> None:
    world = World(ELSEWHERE)
    world.api.objects[key_of(WEB)] = BOUND
    world.filter(WEB)
    world.post_filter(WEB)
    await world.carry_out()
    assert world.api.made == ["get web"]


async def test_a_pod_whose_claim_is_being_given_up_is_not_bound_with_what_the_claim_has() -> None:
    world = World(reserved(ALLOCATED, WEB))
    world.pre_filter(WEB)
    world.plugin.filter(world.state, info(WEB), world.handle.snapshot.nodes[1])  # another plugin rejects the first one
    world.post_filter(WEB)
    binding = asyncio.create_task(world.bind(WEB))
    await asyncio.sleep(0)
    await world.carry_out()
    assert (await binding, "allocation" in world.claim()["status"]) == (
        "Error: claim ml/gpu got deallocated elsewhere in the meantime",
        False,
    )


def test_post_filter_without_pre_filter_is_an_error() -> None:
    assert World().post_filter(WEB) == "Error: not found"


async def test_a_claim_that_was_given_up_is_without_allocation_reservations_and_device_status() -> None:
    world = World(on_node(conditions("broken"), "n1").but("status.other", "kept"))
    world.filter(WEB)
    world.post_filter(WEB)
    await world.carry_out()
    assert world.claim()["status"] == {"other": "kept"}
