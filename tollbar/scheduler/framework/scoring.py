"""PreScore, Score and NormalizeScore: how well the Nodes that fit suit a Pod.

Source: pkg/scheduler/framework/runtime/framework.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import TypeAlias

import numpy as np

from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.answers import as_error, completed, failure_of, raised, status_of
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.instrumented import REUSED, InstrumentedPlugins, code_of, timed
from tollbar.scheduler.framework.interface import MAX_SCORE, Places, Score, ScoreExtensions, ScoreNodes, Scores
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.reuse import Reused
from tollbar.scheduler.framework.status import NOT_CONCERNED, Code, Status, failed

_Scored: TypeAlias = Scores | Status
_ScoredOne: TypeAlias = np.int64 | Status
"""They have names because annotations of nested functions are evaluated whenever these are made."""


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


class Scoring(InstrumentedPlugins):
    """The extension points that rank Nodes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._scoring: dict[frozenset[str], tuple[Score, ...]] = {}
        self._scores_nodes = {each.name: each for each in self.plugins.score if isinstance(each, ScoreNodes)}
        self._normalizes = {each.name: each for each in self.plugins.score if isinstance(each, ScoreExtensions)}

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Steps[Status | None]:
        """Run PreScore, and remember in the state whose Score is not called."""
        started = self.clock()
        unconcerned = self._unconcerned(Point.PRE_SCORE, state, pod)
        skipped = set(unconcerned)
        failure: Status | None = None
        for plugin in self.plugins.pre_score:
            if plugin.name in unconcerned:
                continue
            answer = self._ask(Point.PRE_SCORE, plugin.name, state, plugin.pre_score, state, pod, nodes)
            if isinstance(answer, GeneratorType):
                answer = yield from completed(answer)
            status = status_of(answer)
            if status is not None and status.code is Code.SKIP:
                skipped.add(plugin.name)
                if answer is NOT_CONCERNED:
                    unconcerned.add(plugin.name)
                continue
            self.metrics.evaluated(Point.PRE_SCORE, plugin.name, 1)
            if status is not None:
                failure = as_error(f'running PreScore plugin "{plugin.name}"', status)
                break
        state.skip_score = frozenset(skipped)
        self.metrics.point(Point.PRE_SCORE, code_of(failure), self.clock() - started)
        return failure

    @timed(Point.SCORE)
    def score(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: Sequence[NodeInfo],
        snapshot: Snapshot | None = None,
        places: Places | None = None,
    ) -> NodeScores | Status:
        """Score these Nodes.  With their places in the snapshot, plugins may score all of them at once."""
        raw: dict[str, Scores] = {}
        active = self._scoring.get(state.skip_score)
        if active is None:
            active = tuple(each for each in self.plugins.score if each.name not in state.skip_score)
            self._scoring[state.skip_score] = active
        for plugin in active:
            if places is not None and snapshot is not None and plugin.name in self._scores_nodes:
                scores = self._score_nodes(self._scores_nodes[plugin.name], state, pod, snapshot, places)
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

    def _score(self, plugin: Score, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> _Scored:
        self.metrics.evaluated(Point.SCORE, plugin.name, len(nodes))
        values = []
        for node in nodes:
            answer = self._score_one(plugin, state, pod, node)
            if isinstance(answer, Status):
                return answer
            values.append(answer)
        return np.array(values, np.int64)

    def _score_one(self, plugin: Score, state: CycleState, pod: PodInfo, node: NodeInfo) -> _ScoredOne:
        answer = self._ask(Point.SCORE, plugin.name, state, plugin.score, state, pod, node)
        if type(answer) is not int and not isinstance(answer, np.integer):
            return failure_of(answer, "a whole number")
        try:
            return np.int64(answer)
        except OverflowError as error:
            return raised(error)

    def _score_nodes(
        self, plugin: ScoreNodes, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places
    ) -> _Scored:
        def about_these(places: Places) -> _Scored:
            self.metrics.evaluated(Point.SCORE, plugin.name, len(places))
            answer = self._ask(Point.SCORE, plugin.name, state, plugin.score_nodes, state, pod, nodes, places)
            if isinstance(answer, np.ndarray) and answer.dtype == np.int64 and answer.shape == places.shape:
                return answer
            return failure_of(answer, "an array of scores")

        def about_all() -> _Scored:
            return about_these(np.arange(len(nodes)))

        def about(node: NodeInfo) -> _ScoredOne:
            self.metrics.evaluated(Point.SCORE, plugin.name, 1)
            return self._score_one(plugin, state, pod, node)

        reused, depends_on = state.read(REUSED, Reused), self._depends_on(plugin, pod)
        if reused is None or depends_on is None:
            return about_these(places)
        scores = reused.scores.of(plugin.name, depends_on, nodes, about_all, about)
        return scores if isinstance(scores, Status) else scores[places]

    def _normalized(
        self, plugin: Score, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], raw: Scores
    ) -> _Scored:
        if plugin.name not in self._normalizes:
            return raw
        scores = raw.copy()
        call = self._normalizes[plugin.name].normalize_score
        status = status_of(self._ask(Point.NORMALIZE_SCORE, plugin.name, state, call, state, pod, nodes, scores))
        return scores if status is None else status


def _weighted(found: Mapping[str, PluginScores], count: int) -> _Scored:
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
