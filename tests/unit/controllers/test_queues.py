"""What the watches put into the queues: first what is there, each thing once, then what changes; and when."""

import asyncio

import pytest
from clusters.strategies import World
from fakes.engine import has_label, rule
from fakes.manager import drained
from objects.builders import CREATED, device_class, namespace, pod, scheduling_gate, template, toleration_rule

from controllers.status import COUNTING
from tollbar.model.objects import Key, Object

RULE = toleration_rule("r1").cel("a claim wants gpu")
R1 = rule("r1", has_label("app"))
CLUSTER = [
    pod("held").gated().templates("t1"),
    pod("free"),
    template("t1").request("gpu"),
    namespace(),
    RULE,
    scheduling_gate(),
]


class Leading(World):
    """A world whose controllers' queues are connected."""

    def __init__(self, *more: Object) -> None:
        super().__init__([*CLUSTER, *more])
        for controller in self.controllers.values():
            controller.connect()

    async def woken(self) -> dict[str, set[str]]:
        """Who waits in the queues, which are empty afterwards."""
        waiting = {
            name: {key.name for key in await drained(controller.queue)} for name, controller in self.controllers.items()
        }
        return {name: keys for name, keys in waiting.items() if keys}


async def test_a_new_leader_reconciles_everything_that_is_there() -> None:
    assert await Leading().woken() == {"gates": {"held", "free"}, "rules": {"r1"}, "watchdog": {"tolerations"}}


async def test_after_that_only_what_a_change_affects_is_queued() -> None:
    world = Leading()
    await world.woken()
    world.fill([device_class("gpu"), pod("new")])
    assert await world.woken() == {"gates": {"held", "new"}}


async def test_keys_from_watch_events_go_before_keys_from_the_first_list() -> None:
    world = Leading()
    world.fill([pod("new")])
    assert (await drained(world.controllers["gates"].queue))[0].name == "new"


async def test_our_own_status_writes_queue_no_held_pods() -> None:
    world = Leading()
    await world.woken()
    world.fill([scheduling_gate().but("status.oldestHeldSeconds", 31), RULE.but("status.pendingMatches", 1)])
    assert await world.woken() == {"watchdog": {"tolerations"}}


async def test_a_webhook_configuration_wakes_every_rule_once_the_controllers_run() -> None:
    configuration: Object = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "tollbar", "uid": "u"}}
    world = Leading()
    await world.woken()
    world.fill([configuration])
    assert await world.woken() == {"rules": {"r1"}}


@pytest.mark.looptime
async def test_controllers_that_only_count_reconcile_once_for_a_burst() -> None:
    world = Leading()
    await world.woken()
    world.fill(pod(name).gated() for name in ("a", "b", "c"))
    at_once, now = await world.woken(), asyncio.get_running_loop().time()
    queue = world.controllers["watchdog"].queue
    counted = await queue.get()
    waited = round(asyncio.get_running_loop().time() - now, 3)
    assert (at_once, counted.name, waited, len(queue)) == ({"gates": {"a", "b", "c"}}, "tolerations", COUNTING, 0)


@pytest.mark.looptime
async def test_a_rule_is_reconciled_once_for_a_burst_of_its_counts() -> None:
    world = Leading()
    await world.woken()
    now = asyncio.get_running_loop().time()
    for name in ("held", "free"):
        world.matches.record(Key("ml", name), [R1], CREATED)
    queue = world.controllers["rules"].queue
    at_once, counted = len(queue), await queue.get()
    waited = round(asyncio.get_running_loop().time() - now, 3)
    assert (at_once, counted.name, waited, len(queue)) == (0, "r1", COUNTING, 0)


NEEDS: dict[str, list[str]] = {
    "gates": [
        "deviceclasses",
        "namespaces",
        "pods",
        "resourceclaims",
        "resourceclaimtemplates",
        "schedulinggates",
        "tolerationrules",
    ],
    "rules": ["mutatingwebhookconfigurations", "pods", "tolerationrules"],
    "watchdog": ["pods", "schedulinggates"],
}


@pytest.mark.parametrize(("controller", "want"), NEEDS.items(), ids=NEEDS)
def test_a_controller_starts_when_these_kinds_have_been_listed(controller: str, want: list[str]) -> None:
    assert sorted(store.resource.plural for store in World().controllers[controller].needs) == want
