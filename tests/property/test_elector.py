"""Two electors on one Lease, with fake time: never two leaders at one instant, whatever the network does.

The model is a Lease behind an API server whose every answer may be slow, refused, lost after it took effect, or never
come; a request that a caller gives up may still take effect later.  Wall clocks of the two machines differ by hours.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

import pytest
from fakes.clocks import LoopClock, in_fake_time
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound, ServerError
from tollbar.runtime.leader import Elector
from tollbar.runtime.metrics import Metrics

LEASE = 15.0
Outcome = Literal["answered", "refused", "answer lost", "never answered", "never arrives"]
Outage = tuple[float, float, Outcome]
"""When it starts, how long it lasts, and what becomes of the requests in it."""


@dataclass(frozen=True)
class Exchange:
    """What becomes of one request: seconds until it takes effect and until its answer, and what the caller gets."""

    before: float = 0.01
    after: float = 0.01
    outcome: Outcome = "answered"


@dataclass
class Server:
    """One Lease with optimistic concurrency."""

    record: Object | None = None
    version: int = 0
    writes: list[tuple[float, Object]] = field(default_factory=list)  # when, which spec

    def get(self) -> Object:
        if self.record is None:
            raise NotFound(404, "NotFound", "no lease")
        return self.record

    def create(self, obj: Object) -> Object:
        if self.record is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        return self._store(obj)

    def replace(self, obj: Object) -> Object:
        if obj["metadata"]["resourceVersion"] != self.get()["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "it changed")
        return self._store(obj)

    def _store(self, obj: Object) -> Object:
        self.version += 1
        self.record = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        self.writes.append((asyncio.get_running_loop().time(), self.record["spec"]))
        return self.record


class Network:
    """One machine's way to the server, as an elector's client.

    `faults` are played until the time `healthy_from`, except during `outages`.
    """

    def __init__(
        self,
        server: Server,
        faults: Iterator[Exchange],
        outages: tuple[Outage, ...],
        healthy_from: float,
    ) -> None:
        self.server = server
        self.faults = faults
        self.outages = outages
        self.healthy_from = healthy_from
        self.calls: set[asyncio.Task[Object | ApiError]] = set()

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object:
        assert (res, name, namespace) == (LEASES, "tollbar", "ns")
        return await self._call(self.server.get)

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
        assert (res, namespace) == (LEASES, "")
        return await self._call(lambda: self.server.create(obj))

    async def replace(self, res: Resource, obj: Object) -> Object:
        assert res == LEASES
        return await self._call(lambda: self.server.replace(obj))

    async def _call(self, effect: Callable[[], Object]) -> Object:
        call = asyncio.create_task(self._exchange(self._next(), effect))  # outlives a caller that gives up
        self.calls.add(call)
        result = await asyncio.shield(call)
        if isinstance(result, ApiError):
            raise result
        return result

    def _next(self) -> Exchange:
        now = asyncio.get_running_loop().time()
        if now >= self.healthy_from:
            return Exchange()
        for start, length, outcome in self.outages:
            if start <= now < start + length:
                return Exchange(outcome=outcome)
        return next(self.faults)

    async def _exchange(self, exchange: Exchange, effect: Callable[[], Object]) -> Object | ApiError:
        result: Object | ApiError = ServerError(500, "InternalError", "refused")
        await asyncio.sleep(exchange.before)
        if exchange.outcome == "never arrives":
            await asyncio.Event().wait()
        if exchange.outcome != "refused":
            try:
                result = effect()
            except ApiError as error:
                result = error
        await asyncio.sleep(exchange.after)
        if exchange.outcome == "answer lost":
            return ServerError(504, "Timeout", "lost")
        if exchange.outcome == "never answered":
            await asyncio.Event().wait()
        return result


@dataclass
class Watch:
    """Who works at this instant, and what should never have been."""

    server: Server
    working: set[str] = field(default_factory=set)
    overlaps: list[frozenset[str]] = field(default_factory=list)
    outlived: list[str] = field(default_factory=list)

    def enter(self, who: str) -> None:
        self.working.add(who)
        if len(self.working) > 1:
            self.overlaps.append(frozenset(self.working))

    def leave(self, who: str) -> None:
        """Whoever stops must do so within the lease that it had, whether or not somebody was there to take it."""
        held_until = max(when for when, spec in self.server.writes if spec["holderIdentity"] == who) + LEASE
        if who in self.working and asyncio.get_running_loop().time() > held_until:
            self.outlived.append(who)
        self.working.discard(who)


@dataclass(frozen=True)
class Machine:
    """A machine restarts its process whenever that ends; each process is asked to stop after some seconds."""

    name: str
    skew: float
    faults: tuple[Exchange, ...]
    outages: tuple[Outage, ...]
    lifetimes: tuple[float, ...]
    stopping_takes: tuple[float, ...]  # seconds that the work needs to stop, per process
    renew: float = 10.0

    async def live(self, server: Server, watch: Watch, healthy_from: float, seed: int) -> None:
        network = Network(server, cycle(self.faults), self.outages, healthy_from)
        lives = zip(cycle(self.lifetimes), cycle(self.stopping_takes), strict=False)
        for number, (lifetime, stopping_takes) in enumerate(lives):
            process = Process(f"{self.name}-{number}", stopping_takes, watch)
            elector = Elector(
                network,
                name="tollbar",
                namespace="ns",
                identity=process.name,
                clock=LoopClock(self.skew),
                rng=random.Random(f"{seed} {process.name}"),
                metrics=Metrics(),
                renew=self.renew,
                die=process.die,
            )
            running = asyncio.create_task(elector.run(process.work))
            if asyncio.get_running_loop().time() < healthy_from:
                await asyncio.wait({running}, timeout=lifetime)
                running.cancel()
            killed = asyncio.create_task(process.killed.wait())
            await asyncio.wait({running, killed}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            killed.cancel()
            await asyncio.gather(running, killed, return_exceptions=True)
            await asyncio.sleep(1.0)


class Process:
    """The work of one leader: it needs a while to stop, and is gone at once when the process dies."""

    def __init__(self, name: str, stopping_takes: float, watch: Watch) -> None:
        self.name = name
        self.stopping_takes = stopping_takes
        self.watch = watch
        self.killed = asyncio.Event()

    def die(self) -> None:
        self.killed.set()
        self.watch.leave(self.name)

    async def work(self) -> None:
        self.watch.enter(self.name)
        clock, stop_at = asyncio.get_running_loop(), float("inf")
        try:
            while not self.killed.is_set() and clock.time() < stop_at:
                try:
                    async with asyncio.timeout_at(stop_at if stop_at < float("inf") else None):
                        await self.killed.wait()
                except asyncio.CancelledError:
                    stop_at = min(stop_at, clock.time() + self.stopping_takes)
                except TimeoutError:
                    break
        finally:
            self.watch.leave(self.name)


@dataclass(frozen=True)
class Verdict:
    """What a run of the model came to."""

    overlaps: tuple[frozenset[str], ...]
    outlived: tuple[str, ...]
    leaders_in_the_end: int


SECONDS = st.sampled_from([0.0, 0.01, 0.5, 1.4, 2.9, 3.1, 6.0, 11.0, 16.0, 33.0])
EXCHANGES = st.builds(
    Exchange,
    before=SECONDS,
    after=SECONDS,
    outcome=st.sampled_from(
        ["answered", "answered", "answered", "refused", "answer lost", "never answered", "never arrives"]
    ),
)
MOSTLY_FINE = st.just(Exchange()) | st.just(Exchange()) | EXCHANGES
LOST: list[Outcome] = ["never answered", "never arrives"]
OUTAGES = st.tuples(
    st.sampled_from([1.0, 6.0, 13.0, 27.0, 50.0]), st.sampled_from([5.0, 14.0, 31.0]), st.sampled_from(LOST)
)


def machines(name: str) -> st.SearchStrategy[Machine]:
    return st.builds(
        Machine,
        name=st.just(name),
        skew=st.sampled_from([0.0, -7200.0, 86_400.0, 0.3]),
        faults=st.lists(MOSTLY_FINE, min_size=1, max_size=12).map(tuple),
        outages=st.lists(OUTAGES, max_size=2).map(tuple),
        lifetimes=st.lists(st.sampled_from([4.0, 17.0, 40.0, 1000.0]), min_size=1, max_size=4).map(tuple),
        stopping_takes=st.lists(st.sampled_from([0.0, 1.0, 4.0, 9.0, 60.0]), min_size=1, max_size=3).map(tuple),
    )


async def model(first: Machine, second: Machine, *, seed: int, faulty: float, total: float) -> Verdict:
    """Let both machines live for `total` seconds, the network being at their faults' mercy for the first `faulty`."""
    server = Server()
    watch = Watch(server)
    lives = [asyncio.create_task(m.live(server, watch, faulty, seed)) for m in (first, second)]
    done, _ = await asyncio.wait(lives, timeout=total, return_when=asyncio.FIRST_EXCEPTION)
    for life in done:
        life.result()
    verdict = Verdict(tuple(watch.overlaps), tuple(watch.outlived), len(watch.working))
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.wait(running)  # a candidate that is cancelled asks once more, to give back what it may hold
    return verdict


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The electors report every failed call, and every killed process."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.behaviour(33)
@settings(max_examples=settings.default.max_examples * 3 // 5)
@example(  # the last answer before an outage is slow, and so is the work: only the time of sending counts
    first=Machine("a", 0.0, (Exchange(after=1.3),), ((6.0, 80.0, "never arrives"),), (1000.0,), (4.2,)),
    second=Machine("b", 0.0, (Exchange(),), ((0.0, 4.0, "never arrives"),), (1000.0,), (0.0,)),
    seed=0,
)
@given(first=machines("a"), second=machines("b"), seed=st.integers(0, 2**16))
def test_never_two_leaders_and_one_again_when_the_network_recovers(first: Machine, second: Machine, seed: int) -> None:
    verdict = in_fake_time(model(first, second, seed=seed, faulty=90.0, total=280.0))
    assert verdict == Verdict(overlaps=(), outlived=(), leaders_in_the_end=1)


def test_the_model_notices_an_elector_that_holds_on_for_too_long() -> None:
    """Without this the property above could hold because the model cannot see anything."""
    fine = (Exchange(),)
    late = Machine("a", 0.0, fine, ((5.0, 500.0, "never arrives"),), (1000.0,), (0.0,), renew=60.0)
    soon = Machine("b", 0.0, (Exchange(before=0.1),), (), (1000.0,), (0.0,))
    verdict = in_fake_time(model(late, soon, seed=0, faulty=500.0, total=200.0))
    assert verdict == Verdict((frozenset({"a-0", "b-0"}),), ("a-0",), 1)
