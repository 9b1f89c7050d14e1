"""Many Pods on the embedded control plane: created, listed in pages, watched by three clients, and deleted.

TOLLBAR_PODS says how many; `--log-cli-level=INFO` shows what they cost.
"""

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.embedded.storage import HISTORY
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import PODS
from tollbar.runtime.client import Client, PatchType, WatchEvent
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.errors import Gone
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.reflector import Reflector
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

pytestmark = pytest.mark.timeout(600)

log = logging.getLogger(__name__)

AT_ONCE = 64
PAGE = 500
LABELS = 2
"""Changes of each Pod; those of ten thousand are more than the control plane keeps."""
SIZE = int(os.environ.get("TOLLBAR_PODS", "750"))


class Watcher:
    """A reflector of all Pods, and what it told of each."""

    def __init__(self, client: Any, clock: Clock = SystemClock()) -> None:  # noqa: B008 - it has no state
        self.told: dict[Key, list[str]] = defaultdict(list)
        self._changed = asyncio.Event()
        self.store = Store(PODS)
        self.store.subscribe(self._hear)
        self.reflector = Reflector(client, self.store, clock=clock, rng=Random(1), metrics=Metrics())

    def _hear(self, delta: Delta) -> None:
        what = "deleted" if delta.new is None else "updated" if delta.old is not None else "added"
        self.told[key_of(delta.new or delta.old or {})].append(what)
        self._changed.set()

    async def has(self, count: int) -> None:
        async with asyncio.timeout(120):
            while len(self.store) != count:
                self._changed.clear()
                await self._changed.wait()


class Impatient(SystemClock):
    """For a reflector that does not wait before it watches again."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0))


class Restless:
    """A client whose watches break off after some events, and which goes on where it was."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = Random(2)
        self.list, self.served = client.list, client.served
        self.reconnects = 0

    async def watch(self, *arguments: Any, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        self.reconnects += 1
        left = self._rng.randrange(1, 400)
        async with aclosing(self._client.watch(*arguments, **options)) as events:
            async for event in events:
                yield event
                left -= 1
                if left == 0:
                    return


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(tmp_path, scheduler=False) as plane:
        yield plane


@pytest.fixture
async def api(own: EmbeddedPlane) -> AsyncIterator[Client]:
    client = await Client.connect(kubeconfig=str(own.kubeconfig), metrics=Metrics(), user_agent="tollbar-tests")
    yield client
    await client.close()


def pod(number: int) -> Object:
    body = {"containers": [{"name": "main", "image": "example.com/app"}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"web-{number}"}, "spec": body}


async def each(size: int, do: Callable[[int], Awaitable[Any]]) -> None:
    numbers = iter(range(size))

    async def work() -> None:
        for number in numbers:
            await do(number)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def in_pages(client: Client) -> list[Key]:
    page = await client.list(PODS, limit=PAGE)
    found = list(map(key_of, page["items"]))
    while token := page["metadata"].get("continue"):
        page = await client.list(PODS, limit=PAGE, continue_=token)
        assert len(page["items"]) <= PAGE
        found += map(key_of, page["items"])
    return found


async def label(client: Client, number: int, turn: int) -> None:
    body = {"metadata": {"labels": {"turn": str(turn)}}}
    await client.patch(PODS, f"web-{number}", body, namespace="default", patch_type=PatchType.MERGE)


async def is_gone(client: Client, version: str) -> bool:
    """Whether the server's history no longer reaches back to that version."""
    async with aclosing(client.watch(PODS, resource_version=version, timeout_seconds=1)) as events:
        with suppress(Gone):
            async for _ in events:
                return False
            return False
    return True


async def test_watches_lose_nothing(own: EmbeddedPlane, api: Client) -> None:
    size = SIZE
    restless = Restless(api)
    steady, away = Watcher(api), Watcher(api)
    watchers = [steady, Watcher(restless, Impatient()), away]
    running = [asyncio.create_task(each.reflector.run()) for each in watchers]
    for watcher in watchers:
        await watcher.store.synced.wait()
    running.pop().cancel()  # it comes back much later, with the version that it has now
    names = {Key("default", f"web-{number}") for number in range(size)}
    clock, seconds = time.monotonic, {}

    async def took(what: str, work: Awaitable[Any]) -> Any:
        started = clock()
        done = await work
        seconds[what] = round(clock() - started, 1)
        return done

    await took("create", each(size, lambda number: api.create(PODS, pod(number), "default")))
    for turn in range(LABELS):
        await took("label", each(size, lambda number, turn=turn: label(api, number, turn)))
    memory = (await asyncio.to_thread(own.resident_bytes))["embedded"]
    listed = await took("list", in_pages(api))
    expired = await is_gone(api, away.store.resource_version)
    running.append(asyncio.create_task(away.reflector.run()))
    for watcher in watchers:
        await watcher.has(size)
    await took("delete", each(size, lambda number: api.delete(PODS, f"web-{number}", "default")))
    for watcher in watchers:
        await watcher.has(0)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)

    log.info("%d Pods: %d MiB, seconds: %s", size, memory / 2**20, seconds)
    all_of_it = ["added", *["updated"] * LABELS, "deleted"]
    histories = [all_of_it, all_of_it, ["added", "deleted"] if expired else all_of_it]
    assert [watcher.told for watcher in watchers] == [dict.fromkeys(names, history) for history in histories]
    assert (set(listed), len(listed), expired) == (names, size, size * (1 + LABELS) > 2 * HISTORY)
    assert restless.reconnects > 2 * size / 400
