"""The expressions of the benchmark `cel` come to an answer: an error would be measured as a fast one."""

import pytest

from benchmarks import cel
from tollbar.cel import DEVICE_ENV, RULE_ENV, devices, engine

ENGINES = ["compiled", "closures"]


@pytest.mark.parametrize("name", ENGINES)
def test_every_rule_decides(name: str) -> None:
    inputs = cel.package()
    answers = [engine(name).compile(rule, RULE_ENV).evaluate(inputs) for rule in cel.RULES]
    assert answers == [True, False, True, True, False, True, False, True, True, True]


@pytest.mark.parametrize("name", ENGINES)
def test_every_selector_selects(name: str) -> None:
    device = devices.prepare(cel.DRIVER, cel.DEVICE["attributes"], cel.DEVICE["capacity"])
    answers = [engine(name).compile(each, DEVICE_ENV).evaluate(device) for each in cel.SELECTORS]
    assert answers == [True] * len(cel.SELECTORS)
