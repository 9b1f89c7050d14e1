"""The sample NodeMetadata: Nodes by a number or a time in their metadata."""

import re
from typing import Any

import pytest
from plugins.samples import module
from plugins.tables import handle, info, node, pod, scored

NodeMetadata = module("node_metadata").NodeMetadata
KEY = "example.com/rank"
SCORES: dict[str, tuple[dict[str, object], list[str | None], list[int]]] = {
    "the highest number is the best": ({}, ["1", "2", "3"], [1, 50, 100]),
    "the lowest number is the best": ({"scoringStrategy": "Lowest"}, ["1", "2", "3"], [100, 50, 1]),
    "numbers may be negative and have decimals": ({}, ["-0.5", "0", "0.5"], [1, 50, 100]),
    "a Node without a value is the worst": ({}, ["5", None, "7"], [1, 0, 100]),
    "so it is with the lowest number": ({"scoringStrategy": "Lowest"}, ["5", None, "7"], [100, 0, 1]),
    "what is no number counts as no value": ({}, ["many", "nan", "inf", "1e300", "5"], [0, 0, 0, 0, 1]),
    "no Node has a value": ({}, [None, None], [0, 0]),
    "all values are equal": ({}, ["7", "7", None], [1, 1, 0]),
    "the newest time is the best": (
        {"metadataType": "Timestamp"},
        ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-02T01:00:00+01:00"],
        [1, 100, 50],
    ),
    "the oldest time is the best": (
        {"metadataType": "Timestamp", "scoringStrategy": "Oldest"},
        ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"],
        [100, 1],
    ),
    "what is no time counts as no value": (
        {"metadataType": "Timestamp"},
        ["yesterday", "2026-01-01", "2026-01-01T00:00:00Z"],
        [0, 0, 1],
    ),
}


@pytest.mark.parametrize("source", ["Label", "Annotation"])
@pytest.mark.parametrize(("args", "values", "want"), SCORES.values(), ids=SCORES)
def test_scores(args: dict[str, object], values: list[str | None], want: list[int], source: str) -> None:
    plugin = NodeMetadata({"metadataKey": KEY, "metadataSource": source, **args}, handle())

    assert scored(plugin, pod(), *(info(with_value(value, source)) for value in values)) == want


def with_value(value: str | None, source: str) -> Any:
    found = node()
    if value is not None:
        found["metadata"][f"{source.lower()}s"] = {KEY: value}
    return found


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "no key": ({}, "metadataKey: must be the name of a label or annotation"),
    "an empty key": ({"metadataKey": ""}, "metadataKey: must be the name of a label or annotation"),
    "a source": (
        {"metadataKey": KEY, "metadataSource": "Status"},
        "metadataSource: must be Label or Annotation, not 'Status'",
    ),
    "a type": ({"metadataKey": KEY, "metadataType": 1}, "metadataType: must be Number or Timestamp, not 1"),
    "a strategy of the other type": (
        {"metadataKey": KEY, "metadataType": "Timestamp", "scoringStrategy": "Highest"},
        "scoringStrategy: must be Newest or Oldest, not 'Highest'",
    ),
    "fields that it does not have": ({"metadataKey": KEY, "weight": 1, "key": KEY}, "unknown fields: key, weight"),
}


@pytest.mark.parametrize(("args", "text"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_are_refused(args: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        NodeMetadata(args, handle())
