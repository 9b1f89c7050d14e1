"""Workloads and their results."""

import math
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.stage import Stage

STEADY: Final = 0.25
"""A figure whose values spread wider than this share of the median is marked as unsteady."""

Sample: TypeAlias = Mapping[tuple[str, str], float]
"""The figures of one repetition, by row name and column; not every cell of a table has one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `digits` are those after the decimal point."""

    name: str
    unit: str
    target: str = ""
    digits: int = 1


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a result is shown as; its size is counted in `things`."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    size: int
    things: str


@dataclass(frozen=True, slots=True)
class Workload(Sheet):
    """`measure` does one repetition of a size; its third argument is the repetition's number.

    The variants that are compared take turns in going first, so that none is always measured on a cold machine.
    """

    measure: Callable[[Stage, int, int], Awaitable[Sample]]


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of all repetitions of a workload; `values` is by row, then column, then repetition."""

    workload: str
    date: str
    machine: Mapping[str, str]
    size: int
    repetitions: int
    values: Mapping[str, Mapping[str, Sequence[float]]]

    def median(self, row: Row, column: str) -> float | None:
        """Of the repetitions; None if it was not measured."""
        found = self.values.get(row.name, {}).get(column)
        return statistics.median(found) if found else None


def collect(samples: Sequence[Sample]) -> dict[str, dict[str, list[float]]]:
    """The values of a result, in the order of the first sample."""
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for (row, column), value in sample.items():
            values.setdefault(row, {}).setdefault(column, []).append(value)
    return values


def percentile(values: Sequence[float], share: float) -> float:
    """The percentile by nearest rank: the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def spread(values: Sequence[float]) -> float:
    """The range of the values as a share of their median; infinite if only the median is 0."""
    width = max(values) - min(values)
    median = abs(statistics.median(values))
    return width / median if median else math.inf if width else 0.0
