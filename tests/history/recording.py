"""What happens to Pods, claims and PodGroups of a plane, as a watch tells it: for those who wait, compare and check.

One recorder a plane, asynchronous.  It sees each stored state once: the watch goes on from where it ended.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tollbar.model.objects import Object, metadata, uid_of
from tollbar.model.resources import PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import Client
from tollbar.runtime.errors import Unreachable

_WATCH_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Change:
    """One stored state of an object, or its last one."""

    kind: str
    deleted: bool
    object: Object


def in_order(changes: Iterable[Change]) -> list[Change]:
    """As they were stored: all kinds live in one store, so that versions order their changes."""
    return sorted(changes, key=lambda change: int(metadata(change.object)["resourceVersion"]))


class Recorder:
    """`run` it as a task; `changes` and `objects` are by namespace, objects by kind and name as they are now."""

    def __init__(self, client: Client, *more: Resource) -> None:
        self._client = client
        self._resources = (PODS, RESOURCE_CLAIMS, *more)
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        """Those who wait, and what for: asked about at each change, which is much cheaper than to wake them all."""
        self._listed = {resource.kind: asyncio.Event() for resource in self._resources}
        self.changes: defaultdict[str, list[Change]] = defaultdict(list)
        self.objects: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.moments: defaultdict[str, float] = defaultdict(float)
        """When a namespace changed last, on the event loop's clock."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for resource in self._resources:
                tasks.create_task(self._follow(resource))

    async def begun(self) -> None:
        """Wait until all that there is has been listed: from then on every state is seen."""
        for listed in self._listed.values():
            await listed.wait()

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Whether it came to hold in time.  Raises what `holds` does."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():  # any more, when its turn comes
                    await self._change(holds)
        except TimeoutError:
            return False
        return True

    async def _change(self, holds: Callable[[], bool]) -> None:
        """Wait for the next change after which it holds."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = holds
        try:
            await waiting
        finally:
            del self._waiting[waiting]

    async def quiet(self, namespaces: frozenset[str], seconds: float, limit: float = 20.0) -> bool:
        """Whether nothing happened in any of them for so long, before the limit was reached."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + limit
        while (left := max(self.moments[each] for each in namespaces) + seconds - clock()) > 0:
            if clock() > deadline:
                return False
            await asyncio.sleep(left)
        return True

    async def _follow(self, resource: Resource) -> None:
        page = await self._client.list(resource, limit=0)
        for obj in page["items"]:
            self._note(resource.kind, "ADDED", obj)
        version = metadata(page)["resourceVersion"]
        self._listed[resource.kind].set()
        while True:
            watch = self._client.watch(resource, resource_version=version, timeout_seconds=_WATCH_SECONDS)
            with suppress(Unreachable):  # a busy machine may be silent for longer than the client waits
                async with aclosing(watch) as events:
                    async for event in events:
                        version = metadata(event.object)["resourceVersion"]
                        if event.type != "BOOKMARK":
                            self._note(resource.kind, event.type, event.object)

    def _note(self, kind: str, type_: str, obj: Object) -> None:
        namespace, name = metadata(obj)["namespace"], metadata(obj)["name"]
        now = self.objects[namespace]
        if type_ != "DELETED":
            now[kind, name] = obj
        elif uid_of(now.get((kind, name), obj)) == uid_of(obj):
            now.pop((kind, name), None)
        self.changes[namespace].append(Change(kind, type_ == "DELETED", obj))
        self.moments[namespace] = asyncio.get_running_loop().time()
        for waiting, holds in self._waiting.items():
            if not waiting.done():
                _settle(waiting, holds)


def _settle(waiting: asyncio.Future[None], holds: Callable[[], bool]) -> None:
    """End the wait if it holds."""
    try:
        if holds():
            waiting.set_result(None)
    except Exception as error:  # whoever waits has asked what cannot be answered any more
        waiting.set_exception(error)


@asynccontextmanager
async def recorded(client: Client, *more: Resource) -> AsyncGenerator[Recorder, None]:
    """A recorder that runs within the block, and has listed all that there is; `more` beside Pods and claims."""
    recorder = Recorder(client, *more)
    async with asyncio.TaskGroup() as recording:
        following = recording.create_task(recorder.run())
        await recorder.begun()
        yield recorder
        following.cancel()
