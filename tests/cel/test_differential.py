"""Random expressions on every engine and on Kubernetes: no answer differs but by a listed divergence.

TOLLBAR_CEL_CASES sets the number of cases, TOLLBAR_CEL_SEED the seed.
"""

import os
from collections import Counter

import pytest
from cel.comparing import ENV, answer_of, disagreements, outcome_of
from cel.divergences import DIVERGENCES, Divergence, explained
from cel.generator import Case, cases

from tollbar.cel import CelEngine
from tollbar.devplane.real.oracle import Oracle

COUNT = int(os.environ.get("TOLLBAR_CEL_CASES", "4000"))
SEED = int(os.environ.get("TOLLBAR_CEL_SEED", "1"))
BATCH = 5000


@pytest.mark.timeout(180 + COUNT // 100)
def test_every_difference_is_a_listed_divergence(
    engines: dict[str, CelEngine], oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    listed: Counter[str] = Counter()
    unlisted = []
    for start in range(0, COUNT, BATCH):
        batch = list(cases(SEED, min(BATCH, COUNT - start), start))
        for found in disagreements(batch, engines, oracle):
            divergence = explained(found)
            if divergence:
                listed[f"{divergence} ({found.engine})"] += 1
            else:
                unlisted.append(str(found))
    with capsys.disabled():
        print(f"\n{COUNT} expressions, seed {SEED}, engines {', '.join(engines)}; listed divergences: {dict(listed)}")  # noqa: T201
    assert unlisted[:10] == []


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda each: each.id)
def test_our_answer_to_the_example_of_a_divergence(engines: dict[str, CelEngine], divergence: Divergence) -> None:
    case = Case(divergence.example, "dyn", divergence.inputs)
    answers = {name: answer_of(engine, case, ENV)[0] for name, engine in engines.items()}
    assert answers == dict.fromkeys(engines, divergence.ours)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda each: each.id)
def test_kubernetes_answer_to_the_example_of_a_divergence(oracle: Oracle, divergence: Divergence) -> None:
    request = {"expression": divergence.example, "variables": dict(ENV.variables), "typed": True}
    (answer,) = oracle.evaluate([{**request, "inputs": dict(divergence.inputs)}])
    assert outcome_of(answer) == divergence.theirs
