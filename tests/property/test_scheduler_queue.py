"""The scheduling queue on random traces, and its heap against a sorted list."""

import logging
from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.queues import NODE_ADD, Gate, Registering, World
from scheduler.playing import ours
from scheduler.traces import Trace, trace

from tollbar.model.objects import Key
from tollbar.scheduler.queue.heap import KeyedHeap

PLACES = ("active", "backoff", "errorBackoff", "unschedulable", "gated", "inFlight")

keys = st.sampled_from("abcdefgh")
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, st.integers(0, 5)),
        st.tuples(st.sampled_from(["remove", "pop"]), keys, st.just(0)),
    ),
    max_size=40,
)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Hints that fail are part of the traces."""
    logger = logging.getLogger("tollbar.scheduler.queue")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@given(operations)
def test_a_keyed_heap_is_a_sorted_list(steps: list[tuple[str, str, int]]) -> None:
    heap: KeyedHeap[str, tuple[int, str]] = KeyedHeap(lambda one, other: one < other)
    model: dict[str, tuple[int, str]] = {}
    for operation, key, value in steps:
        match operation:
            case "put":
                heap.put(key, (value, key))
                model[key] = (value, key)
            case "remove":
                assert heap.remove(key) == model.pop(key, None)
            case "pop":
                first = min(model.values(), default=None)
                assert heap.pop() == first
                if first is not None:
                    del model[first[1]]
        assert (heap.in_order(), heap.first(), heap.get(key)) == (
            sorted(model.values()),
            min(model.values(), default=None),
            model.get(key),
        )


@given(st.integers(0, 2**32))
def test_every_pod_is_in_one_place(seed: int) -> None:
    for state in ours(trace(seed)):
        uids = [uid for place in PLACES for uid in state[place]]
        assert len(uids) == len(set(uids))


@given(st.integers(0, 2**32))
def test_pre_queueing_hints_change_nothing(seed: int) -> None:
    given_trace = trace(seed)
    plugins = {
        name: [plugin | {"events": [event | {"preHint": False} for event in plugin["events"]]} for plugin in profile]
        for name, profile in given_trace.request["profiles"].items()
    }
    assert ours(given_trace) == ours(Trace(seed, given_trace.request | {"profiles": plugins}))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["F", "", "G"]), st.floats(0, 400)), max_size=30))
def test_when_something_is_due_a_flush_does_it(steps: list[tuple[str, str, float]]) -> None:
    """So that whoever sleeps until then, and flushes, never spins."""
    gate = Gate("G")
    world = World(Registering("F"), gate)
    for name, fate, pause in steps:
        if fate == "G":
            gate.closed.symmetric_difference_update(name)
            world.happened(NODE_ADD)
        elif Key("ns", name) not in world.pods:
            world.add(name, uid=f"{name}-{world.time}")
        if (popped := world.queue.pop()) is not None:
            world.fail(popped, *filter(None, [fate]))
        world.time += pause
        if (due := world.queue.next_due()) < inf:
            world.time = max(world.time, due)
            world.queue.flush()
            assert world.queue.next_due() > world.time
