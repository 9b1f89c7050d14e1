"""Waiting for a state of an object by watching it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tollbar.cli.waiting import NotSeen, Selection, milestones, until
from tollbar.model.objects import Key, Object
from tollbar.model.resources import PODS
from tollbar.runtime.client import WatchEvent
from tollbar.runtime.errors import Gone, Unreachable

POD = Selection.named(PODS, Key("ns", "web"))


class Script:
    """An API server that answers each list with the next items and each watch with the next events."""

    def __init__(self, *episodes: tuple[list[Object], list[WatchEvent | Exception]]) -> None:
        self._episodes = list(episodes)
        self._events: list[WatchEvent | Exception] = []
        self.asked: list[tuple[str, str]] = []

    async def list(self, _resource: Any, namespace: str, *, field_selector: str) -> Object:
        self.asked.append((namespace, field_selector))
        items, self._events = self._episodes.pop(0)
        return {"metadata": {"resourceVersion": "7"}, "items": items}

    async def watch(self, *_where: Any, resource_version: str, **_more: Any) -> AsyncGenerator[WatchEvent, None]:
        assert resource_version == "7"
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event
        if not self._episodes:
            await asyncio.Event().wait()


def pod(phase: str) -> Object:
    return {"metadata": {"name": "web"}, "status": {"phase": phase}}


def phase_is(phase: str) -> Any:
    return lambda found: found is not None and found["status"]["phase"] == phase


CASES: dict[str, dict[str, Any]] = {
    "it is so already": {"given": ([pod("Running")], []), "want": pod("Running")},
    "it becomes so": {
        "given": ([], [WatchEvent("ADDED", pod("Pending")), WatchEvent("MODIFIED", pod("Running"))]),
        "want": pod("Running"),
    },
    "a bookmark is no state": {
        "given": ([pod("Pending")], [WatchEvent("BOOKMARK", pod("Running")), WatchEvent("MODIFIED", pod("Running"))]),
        "want": pod("Running"),
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_first_state_that_is_wanted(case: dict[str, Any]) -> None:
    script = Script(case["given"])

    found = await until(script, POD, phase_is("Running"), timeout=30, what="web runs")

    assert (found, script.asked) == (case["want"], [("ns", "metadata.name=web")])


@pytest.mark.parametrize("error", [Gone(410, "Expired", "too old"), Unreachable("cut")])
async def test_a_watch_that_breaks_starts_over(error: Exception) -> None:
    script = Script(([pod("Pending")], [error]), ([pod("Running")], []))

    found = await until(script, POD, phase_is("Running"), timeout=30, what="web runs")

    assert found == pod("Running")


async def test_absence_can_be_wanted() -> None:
    script = Script(([pod("Running")], [WatchEvent("DELETED", pod("Running"))]))

    assert await until(script, POD, lambda found: found is None, timeout=30, what="web is gone") is None


async def test_what_did_not_come_is_named_with_the_last_state() -> None:
    script = Script(([pod("Pending")], []))

    with pytest.raises(NotSeen) as caught:
        await until(script, POD, phase_is("Running"), timeout=0.01, what="web runs")

    assert (caught.value.format_message(), caught.value.last) == ("web runs: not seen within 0.01 s", pod("Pending"))


async def test_milestones_have_their_order_and_times() -> None:
    class Ticking:
        ticks = 0.0

        def now(self) -> float:
            return 0.0

        def monotonic(self) -> float:
            self.ticks += 1
            return self.ticks

        async def sleep(self, seconds: float) -> None: ...

    script = Script(([pod("Pending")], [WatchEvent("MODIFIED", pod("Running"))]))
    wanted = {
        "exists": lambda found: found is not None,
        "pending": phase_is("Pending"),
        "running": phase_is("Running"),
    }

    last, reached = await milestones(script, POD, wanted, timeout=30, clock=Ticking())

    assert (last, reached) == (pod("Running"), {"exists": 1.0, "pending": 2.0, "running": 3.0})


async def test_the_first_missing_milestone_is_named() -> None:
    script = Script(([pod("Pending")], []))
    wanted = {"exists": lambda found: found is not None, "running": phase_is("Running"), "done": phase_is("Succeeded")}

    with pytest.raises(NotSeen, match="running: not seen"):
        await milestones(script, POD, wanted, timeout=0.01)
