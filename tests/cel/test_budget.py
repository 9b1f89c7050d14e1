"""What Kubernetes evaluates within its cost limit, and how much of it Tollbar refuses for its cost.

That is a figure of docs/reference/cel.md, from loops over random elements, drawn from what the search for slow inputs
knows.  TOLLBAR_CEL_LOOPS sets their number.  How many of those that are refused would have ended in time is printed,
not asserted.
"""

import json
import math
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from cel.adversaries import ENV
from cel.comparing import EXCEEDED, FAILED, REFUSED, answer_of, ask
from cel.generator import Case
from cel.slow_search import ELEMENTS, OPERATIONS, Slow

from tollbar.cel import BUDGET, CelEngine, CelError, Env
from tollbar.devplane.real.oracle import Oracle

COUNT: Final = int(os.environ.get("TOLLBAR_CEL_LOOPS", "20"))
REFUSED_OF: Final = {20: 1, 200: 12}
"""How many of so many loops are refused; the page has the last of these figures."""
BATCH: Final = 40
LARGEST: Final = 32 * 1024
"""Bytes of an input as JSON."""
UNLIMITED: Final = 1_000_000_000
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "cel.md"


SELECTORS: Final = [{"cel": {"expression": f'device.attributes["a.example.com"].index == {at}'}} for at in range(8)]
AFFORDABLE: Final[dict[str, tuple[str, Mapping[str, Any], int]]] = {
    "60 variables of each of 40 containers": (
        'pod.spec.containers.all(c, c.env.all(e, e.name != "X"))',
        {"pod": {"spec": {"containers": [{"env": [{"name": f"SETTING_{at}"} for at in range(60)]}] * 40}}},
        14_644,
    ),
    "a pattern for each of 8 selectors in 32 requests": (
        'requests.all(r, r.exactly.selectors.all(s, s.cel.expression.matches("[.]index == [0-9]+$")))',
        {"requests": [{"exactly": {"selectors": SELECTORS}}] * 32},
        8_162,
    ),
    "two lists of 48 values": (
        "some.all(x, others.exists(y, x == y))",
        {"some": [f"value-{at}" for at in range(48)], "others": [f"value-{at}" for at in reversed(range(48))]},
        8_615,
    ),
}
"""Ordinary expressions with large inputs, and the cost that Kubernetes counts for them."""


@pytest.mark.parametrize(("expression", "inputs", "_cost"), AFFORDABLE.values(), ids=AFFORDABLE)
def test_an_ordinary_expression_may_have_large_inputs(
    engines: dict[str, CelEngine], expression: str, inputs: Mapping[str, Any], _cost: int
) -> None:
    env = Env(variables=tuple(dict.fromkeys(inputs, "dyn").items()))
    assert {name: engine.compile(expression, env).evaluate(inputs) for name, engine in engines.items()} == (
        dict.fromkeys(engines, True)
    )


def test_kubernetes_counts_little_for_it(oracle: Oracle) -> None:
    answers = oracle.evaluate(
        {"expression": expression, "variables": dict.fromkeys(inputs, "dyn"), "inputs": inputs}
        for expression, inputs, _ in AFFORDABLE.values()
    )
    assert [(answer["value"], answer["cost"]) for answer in answers] == [
        (True, cost) for *_, cost in AFFORDABLE.values()
    ]


def drawn(seed: int) -> Iterator[Case]:
    """Endlessly: an operation on the result of another one, for 10 to 1,000 elements of one or two kinds."""
    rng = random.Random(seed)
    while True:
        inner, outer = (rng.choice(OPERATIONS) for _ in range(2))
        body = outer.format(inner.format("i", "i"), "i", "i") if rng.random() < 0.5 else inner.format("i", "i")
        picks = tuple(rng.choices(range(len(ELEMENTS)), k=rng.choice((1, 1, 2))))
        x = Slow(body, picks, rng.choice((10, 100, 1_000))).x
        if len(json.dumps(x)) <= LARGEST:
            yield Case(f"x.map(i, dyn({body})).size() >= 0", "bool", {"x": x})


def run_by_kubernetes(oracle: Oracle, count: int) -> Iterator[Case]:
    """The first of those drawn for which Kubernetes has a value."""
    endless = drawn(1)
    left = count
    while left:
        batch = [next(endless) for _ in range(BATCH)]
        for case, (theirs, _) in zip(batch, ask(oracle, batch, ENV), strict=True):
            if left and theirs not in (REFUSED, FAILED, EXCEEDED):
                left -= 1
                yield case


@pytest.mark.timeout(180 + COUNT)
def test_how_many_kubernetes_evaluates_and_tollbar_does_not(
    engines: dict[str, CelEngine], oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = engines["compiled"]
    refused = [case for case in run_by_kubernetes(oracle, COUNT) if answer_of(engine, case, ENV)[0] == EXCEEDED]
    with patch("tollbar.cel.core.limits.MAX_STEPS", UNLIMITED):
        in_time = sum(_seconds(engine, case) <= 0.01 for case in refused)
    with capsys.disabled():
        print(f"\n{COUNT} loops, {len(refused)} exceed a limit here, {in_time} of these end within 10 ms without it")  # noqa: T201
    assert len(refused) == REFUSED_OF.get(COUNT, len(refused))


def test_the_page_has_the_figure() -> None:
    count, refused = list(REFUSED_OF.items())[-1]
    assert f"Of {count:,} random loops that it evaluates, {refused} exceed" in " ".join(PAGE.read_text().split())


def _seconds(engine: CelEngine, case: Case) -> float:
    """Of CPU time for an evaluation; endless for one that exceeds another limit than that of steps."""
    program = engine.compile(case.expression, ENV)
    program.evaluate(case.inputs)
    begun = time.process_time()
    answer = program.evaluate(case.inputs)
    seconds = time.process_time() - begun
    return math.inf if isinstance(answer, CelError) and answer.kind == BUDGET else seconds
