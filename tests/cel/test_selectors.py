"""Device selectors on every engine, and on Kubernetes itself."""

from typing import Any

import pytest
from cel.selectors import DEVICE, ERROR, LITERAL, REFUSED, SELECTORS

from tollbar.cel import COMPILE, DEVICE_ENV, CelEngine, CelError, devices
from tollbar.devplane.real.oracle import Oracle

PREPARED = devices.prepare(
    DEVICE["driver"],
    DEVICE["attributes"],
    DEVICE["capacity"],
    allow_multiple_allocations=DEVICE["allowMultipleAllocations"],
)


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("name", ["compiled", "closures"])
def test_a_selector(engines: dict[str, CelEngine], name: str, selector: str) -> None:
    expression, want = SELECTORS[selector]
    assert ours(engines[name], expression) == (REFUSED if want == LITERAL else want)


def ours(engine: CelEngine, expression: str) -> Any:
    try:
        found = engine.compile(expression, DEVICE_ENV).evaluate(PREPARED)
    except CelError as error:
        found = error
    if isinstance(found, CelError):
        return REFUSED if found.kind == COMPILE else ERROR
    return found


def test_kubernetes_answers_what_the_table_says(oracle: Oracle) -> None:
    answers = oracle.evaluate({"expression": expression, "device": DEVICE} for expression, _ in SELECTORS.values())
    outcomes = {"error": ERROR, "compile_error": REFUSED}
    found = {
        selector: outcomes.get(answer["outcome"], answer["value"])
        for selector, answer in zip(SELECTORS, answers, strict=True)
    }
    assert found == {selector: ERROR if want == LITERAL else want for selector, (_, want) in SELECTORS.items()}
