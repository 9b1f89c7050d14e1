"""Where Pods go: what wakes them, how long they back off, and what happens while they are in flight."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from plugins.queues import CLAIM_ADD, NODE_ADD, Gate, Registering, World

from tollbar.model.objects import Key
from tollbar.scheduler.framework.events import (
    FORCE_ACTIVATE,
    WILDCARD,
    Action,
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from tollbar.scheduler.framework.interface import Nominate
from tollbar.scheduler.queue import Settings

F = "F"
NO_PLUGIN = ClusterEvent(EventResource.STORAGE_CLASS, Action.ADD)


def world_with_f(**fields: Any) -> World:
    return World(Registering(F, **fields))


def test_pods_are_popped_by_priority_and_then_by_age() -> None:
    world = World()
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        world.time += 1
        world.add(name, priority=priority)
    assert [world.pop() for _ in range(5)] == ["b", "d", "a", "c", None]


def test_pods_that_enter_at_the_same_time_are_popped_in_the_order_in_which_they_entered() -> None:
    world = world_with_f()
    for name in "fghij":
        world.rejected(name, F)
    for name in "abcde":
        world.add(name)
    world.happened()
    world.time += 11
    world.queue.flush()
    assert [world.pop() for _ in range(10)] == [*"fghijabcde"]


def test_an_update_moves_a_pod_to_its_place_in_the_active_queue() -> None:
    world = World()
    world.add("a", priority=1)
    world.add("b")
    world.update("b", priority=2)
    assert world.places() == {"active": ["b", "a"]}


def test_an_unknown_pod_that_is_updated_is_added() -> None:
    world = World()
    world.queue.update(world.pod("a"), world.pod("a", labels={"x": "y"}))
    assert world.places() == {"active": ["a"]}


@pytest.mark.parametrize(
    ("attempts", "expected"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (500, 10)], ids=str
)
def test_back_off_doubles_up_to_the_maximum(attempts: int, expected: int) -> None:
    world = world_with_f()
    queued = world.rejected("a", F)
    queued.unschedulable_count = attempts
    world.happened()
    assert queued.backoff_expiration == world.time + expected


def test_a_back_off_ends_with_its_whole_second() -> None:
    world = world_with_f()
    world.time += 0.75
    world.rejected("a", F)
    world.happened()
    seen = []
    for seconds in (1, 0.125, 0.125):
        world.time += seconds
        world.queue.flush()
        seen.append((world.time, *world.places()))
    assert seen == [(1001.75, "backoff"), (1001.875, "backoff"), (1002.0, "active")]


def test_without_a_maximum_there_is_no_back_off() -> None:
    world = World(Registering(F), settings=Settings(max_backoff=0))
    world.rejected("a", F)
    world.happened()
    assert world.places() == {"active": ["a"]}


def test_errors_back_off_by_their_own_count_until_a_rejection_resets_it() -> None:
    world = world_with_f()
    queued = world.rejected("a")
    counts = []
    for plugins in ((), (F,), ()):
        world.time += 20
        world.queue.flush_backoff_completed()
        world.happened()
        world.fail(world.popped("a"), *plugins)
        counts.append((queued.consecutive_errors, queued.unschedulable_count))
    assert counts == [(2, 0), (0, 1), (1, 1)]


def test_pods_in_back_off_are_popped_when_nothing_is_active_but_never_after_an_error() -> None:
    world = world_with_f()
    for name, priority in (("a", 0), ("b", 5)):
        world.rejected(name, F, priority=priority)
    world.rejected("c", priority=9)
    world.happened()
    world.add("d")
    assert [world.pop() for _ in range(4)] == ["d", "b", "a", None]


def test_pods_whose_back_off_ends_in_the_same_second_are_in_the_order_of_the_active_queue() -> None:
    world = world_with_f()
    for name, priority in (("a", 0), ("b", 5)):
        world.time += 0.25
        world.rejected(name, F, priority=priority)
    world.time += 0.5
    world.rejected("c", F, priority=9)
    world.happened()
    assert world.places() == {"backoff": ["b", "a", "c"]}


def test_a_pod_stays_with_the_plugin_that_gates_it_when_another_one_rejects_it_too() -> None:
    one, other = Gate("One"), Gate("Other", closed={"a"})
    world = World(one, other)
    world.add("a")
    one.closed.add("a")
    world.happened()
    queued = world.queue.get(Key("ns", "a"))
    assert queued
    assert (queued.gating_plugin, queued.rejectors) == ("Other", {"Other"})


def test_a_pod_that_pre_enqueue_rejects_does_not_enter_back_off() -> None:
    world = World(Registering(F), gate := Gate("G"))
    world.rejected("a", F)
    gate.closed.add("a")
    world.happened()
    assert world.places() == {"gated": ["a"]}


def test_pre_enqueue_is_not_asked_again_when_back_off_is_over() -> None:
    world = World(Registering(F), gate := Gate("G"))
    world.rejected("a", F)
    world.happened()
    gate.closed.add("a")
    world.time += 5
    world.queue.flush()
    assert world.places() == {"active": ["a"]}


def test_a_pre_enqueue_plugin_that_raises_gates_the_pod() -> None:
    class Broken(Gate):
        def pre_enqueue(self, *_: Any) -> None:
            raise ValueError("no")

    world = World(Broken("G"))
    world.add("a")
    assert world.places() == {"gated": ["a"]}


WAKES: dict[str, tuple[Callable[[World], None], str]] = {
    "an event that the plugin registered for": (lambda w: w.happened(NODE_ADD), "backoff"),
    "an event that another plugin registered for": (lambda w: w.happened(CLAIM_ADD), "unschedulable"),
    "an event that no plugin registered for": (lambda w: w.happened(NO_PLUGIN), "unschedulable"),
    "the wildcard event": (lambda w: w.happened(WILDCARD), "backoff"),
    "a wildcard event about this Pod": (lambda w: w.happened(FORCE_ACTIVATE, None, w["a"]), "backoff"),
    "a wildcard event about another Pod": (lambda w: w.happened(FORCE_ACTIVATE, None, w.pod("b")), "unschedulable"),
    "being activated": (lambda w: w.queue.activate([w["a"]]), "active"),
}


@pytest.mark.parametrize(("happens", "expected"), WAKES.values(), ids=WAKES)
def test_what_wakes_an_unschedulable_pod(happens: Callable[[World], None], expected: str) -> None:
    world = World(Registering(F), Registering("Other", (CLAIM_ADD,)))
    world.rejected("a", F)
    happens(world)
    assert world.places() == {expected: ["a"]}


@pytest.mark.parametrize(("happens", "expected"), WAKES.values(), ids=WAKES)
def test_what_happens_in_flight_counts_when_the_pod_comes_back(happens: Callable[[World], None], expected: str) -> None:
    world = World(Registering(F), Registering("Other", (CLAIM_ADD,)))
    world.add("a")
    queued = world.popped("a")
    happens(world)
    world.fail(queued, F)
    assert world.places() == {"backoff" if expected == "active" else expected: ["a"]}


def test_a_hint_of_a_pending_plugin_spares_the_back_off() -> None:
    world = World(Registering(F), Registering("P"))
    world.rejected("a", F, pending=["P"])
    world.happened()
    assert world.places() == {"active": ["a"]}


def test_a_pending_plugin_that_says_no_leaves_the_back_off_to_the_others() -> None:
    world = World(Registering(F), Registering("P", answer=QueueingHint.SKIP))
    world.rejected("a", F, pending=["P"])
    world.happened()
    assert world.places() == {"backoff": ["a"]}


def test_a_hint_that_raises_counts_as_queue() -> None:
    class Broken(Registering):
        def hint(self, *_: Any) -> QueueingHint:
            raise ValueError("no")

    world = World(Broken(F))
    world.rejected("a", F)
    world.happened()
    assert world.places() == {"backoff": ["a"]}


def test_a_pre_queueing_hint_that_raises_concerns_all_pods() -> None:
    def broken(old: Any, new: Any) -> None:
        raise ValueError("no")

    world = world_with_f(pre_hint=broken)
    world.rejected("a", F)
    world.happened(NODE_ADD, None, {})
    assert world.places() == {"backoff": ["a"]}


def test_a_pre_queueing_hint_is_asked_only_while_a_pod_waits_for_an_event() -> None:
    asked: list[object] = []

    def hint(_old: Any, new: Any) -> list[Key]:
        asked.append(new)
        return [Key("ns", "a")]

    world = world_with_f(pre_hint=hint)
    world.happened(NODE_ADD, None, 1)
    world.rejected("a", F)
    world.happened(NODE_ADD, None, 2)
    assert (asked, world.places()) == ([2], {"backoff": ["a"]})


def test_pre_queueing_hints_of_one_plugin_do_not_narrow_those_of_another() -> None:
    narrow, wide = Registering("Narrow", pre_hint=lambda *_: [Key("ns", "a")]), Registering("Wide")
    world = World(narrow, wide)
    for name, plugin in (("a", "Narrow"), ("b", "Narrow"), ("c", "Wide")):
        world.rejected(name, plugin)
    world.happened(NODE_ADD, None, {})
    assert (world.places(), narrow.asked, wide.asked) == ({"backoff": ["a", "c"], "unschedulable": ["b"]}, ["a"], ["c"])


def test_a_plugin_that_registers_for_nothing_known_is_woken_by_every_kind_of_event() -> None:
    class Silent:
        name = F

        def filter(self, *_: Any) -> None:
            return None

    world = World(Silent())
    world.rejected("a", F)
    world.happened(NO_PLUGIN)
    assert world.places() == {"backoff": ["a"]}


def test_a_precheck_spares_pods() -> None:
    world = world_with_f()
    for name, priority in (("a", 0), ("b", 5)):
        world.rejected(name, F, priority=priority)
    world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, lambda pod: pod.priority <= 0)
    assert world.places() == {"backoff": ["a"], "unschedulable": ["b"]}


def test_events_are_kept_for_pods_in_flight_alone_and_no_longer_than_needed() -> None:
    world = world_with_f()
    world.happened()
    for name in ("a", "b"):
        world.add(name)
        world.pop()
        world.happened()
    kept = [len(world.queue.in_flight.events)]
    for name in ("a", "b"):
        world.queue.done(f"uid-{name}")
        kept.append(len(world.queue.in_flight.events))
    assert kept == [2, 1, 0]


def test_events_that_nobody_registered_for_are_not_kept() -> None:
    world = world_with_f()
    world.add("a")
    world.pop()
    world.happened(NO_PLUGIN)
    assert world.queue.in_flight.events == ()


def test_a_pod_that_is_no_longer_in_flight_backs_off() -> None:
    world = world_with_f()
    world.add("a")
    queued = world.popped("a")
    world.queue.done(queued.pod.uid)
    world.fail(queued, F)
    assert world.places() == {"backoff": ["a"]}


def test_a_pod_is_not_taken_back_beside_its_successor_of_the_same_name() -> None:
    world = World()
    world.add("a")
    queued = world.popped("a")
    world.delete("a")
    world.add("a", uid="uid-of-the-next-a")
    assert (world.fail(queued), world.places(), len(world.queue.in_flight)) == (False, {"active": ["a"]}, 0)


def test_a_pod_that_is_in_flight_already_is_not_popped_again() -> None:
    world = World()
    pod = world.add("a")
    world.pop()
    world.queue.add(pod)
    assert (world.pop(), world.places()) == (None, {})


def test_a_deleted_pod_is_nowhere() -> None:
    world = World(Registering(F), Gate("G", closed={"gated"}))
    world.rejected("unschedulable", F)
    world.rejected("failed")
    for name in ("active", "gated"):
        world.add(name, nominated="node")
    for name in ("unschedulable", "failed", "active", "gated"):
        world.delete(name)
    assert (world.places(), world.nominator.nominated_pods("node"), +world.metrics.waiting) == ({}, [], {})


def test_an_update_that_opens_a_gate_only_counts_with_its_event() -> None:
    labelled = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL)
    world = World(gate := Gate("G", (labelled,), closed={"a"}))
    world.add("a")
    gate.closed.clear()
    seen = []
    for labels in ({}, {"x": "y"}):
        world.update("a", labels=labels)
        seen.append(world.places())
    assert seen == [{"gated": ["a"]}, {"active": ["a"]}]


def test_the_flush_tries_gated_pods_again_without_counting_them_as_rescued() -> None:
    world = World(gate := Gate("G", closed={"a"}))
    world.add("a")
    for _ in range(2):
        world.time += 301
        world.queue.flush_unschedulable_leftover()
    flushed = world.places()
    gate.closed.clear()
    world.happened()
    assert (flushed, gate.evaluated, world.popped("a").was_flushed) == ({"gated": ["a"]}, 4, False)


def test_what_is_due_next() -> None:
    world = World(Registering(F), Gate("G", closed={"gated"}))
    began, seen = world.time, [world.queue.next_due()]
    world.time += 0.25
    world.rejected("a", F)
    seen.append(world.queue.next_due() - began)
    world.rejected("b")
    seen.append(world.queue.next_due() - began)
    world.add("gated")
    world.time += 2
    world.queue.flush()
    seen.append(world.queue.next_due() - began)
    assert seen == [inf, 30.0, 2.0, 5.25]


def test_the_flush_of_unschedulable_pods_looks_every_thirty_seconds() -> None:
    world = world_with_f()
    world.rejected("a", F)
    looked = []
    for seconds in (300, 29, 1):
        world.time += seconds
        world.queue.flush()
        looked.append((world.queue.next_due() - world.time, *world.places()))
    assert looked == [(30.0, "unschedulable"), (1.0, "unschedulable"), (inf, "active")]


def test_a_waiting_pod_keeps_a_nomination_that_its_status_does_not_show_yet() -> None:
    world = World()
    world.nominator.add(world.add("a"), Nominate("node"))
    world.update("a", labels={"x": "y"})
    assert [pod.labels for pod in world.nominator.nominated_pods("node")] == [{"x": "y"}]
