"""DynamicResources: what is reserved and written for a Pod that is bound, and what is taken back when it is not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fakes.manager import turns
from objects.builders import Built, Pod, pod_group
from objects.builders import pod as a_pod
from objects.devices import DRIVER, a_claim, allocation
from plugins.dynamicresources import (
    ALLOCATED,
    BOUND,
    CLAIM,
    CONFLICT,
    DELETING,
    DOWN,
    GROUP,
    MEMBER,
    N1,
    N2,
    STAMP,
    WEB,
    WITH_CONDITIONS,
    Api,
    World,
    conditions,
    info,
    node,
    on_node,
    reserved,
    said,
)
from plugins.listing import Listing

from tollbar import wellknown
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.errors import ApiError, NotFound, Unreachable
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.interface import PreFlight
from tollbar.scheduler.framework.status import SKIP
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import ClaimsToBind, PodClaims


async def test_devices_count_as_taken_from_reserve_on() -> None:
    world = World(CLAIM, N1)
    world.reserve(WEB)
    before = world.held()
    await world.unreserve(WEB)
    assert (before, world.held(), world.freed, world.api.made) == (["g0"], [], ["gpu: g0"], [])


def test_from_reserve_on_nothing_is_kept_of_the_search() -> None:
    world = World(CLAIM, N1, N2, nodes=[node("n1"), node("n2"), node("n3")])
    world.reserve(WEB)
    kept = world.state.get("DynamicResources", ClaimsToBind)
    assert (kept.allocations.keys(), world.state.read("DynamicResources", PodClaims)) == ({0}, None)


def test_a_device_that_was_taken_after_filter_fails_reserve() -> None:
    world = World(CLAIM, a_claim("other"), N1)
    world.filter(WEB)
    world.manager.stores[0].apply(a_claim("other", "g0", version=2))
    assert said(world.plugin.reserve(world.state, info(WEB), "n1")) == (
        "Error: ResourceClaim ml/gpu cannot be allocated, others hold what it needs: gpu.example.com/n1/g0 "
        "(held by ml/other)"
    )


async def test_a_claim_that_somebody_else_allocated_after_filter_fails_reserve() -> None:
    world = World(CLAIM, N1)
    world.filter(WEB)
    world.manager.stores[0].apply(CLAIM.but("metadata.resourceVersion", "2").but("status.allocation", allocation("g1")))
    found = said(world.plugin.reserve(world.state, info(WEB), "n1"))
    await world.unreserve(WEB)
    assert (found, world.held()) == ("Error: claim ml/gpu got allocated elsewhere in the meantime", ["g1"])


@pytest.mark.behaviour(51, 54)
async def test_pre_bind_writes_finalizer_allocation_and_reservation() -> None:
    world = World(CLAIM, N1)
    answer = await world.bind(WEB)
    written = world.claim()
    assert (answer, world.api.made, written["metadata"]["finalizers"], written["status"], world.held()) == (
        "Success",
        ["update gpu", "update/status gpu"],
        [wellknown.DELETE_PROTECTION_FINALIZER],
        {
            "allocation": {
                "allocationTimestamp": STAMP,
                "devices": {"results": [{"request": "r0", "driver": DRIVER, "pool": "n1", "device": "g0"}]},
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                    ]
                },
            },
            "reservedFor": [{"resource": "pods", "name": "web", "uid": "uid-of-web"}],
        },
        ["g0"],
    )


REFUSED = ApiError(400, "BadRequest", "no")
OTHERS = reserved(ALLOCATED, a_pod("other"))
BINDINGS: dict[str, tuple[list[Object], dict[str, Sequence[Exception | None]], str, list[str]]] = {
    "the claim is reserved already": ([reserved(ALLOCATED, WEB)], {}, "Success", []),
    "the claim is allocated": ([ALLOCATED], {}, "Success", ["update/status gpu"]),
    "others share it": ([OTHERS], {}, "Success", ["update/status gpu"]),
    "the finalizer is there already": (
        [CLAIM.but("metadata.finalizers", [wellknown.DELETE_PROTECTION_FINALIZER])],
        {},
        "Success",
        ["update/status gpu"],
    ),
    "conflicts are tried again on what is there then": (
        [ALLOCATED],
        {"update/status": [CONFLICT, CONFLICT]},
        "Success",
        ["update/status gpu", "get gpu"] * 2 + ["update/status gpu"],
    ),
    "after five conflicts it is given up": (
        [ALLOCATED],
        {"update/status": [CONFLICT] * 5},
        "Error: add reservation to claim ml/gpu: modified",
        [*["update/status gpu", "get gpu"] * 4, "update/status gpu"],
    ),
    "the finalizer is refused": (
        [CLAIM],
        {"update": [REFUSED]},
        "Error: add finalizer to claim ml/gpu: no",
        ["update gpu"],
    ),
    "the allocation is refused": (
        [CLAIM],
        {"update/status": [REFUSED]},
        "Error: add allocation and reservation to claim ml/gpu: no",
        ["update gpu", "update/status gpu"],
    ),
    "it cannot be read after a conflict": (
        [ALLOCATED],
        {"update/status": [CONFLICT], "get": [DOWN]},
        "Error: get updated claim ml/gpu after conflict: etcd is down",
        ["update/status gpu", "get gpu"],
    ),
}


@pytest.mark.behaviour(47, case="conflicts are tried again on what is there then")
@pytest.mark.parametrize("case", BINDINGS)
async def test_what_pre_bind_writes(case: str) -> None:
    objects, problems, expected, calls = BINDINGS[case]
    world = World(*objects, N1, problems=problems)
    assert (await world.bind(WEB), world.api.made) == (expected, calls)


WRITES: dict[str, tuple[list[Exception | None], list[str], list[str]]] = {
    "was refused": ([REFUSED], [], ["gpu: g0"]),
    "had no answer and did not come to pass": ([Unreachable("no answer", method="PUT", sent=True)], [], ["gpu: g0"]),
    "came to pass": ([], ["g0"], []),
}


@pytest.mark.parametrize("case", WRITES)
async def test_who_waits_for_devices_is_told_that_they_are_free_if_the_write_of_their_allocation(case: str) -> None:
    problems, held, freed = WRITES[case]
    world = World(CLAIM, N1, problems={"update/status": problems})
    await world.bind(WEB)
    before = list(world.freed)
    await world.unreserve(WEB)
    assert (before, world.held(), world.freed) == ([], held, freed)


class _Slow(Api):
    """Answers later than others ask."""

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        await asyncio.sleep(0)
        return await super().update(kind, obj, subresource=subresource)


async def test_pods_that_share_a_claim_are_written_into_it_one_after_the_other() -> None:
    world = World(ALLOCATED, N1, api=_Slow)
    sharing = [info(a_pod(f"web-{number}").claims("gpu")) for number in range(6)]
    states = []
    for pod in sharing:
        world.state = CycleState()
        assert world.reserve(pod.object) == "Success"
        states.append(world.state)
    bound = zip(states, sharing, strict=True)
    answers = await asyncio.gather(*(world.plugin.pre_bind(state, pod, "n1") for state, pod in bound))
    assert {said(each) for each in answers} == {"Success"}
    assert [each["uid"] for each in world.claim()["status"]["reservedFor"]] == [each.uid for each in sharing]
    assert world.api.made == ["update/status gpu"] * 6


async def test_where_the_api_server_does_not_answer_those_that_wait_for_their_turn_fail_together() -> None:
    hangs = Unreachable("no answer", method="PUT", sent=True)
    world = World(ALLOCATED, N1, api=_Slow, problems={"update/status": [hangs]})
    sharing = [info(a_pod(f"web-{number}").claims("gpu")) for number in range(3)]
    states = []
    for pod in sharing:
        world.state = CycleState()
        world.reserve(pod.object)
        states.append(world.state)
    bound = zip(states, sharing, strict=True)
    answers = await asyncio.gather(*(world.plugin.pre_bind(state, pod, "n1") for state, pod in bound))
    assert [said(each) for each in answers] == ["Error: add reservation to claim ml/gpu: no answer"] * 3
    assert world.api.made == ["update/status gpu"]
    assert said(await world.plugin.pre_bind(states[0], sharing[0], "n1")) == "Success"


CHANGES: dict[str, tuple[Built, Built | None, str]] = {
    "somebody else has allocated it": (
        CLAIM,
        CLAIM.but("status.allocation", allocation("g1")),
        "Error: claim ml/gpu got allocated elsewhere in the meantime",
    ),
    "it is being deleted": (CLAIM, DELETING, "Error: claim ml/gpu got deleted in the meantime"),
    "somebody else has deallocated it": (
        ALLOCATED,
        CLAIM,
        "Error: claim ml/gpu got deallocated elsewhere in the meantime",
    ),
    "somebody else has deallocated it, and then allocated other devices": (
        ALLOCATED,
        on_node(a_claim("gpu", "g2"), "n2"),
        "Error: claim ml/gpu got other devices in the meantime",
    ),
    "another one has its name": (
        CLAIM,
        CLAIM.but("metadata.uid", "new"),
        "Error: claim ml/gpu got deleted in the meantime",
    ),
    "another Pod has reserved it": (ALLOCATED, OTHERS, "Success"),
}


@pytest.mark.behaviour(54)
@pytest.mark.parametrize("case", CHANGES)
async def test_what_others_have_written_meanwhile(case: str) -> None:
    before, after, expected = CHANGES[case]
    world = World(before, N1)
    world.reserve(WEB)
    world.api.objects[Key("ml", "gpu")] = (after or CLAIM).but("metadata.resourceVersion", "50")
    assert await world.pre_bind(WEB) == expected


async def test_unreserve_takes_the_reservation_back_and_leaves_the_allocation() -> None:
    world = World(OTHERS, N1)
    await world.bind(WEB)
    await world.unreserve(WEB)
    assert (world.claim()["status"]["reservedFor"], world.held()) == (OTHERS["status"]["reservedFor"], ["g0"])


OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-of-gang"}
OF_POD = {"resource": "pods", "name": "web", "uid": "uid-of-web"}
OF_OTHER_NAME = pod_group("gang").but("spec.resourceClaims", [{"name": "other", "resourceClaimName": "gpu"}])
RESERVATIONS: dict[str, tuple[Built, Pod, list[Object], list[Object]]] = {
    "a PodGroup that shares the claim gets the entry": (CLAIM, MEMBER, [GROUP], [OF_GROUP]),
    "also of a claim that is allocated": (ALLOCATED, MEMBER, [GROUP], [OF_GROUP]),
    "the entry of the PodGroup is the Pod's": (
        ALLOCATED.but("status.reservedFor", [OF_GROUP]),
        MEMBER,
        [GROUP],
        [OF_GROUP],
    ),
    "a Pod of no group is beside it": (
        ALLOCATED.but("status.reservedFor", [OF_GROUP]),
        WEB,
        [GROUP],
        [OF_GROUP, OF_POD],
    ),
    "a PodGroup without the claim leaves the entry to the Pod": (ALLOCATED, MEMBER, [pod_group("gang")], [OF_POD]),
    "one that names the claim otherwise, too": (ALLOCATED, MEMBER, [OF_OTHER_NAME], [OF_POD]),
}


@pytest.mark.parametrize("case", RESERVATIONS)
async def test_a_claim_is_reserved_for_the_pod_group_that_shares_it(case: str) -> None:
    given, pod, groups, expected = RESERVATIONS[case]
    world = World(given, N1)
    world.handle.listers.pod_groups = Listing(groups)
    assert (await world.bind(pod), world.claim()["status"]["reservedFor"]) == ("Success", expected)


async def test_a_pod_is_not_bound_where_its_pod_group_does_not_have_the_devices_any_more() -> None:
    world = World(ALLOCATED.but("status.reservedFor", [OF_GROUP]), N1)
    world.handle.listers.pod_groups = Listing([GROUP])
    world.reserve(MEMBER)
    elsewhere = on_node(a_claim("gpu", "g2"), "n2").but("status.reservedFor", [OF_GROUP])
    world.api.objects[Key("ml", "gpu")] = elsewhere.but("metadata.resourceVersion", "101")
    world.watch()
    assert await world.pre_bind(MEMBER) == "Error: claim ml/gpu got other devices in the meantime"


async def test_unreserve_leaves_the_entry_of_the_pod_group() -> None:
    world = World(ALLOCATED, N1)
    world.handle.listers.pod_groups = Listing([GROUP])
    await world.bind(MEMBER)
    await world.unreserve(MEMBER)
    assert world.claim()["status"]["reservedFor"] == [OF_GROUP]


@pytest.mark.parametrize(
    ("there", "kept"),
    [((BOUND, None), True), ((BOUND.but("metadata.uid", "another"), None), False), ((WEB, DOWN), True)],
    ids=["it was bound after all", "another one of its name was bound", "nobody knows"],
)
async def test_a_pod_that_has_a_node_keeps_its_reservation(there: tuple[Pod, Exception | None], kept: bool) -> None:
    pod, problem = there
    world = World(CLAIM, N1, problems={"get": [problem]})
    world.api.objects[key_of(WEB)] = pod
    await world.bind(WEB)
    await world.unreserve(WEB)
    assert bool(world.claim()["status"]["reservedFor"]) is kept


async def test_a_reservation_is_taken_back_also_where_reserve_of_another_plugin_failed_first() -> None:
    world = World(reserved(ALLOCATED, WEB), N1)
    world.filter(WEB)
    await world.unreserve(WEB)
    assert (world.claim()["status"]["reservedFor"], world.api.made) == ([], ["get web", "update/status gpu"])


@pytest.mark.parametrize(
    ("claim", "expected", "reservations"),
    [
        (ALLOCATED, "Success", 1),
        (CLAIM.but("status", {}), "Error: claim ml/gpu got deallocated elsewhere in the meantime", 0),
    ],
)
async def test_a_pod_is_not_bound_without_its_claims_where_reserve_is_not_enabled(
    claim: Built, expected: str, reservations: int
) -> None:
    world = World(claim, N1)
    world.filter(WEB)
    assert world.plugin.pre_bind_pre_flight(world.state, info(WEB), "n1") == PreFlight(allow_parallel=True)
    answer = await world.pre_bind(WEB)
    assert (answer, len(world.claim()["status"].get("reservedFor", ()))) == (expected, reservations)


def try_again(world: World) -> None:
    """The attempt fails after Reserve, and the next one comes as far."""
    world.plugin.unreserve(world.state, info(WEB), "n1")
    world.state = CycleState()
    world.reserve(WEB)


async def test_pre_bind_waits_until_an_earlier_reservation_is_taken_back() -> None:
    world = World(ALLOCATED, N1)
    await world.bind(WEB)
    try_again(world)
    binding = asyncio.create_task(world.pre_bind(WEB))
    await asyncio.sleep(0)
    await world.carry_out()
    assert (await binding, len(world.claim()["status"]["reservedFor"])) == ("Success", 1)


async def test_pre_bind_waits_for_all_that_earlier_attempts_take_back() -> None:
    world = World(ALLOCATED, N1)
    await world.bind(WEB)
    try_again(world)
    try_again(world)
    binding = asyncio.create_task(world.pre_bind(WEB))
    await asyncio.sleep(0)
    await world.coroutines.pop()
    await turns()
    assert not binding.done()
    await world.carry_out()
    assert (await binding, len(world.claim()["status"]["reservedFor"])) == ("Success", 1)


async def test_a_claim_that_is_gone_needs_no_release() -> None:
    world = World(CLAIM, N1)
    await world.bind(WEB)
    world.api.problems = {"update/status": [NotFound(404, "NotFound", "no claim")]}
    await world.unreserve(WEB)
    assert world.api.made[-1] == "update/status gpu"


async def test_binding_waits_for_binding_conditions() -> None:
    made = WITH_CONDITIONS.but("status.allocation.allocationTimestamp", STAMP)
    world = World(made, N1)

    def report() -> None:
        if len(world.slept) == 2:
            there = world.claim()
            status = {**there["status"], "devices": conditions("ready")["status"]["devices"]}
            changed = {**there, "metadata": {**there["metadata"], "resourceVersion": "999"}, "status": status}
            world.api.objects[Key("ml", "gpu")] = changed
            world.watch()

    world.while_sleeping = report
    answer = await world.bind(WEB)
    note = "waiting for binding conditions for device on node n1"
    assert (answer, world.slept, world.events, world.measured) == (
        "Success",
        [5.0, 5.0],
        [("web", "Normal", "BindingConditionsPending", "Scheduling", note)],
        [("success", 10.0, ["g0"])],
    )


NEVER: dict[str, tuple[Built, dict[str, object], str, tuple[str, float]]] = {
    "a failure condition is true": (
        conditions("broken"),
        {},
        'Error: device binding failed: claim=gpu, reason=Why, message="so"',
        ("failure", 0.0),
    ),
    "the devices take too long": (
        conditions(at="2025-12-31T23:59:59Z"),
        {"bindingTimeout": 12.0},
        "Error: device binding timeout: claim=gpu",
        ("timeout", 12.0),
    ),
    "the allocation is younger than the attempt": (
        conditions(at="2026-01-01T00:00:10Z"),
        {"bindingTimeout": 12.0},
        "Error: device binding timeout: context deadline exceeded",
        ("timeout", 12.0),
    ),
}


@pytest.mark.parametrize("case", NEVER)
async def test_binding_conditions_that_do_not_become_true(case: str) -> None:
    made, args, expected, measured = NEVER[case]
    world = World(made, N1, args=args)
    world.reserve(WEB)
    assert (await world.pre_bind(WEB), world.measured) == (expected, [(*measured, ["g0"])])


async def test_a_claim_that_goes_while_its_devices_are_waited_for() -> None:
    world = World(conditions(), N1)

    def vanish() -> None:
        world.api.objects.clear()
        world.watch()

    world.while_sleeping = vanish
    world.reserve(WEB)
    answer = await world.pre_bind(WEB)
    assert (answer, world.measured) == ('Error: could not find ResourceClaim "ml/gpu"', [("error", 5.0, ["g0"])])


FLIGHTS: dict[str, tuple[Pod, Any]] = {
    "a Pod with claims": (WEB, PreFlight(allow_parallel=True)),
    "a Pod without": (a_pod(), SKIP),
}


@pytest.mark.parametrize("case", FLIGHTS)
def test_pre_bind_has_work_to_do_for_pods_with_claims(case: str) -> None:
    pod, expected = FLIGHTS[case]
    world = World(CLAIM, N1)
    world.reserve(pod)
    assert world.plugin.pre_bind_pre_flight(world.state, info(pod), "n1") == expected
