"""What gates, the queue and hints promise; the numbers are those of docs/reference/scheduler-behaviours.md."""

import pytest
from plugins.queues import CLAIM_ADD, GATES_GONE, NODE_ADD, CountedGates, Gate, Registering, World
from plugins.tables import handle

from tollbar.model.objects import Key
from tollbar.scheduler.framework.events import Action, ClusterEvent, EventResource
from tollbar.scheduler.plugins.taint_toleration import TaintToleration

TWO_GATES = [{"name": "one"}, {"name": "other"}]
CLAIM_UPDATE = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE)


@pytest.mark.behaviour(1)
def test_a_pod_waits_while_any_gate_is_left_and_is_tried_when_the_list_is_empty() -> None:
    world = World(CountedGates())
    seen = []
    world.add("a", schedulingGates=TWO_GATES)
    for gates in (TWO_GATES, TWO_GATES[:1], []):
        world.update("a", schedulingGates=gates)
        seen.append(world.places())
    assert seen == [{"gated": ["a"]}, {"gated": ["a"]}, {"active": ["a"]}]


@pytest.mark.behaviour(5)
def test_controllers_remove_one_gate_each_and_only_the_last_one_wakes_the_pod() -> None:
    world = World(CountedGates())
    world.add("a", schedulingGates=TWO_GATES)
    world.update("a", schedulingGates=TWO_GATES[1:])
    between = world.metrics.entered.copy()
    world.update("a", schedulingGates=[])
    assert (between, world.metrics.entered - between) == (
        {("unschedulable", "UnscheduledPodAdd"): 1},
        {("active", "TargetPodUpdatePodSchedulingGatesEliminated"): 1},
    )


@pytest.mark.behaviour(9)
def test_the_condition_of_scheduling_gates_is_never_overwritten() -> None:
    world = World(CountedGates())
    world.add("a", schedulingGates=TWO_GATES)
    world.time += 1000
    assert world.queue.flush() == []


@pytest.mark.behaviour(10)
def test_ten_thousand_gated_pods_cost_no_cycle_no_hint_and_no_write() -> None:
    gates, other = CountedGates(), Registering("NodeResourcesFit")
    world = World(gates, other)
    for number in range(10_000):
        world.add(f"gated-{number}", schedulingGates=TWO_GATES)
    asked = gates.evaluated
    for _ in range(1000):
        world.happened(NODE_ADD)
    assert (world.pop(), gates.evaluated - asked, other.asked, world.queue.flush()) == (None, 0, [], [])


@pytest.mark.behaviour(14)
def test_pods_of_a_stateful_set_are_tried_in_the_order_in_which_their_gates_are_removed() -> None:
    """A migration between clusters: the webhook gates all of them, the controller releases them by their ordinals."""
    world = World(CountedGates())
    for ordinal in reversed(range(4)):
        world.add(f"web-{ordinal}", schedulingGates=[{"name": "example.com/migration"}])
    tried = []
    for ordinal in range(4):
        world.time += 1
        world.update(f"web-{ordinal}", schedulingGates=[])
        tried.append((world.pop(), world.pop()))
    assert tried == [(f"web-{ordinal}", None) for ordinal in range(4)]


@pytest.mark.behaviour(15)
def test_pre_enqueue_plugins_are_a_chain_of_which_each_can_hold_the_pod() -> None:
    one, other = Gate("One", closed={"a"}), Gate("Other", (CLAIM_ADD,), closed={"a"})
    world = World(one, other)
    world.add("a")
    holders = []
    for event, opened in ((NODE_ADD, one), (CLAIM_ADD, other)):
        queued = world.queue.get(Key("ns", "a"))
        holders.append(queued.gating_plugin if queued else "")
        opened.closed.clear()
        world.happened(event)
    assert (holders, world.places()) == (["One", "Other"], {"active": ["a"]})


@pytest.mark.behaviour(16)
def test_gated_pods_and_who_gates_them_are_counted() -> None:
    world = World(CountedGates(), Gate("DynamicResources", closed={"b"}))
    world.add("a", schedulingGates=TWO_GATES)
    world.add("b")
    world.add("c")
    assert (world.queue.counts(), world.metrics.waiting) == (
        {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 2},
        {("SchedulingGates", "default-scheduler"): 1, ("DynamicResources", "default-scheduler"): 1},
    )


@pytest.mark.behaviour(16)
def test_the_time_behind_a_gate_does_not_count_as_time_that_scheduling_took() -> None:
    world = World(CountedGates())
    world.add("a", schedulingGates=TWO_GATES)
    world.time += 600
    world.update("a", schedulingGates=[])
    assert world.popped("a").initial_attempt == world.time


@pytest.mark.behaviour(27)
def test_a_pod_that_no_event_wakes_is_tried_again_after_five_minutes_and_known_to_be_rescued() -> None:
    world = World(Registering("F"))
    world.rejected("a", "F")
    seen = []
    for seconds in (300, 1):
        world.time += seconds
        world.queue.flush_unschedulable_leftover()
        seen.append(world.places())
    assert (seen, world.popped("a").was_flushed) == ([{"unschedulable": ["a"]}, {"active": ["a"]}], True)


@pytest.mark.behaviour(27)
def test_a_pod_that_an_event_wakes_is_not_counted_as_rescued() -> None:
    world = World(Registering("F"))
    world.rejected("a", "F")
    world.happened(NODE_ADD)
    assert not world.popped("a").was_flushed


@pytest.mark.behaviour(28)
def test_pods_wait_in_the_active_queue_in_back_off_or_among_the_unschedulable() -> None:
    world = World(Registering("F"))
    for name in ("a", "b", "c"):
        world.rejected(name, "F") if name != "c" else world.rejected(name)
    world.add("d")
    world.queue.update(world["b"], world.pod("b", labels={"x": "y"}))
    before = world.places()
    world.happened(NODE_ADD)
    assert (before, world.places()) == (
        {"active": ["d"], "errorBackoff": ["c"], "unschedulable": ["a", "b"]},
        {"active": ["d"], "backoff": ["a", "b"], "errorBackoff": ["c"]},
    )


@pytest.mark.behaviour(36)
def test_a_plugin_controls_the_queue_by_pre_enqueue_and_wastes_no_attempt() -> None:
    world = World(gate := Gate("Quota", closed={"a"}))
    world.add("a")
    gate.closed.clear()
    world.happened(NODE_ADD)
    queued = world.popped("a")
    assert (queued.attempts, queued.unschedulable_count, world.metrics.entered) == (
        1,
        0,
        {("unschedulable", "UnscheduledPodAdd"): 1, ("active", "NodeAdd"): 1},
    )


def test_a_late_toleration_wakes_its_pod_and_no_other() -> None:
    world = World(CountedGates(), TaintToleration({}, handle()), Registering("NodeResourcesFit"))
    for name in ("a", "b"):
        world.rejected(name, "TaintToleration")
    world.rejected("c", "NodeResourcesFit")
    world.add("gated", schedulingGates=TWO_GATES)
    world.time += 5
    before = world.metrics.entered.copy()
    world.update("a", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert (world.metrics.entered - before, world.places()) == (
        {("active", "TargetPodUpdatePodToleration"): 1},
        {"active": ["a"], "unschedulable": ["b", "c"], "gated": ["gated"]},
    )


@pytest.mark.behaviour(40)
def test_a_generated_claim_is_an_event_of_its_own() -> None:
    generated = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    world = World(plugin := Registering("DynamicResources", (generated,)))
    world.rejected("a", "DynamicResources")
    asked = []
    for status in ({"phase": "Pending"}, {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a-gpu"}]}):
        world.update("a", status=status)
        asked.append(len(plugin.asked))
    assert asked == [0, 1]


@pytest.mark.behaviour(55)
def test_a_missing_class_is_waited_for_and_wakes_the_pod_by_its_event_not_by_a_retry() -> None:
    class_add = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD)
    world = World(Registering("DynamicResources", (class_add,)))
    world.rejected("a", "DynamicResources")
    world.time += 60
    world.queue.flush()
    before = world.places()
    world.happened(class_add)
    assert (before, world.places()) == ({"unschedulable": ["a"]}, {"active": ["a"]})


@pytest.mark.behaviour(56)
def test_a_pod_whose_claim_appears_is_queued_at_once_and_no_other_pod_is_looked_at() -> None:
    about_a = Gate("DynamicResources", (CLAIM_ADD,), closed={"a", "b"}, pre_hint=lambda *_: [Key("ns", "a")])
    world = World(about_a)
    world.add("a")
    world.add("b")
    about_a.closed.clear()
    before = about_a.evaluated
    world.happened(CLAIM_ADD, None, {"metadata": {"name": "claim"}})
    assert (world.places(), about_a.asked, about_a.evaluated - before) == (
        {"active": ["a"], "gated": ["b"]},
        ["a"],
        1,
    )


@pytest.mark.parametrize("event", [CLAIM_UPDATE, GATES_GONE])
@pytest.mark.behaviour(56)
def test_an_event_that_the_gating_plugin_did_not_register_for_wakes_nothing(event: ClusterEvent) -> None:
    gate = Gate("DynamicResources", (CLAIM_ADD,), closed={"a"})
    world = World(gate, Registering("Other", (event,)))
    world.add("a")
    gate.closed.clear()
    world.happened(event)
    assert world.places() == {"gated": ["a"]}
