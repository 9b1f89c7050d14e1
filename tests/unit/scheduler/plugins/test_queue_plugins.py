"""SchedulingGates and PrioritySort: which Pods enter the queue, and in which order."""

import pytest
from plugins.tables import Waiting, handle, hinted, pod, said

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.priority_sort import PrioritySort
from tollbar.scheduler.plugins.scheduling_gates import SchedulingGates

GATES = SchedulingGates({}, handle())
GATED: dict[str, tuple[PodInfo, tuple[str, ...]]] = {
    "a Pod without gates enters": (pod(), ("Success",)),
    "an empty list holds nothing": (pod(schedulingGates=[]), ("Success",)),
    "all gates are named": (
        pod(schedulingGates=[{"name": "a"}, {"name": "b"}]),
        ("UnschedulableAndUnresolvable", "waiting for scheduling gates: [a b]"),
    ),
}


@pytest.mark.behaviour(19)
@pytest.mark.parametrize(("given", "want"), GATED.values(), ids=GATED)
def test_pre_enqueue(given: PodInfo, want: tuple[str, ...]) -> None:
    assert said(GATES.pre_enqueue(given)) == want


@pytest.mark.behaviour(19)
def test_the_last_gate_wakes_the_pod() -> None:
    event = (EventResource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert hinted(GATES, *event, pod(), pod(), pod()) == "Queue"


def waiting(priority: int, timestamp: float) -> Waiting:
    return Waiting(pod(priority=priority), timestamp)


ORDER: dict[str, tuple[Waiting, Waiting, bool]] = {
    "the higher priority comes first": (waiting(2, 9), waiting(1, 1), True),
    "the lower one does not": (waiting(1, 1), waiting(2, 9), False),
    "of equal priority, the older one": (waiting(1, 1), waiting(1, 2), True),
    "and not the younger one": (waiting(1, 2), waiting(1, 1), False),
    "equals have no order": (waiting(1, 1), waiting(1, 1), False),
    "a priority may be negative": (waiting(0, 2), waiting(-1, 1), True),
}


@pytest.mark.parametrize(("one", "other", "want"), ORDER.values(), ids=ORDER)
def test_less(one: Waiting, other: Waiting, *, want: bool) -> None:
    assert PrioritySort({}, handle()).less(one, other) is want
