"""Random clusters for the scheduler and for kube-scheduler: no decision differs but by a known difference.

TOLLBAR_SCHEDULER_CLUSTERS sets the number of clusters over all families, TOLLBAR_SCHEDULER_SEED the number of the first
one.  With the plugins that there are, kube-scheduler is configured with just these.
"""

import os
from collections import Counter

import pytest
from scheduler.clusters import FAMILIES, cluster
from scheduler.comparing import available, differences, shrunk, theirs
from scheduler.differences import KNOWN, Known, explained

from tollbar.devplane.real.oracle import Oracle

COUNT = -(-int(os.environ.get("TOLLBAR_SCHEDULER_CLUSTERS", "450")) // len(FAMILIES))
SEED = int(os.environ.get("TOLLBAR_SCHEDULER_SEED", "0"))
BATCH = 200
SHOWN = 3
"""So many differences are shrunk and shown; the others probably are the same."""


@pytest.mark.behaviour(31)
@pytest.mark.timeout(180 + COUNT // 5)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_decision_is_that_of_kube_scheduler(
    oracle: Oracle, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: Counter[str] = Counter()
    known: Counter[str] = Counter()
    unknown = []
    for start in range(0, COUNT, BATCH):
        batch = [cluster(family, SEED + number) for number in range(start, min(start + BATCH, COUNT))]
        for each in batch:
            each.limit(available())
        answers = theirs(oracle, batch)
        outcomes.update(pod["outcome"] for pods in answers for pod in pods)
        for found in differences(batch, answers):
            if (id_ := explained(found)) is None:
                unknown.append(found)
            else:
                known[id_] += 1
    with capsys.disabled():
        print(f"\n{family}: {COUNT} clusters from {SEED}; Pods: {dict(outcomes)}; known differences: {dict(known)}")  # noqa: T201
    if unknown:
        shown = "\n".join(str(shrunk(oracle, each)) for each in unknown[:SHOWN])
        pytest.fail(f"{len(unknown)} unknown differences, of which the first:\n{shown}", pytrace=False)


@pytest.mark.parametrize("known", KNOWN, ids=lambda each: each.id)
def test_the_example_of_a_known_difference(oracle: Oracle, known: Known) -> None:
    (found,) = differences([known.example], theirs(oracle, [known.example]))
    assert (found.what, found.ours, found.theirs) == (known.what, known.ours, known.theirs)
    assert explained(found) == known.id
