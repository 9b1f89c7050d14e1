"""Claims whose search would outlast the cluster: the cycle ends in time, and others run meanwhile."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from clusters.scheduler import node, scheduling
from objects.builders import Built, claim, device_class, pod
from objects.devices import DRIVER, consuming, device, exactly, published, selecting

from tollbar import cel
from tollbar.model.objects import Object, spec
from tollbar.runtime.clock import SystemClock

pytestmark = pytest.mark.looptime
GPUS = published("gpus", *(device(f"d{number}", kind="gpu", half=number % 2) for number in range(62)))
SAME_HALF: Object = {"matchAttribute": f"{DRIVER}/half"}
NEVER = selecting("false")
COUNTERS = published(
    "counters", pool="cards", sharedCounters=[{"name": "shared", "counters": {"memory": {"value": "10"}}}]
).but("spec.pool.resourceSliceCount", 2)
CARDS = published(
    "cards", *(consuming(device(f"c{number}", kind="card"), memory="6") for number in range(2)), pool="cards"
).but("spec.pool.resourceSliceCount", 2)


def alternatives(name: str, count: int) -> Object:
    given = [{"name": f"a{number}", **exactly()["exactly"]} for number in range(count)]
    return {"name": name, "firstAvailable": given}


def of_kind(kind: str) -> list[Object]:
    return selecting(f'device.attributes["{DRIVER}"].kind == "{kind}"')


ADVERSARIES: Mapping[str, Object] = {
    "32 requests, and a constraint that only the last one fails": {
        "requests": [exactly(f"r{number}") for number in range(32)],
        "constraints": [SAME_HALF],
    },
    "lists of eight alternatives before a request that nothing satisfies": {
        "requests": [*(alternatives(f"r{number}", 8) for number in range(31)), exactly("last", selectors=NEVER)],
    },
    "all devices, whose counters do not suffice, after 30 requests": {
        "requests": [
            *(exactly(f"r{number}", selectors=of_kind("gpu")) for number in range(30)),
            exactly("all", None, selectors=of_kind("card")),
        ],
    },
}


class Ticking(SystemClock):
    """A clock that goes on by a tenth of a millisecond with each look at it, as if all in between took as long."""

    def __init__(self) -> None:
        self.ticks = 0

    def monotonic(self) -> float:
        self.ticks += 1
        return super().monotonic() + self.ticks / 10_000


@contextmanager
def watching(clock: Ticking) -> Iterator[list[int]]:
    """How many ticks go by between two turns of the event loop."""
    held: list[int] = []

    async def watch() -> None:
        while True:
            before = clock.ticks
            await asyncio.sleep(0)
            held.append(clock.ticks - before)

    task = asyncio.create_task(watch())
    try:
        yield held
    finally:
        task.cancel()


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    """The first expression that is compiled loads what compiling needs, which blocks."""
    cel.engine().compile("true", cel.DEVICE_ENV)


@pytest.mark.parametrize("devices", ADVERSARIES.values(), ids=ADVERSARIES)
async def test_a_search_without_end_ends_at_its_deadline_and_gives_others_their_turns(devices: Object) -> None:
    clock = Ticking()
    given: list[Built] = [node("n1"), device_class(), GPUS, COUNTERS, CARDS]
    hostile = claim("hostile").but("spec.devices", devices)
    async with scheduling(*given, hostile, pod("hostile").claims("hostile"), clock=clock) as world:
        with watching(clock) as held:
            while not world.manager.told.said:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert any("timed out trying to allocate devices" in said for said in world.manager.told.said)
        assert clock.ticks < 110_000  # of which a search has 100,000
        assert max(held) < 100  # 10 ms


async def test_a_long_queue_gives_others_their_turns() -> None:
    clock, pods = Ticking(), [pod(f"p{number}") for number in range(100)]
    async with scheduling(*(node(f"n{number}") for number in range(10)), *pods, clock=clock) as world:
        with watching(clock) as held:
            while not all(spec(each).get("nodeName") for each in world.api.all("Pod")):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert max(held) < 100  # 10 ms, with the one cycle that was begun before the end of the turn
