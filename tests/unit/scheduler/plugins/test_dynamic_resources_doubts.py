"""DynamicResources: writes of which nobody knows whether they came to pass, and devices that two schedulers gave."""

import asyncio
from contextlib import suppress

import pytest
from fakes.manager import turns
from objects.builders import Built
from objects.builders import pod as a_pod
from objects.devices import a_claim, published, share, shared
from plugins.dynamicresources import (
    ALLOCATED,
    CLAIM,
    CONFLICT,
    DOWN,
    N1,
    STAMP,
    WEB,
    Api,
    World,
    info,
    reserved,
    wanting,
)

from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.runtime.errors import Conflict, Unreachable
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState

LOST = Unreachable("no answer")


class Lost:
    """The first answer is lost."""

    times = 0

    def __call__(self) -> None:
        self.times += 1
        if self.times == 1:
            raise LOST


async def test_a_reservation_whose_answer_was_lost_is_not_made_again() -> None:
    world = World(ALLOCATED, N1)
    world.api.objects[Key("ml", "gpu")] = reserved(ALLOCATED, WEB).but("metadata.resourceVersion", "50")
    assert (await world.bind(WEB), len(world.claim()["status"]["reservedFor"])) == ("Success", 1)


async def test_a_reservation_that_was_taken_back_without_an_answer_is_made_again() -> None:
    world = World(ALLOCATED, N1)
    await world.bind(WEB)
    world.api.on_write = lose = Lost()
    world.plugin.unreserve(world.state, info(WEB), "n1")
    await world.carry_out()
    world.api.on_write = lambda: None
    world.state = CycleState()
    assert (await world.bind(WEB), len(world.claim()["status"]["reservedFor"]), lose.times) == ("Success", 1, 1)


async def test_a_claim_that_was_given_up_without_an_answer_is_allocated_again() -> None:
    world = World(reserved(ALLOCATED, WEB), N1)
    world.pre_filter(WEB)
    world.plugin.filter(world.state, info(WEB), world.handle.snapshot.nodes[1])  # another plugin rejects the first one
    world.api.on_write = lose = Lost()
    world.post_filter(WEB)
    await world.carry_out()
    world.state = CycleState()
    assert (await world.bind(WEB), "allocation" in world.claim()["status"]) == ("Success", True)
    assert lose.times > 1


@pytest.mark.parametrize(("written", "held"), [(True, ["g0"]), (False, [])])
async def test_devices_count_as_taken_until_it_is_known_whether_the_allocation_was_written(
    written: bool, held: list[str]
) -> None:
    world = World(CLAIM, N1, problems={"get": [DOWN]})

    def lose() -> None:
        if "allocation" in world.claim().get("status", {}):
            if not written:
                world.api.objects[Key("ml", "gpu")] = CLAIM
            raise LOST

    world.api.on_write = lose
    answer = await world.bind(WEB)
    world.plugin.unreserve(world.state, info(WEB), "n1")
    before = world.held()
    await world.carry_out()
    assert (answer, before, world.held(), world.activated) == (
        "Error: add allocation and reservation to claim ml/gpu: no answer",
        ["g0"],
        held,
        ["web"],
    )


@pytest.mark.parametrize("unreadable", [0, 1, 2])
async def test_devices_count_as_taken_when_the_conflict_is_with_the_write_itself(unreadable: int) -> None:
    """The answer was lost once the allocation was written, and a proxy has sent the request again."""
    world = World(CLAIM, N1, problems={"get": [DOWN] * unreadable})

    def again() -> None:
        if "allocation" in world.claim().get("status", {}):
            raise CONFLICT

    world.api.on_write = again
    answer = await world.bind(WEB)
    world.plugin.unreserve(world.state, info(WEB), "n1")
    before = world.held()
    await world.carry_out()
    assert (answer.startswith("Error: "), before, world.held()) == (True, ["g0"], ["g0"])


async def test_an_allocation_that_arrives_after_its_devices_were_given_up_is_refused() -> None:
    world = World(CLAIM, N1)
    late: list[Object] = []

    class Slow(Api):
        async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
            if not subresource:
                return await super().update(kind, obj)
            late.append(obj)
            raise LOST

    world.api.__class__ = Slow
    await world.bind(WEB)
    await world.unreserve(WEB)
    world.api.__class__ = Api
    with pytest.raises(Conflict):
        await world.api.update("ResourceClaim", late[0], subresource="status")
    assert (world.held(), metadata(world.claim())["finalizers"]) == ([], [])


@pytest.mark.parametrize("problem", [CONFLICT, DOWN])
async def test_a_claim_whose_finalizer_cannot_be_removed_is_read_again(problem: Exception) -> None:
    world = World(CLAIM, N1, problems={"update": [None, problem], "update/status": [LOST]})
    await world.bind(WEB)
    await world.unreserve(WEB)
    assert (world.api.made, world.held()) == (
        ["update gpu", "update/status gpu", *["get gpu", "update gpu"] * 2],
        [],
    )


async def test_a_binding_that_is_cancelled_while_it_writes_is_looked_after() -> None:
    world = World(CLAIM, N1, problems={"update/status": [asyncio.CancelledError()]})  # type: ignore[list-item]
    world.reserve(WEB)
    with pytest.raises(asyncio.CancelledError):
        await world.pre_bind(WEB)
    await world.unreserve(WEB)
    assert (world.api.made[-2:], world.held(), world.activated) == (["get gpu", "update gpu"], [], ["web"])


async def test_devices_count_as_taken_while_nobody_leads_until_it_is_known_whether_the_allocation_was_written() -> None:
    world = World(CLAIM, a_claim("other"), N1, problems={"update/status": [LOST]})
    world.reserve(WEB)
    await world.pre_bind(WEB)
    world.plugin.unreserve(world.state, info(WEB), "n1")
    settling = asyncio.ensure_future(world.coroutines.pop())
    world.api.problems = {"get": [asyncio.CancelledError()]}  # type: ignore[list-item]
    with suppress(asyncio.CancelledError):
        await settling
    before = (world.held(), world.activated.copy())
    world.state = CycleState()
    world.filter(a_pod("another").claims("other"))
    await world.carry_out()
    assert (before, world.held(), world.activated) == ((["g0"], []), [], ["web"])


OLDER, NEWER = "2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z"
RUNNING = info(a_pod("other").but("spec.nodeName", "n1"))


def theirs(stamp: str, uid: str = "") -> Built:
    """A claim to which another scheduler has given the device."""
    made = reserved(a_claim("theirs", "g0", version=7, uid=uid), a_pod("other"))
    return made.but("status.allocation.allocationTimestamp", stamp)


COLLISIONS: dict[str, tuple[Built, list[PodInfo], bool]] = {
    "ours is later": (theirs(OLDER), [], False),
    "theirs is later": (theirs(NEWER), [], True),
    "theirs is later, but its Pod has a Node": (theirs(NEWER), [RUNNING], False),
    "of the same time, the greater uid is later": (theirs(STAMP, "a"), [], False),
    "of the same time, the smaller uid stays": (theirs(STAMP, "z"), [], True),
}


@pytest.mark.parametrize("case", COLLISIONS)
async def test_of_two_allocations_of_a_device_the_later_one_is_taken_back(case: str) -> None:
    other, running, ours_stays = COLLISIONS[case]
    world = World(CLAIM, other.but("status", None), N1, running=running)
    world.reserve(WEB)
    world.api.objects[Key("ml", "theirs")] = dict(other)
    world.watch()
    answer = await world.pre_bind(WEB)
    has_it = ["allocation" in (world.claim(name).get("status") or {}) for name in ("gpu", "theirs")]
    assert (answer == "Success", has_it) == (ours_stays, [ours_stays, not ours_stays])


@pytest.mark.parametrize(("stamp", "name"), [(OLDER, "gpu"), (NEWER, "theirs")], ids=["ours", "theirs"])
async def test_what_was_taken_back_without_an_answer_is_known_when_the_attempt_fails(stamp: str, name: str) -> None:
    world = World(CLAIM, theirs(stamp).but("status", None), N1)
    world.reserve(WEB)
    world.api.objects[Key("ml", "theirs")] = dict(theirs(stamp))
    world.watch()

    def lose() -> None:
        if world.api.made[-1] == f"update/status {name}" and "allocation" not in world.claim(name)["status"]:
            raise LOST

    world.api.on_write = lose
    answer = await world.pre_bind(WEB)
    cached = world.manager.claims.get(Key("ml", name)) or {}
    assert (answer.startswith("Error: "), cached.get("status")) == (True, world.claim(name)["status"])


async def test_what_is_taken_back_behind_a_write_without_an_answer_is_known_when_that_fails() -> None:
    """A device of another Pod's claim is taken back while the Pod, which has failed, takes back its reservation."""

    class Hanging(Api):
        answer = asyncio.Event()

        async def get(self, kind: str, key: Key) -> Object:
            if kind == "ResourceClaim":
                await turns()
            return await super().get(kind, key)

        async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
            written = await super().update(kind, obj, subresource=subresource)
            if key_of(obj).name == "theirs":
                await self.answer.wait()
                raise LOST
            return written

    other = a_pod("other").claims("theirs")
    world = World(CLAIM, theirs(NEWER).but("status", None), N1, api=Hanging)
    world.reserve(WEB)
    world.api.objects[Key("ml", "theirs")] = dict(theirs(NEWER))
    world.watch()
    binding = asyncio.create_task(world.plugin.pre_bind(world.state, info(WEB), "n1"))
    world.state = CycleState()
    world.reserve(other)
    world.plugin.unreserve(world.state, info(other), "n1")
    await turns()
    releasing = asyncio.create_task(world.carry_out())
    world.state = CycleState()
    world.reserve(other)
    again = asyncio.create_task(world.pre_bind(other))
    await turns()
    Hanging.answer.set()
    assert await again == "Error: claim ml/theirs got deallocated elsewhere in the meantime"
    await asyncio.gather(binding, releasing)


def slice_offering(memory: str, version: str = "1") -> Built:
    return published("s1", shared("m", memory=memory), node="n1").but("metadata.resourceVersion", version)


async def test_an_allocation_of_more_than_the_device_offers_by_now_is_taken_back() -> None:
    asked = wanting("gpu", capacity={"requests": {"memory": "2"}})
    world = World(asked, slice_offering("10"))
    world.reserve(WEB)
    world.manager.stores[1].apply(slice_offering("1", version="2"))
    answer = await world.pre_bind(WEB)
    assert (answer, "allocation" in world.claim()["status"]) == (
        "Error: allocation of claim ml/gpu was taken back because of gpu.example.com/n1/m",
        False,
    )


async def test_only_as_many_shares_are_taken_back_as_have_to_be() -> None:
    names = ("early", "late", "latest")
    others = {
        name: a_claim(name, share("m", memory="4"), version=7).but("status.allocation.allocationTimestamp", stamp)
        for name, stamp in zip(names, (OLDER, NEWER, "2026-01-03T00:00:00Z"), strict=True)
    }
    asked = wanting("gpu", capacity={"requests": {"memory": "2"}})
    world = World(asked, *(each.but("status", None) for each in others.values()), slice_offering("10"))
    world.reserve(WEB)
    world.api.objects |= {Key("ml", name): dict(each) for name, each in others.items()}
    world.watch()
    answer = await world.pre_bind(WEB)
    left = [name for name in ("gpu", *names) if "allocation" in (world.claim(name).get("status") or {})]
    assert (answer, left) == ("Success", ["gpu", "early", "late"])
