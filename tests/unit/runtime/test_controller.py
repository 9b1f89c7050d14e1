"""The controller loop: what each outcome does to the key, the metrics and the log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tollbar.model.objects import Key
from tollbar.model.plan import AWAITING, DONE, Failed, Outcome, Requeue, RetryAfter
from tollbar.runtime import log
from tollbar.runtime.clock import Clock
from tollbar.runtime.controller import Controller
from tollbar.runtime.errors import ServerError, Unreachable
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.source import Watch, key_itself
from tollbar.runtime.workqueue import RELIST, WorkQueue

KEY = Key("ns", "web")
Reconcile = Callable[[Key], Awaitable[Outcome]]


class Bench:
    """One controller over one queue, and what can be seen of it."""

    def __init__(self, clock: Clock, reconcile: Reconcile, workers: int = 1, grace: float = 4.0) -> None:
        self.metrics = Metrics()
        self.queue: WorkQueue[Key] = WorkQueue("gates", clock=clock, metrics=self.metrics, base=1.0)
        self.controller = Controller(
            "gates",
            queue=self.queue,
            reconcile=reconcile,
            workers=workers,
            metrics=self.metrics,
            clock=clock,
            grace=lambda: grace,
        )

    def results(self) -> dict[str, float]:
        """Reconciles by result, and the counters of errors and panics."""
        found = {}
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == "controller_runtime_reconcile_total":
                    found[sample.labels["result"]] = sample.value
                elif sample.name.endswith(("errors_total", "panics_total")) and sample.value:
                    found[sample.name] = sample.value
        return found


def scripted(*steps: Outcome | Exception) -> tuple[Reconcile, list[float], asyncio.Event]:
    """A reconcile that plays these steps, the times at which it was called, and an event set at the last."""
    times: list[float] = []
    finished = asyncio.Event()

    async def reconcile(key: Key) -> Outcome:
        assert key == KEY
        times.append(asyncio.get_running_loop().time())
        step = steps[len(times) - 1]
        if len(times) == len(steps):
            finished.set()
        if isinstance(step, Exception):
            raise step
        return step

    return reconcile, times, finished


async def play(clock: Clock, *steps: Outcome | Exception) -> tuple[Bench, list[float]]:
    reconcile, times, finished = scripted(*steps)
    bench = Bench(clock, reconcile)
    await run_until(finished, bench)
    return bench, times


async def run_until(finished: asyncio.Event, bench: Bench) -> None:
    bench.queue.add(KEY)
    running = asyncio.create_task(bench.controller.run())
    await finished.wait()
    bench.queue.shut_down()
    await running


class Objects:
    """A source: what is there when a controller starts is replayed."""

    def __init__(self) -> None:
        self.there = [KEY]
        self.handlers: list[Callable[[Key], None]] = []

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        self.handlers.append(handler)

    def replay(self, handler: Callable[[Key], None]) -> None:
        for each in self.there:
            handler(each)


async def test_a_controller_that_runs_again_begins_with_what_is_there(clock: Clock) -> None:
    objects, seen = Objects(), asyncio.Queue[Key]()

    async def reconcile(key: Key) -> Outcome:
        seen.put_nowait(key)
        return DONE

    bench = Bench(clock, reconcile)
    bench.controller.watches = (Watch(objects, key_itself, initial=True),)
    for expected in ([KEY], [KEY, Key("ns", "new")]):
        running = asyncio.create_task(bench.controller.run())
        assert [await seen.get() for _ in expected] == expected
        running.cancel()
        await asyncio.wait({running})
        objects.there.append(Key("ns", "new"))
        objects.handlers[0](Key("ns", "new"))  # while it does not run
    assert (len(objects.handlers), len(bench.queue), seen.empty()) == (1, 0, True)


async def test_a_failure_in_an_outage_is_logged_for_debugging_only(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    lost, alone = Unreachable("no answer"), Unreachable("no answer")
    lost.in_outage = True
    with caplog.at_level(logging.DEBUG):
        bench, _ = await play(clock, lost, alone, DONE)
    said = [(record.levelname, record.message) for record in caplog.records if "failed" in record.message]
    assert said == [("DEBUG", "reconcile failed"), ("ERROR", "reconcile failed")]
    assert bench.results()["error"] == 2


REFUSED = ServerError(500, "InternalError", "no")
ERRORS = "controller_runtime_reconcile_errors_total"
REFUSALS = "controller_runtime_terminal_reconcile_errors_total"
PANICS = "controller_runtime_reconcile_panics_total"
OUTCOMES: dict[str, tuple[tuple[Outcome | Exception, ...], list[float], dict[str, float]]] = {
    "done is done": ((DONE,), [0], {"success": 1}),
    "a retry comes after its seconds": ((RetryAfter(30), DONE), [0, 30], {"requeue_after": 1, "success": 1}),
    "a requeue backs off": (
        (Requeue("Conflict"), Requeue("Conflict"), DONE),
        [0, 1, 3],
        {"requeue": 2, "success": 1},
    ),
    "a refusal backs off as an error": (
        (Failed("Refused"), Failed("Refused"), DONE),
        [0, 1, 3],
        {"error": 2, "success": 1, ERRORS: 2, REFUSALS: 2},
    ),
    "an API error backs off": ((REFUSED, REFUSED, DONE), [0, 1, 3], {"error": 2, "success": 1, ERRORS: 2}),
    "an outage costs half a minute at most when it is over": (
        (*[REFUSED] * 8, DONE),
        [0, 1, 3, 7, 15, 31, 61, 91, 121],
        {"error": 8, "success": 1, ERRORS: 8},
    ),
    "a refusal is tried less and less": (
        (*[Failed("Refused")] * 7, DONE),
        [0, 1, 3, 7, 15, 31, 63, 127],
        {"error": 7, "success": 1, ERRORS: 7, REFUSALS: 7},
    ),
    "or as soon as it says": (
        (*[Failed("Refused", at_most=5)] * 4, Failed("Refused", at_most=0), DONE),
        [0, 1, 3, 7, 12, 12],
        {"error": 5, "success": 1, ERRORS: 5, REFUSALS: 5},
    ),
    "any exception backs off, and is counted as a panic": (
        (KeyError("x"), DONE),
        [0, 1],
        {"error": 1, "success": 1, ERRORS: 1, PANICS: 1},
    ),
    "done forgets the back-off": (
        (Requeue("Conflict"), Requeue("Conflict"), RetryAfter(10), Requeue("Conflict"), DONE),
        [0, 1, 3, 13, 14],
        {"requeue": 3, "requeue_after": 1, "success": 1},
    ),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("steps", "times", "results"), OUTCOMES.values(), ids=OUTCOMES)
async def test_an_outcome_decides_when_the_key_comes_again(
    clock: Clock, steps: tuple[Outcome | Exception, ...], times: list[float], results: dict[str, float]
) -> None:
    bench, seen = await play(clock, *steps)
    assert ([round(t, 3) for t in seen], bench.results()) == (times, results)


@pytest.mark.looptime
async def test_what_waits_for_an_answer_keeps_its_back_off(clock: Clock) -> None:
    reconcile, times, finished = scripted(REFUSED, AWAITING, REFUSED, AWAITING, REFUSED, DONE)

    async def answered_at_once(key: Key) -> Outcome:
        outcome = await reconcile(key)
        if outcome == AWAITING:
            bench.queue.add(key)
        return outcome

    bench = Bench(clock, answered_at_once)
    await run_until(finished, bench)
    assert (times, bench.results()) == ([0, 1, 1, 3, 3, 7], {"error": 3, "success": 3, ERRORS: 3})


LINES = {
    "done": (DONE, ("DEBUG", "reconciled", {})),
    "awaiting": (AWAITING, ("DEBUG", "reconciled, waiting for an answer", {})),
    "retry": (RetryAfter(30), ("DEBUG", "reconciled, looking again later", {"seconds": 30})),
    "requeue": (Requeue("Conflict"), ("DEBUG", "reconcile to be repeated", {"reason": "Conflict"})),
    "terminal": (Failed("Refused"), ("WARNING", "reconcile refused", {"reason": "Refused"})),
    "API error, without a traceback": (
        REFUSED,
        ("ERROR", "reconcile failed", {"error": "500 InternalError: no"}),
    ),
    "exception": (KeyError("x"), ("ERROR", "reconcile failed", {"exc_info": KeyError})),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("step", "want"), LINES.values(), ids=LINES)
async def test_every_outcome_is_one_line(
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    step: Outcome | Exception,
    want: tuple[str, str, dict[str, Any]],
) -> None:
    caplog.set_level(logging.DEBUG, "tollbar.runtime.controller")
    await play(clock, step)
    [record] = caplog.records
    extra = {key: getattr(record, key) for key in ("seconds", "reason", "error") if hasattr(record, key)}
    if record.exc_info and record.exc_info[0]:
        extra["exc_info"] = record.exc_info[0]
    assert (record.levelname, record.message, extra) == want


@pytest.mark.looptime
async def test_lines_of_a_reconcile_carry_controller_object_and_id(clock: Clock) -> None:
    seen: list[str] = []

    async def reconcile(_key: Key) -> Outcome:
        line = log.TextFormatter().format(logging.makeLogRecord({"msg": "inside"}))
        seen.append(line.split("] ", 1)[1])
        return DONE

    bench = Bench(clock, reconcile)
    running = asyncio.create_task(bench.controller.run())
    for name in ("a", "b"):
        bench.queue.add(Key("ns", name))
        await asyncio.sleep(1)
    bench.queue.shut_down()
    await running
    assert seen == [
        '"inside" controller="gates" object="ns/a" reconcileID="00000001"',
        '"inside" controller="gates" object="ns/b" reconcileID="00000002"',
    ]


@pytest.mark.looptime
async def test_workers_run_side_by_side_but_never_on_one_key(clock: Clock) -> None:
    running: list[Key] = []
    most: list[int] = []

    async def reconcile(key: Key) -> Outcome:
        assert key not in running
        running.append(key)
        most.append(len(running))
        bench.queue.add(key)  # changed while it runs: once more, not at once
        await asyncio.sleep(1)
        running.remove(key)
        return DONE

    bench = Bench(clock, reconcile, workers=3)
    for number in range(5):
        bench.queue.add(Key("ns", str(number)))
    task = asyncio.create_task(bench.controller.run())
    await asyncio.sleep(20.5)
    task.cancel()
    await asyncio.wait({task})
    assert max(most) == 3


@pytest.mark.looptime
async def test_stopping_finishes_what_runs_and_starts_nothing(clock: Clock) -> None:
    finished: list[str] = []

    async def reconcile(key: Key) -> Outcome:
        await asyncio.sleep(2)
        finished.append(key.name)
        return DONE

    bench = Bench(clock, reconcile)
    bench.queue.add(Key("ns", "runs"))
    bench.queue.add(Key("ns", "waits"))
    task = asyncio.create_task(bench.controller.run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait({task})
    assert (finished, task.cancelled(), asyncio.get_running_loop().time()) == (["runs"], True, 2)


@pytest.mark.looptime
async def test_stopping_cancels_what_runs_for_too_long(clock: Clock) -> None:
    ended: list[str] = []

    async def reconcile(_key: Key) -> Outcome:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return DONE

    bench = Bench(clock, reconcile, grace=4.0)
    bench.queue.add(KEY)
    task = asyncio.create_task(bench.controller.run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait({task})
    assert (ended, task.cancelled(), asyncio.get_running_loop().time()) == (["cancelled"], True, 5)


@pytest.mark.parametrize("workers", [1, 64])
async def test_reconciles_that_wait_for_nothing_let_others_go_on(clock: Clock, workers: int) -> None:
    """The elector, for one, has to renew its lease during a long backlog."""
    turns, seen, done = 0, list[int](), asyncio.Event()

    async def reconcile(key: Key) -> Outcome:
        seen.append(turns)
        if len(seen) == 100:
            done.set()
        return DONE

    async def others() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    bench = Bench(clock, reconcile, workers)
    for number in range(100):
        bench.queue.add(Key("ns", str(number)))
    running = asyncio.create_task(bench.controller.run())
    await others()
    bench.queue.shut_down()
    await running
    assert len(set(seen)) == 100


@pytest.mark.parametrize("workers", [1, 64])
async def test_a_key_of_a_watch_event_goes_before_all_that_wait_from_a_list(clock: Clock, workers: int) -> None:
    """Also while reconciles wait for nothing: what brings the event gets its turn."""
    seen, done = list[str](), asyncio.Event()

    async def reconcile(key: Key) -> Outcome:
        if not seen:
            asyncio.get_running_loop().call_soon(bench.queue.add, KEY)
        seen.append(key.name)
        if len(seen) == 100:
            done.set()
        return DONE

    bench = Bench(clock, reconcile, workers)
    for number in range(99):
        bench.queue.add(Key("ns", str(number)), priority=RELIST)
    running = asyncio.create_task(bench.controller.run())
    await done.wait()
    bench.queue.shut_down()
    await running
    assert seen[1] == KEY.name
