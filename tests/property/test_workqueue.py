"""The work queue against a naive model: lists, searched from the front."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tollbar.model.objects import Key
from tollbar.runtime.clock import Clock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import WorkQueue

KEYS = [Key(namespace, name) for namespace in "ab" for name in "123"]
BASE, MAXIMUM = 1.0, 8.0

keys = st.sampled_from(KEYS)
priorities = st.sampled_from([-100, 0, 5])
seconds = st.sampled_from([0.5, 1.0, 2.5, 7.0])


class ManualClock:
    """Time stands still until `advance`, which wakes sleepers in the order of their times."""

    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, duration: float) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.time + duration, sleeper))
        await sleeper

    async def advance(self, duration: float) -> None:
        end = self.time + duration
        await settle()
        while due := sorted((entry for entry in self._sleepers if entry[0] <= end), key=lambda entry: entry[0]):
            self._sleepers.remove(due[0])
            self.time = due[0][0]
            if not due[0][1].done():
                due[0][1].set_result(None)
            await settle()
        self.time = end


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Model:
    """What the queue should do, in the most obvious way."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waiting: list[tuple[Key, int]] = []
        """In the order in which the keys got their priority."""
        self.turns: list[tuple[int, str]] = []
        """Namespaces of each priority, the one whose turn it is first."""
        self.running: list[Key] = []
        self.again: dict[Key, int] = {}
        self.timers: dict[Key, float] = {}
        self.failures: dict[Key, int] = {}

    def add(self, key: Key, priority: int = 0) -> None:
        if key in self.running:
            self.again[key] = max(priority, self.again.get(key, priority))
            return
        held = [entry[1] for entry in self.waiting if entry[0] == key]
        if held and held[0] >= priority:
            return
        if held:
            self._remove(key, held[0])
        self.waiting.append((key, priority))
        if (priority, key.namespace) not in self.turns:
            self.turns.append((priority, key.namespace))

    def _remove(self, key: Key, priority: int) -> None:
        self.waiting.remove((key, priority))
        if not any(entry[1] == priority and entry[0].namespace == key.namespace for entry in self.waiting):
            self.turns.remove((priority, key.namespace))

    def get(self) -> Key:
        priority = max(entry[1] for entry in self.waiting)
        turn = next(turn for turn in self.turns if turn[0] == priority)
        key = next(key for key, level in self.waiting if (level, key.namespace) == turn)
        self._remove(key, priority)
        if turn in self.turns:
            self.turns.remove(turn)
            self.turns.append(turn)
        self.running.append(key)
        return key

    def done(self, key: Key) -> None:
        self.running.remove(key)
        if key in self.again:
            self.add(key, self.again.pop(key))

    def add_after(self, key: Key, duration: float) -> None:
        due = self.time + duration
        if due < self.timers.get(key, due + 1):
            self.timers.pop(key, None)
            self.timers[key] = due

    def add_rate_limited(self, key: Key) -> None:
        self.failures[key] = self.failures.get(key, 0) + 1
        self.add_after(key, min(BASE * 2 ** (self.failures[key] - 1), MAXIMUM))

    def forget(self, key: Key) -> None:
        self.failures.pop(key, None)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        clock: Clock = self.clock
        self.queue: WorkQueue[Key] = WorkQueue("q", clock=clock, metrics=Metrics(), base=BASE, maximum=MAXIMUM)
        self.model = Model()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def _call(self, name: str, *args: Any, **options: Any) -> None:
        getattr(self.queue, name)(*args, **options)
        await settle()

    @rule(key=keys, priority=priorities)
    def add(self, key: Key, priority: int) -> None:
        self.run(self._call("add", key, priority=priority))
        self.model.add(key, priority)

    @rule(key=keys, duration=seconds)
    def add_after(self, key: Key, duration: float) -> None:
        self.run(self._call("add_after", key, duration))
        self.model.add_after(key, duration)

    @rule(key=keys)
    def add_rate_limited(self, key: Key) -> None:
        self.run(self._call("add_rate_limited", key))
        self.model.add_rate_limited(key)

    @rule(key=keys)
    def forget(self, key: Key) -> None:
        self.run(self._call("forget", key))
        self.model.forget(key)

    @rule(duration=seconds)
    def advance(self, duration: float) -> None:
        """One moment at a time; timers of one moment ring in the order in which they were set."""
        end = self.model.time + duration
        while ripe := {key: due for key, due in self.model.timers.items() if due <= end}:
            moment = min(ripe.values())
            self.run(self.clock.advance(moment - self.model.time))
            self.model.time = moment
            for key in [key for key, due in ripe.items() if due == moment]:
                del self.model.timers[key]
                self.model.add(key)
        self.run(self.clock.advance(end - self.model.time))
        self.model.time = end

    @precondition(lambda self: self.model.waiting)
    @rule()
    def get(self) -> None:
        assert self.run(self.queue.get()) == self.model.get()

    @precondition(lambda self: not self.model.waiting)
    @rule()
    def a_worker_waits_in_vain(self) -> None:
        async def wait() -> bool:
            worker = asyncio.create_task(self.queue.get())
            await settle()
            idle = not worker.done()
            worker.cancel()
            await settle()
            return idle

        assert self.run(wait())

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.model.running))
        self.run(self._call("done", key))
        self.model.done(key)

    @invariant()
    def the_same_number_waits(self) -> None:
        assert len(self.queue) == len(self.model.waiting)

    def teardown(self) -> None:
        self.run(self._call("shut_down"))
        self.loop.close()


QueueMachine.TestCase.settings = settings(stateful_step_count=40)
TestQueueMachine = QueueMachine.TestCase


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), keys),
            st.tuples(st.just("cancel"), st.integers(0, 3)),
            st.tuples(st.just("yield"), st.integers(1, 3)),
        ),
        max_size=40,
    )
)
def test_no_key_is_lost_when_workers_are_cancelled(steps: list[tuple[str, Any]]) -> None:
    """Five workers, some of them cancelled while they wait, never while they work; one lives on."""

    async def play() -> tuple[set[Key], set[Key], int]:
        queue: WorkQueue[Key] = WorkQueue("q", clock=ManualClock(), metrics=Metrics())
        added: set[Key] = set()
        worked: set[Key] = set()

        async def work() -> None:
            while True:
                key = await queue.get()
                worked.add(key)
                queue.done(key)

        workers = [asyncio.create_task(work()) for _ in range(5)]
        await asyncio.sleep(0)
        for what, value in steps:
            if what == "add":
                added.add(value)
                queue.add(value)
            elif what == "cancel":
                workers[value].cancel()
            else:
                for _ in range(value):
                    await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        return added, worked, len(queue)

    added, worked, left = asyncio.run(play())
    assert (worked, left) == (added, 0)
