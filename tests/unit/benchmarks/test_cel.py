"""The expressions of the benchmark `cel` come to the answer that they are measured for: an error may be a fast one."""

import pytest

from benchmarks import rules
from benchmarks.workloads import cel
from tollbar.cel import DEVICE_ENV, RULE_ENV, CelError, devices, engine

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


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("sentence", "rule"), rules.WIDE.items(), ids=rules.WIDE)
def test_a_rule_of_each_kind_decides_or_fails_as_it_says(name: str, sentence: str, rule: str) -> None:
    answer = engine(name).compile(rule, RULE_ENV).evaluate(cel.package())
    assert answer is not False
    assert isinstance(answer, CelError) is ("error" in sentence)


def test_many_rules_are_the_ten_with_other_texts() -> None:
    sources = rules.many(1_000)
    assert [sources[990], len(sources)] == [rules.RULES[0].replace('"gpu', '"n990-gpu'), 1_000]
    assert [engine().compile(source, RULE_ENV).source for source in sources[:20]] == sources[:20]
