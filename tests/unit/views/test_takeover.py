"""Whether this process generates ResourceClaims: every phase, every finding, and who is told."""

import pytest

from tollbar.views.takeover import Phase, Problem, Takeover

NOTHING = None
MISSING = Problem("MissingRights", "create resourceclaims is not granted")
UNTRIED = Problem("NotTried", "the API server does not answer")
ANOTHER = Problem("AnotherGenerator", "kube-controller-manager generates ResourceClaims")
STILL = Problem("AnotherGenerator", "it still does, under another name")

WAYS: dict[Phase, list[Problem | None]] = {
    Phase.PROBING: [],
    Phase.WORKING: [NOTHING],
    Phase.REFUSED: [MISSING],
    Phase.YIELDING: [ANOTHER],
}
"""The findings that lead to each phase."""

Case = tuple[Phase, Problem | None, Phase, Problem | None, list[Phase]]
MOVES: dict[str, Case] = {
    "probing, nothing is found": (Phase.PROBING, NOTHING, Phase.WORKING, None, [Phase.WORKING]),
    "probing, a right is missing": (Phase.PROBING, MISSING, Phase.REFUSED, MISSING, [Phase.REFUSED]),
    "probing, the probe fails": (Phase.PROBING, UNTRIED, Phase.REFUSED, UNTRIED, [Phase.REFUSED]),
    "probing, somebody else generates": (Phase.PROBING, ANOTHER, Phase.YIELDING, ANOTHER, [Phase.YIELDING]),
    "working, nothing is found": (Phase.WORKING, NOTHING, Phase.WORKING, None, []),
    "working, a right is missing: the controller goes on": (Phase.WORKING, MISSING, Phase.WORKING, None, []),
    "working, the probe fails: the controller goes on": (Phase.WORKING, UNTRIED, Phase.WORKING, None, []),
    "working, somebody else generates": (Phase.WORKING, ANOTHER, Phase.YIELDING, ANOTHER, [Phase.YIELDING]),
    "refused, nothing is found any more": (Phase.REFUSED, NOTHING, Phase.WORKING, None, [Phase.WORKING]),
    "refused, a right is still missing": (Phase.REFUSED, MISSING, Phase.REFUSED, MISSING, []),
    "refused, for another reason now": (Phase.REFUSED, UNTRIED, Phase.REFUSED, UNTRIED, []),
    "refused, somebody else generates": (Phase.REFUSED, ANOTHER, Phase.YIELDING, ANOTHER, [Phase.YIELDING]),
    "yielding, the other one has ended": (Phase.YIELDING, NOTHING, Phase.WORKING, None, [Phase.WORKING]),
    "yielding, a right is missing: it stays stopped": (Phase.YIELDING, MISSING, Phase.YIELDING, MISSING, []),
    "yielding, the probe fails: it stays stopped": (Phase.YIELDING, UNTRIED, Phase.YIELDING, UNTRIED, []),
    "yielding, somebody else still generates": (Phase.YIELDING, STILL, Phase.YIELDING, STILL, []),
}


def test_the_table_has_every_phase_and_every_kind_of_finding() -> None:
    kinds = {None, "MissingRights", "NotTried", "AnotherGenerator"}
    found = {(phase, finding and finding.reason) for phase, finding, *_ in MOVES.values()}
    assert found == {(phase, kind) for phase in Phase for kind in kinds}


@pytest.mark.parametrize(("before", "finding", "after", "problem", "told"), MOVES.values(), ids=MOVES)
def test_moves(
    before: Phase, finding: Problem | None, after: Phase, problem: Problem | None, told: list[Phase]
) -> None:
    takeover, changes = Takeover(), list[Phase]()
    for each in WAYS[before]:
        takeover.found(each)
    assert takeover.phase is before
    takeover.changes.subscribe(changes.append)
    takeover.found(finding)
    assert (takeover.phase, takeover.problem, changes) == (after, problem, told)


ANSWERS: dict[Phase, tuple[bool, bool, str | None]] = {
    Phase.PROBING: (False, False, None),
    Phase.WORKING: (True, False, None),
    Phase.REFUSED: (False, False, MISSING.message),
    Phase.YIELDING: (False, True, ANOTHER.message),
}


@pytest.mark.parametrize(("phase", "want"), ANSWERS.items(), ids=lambda given: getattr(given, "name", ""))
def test_what_each_phase_says(phase: Phase, want: tuple[bool, bool, str | None]) -> None:
    takeover = Takeover()
    for each in WAYS[phase]:
        takeover.found(each)
    assert (takeover.works, takeover.yields, takeover.readiness()) == want


def test_the_problem_is_known_when_the_change_is_told() -> None:
    takeover, seen = Takeover(), list[Problem | None]()
    takeover.changes.subscribe(lambda _: seen.append(takeover.problem))
    for each in (ANOTHER, None):
        takeover.found(each)
    assert seen == [ANOTHER, None]
