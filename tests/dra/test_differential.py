"""Random problems for the allocator and for Kubernetes' own: no answer differs but by a known difference.

TOLLBAR_DRA_PROBLEMS sets the number of problems over all families, TOLLBAR_DRA_SEED the number of the first one.
"""

import os
from collections import Counter

import pytest
from dra.comparing import Answer, differences, ours, shrunk, theirs
from dra.differences import KNOWN, Known, explained
from dra.problems import FAMILIES, problem

from tollbar.devplane.real.oracle import Oracle

COUNT = -(-int(os.environ.get("TOLLBAR_DRA_PROBLEMS", "1000")) // len(FAMILIES))
SEED = int(os.environ.get("TOLLBAR_DRA_SEED", "0"))
BATCH = 500
SHOWN = 3
"""So many differences are shrunk and shown; the others probably are the same."""


@pytest.mark.timeout(180 + COUNT // 5)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_answer_is_that_of_kubernetes(oracle: Oracle, family: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes: Counter[str] = Counter()
    known: Counter[str] = Counter()
    slow = 0
    unknown = []
    for start in range(0, COUNT, BATCH):
        batch = [problem(family, SEED + number) for number in range(start, min(start + BATCH, COUNT))]
        answers = theirs(oracle, batch)
        slow += answers.count(None)
        outcomes.update(each.outcome for answer in answers for each in answer or ())
        for found in differences(batch, answers):
            if (id_ := explained(found)) is None:
                unknown.append(found)
            else:
                known[id_] += 1
    with capsys.disabled():
        print(f"\n{family}: {COUNT} problems from {SEED}; Nodes: {dict(outcomes)}; known differences: {dict(known)}")  # noqa: T201
    if unknown:
        shown = "\n".join(str(shrunk(oracle, found)) for found in unknown[:SHOWN])
        pytest.fail(f"{len(unknown)} unknown differences, of which the first:\n{shown}", pytrace=False)
    assert slow <= COUNT // 100, "too many problems take Kubernetes too long"


@pytest.mark.parametrize("known", KNOWN, ids=lambda each: each.id)
def test_our_answer_to_the_example_of_a_difference(known: Known) -> None:
    assert _outcomes(ours(known.example)) == known.ours


@pytest.mark.parametrize("known", KNOWN, ids=lambda each: each.id)
def test_kubernetes_answer_to_the_example_of_a_difference(oracle: Oracle, known: Known) -> None:
    (answers,) = theirs(oracle, [known.example])
    assert _outcomes(answers or []) == known.theirs


def _outcomes(answers: list[Answer]) -> tuple[str, ...]:
    return tuple(each.message or each.outcome for each in answers)
