"""When the scheduler writes into the status of a Pod, and of which Pods it does not have to."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from fakes.clocks import in_fake_time
from objects.builders import Built, pod

from controllers.scheduler.statuswriter import _MOST, StatusWriter
from tollbar.model.objects import Object
from tollbar.model.resources import PODS
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.store import Store
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes

WEB = pod().but("metadata.uid", "u1").but("metadata.resourceVersion", "1")
INFO = Shapes().pod_info(WEB)
DELAY = 0.25


class Calls:
    """Remembers when what was written, in seconds; raises `error` in place of an answer if there is one."""

    def __init__(self) -> None:
        self.made: list[tuple[float, Object]] = []
        self.error: Exception | None = None

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        said = {**patch["status"]}
        if "conditions" in said:
            said["conditions"] = [each["reason"] for each in said["conditions"]]
        self.made.append((asyncio.get_running_loop().time(), said))
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        version = str(len(self.made) + 1)
        return Built(pod.object).but("status", patch["status"]).but("metadata.resourceVersion", version)


def nominated(writer: StatusWriter, node: str = "n1") -> None:
    writer.write(INFO, nominated_node_name=node)


async def bound(writer: StatusWriter) -> None:
    nominated(writer)
    await asyncio.sleep(DELAY / 2)
    await writer.forget("u1")


async def not_bound_soon(writer: StatusWriter) -> None:
    nominated(writer)
    await asyncio.sleep(DELAY * 2)
    await writer.forget("u1")


async def said_twice(writer: StatusWriter) -> None:
    nominated(writer, "other")
    await asyncio.sleep(DELAY / 2)
    nominated(writer)


async def said_during_the_call(writer: StatusWriter) -> None:
    nominated(writer, "other")
    await asyncio.sleep(DELAY * 2)
    nominated(writer)


async def said_again_later(writer: StatusWriter) -> None:
    nominated(writer, "other")
    await asyncio.sleep(5)
    nominated(writer)


async def said_again_after_it_was_forgotten(writer: StatusWriter) -> None:
    await bound(writer)
    nominated(writer)


async def made_room(writer: StatusWriter) -> None:
    writer.write(INFO, reason="Unschedulable", message="no", nominated_node_name="n1")


async def ends(writer: StatusWriter) -> None:
    promised = WEB.but("status.nominatedNodeName", "n1").but("metadata.resourceVersion", "2")
    writer.pods.apply(promised)
    writer.write(Shapes().pod_info(promised), reason="Unschedulable", message="no", nominated_node_name="")


async def nothing_ends(writer: StatusWriter) -> None:
    writer.write(INFO, reason="Unschedulable", message="no", nominated_node_name="")


async def has_a_node(writer: StatusWriter) -> None:
    await nothing_ends(writer)
    writer.pods.apply(WEB.but("spec.nodeName", "n1").but("metadata.resourceVersion", "2"))


async def says_it_already(writer: StatusWriter) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    writer.pods.apply(WEB.but("status.conditions", [said]).but("metadata.resourceVersion", "2"))
    await nothing_ends(writer)
    writer.pods.apply(WEB.but("metadata.resourceVersion", "3"))


async def made_room_later(writer: StatusWriter) -> None:
    nominated(writer, "other")
    await asyncio.sleep(DELAY / 2)
    await made_room(writer)


N1, OTHER = {"nominatedNodeName": "n1"}, {"nominatedNodeName": "other"}
ROOM = {"nominatedNodeName": "n1", "conditions": ["Unschedulable"]}
WRITTEN: dict[str, tuple[Callable[[StatusWriter], Any], list[tuple[float, Object]]]] = {
    "nothing of a Pod that is bound at once": (bound, []),
    "of one that is not, after the delay": (not_bound_soon, [(DELAY, N1)]),
    "what was said last": (said_twice, [(DELAY, N1)]),
    "what is said during a call, after it": (said_during_the_call, [(DELAY, OTHER), (1 + DELAY, N1)]),
    "what is said later, after the delay again": (said_again_later, [(DELAY, OTHER), (5 + DELAY, N1)]),
    "what preemption has made room for, at once": (made_room, [(0.0, ROOM)]),
    "and also after what could wait": (made_room_later, [(DELAY / 2, ROOM)]),
    "that a nomination ends, at once": (ends, [(0.0, {"nominatedNodeName": None, "conditions": ["Unschedulable"]})]),
    "a condition alone, after the delay": (nothing_ends, [(DELAY, {"conditions": ["Unschedulable"]})]),
    "nothing of a Pod that the store shows with a Node": (has_a_node, []),
    "nothing that the status says at that moment": (says_it_already, []),
    "what is said of a Pod that was forgotten": (said_again_after_it_was_forgotten, [(DELAY * 1.5, N1)]),
}


@asynccontextmanager
async def writing() -> AsyncIterator[tuple[StatusWriter, Calls]]:
    """A writer that runs, and what it calls."""
    store, calls = Store(PODS), Calls()
    store.apply(WEB)
    given: Any = calls
    writer = StatusWriter(given, store, SystemClock(), DELAY)
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(0)
    yield writer, calls
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(("happens", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_written(happens: Callable[[StatusWriter], Any], expected: list[tuple[float, Object]]) -> None:
    async def made() -> list[tuple[float, Object]]:
        async with writing() as (writer, calls):
            await happens(writer)
            await asyncio.sleep(20)
        return [(round(time, 3), status) for time, status in calls.made]

    assert in_fake_time(made()) == expected


@pytest.mark.parametrize(
    ("happens", "expected"),
    [(bound, DELAY / 2), (not_bound_soon, 1 + DELAY)],
    ids=["nothing is being written", "a call is under way, which takes a second"],
)
def test_when_the_pod_may_be_bound(happens: Callable[[StatusWriter], Any], expected: float) -> None:
    async def may_be_bound() -> float:
        async with writing() as (writer, _):
            await happens(writer)
            return round(asyncio.get_running_loop().time(), 3)

    assert in_fake_time(may_be_bound()) == expected


def test_nothing_is_written_after_the_end() -> None:
    async def made() -> list[tuple[float, Object]]:
        async with writing() as (writer, calls):
            nominated(writer)
        nominated(writer)
        await asyncio.sleep(20)
        return calls.made

    assert in_fake_time(made()) == []


def test_an_error_that_nobody_expects_concerns_one_write_alone() -> None:
    async def made() -> list[Object]:
        async with writing() as (writer, calls):
            calls.error = TypeError("str is not valid UTF-8: surrogates not allowed")
            nominated(writer, "other")
            await asyncio.sleep(5)
            nominated(writer)
            await asyncio.sleep(5)
        return [status for _, status in calls.made]

    assert in_fake_time(made()) == [OTHER, N1]


def test_a_status_that_makes_no_sense_concerns_its_pod_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def made() -> list[Object]:
        async with writing() as (writer, calls):
            writer.pods.apply(WEB.but("status.conditions", ["nonsense"]).but("metadata.resourceVersion", "2"))
            await nothing_ends(writer)
            await asyncio.sleep(5)
            writer.pods.apply(WEB.but("metadata.resourceVersion", "3"))
            await nothing_ends(writer)
            await asyncio.sleep(5)
        return [status for _, status in calls.made]

    assert (in_fake_time(made()), [each.message for each in caplog.records]) == (
        [{"conditions": ["Unschedulable"]}],
        ["cannot update the status of a pod"],
    )


def test_few_calls_are_made_at_one_time_and_none_about_a_pod_that_is_bound_before_its_turn() -> None:
    infos = [Shapes().pod_info(pod(f"p{number}").but("metadata.uid", f"uid-{number}")) for number in range(_MOST + 2)]
    *_, last_but_one, last = infos

    async def told() -> tuple[list[tuple[float, int]], float]:
        async with writing() as (writer, calls):
            for number, info in enumerate(infos):
                await asyncio.sleep(DELAY / 5 if number >= _MOST else 0)
                writer.pods.apply(info.object)
                writer.write(info, reason="Unschedulable", message="no")
            await asyncio.sleep(DELAY * 1.6)
            await writer.forget(last.uid)
            may_be_bound = asyncio.get_running_loop().time()
            writer.write(last_but_one, nominated_node_name="n1")
            await made_room(writer)
            await asyncio.sleep(20)
        return sorted(Counter(round(time, 3) for time, _ in calls.made).items()), round(may_be_bound, 3)

    assert in_fake_time(told()) == ([(DELAY, _MOST), (DELAY * 2, 1), (1 + DELAY, 1)], DELAY * 2)
