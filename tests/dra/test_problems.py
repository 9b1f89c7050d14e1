"""The generator of random problems is repeatable, and every family has problems of all kinds."""

from collections import Counter

import pytest
from dra.comparing import ours
from dra.problems import FAMILIES, problem, problems

WITHOUT_ERRORS = {"counts", "held", "taints", "partitions", "binding", "configs", "backtracking", "mixed"}
"""Families in which errors are rare."""


def test_a_seed_gives_the_same_problems_whatever_is_asked_for() -> None:
    assert list(problems(5, 60)) == [*problems(5, 20), *problems(5, 40, 20)]


def test_another_seed_gives_others() -> None:
    assert list(problems(5, 60)) != list(problems(6, 60))


def test_all_families_take_turns() -> None:
    assert {each.family for each in problems(1, len(FAMILIES))} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_every_outcome(family: str) -> None:
    found = Counter(answer.outcome for seed in range(100) for answer in ours(problem(family, seed)))
    missing = {"allocated", "none", "error"} - {outcome for outcome, count in found.items() if count >= 3}
    assert missing <= ({"error"} if family in WITHOUT_ERRORS else set()), found
