"""Label selectors, as metav1.LabelSelector has them."""

from typing import Any

import pytest

from tollbar.model.selectors import matches, validate

LABELS = {"team": "ml", "env": "prod"}

NO_KEY = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)


def one(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


MATCHES: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "an empty selector takes everything": ({}, True),
    "no selector takes nothing": (None, False),
    "equal labels": ({"matchLabels": {"team": "ml"}}, True),
    "one of two labels differs": ({"matchLabels": {"team": "ml", "env": "dev"}}, False),
    "an absent label is not an empty one": ({"matchLabels": {"zone": ""}}, False),
    "In": (one("team", "In", "web", "ml"), True),
    "In without the label": (one("zone", "In", "a"), False),
    "NotIn": (one("team", "NotIn", "ml"), False),
    "NotIn without the label": (one("zone", "NotIn", "a"), True),
    "Exists": (one("team", "Exists"), True),
    "Exists without the label": (one("zone", "Exists"), False),
    "DoesNotExist": (one("zone", "DoesNotExist"), True),
    "DoesNotExist with the label": (one("team", "DoesNotExist"), False),
    "an unknown operator never matches": (one("team", "Like", "m"), False),
    "NotIn without values, which the API server refuses": (one("team", "NotIn"), False),
    "Exists with values, which the API server refuses": (one("team", "Exists", "ml"), False),
    "labels and expressions must both hold": ({"matchLabels": {"team": "ml"}, **one("env", "In", "dev")}, False),
    "null lists are empty": ({"matchLabels": None, "matchExpressions": None}, True),
}


@pytest.mark.parametrize(("selector", "want"), MATCHES.values(), ids=MATCHES)
def test_matches(selector: dict[str, Any] | None, want: bool) -> None:
    assert matches(selector, LABELS) is want


VALIDATE: dict[str, tuple[Any, list[str]]] = {
    "an empty selector": ({}, []),
    "every operator": (
        {
            "matchLabels": {"example.com/team": "ml"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "a", "operator": "Exists"},
            ],
        },
        [],
    ),
    "In without values": (
        one("a", "In"),
        ["s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    "Exists with values": (
        one("a", "Exists", "b"),
        ["s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    "an unknown operator": (
        one("a", "Like", "b"),
        ['s.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator'],
    ),
    "two slashes in a key": (
        {"matchLabels": {"a/b/c": ""}},
        [f's.matchLabels: Invalid value: "a/b/c": {NO_KEY}'],
    ),
    "a value that is too long": (
        one("a", "In", "b" * 64),
        [f's.matchExpressions[0].values[0]: Invalid value: "{"b" * 64}": must be no more than 63 bytes'],
    ),
    "no selector": (["a"], ['s: Invalid value: ["a"]: must be an object']),
    "members of other types": (
        {"matchLabels": {"a": 1}, "matchExpressions": ["a"]},
        [
            "s.matchLabels: Invalid value: 1: must be a string",
            's.matchExpressions[0]: Invalid value: "a": must be an object',
        ],
    ),
    "lists and maps exchanged": ({"matchLabels": ["a"]}, ['s.matchLabels: Invalid value: ["a"]: must be an object']),
    "values that are no list": (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]},
        ['s.matchExpressions[0].values: Invalid value: "b": must be a list'],
    ),
}


@pytest.mark.parametrize(("given", "want"), VALIDATE.values(), ids=VALIDATE)
def test_validate(given: Any, want: list[str]) -> None:
    assert [str(error) for error in validate(given, path="s")] == want
