"""What the parts of the scheduler come to together: all of it, with an API server in memory, and time that is quick.

The numbers are those of docs/reference/scheduler-behaviours.md.
"""

import asyncio
import gc
from typing import Any

import pytest
from clusters.scheduler import ApiServer, World, enabling, node, scheduling, settled
from objects.builders import Built, Pod, claim, device_class, pod
from objects.devices import device, published

from controllers.scheduler.cycle import Attempt
from tollbar import cel
from tollbar.model.objects import Object, metadata
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.status import Status, unschedulable
from tollbar.scheduler.queue.queued import QueuedPod

pytestmark = pytest.mark.looptime
GPU = device_class()
N1 = node("n1")
SLICE = published("s1", "g0", "g1")


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    """The first expression that is compiled loads what compiling needs, which blocks."""
    cel.engine().compile("true", cel.DEVICE_ENV)


def wanting(name: str, cpu: str = "1") -> Pod:
    return pod(name).but("spec.containers", []).wants({"cpu": cpu})


def devices(found: Object) -> list[str]:
    return [each["device"] for each in found["status"]["allocation"]["devices"]["results"]]


def users(found: Object) -> list[str]:
    return sorted(each["uid"] for each in found["status"]["reservedFor"])


def alive() -> tuple[int, int]:
    """What there is of attempts, and tasks."""
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, Attempt | CycleState | QueuedPod | PodInfo)]
    return len(kept), len(asyncio.all_tasks())


@pytest.mark.behaviour(25)
async def test_nothing_is_left_of_attempts_that_are_over() -> None:
    async with scheduling(N1, GPU, SLICE) as world:
        before = None
        for number in range(20):
            fits, devoted = wanting(f"fits-{number}", "10m"), wanting(f"devoted-{number}", "10m").claims(f"c-{number}")
            given = (fits, devoted, wanting(f"large-{number}", "100"), claim(f"c-{number}").request("gpu"))
            stored = [world.api.store(each) for each in given]
            world.api.faults.extend(["refused", "ok", "down", "conflict"])
            await settled(world)
            for each in stored:
                world.api.drop(each)
            await settled(world)
            before = before or alive()
        assert (alive(), world.assumed()) == (before, 0)


class Watcher:
    """Says what it is asked, and takes a second to bind."""

    name = "Watcher"

    def __init__(self) -> None:
        self.said: list[str] = []

    def pre_filter(self, _state: object, given: PodInfo, _nodes: object) -> Any:
        self.said.append(f"{given.key.name} is looked at")
        yield  # others may run
        return None

    def filter(self, *_: object) -> None:
        return None

    def reserve(self, _state: object, given: PodInfo, _node_name: str) -> None:
        self.said.append(f"{given.key.name} gets a Node")

    def unreserve(self, *_: object) -> None:
        pass

    def pre_bind_pre_flight(self, *_: object) -> None:
        return None

    async def pre_bind(self, _state: object, given: PodInfo, _node_name: str) -> None:
        self.said.append(f"{given.key.name} is being bound")
        await asyncio.sleep(1)
        self.said.append(f"{given.key.name} can be bound")


@pytest.mark.behaviour(26)
async def test_cycles_come_one_after_the_other_and_bindings_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.scheduler.cycle._TURN", -1.0)  # a turn for others at every step
    watcher = Watcher()
    configuration = enabling("Watcher")
    given = [N1, *map(wanting, "abc")]
    async with scheduling(*given, plugins={"Watcher": lambda *_: watcher}, configuration=configuration) as world:
        await settled(world)
    cycles = [each for each in watcher.said if each.endswith(("looked at", "a Node"))]
    bindings = [each[2:] for each in watcher.said if each.endswith("bound")]
    order = [each[0] for each in cycles[::2]]
    assert sorted(order) == ["a", "b", "c"]
    assert cycles == [f"{name} {what}" for name in order for what in ("is looked at", "gets a Node")]
    assert bindings == ["is being bound"] * 3 + ["can be bound"] * 3


@pytest.mark.behaviour(33)
async def test_a_standby_keeps_its_caches_and_schedules_nothing_until_it_leads() -> None:
    world = World(ApiServer([N1, wanting("a")]))
    world.api.store(wanting("b"))
    await settled(world)
    before = (world.api.calls.copy(), sum(world.queue.counts().values()))
    world.lead()
    await settled(world)
    await world.stop()
    assert (before, sorted(world.api.bound)) == (([], 0), ["uid-of-a", "uid-of-b"])


@pytest.mark.behaviour(39, 59)
async def test_fields_of_a_control_plane_controller_mean_nothing_and_its_kind_is_not_read() -> None:
    classic = claim().request("gpu").but("spec.controller", "driver.example.com")
    classic = classic.but("status.deallocationRequested", True).but("spec.allocationMode", "WaitForFirstConsumer")
    async with scheduling(N1, GPU.but("spec.suitableNodes", {}), SLICE, classic, pod().claims("gpu")) as world:
        await settled(world)
        kinds = {store.resource.kind for store in world.manager.caches.stores.values()}
        assert (devices(world.api.find("ResourceClaim", "gpu")), len(world.api.bound)) == (["g0"], 1)
        assert not kinds & {"PodScheduling", "PodSchedulingContext", "ResourceClass", "ResourceClaimParameters"}


@pytest.mark.behaviour(44)
async def test_a_claim_gets_devices_only_with_a_pod_that_gets_a_node() -> None:
    held = pod().claims("gpu").gated("example.com/quota")
    too_large = wanting("large", "100").claims("other")
    given = (N1, GPU, SLICE, claim().request("gpu"), claim("other").request("gpu"), held, too_large)
    async with scheduling(*given) as world:
        await settled(world)
        before = [each for each in world.api.calls if "ResourceClaim" in each]
        world.api.store(world.api.find("Pod", "web").but("spec.schedulingGates", None))
        await settled(world)
        allocated = [metadata(each)["name"] for each in world.api.all("ResourceClaim") if "status" in each]
        assert (before, allocated) == ([], ["gpu"])


@pytest.mark.behaviour(49)
async def test_equal_names_in_two_namespaces_are_two_things() -> None:
    def of(namespace: str, given: Built) -> Built:
        return given.but("metadata.uid", f"{given['kind']} of {namespace}")

    spaces = ("ml", "web")
    claims = [of(each, claim("gpu", each).request("gpu")) for each in spaces]
    pods = [of(each, pod("web", each).claims("gpu")) for each in spaces]
    async with scheduling(N1, GPU, SLICE, *claims, *pods) as world:
        await settled(world)
        found = [world.api.find("ResourceClaim", "gpu", each) for each in spaces]
        assert [users(each) for each in found] == [["Pod of ml"], ["Pod of web"]]
        assert sorted(each for one in found for each in devices(one)) == ["g0", "g1"]
        assert sorted(world.api.bound) == ["Pod of ml", "Pod of web"]


@pytest.mark.behaviour(52)
async def test_a_slow_answer_holds_up_no_other_pod() -> None:
    async with scheduling(N1, GPU, SLICE, claim().request("gpu"), pod("slow").claims("gpu")) as world:
        world.api.faults.extend(["hangs after"] * 2)
        await asyncio.sleep(1)
        for name in "abc":
            world.api.store(wanting(name))
        world.watch()
        await asyncio.sleep(1)
        before = list(world.api.bound)
        await settled(world)
        assert (sorted(before), list(world.api.bound)[3:]) == (["uid-of-a", "uid-of-b", "uid-of-c"], ["uid-of-slow"])


@pytest.mark.behaviour(53)
async def test_pods_that_share_a_claim_reserve_it_in_turn() -> None:
    names = [f"p{number}" for number in range(8)]
    sharing = [pod(name).claims("gpu") for name in names]
    async with scheduling(N1, GPU, SLICE, claim().request("gpu")) as world:
        world.api.latency = 0.1
        for each in sharing:
            world.api.store(each)
        await settled(world)
        uids = [f"uid-of-{name}" for name in names]
        assert (users(world.api.find("ResourceClaim", "gpu")), sorted(world.api.bound)) == (uids, uids)
        assert world.api.calls.count("replace ResourceClaim gpu status") == len(names)


async def test_who_shares_a_claim_goes_on_when_the_pod_that_was_to_get_it_allocated_is_gone() -> None:
    """Its allocation was not written, so that no object has changed by which others hear of that."""
    first = pod("first").claims("gpu")
    async with scheduling(N1, GPU, SLICE, claim().request("gpu"), first) as world:
        world.api.latency = 1.0
        world.api.broken.add("replace")
        await asyncio.sleep(0.5)
        world.api.store(pod("second").claims("gpu"))
        world.watch()
        await asyncio.sleep(0.1)
        world.api.drop(first)
        world.watch()
        await asyncio.sleep(1)
        world.api.broken.clear()
        for _ in range(12):
            await asyncio.sleep(5)
            world.watch()
        assert list(world.api.bound) == ["uid-of-second"]


@pytest.mark.behaviour(58)
async def test_each_claim_of_a_pod_gets_what_it_asks_for_itself() -> None:
    colours = ("red", "green", "blue")
    classes = [
        device_class(each).selecting(f'device.attributes["gpu.example.com"].colour == "{each}"') for each in colours
    ]
    slices = published("s1", *(device(f"g-{each}", colour=each) for each in reversed(colours)))
    claims = [claim(f"c-{each}").request(each) for each in colours]
    async with scheduling(N1, *classes, slices, *claims, pod().claims(*(f"c-{each}" for each in colours))) as world:
        await settled(world)
        found = {each: world.api.find("ResourceClaim", f"c-{each}") for each in colours}
        assert {each: (devices(made), users(made)) for each, made in found.items()} == {
            each: ([f"g-{each}"], ["uid-of-web"]) for each in colours
        }


class Refuser:
    """Refuses all Pods in Permit, and does not say by which events they are to be woken."""

    name = "Refuser"

    def __init__(self) -> None:
        self.asked = 0

    def permit(self, *_: object) -> Status:
        self.asked += 1
        return unschedulable("no")


@pytest.mark.parametrize("web", [pod("web"), pod("web").claims("gpu")], ids=["without devices", "with devices"])
async def test_a_pod_is_not_woken_by_the_devices_that_it_has_given_back(web: Pod) -> None:
    refuser = Refuser()
    given = (N1, GPU, SLICE, claim().request("gpu"), web)
    async with scheduling(*given, plugins={"Refuser": lambda *_: refuser}, configuration=enabling("Refuser")) as world:
        world.watch()
        await asyncio.sleep(120)
    assert refuser.asked <= 2  # and once by the write of its own status
