"""The reflector and the client against a scripted server: every way in which a list or a watch can end."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from unit.runtime.answers import (
    BROKEN,
    DISCOVERED,
    END,
    EXPIRED,
    NOT_DISCOVERED,
    added,
    bookmark,
    deleted,
    last,
    modified,
    page,
    pod,
    refusal,
    stream,
)

from tollbar.model import resources
from tollbar.model.objects import Object, key_of, uid_of
from tollbar.model.resources import Resource
from tollbar.runtime import collector
from tollbar.runtime.budget import Budget, Holder
from tollbar.runtime.client import PAGE, PAGE_TEXT, WatchEvent
from tollbar.runtime.errors import TooLong, Unreachable
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.projection import Keep
from tollbar.runtime.reflector import RECHECK, RECHECK_OURS, Reflector
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

Script = list[dict[str, Any]]


@dataclass
class Case:
    """`objects` are the uids at the end, `deltas` what a handler heard (`initial` in brackets)."""

    lists: Script
    watches: Script
    objects: list[str]
    deltas: list[str]
    requests: list[str]
    slept: list[float] = field(default_factory=list)
    discovery: Script = field(default_factory=list)
    resource: Resource = resources.PODS


def strange(value: Any) -> bytes:
    """Its JSON, with many levels for DEEP and half of a surrogate pair for HALF."""
    text = json.dumps(value).replace('"DEEP"', '{"a":' * 1600 + "1" + "}" * 1600)
    return text.replace("HALF", "\\ud83d").encode()


CASES = {
    "a list in pages, then a watch from its version": Case(
        lists=[page(9, pod("a", 3), pod("b", 4), token="next"), page(9, pod("c", 5))],
        watches=[last()],
        objects=["a-1", "b-1", "c-1"],
        deltas=["[+a-1]", "[+b-1]", "[+c-1]"],
        requests=["list", "list next", "watch 9"],
    ),
    "a watch adds, changes and deletes": Case(
        lists=[page(9)],
        watches=[last(added("a", 10), added("b", 11), modified("a", 12, spec={"x": 1}), deleted("b", 13))],
        objects=["a-1"],
        deltas=["+a-1", "+b-1", "~a-1", "-b-1"],
        requests=["list", "watch 9"],
    ),
    "an update of nothing but the version is no news": Case(
        lists=[page(9, pod("a", 3))],
        watches=[last(modified("a", 10))],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "watch 9"],
    ),
    "410 in the stream: a new list, and what vanished meanwhile is deleted": Case(
        lists=[page(9, pod("a", 3), pod("b", 4)), page(20, pod("b", 15, spec={"x": 1}))],
        watches=[stream(added("c", 10), EXPIRED, takes=20), last()],
        objects=["b-1"],
        deltas=["[+a-1]", "[+b-1]", "+c-1", "[~b-1]", "[-a-1]", "[-c-1]"],
        requests=["list", "watch 9", "list", "watch 20"],
    ),
    "410 as the answer to a watch: a new list after a pause": Case(
        lists=[page(9, pod("a", 3)), page(20, pod("a", 3))],
        watches=[refusal(410, "Expired"), last()],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "watch 9", "list", "watch 20"],
        slept=[1.0],
    ),
    "410 in the middle of a list: at once all in one page, and nothing is lost": Case(
        lists=[
            page(9, pod("a", 3), pod("c", 5), token="next"),
            refusal(410, "Expired"),
            page(12, pod("a", 3), pod("b", 4)),
        ],
        watches=[last()],
        objects=["a-1", "b-1"],
        deltas=["[+a-1]", "[+c-1]", "[+b-1]", "[-c-1]"],
        requests=["list", "list next", "list all", "watch 12"],
    ),
    "410 for a list that has no pages before it: from the start, after a pause": Case(
        lists=[refusal(410, "Expired"), page(9, pod("a", 3))],
        watches=[last()],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "list", "watch 9"],
        slept=[1.0],
    ),
    "a clean end after a healthy watch: the next one starts at once from the last event": Case(
        lists=[page(9)],
        watches=[stream(added("a", 10), takes=400), last(deleted("a", 11))],
        objects=[],
        deltas=["+a-1", "-a-1"],
        requests=["list", "watch 9", "watch 10"],
    ),
    "a watch without events that lasts is healthy too": Case(
        lists=[page(9)],
        watches=[stream(takes=30), stream(takes=30), stream(takes=30), last()],
        objects=[],
        deltas=[],
        requests=["list", "watch 9", "watch 9", "watch 9", "watch 9"],
    ),
    "a bookmark moves the version": Case(
        lists=[page(9)],
        watches=[stream(bookmark(50), takes=400), last()],
        objects=[],
        deltas=[],
        requests=["list", "watch 9", "watch 50"],
    ),
    "an early end causes a pause; two without events cause a list": Case(
        lists=[page(9, pod("a", 3)), page(30, pod("a", 3))],
        watches=[stream(), stream(), last()],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "watch 9", "watch 9", "list", "watch 30"],
        slept=[1.0, 2.0],
    ),
    "5xx and 429: pauses that double, and the same version": Case(
        lists=[page(9)],
        watches=[refusal(500), refusal(503), refusal(429), stream(BROKEN), last(added("a", 10))],
        objects=["a-1"],
        deltas=["+a-1"],
        requests=["list", *["watch 9"] * 5],
        slept=[1.0, 2.0, 4.0, 8.0],
    ),
    "a list that fails is repeated": Case(
        lists=[refusal(500), refusal(403, "Forbidden"), page(9, pod("a", 3))],
        watches=[last()],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "list", "list", "watch 9"],
        slept=[1.0, 2.0],
    ),
    "a 429 on a list is waited out": Case(
        lists=[refusal(429, **{"Retry-After": "7"}), page(9)],
        watches=[last()],
        objects=[],
        deltas=[],
        requests=["list", "list", "watch 9"],
        slept=[1.0, 6.0],
    ),
    "a connection that is cut: on from the last event": Case(
        lists=[page(9)],
        watches=[stream(added("a", 10), then="cut"), last(added("b", 11))],
        objects=["a-1", "b-1"],
        deltas=["+a-1", "+b-1"],
        requests=["list", "watch 9", "watch 10"],
        slept=[1.0],
    ),
    "the back-off is reset after a healthy watch": Case(
        lists=[page(9)],
        watches=[refusal(500), refusal(500), stream(bookmark(10), takes=60), refusal(500), last()],
        objects=[],
        deltas=[],
        requests=["list", "watch 9", "watch 9", "watch 9", "watch 10", "watch 10"],
        slept=[1.0, 2.0, 1.0],
    ),
    "another object of the same name while we were away": Case(
        lists=[page(9, pod("a", 3)), page(20, pod("a", 15, uid="a-2"))],
        watches=[stream(EXPIRED), last()],
        objects=["a-2"],
        deltas=["[+a-1]", "[-a-1]", "[+a-2]"],
        requests=["list", "watch 9", "list", "watch 20"],
        slept=[1.0],
    ),
    "leaving the selector and coming back": Case(
        lists=[page(9, pod("a", 3))],
        watches=[last(deleted("a", 10), added("a", 11))],
        objects=["a-1"],
        deltas=["[+a-1]", "-a-1", "+a-1"],
        requests=["list", "watch 9"],
    ),
    "an API that discovery lists but that answers 404 is a failure": Case(
        lists=[refusal(404), page(9)],
        watches=[last()],
        discovery=[DISCOVERED],
        objects=[],
        deltas=[],
        requests=["list", "discovery", "list", "watch 9"],
        slept=[1.0],
    ),
    "an API that is not served is asked for again every five minutes": Case(
        lists=[refusal(404), refusal(404), page(9, pod("a", 3))],
        watches=[last()],
        discovery=[NOT_DISCOVERED, refusal(404)],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "discovery", "list", "discovery", "list", "watch 9"],
        slept=[RECHECK, RECHECK],
    ),
    "our own kinds are looked for sooner: their CRDs may be installed later": Case(
        lists=[refusal(404), page(9)],
        watches=[last()],
        discovery=[refusal(404)],
        objects=[],
        deltas=[],
        requests=["list", "discovery", "list", "watch 9"],
        slept=[RECHECK_OURS],
        resource=resources.TOLERATION_RULES,
    ),
    "an API that goes away empties the store at the second look": Case(
        lists=[page(9, pod("a", 3)), refusal(404), refusal(404), page(30)],
        watches=[refusal(404), last()],
        discovery=[NOT_DISCOVERED, NOT_DISCOVERED],
        objects=[],
        deltas=["[+a-1]", "[-a-1]"],
        requests=["list", "watch 9", "list", "discovery", "list", "discovery", "list", "watch 30"],
        slept=[1.0, 2.0, RECHECK],
    ),
    "one odd 404 does not empty the store": Case(
        lists=[page(9, pod("a", 3)), refusal(404), page(30, pod("a", 3))],
        watches=[refusal(404), last()],
        discovery=[NOT_DISCOVERED],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "watch 9", "list", "discovery", "list", "watch 30"],
        slept=[1.0, 2.0],
    ),
    "what only Go reads is read": Case(
        lists=[{"body": strange(page(9, pod("a", 3, spec="DEEP"))["body"])}],
        watches=[last(strange({"type": "ADDED", "object": pod("b", 10, spec="HALF")}) + b"\n")],
        objects=["a-1", "b-1"],
        deltas=["[+a-1]", "+b-1"],
        requests=["list", "watch 9"],
    ),
    "an answer that is no JSON costs a list": Case(
        lists=[page(9, pod("a", 3)), page(30, pod("a", 3))],
        watches=[stream(b"<html>\n"), last()],
        objects=["a-1"],
        deltas=["[+a-1]"],
        requests=["list", "watch 9", "list", "watch 30"],
        slept=[1.0],
    ),
}


def recorder(deltas: list[str], ended: asyncio.Event) -> Callable[[Delta], None]:
    def handle(delta: Delta) -> None:
        obj = delta.new or delta.old or {}
        if key_of(obj).name == END:
            ended.set()
            return
        sign = "~" if delta.old and delta.new else "+" if delta.new else "-"
        deltas.append(f"[{sign}{uid_of(obj)}]" if delta.initial else f"{sign}{uid_of(obj)}")

    return handle


def describe(request: Any) -> str:
    if request.query.get("watch"):
        return f"watch {request.query['resourceVersion']}"
    if "limit" in request.query:
        place = "all" if request.query["limit"] == "0" else request.query.get("continue", "")
        return f"list {place}".strip()
    return "discovery"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_reflector(case: Case, server: Any, connect: Any, clock: Any, rng: Random, metrics: Metrics) -> None:
    server.lists, server.watches, server.discovery = case.lists[:], case.watches[:], case.discovery[:]
    store = Store(case.resource)
    deltas: list[str] = []
    ended = asyncio.Event()
    store.subscribe(recorder(deltas, ended))
    reflector = Reflector(await connect(), store, clock=clock, rng=rng, metrics=metrics)
    task = asyncio.create_task(reflector.run())
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    seen = (
        [uid_of(obj) for obj in store.values() if key_of(obj).name != END],
        deltas,
        [describe(request) for request in server.requests],
        clock.slept,
        store.synced.is_set(),
    )
    assert seen == (case.objects, case.deltas, case.requests, case.slept, True)


async def test_selectors_and_scope_go_to_list_and_watch(
    server: Any, connect: Any, clock: Any, rng: Random, metrics: Metrics
) -> None:
    server.lists, server.watches = [page(9)], [last()]
    store = Store(resources.PODS)
    ended = asyncio.Event()
    store.subscribe(lambda _: ended.set())
    reflector = Reflector(
        await connect(),
        store,
        namespace="shop",
        label_selector="tollbar.dev/gate=held",
        field_selector="spec.nodeName=",
        clock=clock,
        rng=rng,
        metrics=metrics,
    )
    task = asyncio.create_task(reflector.run())
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    selectors = {"labelSelector": "tollbar.dev/gate=held", "fieldSelector": "spec.nodeName="}
    assert [(request.path, request.query) for request in server.requests] == [
        ("/api/v1/namespaces/shop/pods", {"limit": "500", **selectors}),
        (
            "/api/v1/namespaces/shop/pods",
            {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "9", "timeoutSeconds": "600", **selectors},
        ),
    ]


async def test_listed_and_watched_objects_look_the_same(
    server: Any, connect: Any, clock: Any, rng: Random, metrics: Metrics
) -> None:
    server.lists, server.watches = [page(9, pod("a", 3))], [last(added("b", 10))]
    store = Store(resources.PODS)
    ended = asyncio.Event()
    store.subscribe(recorder([], ended))
    task = asyncio.create_task(Reflector(await connect(), store, clock=clock, rng=rng, metrics=metrics).run())
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [(obj["apiVersion"], obj["kind"]) for obj in store.values()] == [("v1", "Pod")] * 3


class Silent:
    """A source whose watches are accepted and then say nothing, as when its version is from the future."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.enough = asyncio.Event()

    async def list(self, *_args: Any, **_options: Any) -> Object:
        self.calls.append("list")
        return {"metadata": {"resourceVersion": "9"}, "items": []}

    async def watch(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        self.calls.append("watch")
        if len(self.calls) >= 6:
            self.enough.set()
        raise Unreachable("no answer in time", method="GET")
        yield  # a generator, as the client's is

    async def served(self, _group_version: str) -> set[str]:
        return {"pods"}


async def test_two_watches_without_events_cause_a_list(clock: Any, rng: Random, metrics: Metrics) -> None:
    source = Silent()
    reflector: Any = Reflector(source, Store(resources.PODS), clock=clock, rng=rng, metrics=metrics)  # type: ignore[arg-type]
    task = asyncio.create_task(reflector.run())
    await source.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert source.calls[:6] == ["list", "watch", "watch", "list", "watch", "watch"]


class Large:
    """Lists these objects as the client does: a page of more than one object has at most two."""

    def __init__(self, *names: str) -> None:
        self.items = [pod(name, 3) for name in names]
        self.limits: list[int] = []
        self.bounds: set[float] = set()

    async def list(self, *_args: Any, limit: int, continue_: str, most: float, **_options: Any) -> Object:
        self.limits.append(limit)
        self.bounds.add(most)
        begin = int(continue_ or 0)
        found = self.items[begin : begin + limit]
        if len(found) > 2 and most < math.inf:
            raise TooLong
        more = str(begin + limit) if begin + limit < len(self.items) else ""
        return {"metadata": {"resourceVersion": "9", "continue": more}, "items": found}

    async def watch(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async def served(self, _group_version: str) -> set[str]:
        return {"pods"}


@pytest.mark.parametrize(
    ("size", "limits"),
    [(8, [8, 2, 4, 1, 2, 4]), (PAGE, [500, 125, 31, 7, 1, 2, 4, 1, 2, 4])],
    ids=["of a kind of which there are many", "of any other kind"],
)
async def test_a_page_that_is_too_long_is_listed_with_fewer_objects(
    clock: Any, rng: Random, metrics: Metrics, size: int, limits: list[int]
) -> None:
    source: Any = Large(*"abcdefg")
    store = Store(resources.PODS)
    task = asyncio.create_task(Reflector(source, store, page=size, clock=clock, rng=rng, metrics=metrics).run())
    await store.synced.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (len(store), source.limits, source.bounds) == (7, limits, {PAGE_TEXT})


FIRST: Final = pod("a", 3, spec={"x": "y" * 500})
SECOND: Final = pod("b", 4, spec={"x": "y" * 500})


class Filling(Silent):
    """A list of two objects, of which one has room; whoever watches sees that the first one goes, or nothing.

    A watch takes so many seconds and ends as it should, or is `cut`.
    """

    def __init__(self, clock: Any, *, frees: bool = True, takes: float = 600.0, cut: bool = False) -> None:
        super().__init__()
        self.clock = clock
        self.frees = frees
        self.takes = takes
        self.cut = cut
        self.listed: list[float] = []

    async def list(self, *_args: Any, **_options: Any) -> Object:
        self.calls.append("list")
        self.listed.append(self.clock.time - 1000.0)
        gone = self.frees and "watch" in self.calls
        return {"metadata": {"resourceVersion": "9"}, "items": [SECOND] if gone else [FIRST, SECOND]}

    async def watch(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        self.calls.append("watch")
        if self.is_over():
            self.enough.set()
            await asyncio.Event().wait()
        if self.frees and self.calls.count("watch") == 1:
            yield WatchEvent("DELETED", FIRST)
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "11"}})
        self.clock.time += self.takes
        if self.cut:
            raise Unreachable("the watch was cut", method="GET")

    def is_over(self) -> bool:
        return len(self.calls) >= 8


KEEP: Final = Keep(frozenset({"spec"}), most=1_000_000)
ROOM: Final = 1.5 * KEEP.weigh(FIRST).spares + 2 * KEEP.weigh(FIRST).stub
"""For one of the two objects, and their stubs."""


async def reflected(source: Any, store: Store, clock: Any, rng: Random, metrics: Metrics) -> None:
    task = asyncio.create_task(Reflector(source, store, clock=clock, rng=rng, metrics=metrics).run())
    await source.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


WATCHES: dict[str, tuple[dict[str, Any], list[str], int]] = {
    "room": ({}, ["list", "watch", "list", *["watch"] * 5], 0),
    "no room": ({"frees": False}, ["list", *["watch"] * 7], 1),
    "room, and a watch that is cut after a minute": (
        {"takes": 60.0, "cut": True},
        ["list", *["watch"] * 5, "list", "watch"],
        0,
    ),
    "room, and watches that end early": ({"takes": 60.0}, ["list", *["watch"] * 5, "list", "watch"], 0),
}


@pytest.mark.parametrize(("how", "calls", "stubs"), WATCHES.values(), ids=WATCHES)
async def test_what_was_left_out_is_listed_again_once_there_is_room(
    clock: Any, rng: Random, metrics: Metrics, how: Any, calls: list[str], stubs: int
) -> None:
    store = Store(resources.PODS, project=KEEP, budget=Budget(ROOM))
    source = Filling(clock, **how)
    await reflected(source, store, clock, rng, metrics)
    said = metrics.registry.get_sample_value("tollbar_cache_stubs", {"kind": "Pod"})
    assert (source.calls, store.stubs, said) == (calls, stubs, stubs)


class Flapping(Budget):
    """There is room again whenever anybody asks, but from `until` to `again`, in seconds from the first list."""

    def __init__(self, source: Filling, until: float, again: float) -> None:
        super().__init__()
        self.source = source
        self.until = until
        self.again = again

    def would_keep_more(self, holder: Holder) -> bool:
        return not self.until < self.source.clock.time - 1000.0 < self.again


FLAPS: dict[str, tuple[float, float, list[float]]] = {
    "whoever frees room again and again has all listed ever more seldom": (
        math.inf,
        math.inf,
        [0, 300, 900, 2100, 4500, 8100, 11700],
    ),
    "after a while without that it is as at first": (1000, 20000, [0, 300, 900, 20100, 20700, 21900, 24300]),
}


@pytest.mark.parametrize(("until", "again", "listed"), FLAPS.values(), ids=FLAPS)
async def test_lists_that_bring_things_back_are_seldom(
    clock: Any, rng: Random, metrics: Metrics, until: float, again: float, listed: list[float]
) -> None:
    class Long(Filling):
        def is_over(self) -> bool:
            return len(self.listed) == len(listed)

    source = Long(clock, takes=300.0)
    store = Store(resources.PODS, project=KEEP, budget=Flapping(source, until, again))
    await reflected(source, store, clock, rng, metrics)
    assert source.listed == listed


@pytest.mark.parametrize("fail", [range(8), range(1, 9)], ids=["at the first start", "later"])
async def test_lists_that_fail_do_not_make_those_that_bring_things_back_more_seldom(
    clock: Any, rng: Random, metrics: Metrics, fail: range
) -> None:
    class Away(Filling):
        async def list(self, *_args: Any, **_options: Any) -> Object:
            if self.calls.count("list") in fail:
                self.calls.append("list")
                self.clock.time += 300.0
                raise Unreachable("the API server is away", method="GET")
            return await super().list()

        def is_over(self) -> bool:
            return self.calls.count("list") >= fail.stop + 3

    source = Away(clock, takes=300.0)
    store = Store(resources.PODS, project=KEEP, budget=Flapping(source, math.inf, math.inf))
    await reflected(source, store, clock, rng, metrics)
    first, second, third = source.listed[-3:]
    assert (second - first, third - second) == (300.0, 600.0)


async def test_a_store_has_no_resource_version_while_a_list_is_due(clock: Any, rng: Random, metrics: Metrics) -> None:
    """What this process creates meanwhile must not be compared with a version of before an etcd restore."""
    store, seen = Store(resources.PODS), list[str]()

    class Watched(Silent):
        async def list(self, *_args: Any, **_options: Any) -> Object:
            seen.append(store.resource_version)
            return await super().list()

    source: Any = Watched()
    task = asyncio.create_task(Reflector(source, store, clock=clock, rng=rng, metrics=metrics).run())
    await source.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen[:2] == ["", ""]


async def test_an_answer_that_comes_while_a_list_ends_brings_nothing_back_that_was_gone_before_it(
    clock: Any, rng: Random, metrics: Metrics
) -> None:
    """No event would ever remove it: the watch begins with the version of the list."""
    store = Store(resources.PODS)
    store.replace([pod(str(number), 1) for number in range(250)], "1")
    answers = [pod("late", 15)]

    def late(_: Any) -> None:
        if answers:
            asyncio.get_running_loop().call_soon(partial(store.assume, answers.pop(), created=True))

    class Empty(Silent):
        async def list(self, *_args: Any, **_options: Any) -> Object:
            return {"metadata": {"resourceVersion": "20"}, "items": []}

        async def watch(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
            self.enough.set()
            await asyncio.Event().wait()
            yield

    store.subscribe(late)
    source: Any = Empty()
    task = asyncio.create_task(Reflector(source, store, clock=clock, rng=rng, metrics=metrics).run())
    await source.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list(store.keys()) == []


async def test_metrics(server: Any, connect: Any, clock: Any, rng: Random, metrics: Metrics) -> None:
    server.lists, server.watches = [page(9, pod("a", 3))], [last(added("b", 10), bookmark(11), deleted("a", 12))]
    store = Store(resources.PODS)
    ended = asyncio.Event()
    store.subscribe(recorder([], ended))
    reflector = Reflector(await connect(), store, clock=clock, rng=rng, metrics=metrics)
    task = asyncio.create_task(reflector.run())
    await ended.wait()
    clock.time += 12
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    names = (
        "tollbar_cache_objects",
        "tollbar_watch_age_seconds",
        "tollbar_relists_total",
        "tollbar_watch_events_total",
    )
    seen = {name: metrics.registry.get_sample_value(name, {"kind": "Pod"}) for name in names}
    assert seen == dict(zip(names, (2.0, 12.0, 1.0, 3.0), strict=True))


async def test_small_pages_that_expire_become_larger_ones_before_all_is_one(
    server: Any, connect: Any, clock: Any, rng: Random, metrics: Metrics
) -> None:
    expired = refusal(410, "Expired")
    first = page(9, pod("a", 3), token="next")
    server.lists = [first, expired, first, expired, page(12, pod("a", 3)), page(20)]
    server.watches = [stream(EXPIRED), last()]
    store, ended = Store(resources.PODS), asyncio.Event()
    store.subscribe(recorder([], ended))
    reflector = Reflector(await connect(), store, page=25, clock=clock, rng=rng, metrics=metrics)
    task = asyncio.create_task(reflector.run())
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    limits = [request.query["limit"] for request in server.requests if "limit" in request.query]
    assert limits == ["25", "25", "500", "500", "0", "25"]


async def test_an_api_that_is_not_served_has_no_age(
    server: Any, connect: Any, clock: Any, rng: Random, metrics: Metrics
) -> None:
    server.lists, server.discovery = [refusal(404)], [NOT_DISCOVERED]
    store = Store(resources.PODS)
    reflector = Reflector(await connect(), store, clock=clock, rng=rng, metrics=metrics)
    task = asyncio.create_task(reflector.run())
    await store.synced.wait()
    clock.time += 100
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (reflector.served, reflector.age(), len(store)) == (False, 0.0, 0)


async def turns_until(stored: asyncio.Event, reflector: Any) -> int:
    """How often others have run while the reflector worked until then."""
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(reflector.run()), asyncio.create_task(neighbour())]
    await stored.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return turns


async def test_a_large_list_lets_others_run(clock: Any, rng: Random, metrics: Metrics) -> None:
    class Large(Silent):
        async def list(self, *_args: Any, **_options: Any) -> Object:
            items = [pod(str(number), 1) for number in range(500)]
            return {"metadata": {"resourceVersion": "9"}, "items": items}

    store = Store(resources.PODS)
    reflector: Any = Reflector(Large(), store, clock=clock, rng=rng, metrics=metrics)  # type: ignore[arg-type]
    assert await turns_until(store.synced, reflector) >= 5


async def test_a_watch_with_many_events_lets_others_run_and_young_objects_be_looked_at(
    clock: Any, rng: Random, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []
    monkeypatch.setattr(collector, "look", lambda: looks.append(None))

    class Busy(Silent):
        async def watch(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
            for number in range(100):
                yield WatchEvent("ADDED", pod(str(number), 10 + number))
            self.enough.set()
            await asyncio.Event().wait()

    busy = Busy()
    reflector: Any = Reflector(busy, Store(resources.PODS), clock=clock, rng=rng, metrics=metrics)  # type: ignore[arg-type]
    turns = await turns_until(busy.enough, reflector)
    assert (len(looks), turns >= 5) == (5, True)
