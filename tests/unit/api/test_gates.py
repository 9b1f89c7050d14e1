"""SchedulingGates: parsed, or every mistake in one clear line."""

from typing import Any

import pytest

from tollbar.api import durations
from tollbar.api.gates import SchedulingGate, parse_gate, shipped_gate
from tollbar.api.reasons import RuleReason

NO_HOLD = "must be a duration longer than 0s, such as 60s or 1m30s"
NO_KEY = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)


def gate(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "SchedulingGate",
        "metadata": {"name": "tolerations"},
        "spec": {"gateName": "tollbar.dev/tolerations", **spec},
    }


ERRORS: dict[str, tuple[Any, list[str]]] = {
    "no object": (None, ["Invalid value: null: must be an object"]),
    "no name": ({"spec": {}}, ["spec.gateName: Required value"]),
    "a name that no gate can have": (
        gate(gateName="a/b/"),
        [f'spec.gateName: Invalid value: "a/b/": {NO_KEY}'],
    ),
    "a hold that is no duration": (
        gate(maxHold="1 minute"),
        [f'spec.maxHold: Invalid value: "1 minute": {NO_HOLD}'],
    ),
    "a hold in bare seconds": (gate(maxHold=60), ["spec.maxHold: Invalid value: 60: must be a string"]),
    "a hold of nothing": (
        gate(maxHold="0s"),
        [f'spec.maxHold: Invalid value: "0s": {NO_HOLD}'],
    ),
    "release without a deadline": (
        gate(onExpiry="Release"),
        ["spec.maxHold: Required value: onExpiry Release needs maxHold"],
    ),
    "release of somebody else's gate": (
        gate(gateName="kueue.x-k8s.io/admission", maxHold="1h", onExpiry="Release"),
        [("spec.onExpiry: Forbidden: onExpiry Release is for gates of tollbar.dev only: gates of others are reported")],
    ),
    "an owner twice": (gate(owners=["a", "b", "a"]), ['spec.owners[2]: Duplicate value: "a"']),
    "an owner without a name": (gate(owners=[""]), ["spec.owners[0]: Required value"]),
}


@pytest.mark.parametrize(("given", "want"), ERRORS.values(), ids=ERRORS)
def test_mistakes(given: Any, want: list[str]) -> None:
    found = parse_gate(given)
    assert isinstance(found, list)
    assert ([str(error) for error in found], {error.reason for error in found}) == (want, {RuleReason.INVALID_SPEC})


def test_the_shipped_gate_holds_for_a_minute_and_releases() -> None:
    found = parse_gate(shipped_gate())
    assert isinstance(found, SchedulingGate)
    assert (found.spec.as_object(), found.spec.max_hold_seconds) == (
        {
            "gateName": "tollbar.dev/tolerations",
            "owners": ["system:serviceaccount:tollbar-system:tollbar-controllers"],
            "maxHold": "60s",
            "onExpiry": "Release",
        },
        60.0,
    )


def test_a_foreign_gate_is_only_reported_and_without_a_deadline() -> None:
    found = parse_gate(gate(gateName="kueue.x-k8s.io/admission"))
    assert isinstance(found, SchedulingGate)
    assert (found.spec.on_expiry, found.spec.max_hold_seconds) == ("Report", None)


DURATIONS = {"60s": 60.0, "1m30s": 90.0, "1.5h": 5400.0, "250ms": 0.25, "1h1m1s1ms": 3661.001}


def test_durations() -> None:
    assert {text: durations.parse(text) for text in DURATIONS} == DURATIONS


@pytest.mark.parametrize("text", ["", "60", "1234567s", "s", "1d", "-1s", "1s ", "1s\n", "1e3s", "1,5s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 60s or 1m30s"):
        durations.parse(text)
