"""PreFilter, Filter and PostFilter: whether a Pod can run on a Node, one Node at a time, and what would make room.

Source: pkg/scheduler/framework/runtime/framework.go.
"""

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass
from types import GeneratorType

from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.answers import as_error, ask, completed, failure_of, status_of
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.instrumented import InstrumentedPlugins, code_of
from tollbar.scheduler.framework.interface import DependsOn, Filter, Nominate, PreFilterExtensions, PreFilterResult
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.status import NOT_CONCERNED, Code, Status, unresolvable


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """What PreFilter of all plugins came to.

    `node_names` are the only Nodes that are worth a look, None for all of them; `plugins` are those that have left some
    out.
    """

    status: Status | None = None
    node_names: frozenset[str] | None = None
    plugins: frozenset[str] = frozenset()


class Filtering(InstrumentedPlugins):
    """The extension points that leave Nodes out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._filters: dict[frozenset[str], tuple[Filter, ...]] = {}
        self._filter_calls = dict.fromkeys((each.name for each in self.plugins.filter), 0)
        """How often Filter of each plugin was called since `count_filter_calls`."""
        extensions = [each for each in self.plugins.pre_filter if isinstance(each, PreFilterExtensions)]
        self._add_pod = tuple((each.name, each.add_pod) for each in extensions)
        self._remove_pod = tuple((each.name, each.remove_pod) for each in extensions)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Steps[PreFiltered]:
        """Run PreFilter, and remember in the state whose Filter is not called.

        After Unschedulable all others still run, since preemption needs what they work out.
        """
        started = self.clock()
        unconcerned = self._unconcerned(Point.PRE_FILTER, state, pod)
        skipped = set(unconcerned)
        result = yield from self._pre_filter(state, pod, nodes, skipped, unconcerned)
        state.skip_filter = frozenset(skipped)
        self.metrics.point(Point.PRE_FILTER, code_of(result.status), self.clock() - started)
        return result

    def _pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Snapshot, skipped: set[str], unconcerned: set[str]
    ) -> Steps[PreFiltered]:
        rejection: Status | None = None
        names: frozenset[str] | None = None
        plugins: set[str] = set()
        for plugin in self.plugins.pre_filter:
            if plugin.name in unconcerned:
                continue
            answer = self._ask(Point.PRE_FILTER, plugin.name, state, plugin.pre_filter, state, pod, nodes)
            if isinstance(answer, GeneratorType):
                answer = yield from completed(answer)
            result = answer if isinstance(answer, PreFilterResult) and isinstance(answer.node_names, Set) else None
            status = status_of(answer) if result is None else None
            if status is not None and status.code is Code.SKIP:
                skipped.add(plugin.name)
                if answer is NOT_CONCERNED:
                    unconcerned.add(plugin.name)
                continue
            self.metrics.evaluated(Point.PRE_FILTER, plugin.name, 1)
            if result is not None:
                plugins.add(plugin.name)
                names = frozenset(result.node_names) if names is None else names & result.node_names
                if not names:
                    return PreFiltered(unresolvable(_unsatisfied(plugins)), names, frozenset(plugins))
                continue
            match status:
                case None:
                    continue
                case Status(code=Code.UNSCHEDULABLE):
                    rejection = status.with_plugin(plugin.name)
                case Status(code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                    return PreFiltered(status.with_plugin(plugin.name))
                case _:
                    failure = as_error(f'running PreFilter plugin "{plugin.name}"', status)
                    return PreFiltered(failure.with_plugin(plugin.name))
        return PreFiltered(rejection, names, frozenset(plugins))

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        return self._extend(Point.PRE_FILTER_ADD_POD, "AddPod", self._add_pod, state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        return self._extend(Point.PRE_FILTER_REMOVE_POD, "RemovePod", self._remove_pod, state, pod, removed, node)

    def _extend(
        self,
        point: Point,
        method: str,
        calls: Iterable[tuple[str, Callable[..., object]]],
        state: CycleState,
        pod: PodInfo,
        changed: PodInfo,
        node: NodeInfo,
    ) -> Status | None:
        for name, call in calls:
            if name not in state.skip_filter:
                answer = self._ask(point, name, state, call, state, pod, changed, node)
                if (status := status_of(answer)) is not None:
                    return as_error(f'running {method} on PreFilter plugin "{name}"', status)
        return None

    def filters(self, state: CycleState) -> tuple[Filter, ...]:
        """The plugins whose Filter is called in this cycle."""
        found = self._filters.get(state.skip_filter)
        if found is None:
            found = tuple(each for each in self.plugins.filter if each.name not in state.skip_filter)
            self._filters[state.skip_filter] = found
        return found

    def filter(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Iterable[Filter] | None = None
    ) -> Steps[Status | None]:
        """The first answer of Filter that is no success, of these plugins, by default all of `filters`."""
        for plugin in self.filters(state) if plugins is None else plugins:
            answer = self._ask(Point.FILTER, plugin.name, state, plugin.filter, state, pod, node)
            if isinstance(answer, GeneratorType):
                answer = yield from completed(answer)
            self._filter_calls[plugin.name] += 1
            if answer is not None and (status := status_of(answer)) is not None:
                if not status.is_rejected:
                    status = as_error(f'running "{plugin.name}" filter plugin', status)
                return status.with_plugin(plugin.name)
        return None

    def count_filter_calls(self) -> None:
        """Add the calls of Filter to the metrics, many at a time: after each call it could cost more than the call."""
        for name, times in self._filter_calls.items():
            if times:
                self.metrics.evaluated(Point.FILTER, name, times)
                self._filter_calls[name] = 0

    def filters_of_pods(self, state: CycleState, pod: PodInfo) -> tuple[Filter, ...]:
        """Those of `filters` whose answer may be another one once a Pod was added to the Node, or removed from it."""
        return tuple(each for each in self.filters(state) if self._depends_on(each, pod) is not DependsOn.NODE)

    def filter_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Iterable[Filter] | None = None
    ) -> Steps[Status | None]:
        """As `filter`; with Pods of equal or higher priority nominated to the Node, it has to pass without them too.

        They may still go elsewhere.  So the Pod gets none of what they would take, and does not rely on what they would
        bring, such as a Pod that its affinity asks for.
        """
        if added := self.nominated_pods(pod, node.name):
            trial, trial_node = state.clone(), node.copy()
            for each in added:
                trial_node.add_pod(each)
                if (status := self.add_pod(trial, pod, each, trial_node)) is not None:
                    return status
            if (status := (yield from self.filter(trial, pod, trial_node, plugins))) is not None:
                return status
        return (yield from self.filter(state, pod, node, plugins))

    def nominated_pods(self, pod: PodInfo, node_name: str) -> tuple[PodInfo, ...]:
        """The Pods nominated to a Node that count for this Pod: the others, of equal or higher priority."""
        if node_name not in self.handle.nominator.nominated_nodes():
            return ()
        pods = self.handle.nominator.nominated_pods(node_name)
        return tuple([each for each in pods if each.priority >= pod.priority and each.uid != pod.uid])

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> Steps[tuple[Nominate | None, Status]]:
        """Let the plugins make room: the nomination, and the status with Success if there is room."""
        started = self.clock()
        result = yield from self._post_filter(state, pod, statuses)
        self.count_filter_calls()
        self.metrics.point(Point.POST_FILTER, result[1].code, self.clock() - started)
        return result

    def _post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> Steps[tuple[Nominate | None, Status]]:
        nomination: Nominate | None = None
        reasons: tuple[str, ...] = ()
        for plugin in self.plugins.post_filter:
            started = self.clock() if state.record_metrics else 0.0
            answer = yield from completed(ask(plugin.post_filter, state, pod, statuses))
            nominated, status = _post_filter_answer(answer)
            if state.record_metrics:
                self.metrics.plugin(Point.POST_FILTER, plugin.name, code_of(status), self.clock() - started)
            if status is None or status.code is Code.SUCCESS:
                return nominated, status or Status(Code.SUCCESS)
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return nominated, status.with_plugin(plugin.name)
            if not status.is_rejected:
                return None, status.with_plugin(plugin.name)
            nomination = nominated or nomination
            reasons += status.reasons
        first = self.plugins.post_filter[0].name if self.plugins.post_filter else ""
        return nomination, Status(Code.UNSCHEDULABLE, reasons, first)


def _unsatisfied(plugins: Collection[str]) -> str:
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def _post_filter_answer(answer: object) -> tuple[Nominate | None, Status | None]:
    if isinstance(answer, tuple) and len(answer) == 2:
        nomination, status = answer
        if nomination is None or isinstance(nomination, Nominate):
            failure = status_of(status)
            return nomination, status if failure is None else failure
    return None, failure_of(answer, "a nomination and a Status")
