"""The work queue: order, deduplication, back-off, waiting and the end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tollbar.model.objects import Key
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import AHEAD, LIVE, RELIST, ShutDown, WorkQueue

Queue = WorkQueue[Key]


def key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)


async def drain(queue: Queue) -> list[str]:
    taken = []
    while len(queue):
        got = await queue.get()
        taken.append(str(got))
        queue.done(got)
    return taken


@pytest.fixture
def queue(clock: Any, metrics: Metrics) -> Queue:
    return WorkQueue("pods", clock=clock, metrics=metrics)


@dataclass
class Order:
    given: list[tuple[str, int]]
    want: list[str]


ORDERS = {
    "oldest first": Order([("a/1", LIVE), ("a/2", LIVE), ("a/3", LIVE)], ["a/1", "a/2", "a/3"]),
    "a key waits once": Order([("a/1", LIVE), ("a/2", LIVE), ("a/1", LIVE)], ["a/1", "a/2"]),
    "what happened goes before what a list found": Order(
        [("a/1", RELIST), ("a/2", RELIST), ("a/3", LIVE)], ["a/3", "a/1", "a/2"]
    ),
    "what is known to be due goes before what happened": Order(
        [("a/1", LIVE), ("a/2", RELIST), ("a/3", AHEAD)], ["a/3", "a/1", "a/2"]
    ),
    "a key moves up": Order([("a/1", RELIST), ("a/2", RELIST), ("a/2", LIVE)], ["a/2", "a/1"]),
    "a key never moves down": Order([("a/1", LIVE), ("a/2", LIVE), ("a/1", RELIST)], ["a/1", "a/2"]),
    "namespaces take turns": Order(
        [("a/1", LIVE), ("a/2", LIVE), ("a/3", LIVE), ("b/1", LIVE), ("c/1", LIVE), ("b/2", LIVE)],
        ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"],
    ),
    "turns are taken within a priority": Order([("a/1", LIVE), ("a/2", LIVE), ("b/1", RELIST)], ["a/1", "a/2", "b/1"]),
}


@pytest.mark.parametrize("case", ORDERS.values(), ids=ORDERS.keys())
async def test_order(case: Order, queue: Queue) -> None:
    for text, priority in case.given:
        queue.add(key(text), priority=priority)
    assert await drain(queue) == case.want


async def test_a_key_that_changes_while_it_runs_runs_once_more(queue: Queue) -> None:
    queue.add(key("a/1"))
    running = await queue.get()
    queue.add(running)
    queue.add(running)
    lengths = [len(queue)]
    queue.done(running)
    lengths.append(len(queue))
    assert (lengths, await drain(queue)) == ([0, 1], ["a/1"])


async def test_a_key_that_changes_while_it_runs_keeps_the_higher_priority(queue: Queue) -> None:
    queue.add(key("a/1"))
    running = await queue.get()
    queue.add(running, priority=RELIST)
    queue.add(running, priority=LIVE)
    queue.add(key("a/2"), priority=RELIST)
    queue.done(running)
    assert await drain(queue) == ["a/1", "a/2"]


async def test_done_without_get_is_an_error(queue: Queue) -> None:
    with pytest.raises(KeyError):
        queue.done(key("a/1"))


async def test_get_waits_for_an_addition(queue: Queue) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add(key("a/1"))
    queue.add(key("a/2"))
    assert await asyncio.gather(*waiting) == [key("a/1"), key("a/2")]


async def test_a_cancelled_worker_passes_its_turn_on(queue: Queue) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(key("a/1"))
    first.cancel()
    assert await second == key("a/1")


async def test_a_cancelled_worker_leaves_no_trace(queue: Queue) -> None:
    first = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    queue.add(key("a/1"))
    assert await queue.get() == key("a/1")


async def test_back_off_doubles_up_to_the_maximum_until_forgotten(clock: Any, metrics: Metrics) -> None:
    queue: Queue = WorkQueue("pods", clock=clock, metrics=metrics, base=1.0, maximum=5.0)
    for turn in range(5):
        if turn == 4:
            queue.forget(key("a/1"))
        queue.add_rate_limited(key("a/1"))
        queue.done(await queue.get())
    assert clock.slept == [1.0, 2.0, 4.0, 5.0, 1.0]


async def test_back_off_of_a_key_that_fails_for_ever_stays_a_number(queue: Queue, clock: Any) -> None:
    for _ in range(2000):
        queue.add_rate_limited(key("a/1"))
        queue.done(await queue.get())
    assert clock.slept[-1] == 1000.0


@dataclass
class Timing:
    """Additions after seconds; `want` are the keys and the time since the start when they were handed out."""

    given: list[tuple[str, float]]
    want: list[tuple[str, float]]


TIMINGS = {
    "in the order of their times": Timing([("a/1", 3.0), ("a/2", 1.0)], [("a/2", 1.0), ("a/1", 3.0)]),
    "the earliest wish of a key counts": Timing(
        [("a/1", 5.0), ("a/1", 2.0), ("a/1", 3.0), ("a/2", 9.0)], [("a/1", 2.0), ("a/2", 9.0)]
    ),
    "at once for no time at all": Timing([("a/1", 0.0), ("a/2", -1.0)], [("a/1", 0.0), ("a/2", 0.0)]),
}


@pytest.mark.looptime
@pytest.mark.parametrize("case", TIMINGS.values(), ids=TIMINGS.keys())
async def test_timing(case: Timing, metrics: Metrics) -> None:
    queue: Queue = WorkQueue("pods", clock=SystemClock(), metrics=metrics)
    start = asyncio.get_running_loop().time()
    for text, seconds in case.given:
        queue.add_after(key(text), seconds)
    seen = []
    for _ in case.want:
        got = await queue.get()
        seen.append((str(got), round(asyncio.get_running_loop().time() - start, 3)))
        queue.done(got)
    assert seen == case.want


async def test_a_key_that_is_worked_on_keeps_its_timer(queue: Queue) -> None:
    queue.add_after(key("a/1"), 5.0)
    queue.add(key("a/1"))
    first = await queue.get()
    queue.done(first)
    second = await queue.get()
    assert (first, second) == (key("a/1"), key("a/1"))


ENDS: dict[str, Callable[[Queue], None]] = {
    "with keys waiting": lambda queue: queue.add(key("a/1")),
    "with a timer running": lambda queue: queue.add_after(key("a/1"), 5.0),
    "with nothing": lambda _: None,
}


@pytest.mark.parametrize("given", ENDS.values(), ids=ENDS.keys())
async def test_after_shut_down_nothing_is_handed_out(given: Callable[[Queue], None], queue: Queue) -> None:
    given(queue)
    queue.shut_down()
    queue.add(key("a/2"))
    queue.add_after(key("a/3"), 1.0)
    queue.add_rate_limited(key("a/4"))
    with pytest.raises(ShutDown):
        await queue.get()
    assert len(queue) == 0


async def test_shut_down_frees_waiting_workers_and_lets_running_ones_finish(queue: Queue) -> None:
    queue.add(key("a/1"))
    running = await queue.get()
    queue.add(running)
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    queue.done(running)
    assert ([type(end) for end in ends], len(queue)) == ([ShutDown] * 3, 0)


async def test_a_queue_that_is_opened_again_is_like_a_new_one(queue: Queue) -> None:
    queue.add(key("a/1"))
    queue.add_rate_limited(key("a/2"))
    running = await queue.get()
    queue.shut_down()
    queue.done(running)
    queue.open()
    assert len(queue) == 0
    queue.add_after(key("a/3"), 0.01)
    assert await queue.get() == key("a/3")
    queue.add_rate_limited(key("a/2"))
    assert await queue.get() == key("a/2")
    queue.shut_down()


async def test_metrics(queue: Queue, clock: Any, metrics: Metrics) -> None:
    queue.add(key("a/1"))
    queue.add(key("a/1"))
    queue.add(key("a/2"))
    queue.add(key("a/3"))
    clock.time += 2
    first, second = await queue.get(), await queue.get()
    clock.time += 3
    queue.done(first)
    queue.add_rate_limited(second)

    def value(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"workqueue_{name}", {"name": "pods"})

    names = (
        "depth",
        "adds_total",
        "retries_total",
        "queue_duration_seconds_count",
        "queue_duration_seconds_sum",
        "work_duration_seconds_count",
        "work_duration_seconds_sum",
        "unfinished_work_seconds",
        "longest_running_processor_seconds",
    )
    seen = {name: value(name) for name in names}
    queue.shut_down()
    assert seen == dict(zip(names, (1.0, 3.0, 1.0, 2.0, 4.0, 1.0, 3.0, 3.0, 3.0), strict=True))
