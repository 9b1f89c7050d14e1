"""What the watches show, as it wakes Pods that wait: the whole scheduler, with an API server in memory."""

from collections.abc import Callable

import pytest
from builders import claim, device_class, pod
from devices import published, taint_rule
from managing import Managed, turns
from schedulerworld import node, scheduling

from tollbar.scheduler.queue import Settings

AT_ONCE = Settings(max_backoff=0)
BROKEN = taint_rule("broken", {"key": "broken", "effect": "NoSchedule"})
CLAIM = claim("gpu").request("gpu")
CLUSTER = (node("n1"), device_class(), published("s1", "g0"), CLAIM, pod().claims("gpu"))
CHANGES: dict[str, Callable[[Managed], None]] = {
    "is deleted": lambda manager: manager.remove(BROKEN),
    "is about other devices": lambda manager: manager.fill(
        [BROKEN.but("spec.deviceSelector", {"driver": "nic.example.com"}).but("metadata.resourceVersion", "2")]
    ),
}


@pytest.mark.behaviour(51)
async def test_a_device_without_taint_is_taken_at_once() -> None:
    async with scheduling(*CLUSTER, settings=AT_ONCE) as world:
        await turns(200)
    assert list(world.api.bound.values()) == [["n1"]]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_pod_waits_for_a_device_until_the_rule_that_taints_it(change: Callable[[Managed], None]) -> None:
    async with scheduling(*CLUSTER, BROKEN, settings=AT_ONCE) as world:
        await turns(200)
        before = dict(world.api.bound)
        change(world.manager)
        await turns(200)
    assert (before, list(world.api.bound.values())) == ({}, [["n1"]])
