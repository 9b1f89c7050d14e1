"""Figures in reports: medians, ranges, the mark of wide ranges, and the page made from them."""

import json
import math
from dataclasses import asdict

import pytest

from benchmarks import report
from benchmarks.__main__ import WORKLOADS
from benchmarks.schedulerperf.report import section
from benchmarks.stage import Stage
from benchmarks.workload import Result, Row, Sample, Workload, collect, percentile, spread

RATE = Row("rate", "Pods/s", "at least 7", digits=0)
COST = Row("cost", "ms/Pod", digits=2)


async def nothing(_stage: Stage, _size: int, _turn: int) -> Sample:
    return {}


WORKLOAD = Workload("sample", "A sample", "What it does.", ("peer", "Tollbar"), (RATE, COST), 1200, "Pods", nothing)


def result(values: dict[str, dict[str, list[float]]]) -> Result:
    return Result("sample", "2026-01-02", {"CPU": "Abacus", "cores": "2"}, 1200, 3, values)


CELLS = {
    "one repetition is the figure": ([1234.4], "1,234"),
    "several are their median and their range": ([1100, 1000, 1050], "1,050 (1,000 to 1,100)"),
    "a wide range is said": ([100, 70, 110], "100 (70 to 110, unsteady)"),
    "nothing every time is steady": ([0, 0, 0], "0 (0 to 0)"),
    "around nothing every range is wide": ([-1, 0, 1], "0 (-1 to 1, unsteady)"),
}


@pytest.mark.parametrize(("values", "want"), CELLS.values(), ids=CELLS)
def test_a_cell(values: list[float], want: str) -> None:
    assert report.cells(WORKLOAD, result({"rate": {"Tollbar": values}}))[1:] == [
        ["rate (Pods/s)", "-", want, "at least 7"],
        ["cost (ms/Pod)", "-", "-", ""],
    ]


PERCENTILES = {
    "the median of an odd count": ([3, 1, 2], 0.5, 2),
    "the 99th of a hundred": (list(range(1, 101)), 0.99, 99),
    "the 99th of few is the largest": ([5, 9], 0.99, 9),
    "of one": ([4], 0.5, 4),
}


@pytest.mark.parametrize(("values", "share", "want"), PERCENTILES.values(), ids=PERCENTILES)
def test_percentile(values: list[float], share: float, want: float) -> None:
    assert percentile(values, share) == want


def test_spread() -> None:
    assert [spread([9, 10, 12]), spread([0, 0]), spread([-1, 0, 1])] == [0.3, 0.0, math.inf]


def test_a_result_survives_its_file() -> None:
    values = collect([{("rate", "peer"): 1.0, ("rate", "Tollbar"): 2.0}, {("rate", "peer"): 3.0}])
    assert Result(**json.loads(json.dumps(asdict(result(values))))) == result(
        {"rate": {"peer": [1.0, 3.0], "Tollbar": [2.0]}}
    )


def test_a_section_of_the_page() -> None:
    found = result({"rate": {"peer": [8.0], "Tollbar": [9.0]}})
    want = """\
## A sample (`sample`)

What it does.

3 × 1,200 Pods, 2026-01-02, on: CPU Abacus, cores 2

|  | peer | Tollbar | target |
| --- | ---: | ---: | --- |
| rate (Pods/s) | 8 | 9 | at least 7 |
| cost (ms/Pod) | - | - |  |
"""
    missing = "## A sample (`sample`)\n\nWhat it does.\n\nNot measured yet.\n"
    text = report.document([(WORKLOAD, found), (WORKLOAD, None)])
    assert text.endswith(f"\n\n{want}\n{missing}")


def test_the_page_is_what_the_results_say() -> None:
    results = [(each, report.load(each)) for each in WORKLOADS.values()]
    assert report.DOCUMENT.read_text() == report.document(results, section())
