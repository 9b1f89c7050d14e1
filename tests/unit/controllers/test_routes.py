"""What the routes put into the queues: first what is there, each thing once, then what changes."""

import asyncio

import pytest
from builders import device_class, namespace, pod, scheduling_gate, template, toleration_rule
from worlds import caches_of

from controllers import routes
from tollbar.model.objects import Key
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import WorkQueue
from tollbar.views.caches import PodCaches

RULE = toleration_rule("r1").cel("a claim wants gpu")
CLUSTER = [
    pod("held").gated().templates("t1"),
    pod("free"),
    template("t1").request("gpu"),
    namespace(),
    RULE,
    scheduling_gate(),
]


def queues_of(caches: PodCaches) -> dict[str, WorkQueue[Key]]:
    clock, metrics = SystemClock(), Metrics()
    queues = {name: WorkQueue[Key](name, clock=clock, metrics=metrics) for name in ("gates", "rules", "watchdog")}
    routes.subscribe(caches, queues)
    return queues


async def drained(queues: dict[str, WorkQueue[Key]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, queue in queues.items():
        while len(queue):
            key = await queue.get()
            queue.done(key)
            found.setdefault(name, set()).add(key.name)
    return found


async def test_who_begins_to_lead_looks_at_everything_that_is_there() -> None:
    queues = queues_of(caches_of(CLUSTER))
    assert await drained(queues) == {"gates": {"held", "free"}, "rules": {"r1"}, "watchdog": {"tolerations"}}


async def test_then_at_what_a_change_concerns() -> None:
    caches = caches_of(CLUSTER)
    queues = queues_of(caches)
    await drained(queues)
    caches.classes.apply(device_class("gpu"))
    caches.pods.apply(pod("new"))
    assert await drained(queues) == {"gates": {"held", "new"}}


async def test_our_own_reports_wake_nobody_who_is_held() -> None:
    caches = caches_of(CLUSTER)
    queues = queues_of(caches)
    await drained(queues)
    caches.gates.apply(scheduling_gate().but("status.oldestHeldSeconds", 31))
    caches.rules.apply(RULE.but("status.pendingMatches", 1))
    assert await drained(queues) == {"watchdog": {"tolerations"}}


@pytest.mark.looptime
async def test_those_who_only_count_see_a_burst_as_a_whole() -> None:
    caches = caches_of(CLUSTER)
    queues = queues_of(caches)
    await drained(queues)
    for name in ("a", "b", "c"):
        caches.pods.apply(pod(name).gated())
    at_once, now = await drained(queues), asyncio.get_running_loop().time()
    counted = await queues["watchdog"].get()
    waited = round(asyncio.get_running_loop().time() - now, 3)
    assert (at_once, counted.name, waited, len(queues["watchdog"])) == (
        {"gates": {"a", "b", "c"}},
        "tolerations",
        routes.COUNTING,
        0,
    )
