"""Reports about Pods that PreEnqueue keeps out of the queue (KEP-5501)."""

from typing import Any

import pytest
from plugins.queues import Gate, World

from tollbar.scheduler.queue import Settings

WAITING = "waiting for G"


def reported(world: World, seconds: float) -> list[str]:
    """The messages of the reports that are due after so many seconds."""
    world.time += seconds
    return [report.message for report in world.queue.flush()]


def gated(**fields: Any) -> tuple[World, Gate]:
    world = World(gate := Gate("G", closed={"a"}))
    world.add("a", **fields)
    return world, gate


def test_a_rejection_is_reported_after_its_delay_and_once() -> None:
    world, _ = gated()
    assert [reported(world, seconds) for seconds in (4.5, 0.5, 100)] == [[], [WAITING], []]


def test_a_rejection_that_is_over_soon_is_never_reported() -> None:
    world, gate = gated()
    gate.closed.clear()
    world.happened()
    assert reported(world, 100) == []


def test_the_latest_message_is_reported_at_the_time_of_the_first() -> None:
    world, gate = gated()
    world.time += 3
    gate.name = "H"
    world.queue.activate([world["a"]])
    assert [reported(world, seconds) for seconds in (1, 1, 100)] == [[], ["waiting for H"], []]


def test_a_report_that_the_pod_shows_already_is_not_repeated() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "NotReadyForScheduling", "message": WAITING}
    world, _ = gated(status={"conditions": [condition]})
    assert reported(world, 100) == []


def test_a_pod_that_is_rejected_again_after_an_attempt_is_reported_again() -> None:
    world, gate = gated()
    seen = [reported(world, 5)]
    gate.closed.clear()
    world.happened()
    queued = world.popped("a")
    gate.closed.add("a")
    world.fail(queued)
    assert [*seen, reported(world, 4), reported(world, 100)] == [[WAITING], [], [WAITING]]


def test_nothing_is_reported_of_a_pod_that_is_gone() -> None:
    world, _ = gated()
    world.delete("a")
    assert reported(world, 100) == []


@pytest.mark.parametrize("delay", [None])
def test_nothing_is_reported_without_a_delay(delay: None) -> None:
    world = World(Gate("G", closed={"a"}), settings=Settings(not_ready_delay=delay))
    world.add("a")
    assert (reported(world, 100), world.queue.next_due() - world.time) == ([], 20.0)
