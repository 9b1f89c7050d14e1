"""Plays random scenarios on both sides at one time, many in namespaces of their own.

After each act both controllers are waited for, until both say the same about all objects, or until it is sure that they
never will: there the scenario ends, since what comes after says nothing.  So nothing is compared that is by chance only
because one side is slower.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from history.recording import Change, Recorder, recorded

from parity.acts import Act
from parity.drawing import Drawn
from parity.dsl import PATIENCE, POD_GROUPS, World, asking
from parity.fences import Fences
from parity.running import connected, namespaced, quell, with_fences
from parity.sides import Side, Sides
from parity.trace import Place, Trace, apart, objects, trace
from tollbar.devplane.audit import Record
from tollbar.model.objects import metadata, uid_of
from tollbar.model.resources import EVENTS
from tollbar.runtime.client import Client

T = TypeVar("T")
_AGREE_SECONDS: Final = 5.0
"""Both may take so long, after the last change, to come to the same."""
_QUIET_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.1
ENDLESS: Final = "an end to it"
_ENDLESS_SECONDS: Final = 4.0
"""Who is not quiet for so long never will be."""


@dataclass(frozen=True)
class Played:
    """What came of a random scenario on each side, up to `last`: the act after which they were apart, if they were."""

    drawn: Drawn
    last: Act | None
    upstream: Trace
    ours: Trace

    @property
    def places(self) -> list[Place]:
        return apart(self.upstream, self.ours)

    def __str__(self) -> str:
        places = "\n".join(f"    {each}" for each in self.places)
        return f"scenario {self.drawn.number}, ended by {self.last}:\n{self.drawn}\n{places}"


@dataclass
class Stage:
    """One side's plane, on which scenarios are played."""

    side: Side
    client: Client
    recorder: Recorder
    fences: Fences
    worlds: dict[int, World] = field(default_factory=dict)

    async def known(self) -> None:
        assert await self.fences.passed(), "the controller does nothing any more"

    async def down(self) -> None:
        assert await self.fences.told(), "the controller does nothing any more"  # what waits to be sent is lost
        await asyncio.to_thread(self.side.down)

    async def up(self) -> None:
        await asyncio.to_thread(self.side.up)
        await self.known()

    async def enter(self, drawn: Drawn) -> None:
        await namespaced(self.client, drawn.namespace)
        world = World(self.client, self.recorder, self.fences, drawn.namespace, self.down, self.up)
        self.worlds[drawn.number] = world

    async def clear(self) -> None:
        """Forget what was played, and see that nobody goes on with it."""
        await quell(self.client, [world.namespace for world in self.worlds.values()])
        for world in self.worlds.values():
            self.recorder.changes.pop(world.namespace, None)
        self.worlds.clear()

    async def settled(self, namespace: str) -> bool:
        """Wait until the controller has looked at everything; whether it came to an end."""
        await self.known()
        return await self.recorder.quiet(frozenset({namespace}), _QUIET_SECONDS, _ENDLESS_SECONDS)


@asynccontextmanager
async def staged(side: Side, turn: str) -> AsyncGenerator[Stage, None]:
    async with connected(side) as client:
        await with_fences(client)
        async with recorded(client, POD_GROUPS) as recorder:
            yield Stage(side, client, recorder, Fences(client, recorder, turn, asking(), POD_GROUPS, PATIENCE))


@dataclass(frozen=True, slots=True)
class End:
    """Where a scenario ended, if not at its own end: `length` has the number of changes by then, of each side."""

    after: Act | None
    at: str
    length: tuple[int, int]


@dataclass(frozen=True)
class Theatre:
    """Both sides; `ends` is by the scenario's number."""

    stages: tuple[Stage, Stage]
    ends: dict[int, End] = field(default_factory=dict)

    async def play(self, batch: Sequence[Drawn]) -> list[Played]:
        """All at one time; the controllers are stopped and started once."""
        await self._both(Stage.clear)
        since = await self._both(_position)
        await asyncio.gather(*(stage.enter(each) for stage in self.stages for each in batch))
        await asyncio.gather(*(self._play(each, each.before) for each in batch))
        await self._both(Stage.down)
        self._are_down(True)
        await asyncio.gather(*(self._perform(each, each.down) for each in batch))
        self._are_down(False)
        await self._both(Stage.up)
        await asyncio.gather(*(self._agree(each, (*each.before, *each.down)[-1]) for each in batch))
        await asyncio.gather(*(self._play(each, each.after) for each in batch))
        for each in batch:
            self.ends.setdefault(each.number, self._end(each, None))
        upstream, ours = await asyncio.gather(
            *(self._traces(index, stage, batch, since[index]) for index, stage in enumerate(self.stages))
        )
        return [Played(each, self.ends[each.number].after, upstream[each.number], ours[each.number]) for each in batch]

    async def leave(self) -> None:
        """See that nobody goes on with what was played last."""
        await self._both(Stage.clear)

    async def _both(self, what: Callable[[Stage], Awaitable[T]]) -> list[T]:
        return await asyncio.gather(*(what(stage) for stage in self.stages))

    async def _play(self, drawn: Drawn, acts: Iterable[Act]) -> None:
        for each in acts:
            await self._perform(drawn, (each,))
            await self._agree(drawn, each)

    async def _perform(self, drawn: Drawn, acts: Iterable[Act]) -> None:
        for each in acts:
            if drawn.number not in self.ends:
                await asyncio.gather(*(each.play(stage.worlds[drawn.number]) for stage in self.stages))

    def _are_down(self, down: bool) -> None:
        for stage in self.stages:
            for world in stage.worlds.values():
                world.is_down = down

    async def _agree(self, drawn: Drawn, act: Act) -> None:
        """End the scenario unless both sides come to the same."""
        if drawn.number in self.ends:
            return
        settled = await self._both(lambda stage: stage.settled(drawn.namespace))
        for stage, is_settled in zip(self.stages, settled, strict=True):
            if not is_settled:
                stage.worlds[drawn.number].in_vain.append(ENDLESS)
        if all(settled) and await self._same(drawn.namespace):
            return
        self.ends[drawn.number] = self._end(drawn, act)
        if not all(settled):
            await self._both(lambda stage: quell(stage.client, [drawn.namespace]))

    async def _same(self, namespace: str) -> bool:
        """Whether both sides come to have the same objects in time, which garbage collectors have more of."""
        clock = asyncio.get_running_loop().time
        deadline, latest, seen = clock() + _AGREE_SECONDS, clock() + PATIENCE, (-1.0, -1.0)
        while clock() < deadline:
            now = self.stages[0].recorder.moments[namespace], self.stages[1].recorder.moments[namespace]
            if now != seen:
                upstream, ours = (stage.recorder.changes[namespace] for stage in self.stages)
                garbage = _garbage(upstream) or _garbage(ours)
                if not garbage and objects(upstream) == objects(ours):
                    return True
                deadline = latest if garbage else min(latest, clock() + _AGREE_SECONDS)
            seen = now
            await asyncio.sleep(_POLL_SECONDS)
        return False

    def _end(self, drawn: Drawn, act: Act | None) -> End:
        upstream, ours = (len(stage.recorder.changes[drawn.namespace]) for stage in self.stages)
        return End(act, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), (upstream, ours))

    async def _traces(self, index: int, stage: Stage, batch: Sequence[Drawn], since: int) -> dict[int, Trace]:
        assert await stage.fences.told(), "the controller tells nothing any more"
        await _position(stage)
        records: defaultdict[str, list[Record]] = defaultdict(list)
        for record in stage.side.plane.audit.records(since):
            records[record.namespace].append(record)
        pages = await asyncio.gather(*(stage.client.list(EVENTS, each.namespace) for each in batch))
        return {
            each.number: trace(
                stage.recorder.changes[each.namespace][: self.ends[each.number].length[index]],
                [record for record in records[each.namespace] if record.at <= self.ends[each.number].at],
                page["items"],
                stage.side.user,
                stage.worlds[each.number].in_vain,
            )
            for each, page in zip(batch, pages, strict=True)
        }


async def _position(stage: Stage) -> int:
    return await asyncio.to_thread(stage.side.plane.audit_fence)


def _garbage(changes: Iterable[Change]) -> bool:
    """Whether the garbage collector has still to delete a claim, whose Pod or PodGroup is gone."""
    last = {uid_of(change.object): change for change in changes}
    gone = {uid for uid, change in last.items() if change.deleted}
    return any(
        not gone.isdisjoint(owner["uid"] for owner in metadata(change.object).get("ownerReferences", ()))
        for change in last.values()
        if not change.deleted and "deletionTimestamp" not in metadata(change.object)
    )


@asynccontextmanager
async def theatre(sides: Sides, turn: str) -> AsyncGenerator[Theatre, None]:
    """Both sides, for what is played in this turn: one that has not been yet on these planes."""
    async with staged(sides.upstream, turn) as upstream, staged(sides.ours, turn) as ours:
        found = Theatre((upstream, ours))
        yield found
        await found.leave()
