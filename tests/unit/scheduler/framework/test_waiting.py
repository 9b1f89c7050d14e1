"""Pods between Permit and Bind: they wait until they are allowed, and PreBind can be ended."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from plugins.toys import POD, Named, framework, handle

from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.interface import PreFlight
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import Code, Status, unschedulable
from tollbar.scheduler.framework.waiting import PermitWait, Waits

Step = Callable[[PermitWait], Any]


def rejected(message: str, plugin: str = "one") -> Status:
    return unschedulable(message).with_plugin(plugin)


BOTH = ["one", "two"]
DECISIONS: dict[str, tuple[list[Step], list[Any], list[str], Status | None]] = {
    "nobody has said anything": ([], [], BOTH, None),
    "one of two allows it": ([lambda w: w.allow("one")], [None], ["two"], None),
    "both allow it": ([lambda w: w.allow("one"), lambda w: w.allow("two")], [None, None], [], None),
    "a plugin that it does not wait for allows it": ([lambda w: w.allow("three")], [None], BOTH, None),
    "one rejects it": ([lambda w: w.reject("one", "no")], [True], BOTH, rejected("no")),
    "the first rejection counts": (
        [lambda w: w.reject("one", "no"), lambda w: w.reject("two", "never")],
        [True, False],
        BOTH,
        rejected("no"),
    ),
    "who is allowed cannot be rejected any more": (
        [lambda w: w.allow("one"), lambda w: w.allow("two"), lambda w: w.reject("two", "no")],
        [None, None, False],
        [],
        None,
    ),
    "who is rejected cannot be allowed any more": (
        [lambda w: w.reject("one", "no"), lambda w: w.allow("one"), lambda w: w.allow("two")],
        [True, None, None],
        [],
        rejected("no"),
    ),
    "preempted": (
        [lambda w: w.preempt("DefaultPreemption", "preempted")],
        [True],
        BOTH,
        Status(Code.ERROR, ("preempted",), "DefaultPreemption"),
    ),
    "before the first deadline": ([lambda w: w.expire(109.9)], [None], BOTH, None),
    "at the first deadline": (
        [lambda w: w.expire(110)],
        [None],
        BOTH,
        rejected("rejected due to timeout after waiting 10s at plugin one"),
    ),
    "at the deadline of those that are left": (
        [lambda w: w.allow("one"), lambda w: w.expire(110), lambda w: w.expire(190)],
        [None, None, None],
        ["two"],
        rejected("rejected due to timeout after waiting 1m30s at plugin two", "two"),
    ),
}


@pytest.mark.parametrize(("steps", "answers", "pending", "status"), DECISIONS.values(), ids=DECISIONS)
def test_decision(steps: list[Step], answers: list[Any], pending: list[str], status: Status | None) -> None:
    waiting = PermitWait(POD, Waits({"one": 10, "two": 90}), 100)

    found = [step(waiting) for step in steps]
    assert (found, waiting.pending_plugins, waiting.status) == (answers, pending, status)


def waiting_framework(clock: Callable[[], float]) -> Framework:
    own = framework(handle=handle(clock=clock))
    own.add_waiting_pod(POD, Waits({"one": 10, "two": 90}))
    return own


def decide_soon(own: Framework, step: Step) -> None:
    asyncio.get_running_loop().call_later(3, step, own.in_binding.waiting[POD.uid])


WAITS: dict[str, tuple[Step, Status | None, float]] = {
    "rejected": (lambda w: w.reject("one", "no"), rejected("no"), 3),
    "preempted": (
        lambda w: w.preempt("DefaultPreemption", "preempted"),
        Status(Code.ERROR, ("waiting on permit for pod: preempted",), "DefaultPreemption"),
        3,
    ),
    "allowed by one alone": (
        lambda w: w.allow("one"),
        rejected("rejected due to timeout after waiting 1m30s at plugin two", "two"),
        90,
    ),
    "allowed by both": (lambda w: (w.allow("one"), w.allow("two")), None, 3),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("step", "expected", "seconds"), WAITS.values(), ids=WAITS)
async def test_wait_on_permit(step: Step, expected: Status | None, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    own, began = waiting_framework(clock), clock()
    decide_soon(own, step)

    found = await own.wait_on_permit(POD)

    assert (found, round(clock() - began), own.is_waiting(POD)) == (expected, seconds, False)


@pytest.mark.looptime
async def test_a_pod_that_is_not_waiting_goes_on_at_once() -> None:
    assert await framework().wait_on_permit(POD) is None


@pytest.mark.behaviour(25)
@pytest.mark.looptime
async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    own = waiting_framework(asyncio.get_running_loop().time)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await own.wait_on_permit(POD)

    assert own.in_binding.waiting == {}


class SlowPreBind(Named):
    """Takes so many seconds, and notes how it ended."""

    def __init__(self, name: str, seconds: float, ended: list[str], given: Status | None = None) -> None:
        super().__init__(name)
        self.seconds = seconds
        self.ended = ended
        self.given = given

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> PreFlight:
        return PreFlight(allow_parallel=True)

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.ended.append(f"{self.name} cancelled")
            raise
        self.ended.append(self.name)
        return self.given


async def pre_bind(own: Framework) -> Status | None:
    state = CycleState()
    own.pre_bind_pre_flight(state, POD, "a")
    return await own.pre_bind(state, POD, "a")


@pytest.mark.looptime
async def test_plugins_that_allow_it_run_pre_bind_side_by_side() -> None:
    ended: list[str] = []
    clock = asyncio.get_running_loop().time
    began = clock()

    found = await pre_bind(framework(SlowPreBind("slow", 5, ended), SlowPreBind("quick", 1, ended)))

    assert (found, ended, round(clock() - began)) == (None, ["quick", "slow"], 5)


@pytest.mark.looptime
async def test_the_first_failure_of_pre_bind_ends_the_others() -> None:
    ended: list[str] = []

    found = await pre_bind(framework(SlowPreBind("slow", 5, ended), SlowPreBind("quick", 1, ended, rejected("no"))))

    assert (found, ended) == (rejected("no"), ["quick", "slow cancelled"])


@pytest.mark.looptime
async def test_preemption_ends_pre_bind() -> None:
    ended: list[str] = []
    own = framework(SlowPreBind("slow", 5, ended))
    answers: list[bool] = []

    def preempt() -> None:
        answers.append(own.handle.pods_in_pre_bind[POD.uid].cancel("preempted by DefaultPreemption"))

    asyncio.get_running_loop().call_later(1, preempt)
    found = await pre_bind(own)

    text = 'running PreBind plugin "slow": preempted by DefaultPreemption'
    assert (found, ended, answers, own.in_binding.pre_binding) == (
        Status(Code.ERROR, (text,)),
        ["slow cancelled"],
        [True],
        {},
    )


@pytest.mark.looptime
async def test_pre_bind_that_is_cancelled_from_outside_is_cancelled() -> None:
    ended: list[str] = []
    own = framework(SlowPreBind("slow", 5, ended))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await pre_bind(own)

    assert (ended, own.in_binding.pre_binding) == (["slow cancelled"], {})
