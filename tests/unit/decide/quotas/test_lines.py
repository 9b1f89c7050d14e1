"""Lines of Pods that quotas cannot tell apart but by their age."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.model.objects import Key


def pod(name: str, at: float = 0.0) -> Charge:
    return Charge(Key("a", name), ("q",), {"pods": Decimal(1), "cpu": Decimal(2)}, 0, at)


def names(lines: Lines) -> list[list[str]]:
    return sorted([each.pod.name for each in line] for line in lines)


def test_the_oldest_is_the_first_and_of_one_age_the_first_by_name() -> None:
    assert names(Lines([pod("z", 2), pod("y", 1), pod("c", 3), pod("x", 1)])) == [["x", "y", "z", "c"]]


OTHERS: dict[str, dict[str, Any]] = {
    "another namespace": {"pod": Key("b", "y")},
    "another quota": {"quotas": ("q", "p")},
    "another priority": {"priority": 1},
    "another amount": {"amounts": {"pods": Decimal(1), "cpu": Decimal(3)}},
    "another resource": {"amounts": {"pods": Decimal(1), "memory": Decimal(2)}},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_a_quota_tells_apart_is_in_lines_of_its_own(other: dict[str, Any]) -> None:
    assert names(Lines([pod("x"), replace(pod("y"), **other)])) == [["x"], ["y"]]


def test_how_an_amount_is_written_makes_no_difference() -> None:
    written = {"cpu": Decimal("2.0"), "pods": Decimal("1E0")}
    assert names(Lines([pod("x"), replace(pod("y"), amounts=written)])) == [["x", "y"]]


def test_one_that_goes_leaves_the_others_and_a_line_goes_with_its_last() -> None:
    lines = Lines([pod("x", 1), pod("y", 1), pod("z", 1)])
    lines.remove(pod("y", 1))
    assert names(lines) == [["x", "z"]]
    lines.remove(pod("z", 1))
    lines.remove(pod("x", 1))
    assert names(lines) == []


@pytest.mark.parametrize("absent", [pod("w"), pod("z", 9), pod("x", 1), replace(pod("x"), priority=1)])
def test_what_is_not_there_is_told(absent: Charge) -> None:
    lines = Lines([pod("x"), pod("y")])
    with pytest.raises(KeyError) as told:
        lines.remove(absent)
    assert told.value.args == (absent.pod,)
    assert names(lines) == [["x", "y"]]
