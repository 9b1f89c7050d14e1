"""What the tests of the process runtime share."""

import asyncio

import pytest

EPOCH = 1_800_000_000.0


class LoopClock:
    """The event loop's time, which is fake where a test is marked `looptime`; the epoch starts at `EPOCH`."""

    def now(self) -> float:
        return EPOCH + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()
