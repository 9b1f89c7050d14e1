"""What the watches show, as it wakes Pods that wait: the whole scheduler, with an API server in memory."""

from collections.abc import Callable, Mapping

import pytest
from clusters.scheduler import ApiServer, World, enabling, node, scheduling
from fakes.manager import Managed, turns
from objects.builders import claim, device_class, pod
from objects.devices import published, taint_rule

from tollbar.model.objects import Key, Object, labels_of
from tollbar.scheduler.cache.podinfo import Shape, Shapes
from tollbar.scheduler.framework.status import Status, unresolvable
from tollbar.scheduler.queue import Settings

AT_ONCE = Settings(max_backoff=0)
BROKEN = taint_rule("broken", {"key": "broken", "effect": "NoSchedule"})
CLAIM = claim("gpu").request("gpu")
CLUSTER = (node("n1"), device_class(), published("s1", "g0"), CLAIM, pod().claims("gpu"))
CHANGES: dict[str, Callable[[Managed], None]] = {
    "is deleted": lambda manager: manager.remove(BROKEN),
    "is about other devices": lambda manager: manager.fill(
        [BROKEN.but("spec.deviceSelector", {"driver": "nic.example.com"}).but("metadata.resourceVersion", "2")]
    ),
}


@pytest.mark.behaviour(51)
async def test_a_device_without_taint_is_taken_at_once() -> None:
    async with scheduling(*CLUSTER, settings=AT_ONCE) as world:
        await turns(200)
    assert list(world.api.bound.values()) == [["n1"]]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_pod_waits_for_a_device_until_the_rule_that_taints_it(change: Callable[[Managed], None]) -> None:
    async with scheduling(*CLUSTER, BROKEN, settings=AT_ONCE) as world:
        await turns(200)
        before = dict(world.api.bound)
        change(world.manager)
        await turns(200)
    assert (before, list(world.api.bound.values())) == ({}, [["n1"]])


class Doorkeeper:
    """Keeps all Pods waiting, and counts how often it is asked."""

    name = "Doorkeeper"
    asked = 0

    def __init__(self, _args: object, _handle: object) -> None:
        Doorkeeper.asked = 0

    def pre_enqueue(self, _pod: object) -> Status:
        Doorkeeper.asked += 1
        return unresolvable("not yet")


KEPT = enabling("Doorkeeper")


async def test_a_pod_is_asked_about_once_when_scheduling_begins_and_not_for_everything_that_is_listed() -> None:
    nodes = [node(f"n{number}") for number in range(20)]
    world = World(ApiServer([pod(), *nodes]), configuration=KEPT, plugins={"Doorkeeper": Doorkeeper})
    asked = [Doorkeeper.asked]
    for _ in range(2):
        world.lead()
        await turns(20)
        asked.append(Doorkeeper.asked)
        await world.stop()
    assert (asked, world.queue.counts()["gated"]) == ([0, 1, 1], 1)


async def test_what_happens_while_the_queue_is_being_filled_is_not_lost() -> None:
    pods = [pod(f"p{number}") for number in range(250)]
    world = World(ApiServer(pods))
    world.lead()
    await turns(2)
    for each in (pods[0], pods[249]):
        world.manager.remove(each)
    world.manager.fill([pod("new"), pods[248].but("spec.nodeName", "n1").but("metadata.resourceVersion", "999")])
    await turns(2000)
    await world.stop()
    waiting = {each.pod.key.name for place in world.queue.pods_by_queue().values() for each in place}
    assert waiting == {"new", *(f"p{number}" for number in range(1, 248))}


UPDATES: dict[str, tuple[Mapping[str, object], bool]] = {
    "its status": ({"status.nominatedNodeName": "n1"}, False),
    "an annotation": ({"metadata.annotations": {"a": "b"}}, False),
    "its labels": ({"metadata.labels": {"app": "other"}}, False),
    "its spec": ({"spec.tolerations": [{"operator": "Exists"}], "metadata.generation": 2}, True),
    "its Node": ({"spec.nodeName": "n1"}, False),
}


@pytest.mark.parametrize(("changed", "is_looked_for"), UPDATES.values(), ids=UPDATES)
async def test_the_spec_of_a_pod_is_looked_at_again_after_a_change_of(
    changed: Mapping[str, object], is_looked_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape_of = Shapes._shape
    looked: list[Object] = []

    def counted(shapes: Shapes, obj: Object) -> Shape:
        looked.append(obj)
        return shape_of(shapes, obj)

    monkeypatch.setattr(Shapes, "_shape", counted)
    world = World(ApiServer([node("n1"), pod("web").labelled(app="web").but("metadata.generation", 1)]))
    looked.clear()
    update = world.api.find("Pod", "web")
    for field, value in changed.items():
        update = update.but(field, value)
    world.api.store(update)
    world.watch()
    info = world.scheduler._current(Key("ml", "web"))
    assert info is not None
    assert (bool(looked), info.labels) == (is_looked_for, labels_of(world.api.find("Pod", "web")))


def test_a_shape_is_not_reused_after_an_object_of_which_no_record_could_be_made() -> None:
    world = World(ApiServer([node("n1"), pod("web").but("metadata.generation", 1)]))
    other = world.api.find("Pod", "web").but("spec.priority", 7).but("metadata.generation", 2)
    for each in (other.but("status.conditions", ["none"]), other):
        world.api.store(each)
        world.watch()
    info = world.scheduler._current(Key("ml", "web"))
    assert info is not None
    assert info.priority == 7
