"""The tests that pages name, in the last column of a table, are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLES = {"concepts/security.md": "Threats and answers", "operations/drills.md": "The drills"}
"""Pages, and the sections with such a table."""


def rows(page: str, section: str) -> dict[str, str]:
    """By their first column, without the table's head."""
    text = (TESTS.parent / "docs" / page).read_text(encoding="utf-8")
    _, _, table = text.partition(f"\n## {section}\n")[2].partition("\n|---")
    found = re.findall(r"^\| (.+) \|$", table.partition("\n## ")[0], re.MULTILINE)
    return {row.split(" | ")[0]: row for row in found}


ROWS = {f"{page}: {name}": row for page, section in TABLES.items() for name, row in rows(page, section).items()}


@pytest.mark.parametrize("name", ROWS)
def test_what_has_a_row_has_its_test(name: str) -> None:
    (named,) = re.findall(r"`([\w/]+\.py)::(\w+)`$", ROWS[name])
    path, function = named
    assert re.search(rf"^(async )?def {function}\(", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_no_table_is_empty() -> None:
    assert [page for page in TABLES if not any(name.startswith(page) for name in ROWS)] == []
