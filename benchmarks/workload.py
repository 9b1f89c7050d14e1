"""What a workload is, and what comes of running it.  Pure; the workloads, the runner and the report share it."""

import math
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from benchmarks.stage import Stage

STEADY: Final = 0.25
"""A spread beyond this share of the median is said beside the figure: such a figure is a hint."""

Sample: TypeAlias = Mapping[tuple[str, str], float]
"""What one repetition found, by the name of the row and the column; not every cell of a table exists."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `digits` are those after the decimal point."""

    name: str
    unit: str
    target: str = ""
    digits: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """`measure` does one repetition of a size, counted in `things`; its third argument is the number of the turn.

    Variants that are compared go in another order every turn, so that none is always the one on a cold machine.
    """

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    size: int
    things: str
    measure: Callable[[Stage, int, int], Awaitable[Sample]]


@dataclass(frozen=True, slots=True)
class Result:
    """What the repetitions of a workload found; `values` is by row, then column, then repetition."""

    workload: str
    date: str
    machine: Mapping[str, str]
    size: int
    repetitions: int
    values: Mapping[str, Mapping[str, Sequence[float]]]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Result":
        """From the members of its JSON."""
        return cls(**data)


def collect(samples: Sequence[Sample]) -> dict[str, dict[str, list[float]]]:
    """The values of a result, in the order of the first sample."""
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for (row, column), value in sample.items():
            values.setdefault(row, {}).setdefault(column, []).append(value)
    return values


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that so large a share does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def spread(values: Sequence[float]) -> float:
    """From the smallest to the largest value, as a share of the median; infinite around a median of nothing."""
    width = max(values) - min(values)
    median = abs(statistics.median(values))
    return width / median if median else math.inf if width else 0.0
