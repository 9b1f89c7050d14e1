"""The recorder: what is written to events.k8s.io/v1, and what is not."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.model.resources import EVENTS, Resource
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Forbidden, NotFound
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics

pytestmark = pytest.mark.looptime

EPOCH = 1_800_000_000.0
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "ns", "name": "web", "uid": "u1", "resourceVersion": "5"},
    "spec": {"secret": "never copied"},
}
RULE = {"apiVersion": "tollbar.dev/v1alpha1", "kind": "TolerationRule", "metadata": {"name": "gpu", "uid": "u2"}}
HELD = Event("Normal", "SchedulingHeld", "waiting for claim gpu", "Hold")


def at(seconds: float) -> str:
    return timestamps.micro_time(EPOCH + seconds)


@dataclass
class Sink:
    """An API server for Events; `refuse` answers the next calls."""

    created: list[Object] = field(default_factory=list)
    series: list[tuple[str, Object]] = field(default_factory=list)
    refuse: list[ApiError] = field(default_factory=list)
    takes: float = 0.0

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
        assert (res, namespace) == (EVENTS, "")
        await self._answer()
        self.created.append(obj)
        return obj

    async def patch(
        self, res: Resource, name: str, body: Object, *, namespace: str = "", patch_type: PatchType
    ) -> Object:
        assert (res, patch_type) == (EVENTS, PatchType.MERGE)
        await self._answer()
        assert (namespace, name) in [(e["metadata"]["namespace"], e["metadata"]["name"]) for e in self.created]
        self.series.append((name, body))
        return body

    async def _answer(self) -> None:
        await asyncio.sleep(self.takes)
        if self.refuse:
            raise self.refuse.pop(0)


@dataclass
class Bench:
    sink: Sink
    recorder: Recorder
    metrics: Metrics

    def counts(self) -> dict[str, float]:
        """Events by what became of them, the zeros left out."""
        found = {}
        for result in ("sent", "series", "dropped", "failed"):
            if value := self.metrics.registry.get_sample_value("tollbar_events_total", {"result": result}):
                found[result] = value
        return found


@asynccontextmanager
async def recording(clock: Clock) -> AsyncIterator[Bench]:
    sink, metrics = Sink(), Metrics()
    recorder = Recorder(sink, controller="gates", instance="tollbar-0", clock=clock, metrics=metrics)
    running = asyncio.create_task(recorder.run())
    yield Bench(sink, recorder, metrics)
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})


async def test_the_first_of_its_kind_is_created_whole_and_without_a_series(clock: Clock) -> None:
    async with recording(clock) as bench:
        await asyncio.sleep(3)
        bench.recorder.emit(POD, HELD, related=RULE)
        await asyncio.sleep(1)
        [event] = bench.sink.created
        name = event["metadata"].pop("name")
        assert (name.startswith("web."), event, bench.counts()) == (
            True,
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"namespace": "ns"},
                "eventTime": at(3),
                "type": "Normal",
                "reason": "SchedulingHeld",
                "action": "Hold",
                "note": "waiting for claim gpu",
                "reportingController": "tollbar.dev/gates",
                "reportingInstance": "tollbar-0",
                "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "web", "uid": "u1"},
                "related": {
                    "apiVersion": "tollbar.dev/v1alpha1",
                    "kind": "TolerationRule",
                    "namespace": "",
                    "name": "gpu",
                    "uid": "u2",
                },
            },
            {"sent": 1},
        )


async def test_an_event_on_a_cluster_scoped_object_goes_to_the_default_namespace(clock: Clock) -> None:
    async with recording(clock) as bench:
        bench.recorder.emit(RULE, HELD)
        await asyncio.sleep(1)
        assert bench.sink.created[0]["metadata"]["namespace"] == "default"


async def test_repeats_within_two_minutes_of_the_last_patch_the_series(clock: Clock) -> None:
    async with recording(clock) as bench:
        for _ in range(3):
            bench.recorder.emit(POD, HELD)
            await asyncio.sleep(119)
        name = bench.sink.created[0]["metadata"]["name"]
        assert (bench.sink.series, bench.counts()) == (
            [
                (name, {"series": {"count": 2, "lastObservedTime": at(119)}}),
                (name, {"series": {"count": 3, "lastObservedTime": at(238)}}),
            ],
            {"sent": 1, "series": 2},
        )


async def test_repeats_within_ten_seconds_of_a_write_are_counted_by_the_next(clock: Clock) -> None:
    async with recording(clock) as bench:
        for _ in range(12):
            bench.recorder.emit(POD, HELD)
            await asyncio.sleep(1)
        name = bench.sink.created[0]["metadata"]["name"]
        assert bench.sink.series == [(name, {"series": {"count": 11, "lastObservedTime": at(10)}})]


async def test_a_repeat_after_two_minutes_is_a_new_event(clock: Clock) -> None:
    async with recording(clock) as bench:
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(121)
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(1)
        assert (len({e["metadata"]["name"] for e in bench.sink.created}), bench.sink.series) == (2, [])


async def test_a_clock_that_was_set_back_keeps_no_repeat_from_being_written(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recording(clock) as bench:
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(1)
        monkeypatch.setattr(clock, "now", lambda: EPOCH - 3600)
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(1)
        assert bench.counts() == {"sent": 1, "series": 1}


async def test_equal_events_that_wait_are_one_event_and_one_series(clock: Clock) -> None:
    async with recording(clock) as bench:
        for _ in range(5):
            bench.recorder.emit(POD, HELD)
        await asyncio.sleep(1)
        name = bench.sink.created[0]["metadata"]["name"]
        assert (len(bench.sink.created), bench.sink.series) == (
            1,
            [(name, {"series": {"count": 5, "lastObservedTime": at(0)}})],
        )


OTHERS = {
    "another note": (POD, Event("Normal", "SchedulingHeld", "waiting for class gpu", "Hold"), None),
    "another type": (POD, Event("Warning", "SchedulingHeld", "waiting for claim gpu", "Hold"), None),
    "another reason": (POD, Event("Normal", "GateReleased", "waiting for claim gpu", "Hold"), None),
    "another action": (POD, Event("Normal", "SchedulingHeld", "waiting for claim gpu", "Release"), None),
    "a namesake of the object": (POD | {"metadata": POD["metadata"] | {"uid": "u9"}}, HELD, None),  # type: ignore[operator]
    "something related": (POD, HELD, RULE),
}


@pytest.mark.parametrize(("regarding", "event", "related"), OTHERS.values(), ids=OTHERS)
async def test_what_differs_is_another_event(
    clock: Clock, regarding: Object, event: Event, related: Object | None
) -> None:
    async with recording(clock) as bench:
        bench.recorder.emit(POD, HELD)
        bench.recorder.emit(regarding, event, related)
        await asyncio.sleep(1)
        assert bench.counts() == {"sent": 2}


async def test_a_series_whose_event_is_gone_starts_anew(clock: Clock) -> None:
    async with recording(clock) as bench:
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(10)
        bench.sink.refuse.append(NotFound(404, "NotFound", "gone"))
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(10)
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(10)
        newest = bench.sink.created[-1]["metadata"]["name"]
        assert (len(bench.sink.created), bench.sink.series) == (
            2,
            [(newest, {"series": {"count": 2, "lastObservedTime": at(20)}})],
        )


async def test_errors_are_counted_and_one_outage_is_one_line(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with recording(clock) as bench:
        bench.sink.refuse += [Forbidden(403, "NamespaceTerminating", "") for _ in range(3)]
        for number in range(4):
            bench.recorder.emit(POD, Event("Normal", "R", str(number), "A"))
        await asyncio.sleep(1)
        assert (bench.counts(), [record.message for record in caplog.records]) == (
            {"failed": 3, "sent": 1},
            ["cannot record an event"],
        )


async def test_a_flood_is_sent_at_its_rate_and_the_rest_is_dropped(clock: Clock) -> None:
    async with recording(clock) as bench:
        for number in range(1500):
            bench.recorder.emit(POD, Event("Normal", "R", str(number), "A"))
        at_once = bench.counts()
        await asyncio.sleep(10.01)
        # 200 at once and 50 a second of the 1,000 that found room.
        assert (at_once, bench.counts()) == ({"dropped": 500}, {"dropped": 500, "sent": 700})


NOTES = {
    "a short note stays": ("short", "short"),
    "1,024 bytes stay": ("x" * 1024, "x" * 1024),
    "more is cut": ("x" * 1025, "x" * 1021 + "..."),
    "bytes count, and no character is cut in two": ("ß" * 600, "ß" * 510 + "..."),
    "what is not Unicode is replaced": ("a\ud800b", "a?b"),
}


@pytest.mark.parametrize(("note", "want"), NOTES.values(), ids=NOTES)
async def test_a_note_fits_the_api(clock: Clock, note: str, want: str) -> None:
    async with recording(clock) as bench:
        bench.recorder.emit(POD, Event("Normal", "R", note, "A"))
        await asyncio.sleep(1)
        assert bench.sink.created[0]["note"] == want


async def test_the_name_of_an_event_fits_however_long_the_name_of_the_object(clock: Clock) -> None:
    async with recording(clock) as bench:
        long = POD | {"metadata": {"namespace": "ns", "name": "a" * 235 + "." + "b" * 17}}
        bench.recorder.emit(long, HELD)
        await asyncio.sleep(1)
        name = bench.sink.created[0]["metadata"]["name"]
        assert (len(name) <= 253, name[:236]) == (True, "a" * 235 + ".")
