"""metav1.Condition lists."""

from typing import Any

import pytest

from tollbar.model import conditions

OLD = {
    "type": "Ready",
    "status": "True",
    "reason": "Compiled",
    "message": "",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
OTHER = {**OLD, "type": "Other"}
NEW = {
    "type": "Ready",
    "status": "False",
    "reason": "InvalidExpression",
    "message": "1:5: no",
    "observedGeneration": 2,
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}
SAME_STATUS = {**NEW, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}

SET: dict[str, tuple[Any, str, list[Any]]] = {
    "the first condition": (None, "False", [NEW]),
    "one more condition": ([OTHER], "False", [OTHER, NEW]),
    "a changed status moves the time": ([OLD], "False", [NEW]),
    "the same status keeps the time": ([OLD], "True", [SAME_STATUS]),
    "the place in the list stays": ([OLD, OTHER], "False", [NEW, OTHER]),
    "a condition that somebody else left without a time": (
        [{"type": "Ready", "status": "True"}],
        "True",
        [{**NEW, "status": "True"}],
    ),
}


@pytest.mark.parametrize(("given", "status", "want"), SET.values(), ids=SET)
def test_with_condition(given: Any, status: Any, want: list[Any]) -> None:
    got = conditions.with_condition(
        given,
        type_="Ready",
        status=status,
        reason="InvalidExpression",
        message="1:5: no",
        generation=2,
        now=1767323045.5,
    )
    assert got == want


IS_FALSE: dict[str, tuple[Any, bool]] = {
    "no status": ({}, False),
    "a status of null": ({"status": None}, False),
    "conditions of null, as a new custom resource has": ({"status": {"conditions": None}}, False),
    "another condition": ({"status": {"conditions": [{"type": "Other", "status": "False"}]}}, False),
    "unknown": ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, False),
    "true": ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False),
    "false": ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, True),
}


@pytest.mark.parametrize(("given", "want"), IS_FALSE.values(), ids=IS_FALSE)
def test_is_false(given: Any, want: bool) -> None:
    assert conditions.is_false(given, "Ready") is want
