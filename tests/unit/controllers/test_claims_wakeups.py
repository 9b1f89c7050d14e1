"""Which changes give the claims controller something to do, and for whom."""

from typing import Any

import pytest
from clusters.claims import ClaimsWorld
from fakes.manager import drained
from objects.builders import claim, pod, pod_group, template

from tollbar.model.claims import pod_entry
from tollbar.model.objects import Object

GPU = template("gpu").request("gpu")
WEB = pod().templates("gpu")
RECORDED = WEB.generated("gpu", "web-gpu-x")
RUNS = RECORDED.bound().phase("Running")
MADE = claim("web-gpu-x").generated_for(WEB, "gpu")
IN_USE = MADE.allocated().reserved(pod_entry(WEB))
MEMBER = WEB.in_group("gang")
GANG = pod_group().templates("gpu")
OF_GANG = claim("gang-gpu-x").owned_by("PodGroup", "gang", api_version="scheduling.k8s.io/v1beta1")
OF_GANG = OF_GANG.annotated({"resource.kubernetes.io/pod-claim-name": "gpu"})


class World(ClaimsWorld):
    """A world whose controller is connected to its queue but has no workers."""

    def __init__(self, *objects: Object) -> None:
        super().__init__(None, *objects)
        self.controller.connect()

    async def woken(self) -> set[str]:
        return {f"{key.kind} {key.name}" for key in await drained(self.controller.queue)}


START: dict[str, tuple[list[Object], set[str]]] = {
    "nothing": ([], set()),
    "everything is in order": ([GPU, RUNS, IN_USE], set()),
    "a Pod without its claim": ([GPU, WEB], {"Pod web"}),
    "a claim whose Pod was missed": ([IN_USE], {"ResourceClaim web-gpu-x"}),
    "a claim whose Pod has ended": ([RECORDED.bound().phase("Failed"), IN_USE], {"ResourceClaim web-gpu-x"}),
    "a claim that is being deleted": ([MADE.allocated().deleting()], {"ResourceClaim web-gpu-x"}),
    "a PodGroup without its claim": ([GPU, GANG, MEMBER], {"PodGroup gang"}),
}


@pytest.mark.parametrize(("there", "want"), START.values(), ids=START)
async def test_at_the_start(there: list[Object], want: set[str]) -> None:
    assert await World(*there).woken() == want


GONE = object()
CHANGES: dict[str, tuple[list[Object], Any, set[str]]] = {
    "a Pod comes": ([GPU], WEB, {"Pod web"}),
    "a Pod without claims comes": ([GPU], pod(), set()),
    "a Pod runs": ([GPU, RECORDED, IN_USE], RUNS, set()),
    "a Pod ends": ([GPU, RUNS, IN_USE], RUNS.phase("Succeeded"), {"ResourceClaim web-gpu-x"}),
    "a Pod ends that only named a claim": (
        [pod().claims("a").bound(), claim("a").allocated().reserved(pod_entry(WEB))],
        pod().claims("a").bound().phase("Failed"),
        {"ResourceClaim a"},
    ),
    "a Pod ends for whose extended resources there is a claim": (
        [pod().bound(), claim("e").allocated().reserved(pod_entry(WEB)).generated_for(WEB)],
        pod().bound().for_extended_resources("e").phase("Succeeded"),
        {"ResourceClaim e"},
    ),
    "a Pod ends that does not name its claim": (
        [GPU, WEB.bound(), IN_USE],
        WEB.bound().phase("Succeeded"),
        {"ResourceClaim web-gpu-x"},
    ),
    "a Pod is being stopped": ([RUNS, IN_USE], RUNS.deleting(), set()),
    "a Pod is deleted before it got a node": ([RECORDED, IN_USE], RECORDED.deleting(), {"ResourceClaim web-gpu-x"}),
    "a claim is created for a Pod by somebody": ([GPU, RECORDED], MADE, set()),
    "a claim gets allocated": ([RECORDED, MADE], MADE.allocated(), set()),
    "a claim gets allocated, of a Pod that has a node": ([RUNS, MADE], MADE.allocated(), {"Pod web"}),
    "a claim gets reserved": ([RUNS, MADE.allocated()], IN_USE, set()),
    "a finished Pod's entry was taken away, and nothing adds it again": (
        [RUNS.phase("Succeeded"), pod("api").claims("web-gpu-x").bound(), IN_USE.reserved(pod_entry(pod("api")))],
        MADE.allocated().reserved(pod_entry(pod("api"))),
        set(),
    ),
    "a template comes": ([WEB], GPU, {"Pod web"}),
    "a template that nobody waits for comes": ([RECORDED, MADE], GPU, set()),
    "a PodGroup comes": ([GPU, MEMBER], GANG, {"PodGroup gang"}),
    "a PodGroup's claim is there": ([GPU, MEMBER, OF_GANG], GANG, {"PodGroup gang", "Pod web"}),
}


@pytest.mark.parametrize(("there", "change", "want"), CHANGES.values(), ids=CHANGES)
async def test_after_a_change(there: list[Object], change: Any, want: set[str]) -> None:
    world = World(*there)
    await world.woken()
    world.manager.fill([change])
    assert await world.woken() == want


DELETIONS: dict[str, tuple[list[Object], Object, set[str]]] = {
    "a Pod goes": ([RUNS, IN_USE], RUNS, {"ResourceClaim web-gpu-x"}),
    "a Pod goes that does not name its claim, which the garbage collector has deleted": (
        [WEB.bound(), IN_USE.deleting()],
        WEB.bound(),
        {"ResourceClaim web-gpu-x"},
    ),
    "a claim goes that a Pod needs": ([GPU, RECORDED, MADE], MADE, {"Pod web"}),
    "a claim goes that a Pod named": ([pod().claims("a"), claim("a")], claim("a"), set()),
    "a claim goes whose Pod has ended": ([GPU, RUNS.phase("Failed"), MADE], MADE, set()),
    "a PodGroup goes": (
        [
            GANG.generated("gpu", "gang-gpu-x"),
            OF_GANG.allocated().reserved(
                {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-of-gang"}
            ),
        ],
        GANG.generated("gpu", "gang-gpu-x"),
        {"ResourceClaim gang-gpu-x"},
    ),
}


@pytest.mark.parametrize(("there", "goes", "want"), DELETIONS.values(), ids=DELETIONS)
async def test_after_a_deletion(there: list[Object], goes: Object, want: set[str]) -> None:
    world = World(*there)
    await world.woken()
    world.manager.remove(goes)
    assert await world.woken() == want


async def test_after_another_generator_has_stopped_everything_is_reconciled_again() -> None:
    world = World(GPU, WEB, claim("missed").allocated().deleting())
    first = await world.woken()
    world.controller.resync()
    assert (first, await world.woken()) == ({"Pod web", "ResourceClaim missed"}, {"Pod web", "ResourceClaim missed"})
