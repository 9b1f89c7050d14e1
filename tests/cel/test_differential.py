"""Random expressions on every engine and on Kubernetes: no answer differs but by a listed divergence.

TOLLBAR_CEL_CASES sets the number of cases, TOLLBAR_CEL_SEED the seed.
"""

import os
from collections import Counter
from typing import Final

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
            print(  # noqa: T201
                f"\n{start + len(batch)} of {COUNT} expressions, seed {SEED}, engines {', '.join(engines)}: "
                f"{len(unlisted)} unlisted; listed divergences: {dict(listed)}",
                flush=True,
            )
    assert unlisted[:10] == []


INPUTS: Final = {
    "i": 7,
    "ints": [1, 7],
    "labels": {"a": "b"},
    "object": {"l": [[1], [2]], "low": -(2**63), "m": {"k": 1}, "nothing": None, "one": [1]},
}
SETTLED: Final[dict[str, str]] = {
    "a variable of the root in a macro that hides it": "ints.exists(i, i == 1 && .i == 7)",
    "a variable of the root in a bind that hides it": "cel.bind(i, 5, .i + i == 12)",
    "an int among keys that are strings": "1 in labels",
    "a type in a list of two types": "type(i) in [int, list]",
    "an unsigned number with a sign": "-0u == 0u",
    "a variable of a macro with a dot": "ints.map(.a, a) == []",
    "a field with a reserved name": "object.null == 1",
    "a value of another type instead of none": 'object.?m.orValue(1) == "x"',
    "an optional element of null": "null[?0].hasValue()",
    "a method of an optional": "object[?'m'].size() == 1",
    "a map as an optional key": "object[?dyn(object.m)].hasValue()",
    "a list as an optional key": "object[?dyn(ints)].hasValue()",
    "a null as an optional key": "object[?object.nothing].hasValue()",
    "the least duration before a time": 'timestamp(0) - duration("-9223372036.854775808s") > timestamp(0)',
    "the index of an absent optional": "object.?nope[1 / 0].hasValue()",
}
"""Expressions in which the two once differed, in a value or a stage."""
LISTED: Final[dict[str, tuple[str, str]]] = {
    "the order of null": ("null < null", "null"),
    "a large depth": ("object.l.flatten(9223372036854775807) == [1, 2]", "flatten"),
    "a sum of quantities among others": ('quantity("3") in [quantity("1").add(quantity("2"))]', "quantity sums"),
    "a sum in a list, equal to any other": ('[quantity("4")] == [quantity("1").add(quantity("2"))]', "quantity sums"),
    "a sum in a map, equal to any other": (
        '{"a": quantity("4")} == {"a": quantity("1").add(quantity("2"))}',
        "quantity sums",
    ),
    "the smallest int by a variable": ("sign(quantity('0').sub(object.low)) == 1", "smallest int"),
    "a kind in a list that is equal to another one": ('[dyn(ip("::1"))] == [dyn(quantity("1"))]', "nested kinds"),
    "a kind in a list that is equal to what is not known": ('[quantity("1")] == object.one', "nested kinds"),
    "a kind in a map that is equal to what is not known": ('{"k": ip("::1")} == object.m', "nested kinds"),
}
"""Those in which they go on to differ, with the divergence."""


@pytest.mark.parametrize("expression", SETTLED.values(), ids=SETTLED)
def test_what_once_differed_does_not(engines: dict[str, CelEngine], oracle: Oracle, expression: str) -> None:
    assert list(map(str, disagreements([Case(expression, "dyn", INPUTS)], engines, oracle))) == []


@pytest.mark.parametrize(("expression", "divergence"), LISTED.values(), ids=LISTED)
def test_what_differs_is_this_divergence(
    engines: dict[str, CelEngine], oracle: Oracle, expression: str, divergence: str
) -> None:
    found = disagreements([Case(expression, "dyn", INPUTS)], engines, oracle)
    assert [explained(each) for each in found] == [divergence] * len(engines)


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
