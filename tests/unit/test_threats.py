"""The tests that the page about security names for each threat are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "concepts" / "security.md").read_text(encoding="utf-8")
THREATS = PAGE.partition("## Threats and answers")[2].partition("\n## ")[0]
ROWS = {row.split(" | ")[0]: row for row in re.findall(r"^\| (?!threat )(.+) \|$", THREATS, re.MULTILINE)}


@pytest.mark.parametrize("threat", ROWS)
def test_a_threat_has_its_test(threat: str) -> None:
    (named,) = re.findall(r"`([\w/]+\.py)::(\w+)`$", ROWS[threat])
    path, name = named
    assert re.search(rf"^(async )?def {name}\(", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE)
