"""What evaluations cost."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from unittest.mock import patch

from tollbar.cel import CostBudget, Program
from tollbar.cel.core.limits import MAX_ALLOCATION, CostTracker
from tollbar.cel.engines import closures, compiled


class Measured(NamedTuple):
    """An answer and what it cost: steps, and bytes allocated."""

    answer: Any
    steps: int
    allocated: int


def measure(program: Program, inputs: Mapping[str, Any]) -> Measured:
    """Evaluate once."""
    trackers: list[CostTracker] = []

    def tracker(charged: int) -> CostTracker:
        trackers.append(CostTracker(charged))
        return trackers[-1]

    budget = CostBudget(0)
    with patch.object(closures, "CostTracker", tracker), patch.object(compiled, "CostTracker", tracker):
        answer = program.evaluate(inputs, budget)
    return Measured(answer, -budget.steps, MAX_ALLOCATION - trackers[-1].bytes_left if trackers else 0)
