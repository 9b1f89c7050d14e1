"""What PreScore, Score and NormalizeScore make of the answers of their plugins."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from plugins.toys import (
    BOOM,
    POD,
    PreFilterToy,
    ScoreNodesToy,
    ScoreToy,
    answer,
    done,
    error,
    framework,
    snapshot,
    without_cause,
)

from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.interface import Scores
from tollbar.scheduler.framework.scoring import NodeScores
from tollbar.scheduler.framework.status import SKIP, Code, Status, failed, unschedulable

NODES = snapshot("a", "b", "c")


class PreScoreToy(PreFilterToy):
    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Any:
        return answer(self.given)


PRE_SCORES: dict[str, tuple[list[Any], Status | None, set[str]]] = {
    "Skip is remembered": ([None, SKIP], None, {"p1"}),
    "anything else ends it": (
        [SKIP, unschedulable("no"), SKIP],
        error('running PreScore plugin "p1": no'),
        {"p0"},
    ),
    "it raises": ([BOOM], error('running PreScore plugin "p0": ValueError: boom'), set()),
}


@pytest.mark.parametrize(("given", "expected", "skipped"), PRE_SCORES.values(), ids=PRE_SCORES)
def test_pre_score(given: list[Any], expected: Status | None, skipped: set[str]) -> None:
    own, state = framework(*(PreScoreToy(f"p{index}", each) for index, each in enumerate(given))), CycleState()

    assert (without_cause(done(own.pre_score(state, POD, NODES.nodes))), state.skip_score) == (expected, skipped)


class Halves(ScoreToy):
    """Normalises by halves; `wrong` is what it says instead."""

    def __init__(self, name: str, given: Any, wrong: Any = None) -> None:
        super().__init__(name, given)
        self.wrong = wrong

    def normalize_score(self, state: Any, pod: Any, nodes: Sequence[Any], scores: Scores) -> Any:
        scores //= 2
        return answer(self.wrong)


class Mistakes(ScoreToy):
    """Takes the scores for a list."""

    def normalize_score(self, state: Any, pod: Any, nodes: Sequence[Any], scores: Any) -> None:
        scores.sort(reverse=True)


SCORES: dict[str, tuple[list[ScoreToy], Any]] = {
    "weighted sums": (
        [ScoreToy("one", {"a": 10, "b": 20}), ScoreToy("three", {"b": 5, "c": 100})],
        {"one": [10, 20, 0], "three": [0, 5, 100], "totals": [10, 35, 300]},
    ),
    "normalised scores count": (
        [Halves("one", {"a": 200, "b": 7})],
        {"one": [100, 3, 0], "totals": [100, 3, 0]},
    ),
    "no plugin": ([], {"totals": [0, 0, 0]}),
    "too high": (
        [ScoreToy("one", {"b": 101})],
        (
            'applying score defaultWeights on Score plugins: plugin "one" returns an invalid score 101, it should in'
            " the range of [0, 100] after normalizing"
        ),
    ),
    "too low": (
        [Halves("one", {"b": -1})],
        (
            'applying score defaultWeights on Score plugins: plugin "one" returns an invalid score -1, it should in the'
            " range of [0, 100] after normalizing"
        ),
    ),
    "an Error": (
        [ScoreToy("one", {"b": failed("broken")})],
        'running Score plugins: plugin "one" failed with: broken',
    ),
    "it raises": ([ScoreToy("one", {"b": BOOM})], 'running Score plugins: plugin "one" failed with: ValueError: boom'),
    "it returns nonsense": (
        [ScoreToy("one", {"b": 0.5})],
        'running Score plugins: plugin "one" failed with: it returned float where a whole number is expected',
    ),
    "it returns success": (
        [ScoreToy("one", {"b": Status(Code.SUCCESS)})],
        'running Score plugins: plugin "one" failed with: it returned Status where a whole number is expected',
    ),
    "it returns True": (
        [ScoreToy("one", {"b": True})],
        'running Score plugins: plugin "one" failed with: it returned bool where a whole number is expected',
    ),
    "normalising raises": (
        [Mistakes("one", {"b": 1})],
        (
            'running Normalize on Score plugins: plugin "one" failed with: TypeError:'
            " sort() got an unexpected keyword argument 'reverse'"
        ),
    ),
    "normalising fails": (
        [Halves("one", {"b": 1}, failed("broken"))],
        'running Normalize on Score plugins: plugin "one" failed with: broken',
    ),
}


@pytest.mark.behaviour(17, case="weighted sums")
@pytest.mark.parametrize(("plugins", "expected"), SCORES.values(), ids=SCORES)
def test_score(plugins: list[ScoreToy], expected: Any) -> None:
    weights = {"one": 1, "three": 3}
    own = framework(*plugins, weights={each.name: weights[each.name] for each in plugins})

    found = own.score(CycleState(), POD, NODES.nodes)

    assert scores(found) == expected


def test_a_plugin_whose_pre_score_returned_skip_does_not_score() -> None:
    own, state = framework(ScoreToy("one", {"a": 5}), ScoreToy("two", {"a": 7})), CycleState()
    state.skip_score = frozenset({"one"})

    assert scores(own.score(state, POD, NODES.nodes)) == {"two": [7, 0, 0], "totals": [7, 0, 0]}


def scores(found: NodeScores | Status) -> Any:
    if isinstance(found, Status):
        return found.message
    own = {name: each.normalized.tolist() for name, each in found.by_plugin.items()}
    return own | {"totals": found.totals.tolist()}


class WrongScores(ScoreNodesToy):
    def score_nodes(self, state: Any, pod: Any, nodes: Any, places: Any) -> Any:
        return [1, 2, 3]


def test_scores_that_are_no_array_are_an_error_of_their_plugin() -> None:
    found = framework(WrongScores("one")).score(CycleState(), POD, NODES.nodes, NODES, np.arange(3))

    assert scores(found) == (
        'running Score plugins: plugin "one" failed with: it returned list where an array of scores is expected'
    )
