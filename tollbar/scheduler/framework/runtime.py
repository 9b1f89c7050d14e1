"""One profile at work: its plugins at each extension point, by the contracts of kube-scheduler's framework.

A plugin that raises, or answers what its point does not allow, ends this one Pod's cycle with an Error.

Source: pkg/scheduler/framework/runtime/framework.go.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from types import GeneratorType
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework import interface
from tollbar.scheduler.framework.answers import as_error, ask, finished, nonsense, raised, status_of
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import (
    MAX_SCORE,
    DependsOn,
    Known,
    Mask,
    Nominate,
    PreFilterResult,
    PreFlight,
    Scores,
    Wait,
)
from tollbar.scheduler.framework.points import Metrics, NoMetrics, Plugins, Point
from tollbar.scheduler.framework.reuse import Rejections, Reuse, Reused, Trials
from tollbar.scheduler.framework.status import (
    NOT_CONCERNED,
    SKIP,
    Code,
    Status,
    Steps,
    by_identity,
    failed,
    unresolvable,
)
from tollbar.scheduler.framework.waiting import MAX_WAIT, InBinding, PermitWait, PreBinding, Waits

P = ParamSpec("P")
R = TypeVar("R")
_NO_METRICS: Final = NoMetrics()
_REUSED: Final = "framework/reused"
Rows: TypeAlias = NDArray[np.intp]
"""Places in the order of a snapshot."""


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """What PreFilter of all plugins came to.

    `node_names` are the only Nodes that are worth a look, None for all of them; `plugins` are those that have left some
    out.
    """

    status: Status | None = None
    node_names: frozenset[str] | None = None
    plugins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PluginScores:
    """One plugin's scores, one for each Node; `normalized` are not weighted yet."""

    raw: Scores
    normalized: Scores
    weight: int


@dataclass(frozen=True, slots=True)
class NodeScores:
    """The scores of these Nodes: `totals` are the weighted sums."""

    nodes: Sequence[NodeInfo]
    totals: Scores
    by_plugin: Mapping[str, PluginScores]


def _timed(
    point: Point,
) -> Callable[[Callable[Concatenate["Framework", P], R]], Callable[Concatenate["Framework", P], R]]:
    """Measure an extension point with all its plugins."""

    def decorate(run: Callable[Concatenate["Framework", P], R]) -> Callable[Concatenate["Framework", P], R]:
        def timed(self: "Framework", /, *args: P.args, **kwargs: P.kwargs) -> R:
            started = self.clock()
            result = run(self, *args, **kwargs)
            self.metrics.point(point, _code(result), self.clock() - started)
            return result

        return timed

    return decorate


class Framework:
    """The plugins of the profile `name`, which is the `schedulerName` of its Pods.

    `percentage_of_nodes_to_score` is 0 for the number of Nodes that suits the size of the cluster.  All profiles of a
    scheduler share `in_binding`.
    """

    def __init__(
        self,
        name: str,
        plugins: Plugins,
        handle: Handle,
        *,
        percentage_of_nodes_to_score: int = 0,
        metrics: Metrics = _NO_METRICS,
        in_binding: InBinding | None = None,
    ) -> None:
        self.name = name
        self.plugins = plugins
        self.handle = handle
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.metrics = metrics
        self.clock = handle.monotonic
        self.in_binding = in_binding or InBinding()
        self._reuse = Reuse()
        self._depends_on = {
            each.name: each.depends_on for each in plugins.all().values() if isinstance(each, interface.Reusable)
        }
        self._filters: dict[frozenset[str], tuple[interface.Filter, ...]] = {}
        self._scoring: dict[frozenset[str], tuple[interface.Score, ...]] = {}
        self._filtered = dict.fromkeys((each.name for each in plugins.filter), 0)
        self._vectorised = {each.name: each for each in plugins.filter if isinstance(each, interface.FilterNodes)}
        self._reasoning = {each.name: each for each in plugins.filter if isinstance(each, interface.FilterReasons)}
        self._knowing = [each for each in plugins.filter if isinstance(each, interface.FilterKnown)]
        extensions = [each for each in plugins.pre_filter if isinstance(each, interface.PreFilterExtensions)]
        self._add_pod = tuple((each.name, each.add_pod) for each in extensions)
        self._remove_pod = tuple((each.name, each.remove_pod) for each in extensions)
        self._scores_nodes = {each.name: each for each in plugins.score if isinstance(each, interface.ScoreNodes)}
        self._normalizes = {each.name: each for each in plugins.score if isinstance(each, interface.ScoreExtensions)}
        handle.runner = self
        handle.waiting_pods = self.in_binding.waiting
        handle.pods_in_pre_bind = self.in_binding.pre_binding

    # The scheduling cycle.

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Steps[PreFiltered]:
        """Run PreFilter, and remember in the state whose Filter is not called.

        After Unschedulable all others still run, since preemption needs what they work out.
        """
        started = self.clock()
        unconcerned = self._unconcerned(Point.PRE_FILTER, pod)
        skipped = set(unconcerned)
        result = yield from self._pre_filter(state, pod, nodes, skipped, unconcerned)
        state.skip_filter = frozenset(skipped)
        self.metrics.point(Point.PRE_FILTER, _code(result), self.clock() - started)
        return result

    def _pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Snapshot, skipped: set[str], unconcerned: set[str]
    ) -> Steps[PreFiltered]:
        rejection: Status | None = None
        names: frozenset[str] | None = None
        plugins: set[str] = set()
        for plugin in self.plugins.pre_filter:
            if plugin.name in unconcerned and not state.record_metrics:
                continue
            answer = self._ask(Point.PRE_FILTER, plugin.name, state, plugin.pre_filter, state, pod, nodes)
            if isinstance(answer, GeneratorType):
                answer = yield from finished(answer)
            result = answer if isinstance(answer, PreFilterResult) and isinstance(answer.node_names, Set) else None
            status = status_of(answer) if result is None else None
            if status is not None and status.code is Code.SKIP:
                skipped.add(plugin.name)
                if answer is NOT_CONCERNED:
                    unconcerned.add(plugin.name)
                continue
            skipped.discard(plugin.name)
            unconcerned.discard(plugin.name)
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
                    rejection = status.of(plugin.name)
                case Status(code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                    return PreFiltered(status.of(plugin.name))
                case _:
                    return PreFiltered(as_error(f'running PreFilter plugin "{plugin.name}"', status).of(plugin.name))
        return PreFiltered(rejection, names, frozenset(plugins))

    def _unconcerned(self, point: Point, pod: PodInfo) -> set[str]:
        """The plugins that have said NOT_CONCERNED to a Pod with this `pod.spec` (the fields that scheduling reads).

        They are called only in cycles that record what each plugin takes; another answer than Skip counts from then on.
        """
        found: set[str] = pod.shape.unlabelled.memo.setdefault((self, point), set())
        return found

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

    def filters(self, state: CycleState) -> tuple[interface.Filter, ...]:
        """The plugins whose Filter is called in this cycle."""
        found = self._filters.get(state.skip_filter)
        if found is None:
            found = tuple(each for each in self.plugins.filter if each.name not in state.skip_filter)
            self._filters[state.skip_filter] = found
        return found

    def filter(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Iterable[interface.Filter] | None = None
    ) -> Steps[Status | None]:
        """The first answer of Filter that is no success, of these plugins, by default all of `filters`."""
        for plugin in self.filters(state) if plugins is None else plugins:
            answer = self._ask(Point.FILTER, plugin.name, state, plugin.filter, state, pod, node)
            if isinstance(answer, GeneratorType):
                answer = yield from finished(answer)
            self._filtered[plugin.name] += 1
            if answer is not None and (status := status_of(answer)) is not None:
                if not status.is_rejected:
                    status = as_error(f'running "{plugin.name}" filter plugin', status)
                return status.of(plugin.name)
        return None

    def filtered(self) -> None:
        """Count the calls of `filter` since the last time: once for each Node, that would cost more than some calls."""
        for name, times in self._filtered.items():
            if times:
                self.metrics.evaluated(Point.FILTER, name, times)
                self._filtered[name] = 0

    def filters_of_pods(self, state: CycleState, pod: PodInfo) -> tuple[interface.Filter, ...]:
        """Those of `filters` whose answer may be another one when Pods come to the Node or leave it."""
        return tuple(each for each in self.filters(state) if self._reused(each, state, pod)[1] is not DependsOn.NODE)

    def filter_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Iterable[interface.Filter] | None = None
    ) -> Steps[Status | None]:
        """As `filter`; with Pods of equal or higher priority nominated to the Node, it has to pass without them too.

        They may still go elsewhere: what they take away counts, and what they would bring (Pod affinity) does not.
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

    def _nominated(self, pod: PodInfo, nodes: Snapshot) -> dict[int, tuple[PodInfo, ...]]:
        """`nominated_pods` of all Nodes that have some, by place."""
        names = self.handle.nominator.nominated_nodes()
        found = {place: self.nominated_pods(pod, name) for name in names if (place := nodes.place(name)) is not None}
        return {place: pods for place, pods in found.items() if pods}

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> dict[str, Mask] | Status:
        """The masks of the plugins that can answer for all Nodes at once, by plugin.  No nominated Pods are counted."""
        if (reused := self._reuse.of(pod, nodes)) is not None:
            state.write(_REUSED, reused)
        masks = {}
        for each in self.filters(state):
            if (plugin := self._vectorised.get(each.name)) is not None:
                mask = self._mask(plugin, state, pod, nodes)
                if isinstance(mask, Status):
                    return as_error(f'running "{plugin.name}" filter plugin', mask).of(plugin.name)
                masks[plugin.name] = mask
        return masks

    def filter_known(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> dict[str, Known]:
        """What is known of Nodes by plugins that cannot answer for all of them at once."""
        found = {}
        for plugin in self._knowing:
            if plugin.name not in state.skip_filter:
                known = self._ask(Point.FILTER, plugin.name, state, plugin.filter_known, state, pod, nodes)
                if isinstance(known, Known):
                    found[plugin.name] = known
        return found

    def rejections(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Rejections:
        """What is kept of rejections of Pods with this spec."""
        reused = state.read(_REUSED, Reused)
        kept = Rejections() if reused is None else reused.rejections
        self._update(kept, state, pod, nodes)
        return kept

    def trials(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Trials:
        """What is kept of trials of preemption for Pods with this spec."""
        reused = state.read(_REUSED, Reused)
        kept = Trials() if reused is None else reused.trials
        self._update(kept, state, pod, nodes)
        return kept

    def _update(self, kept: Rejections, state: CycleState, pod: PodInfo, nodes: Snapshot) -> None:
        """Keep what the plugins say before the first whose answers depend on more than the Pod's spec and the Node."""
        filters = self.filters(state)
        first = tuple(takewhile(lambda each: self._reused(each, state, pod)[1] is not None, filters))
        kept.update(first, nodes, is_complete=first == filters, nominated=self._nominated(pod, nodes))

    def filter_reasons(
        self, state: CycleState, pod: PodInfo, nodes: Snapshot, masks: Mapping[str, Mask], told: Sequence[Status | None]
    ) -> list[Status | None] | Status:
        """What is `told` of Nodes, by place in the snapshot, and what the plugins with these masks say of the others.

        Of a Node it is what the first plugin says that rejects it, None where that has to be asked for: all plugins
        before must have masks, too.  No nominated Pods are counted.
        """
        found = list(told)
        left: Mask = np.array([each is None for each in told], np.bool_)
        for each in self.filters(state):
            if each.name not in masks or not left.any():
                break
            rejected, left = left & ~masks[each.name], left & masks[each.name]
            if each.name in self._reasoning and rejected.any():
                reasons = self._reasons(self._reasoning[each.name], state, pod, nodes)
                if isinstance(reasons, Status):
                    return as_error(f'running "{each.name}" filter plugin', reasons).of(each.name)
                for place in rejected.nonzero()[0].tolist():
                    found[place] = reasons[place]
        return found

    def _reasons(
        self, plugin: interface.FilterReasons, state: CycleState, pod: PodInfo, nodes: Snapshot
    ) -> list[Status | None] | Status:
        """In the name of the plugin; one Status is a failure."""
        answer = self._ask(Point.FILTER, plugin.name, state, plugin.filter_reasons, state, pod, nodes)
        if not isinstance(answer, list) or len(answer) != len(nodes):
            return _failure(answer, "a list with an answer for each Node")
        named: dict[int, Status | None] = {}
        for one, each in by_identity(answer).items():
            status = status_of(each)
            if status is not None and not status.is_rejected:
                return status
            named[one] = status.of(plugin.name) if status is not None else None
        return [named[id(each)] for each in answer]

    def _mask(self, plugin: interface.FilterNodes, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask | Status:
        def about_all() -> Mask | Status:
            mask = self._ask(Point.FILTER, plugin.name, state, plugin.filter_nodes, state, pod, nodes)
            self.metrics.evaluated(Point.FILTER, plugin.name, len(nodes))
            if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (len(nodes),):
                return mask
            return _failure(mask, "a mask of the Nodes")

        def about(node: NodeInfo) -> bool:
            answer = self._ask(Point.FILTER, plugin.name, state, plugin.filter, state, pod, node)
            self.metrics.evaluated(Point.FILTER, plugin.name, 1)
            return answer is None

        reused, depends_on = self._reused(plugin, state, pod)
        if reused is None or depends_on is None:
            return about_all()
        return reused.masks.of(plugin.name, depends_on, nodes, about_all, about)

    def _reused(
        self, plugin: interface.Plugin, state: CycleState, pod: PodInfo
    ) -> tuple[Reused | None, DependsOn | None]:
        """What is kept for this Pod, and what the plugin's answers depend on if they can be kept."""
        declared = self._depends_on.get(plugin.name)
        depends_on = ask(declared, pod) if declared is not None else None
        return state.read(_REUSED, Reused), depends_on if isinstance(depends_on, DependsOn) else None

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> Steps[tuple[Nominate | None, Status]]:
        """Let the plugins make room: the nomination, and the status with Success if there is room."""
        started = self.clock()
        result = yield from self._post_filter(state, pod, statuses)
        self.filtered()
        self.metrics.point(Point.POST_FILTER, result[1].code, self.clock() - started)
        return result

    def _post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> Steps[tuple[Nominate | None, Status]]:
        nomination: Nominate | None = None
        reasons: tuple[str, ...] = ()
        for plugin in self.plugins.post_filter:
            started = self.clock() if state.record_metrics else 0.0
            answer = yield from finished(ask(plugin.post_filter, state, pod, statuses))
            nominated, status = _post_filter_answer(answer)
            if state.record_metrics:
                self.metrics.plugin(Point.POST_FILTER, plugin.name, _code(status), self.clock() - started)
            if status is None or status.code is Code.SUCCESS:
                return nominated, status or Status(Code.SUCCESS)
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return nominated, status.of(plugin.name)
            if not status.is_rejected:
                return None, status.of(plugin.name)
            nomination = nominated or nomination
            reasons += status.reasons
        first = self.plugins.post_filter[0].name if self.plugins.post_filter else ""
        return nomination, Status(Code.UNSCHEDULABLE, reasons, first)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Steps[Status | None]:
        """Run PreScore, and remember in the state whose Score is not called."""
        started = self.clock()
        unconcerned = self._unconcerned(Point.PRE_SCORE, pod)
        skipped = set(unconcerned)
        failure: Status | None = None
        for plugin in self.plugins.pre_score:
            if plugin.name in unconcerned and not state.record_metrics:
                continue
            answer = self._ask(Point.PRE_SCORE, plugin.name, state, plugin.pre_score, state, pod, nodes)
            if isinstance(answer, GeneratorType):
                answer = yield from finished(answer)
            status = status_of(answer)
            if status is not None and status.code is Code.SKIP:
                skipped.add(plugin.name)
                if answer is NOT_CONCERNED:
                    unconcerned.add(plugin.name)
                continue
            skipped.discard(plugin.name)
            unconcerned.discard(plugin.name)
            self.metrics.evaluated(Point.PRE_SCORE, plugin.name, 1)
            if status is not None:
                failure = as_error(f'running PreScore plugin "{plugin.name}"', status)
                break
        state.skip_score = frozenset(skipped)
        self.metrics.point(Point.PRE_SCORE, _code(failure), self.clock() - started)
        return failure

    @_timed(Point.SCORE)
    def score(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: Sequence[NodeInfo],
        snapshot: Snapshot | None = None,
        rows: Rows | None = None,
    ) -> NodeScores | Status:
        """Score these Nodes.  With their places in the snapshot, plugins may score all of them at once."""
        raw: dict[str, Scores] = {}
        active = self._scoring.get(state.skip_score)
        if active is None:
            active = tuple(each for each in self.plugins.score if each.name not in state.skip_score)
            self._scoring[state.skip_score] = active
        for plugin in active:
            if rows is not None and snapshot is not None and plugin.name in self._scores_nodes:
                scores = self._score_nodes(self._scores_nodes[plugin.name], state, pod, snapshot, rows)
            else:
                scores = self._score(plugin, state, pod, nodes)
            if isinstance(scores, Status):
                return as_error(f'running Score plugins: plugin "{plugin.name}" failed with', scores)
            raw[plugin.name] = scores
        found = {}
        for plugin in active:
            scores = self._normalized(plugin, state, pod, nodes, raw[plugin.name])
            if isinstance(scores, Status):
                return as_error(f'running Normalize on Score plugins: plugin "{plugin.name}" failed with', scores)
            found[plugin.name] = PluginScores(raw[plugin.name], scores, self.plugins.weights[plugin.name])
        totals = _weighted(found, len(nodes))
        return totals if isinstance(totals, Status) else NodeScores(nodes, totals, found)

    def _score(
        self, plugin: interface.Score, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Scores | Status:
        self.metrics.evaluated(Point.SCORE, plugin.name, len(nodes))
        values = []
        for node in nodes:
            answer = self._score_one(plugin, state, pod, node)
            if isinstance(answer, Status):
                return answer
            values.append(answer)
        return np.array(values, np.int64)

    def _score_one(self, plugin: interface.Score, state: CycleState, pod: PodInfo, node: NodeInfo) -> np.int64 | Status:
        answer = self._ask(Point.SCORE, plugin.name, state, plugin.score, state, pod, node)
        if type(answer) is not int and not isinstance(answer, np.integer):
            return _failure(answer, "a whole number")
        try:
            return np.int64(answer)
        except OverflowError as error:
            return raised(error)

    def _score_nodes(
        self, plugin: interface.ScoreNodes, state: CycleState, pod: PodInfo, nodes: Snapshot, rows: Rows
    ) -> Scores | Status:
        def about_these(rows: Rows) -> Scores | Status:
            self.metrics.evaluated(Point.SCORE, plugin.name, len(rows))
            answer = self._ask(Point.SCORE, plugin.name, state, plugin.score_nodes, state, pod, nodes, rows)
            if isinstance(answer, np.ndarray) and answer.dtype == np.int64 and answer.shape == rows.shape:
                return answer
            return _failure(answer, "an array of scores")

        def about_all() -> Scores | Status:
            return about_these(np.arange(len(nodes)))

        def about(node: NodeInfo) -> np.int64 | Status:
            self.metrics.evaluated(Point.SCORE, plugin.name, 1)
            return self._score_one(plugin, state, pod, node)

        reused, depends_on = self._reused(plugin, state, pod)
        if reused is None or depends_on is None:
            return about_these(rows)
        scores = reused.scores.of(plugin.name, depends_on, nodes, about_all, about)
        return scores if isinstance(scores, Status) else scores[rows]

    def _normalized(
        self, plugin: interface.Score, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], raw: Scores
    ) -> Scores | Status:
        if plugin.name not in self._normalizes:
            return raw
        scores = raw.copy()
        call = self._normalizes[plugin.name].normalize_score
        status = status_of(self._ask(Point.NORMALIZE_SCORE, plugin.name, state, call, state, pod, nodes, scores))
        return scores if status is None else status

    @_timed(Point.RESERVE)
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """The first answer that is no success, upon which the caller has to call `unreserve`."""
        for plugin in self.plugins.reserve:
            answer = self._ask(Point.RESERVE, plugin.name, state, plugin.reserve, state, pod, node_name)
            if (status := status_of(answer)) is not None:
                return _rejection_or_error("Reserve", plugin.name, status)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        """Undo Reserve of all plugins, in reverse order; the Errors of those that raise."""
        started = self.clock()
        failures = []
        for plugin in reversed(self.plugins.reserve):
            answer = self._ask(Point.UNRESERVE, plugin.name, state, plugin.unreserve, state, pod, node_name)
            if isinstance(answer, Status):
                failures.append(as_error(f'running Unreserve plugin "{plugin.name}"', answer).of(plugin.name))
        self.metrics.point(Point.UNRESERVE, Code.SUCCESS, self.clock() - started)
        return failures

    @_timed(Point.PERMIT)
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Waits | None:
        """Whether the Pod may be bound, may not, or has to wait (`add_waiting_pod`)."""
        waits = {}
        for plugin in self.plugins.permit:
            answer = self._ask(Point.PERMIT, plugin.name, state, plugin.permit, state, pod, node_name)
            if isinstance(answer, Wait) and isinstance(answer.seconds, int | float):
                waits[plugin.name] = min(answer.seconds, MAX_WAIT)
            elif (status := status_of(answer)) is not None:
                return _rejection_or_error("Permit", plugin.name, status).of(plugin.name)
        return Waits(waits) if waits else None

    def add_waiting_pod(self, pod: PodInfo, waits: Waits) -> None:
        self.in_binding.waiting[pod.uid] = PermitWait(pod, waits, self.clock())

    # The binding cycle.

    def is_waiting(self, pod: PodInfo) -> bool:
        return pod.uid in self.in_binding.waiting

    async def wait_on_permit(self, pod: PodInfo) -> Status | None:
        """Wait until all plugins allow the Pod, or one rejects it or has let it wait for too long."""
        waiting = self.in_binding.waiting.get(pod.uid)
        if waiting is None:
            return None
        started = self.clock()
        try:
            status = await waiting.decision(self.clock)
        finally:
            del self.in_binding.waiting[pod.uid]
        self.metrics.permit_wait(_code(status), self.clock() - started)
        if status is None or status.is_rejected:
            return status
        return as_error("waiting on permit for pod", status).of(status.plugin)

    @_timed(Point.PRE_BIND_PRE_FLIGHT)
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Success if a PreBind plugin has work to do, Skip if none has, or an Error."""
        skipped, parallel = set(), set()
        for plugin in self.plugins.pre_bind:
            call = plugin.pre_bind_pre_flight
            answer = self._ask(Point.PRE_BIND_PRE_FLIGHT, plugin.name, state, call, state, pod, node_name)
            if isinstance(answer, PreFlight):
                if answer.allow_parallel:
                    parallel.add(plugin.name)
                continue
            status = status_of(answer)
            match status:
                case None:
                    continue
                case Status(code=Code.SKIP):
                    skipped.add(plugin.name)
                case Status(code=Code.ERROR):
                    return as_error(f'running PreBindPreFlight "{plugin.name}"', status)
                case _:
                    return failed(
                        f'PreBindPreFlight {plugin.name} returned "{status.code.value}", which is unsupported.'
                        " It is supposed to return Success, Skip, or Error status"
                    )
        state.skip_pre_bind, state.parallel_pre_bind = frozenset(skipped), frozenset(parallel)
        return None if len(skipped) < len(self.plugins.pre_bind) else SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run PreBind, plugins beside their neighbours where both allow it; the first failure ends the others.

        While it runs the Pod is among `in_binding.pre_binding`, where preemption can end it.
        """
        started = self.clock()
        entry = self.in_binding.pre_binding[pod.uid] = PreBinding()
        try:
            status = await entry.run(self._pre_bind(entry, state, pod, node_name))
        finally:
            del self.in_binding.pre_binding[pod.uid]
        self.metrics.point(Point.PRE_BIND, _code(status), self.clock() - started)
        return status

    async def _pre_bind(self, entry: PreBinding, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for group in self._pre_bind_groups(state):
            entry.plugin = group[0].name
            failures: list[_Failed] = []
            try:
                async with asyncio.TaskGroup() as tasks:
                    for plugin in group:
                        tasks.create_task(self._pre_bind_one(plugin, state, pod, node_name))
            except* _Failed as group:
                failures += [each for each in group.exceptions if isinstance(each, _Failed)]
            if failures:
                return failures[0].status
        return None

    async def _pre_bind_one(self, plugin: interface.PreBind, state: CycleState, pod: PodInfo, node_name: str) -> None:
        answer = await self._await(Point.PRE_BIND, plugin.name, state, plugin.pre_bind, state, pod, node_name)
        if (status := status_of(answer)) is not None:
            raise _Failed(_rejection_or_error("PreBind", plugin.name, status))

    def _pre_bind_groups(self, state: CycleState) -> list[list[interface.PreBind]]:
        groups: list[list[interface.PreBind]] = [[]]
        for plugin in self.plugins.pre_bind:
            is_parallel = plugin.name in state.parallel_pre_bind
            if not is_parallel:
                groups.append([])
            if plugin.name not in state.skip_pre_bind:
                groups[-1].append(plugin)
            if not is_parallel:
                groups.append([])
        return [each for each in groups if each]

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the Pod by the first plugin that does not return Skip; Skip if all do."""
        started = self.clock()
        status = await self._bind(state, pod, node_name)
        self.metrics.point(Point.BIND, _code(status), self.clock() - started)
        return status

    async def _bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin in self.plugins.bind:
            status = status_of(await self._await(Point.BIND, plugin.name, state, plugin.bind, state, pod, node_name))
            if status is None:
                return None
            if status.code is not Code.SKIP:
                return _rejection_or_error("Bind", plugin.name, status)
        return SKIP

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        """Tell all plugins that the Pod is bound; the Errors of those that raise."""
        started = self.clock()
        failures = []
        for plugin in self.plugins.post_bind:
            answer = await self._await(Point.POST_BIND, plugin.name, state, plugin.post_bind, state, pod, node_name)
            if isinstance(answer, Status):
                failures.append(as_error(f'running PostBind plugin "{plugin.name}"', answer).of(plugin.name))
        self.metrics.point(Point.POST_BIND, Code.SUCCESS, self.clock() - started)
        return failures

    # One plugin.

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
        self.metrics.plugin(point, plugin, _code(answer), self.clock() - started)
        return answer

    def _measured(self, steps: Steps[object], point: Point, plugin: str, started: float) -> Steps[object]:
        answer = yield from finished(steps)
        self.metrics.plugin(point, plugin, _code(answer), self.clock() - started)
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
            self.metrics.plugin(point, plugin, _code(answer), self.clock() - started)
        return answer


class _Failed(Exception):
    """One of several plugins that work at the same time has failed."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def _code(answer: object) -> Code:
    """The code under which an answer is counted."""
    match answer:
        case None:
            return Code.SUCCESS
        case Status(code=Code() as code):
            return code
        case PreFiltered(status=Status(code=code)):
            return code
        case (_, Status(code=Code() as code)):
            return code
        case Waits() | Wait():
            return Code.WAIT
    return Code.SUCCESS


def _failure(answer: object, expected: str) -> Status:
    """What an answer says that is not what is expected: a Status of no success, or nonsense."""
    failure = status_of(answer) if isinstance(answer, Status) else None
    return failure or nonsense(answer, expected)


def _weighted(found: Mapping[str, PluginScores], count: int) -> Scores | Status:
    """The weighted sums for so many Nodes; an Error if a plugin's score is out of range."""
    if not found:
        return np.zeros(count, np.int64)
    normalized: Scores = np.array([each.normalized for each in found.values()])
    weights: Scores = np.array([each.weight for each in found.values()])
    if count and (normalized.min() < 0 or normalized.max() > MAX_SCORE):
        place, node = np.argwhere((normalized < 0) | (normalized > MAX_SCORE))[0]
        context = (
            f'applying score defaultWeights on Score plugins: plugin "{list(found)[place]}" returns an invalid score'
        )
        score = normalized[place, node]
        return failed(f"{context} {score}, it should in the range of [0, {MAX_SCORE}] after normalizing")
    return weights @ normalized


def _unsatisfied(plugins: Collection[str]) -> str:
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def _rejection_or_error(point: str, plugin: str, status: Status) -> Status:
    if status.is_rejected:
        return status.of(plugin)
    return as_error(f'running {point} plugin "{plugin}"', status)


def _post_filter_answer(answer: object) -> tuple[Nominate | None, Status | None]:
    if isinstance(answer, tuple) and len(answer) == 2:
        nomination, status = answer
        if nomination is None or isinstance(nomination, Nominate):
            failure = status_of(status)
            return nomination, status if failure is None else failure
    return None, _failure(answer, "a nomination and a Status")
