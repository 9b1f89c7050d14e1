"""Who waits for what is stored goes on at the change after which it holds, and learns what went wrong."""

import asyncio
from typing import Any, cast

import pytest
from history.recording import Recorder

from tollbar.model.objects import Object
from tollbar.runtime.client import Client


class Watched(Recorder):
    """A recorder that is told what happens."""

    def __init__(self) -> None:
        super().__init__(cast("Client", None))

    def told(self, name: str, type_: str = "ADDED", **more: Any) -> None:
        self._note("Pod", type_, {"metadata": {"namespace": "ml", "name": name, "uid": name}, **more})

    def get(self, name: str) -> Object:
        return self.objects["ml"]["Pod", name]


async def test_each_waits_for_what_is_its_own() -> None:
    recorder = Watched()
    web, job = (
        asyncio.create_task(recorder.until(lambda name=name: ("Pod", name) in recorder.objects["ml"], 60.0))
        for name in ("web", "job")
    )
    await asyncio.sleep(0)
    recorder.told("web")
    assert await web
    assert not job.done()
    recorder.told("job")
    assert await job


async def test_what_holds_already_is_not_waited_for() -> None:
    assert await Watched().until(lambda: True, 0.0)


async def test_what_does_not_come_to_hold_ends_with_the_time() -> None:
    recorder = Watched()
    assert not await recorder.until(lambda: False, 0.01)
    recorder.told("web")  # nobody waits any more


async def test_what_held_for_a_moment_does_not_hold() -> None:
    recorder = Watched()
    waiting = asyncio.create_task(recorder.until(lambda: ("Pod", "web") in recorder.objects["ml"], 60.0))
    await asyncio.sleep(0)
    recorder.told("web")
    recorder.told("web", "DELETED")
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    recorder.told("web")
    assert await waiting


async def test_a_question_that_cannot_be_answered_fails_the_one_who_asks_it() -> None:
    recorder = Watched()
    recorder.told("web", ready=False)
    asking = asyncio.create_task(recorder.until(lambda: bool(recorder.get("web")["ready"]), 60.0))
    other = asyncio.create_task(recorder.until(lambda: ("Pod", "web") not in recorder.objects["ml"], 60.0))
    await asyncio.sleep(0)
    recorder.told("web", "DELETED")
    with pytest.raises(KeyError):
        await asking
    assert await other
