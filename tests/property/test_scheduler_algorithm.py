"""Filtering and scoring all Nodes at once, or each by itself: the same result."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from plugins.toys import FilterToy, MaskToy, ReasonsToy, ScoreNodesToy, ScoreToy, done, framework, pod_info, snapshot

from tollbar.scheduler.algorithm import Outcome, Scheduled, schedule_pod
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.status import Status, unresolvable, unschedulable

NAMES = [f"n{i}" for i in range(130)]
STATUSES = st.sampled_from([unschedulable("full"), unresolvable("wrong")])


@dataclass(frozen=True)
class Case:
    nodes: int
    start: int
    filters: list[tuple[dict[str, Status], bool]]
    scores: list[dict[str, int]]
    nominated: list[str]
    own_nomination: str
    percentage: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = draw(st.one_of(st.integers(1, 8), st.integers(100, 130)))
    names = NAMES[:nodes]
    few = st.dictionaries(st.sampled_from(names), STATUSES, max_size=8)
    most = st.builds(
        lambda kept, status: {n: status for n in names if n not in kept}, st.sets(st.sampled_from(names)), STATUSES
    )
    return Case(
        nodes,
        draw(st.integers(0, 2 * nodes)),
        draw(st.lists(st.tuples(st.one_of(few, most), st.booleans()), max_size=4)),
        draw(st.lists(st.dictionaries(st.sampled_from(names), st.integers(0, 100)), max_size=2)),
        draw(st.lists(st.sampled_from(names), max_size=2, unique=True)),
        draw(st.sampled_from(["", *names])),
        draw(st.sampled_from([0, 50, 100])),
    )


def attempt(case: Case, filters: type[FilterToy], scores: type[ScoreToy]) -> Outcome:
    promised = {name: [pod_info(f"promised-{name}", priority=1)] for name in case.nominated}
    own = framework(
        filters("alone", {}, shuns_company=True),
        *(
            (filters if can_mask else FilterToy)(f"filter{i}", given)
            for i, (given, can_mask) in enumerate(case.filters)
        ),
        *(scores(f"score{i}", given) for i, given in enumerate(case.scores)),
        nominated=promised,
        percentage_of_nodes_to_score=case.percentage,
    )
    pod = pod_info(nominated=case.own_nomination)
    found: Outcome = done(schedule_pod(own, CycleState(), pod, snapshot(*NAMES[: case.nodes]), case.start))
    return found


def seen(found: Outcome) -> Any:
    match found.result:
        case FitError(diagnosis=diagnosis):
            return found.next_start, str(found.result), dict(diagnosis.statuses), diagnosis.unschedulable_plugins
        case Scheduled(name, feasible, scores):
            totals = (
                {} if scores is None else {n.name: t for n, t in zip(scores.nodes, scores.totals.tolist(), strict=True)}
            )
            return found.next_start, name, feasible, totals
        case status:
            return found.next_start, status


@given(cases(), st.sampled_from([MaskToy, ReasonsToy]))
def test_masks_and_single_answers_come_to_the_same(case: Case, at_once: type[MaskToy]) -> None:
    assert seen(attempt(case, at_once, ScoreNodesToy)) == seen(attempt(case, FilterToy, ScoreToy))
