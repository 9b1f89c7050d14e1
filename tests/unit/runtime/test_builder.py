"""Controllers as they are built: when they start, what wakes them, and who runs them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes.manager import Managed, turns
from objects.builders import namespace, pod

from tollbar.model.objects import Key
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.source import Channel, itself
from tollbar.views import kinds


class Seen:
    """A reconcile that takes note of its keys."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def __call__(self, key: Key) -> Outcome:
        self.keys.append(key.name)
        return DONE

    def taken(self) -> list[str]:
        keys, self.keys = self.keys, []
        return keys


@asynccontextmanager
async def running(controller: Controller[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    await turns()
    yield
    task.cancel()
    await asyncio.wait({task})


async def test_it_starts_when_everything_that_it_watches_and_needs_has_been_listed() -> None:
    manager, seen = Managed(), Seen()
    watched, needed = manager.caches.store(kinds.RULES), manager.caches.store(kinds.NAMESPACES)
    other = manager.caches.store(kinds.PENDING_PODS)
    controller = (
        Builder[Key](manager, "test").watches(watched, itself, initial=True).needs(needed).build(seen, workers=1)
    )
    watched.apply(namespace("early"))
    steps = []
    async with running(controller):
        for store in (watched, needed):
            steps.append((seen.taken(), len(controller.queue)))
            store.synced.set()
            await turns()
        steps.append((seen.taken(), other.synced.is_set()))
    assert steps == [([], 0), ([], 0), (["early"], False)]


async def test_what_changes_before_it_starts_fills_no_queue() -> None:
    """A standby runs no controller: nothing would ever leave its queue."""
    manager, seen = Managed(), Seen()
    store = manager.caches.store(kinds.RULES)
    controller = Builder[Key](manager, "test").watches(store, itself).complete(seen, workers=1)
    store.replace([])
    store.apply(namespace("early"))
    waiting = len(controller.queue)
    async with running(controller):
        store.apply(namespace("late"))
        await turns()
    assert (waiting, seen.taken()) == (0, ["late"])


async def test_it_can_look_again_at_whatever_there_is_to_do() -> None:
    manager, seen = Managed(), Seen()
    rules, pods = manager.caches.store(kinds.RULES), manager.caches.store(kinds.PENDING_PODS)
    controller = (
        Builder[Key](manager, "test").watches(rules, itself, initial=True).watches(pods, itself).build(seen, workers=1)
    )
    manager.fill([{**namespace("rule"), "kind": "TolerationRule"}, pod("web")])
    async with running(controller):
        first = seen.taken()
        rules.apply({**namespace("more"), "kind": "TolerationRule"})
        await turns()
        change = seen.taken()
        controller.resync()
        await turns()
        again = seen.taken()
        rules.remove(namespace("more"))
        await turns()
    assert (first, change, again, seen.taken()) == (["rule"], ["more"], ["rule", "more"], ["more"])


async def test_a_row_for_each_source_is_all_that_wakes_it() -> None:
    manager, seen = Managed(), Seen()
    store, channel = manager.caches.store(kinds.RULES), Channel[Key]("test")
    controller = (
        Builder[Key](manager, "test")
        .watches(store, itself, predicate=lambda delta: delta.old is None)
        .watches(channel, lambda key: (key,), delay=0.0)
        .build(seen, workers=2)
    )
    manager.fill([])
    async with running(controller):
        store.apply(namespace("new"))
        store.remove(namespace("new"))
        channel.send(Key("", "told"))
        await turns()
    assert seen.taken() == ["new", "told"]


def test_what_it_needs_is_what_it_watches_each_store_once() -> None:
    manager = Managed()
    rules, gates = manager.caches.store(kinds.RULES), manager.caches.store(kinds.GATES)
    controller = (
        Builder[Key](manager, "test")
        .watches(rules, itself)
        .watches(Channel[Key]("test"), lambda key: (key,))
        .watches(rules, itself)
        .needs(gates, rules)
        .build(Seen(), workers=1)
    )
    assert (list(controller.needs), len(controller.watches)) == ([rules, gates], 3)


@pytest.mark.parametrize("completed", [True, False])
async def test_a_controller_that_is_completed_runs_while_its_process_leads(completed: bool) -> None:
    manager, seen = Managed(), Seen()
    store = manager.caches.store(kinds.RULES)
    manager.fill([{**namespace("rule"), "kind": "TolerationRule"}])
    builder = Builder[Key](manager, "test").watches(store, itself, initial=True)
    builder.complete(seen, workers=1) if completed else builder.build(seen, workers=1)
    stop = asyncio.Event()
    tasks = [asyncio.create_task(service.run(stop)) for service in manager.phases()[4]]
    await turns()
    stop.set()
    await asyncio.gather(*tasks)
    assert (manager.elects, seen.taken()) == (completed, ["rule"] if completed else [])


@pytest.mark.parametrize(("queue", "want"), [("", "test"), ("resource_claim", "resource_claim")])
def test_the_queue_has_the_name_of_the_controller_unless_it_is_given_one(queue: str, want: str) -> None:
    manager = Managed()
    controller = Builder[Key](manager, "test", queue=queue).build(Seen(), workers=3)
    controller.queue.add(Key("", "x"))
    registry = manager.metrics.registry
    assert (
        controller.name,
        registry.get_sample_value("workqueue_depth", {"name": want}),
        registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": "test"}),
    ) == ("test", 1.0, 3.0)
