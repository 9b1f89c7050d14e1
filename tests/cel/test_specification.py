"""The CEL specification's own tests, section by section."""

from collections import defaultdict
from typing import Final

import pytest
from cel import divergences
from cel.comparing import outcome_of
from cel.specification import LIBRARIES, Row, of_one_kind, read

from tollbar.cel import CelEngine
from tollbar.devplane.real.oracle import Oracle

ROWS: Final = read()
SECTIONS: Final[dict[str, list[Row]]] = defaultdict(list)
for _row in ROWS:
    SECTIONS[_row.section].append(_row)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_answered_as_kubernetes_does(engines: dict[str, CelEngine], section: str) -> None:
    wrong = [
        (name, row.expression, answer, row.kubernetes)
        for name, engine in engines.items()
        for row in SECTIONS[section]
        if (answer := row.ask(engine)) != row.kubernetes and not divergences.listed(row.expression)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["compiled", "closures"])
def test_the_core_is_answered_as_the_specification_says(engines: dict[str, CelEngine], name: str) -> None:
    core = [row for row in ROWS if row.section not in LIBRARIES]
    right = sum(row.ask(engines[name]) == row.want for row in core)
    assert right / len(core) >= 0.97


def test_kubernetes_answers_what_the_table_says(oracle: Oracle) -> None:
    answers = oracle.evaluate(row.request() for row in ROWS)
    found = [of_one_kind(outcome_of(answer)) for answer in answers]
    wrong = [(row.expression, got) for row, got in zip(ROWS, found, strict=True) if got != row.kubernetes]
    assert wrong == []
