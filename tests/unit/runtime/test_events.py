"""The recorder: what is written to events.k8s.io/v1, and what is not."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from fakes.clocks import EPOCH

from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.model.resources import EVENTS, Resource
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Forbidden, NotFound, Unreachable
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics

pytestmark = pytest.mark.looptime

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "ns", "name": "web", "uid": "u1", "resourceVersion": "5"},
    "spec": {"secret": "never copied"},
}
RULE = {"apiVersion": "tollbar.dev/v1alpha1", "kind": "TolerationRule", "metadata": {"name": "gpu", "uid": "u2"}}
HELD = Event("Normal", "SchedulingHeld", "waiting for claim gpu", "Hold")


def numbered(number: int) -> Event:
    return Event("Normal", "R", str(number), "A")


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
            bench.recorder.emit(POD, numbered(number))
        await asyncio.sleep(1)
        assert (bench.counts(), [record.message for record in caplog.records]) == (
            {"failed": 3, "sent": 1},
            ["cannot record an event"],
        )


async def test_where_some_fail_and_others_do_not_the_log_has_a_line_after_each_minute_without_a_failure(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with recording(clock) as bench:
        for number in range(60):
            if number % 2 == 0:
                bench.sink.refuse.append(Forbidden(403, "NamespaceTerminating", ""))
            bench.recorder.emit(POD, numbered(number))
            await asyncio.sleep(5)
        assert (bench.counts(), len(caplog.records)) == ({"failed": 30, "sent": 30}, 1)
        await asyncio.sleep(60)
        bench.sink.refuse.append(Forbidden(403, "NamespaceTerminating", ""))
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(1)
        assert [record.message for record in caplog.records] == ["cannot record an event"] * 2


async def test_of_an_outage_that_the_client_has_told_there_is_no_line_and_of_what_fails_otherwise_there_is(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    silent, refused = Unreachable("no answer in time"), Forbidden(403, "Forbidden", "no such right")
    silent.in_outage = True
    async with recording(clock) as bench:
        bench.sink.refuse += [silent, refused, silent]
        for number in range(3):
            bench.recorder.emit(POD, numbered(number))
            await asyncio.sleep(5)
        assert [vars(record)["error"] for record in caplog.records] == [repr(refused)]


async def test_eight_calls_are_under_way_at_one_time_and_a_repeat_waits_for_the_one_about_its_event(
    clock: Clock,
) -> None:
    async with recording(clock) as bench:
        bench.sink.takes = 1.0
        for number in range(20):
            bench.recorder.emit(POD, numbered(number))
        await asyncio.sleep(0.5)
        bench.recorder.emit(POD, numbered(0))
        created = []
        for _ in range(4):
            created.append(len(bench.sink.created))
            await asyncio.sleep(1)
        assert (created, bench.counts()) == ([0, 8, 16, 20], {"sent": 20, "series": 1})


async def test_a_flood_is_sent_at_its_rate_and_the_rest_is_dropped(clock: Clock) -> None:
    async with recording(clock) as bench:
        for number in range(1500):
            bench.recorder.emit(POD, numbered(number))
        at_once = bench.counts()
        await asyncio.sleep(10.01)
        # 200 at once and 50 a second of the 1,000 that found room.
        assert (at_once, bench.counts()) == ({"dropped": 500}, {"dropped": 500, "sent": 700})


NEIGHBOUR = POD | {"metadata": {"namespace": "next", "name": "api", "uid": "u3"}}
OTHER_RULE = RULE | {"metadata": {"name": "nic", "uid": "u4"}}
FLOODS: dict[str, tuple[Object, Object]] = {
    "of one namespace, beside another": (POD, NEIGHBOUR),
    "of one namespace, beside an object without": (POD, RULE),
    "about an object without a namespace, beside a namespace": (RULE, POD),
    "about an object without a namespace, beside another": (RULE, OTHER_RULE),
}


@pytest.mark.parametrize(("flooded", "other"), FLOODS.values(), ids=FLOODS)
async def test_a_flood_costs_nobody_else_an_event_and_delays_it_by_one_call(
    clock: Clock, flooded: Object, other: Object
) -> None:
    async with recording(clock) as bench:
        for number in range(1500):
            bench.recorder.emit(flooded, numbered(number))
        for number in range(3):
            bench.recorder.emit(other, numbered(number))
        await asyncio.sleep(0.5)
        sent = [(each["regarding"]["uid"], each["note"]) for each in bench.sink.created[:8]]
        a, b = flooded["metadata"]["uid"], other["metadata"]["uid"]
        assert sent == [(a, "0"), (b, "0"), (a, "1"), (b, "1"), (a, "2"), (b, "2"), (a, "3"), (a, "4")]
        assert bench.counts()["dropped"] == 503


async def test_of_a_full_queue_whoever_has_the_most_loses_the_newest(clock: Clock) -> None:
    async with recording(clock) as bench:
        for regarding, count in ((POD, 800), (NEIGHBOUR, 600)):
            for number in range(count):
                bench.recorder.emit(regarding, numbered(number))
        bench.recorder.emit(POD, HELD)
        await asyncio.sleep(60)
        notes = {
            name: [each["note"] for each in bench.sink.created if each["regarding"]["name"] == name]
            for name in ("web", "api")
        }
        first = [*map(str, range(500))]
        assert notes == {"web": first, "api": first}
        assert bench.counts() == {"dropped": 401, "sent": 1000}


async def test_what_finds_no_place_among_as_many_namespaces_is_dropped_itself(clock: Clock) -> None:
    async with recording(clock) as bench:
        for number in range(1001):
            bench.recorder.emit(POD | {"metadata": {"namespace": f"ns-{number}", "name": "web"}}, HELD)
        await asyncio.sleep(60)
        bench.recorder.emit(NEIGHBOUR, HELD)
        await asyncio.sleep(1)
        found = [each["metadata"]["namespace"] for each in bench.sink.created]
        assert (found, bench.counts()) == (
            [*(f"ns-{number}" for number in range(1000)), "next"],
            {"dropped": 1, "sent": 1001},
        )


async def test_equal_events_that_are_dropped_count_each(clock: Clock) -> None:
    async with recording(clock) as bench:
        for number in (*range(1000), 999, 999):
            bench.recorder.emit(POD, numbered(number))
        bench.recorder.emit(NEIGHBOUR, HELD)
        assert bench.counts() == {"dropped": 3}


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
