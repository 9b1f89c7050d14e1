"""The scheduler's loop: what becomes of the Pods that are being bound when it ends, and when it begins again."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from clusters import scheduler
from clusters.scheduler import ApiServer, enabling, settled
from fakes.clocks import in_fake_time
from fakes.manager import turns
from objects.builders import pod
from plugins.toys import POD, framework, handle, node, pod_info

from controllers.scheduler import cycle
from controllers.scheduler.cycle import Scheduler
from controllers.scheduler.metrics import SchedulerMetrics
from controllers.scheduler.statuswriter import StatusWriter
from tollbar.model.resources import PODS
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.topologylabels import TopologyLabels
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.status import Status, failed, unschedulable
from tollbar.scheduler.queue import NominatedPods, Profile, SchedulingQueue

SCHEDULER = "default-scheduler"


@dataclass
class Hesitant:
    """Binds when it may; what it starts in Unreserve never ends by itself."""

    handle: Handle
    name: str = "Hesitant"
    said: list[str] = field(default_factory=list)
    binds: asyncio.Event = field(default_factory=asyncio.Event)
    may_bind: asyncio.Event = field(default_factory=asyncio.Event)
    has_bound: asyncio.Event = field(default_factory=asyncio.Event)

    def reserve(self, *_: Any) -> None:
        self.said.append("reserved")

    def unreserve(self, *_: Any) -> None:
        self.handle.start(self._undo())

    async def bind(self, *_: Any) -> None:
        self.binds.set()
        await self.may_bind.wait()

    async def post_bind(self, *_: Any) -> None:
        self.has_bound.set()

    async def _undo(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.said.append("cleaned up")


class Silent:
    def emit(self, *_: Any) -> None:
        pass


class World:
    """One Node, and one Pod that waits."""

    def __init__(self, plugin: type[Hesitant] = Hesitant, clock: SystemClock | None = None) -> None:
        clock, own, metrics, nobody = clock or SystemClock(), handle(), SchedulerMetrics(Metrics()), Silent()
        calls: Any = None  # the only plugin calls no API
        recorder: Any = nobody
        self.plugin = plugin(own)
        self.cache = Cache()
        self.cache.set_node(node("n"))
        self.queue = SchedulingQueue(
            lambda one, other: one.timestamp < other.timestamp,
            {SCHEDULER: Profile()},
            now=clock.monotonic,
            nominator=NominatedPods(lambda _key: POD),
        )
        self.scheduler = Scheduler(
            {SCHEDULER: framework(self.plugin, handle=own)},
            self.cache,
            Snapshot(),
            self.queue,
            TopologyLabels(Shapes()),
            current=lambda _key: POD,
            begin=self.begin,
            status=StatusWriter(calls, Store(PODS), clock),
            recorder=recorder,
            clock=clock,
            rng=Random(1),
            metrics=metrics,
        )
        own.start = self.scheduler.start
        self.queue.add(POD)

    async def begin(self) -> None:
        """It has what it needs in the queue."""

    async def run_until(self, moment: asyncio.Event) -> None:
        running = asyncio.create_task(self.scheduler.run())
        await moment.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.behaviour(25)
async def test_what_is_being_bound_in_the_end_is_forgotten_and_waits_again() -> None:
    world = World()
    await world.run_until(world.plugin.binds)
    assert (world.plugin.said, world.cache.sizes()["assumed_pods"]) == (["reserved", "cleaned up"], 0)
    assert (len(world.queue.in_flight), sum(world.queue.counts().values())) == (0, 1)


async def test_when_it_begins_again_it_is_bound() -> None:
    world = World()
    await world.run_until(world.plugin.binds)
    world.queue.activate([POD])
    world.plugin.may_bind.set()
    await world.run_until(world.plugin.has_bound)
    assert (world.cache.sizes()["assumed_pods"], sum(world.queue.counts().values())) == (1, 0)


class Instant(Hesitant):
    """Binds at once, and says so."""

    async def bind(self, *_: Any) -> None:
        self.said.append("bound")

    async def post_bind(self, *_: Any) -> None:
        if self.said.count("bound") == 5:
            self.has_bound.set()


class Standing(SystemClock):
    """Its time does not pass, as in a simulation while there is something to do."""

    def monotonic(self) -> float:
        return 0.0


async def test_pods_are_bound_before_many_more_have_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "_BINDINGS", 2)
    world = World(Instant, Standing())
    for number in range(4):
        world.queue.add(pod_info(f"p{number}"))
    await world.run_until(world.plugin.has_bound)
    assert world.plugin.said == [*(["reserved"] * 2 + ["bound"] * 2) * 2, "reserved", "bound"]


async def test_others_run_between_the_nodes_of_the_first_look_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "_TURN", 0.0)
    world, nodes = World(Instant), 100
    for number in range(nodes):
        world.cache.set_node(node(f"n{number}"))
    running = asyncio.create_task(world.scheduler.run())
    had_turns = 0
    while not world.plugin.said:
        await asyncio.sleep(0)
        had_turns += 1
    running.cancel()
    await asyncio.wait([running])
    assert had_turns > nodes


async def test_a_first_look_at_the_nodes_that_raises_keeps_no_pod_from_being_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(Instant)
    for number in range(4):
        world.queue.add(pod_info(f"p{number}"))

    def raising(*_: Any) -> Iterator[None]:
        monkeypatch.undo()
        raise KeyError("effect")
        yield

    monkeypatch.setattr(Snapshot, "catch_up", raising)
    await world.run_until(world.plugin.has_bound)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[SchedulingQueue]:
    """The queue, once for each time that the scheduler has asked it for a Pod."""
    found: list[SchedulingQueue] = []
    pop = SchedulingQueue.pop

    def counted(queue: SchedulingQueue) -> Any:
        found.append(queue)
        return pop(queue)

    monkeypatch.setattr(SchedulingQueue, "pop", counted)
    return found


async def test_what_helps_no_pod_that_waits_costs_no_look_at_the_queue(looks: list[SchedulingQueue]) -> None:
    world = World(Instant)
    running = asyncio.create_task(world.scheduler.run())
    await turns()
    looked = [len(looks)]
    for pods in ((), (), [pod_info("later")]):
        for each in pods:
            world.queue.add(each)
        world.scheduler.wake()
        await turns()
        looked.append(len(looks))
    running.cancel()
    await asyncio.wait([running])
    assert (looked, world.plugin.said.count("bound")) == ([2, 2, 2, 4], 2)


class Full(Instant):
    """No Node fits."""

    def filter(self, *_: Any) -> Status:
        return unschedulable("no")


class Hurrying(SystemClock):
    """Whoever looks again does so after less time than before."""

    def __init__(self) -> None:
        self.time, self.step = 0.0, 0.1

    def monotonic(self) -> float:
        self.step *= 0.9
        self.time += self.step
        return self.time


async def test_what_helps_no_pod_that_waits_for_an_event_costs_no_look_at_the_queue(
    looks: list[SchedulingQueue],
) -> None:
    world = World(Full, clock=Hurrying())
    running = asyncio.create_task(world.scheduler.run())
    await turns()
    looked = []
    for _ in range(3):
        world.scheduler.wake()
        await turns()
        looked.append(len(looks))
    running.cancel()
    await asyncio.wait([running])
    assert (looked, world.queue.counts()["unschedulable"]) == ([2, 2, 2], 1)


class Failing(Instant):
    """Binds at its second attempt."""

    async def bind(self, *_: Any) -> Status | None:
        self.said.append("tried")
        if self.said.count("tried") == 1:
            return failed("not now")
        self.has_bound.set()
        return None


class Other(Failing):
    """No Node fits the other Pod, and binding takes so long that the loop sleeps by then."""

    answer = unschedulable("no")

    def filter(self, _state: object, given: PodInfo, _node: object) -> Status | None:
        return None if given.uid == POD.uid else self.answer

    async def bind(self, *given: Any) -> Status | None:
        await asyncio.sleep(0.5)
        return await super().bind(*given)


class Erring(Other):
    answer = failed("no idea")


@pytest.mark.parametrize(
    "plugin",
    [Failing, Other, Erring],
    ids=["nothing is due", "a rejected Pod is tried again much later", "a back-off ends before"],
)
def test_a_back_off_that_begins_while_the_loop_sleeps_ends_in_time(plugin: type[Failing]) -> None:
    async def attempts() -> tuple[int, float]:
        world, other = World(plugin), pod_info("other")
        if plugin is not Failing:
            world.queue.add(other)
            world.scheduler._current = lambda key: other if key == other.key else POD
        await asyncio.wait_for(world.run_until(world.plugin.has_bound), 60)
        return world.plugin.said.count("tried"), asyncio.get_running_loop().time()

    tried, time = in_fake_time(attempts())
    assert tried == 2
    assert 1 <= time <= 3


class Prepared:
    """Has nothing to do before a Pod is bound, which the scheduler does not know before it asks."""

    name = "Prepared"

    def __init__(self, *_: object) -> None:
        pass

    def pre_bind_pre_flight(self, *_: object) -> None:
        return None

    async def pre_bind(self, *_: object) -> None:
        return None


def delaying(plugin: type[Prepared], api: ApiServer) -> scheduler.World:
    """A leader with this plugin, which writes what becomes of a Pod after a quarter of a second."""
    own = {"Prepared": plugin}
    replica = scheduler.World(api, plugins=own, configuration=enabling("Prepared"), status_delay=0.25)
    replica.lead()
    return replica


BINDINGS: dict[str, tuple[list[str], list[str]]] = {
    "succeeds": ([], ["bind web"]),
    "fails, and all is said then": (["down"], ["bind web", "patch Pod web", "bind web"]),
}


@pytest.mark.parametrize(("faults", "expected"), BINDINGS.values(), ids=BINDINGS)
def test_nothing_is_written_into_the_status_while_a_binding_is_under_way_that(
    faults: list[str], expected: list[str]
) -> None:
    async def calls() -> list[str]:
        api = ApiServer([scheduler.node("n1"), pod("web")], latency=1.0)
        api.faults.extend(faults)
        replica = delaying(Prepared, api)
        await settled(replica)
        await replica.stop()
        return [each for each in api.calls if each.startswith(("bind", "patch"))]

    assert in_fake_time(calls()) == expected


def test_a_rejection_is_written_after_the_delay() -> None:
    async def written() -> list[list[str]]:
        api, found = ApiServer([scheduler.node("n1", unschedulable=True), pod("web")]), []
        replica = delaying(Prepared, api)
        for _ in range(2):
            await asyncio.sleep(0.2)
            found.append(list(api.calls))
        await replica.stop()
        return found

    assert in_fake_time(written()) == [[], ["patch Pod web"]]


class Slow(Prepared):
    async def pre_bind(self, *_: object) -> None:
        await asyncio.sleep(1)


def test_a_pod_is_bound_once_what_is_being_written_into_its_status_is_answered() -> None:
    async def bound() -> list[Any]:
        api = ApiServer([scheduler.node("n1"), pod("web")])
        api.faults.append("hangs after")
        replica, found = delaying(Slow, api), []
        for _ in range(2):
            await asyncio.sleep(scheduler.SLOW)
            found.append([each for each in api.calls if each.startswith(("bind", "patch"))])
        await replica.stop()
        return found

    assert in_fake_time(bound()) == [["patch Pod web"], ["patch Pod web", "bind web"]]
