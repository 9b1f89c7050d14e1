"""Sources of events and watches: which handlers are called, which events pass, which keys are added, and when."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from fakes.manager import drained
from objects.builders import pod

from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.source import Channel, Delta, Watch, always, itself, spec_changed
from tollbar.runtime.store import Store
from tollbar.runtime.workqueue import AHEAD, WorkQueue

A, B = Key("ml", "a"), Key("ml", "b")


def queue() -> WorkQueue[Key]:
    return WorkQueue("test", clock=SystemClock(), metrics=Metrics())


async def taken(given: WorkQueue[Key]) -> list[str]:
    return [key.name for key in await drained(given)]


def holding(*names: str) -> Store:
    store = Store(resources.PODS)
    store.replace(pod(name) for name in names)
    return store


def test_every_handler_of_a_channel_hears_every_event_in_order() -> None:
    channel, heard = Channel[int]("numbers"), list[str]()
    channel.subscribe(lambda event: heard.append(f"first {event}"))
    channel.send(1)
    channel.subscribe(lambda event: heard.append(f"second {event}"))
    channel.send(2)
    assert heard == ["first 1", "first 2", "second 2"]


def test_a_handler_that_subscribes_again_hears_every_event_once() -> None:
    channel, heard = Channel[int]("numbers"), list[int]()
    for _ in range(2):
        channel.subscribe(heard.append)
    channel.send(1)
    assert heard == [1]


def test_a_handler_that_raises_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    channel, heard = Channel[int]("numbers"), list[int]()

    def fail(_event: int) -> None:
        raise RuntimeError("bug")

    channel.subscribe(fail)
    channel.subscribe(heard.append)
    channel.send(1)
    channel.send(2)
    lines = [(record.message, record.source) for record in caplog.records]  # type: ignore[attr-defined]
    assert (heard, lines) == ([1, 2], [("a handler failed", "numbers")] * 2)


def test_a_channel_says_whether_anybody_listens_and_keeps_nothing() -> None:
    channel, heard = Channel[int]("numbers"), list[int]()
    before = bool(channel)
    channel.send(1)
    channel.subscribe(heard.append)
    channel.replay(heard.append)
    assert (before, bool(channel), heard) == (False, True, [])


def test_a_channel_replays_the_present_state_where_it_is_told_what_that_is() -> None:
    present, heard = [1], list[int]()
    channel = Channel[int]("numbers", lambda: present)
    channel.replay(heard.append)
    present.append(2)
    channel.replay(heard.append)
    assert heard == [1, 1, 2]


OLD = pod().labelled(a="b")
CHANGES: dict[str, tuple[Object | None, Object | None, bool]] = {
    "it comes": (None, OLD, True),
    "it goes": (OLD, None, True),
    "its specification changes": (OLD, OLD.bound(), True),
    "its status changes": (OLD, OLD.phase("Running"), False),
    "its metadata change": (OLD, OLD.labelled(c="d"), False),
}


@pytest.mark.parametrize(("old", "new", "want"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_specification(old: Object | None, new: Object | None, want: bool) -> None:
    delta = Delta(old, new, initial=False)
    assert (spec_changed(delta), always(delta)) == (want, True)


@pytest.mark.parametrize(("old", "new"), [(None, pod("a")), (pod("a"), None), (pod("a"), pod("a").bound())])
def test_an_object_concerns_itself_once(old: Object | None, new: Object | None) -> None:
    assert list(itself(Delta(old, new, initial=False))) == [A]


async def test_a_watch_wakes_what_its_mapper_finds_for_events_that_its_predicate_lets_through() -> None:
    asked: list[str] = []

    def waits(delta: Delta) -> bool:
        return delta.new is not None

    def both(delta: Delta) -> Iterable[Key]:
        asked.extend(key_of(obj).name for obj in delta.objects)
        return (A, B)

    store, given = Store(resources.PODS), queue()
    Watch(store, both, waits).connect(given)
    store.apply(pod("x"))
    came = await taken(given)
    store.remove(pod("x"))
    assert (came, await taken(given), asked) == (["a", "b"], [], ["x"])


async def test_a_watch_without_a_predicate_lets_everything_through() -> None:
    store, given = holding("a"), queue()
    Watch(store, itself).connect(given)
    store.remove(pod("a"))
    assert await taken(given) == ["a"]


@pytest.mark.parametrize(("initial", "want"), [(False, []), (True, ["a", "b"])])
async def test_what_is_there_counts_as_an_event_only_where_a_watch_asks_for_it(initial: bool, want: list[str]) -> None:
    given = queue()
    Watch(holding("a", "b"), itself, initial=initial).connect(given)
    assert await taken(given) == want


async def test_the_predicate_decides_about_what_is_there_too() -> None:
    given = queue()
    Watch(holding("a", "b"), itself, lambda delta: key_of(delta.new or {}) == B, initial=True).connect(given)
    assert await taken(given) == ["b"]


@pytest.mark.parametrize(("initial", "want"), [(False, []), (True, ["a"])])
async def test_a_replay_adds_what_is_there_again(initial: bool, want: list[str]) -> None:
    given, watch = queue(), Watch(holding("a"), itself, initial=initial)
    watch.connect(given)
    await taken(given)
    watch.replay(given)
    assert await taken(given) == want


async def test_keys_of_what_is_there_stand_behind_those_of_changes_without_an_event_for_each() -> None:
    store, given = holding("a"), queue()
    watch = Watch(store, itself, lambda delta: not delta.initial, initial=store.keys)
    watch.connect(given)
    store.apply(pod("new"))
    came = await taken(given)
    watch.replay(given)
    assert (came, await taken(given)) == (["new", "a"], ["a", "new"])


EVENTS: dict[str, tuple[Callable[[Store], Any], list[str]]] = {
    "what a watch tells goes before what is there": (lambda store: store.apply(pod("new")), ["new", "a"]),
    "what a list finds does not": (lambda store: store.apply(pod("new"), initial=True), ["a", "new"]),
    "nor what a list lacks": (lambda store: store.discard(A), ["a"]),
}


@pytest.mark.parametrize(("happens", "want"), EVENTS.values(), ids=EVENTS)
async def test_of_what_waits(happens: Callable[[Store], Any], want: list[str]) -> None:
    store, given = holding("a"), queue()
    Watch(store, itself, initial=True).connect(given)
    happens(store)
    assert await taken(given) == want


async def test_an_event_of_a_channel_is_never_an_initial_one() -> None:
    channel, given = Channel[Key]("keys"), queue()
    Watch(holding("b"), itself, initial=True).connect(given)
    Watch(channel, lambda key: (key,)).connect(given)
    channel.send(A)
    assert await taken(given) == ["a", "b"]


async def test_keys_of_a_watch_with_a_priority_go_before_those_of_others() -> None:
    channel, store, given = Channel[Key]("keys", lambda: [B]), holding(), queue()
    Watch(store, itself).connect(given)
    Watch(channel, lambda key: (key,), initial=True, priority=AHEAD).connect(given)
    store.apply(pod("x"))
    channel.send(A)
    assert await taken(given) == ["b", "a", "x"]


@pytest.mark.looptime
async def test_keys_wait_for_the_delay_so_that_a_burst_is_one_reconcile() -> None:
    store, given, loop = Store(resources.PODS), queue(), asyncio.get_running_loop()
    Watch(store, lambda _: (A,), delay=2.0).connect(given)
    began = loop.time()
    for name in ("x", "y", "z"):
        store.apply(pod(name))
    at_once = len(given)
    key = await given.get()
    assert (at_once, key, round(loop.time() - began, 3), len(given)) == (0, A, 2.0, 0)
