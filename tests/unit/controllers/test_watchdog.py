"""Gates of others that hold Pods for too long: who is told of it, when, and what the metrics say."""

from collections.abc import Iterable, Sequence

from fakes.clocks import Aged
from fakes.manager import Managed
from objects.builders import CREATED, Pod, SchedulingGate, pod, scheduling_gate
from unit.gates.zones import saying

from controllers import watchdog
from controllers.watchdog.reconcile import TOLD_AT_ONCE
from tollbar.gates import Gate, NotMine
from tollbar.model.objects import Key, Object

GATE, KEY = "kueue.x-k8s.io/admission", Key("", "kueue")
KUEUE: SchedulingGate = scheduling_gate("kueue", GATE).expiring("60s", "Report").but("spec.owners", ["kueue", "root"])
TOLD = f"GateOverdue: held by {GATE} for more than 60s; its owners are kueue, root"


class Api:
    """Answers each write of a status with the object as it was."""

    async def patch(self, *_: object, **__: object) -> Object:
        return KUEUE.but("metadata.resourceVersion", "9")


class Watched(Managed):
    """This SchedulingGate, and Pods that were created at some second after the first."""

    def __init__(self, held: Iterable[Object], gate: Object = KUEUE, classes: Sequence[Gate] = ()) -> None:
        self.time = Aged(0.0)
        super().__init__(Api(), clock=self.time)
        self.controller = watchdog.setup(self, "me", classes)
        self.fill([gate, *held])

    async def said_at(self, age: float, key: Key = KEY) -> list[str]:
        self.time.age = age
        self.told.said.clear()
        await self.controller.reconcile(key)
        return list(self.told.said)

    def measured(self, metric: str, gate: str = GATE) -> float | None:
        return self.metrics.registry.get_sample_value(metric, {"gate": gate})


def held(name: str, second: int = 0) -> Pod:
    return pod(name).gated(GATE).created(CREATED + second)


async def test_each_pod_is_told_of_once_when_it_is_overdue() -> None:
    watched = Watched([held("a"), held("b", 50)])
    said = [await watched.said_at(age) for age in (30, 60, 90, 120, 150)]
    assert said == [[], [f"Pod a: {TOLD}"], [], [f"Pod b: {TOLD}"], []]


async def test_a_process_that_has_just_begun_tells_of_those_that_are_overdue_already_the_oldest_first() -> None:
    watched = Watched([held("young", 11), *(held(f"web-{i}", 10) for i in range(TOLD_AT_ONCE - 1)), held("old")])
    said = await watched.said_at(90)
    assert (len(said), said[0], f"Pod young: {TOLD}" in said) == (TOLD_AT_ONCE, f"Pod old: {TOLD}", False)


async def test_a_limit_that_is_lifted_or_moved_tells_nobody_twice() -> None:
    watched = Watched([held("a")])
    assert await watched.said_at(60) == [f"Pod a: {TOLD}"]
    watched.fill([KUEUE.expiring("10s").but("metadata.generation", 2).but("metadata.resourceVersion", "10")])
    assert await watched.said_at(95) == []


async def test_without_a_clear_limit_nobody_is_overdue_and_tollbars_own_gate_is_the_gates_controllers() -> None:
    ours = scheduling_gate("ours").expiring("60s", "Release")
    endless = Watched([held("a")], KUEUE.but("spec.maxHold", None))
    unclear = Watched([held("a")], KUEUE.expiring("soon", "Report"))
    own = Watched([pod("a").gated().created(CREATED)], ours)
    said = [await endless.said_at(1e6), await unclear.said_at(1e6), await own.said_at(1e6, Key("", "ours"))]
    assert said == [[], [], []]


async def test_where_the_scheduling_gate_of_a_class_is_not_valid_the_limit_of_the_class_applies() -> None:
    gate = saying(lambda _facts: NotMine(), max_hold="90s")
    unclear = scheduling_gate("zone", gate.name).expiring("soon", "Report")
    watched = Watched([pod("a").gated(gate.name).created(CREATED)], unclear, [gate])
    overdue = []
    for watched.time.age in (89, 90):
        overdue.append(watched.measured("tollbar_gate_overdue_pods", gate.name))
    assert overdue == [0, 1]


async def test_the_metrics_of_a_gate_follow_the_pods_and_go_with_the_scheduling_gate() -> None:
    watched = Watched([held("a"), held("b", 50)])
    watched.time.age = 60
    metrics = ("tollbar_gate_held_pods", "tollbar_gate_overdue_pods")
    before = [watched.measured(each) for each in metrics]
    watched.fill([held("b", 50).but("spec.schedulingGates", None)])
    between = [watched.measured(each) for each in metrics]
    watched.remove(KUEUE)
    assert (before, between, [watched.measured(each) for each in metrics]) == ([2, 1], [1, 1], [None, None])
