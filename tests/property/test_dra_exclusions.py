"""What is said of single devices agrees with the search: where one is free, a request for one gets it."""

from typing import Any

from clusters.drawing import pick
from hypothesis import given
from hypothesis import strategies as st
from objects.builders import device_class
from objects.devices import DRIVER, claiming, consuming, device, exactly, held, node, resource_slice, selecting, shared

from tollbar.dra import AllocatedState, Allocator, Inventory
from tollbar.dra.exclusions import Exclusion, exclusions
from tollbar.model.objects import Object
from tollbar.model.steps import result_of

TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}
COUNTERS = {"name": "shared", "counters": {"memory": {"value": "10"}}}
NAMES = ("d0", "d1", "d2")
MODEL = f'device.attributes["{DRIVER}"].model'


@st.composite
def problems(draw: Any) -> tuple[list[Object], Object, list[Object]]:
    """Slices, a claim for one device, and what other claims hold."""
    devices = []
    for name in NAMES:
        made: Object = device(name, model=pick(draw, ("a", "b")), capacity={"memory": pick(draw, ("4", "8"))})
        if draw(st.booleans()):
            made = {**shared(name, memory="10"), "attributes": made["attributes"]}
        if draw(st.booleans()):
            made = consuming(made, memory=pick(draw, ("4", "8")))
        if draw(st.booleans()):
            made = {**made, "taints": [TAINT]}
        devices.append(made)
    slices = [resource_slice("a", devices, count=2), resource_slice("counters", count=2, sharedCounters=[COUNTERS])]
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["selectors"] = selecting(f'{MODEL} == "{pick(draw, ("a", "b"))}"')
    if draw(st.booleans()):
        more["tolerations"] = [{"operator": "Exists"}]
    if draw(st.booleans()):
        more["capacity"] = {"requests": {"memory": pick(draw, ("3", "6"))}}
    taken = []
    for number, made in enumerate(devices):
        if draw(st.booleans()):
            is_share = made.get("allowMultipleAllocations")
            share = (
                {"shareID": f"s{number}", "consumedCapacity": {"memory": pick(draw, ("2", "6"))}} if is_share else {}
            )
            taken.append(held(made["name"], **share))
    return slices, claiming(exactly("r0", 1, **more)), taken


@given(problems())
def test_a_device_is_free_where_the_search_finds_one(drawn: tuple[list[Object], Object, list[Object]]) -> None:
    slices, claim, taken = drawn
    allocator = Allocator(Inventory(slices), AllocatedState(taken), {"gpu": device_class()})
    ((request,),) = result_of(allocator.parsed(0, claim)).requests
    found = list(exclusions(allocator, request, node()))
    assert [each.device.device for each in found] == list(NAMES)
    free = [each.device.device for each in found if each.why is Exclusion.FREE]
    result = allocator.allocate(node(), [claim])
    got = [each["device"] for allocation in result or [] for each in allocation["devices"]["results"]]  # type: ignore[union-attr]
    assert got == free[:1]
