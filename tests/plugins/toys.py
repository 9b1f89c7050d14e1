"""A small scheduler for tests of the framework: plugins that answer as they are told, and what they run on."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from tollbar.model.objects import Object
from tollbar.model.steps import Steps, result_of
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Mask, Places, Scores
from tollbar.scheduler.framework.metrics import NO_METRICS, Metrics, NoMetrics
from tollbar.scheduler.framework.points import Plugins
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import Code, Status, unschedulable

Answers = Mapping[str, Any]
SHAPES = Shapes()


def pod_info(name: str = "web", *, priority: int = 0, nominated: str = "") -> PodInfo:
    return SHAPES.pod_info(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"priority": priority, "containers": [{"name": "main"}]},
            "status": {"nominatedNodeName": nominated} if nominated else {},
        }
    )


POD = pod_info()
BOOM = ValueError("boom")
PENDING = Status(Code.PENDING, ("wait for it",))


def node(name: str) -> Object:
    return {"metadata": {"name": name}}


def snapshot(*names: str) -> Snapshot:
    return Snapshot.of([node(name) for name in names])


@dataclass
class Nominations:
    """May change in place: whoever asks for the version has to look again."""

    by_node: Mapping[str, Sequence[PodInfo]] = field(default_factory=dict)
    _versions: Iterator[int] = field(default_factory=count)

    @property
    def version(self) -> int:
        return next(self._versions)

    def node_of(self, uid: str) -> str:
        return next((node for node, pods in self.by_node.items() if uid in [each.uid for each in pods]), "")

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return self.by_node.get(node_name, ())

    def nominated_nodes(self) -> Any:
        return self.by_node.keys()


def handle(
    nominated: Mapping[str, Sequence[PodInfo]] | None = None,
    clock: Callable[[], float] = float,
    metrics: Metrics = NO_METRICS,
) -> Handle:
    calls: Any = None  # no toy calls the API
    nominations = Nominations(nominated or {})
    return Handle(Snapshot(), nominations, None, calls, now=clock, monotonic=clock, metrics=metrics)


def framework(*plugins: object, weights: Mapping[str, int] | None = None, **given: Any) -> Framework:
    """A profile with these plugins at every point that they implement."""
    own = given.pop("handle", None) or handle(given.pop("nominated", None))
    return Framework("toys", Plugins.of(*plugins, weights=weights), own, **given)


def done(steps: Any) -> Any:
    """The result of work that can be paused, without a pause; any other answer as it is."""
    return result_of(steps) if isinstance(steps, Generator) else steps


def answer(given: Any) -> Any:
    if isinstance(given, Exception):
        raise given
    return given


def error(reason: str, plugin: str = "") -> Status:
    return Status(Code.ERROR, (reason,), plugin)


def without_cause(status: Status | None) -> Status | None:
    """The same, without the exception that it came from."""
    return None if status is None else Status(status.code, status.reasons, status.plugin)


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


class PreFilterToy(Named):
    def __init__(self, name: str, given: Any = None) -> None:
        super().__init__(name)
        self.given = given

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Any:
        return answer(self.given)


class FilterToy(Named):
    """Answers by the name of the Node; of a Node that it does not know, success.

    With `shuns_company` it rejects Nodes that have a Pod.
    """

    def __init__(self, name: str, given: Answers | None = None, *, shuns_company: bool = False) -> None:
        super().__init__(name)
        self.given = given or {}
        self.shuns_company = shuns_company
        self.asked: list[str] = []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Any:
        self.asked.append(node.name)
        if self.shuns_company and node.pods:
            return unschedulable("taken")
        return answer(self.given.get(node.name))


class SlowFilterToy(FilterToy):
    """Pauses before it answers."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Steps[Status | None]:
        yield
        return super().filter(state, pod, node)  # type: ignore[no-any-return]


class MaskToy(FilterToy):
    """Answers for all Nodes at once too."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        return np.array([self.given.get(each.name) is None for each in nodes], np.bool_)


class ReasonsToy(MaskToy):
    """Says for all Nodes at once also why it rejects them."""

    def filter_reasons(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Any:
        return [answer(self.given.get(each.name)) for each in nodes]


class ScoreToy(Named):
    """Scores by the name of the Node, 0 for one that it does not know."""

    def __init__(self, name: str, given: Answers | None = None) -> None:
        super().__init__(name)
        self.given = given or {}

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Any:
        return answer(self.given.get(node.name, 0))


class ScoreNodesToy(ScoreToy):
    """Scores several Nodes at once too."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        return np.array([self.given.get(nodes.nodes[place].name, 0) for place in places], np.int64)


class Measured(NoMetrics):
    """Notes what is measured, without the times."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def point(self, point: Any, code: Code, seconds: float) -> None:
        self.noted.append(f"{point.value}: {code.value} after {seconds:g}")

    def plugin(self, point: Any, plugin: str, code: Code, seconds: float) -> None:
        self.noted.append(f"{point.value} of {plugin}: {code.value} after {seconds:g}")

    def evaluated(self, point: Any, plugin: str, times: int) -> None:
        self.noted.append(f"{point.value} of {plugin} {times} times")

    def permit_wait(self, code: Code, seconds: float) -> None:
        self.noted.append(f"waited: {code.value} after {seconds:g}")
