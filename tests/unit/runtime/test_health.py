"""Probes and metrics, asked over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.config import Address
from tollbar.runtime.health import Health, HttpServer, LoopLag
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.service import Background, Service, ServiceError

PROBES, METRICS = Address("127.0.0.1", 0), Address("localhost", 0)


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(service.run(stop)) for service in services]
    for service in services:
        if isinstance(service, HttpServer):
            await service.listening.wait()
    await asyncio.sleep(0)
    yield
    stop.set()
    await asyncio.gather(*tasks)


async def ask(server: HttpServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://localhost:{server.port}{path}") as response:
            return response.status, await response.text()


async def test_a_healthy_process_says_ok_and_more_when_asked() -> None:
    health = Health(Metrics())
    health.alive("lease", lambda: None)
    probes, metrics = health.servers(PROBES, METRICS)
    async with running(probes, metrics):
        assert [await ask(probes, "/healthz"), await ask(probes, "/healthz?verbose")] == [
            (200, "ok"),
            (200, "[+]ping ok\n[+]lease ok\nhealthz check passed\n"),
        ]


async def test_a_failing_check_is_named_with_its_reason() -> None:
    def broken() -> str | None:
        raise KeyError("user data")

    health = Health(Metrics())
    health.alive("lag", lambda: "blocked for 7.0 s")
    health.alive("broken", broken)
    probes, metrics = health.servers(PROBES, METRICS)
    async with running(probes, metrics):
        assert await ask(probes, "/healthz") == (
            500,
            """[+]ping ok
[-]lag failed: blocked for 7.0 s
[-]broken failed: the check raised KeyError
healthz check failed
""",
        )


async def test_a_process_is_ready_only_while_its_readiness_service_runs() -> None:
    health = Health(Metrics())
    synced = False
    health.ready("caches", lambda: None if synced else "Pod not synced")
    probes, metrics = health.servers(PROBES, METRICS)
    seen = []
    async with running(probes, metrics):
        async with running(health.readiness):
            seen.append(await ask(probes, "/readyz"))
            synced = True
            seen.append(await ask(probes, "/readyz"))
        seen.append(await ask(probes, "/readyz"))
        seen.append(await ask(probes, "/healthz"))
    assert seen == [
        (500, "[+]ping ok\n[+]shutdown ok\n[-]caches failed: Pod not synced\nreadyz check failed\n"),
        (200, "ok"),
        (
            500,
            """[+]ping ok
[-]shutdown failed: the process is starting or winding down
[+]caches ok
readyz check failed
""",
        ),
        (200, "ok"),
    ]


async def test_metrics_have_their_own_address_unless_it_is_the_same() -> None:
    metrics = Metrics()
    metrics.gauge("tollbar_gated_pods").set(3)
    health = Health(metrics)
    apart = health.servers(PROBES, METRICS)
    [together] = health.servers(PROBES, PROBES)
    async with running(*apart, together):
        statuses = [
            [(await ask(server, path))[0] for path in ("/healthz", "/metrics")] for server in (*apart, together)
        ]
        text = (await ask(together, "/metrics"))[1]
    assert (statuses, "tollbar_gated_pods 3.0" in text.splitlines()) == ([[200, 404], [404, 200], [200, 200]], True)


async def test_a_taken_address_fails_the_service() -> None:
    [first] = Health(Metrics()).servers(PROBES, PROBES)
    async with running(first):
        taken = Address("127.0.0.1", first.port)
        [second] = Health(Metrics()).servers(taken, taken)
        with pytest.raises(ServiceError, match=f"^cannot listen at 127.0.0.1:{first.port}: Address already in use$"):
            await second.run(asyncio.Event())


@pytest.mark.looptime
async def test_an_event_loop_that_keeps_up_is_healthy(clock: Clock) -> None:
    lag = LoopLag(clock)
    before = lag.check()
    async with running(Background("lag", lag.run)):
        await asyncio.sleep(60)
        assert (before, lag.check()) == (None, None)


class LateClock(SystemClock):
    """A clock whose sleeps take longer by what is in `late`, without waiting."""

    def __init__(self, late: list[float]) -> None:
        self.time = 0.0
        self.late = late

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if not self.late:
            await asyncio.Event().wait()
        self.time += seconds + self.late.pop(0)


LAGS = {
    "a short block is nothing": ([0.0, 4.0, 0.0], 0.0, None),
    "a long one is reported": ([0.0, 7.0, 0.0], 0.0, "the event loop was blocked for 7.0 s"),
    "and forgotten after ten beats": ([7.0] + [0.0] * 10, 0.0, None),
    "a beat that does not come is reported": ([0.0], 6.5, "the event loop was blocked for 5.5 s"),
}


@pytest.mark.parametrize(("late", "then", "want"), LAGS.values(), ids=LAGS)
async def test_a_blocked_event_loop_is_noticed(late: list[float], then: float, want: str | None) -> None:
    slow = LateClock(list(late))
    lag = LoopLag(slow)
    async with running(Background("lag", lag.run)):
        for _ in range(3):
            await asyncio.sleep(0)
        slow.time += then
        assert lag.check() == want
