"""Expressions made to be expensive end early: with a short error, within the cost limit, in little memory."""

import tracemalloc

import pytest
from cel.adversaries import ADVERSARIES, ENV, Adversary

from tollbar.cel import BUDGET, CelEngine, CelError, CostBudget, engine
from tollbar.cel.core.limits import MAX_STEPS

ALLOWED_BYTES = 24 * 1024 * 1024
"""Beyond the inputs: the parse tree of 10 KiB, what the rule makes, one regular expression."""
SLOW = ("nested", "a large double with many places", "texts of doubles")

CASES = {
    f"{name}: {sentence}": (name, adversary)
    for name in ("compiled", "closures", "cel-python")
    for sentence, adversary in ADVERSARIES.items()
    # cel-python needs seconds for each of these.
    if name != "cel-python" or not sentence.startswith(SLOW) or sentence.endswith("comprehensions, 10^7")
}


@pytest.mark.parametrize(("name", "adversary"), CASES.values(), ids=CASES)
def test_an_adversary_ends_with_a_short_error_in_little_memory(name: str, adversary: Adversary) -> None:
    inputs = {"x": adversary.x()}
    budget = CostBudget(0)
    tracemalloc.start()
    try:
        found = attempt(engine(name), adversary.expression, inputs, budget)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (
        isinstance(found, CelError) or adversary.harmless,
        clear(found) if isinstance(found, CelError) else True,
        over_budget(found) or -budget.steps <= MAX_STEPS,
        peak <= ALLOWED_BYTES,
    ) == (True, True, True, True), (found, budget.steps, peak)


def attempt(cel: CelEngine, expression: str, inputs: dict[str, object], budget: CostBudget) -> object:
    try:
        return cel.compile(expression, ENV).evaluate(inputs, budget)
    except CelError as error:
        return error


def over_budget(found: object) -> bool:
    """Its cost then includes the operation that exceeded the limit."""
    return isinstance(found, CelError) and found.kind == BUDGET


def clear(error: CelError) -> bool:
    """One short line of our own, without input data."""
    text = str(error)
    return len(text) < 200 and "\n" not in text and "internal error" not in text and "yyyy" not in text
