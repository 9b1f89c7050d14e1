"""The version of an API is named where its kinds are, and nowhere else."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = [
    path.relative_to(ROOT)
    for package in ("tollbar/dra", "tollbar/scheduler", "tollbar/views", "controllers")
    for path in sorted((ROOT / package).rglob("*.py"))
]


@pytest.mark.behaviour(45)
def test_nobody_else_names_the_version_of_the_api_of_claims() -> None:
    named = [str(each) for each in MODULES if re.search(r"[\"']resource\.k8s\.io/v\d", (ROOT / each).read_text())]
    assert (len(MODULES) > 50, named) == (True, [])
