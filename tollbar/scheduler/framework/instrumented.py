"""The plugins of one profile, and how one of them is called, whatever the extension point.

What a plugin raises becomes an Error, and what it took is measured in the cycles that record it.  Plugins that need not
be called, because of what they have said of a Pod with the same spec, are remembered here as well.

Source: instrumented_plugins.go and framework.go in pkg/scheduler/framework/runtime.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Concatenate, Final, ParamSpec, TypeVar

from tollbar.model.steps import Steps
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.answers import ask, completed, raised
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import DependsOn, Plugin, Reusable, Wait
from tollbar.scheduler.framework.points import Plugins, Point
from tollbar.scheduler.framework.status import Code, Status
from tollbar.scheduler.framework.waiting import InBinding, Waits

F = TypeVar("F", bound="InstrumentedPlugins")
P = ParamSpec("P")
R = TypeVar("R")
REUSED: Final = "framework/reused"
"""The key under which the CycleState has the `Reused` of the Pod's spec, if there is one."""


def timed(point: Point) -> Callable[[Callable[Concatenate[F, P], R]], Callable[Concatenate[F, P], R]]:
    """Measure an extension point with all its plugins."""

    def decorate(run: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
        def measured(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R:
            started = self.clock()
            result = run(self, *args, **kwargs)
            self.metrics.point(point, code_of(result), self.clock() - started)
            return result

        return measured

    return decorate


@dataclass(eq=False, repr=False)
class InstrumentedPlugins:
    """The plugins of the profile `name`, which is the `schedulerName` of its Pods.

    `percentage_of_nodes_to_score` is 0 for the number of Nodes that suits the size of the cluster.  All profiles of a
    scheduler share `in_binding`.
    """

    name: str
    plugins: Plugins
    handle: Handle
    percentage_of_nodes_to_score: int = field(default=0, kw_only=True)
    in_binding: InBinding = field(default_factory=InBinding, kw_only=True)

    def __post_init__(self) -> None:
        self.clock = self.handle.monotonic
        self.metrics = self.handle.metrics
        self._reusable = {each.name: each for each in self.plugins.all().values() if isinstance(each, Reusable)}

    def _ask(self, point: Point, plugin: str, state: CycleState, call: Callable[..., object], *args: object) -> object:
        """The answer of a plugin, or a generator that works it out; an Error if the plugin raises."""
        if not state.record_metrics:
            try:
                return call(*args)
            except Exception as error:
                return raised(error)
        started = self.clock()
        answer = ask(call, *args)
        if isinstance(answer, GeneratorType):
            return self._measured(answer, point, plugin, started)
        self.metrics.plugin(point, plugin, code_of(answer), self.clock() - started)
        return answer

    def _measured(self, steps: Steps[object], point: Point, plugin: str, started: float) -> Steps[object]:
        answer = yield from completed(steps)
        self.metrics.plugin(point, plugin, code_of(answer), self.clock() - started)
        return answer

    async def _await(
        self, point: Point, plugin: str, state: CycleState, call: Callable[..., Awaitable[object]], *args: object
    ) -> object:
        started = self.clock()
        answer: object
        try:
            answer = await call(*args)
        except Exception as error:
            answer = raised(error)
        if state.record_metrics:
            self.metrics.plugin(point, plugin, code_of(answer), self.clock() - started)
        return answer

    def _unconcerned(self, point: Point, state: CycleState, pod: PodInfo) -> set[str]:
        """The plugins that have said NOT_CONCERNED to a Pod with this `pod.spec` (the fields that scheduling reads).

        They are not called.  A cycle that records what each plugin takes begins without any: all are asked anew.
        """
        found: set[str] = pod.shape.unlabelled.memo.setdefault((self, point), set())
        if state.record_metrics:
            found.clear()
        return found

    def _depends_on(self, plugin: Plugin, pod: PodInfo) -> DependsOn | None:
        """What the plugin's answers about this Pod depend on; None if they cannot be kept for others."""
        reusable = self._reusable.get(plugin.name)
        depends_on = ask(reusable.depends_on, pod) if reusable is not None else None
        return depends_on if isinstance(depends_on, DependsOn) else None


def code_of(answer: object) -> Code:
    """The code under which an answer is counted."""
    match answer:
        case None:
            return Code.SUCCESS
        case Status(code=Code() as code):
            return code
        case Waits() | Wait():
            return Code.WAIT
    return Code.SUCCESS
