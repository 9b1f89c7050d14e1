"""The allocator: which devices the claims of a Pod get on a Node, or why they get none."""

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import UUID

import pytest
from objects.builders import device_class
from objects.devices import (
    DRIVER,
    claiming,
    consuming,
    device,
    devices,
    exactly,
    first_available,
    held,
    node,
    resource_slice,
    selecting,
)

from tollbar.cel import CelEngine, Env, engine
from tollbar.cel.syntax import parser
from tollbar.dra import AllocatedState, Allocator, Failed, Features, Inventory, Selectors, selectors, slices
from tollbar.dra.candidates import PAUSE
from tollbar.model.objects import Object

THREE = [resource_slice("a", devices("d1", "d2", "d3"))]
TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
MODEL = f'device.attributes["{DRIVER}"].model'
A100 = selecting(f'{MODEL} == "a100"')
HALVES = [resource_slice("a", [device(f"d{n}", half=n % 2, index=n) for n in range(6)])]
ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
RACK_1 = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
COUNTERS = {"name": "shared", "counters": {"memory": {"value": "10"}}}
FROM_ONE_BY_ONE = {"min": "1", "step": "1"}
PARTITIONS = [
    resource_slice("a", [consuming(device(f"d{size}"), memory=str(size)) for size in (8, 6, 4)], count=2),
    resource_slice("counters", count=2, sharedCounters=[COUNTERS]),
]


def shared(name: str = "nic", value: str = "10", **policy: Any) -> Object:
    capacity: Object = {"value": value, **({"requestPolicy": policy} if policy else {})}
    return {**device(name, capacity={"bandwidth": capacity}), "allowMultipleAllocations": True}


def wanting(bandwidth: str, name: str = "nic") -> Object:
    return exactly(name, capacity={"requests": {"bandwidth": bandwidth}})


class Case(NamedTuple):
    slices: Sequence[Object]
    claims: Sequence[Object]
    want: Sequence[Sequence[str]] | str | None
    """Devices of each claim, the message of a failure, or None."""
    allocated: Sequence[Object] = ()
    features: Features = Features()
    node: Object = node()


CASES: dict[str, Case] = {
    "the first device of the first pool is taken": Case(THREE, [claiming(exactly())], [["d1"]]),
    "pools are tried by driver and name, slices by name": Case(
        [
            resource_slice("z", devices("z"), pool="one", count=2),
            resource_slice("a", devices("a"), pool="two"),
            resource_slice("y", devices("y"), pool="one", count=2),
        ],
        [claiming(exactly(count=3))],
        [["y", "z", "a"]],
    ),
    "a pool with binding conditions comes last": Case(
        [
            resource_slice("a", [{**device("slow"), "bindingConditions": ["Attached"]}], pool="a"),
            resource_slice("b", devices("fast"), pool="b"),
        ],
        [claiming(exactly())],
        [["fast"]],
    ),
    "devices of other claims are left alone": Case(THREE, [claiming(exactly(count=2))], [["d2", "d3"]], [held("d1")]),
    "two claims of a Pod get different devices": Case(
        THREE, [claiming(exactly()), claiming(exactly(count=2), name="two")], [["d1"], ["d2", "d3"]]
    ),
    "an earlier choice is taken back for a later request": Case(
        [resource_slice("a", [device("any", model="a100"), device("other", model="h100")])],
        [claiming(exactly("any"), exactly("special", selectors=A100))],
        [["other", "any"]],
    ),
    "more devices than there are": Case(THREE, [claiming(exactly(count=4))], None),
    "a request for no device, before one that gets a device": Case(
        THREE, [claiming(exactly("none", count=0), exactly())], [["d1"]]
    ),
    "all devices": Case(THREE, [claiming(exactly(count=None))], [["d1", "d2", "d3"]]),
    "all devices, of which one is held": Case(THREE, [claiming(exactly(count=None))], None, [held("d2")]),
    "all devices where there are none": Case([], [claiming(exactly(count=None))], None),
    "all devices of a pool that is being updated": Case(
        [resource_slice("a", devices("d1"), count=2)],
        [claiming(exactly(count=None))],
        f"claim ml/claim, request gpu: asks for all devices, but resource pool {DRIVER}/pool is currently being "
        "updated",
    ),
    "no device of an incomplete pool is used": Case(
        [resource_slice("a", devices("d1"), count=2)], [claiming(exactly())], None
    ),
    "of two generations the newer one counts": Case(
        [resource_slice("a", devices("old")), resource_slice("b", devices("new"), generation=2)],
        [claiming(exactly(count=None))],
        [["new"]],
    ),
    "a pool whose newer generation has nothing for this Node yet is left out": Case(
        [
            resource_slice("a", devices("old"), node="node-1", count=2),
            resource_slice("b", devices("new"), node="node-2", generation=2),
        ],
        [claiming(exactly(count=None))],
        None,
    ),
    "a pool with two devices of one name is invalid": Case(
        [resource_slice("a", devices("d1", "d1"))], [claiming(exactly())], "invalid resource pools were encountered"
    ),
    "an invalid pool does not matter while another one does": Case(
        [resource_slice("a", devices("d1", "d1")), resource_slice("b", devices("d2"), pool="other")],
        [claiming(exactly())],
        [["d2"]],
    ),
    "slices of other Nodes are not used": Case(
        [resource_slice("a", devices("d1"), node="other")], [claiming(exactly())], None
    ),
    "a slice for Nodes with a label": Case(
        [
            resource_slice(
                "a",
                devices("d1"),
                nodeSelector={
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                },
            )
        ],
        [claiming(exactly())],
        [["d1"]],
        node=node(zone="a"),
    ),
    "Nodes selected per device": Case(
        [
            resource_slice(
                "a",
                [{**device("d1"), "nodeName": "other"}, {**device("d2"), "nodeName": "node-1"}],
                perDeviceNodeSelection=True,
            )
        ],
        [claiming(exactly())],
        [["d2"]],
    ),
    "a device for Nodes of two terms cannot be written down in a claim": Case(
        [
            resource_slice(
                "a",
                [{**device("d1"), "nodeSelector": {"nodeSelectorTerms": [ZONE_A, RACK_1]}}],
                perDeviceNodeSelection=True,
            )
        ],
        [claiming(exactly())],
        "create NodeSelector for claim claim: unsupported ResourceSlice.NodeSelector with 2 terms",
        node=node(zone="a"),
    ),
    "a selector of the class and one of the request must both hold": Case(
        [resource_slice("a", [device("d1", model="h100"), device("d2", model="a100")])],
        [claiming(exactly(cls="selecting", selectors=selecting("true")))],
        [["d2"]],
    ),
    "a selector that fails ends the search": Case(
        THREE,
        [claiming(exactly(selectors=selecting(f'device.attributes["{DRIVER}"].missing == 1')))],
        f"claim ml/claim: selector #0 on device {DRIVER}/pool/d1: CEL runtime error: no such key: missing. "
        "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
        "fields",
    ),
    "a selector that fails on a held device does no harm": Case(
        [resource_slice("a", [device("d1"), device("d2", model="a100")])],
        [claiming(exactly(selectors=A100))],
        [["d2"]],
        [held("d1")],
    ),
    "a class that does not exist": Case(
        THREE,
        [claiming(exactly(cls="missing"))],
        "claim ml/claim, request gpu: could not retrieve device class missing: deviceclass.resource.k8s.io "
        '"missing" not found',
    ),
    "more devices than a claim can get": Case(
        THREE,
        [claiming(exactly(count=20), exactly("more", count=13))],
        "claim ml/claim: number of requested devices 33 exceeds the claim limit of 32",
    ),
    "the first alternative that fits": Case(THREE, [claiming(first_available("gpu", four=4, two=2))], [["d1", "d2"]]),
    "an alternative is changed for a later request": Case(
        THREE, [claiming(first_available("gpu", three=3, two=2), exactly("other"))], [["d1", "d2", "d3"]]
    ),
    "alternatives that would exceed 32 devices together are passed over": Case(
        [resource_slice("a", devices(*(f"d{n:02}" for n in range(40))))],
        [claiming(first_available("one", many=30, few=1), first_available("two", many=31, few=3))],
        [[f"d{n:02}" for n in range(32)]],
    ),
    "a tainted device": Case([resource_slice("a", [{**device("d1"), "taints": [TAINT]}])], [claiming(exactly())], None),
    "a tainted device that the request tolerates": Case(
        [resource_slice("a", [{**device("d1"), "taints": [TAINT]}])],
        [claiming(exactly(tolerations=[{"key": "broken", "operator": "Exists"}]))],
        [["d1"]],
    ),
    "a taint without a known effect": Case(
        [resource_slice("a", [{**device("d1"), "taints": [{**TAINT, "effect": "None"}]}])],
        [claiming(exactly())],
        [["d1"]],
    ),
    "admin access may use a held device": Case(THREE, [claiming(exactly(adminAccess=True))], [["d1"]], [held("d1")]),
    "admin access gets a device once in a claim": Case(
        THREE, [claiming(exactly("one", adminAccess=True), exactly("two", adminAccess=True))], [["d1", "d2"]]
    ),
    "what admin access uses is not held": Case(THREE, [claiming(exactly())], [["d1"]], [held("d1", adminAccess=True)]),
    "devices with one attribute in common": Case(
        HALVES,
        [claiming(exactly(count=3), constraints=[{"matchAttribute": f"{DRIVER}/half"}])],
        [["d0", "d2", "d4"]],
    ),
    "no four devices have the attribute in common": Case(
        HALVES, [claiming(exactly(count=4), constraints=[{"matchAttribute": f"{DRIVER}/half"}])], None
    ),
    "devices that differ in an attribute": Case(
        HALVES,
        [claiming(exactly(count=2), constraints=[{"distinctAttribute": f"{DRIVER}/half"}])],
        [["d0", "d1"]],
    ),
    "three values of a distinct attribute are all remembered": Case(
        HALVES, [claiming(exactly(count=3), constraints=[{"distinctAttribute": f"{DRIVER}/half"}])], None
    ),
    "a constraint on an attribute that no device has": Case(
        HALVES, [claiming(exactly(), constraints=[{"matchAttribute": f"{DRIVER}/none"}])], None
    ),
    "a constraint for one alternative": Case(
        HALVES,
        [
            claiming(
                first_available("gpu", four=4, three=3),
                constraints=[{"matchAttribute": f"{DRIVER}/half", "requests": ["gpu/four"]}],
            )
        ],
        [["d0", "d1", "d2"]],
    ),
    "all devices against a constraint": Case(
        HALVES,
        [claiming(exactly(count=None), constraints=[{"matchAttribute": f"{DRIVER}/half"}])],
        f"claim ml/claim, request gpu: cannot add device {DRIVER}/pool/d1 because a claim constraint would not be "
        "satisfied",
    ),
    "partitions within their counters": Case(PARTITIONS, [claiming(exactly(count=2))], [["d6", "d4"]]),
    "a held partition consumes its counters": Case(PARTITIONS, [claiming(exactly())], [["d4"]], [held("d6")]),
    "a partition with an unknown counter makes its pool invalid": Case(
        [resource_slice("a", [consuming(device("d1"), memory="1")])],
        [claiming(exactly())],
        "invalid resource pools were encountered",
    ),
    "shares of one device until it is full": Case(
        [resource_slice("a", [shared("n1"), shared("n2")])],
        [claiming(wanting("6", "one"), wanting("4", "two"), wanting("5", "three"))],
        [["n1", "n1", "n2"]],
    ),
    "a share takes what is left": Case(
        [resource_slice("a", [shared("n1"), shared("n2")])],
        [claiming(wanting("6"))],
        [["n2"]],
        [held("n1", shareID="s", consumedCapacity={"bandwidth": "5"})],
    ),
    "without a request a share takes the whole capacity": Case(
        [resource_slice("a", [shared("n1"), shared("n2")])], [claiming(exactly("one"), exactly("two"))], [["n1", "n2"]]
    ),
    "a policy's default is taken without a request": Case(
        [resource_slice("a", [shared(default="5", validValues=["5", "10"])])],
        [claiming(exactly("one"), exactly("two"))],
        [["nic", "nic"]],
    ),
    "a capacity that no device has": Case(THREE, [claiming(exactly(capacity={"requests": {"bandwidth": "1"}}))], None),
    "a device that is not shared has to have the capacity": Case(
        [
            resource_slice(
                "a", [device("small", capacity={"bandwidth": "5"}), device("large", capacity={"bandwidth": "9"})]
            )
        ],
        [claiming(wanting("6"))],
        [["large"]],
    ),
    "requests of one kind, of which the second one meets an error": Case(
        [
            resource_slice(
                "a", [device("plain", capacity={"bandwidth": "20E"}), shared(value="20E", validRange=FROM_ONE_BY_ONE)]
            )
        ],
        [claiming(wanting("10E", "one"), wanting("10E", "two"))],
        f'claim ml/claim, request two: checking capacity for device {DRIVER}/pool/nic: capacity "bandwidth": '
        "capacity request cannot be represented in the device's range arithmetic: request 10E is not a representable "
        "milli value",
    ),
    "all devices, else two of the same kind": Case(
        THREE, [claiming(first_available("gpu", all=None, two=2))], [["d1", "d3"]], [held("d2")]
    ),
    "a request beyond 64 bits": Case(
        [resource_slice("a", [shared(value="100", default="1", validRange=FROM_ONE_BY_ONE)])],
        [claiming(wanting("10E"))],
        f'claim ml/claim, request nic: checking capacity for device {DRIVER}/pool/nic: capacity "bandwidth": '
        "capacity request cannot be represented in the device's range arithmetic: request 10E is not a representable "
        "milli value",
    ),
    "prioritized lists while the feature is off": Case(
        THREE,
        [claiming(first_available("gpu", one=1))],
        "claim ml/claim, request gpu: has subrequests, but the DRAPrioritizedList feature is disabled",
        features=Features(prioritized_list=False),
    ),
    "a shared device is a whole one while the feature is off": Case(
        [resource_slice("a", [shared()])],
        [claiming(exactly("one"), exactly("two"))],
        None,
        features=Features(consumable_capacity=False),
    ),
    "taints while the feature is off": Case(
        [resource_slice("a", [{**device("d1"), "taints": [TAINT]}])],
        [claiming(exactly())],
        [["d1"]],
        features=Features(device_taints=False),
    ),
    "slices with compatibility groups are ignored, so that their pool is incomplete": Case(
        [
            resource_slice("a", devices("d1"), count=2),
            resource_slice(
                "b",
                [
                    {
                        **device("d2"),
                        "consumesCounters": [{"counterSet": "s", "counters": {}, "compatibilityGroups": ["g"]}],
                    }
                ],
                count=2,
            ),
        ],
        [claiming(exactly())],
        None,
    ),
}


@pytest.mark.behaviour(38, case="what admin access uses is not held")
@pytest.mark.behaviour(41, case="prioritized lists while the feature is off")
@pytest.mark.behaviour(41, case="taints while the feature is off")
@pytest.mark.behaviour(42, case="an earlier choice is taken back for a later request")
@pytest.mark.behaviour(42, case="two claims of a Pod get different devices")
@pytest.mark.behaviour(43, case="all devices")
@pytest.mark.behaviour(43, case="more devices than there are")
@pytest.mark.behaviour(43, case="devices with one attribute in common")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_allocation(case: Case) -> None:
    found = allocate(case.slices, case.claims, case.allocated, case.features, case.node)
    if isinstance(case.want, str):
        assert isinstance(found, Failed)
        assert found.message == case.want
    elif case.want is None:
        assert found is None
    else:
        assert isinstance(found, list)
        assert [[each["device"] for each in one["devices"]["results"]] for one in found] == case.want


def allocate(
    slices: Sequence[Object],
    claims: Sequence[Object],
    allocated: Sequence[Object] = (),
    features: Features | None = None,
    on: Object | None = None,
    classes: Mapping[str, Object] | None = None,
) -> list[Object] | Failed | None:
    known = {"gpu": device_class("gpu"), "selecting": device_class("selecting").selecting(f'{MODEL} == "a100"')}
    allocator = Allocator(
        Inventory(slices, features),
        AllocatedState(allocated),
        {**known, **(classes or {})},
        share_id=iter("abcdefgh").__next__,
    )
    return allocator.allocate(on or node(), claims)


def test_every_share_has_an_id_of_its_own() -> None:
    allocator = Allocator(Inventory([resource_slice("a", [shared()])]), AllocatedState(), {"gpu": device_class("gpu")})
    claims = [claiming(*(wanting("1", f"r{number}") for number in range(10)))]
    found = [allocator.allocate(node(), claims) for _ in range(2)]
    ids = [each["shareID"] for one in found for each in one[0]["devices"]["results"]]  # type: ignore[index]
    assert len({*ids}) == 20
    assert {(str(UUID(each)) == each, UUID(each).version) for each in ids} == {(True, 4)}


def test_the_result_says_all_about_a_device() -> None:
    given = {
        **shared("n1"),
        "bindingConditions": ["Attached"],
        "bindingFailureConditions": ["Broken"],
        "taints": [TAINT],
    }
    tolerations = [{"key": "broken", "operator": "Exists"}]
    request = exactly("nic", capacity={"requests": {"bandwidth": "2000m"}}, tolerations=tolerations)
    found = allocate([resource_slice("a", [given])], [claiming(request)])
    assert found == [
        {
            "devices": {
                "results": [
                    {
                        "request": "nic",
                        "driver": DRIVER,
                        "pool": "pool",
                        "device": "n1",
                        "tolerations": tolerations,
                        "bindingConditions": ["Attached"],
                        "bindingFailureConditions": ["Broken"],
                        "shareID": "a",
                        "consumedCapacity": {"bandwidth": "2"},
                    }
                ]
            }
        }
    ]


ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
SAME_ZONE = {**ZONE, "values": ["b", "a"]}
RACK = {"key": "rack", "operator": "Exists"}


def term(*requirements: Object) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}


SELECTORS: dict[str, tuple[Sequence[Object], Object | None]] = {
    "devices for all Nodes": ([resource_slice("a", devices("d1", "d2"))], None),
    "a device of one Node": (
        [resource_slice("a", devices("d1", "d2"), node="node-1")],
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]},
    ),
    "a device that binds to its Node": (
        [resource_slice("a", [device("d1"), {**device("d2"), "bindsToNode": True}])],
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]},
    ),
    "what all devices ask of a Node, each requirement once": (
        [
            resource_slice("a", devices("d1"), pool="a", nodeSelector=term(ZONE)),
            resource_slice("b", devices("d2"), pool="b", nodeSelector=term(SAME_ZONE, RACK)),
        ],
        term(ZONE, RACK),
    ),
}


@pytest.mark.parametrize(("slices", "want"), SELECTORS.values(), ids=SELECTORS)
def test_the_node_selector_of_a_result(slices: Sequence[Object], want: Object | None) -> None:
    found = allocate(slices, [claiming(exactly(count=2))], on=node(zone="a", rack="r1"))
    assert isinstance(found, list)
    assert found[0].get("nodeSelector") == want


def opaque(text: str, *requests: str) -> Object:
    return {
        "opaque": {"driver": DRIVER, "parameters": {"is": text}},
        **({"requests": list(requests)} if requests else {}),
    }


CONFIGS: dict[str, tuple[Object, list[tuple[str, str, list[str]]]]] = {
    "the class's config is for the requests of the class": (
        claiming(exactly("one", cls="tuned"), exactly("two"), exactly("three", cls="tuned")),
        [("FromClass", "class", ["one", "three"])],
    ),
    "a config for all requests names none": (claiming(exactly("one", cls="tuned")), [("FromClass", "class", [])]),
    "the claim's config comes after the class's": (
        claiming(exactly("one", cls="tuned"), config=[opaque("claim")]),
        [("FromClass", "class", []), ("FromClaim", "claim", [])],
    ),
    "a config for an alternative that was not chosen is left out": (
        claiming(first_available("gpu", nine=9, one=1), config=[opaque("nine", "gpu/nine"), opaque("one", "gpu/one")]),
        [("FromClaim", "one", [])],
    ),
    "a config for one of two requests": (
        claiming(exactly("one"), exactly("two"), config=[opaque("two", "two")]),
        [("FromClaim", "two", ["two"])],
    ),
}


@pytest.mark.parametrize(("given", "want"), CONFIGS.values(), ids=CONFIGS)
def test_the_config_of_a_result(given: Object, want: list[tuple[str, str, list[str]]]) -> None:
    tuned = device_class("tuned").but("spec.config", [opaque("class")])
    found = allocate(THREE, [given], classes={"tuned": tuned})
    assert isinstance(found, list)
    config = found[0]["devices"]["config"]
    assert [(each["source"], each["opaque"]["parameters"]["is"], each.get("requests", [])) for each in config] == want


def endless() -> tuple[Allocator, Sequence[Object]]:
    """A problem whose last request can never be satisfied, and which has 32! ways to find that out."""
    slices = [resource_slice("a", [device(f"d{n}", half=n % 2) for n in range(62)])]
    requests = [exactly(f"r{n}") for n in range(32)]
    claim = claiming(*requests, constraints=[{"matchAttribute": f"{DRIVER}/half"}])
    times = iter(range(10**9))
    allocator = Allocator(
        Inventory(slices),
        AllocatedState(),
        {"gpu": device_class()},
        clock=lambda: float(next(times)),
        deadline=50,
    )
    return allocator, [claim]


def test_a_search_ends_at_its_deadline() -> None:
    allocator, claims = endless()
    assert allocator.allocate(node(), claims) == Failed(
        "filter operation aborted: context deadline exceeded", timed_out=True
    )
    assert 0 < allocator.steps < 50 * PAUSE


def test_a_search_ends_with_its_tries() -> None:
    allocator, claims = endless()
    allocator.deadline, allocator.tries_max = float("inf"), 10_000
    found = allocator.allocate(node(), claims)
    assert found == Failed("filter operation aborted: no solution within 10000 tries", timed_out=True)


def test_a_search_in_pieces_pauses_and_goes_on() -> None:
    """The clock tells one second more each time that it is read, so each piece ends at its fifth look."""
    allocator, claims = endless()
    allocation = allocator.begin(node(), claims)
    pieces = 1
    while not allocation.run(5):
        assert allocation.result is None
        pieces += 1
    assert isinstance(allocation.result, Failed)
    assert pieces > 5


@pytest.mark.parametrize("has_ended", [False, True], ids=["in a pause", "with its answer"])
def test_a_search_that_is_dropped_is_freed_at_once(has_ended: bool) -> None:
    """It may have a copy of all that claims hold, and garbage that has become old is collected twice an hour."""
    allocator, claims = endless()
    allocation = allocator.begin(node(), [claiming(exactly())] if has_ended else claims)
    assert allocation.run(25) is has_ended
    left: list[weakref.ref[Any]] = [weakref.ref(allocation), weakref.ref(allocator.setting.examiner)]
    gc.disable()
    try:
        del allocation, allocator
        assert [each() for each in left] == [None, None]
    finally:
        gc.enable()


def test_what_is_wrong_with_claims_does_not_keep_the_search_in_memory() -> None:
    """Statuses have the exception, as long as there are any; the frames of its traceback would hold the search."""
    allocator = Allocator(Inventory([resource_slice("a", devices("n1"))]), AllocatedState(), {"gpu": device_class()})
    found = allocator.allocate(node(), [claiming(exactly(count=40))])
    left = weakref.ref(allocator.setting.examiner)
    gc.disable()
    try:
        del allocator
        assert isinstance(found, Failed)
        assert (found.error is not None, left()) == (True, None)
    finally:
        gc.enable()


@pytest.mark.parametrize("pieces", range(12))
def test_a_search_goes_on_or_is_dropped_whatever_changes_in_a_pause(pieces: int) -> None:
    """A share that goes during a pause would have counters given back that were never taken."""
    partition = consuming(shared("n1"), memory="1")
    slices = [resource_slice("a", [partition], count=2), resource_slice("b", count=2, sharedCounters=[COUNTERS])]
    share = held("n1", shareID="s", consumedCapacity={"bandwidth": "1"})
    state = AllocatedState([share])
    allocator = Allocator(Inventory(slices), state, {"gpu": device_class()})
    impossible = exactly("r2", selectors=selecting("false"))
    allocation = allocator.begin(node(), [claiming(wanting("1", "r1"), impossible)])
    for _ in range(pieces):
        allocation.run(0)
    state.remove(share)
    while not allocation.run(0):
        pass
    assert allocation.result is None


def test_what_all_devices_are_is_counted_beyond_what_a_claim_can_get() -> None:
    slices = [resource_slice("a", devices(*(f"d{n:02}" for n in range(40))))]
    found = allocate(slices, [claiming(exactly(count=None))])
    assert found == Failed("claim ml/claim: number of requested devices 40 exceeds the claim limit of 32")


def test_each_selector_is_compiled_in_a_piece_of_its_own() -> None:
    times = iter(range(10**9))
    written = [each for number in range(20) for each in selecting(f"{number} == {number}")]
    allocator = Allocator(Inventory(THREE), AllocatedState(), {"gpu": device_class()}, clock=lambda: float(next(times)))
    allocation = allocator.begin(node(), [claiming(exactly(selectors=written))])
    pieces = 0
    while not allocation.run(0):
        pieces += 1
    assert pieces > len(written)
    assert isinstance(allocation.result, list)


def test_each_selector_is_evaluated_in_a_piece_of_its_own() -> None:
    """Also those of one device: a claim may bring 32 of them, and each may take some milliseconds."""
    times = iter(range(10**9))
    compiled = Selectors()
    written = [each for number in range(20) for each in selecting(f"device.driver != '{number}'")]
    for each in written:
        compiled.compile(each["cel"]["expression"])
    for how in (exactly(selectors=written), exactly(count=None, selectors=written)):
        allocator = Allocator(
            Inventory([resource_slice("a", devices("d1"))]),
            AllocatedState(),
            {"gpu": device_class()},
            selectors=compiled,
            clock=lambda: float(next(times)),
        )
        allocation = allocator.begin(node(), [claiming(how)])
        pieces = 0
        while not allocation.run(0):
            pieces += 1
        assert pieces > len(written)
        assert isinstance(allocation.result, list)


class Counting:
    """An engine with what it has compiled and the models of the devices that it has evaluated something for."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.asked: list[str] = []

    def compile(self, source: str, env: Env) -> Any:
        self.compiled.append(source)
        program = engine().compile(source, env)

        class Counted:
            def evaluate(_, inputs: Any) -> Any:  # noqa: N805
                self.asked.append(inputs["device"]["attributes"][DRIVER]["model"])
                return program.evaluate(inputs)

        return Counted()


def test_a_search_ends_with_more_selectors_than_verdicts_are_kept() -> None:
    """The API server accepts 64 of a class and a request together; files that it has not seen may have more."""
    written = [each for number in range(300) for each in selecting(f"device.driver != '{number}'")]
    found = allocate([resource_slice("a", devices("d1"))], [claiming(exactly(selectors=written))])
    assert isinstance(found, list)


def test_a_selector_is_compiled_once_and_asked_once_of_devices_that_are_equal_until_they_change() -> None:
    def models(*names: str) -> Object:
        return resource_slice("a", [device(f"d{number}", model=each) for number, each in enumerate(names)])

    counting, inventory = Counting(), Inventory([models("h100", "h200", "h100")])
    kept = Selectors(cast("CelEngine", counting))
    asking = exactly("r1", selectors=A100), exactly("r2", selectors=A100)

    def pod() -> None:
        allocator = Allocator(inventory, AllocatedState(), {"gpu": device_class()}, selectors=kept)
        for name in ("n1", "n2"):
            assert allocator.allocate(node(name), [claiming(*asking)]) is None

    pod()
    pod()
    assert (counting.compiled, counting.asked) == ([A100[0]["cel"]["expression"]], ["h100", "h200"])
    inventory.apply(models("h100", "b200"))
    pod()
    assert (len(counting.compiled), counting.asked) == (1, ["h100", "h200", "b200"])


def test_devices_of_two_drivers_are_told_apart_that_offer_the_same() -> None:
    slices = [
        resource_slice("a", devices("d1"), pool="a", driver="nic.example.com"),
        resource_slice("b", devices("d1"), pool="b"),
    ]
    found = allocate(slices, [claiming(exactly(selectors=selecting(f'device.driver == "{DRIVER}"')))])
    assert isinstance(found, list)
    assert found[0]["devices"]["results"][0]["pool"] == "b"


def test_the_first_selectors_load_the_compiler_and_not_the_first_claim() -> None:
    selectors._load_compiler.cache_clear()
    parser._grammar.cache_clear()
    Selectors()
    assert parser._grammar.cache_info().currsize == 1


def test_answers_about_devices_are_bounded_in_all_and_go_device_by_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MAX_ANSWERS", 30)  # which is room for two devices with three answers each
    parsed = slices.Parser().parse(resource_slice("a", [device(f"d{n}", model=str(n)) for n in range(4)]))
    contents = [each.content for each in parsed.devices]
    for content in contents:
        for question in range(3):
            content.remember(question, answer=True)
    filled = [len(each.memo) for each in contents]
    contents[0].remember("another question", answer=True)
    assert (filled, [len(each.memo) for each in contents]) == ([0, 0, 3, 3], [1, 0, 0, 3])


def test_answers_about_devices_that_are_gone_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MAX_ANSWERS", 30)
    monkeypatch.setattr(slices, "_KEPT_CONTENTS", 1)
    parser = slices.Parser()

    def device_content(model: str) -> slices.Content:
        (found,) = parser.parse(resource_slice("a", [device("d", model=model)])).devices
        found.content.remember("question", answer=True)
        return found.content

    stays = device_content("stays")
    for generation in range(10):
        device_content(str(generation))
    assert stays.memo == {"question": True}


def test_one_allocator_answers_for_every_node_as_if_it_were_alone() -> None:
    slices = [
        resource_slice(f"s-{n}", [device("d1", model="a100" if n % 2 else "h100")], node=f"n{n}", pool=f"n{n}")
        for n in range(4)
    ]
    claims = [claiming(exactly(selectors=A100))]
    allocator = Allocator(Inventory(slices), AllocatedState([held("d1", pool="n3")]), {"gpu": device_class()})
    found = [allocator.allocate(node(f"n{n}"), claims) is not None for n in range(4)]
    assert found == [False, True, False, False]


def test_a_changed_slice_changes_the_answer() -> None:
    inventory = Inventory(THREE)
    allocator = Allocator(inventory, AllocatedState(), {"gpu": device_class()})
    claims = [claiming(exactly())]
    inventory.apply(resource_slice("a", devices("other"), pool="moved"))
    assert (allocator.allocate(node(), claims) or [{}])[0]["devices"]["results"][0]["pool"] == "moved"
    inventory.remove(resource_slice("a"))
    assert allocator.allocate(node(), claims) is None
