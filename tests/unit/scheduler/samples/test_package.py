"""The package of sample plugins: it is found once it is installed, and schedules by the example's configuration."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from plugins.samples import ENTRY_POINTS, EXAMPLE, install
from plugins.tables import handle
from plugins.toys import Nominations, done

from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.waiting import Waits
from tollbar.scheduler.plugins import registry


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for path in install(tmp_path):
        monkeypatch.syspath_prepend(path)
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] == "sample_plugins"]:
        del sys.modules[name]


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLE / name).read_text()))


@pytest.mark.behaviour(35)
def test_every_plugin_is_found_under_its_name() -> None:
    found = registry.available()

    assert {name: getattr(found[name], "name", "") for name in ENTRY_POINTS} == {name: name for name in ENTRY_POINTS}


@dataclass
class World:
    """A scheduler without a queue and an API server, with the example's configuration."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    cache: Cache = field(default_factory=Cache)

    def __post_init__(self) -> None:
        shapes = Shapes()
        self.pods = {
            pod["metadata"]["name"]: shapes.pod_info(pod)
            for file in ("pod.yaml", "group.yaml")
            for pod in map(created, documents(file))
        }
        self.handle = handle(self.snapshot, pods=[each.object for each in self.pods.values()])
        self.handle.nominator = Nominations()
        self.handle.activate = lambda pods: self.activated.extend(each.key.name for each in pods)
        self.activated: list[str] = []
        (profile,) = registry.configuration((EXAMPLE / "scheduler.yaml").read_text()).profiles
        plugins = registry.plugins(profile, registry.available(), self.handle)
        self.framework = Framework(profile.scheduler_name, plugins, self.handle)

    def add_nodes(self, file: str) -> None:
        for node in documents(file):
            self.cache.set_node(node)

    def schedule(self, name: str) -> str:
        """One cycle of this Pod: where it goes, or why it goes nowhere."""
        state, pod = CycleState(), self.pods[name]
        self.snapshot.update(self.cache)
        found = done(schedule_pod(self.framework, state, pod, self.snapshot, 0)).result
        if not isinstance(found, Scheduled):
            return str(found)
        assumed = replace(pod, node_name=found.node_name)
        self.cache.assume(assumed)
        assert self.framework.reserve(state, assumed, found.node_name) is None
        answer = self.framework.permit(state, assumed, found.node_name)
        if isinstance(answer, Waits):
            self.framework.add_waiting_pod(assumed, answer)
            return f"waits for {found.node_name}"
        return found.node_name

    def give_up(self, assumed: PodInfo) -> None:
        """As when Permit has rejected a Pod."""
        self.framework.unreserve(CycleState(), assumed, assumed.node_name)
        self.cache.forget(assumed)


def created(pod: Any) -> Any:
    """As the API server keeps it."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "namespace": "default", "uid": f"uid-{meta['name']}"}}


def test_the_configuration_puts_each_at_its_points() -> None:
    found = World().framework.plugins

    assert (
        [each.name for each in found.queue_sort],
        [each.name for each in found.permit],
        [each.name for each in found.reserve if each.name in ENTRY_POINTS],
        found.weights["NodeMetadata"],
    ) == (["QOSSort"], ["Coscheduling"], ["Coscheduling"], 10)


def test_a_pod_goes_to_the_node_with_the_highest_rank() -> None:
    world = World()
    world.add_nodes("nodes.yaml")

    assert world.schedule("ranked") == "sample-2"


def test_a_group_waits_until_all_of_it_fits() -> None:
    world = World()
    world.add_nodes("nodes.yaml")
    before = [world.schedule(f"trio-{number}") for number in (1, 2, 3)]
    world.add_nodes("third-node.yaml")
    last = world.schedule("trio-3")
    waiting = world.framework.in_binding.waiting

    assert (before, world.activated, last, [(each.pending_plugins, each.status) for each in waiting.values()]) == (
        [
            "waits for sample-2",
            "waits for sample-1",
            "0/2 nodes are available: 2 Insufficient cpu.",
        ],
        ["trio-2", "trio-3"],
        "sample-3",
        [([], None), ([], None)],
    )


def test_a_group_that_does_not_fit_gives_back_what_it_holds() -> None:
    world = World()
    world.add_nodes("nodes.yaml")
    for number in (1, 2):
        world.schedule(f"trio-{number}")
    first, second = world.framework.in_binding.waiting.values()
    first.expire(now=30.0)
    world.give_up(first.pod)

    assert [each.status.message for each in (first, second) if each.status] == [
        "rejected due to timeout after waiting 30s at plugin Coscheduling",
        "pod trio-1 of the same group could not be scheduled",
    ]
