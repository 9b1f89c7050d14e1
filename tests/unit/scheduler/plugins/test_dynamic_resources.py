"""DynamicResources: which claims hold a Pod back, what its claims get on a Node, and what is written for it."""

import asyncio
import gc
import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from builders import Built, Pod, claim, device_class, pod_group
from builders import pod as a_pod
from devices import DRIVER, a_claim, allocation, published, share, shared, whole
from deviceworld import Api, World, info, node, said
from oneplugin import Listing
from toyplugins import MaskToy, ScoreToy, done, framework

from tollbar import wellknown
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.resources import POD_GROUPS
from tollbar.runtime.errors import ApiError, Conflict, NotFound, Unreachable
from tollbar.runtime.store import Store
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import QueueingHint
from tollbar.scheduler.framework.interface import PreFlight
from tollbar.scheduler.framework.status import SKIP
from tollbar.scheduler.plugins import extended_resources, ownership
from tollbar.scheduler.plugins.known_nodes import KnownNodes

STAMP = "2026-01-01T00:00:00Z"
N1, N2 = published("s1", "g0", "g1", node="n1"), published("s2", "g2", node="n2")
CANNOT = "cannot allocate all claims"
UU = "UnschedulableAndUnresolvable"
WEB = a_pod().claims("gpu")
CLAIM = a_claim("gpu").but("spec.devices.requests", [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}])


def wanting(name: str, count: int = 1, **more: Any) -> Built:
    """A claim for so many devices."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    return a_claim(name).but("spec.devices.requests", [{"name": "r0", "exactly": exactly}])


def on_node(made: Built, name: str) -> Built:
    """The allocated claim, for this Node alone."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return made.but("status.allocation.nodeSelector", {"nodeSelectorTerms": [{"matchFields": fields}]})


def reserved(made: Built, *pods: Object) -> Built:
    entries = [{"resource": "pods", "name": key_of(each).name, "uid": uid_of(each)} for each in pods]
    return made.but("status.reservedFor", entries)


DELETING = CLAIM.but("metadata.deletionTimestamp", STAMP)
TEMPLATED = a_pod().templates("gpu")
NOT_READY: dict[str, tuple[list[Object], Pod, str]] = {
    "a Pod without claims": ([], a_pod(), "Success"),
    "the claim exists": ([CLAIM], WEB, "Success"),
    "the claim does not exist": ([], WEB, f'{UU}: could not find ResourceClaim "ml/gpu"'),
    "the claim is being deleted": ([DELETING], WEB, f'{UU}: resourceclaim "gpu" is being deleted'),
    "the claim of a template is not created yet": (
        [],
        TEMPLATED,
        f'{UU}: pod "ml/web": ResourceClaim not created yet',
    ),
    "the claim of a template exists": (
        [Built(CLAIM).owned_by("Pod", "web")],
        TEMPLATED.generated("gpu", "gpu"),
        "Success",
    ),
    "the claim of a template belongs to somebody else": (
        [CLAIM],
        TEMPLATED.generated("gpu", "gpu"),
        f"{UU}: ResourceClaim ml/gpu was not created for Pod ml/web (Pod is not owner)",
    ),
    "the template turned out to need no claim": ([], TEMPLATED.generated("gpu", None), "Success"),
    "a reference in the wrapper `source`, which Kubernetes 1.31 removed": (
        [CLAIM],
        a_pod().but("spec.resourceClaims", [{"name": "gpu", "source": {"resourceClaimName": "gpu"}}]),
        f'{UU}: pod "ml/web", spec.resourceClaim "gpu": none of the supported fields are set',
    ),
    "a reference of a form that is not known": (
        [],
        a_pod().but("spec.resourceClaims", [{"name": "gpu"}]),
        f'{UU}: pod "ml/web", spec.resourceClaim "gpu": none of the supported fields are set',
    ),
}


@pytest.mark.behaviour(46, case="a reference in the wrapper")
@pytest.mark.behaviour(56, case="the claim of a template is not created yet")
@pytest.mark.behaviour(57, case="the template turned out to need no claim")
@pytest.mark.parametrize("case", NOT_READY)
def test_a_pod_is_gated_until_its_claims_exist(case: str) -> None:
    objects, pod, expected = NOT_READY[case]
    world = World(*objects)
    answers = {said(world.plugin.pre_enqueue(info(pod))), world.pre_filter(pod).replace("Skip", "Success")}
    assert answers == {expected}


def request(**body: Any) -> Built:
    return CLAIM.but("spec.devices.requests", [{"name": "r0", **body}])


ALTERNATIVES = {"firstAvailable": [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "tpu"}]}
PRE_FILTER: dict[str, tuple[list[Object], str]] = {
    "a class that exists": ([CLAIM], "Success"),
    "a class that does not": (
        [request(exactly={"deviceClassName": "tpu"})],
        f"{UU}: request r0: device class tpu does not exist",
    ),
    "a class of an alternative that does not": (
        [request(**ALTERNATIVES)],
        f"{UU}: request r0/b: device class tpu does not exist",
    ),
    "no class": ([request(exactly={})], "Error: request r0: unsupported request type"),
    "a request of a form that is not known": (
        [request()],
        f"{UU}: resource claim ml/gpu, request r0: unknown request type",
    ),
    "a claim that is allocated needs no class": (
        [request(exactly={"deviceClassName": "tpu"}).but("status.allocation", allocation("g0"))],
        "Success",
    ),
}


@pytest.mark.behaviour(43, case="no class")
@pytest.mark.behaviour(55, case="a class that does not")
@pytest.mark.parametrize("case", PRE_FILTER)
def test_what_pre_filter_says(case: str) -> None:
    objects, expected = PRE_FILTER[case]
    assert World(*objects).pre_filter(WEB) == expected


def test_a_claim_that_another_pod_is_getting_has_to_be_waited_for() -> None:
    world = World(CLAIM, N1)
    world.reserve(WEB)
    assert world.pre_filter(a_pod("other").claims("gpu")) == (
        f"{UU}: resource claim ml/gpu is in the process of being allocated"
    )


WITH_CONDITIONS = a_claim("gpu", whole("g0", bindingConditions=["ready"], bindingFailureConditions=["broken"]))


def conditions(*names: str, claim: Built = WITH_CONDITIONS, at: str = STAMP) -> Built:
    """The claim with these conditions true of its device."""
    found = [{"type": name, "status": "True", "reason": "Why", "message": "so"} for name in names]
    device = {"driver": DRIVER, "pool": "n1", "device": "g0", "conditions": found}
    return claim.but("status.devices", [device]).but("status.allocation.allocationTimestamp", at)


UNAVAILABLE = f"{UU}: resourceclaim not available on the node"
BAD = wanting("gpu", selectors=[{"cel": {"expression": "device.attributes['x'].y"}}])
FILTERS: dict[str, tuple[list[Object], Any]] = {
    "a Node has a device": ([CLAIM, N1], {"n1": "Success", "n2": f"{UU}: {CANNOT}"}),
    "each has one": ([CLAIM, N1, N2], {"n1": "Success", "n2": "Success"}),
    "a claim that is named twice counts once": (
        [CLAIM, published("s1", "g0", node="n1")],
        {"n1": "Success", "n2": f"{UU}: {CANNOT}"},
    ),
    "two are wanted": ([wanting("gpu", 2), N1, N2], {"n1": "Success", "n2": f"{UU}: {CANNOT}"}),
    "another claim has one of two": (
        [wanting("gpu", 2), a_claim("other", "g0"), N1],
        {"n1": f"{UU}: {CANNOT}", "n2": f"{UU}: {CANNOT}"},
    ),
    "the allocated claim can be used everywhere": ([a_claim("gpu", "g0")], {"n1": "Success", "n2": "Success"}),
    "the allocated claim can be used on one Node": (
        [on_node(a_claim("gpu", "g0"), "n2")],
        {"n1": UNAVAILABLE, "n2": "Success"},
    ),
    "a selector fails": (
        [BAD, N1],
        {
            "n1": "Error: claim ml/gpu: selector #0 on device gpu.example.com/n1/g0: CEL runtime error: no such key: y",
            "n2": f"{UU}: {CANNOT}",
        },
    ),
    "a pool is invalid": (
        [CLAIM, published("s1", "g0", "g0", node="n1")],
        {"n1": f"{UU}: invalid resource pools were encountered", "n2": f"{UU}: {CANNOT}"},
    ),
    "binding conditions are true": ([conditions("ready")], {"n1": "Success", "n2": "Success"}),
    "binding conditions are not true yet": ([conditions()], {"n1": "Success", "n2": "Success"}),
    "binding has failed": ([conditions("ready", "broken")], {"n1": UNAVAILABLE, "n2": UNAVAILABLE}),
    "binding takes too long": (
        [conditions(at="2025-12-31T23:49:59Z")],
        {"n1": UNAVAILABLE, "n2": UNAVAILABLE},
    ),
    "binding took long but is done": (
        [conditions("ready", at="2025-12-31T23:00:00Z")],
        {"n1": "Success", "n2": "Success"},
    ),
    "the Pod has no claims": ([], "Skip"),
}


@pytest.mark.parametrize("case", FILTERS)
def test_what_filter_says(case: str) -> None:
    objects, expected = FILTERS[case]
    pod = WEB.claims("gpu") if "twice" in case else WEB
    found = World(*objects).filter(pod if objects else a_pod())
    if isinstance(found, dict):
        found = {name: each.split(". consider")[0] for name, each in found.items()}
    assert found == expected


def test_filter_works_in_pieces_and_starts_over_when_devices_are_taken_meanwhile() -> None:
    selectors = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
    world = World(wanting("gpu", 2, selectors=selectors), N1, nodes=[node("n1")])
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.003
    world.pre_filter(WEB)
    steps: Any = world.plugin.filter(world.state, info(WEB), world.handle.snapshot.nodes[0])
    next(steps)
    world.manager.stores[0].apply(a_claim("other", "g0"))
    assert said(done(steps)) == f"{UU}: {CANNOT}"


def test_filter_ends_when_its_time_is_over() -> None:
    world = World(CLAIM, N1, nodes=[node("n1")], args={"filterTimeout": 1.0})
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.6
    assert world.filter(WEB) == {"n1": "Error: node n1: timed out trying to allocate devices"}


def test_the_time_of_filter_is_for_all_nodes_together() -> None:
    names = [f"n{number}" for number in range(1, 10)]
    slices = [published(f"s-{name}", "g0", node=name) for name in names]
    world = World(CLAIM, *slices, nodes=[node(name) for name in names], args={"filterTimeout": 1.0})
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.06
    found = world.filter(WEB)
    assert found["n1"] == "Success"
    assert found["n9"] == "Unschedulable: node n9: timed out trying to allocate devices"


@pytest.mark.parametrize("device", ["g0", shared("g0")], ids=["whole", "shared"])
def test_when_the_time_of_filter_is_over_the_nodes_that_fit_are_enough(device: str | Object) -> None:
    names = [f"n{number}" for number in range(20)]
    slices = [published(f"s-{name}", device, node=name) for name in names]
    world = World(CLAIM, *slices, nodes=[node(name) for name in names], args={"filterTimeout": 1.0})
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.06
    profile = framework(world.plugin, ScoreToy("score"), MaskToy("mask"), handle=world.handle)
    outcome = done(schedule_pod(profile, CycleState(), info(WEB), world.handle.snapshot, 0))
    assert isinstance(outcome.result, Scheduled)
    assert 0 < outcome.result.feasible_nodes < len(names)


OURS = f"{UU}: cannot allocate all claims with devices that are exclusive to this scheduler"
LABELLED = [node("n1", labels={"pool": "ours"}), node("n2")]
EVERYWHERE = {**Built(published("s3", "g3", pool="net", allNodes=True)).but("spec.nodeName", None)}
OWNED: dict[str, tuple[list[Object], Any, Any]] = {
    "everything": ([CLAIM, N1, N2], "all", {"n1": "Success", "n2": "Success"}),
    "nothing": (
        [CLAIM, N1],
        None,
        f"{UU}: {ownership.NOTHING}",
    ),
    "nothing is needed for a claim that is allocated": (
        [a_claim("gpu", "g0")],
        None,
        {"n1": "Success", "n2": "Success"},
    ),
    "the driver": ([CLAIM, N1], {"drivers": [DRIVER]}, {"n1": "Success", "n2": OURS}),
    "another driver": ([CLAIM, N1], {"drivers": ["nic.example.com"]}, {"n1": OURS, "n2": OURS}),
    "one of the Nodes": (
        [CLAIM, N1, N2],
        {"nodeSelector": {"pool": "ours"}},
        {"n1": "Success", "n2": f"{UU}: {ownership.OTHER_NODE}"},
    ),
    "a Node, but not what other Nodes can use as well": (
        [CLAIM, EVERYWHERE],
        {"nodeSelector": {"pool": "ours"}},
        {"n1": OURS, "n2": f"{UU}: {ownership.OTHER_NODE}"},
    ),
}


@pytest.mark.parametrize("case", OWNED)
def test_devices_are_allocated_that_are_exclusive_to_the_scheduler(case: str) -> None:
    objects, exclusive, expected = OWNED[case]
    assert World(*objects, nodes=LABELLED, args={"exclusive": exclusive}).filter(WEB) == expected


@pytest.mark.parametrize("exclusive", ["some", {}, {"drivers": [1]}, {"nodeSelector": {}}, {"drivers": [], "x": 1}])
def test_an_ownership_that_is_none_is_an_error(exclusive: object) -> None:
    with pytest.raises(ValueError, match="exclusive: must be all"):
        World(args={"exclusive": exclusive})


def alternatives(name: str, *counts: int) -> Built:
    asked = [{"name": f"o{place}", "deviceClassName": "gpu", "count": count} for place, count in enumerate(counts)]
    return a_claim(name).but("spec.devices.requests", [{"name": "r0", "firstAvailable": asked}])


def chosen(made: Built, request: str) -> Built:
    return made.but("status.allocation", allocation(whole("g0", request=request)))


SCORES: dict[str, tuple[list[Object], Any]] = {
    "no claim has alternatives": ([CLAIM, N1, N2], "Skip"),
    "the Pod has no claims": ([], "Skip"),
    "the better alternative fits on one Node alone": ([alternatives("gpu", 2, 1), N1, N2], ([8, 7], [100, 87])),
    "alternatives of a claim that is allocated count everywhere": (
        [chosen(alternatives("gpu", 2, 1), "r0/o1")],
        ([0, 0], [0, 0]),
    ),
}


@pytest.mark.parametrize("case", SCORES)
def test_earlier_alternatives_score_more(case: str) -> None:
    objects, expected = SCORES[case]
    assert World(*objects).scores(WEB if objects else a_pod()) == expected


async def test_devices_count_as_taken_from_reserve_on() -> None:
    world = World(CLAIM, N1)
    world.reserve(WEB)
    before = world.held()
    await world.unreserve(WEB)
    assert (before, world.held(), world.api.made) == (["g0"], [], [])


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


CONFLICT = Conflict(409, "Conflict", "modified")
DOWN = ApiError(500, "InternalError", "etcd is down")
REFUSED = ApiError(400, "BadRequest", "no")
ALLOCATED = on_node(a_claim("gpu", "g0"), "n1")
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


GROUP = pod_group("gang").claims("gpu")
MEMBER = WEB.in_group("gang")
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


async def test_unreserve_leaves_the_entry_of_the_pod_group() -> None:
    world = World(ALLOCATED, N1)
    world.handle.listers.pod_groups = Listing([GROUP])
    await world.bind(MEMBER)
    await world.unreserve(MEMBER)
    assert world.claim()["status"]["reservedFor"] == [OF_GROUP]


def test_a_pod_waits_for_its_pod_group_which_may_share_its_claims() -> None:
    world = World(CLAIM, N1)
    world.handle.listers.pod_groups = Listing([])
    waits = f'{UU}: waiting for pod group "gang"'
    assert {said(world.plugin.pre_enqueue(info(MEMBER))), world.pre_filter(MEMBER)} == {waits}
    assert said(world.plugin.pre_enqueue(info(a_pod().in_group("gang")))) == "Success"
    assert said(world.plugin.pre_enqueue(info(WEB))) == "Success"
    hints = [world.plugin._after_pod_group(info(MEMBER), None, each).value for each in (GROUP, pod_group("other"))]
    assert hints == ["Queue", "QueueSkip"]
    world.handle.listers.pod_groups = Listing([GROUP])
    assert said(world.plugin.pre_enqueue(info(MEMBER))) == "Success"


def test_nobody_waits_for_pod_groups_that_are_not_served_in_a_version_that_is_read() -> None:
    world, groups = World(CLAIM, N1), Store(POD_GROUPS)
    groups.served = False
    world.handle.listers.pod_groups = groups
    assert said(world.plugin.pre_enqueue(info(MEMBER))) == "Success"
    groups.served = True
    assert said(world.plugin.pre_enqueue(info(MEMBER))) == f'{UU}: waiting for pod group "gang"'


def test_a_claim_that_was_made_for_the_pod_group_is_the_pods() -> None:
    made = Built(CLAIM).owned_by("PodGroup", "gang")
    (owner,) = made["metadata"]["ownerReferences"]
    made = made.but("metadata.ownerReferences", [{**owner, "apiVersion": "scheduling.k8s.io/v1"}])
    pods = [TEMPLATED.generated("gpu", "gpu").in_group(name) for name in ("gang", "other")]
    told = [said(World(made).plugin.pre_enqueue(info(pod))) for pod in pods]
    assert told == ["Success", f"{UU}: ResourceClaim ml/gpu was not created for Pod ml/web (Pod is not owner)"]


BOUND = WEB.but("spec.nodeName", "n1")


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


async def test_a_claim_is_not_given_up_under_a_pod_that_has_a_node() -> None:
    world = World(ELSEWHERE)
    world.api.objects[key_of(WEB)] = BOUND
    world.filter(WEB)
    world.post_filter(WEB)
    await world.carry_out()
    assert world.api.made == ["get web"]


async def test_a_reservation_whose_answer_was_lost_is_not_made_again() -> None:
    world = World(ALLOCATED, N1)
    world.api.objects[Key("ml", "gpu")] = reserved(ALLOCATED, WEB).but("metadata.resourceVersion", "50")
    assert (await world.bind(WEB), len(world.claim()["status"]["reservedFor"])) == ("Success", 1)


async def test_pre_bind_waits_until_an_earlier_reservation_is_taken_back() -> None:
    world = World(ALLOCATED, N1)
    await world.bind(WEB)
    world.plugin.unreserve(world.state, info(WEB), "n1")
    world.state = CycleState()
    world.reserve(WEB)
    binding = asyncio.create_task(world.pre_bind(WEB))
    await asyncio.sleep(0)
    await world.carry_out()
    assert (await binding, len(world.claim()["status"]["reservedFor"])) == ("Success", 1)


async def test_a_reservation_that_was_taken_back_without_an_answer_is_made_again() -> None:
    world = World(ALLOCATED, N1)
    await world.bind(WEB)
    world.api.on_write = lose = Lost()
    world.plugin.unreserve(world.state, info(WEB), "n1")
    await world.carry_out()
    world.api.on_write = lambda: None
    world.state = CycleState()
    assert (await world.bind(WEB), len(world.claim()["status"]["reservedFor"]), lose.times) == ("Success", 1, 1)


LOST = Unreachable("no answer")


class Lost:
    """The first answer is lost."""

    times = 0

    def __call__(self) -> None:
        self.times += 1
        if self.times == 1:
            raise LOST


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


async def test_only_as_many_shares_are_taken_back_as_have_to_be() -> None:
    device = {"name": "m", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}}
    names = ("early", "late", "latest")
    others = {
        name: a_claim(name, share("m", memory="4"), version=7).but("status.allocation.allocationTimestamp", stamp)
        for name, stamp in zip(names, (OLDER, NEWER, "2026-01-03T00:00:00Z"), strict=True)
    }
    asked = wanting("gpu", capacity={"requests": {"memory": "2"}})
    world = World(asked, *(each.but("status", None) for each in others.values()), published("s1", device, node="n1"))
    world.reserve(WEB)
    world.api.objects |= {Key("ml", name): dict(each) for name, each in others.items()}
    world.watch()
    answer = await world.pre_bind(WEB)
    left = [name for name in ("gpu", *names) if "allocation" in (world.claim(name).get("status") or {})]
    assert (answer, left) == ("Success", ["gpu", "early", "late"])


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
    world.pre_filter(WEB)
    assert (await world.pre_bind(WEB), world.measured) == (expected, [(*measured, ["g0"])])


async def test_a_claim_that_goes_while_its_devices_are_waited_for() -> None:
    world = World(conditions(), N1)

    def vanish() -> None:
        world.api.objects.clear()
        world.watch()

    world.while_sleeping = vanish
    world.pre_filter(WEB)
    answer = await world.pre_bind(WEB)
    assert (answer, world.measured) == ('Error: could not find ResourceClaim "ml/gpu"', [("error", 5.0, ["g0"])])


FLIGHTS: dict[str, tuple[Pod, Any]] = {
    "a Pod with claims": (WEB, PreFlight(allow_parallel=True)),
    "a Pod without": (a_pod(), SKIP),
}


@pytest.mark.parametrize("case", FLIGHTS)
def test_pre_bind_has_work_to_do_for_pods_with_claims(case: str) -> None:
    pod, expected = FLIGHTS[case]
    world = World(CLAIM)
    world.pre_filter(pod)
    assert world.plugin.pre_bind_pre_flight(world.state, info(pod), "n1") == expected


ELSEWHERE = on_node(a_claim("gpu", "g9"), "n9")
POST_FILTER: dict[str, tuple[list[Object], dict[str, Sequence[Exception | None]], str, list[str], list[str]]] = {
    "a claim that nobody uses is given up": (
        [ELSEWHERE],
        {},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web", "update/status gpu"],
        [],
    ),
    "a claim that the Pod alone uses is given up": (
        [reserved(ELSEWHERE, WEB)],
        {},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web", "update/status gpu"],
        [],
    ),
    "a claim that another Pod uses stays": ([reserved(ELSEWHERE, WEB, a_pod("other"))], {}, "Unschedulable", [], []),
    "a claim that fits is not touched": ([CLAIM, N1], {}, "Unschedulable", [], []),
    "the Pod is tried again if nobody knows whether it has a Node": (
        [ELSEWHERE],
        {"get": [DOWN]},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web"],
        ["web"],
    ),
    "the Pod is tried again if the claim cannot be given up": (
        [ELSEWHERE],
        {"update/status": [DOWN]},
        "Unschedulable: deallocation of ResourceClaim completed",
        ["get web", "update/status gpu"],
        ["web"],
    ),
}


@pytest.mark.parametrize("case", POST_FILTER)
async def test_what_post_filter_gives_up(case: str) -> None:
    objects, problems, expected, calls, activated = POST_FILTER[case]
    world = World(*objects, problems=problems)
    world.filter(WEB)
    answer = world.post_filter(WEB)
    await world.carry_out()
    assert (answer, world.api.made, world.activated) == (expected, calls, activated)
    assert world.slept == [10.0] * len(activated), "what failed is not tried again without a pause"


async def test_a_claim_that_another_pod_has_reserved_meanwhile_is_not_given_up() -> None:
    world = World(ELSEWHERE)
    world.filter(WEB)
    world.api.objects[Key("ml", "gpu")] = reserved(ELSEWHERE, a_pod("other")).but("metadata.resourceVersion", "50")
    world.post_filter(WEB)
    await world.carry_out()
    assert (world.api.made, "allocation" in world.claim()["status"]) == (
        ["get web", "update/status gpu", "get gpu"],
        True,
    )


async def test_a_claim_that_is_gone_needs_no_release() -> None:
    world = World(CLAIM, N1)
    await world.bind(WEB)
    world.api.problems = {"update/status": [NotFound(404, "NotFound", "no claim")]}
    await world.unreserve(WEB)
    assert world.api.made[-1] == "update/status gpu"


def test_post_filter_without_pre_filter_is_an_error() -> None:
    assert World().post_filter(WEB) == "Error: not found"


async def test_a_claim_that_was_given_up_is_without_allocation_reservations_and_device_status() -> None:
    world = World(on_node(conditions("broken"), "n1").but("status.other", "kept"))
    world.filter(WEB)
    world.post_filter(WEB)
    await world.carry_out()
    assert world.claim()["status"] == {"other": "kept"}


MINE = claim("mine").but("metadata.resourceVersion", "1")
QUEUE, SKIPS = QueueingHint.QUEUE, QueueingHint.SKIP
HINTS: dict[str, tuple[Pod, Object | None, Object | None, QueueingHint]] = {
    "its claim is created": (WEB, None, CLAIM, QUEUE),
    "its claim has another status": (WEB, CLAIM, ALLOCATED, QUEUE),
    "its claim has the same status": (WEB, CLAIM, CLAIM.labelled(a="b"), SKIPS),
    "another claim is allocated": (WEB, a_claim("other"), a_claim("other", "g0"), SKIPS),
    "another claim gives up its devices": (WEB, a_claim("other", "g0"), a_claim("other"), QUEUE),
    "another claim goes with its devices": (WEB, a_claim("other", "g0"), None, QUEUE),
    "another claim goes that had none": (WEB, a_claim("other"), None, SKIPS),
    "another claim gives up its devices, but a claim of the Pod does not exist": (
        a_pod().claims("gpu", "missing"),
        a_claim("other", "g0"),
        a_claim("other"),
        SKIPS,
    ),
}


@pytest.mark.parametrize("case", HINTS)
def test_which_changes_of_claims_wake_a_pod(case: str) -> None:
    pod, old, new, expected = HINTS[case]
    (registered,) = [each for each in World(CLAIM).plugin.events_to_register() if each.pre_hint is not None]
    assert registered.hint is not None
    assert registered.hint(info(pod), old, new) == expected


class Users:
    """A lister of Pods, with the index of the claims that they use."""

    def get(self, key: Key) -> Object | None:
        return None

    def values(self) -> list[Object]:
        return []

    def by_index(self, name: str, value: object) -> list[Object]:
        return [WEB] if (name, value) == ("claim", Key("ml", "gpu")) else []


CONCERNED: dict[str, tuple[Object | None, Object | None, list[Key] | None]] = {
    "a new claim concerns its users": (None, CLAIM, [Key("ml", "web")]),
    "a claim that nobody uses concerns nobody": (None, a_claim("other"), []),
    "devices that become free concern everybody": (a_claim("gpu", "g0"), CLAIM, None),
    "devices of a claim that goes concern everybody": (a_claim("gpu", "g0"), None, None),
    "a claim that goes without devices concerns its users": (CLAIM, None, [Key("ml", "web")]),
}


@pytest.mark.parametrize("case", CONCERNED)
def test_which_pods_a_change_of_a_claim_can_concern(case: str) -> None:
    old, new, expected = CONCERNED[case]
    world = World()
    world.handle.listers.pods = Users()
    (registered,) = [each for each in world.plugin.events_to_register() if each.pre_hint is not None]
    assert registered.pre_hint is not None
    found = registered.pre_hint(old, new)
    assert (found if found is None else list(found)) == expected


@pytest.mark.parametrize(("objects", "expected"), [([CLAIM], QUEUE), ([], SKIPS)])
def test_a_pod_is_woken_by_its_own_update_once_all_its_claims_exist(
    objects: list[Object], expected: QueueingHint
) -> None:
    world = World(*objects)
    hints = {each.event.label: each.hint for each in world.plugin.events_to_register()}
    hint = hints["TargetPodUpdatePodGeneratedResourceClaim"]
    assert hint is not None
    assert hint(info(WEB), info(WEB), info(WEB)) == expected


def test_the_events_that_are_registered() -> None:
    found = [(each.event.resource.value, int(each.event.action)) for each in World().plugin.events_to_register()]
    assert found == [
        ("Node", 1 | 4 | 8),
        ("resource.k8s.io/ResourceClaim", 1 | 2 | 32764),
        ("TargetPod", 16384),
        ("scheduling.k8s.io/PodGroup", 1),
        ("resource.k8s.io/DeviceClass", 1 | 32764),
        ("resource.k8s.io/ResourceSlice", 1 | 32764),
    ]


# Extended resources.

RESOURCE = "example.com/gpu"
BACKED = device_class().backing(RESOURCE)
WANTS = a_pod().but("spec.containers", []).wants({RESOURCE: "1"})


def extended(made: Pod, world_nodes: Iterable[Object], *objects: Object) -> World:
    world = World(*objects, nodes=world_nodes)
    world.manager.stores[2].apply(BACKED)
    return world


EXTENDED: dict[str, tuple[Pod, list[Object], list[Object], Any]] = {
    "devices provide it": (WANTS, [node("n1"), node("n2")], [N1], {"n1": "Success", "n2": f"{UU}: {CANNOT}"}),
    "a device plugin provides it": (WANTS, [node("n1", example_com="1")], [], None),
    "no class stands for it": (
        a_pod().but("spec.containers", []).wants({"example.com/tpu": "1"}),
        [node("n1")],
        [N1],
        "Skip",
    ),
    "nothing provides another one": (
        WANTS.wants({"example.com/tpu": "1"}),
        [node("n1")],
        [N1],
        {"n1": f"{UU}: cannot fit resource"},
    ),
    "an earlier attempt has left a claim": (
        WANTS,
        [node("n1")],
        [
            N1,
            a_claim("left").owned_by("Pod", "web").annotated({wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}),
        ],
        {"n1": f"{UU}: cannot schedule extended resource claim"},
    ),
}


@pytest.mark.parametrize("case", EXTENDED)
def test_extended_resources_that_devices_provide(case: str) -> None:
    pod, nodes, objects, expected = EXTENDED[case]
    if expected is None:
        nodes = [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1"}}}]
        expected = {"n1": "Success"}
    assert extended(pod, nodes, *objects).filter(pod) == expected


async def test_the_claim_for_extended_resources_is_created_allocated_and_recorded() -> None:
    world = extended(WANTS, [node("n1")], N1)
    world.reserve(WANTS)
    before = world.held()
    answer = await world.pre_bind(WANTS)
    created = world.claim("web-extended-resources-x")
    calls = [each.replace("web-extended-resources-x", "x") for each in world.api.made]
    name = "container-0-request-0"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert (answer, before, world.held(), created["spec"], calls, world.api.statuses) == (
        "Success",
        ["g0"],
        ["g0"],
        {"devices": {"requests": [{"name": name, "exactly": exactly}]}},
        ["create x", "update x", "update/status x", "patch web"],
        [
            {
                "extendedResourceClaimStatus": {
                    "requestMappings": [
                        {"containerName": "containers-0", "resourceName": RESOURCE, "requestName": name}
                    ],
                    "resourceClaimName": "web-extended-resources-x",
                }
            }
        ],
    )


@pytest.mark.parametrize(("problems", "measured"), [([], [True]), ([DOWN], [False])])
async def test_creations_of_claims_are_counted(problems: list[Exception], measured: list[bool]) -> None:
    world = extended(WANTS, [node("n1")], N1)
    world.api.problems = {"create": problems}
    await world.bind(WANTS)
    assert world.measured == measured


async def test_unreserve_deletes_the_claim_for_extended_resources() -> None:
    world = extended(WANTS, [node("n1")], N1)
    world.api.problems = {"patch": [DOWN]}
    answer = await world.bind(WANTS)
    world.while_sleeping = world.watch
    await world.unreserve(WANTS)
    assert (answer, list(world.api.objects), world.held()) == (
        "Error: update pod ml/web ExtendedResourceClaimStatus: etcd is down",
        [],
        [],
    )


async def test_post_filter_deletes_what_an_earlier_attempt_has_left() -> None:
    left = a_claim("left").owned_by("Pod", "web").annotated({wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"})
    world = extended(WANTS, [node("n1")], N1, left.but("metadata.finalizers", [wellknown.DELETE_PROTECTION_FINALIZER]))
    world.filter(WANTS)
    answer = world.post_filter(WANTS)
    before: list[str] = []

    def late_watch() -> None:
        before.extend(world.activated)
        if len(world.slept) == 3:
            world.watch()

    world.while_sleeping = late_watch
    await world.carry_out()
    assert (answer, world.api.made, before, world.activated) == (
        "Unschedulable: deletion of ResourceClaim completed",
        ["get web", "update left", "delete left"],
        [],
        ["web"],
    )


async def test_a_pod_that_a_device_plugin_serves_needs_no_write() -> None:
    plugged = [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1"}}}]
    world = extended(WANTS, plugged)
    assert (await world.bind(WANTS), world.api.made) == ("Success", [])


async def test_a_pod_with_a_claim_that_a_device_plugin_serves_gets_its_claim_alone() -> None:
    plugged = [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1"}}}]
    world = extended(WANTS, plugged, CLAIM, N1)
    assert (await world.bind(WANTS.claims("gpu")), world.api.made) == ("Success", ["update gpu", "update/status gpu"])


def containers(*init: Object | tuple[int, str], main: Sequence[int]) -> Object:
    """A Pod whose containers want so many; init containers with `Always` are sidecars."""

    def container(name: str, count: int, **more: str) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": "1", RESOURCE: str(count)}}, **more}

    starting = [
        container(f"i{place}", each[0], restartPolicy=each[1]) if isinstance(each, tuple) else each
        for place, each in enumerate(init)
    ]
    running = [container(f"c{place}", count) for place, count in enumerate(main)]
    return {"metadata": {"name": "web", "namespace": "ml"}, "spec": {"initContainers": starting, "containers": running}}


REQUESTS: dict[str, tuple[Object, dict[str, int], list[str]]] = {
    "each container its own": (
        containers(main=[1, 2]),
        {"container-0-request-1": 1, "container-1-request-1": 2},
        ["c0:container-0-request-1", "c1:container-1-request-1"],
    ),
    "a container that wants none": (
        containers(main=[0, 2]),
        {"container-1-request-1": 2},
        ["c1:container-1-request-1"],
    ),
    "a sidecar has its own": (
        containers((1, "Always"), main=[1]),
        {"container-0-request-1": 1, "container-1-request-1": 1},
        ["i0:container-0-request-1", "c0:container-1-request-1"],
    ),
    "an init container uses those of later containers": (
        containers((2, ""), main=[1, 2]),
        {"container-1-request-1": 1, "container-2-request-1": 2},
        [
            "c0:container-1-request-1",
            "c1:container-2-request-1",
            "i0:container-1-request-1",
            "i0:container-2-request-1",
        ],
    ),
    "an init container gets what it needs beyond": (
        containers((4, ""), main=[1]),
        {"container-0-request-1": 3, "container-1-request-1": 1},
        ["c0:container-1-request-1", "i0:container-1-request-1", "i0:container-0-request-1"],
    ),
    "init containers share what the greatest of them needs beyond": (
        containers((2, ""), (4, ""), main=[1]),
        {"container-1-request-1": 3, "container-2-request-1": 1},
        [
            "c0:container-2-request-1",
            "i0:container-2-request-1",
            "i0:container-1-request-1",
            "i1:container-2-request-1",
            "i1:container-1-request-1",
        ],
    ),
    "an init container does not use those of sidecars before it": (
        containers((1, "Always"), (1, ""), main=[0]),
        {"container-0-request-1": 1, "container-1-request-1": 1},
        ["i0:container-0-request-1", "i1:container-1-request-1"],
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_the_requests_for_extended_resources(case: str) -> None:
    pod, requests, mappings = REQUESTS[case]
    found = extended_resources.claim_for(extended_resources.virtual(pod), pod, [RESOURCE], {RESOURCE: BACKED})
    asked = {each["name"]: each["exactly"]["count"] for each in found.claim["spec"]["devices"]["requests"]}
    mapped = [f"{each['containerName']}:{each['requestName']}" for each in found.mappings]
    assert (asked, mapped) == (requests, mappings)


def test_on_a_node_that_is_known_to_fit_a_pod_is_scored_and_reserved_without_filter() -> None:
    lists = {name: request(**ALTERNATIVES).but("metadata.name", name).but("metadata.uid", name) for name in ("a", "b")}
    world = World(*lists.values(), device_class("tpu"), N1, N2)
    nodes = world.handle.snapshot
    pods = [a_pod(name).claims(name) for name in lists]

    def known(pod: Object) -> list[str]:
        assert world.pre_filter(pod) == "Success"
        found = world.plugin.filter_known(world.state, info(pod), nodes)
        assert found is not None
        return [each.name for each, fits in zip(nodes, found.fits.tolist(), strict=True) if fits]

    before = known(pods[0])
    world.reserve(pods[0], "n1")
    after = known(pods[1])
    score = world.plugin.score(world.state, info(pods[1]), nodes.nodes[1])

    assert (before, after, score, known(pods[1])) == ([], ["n2"], 8, ["n2"])
    assert (said(world.plugin.reserve(world.state, info(pods[1]), "n2")), world.held()) == ("Success", ["g0", "g2"])


def test_what_was_known_of_a_node_is_reserved_although_something_has_changed_since() -> None:
    world = World(CLAIM, N1, N2)
    pod = info(WEB)
    nodes = world.handle.snapshot
    assert world.pre_filter(WEB) == "Success"
    assert world.plugin.filter_known(world.state, pod, nodes) is not None
    assert world.filter(WEB) == {"n1": "Success", "n2": "Success"}
    assert world.pre_filter(WEB) == "Success"
    found = world.plugin.filter_known(world.state, pod, nodes)
    assert found is not None
    assert found.fits.all()

    world.manager.stores[1].apply(N1.but("metadata.resourceVersion", "2").but("spec.pool.generation", 2))

    assert (said(world.plugin.reserve(world.state, pod, "n1")), world.held()) == ("Success", ["g0"])


def kept_of_nodes() -> int:
    return sum(isinstance(each, KnownNodes) for each in gc.get_objects())


def test_what_is_known_of_all_nodes_is_forgotten_with_its_kind_of_claims() -> None:
    gc.collect()
    before = kept_of_nodes()
    world = World(*(wanting(f"of-{count}", count) for count in range(1, 80)), N1)
    for count in range(1, 80):
        pod = info(a_pod(f"p{count}").claims(f"of-{count}"))
        assert world.plugin.pre_filter(world.state, pod, world.handle.snapshot) is None
        assert world.plugin.filter_known(world.state, pod, world.handle.snapshot) is not None

    assert kept_of_nodes() - before <= 64
