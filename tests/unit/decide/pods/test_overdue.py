"""The namespaces whose Pods should have been released."""

from collections.abc import Mapping, Sequence

import pytest
from objects.builders import CREATED, Pod, pod

from tollbar.decide.pods import overdue
from tollbar.decide.pods.scope import GatePolicy
from tollbar.model import timestamps

MINUTE = GatePolicy(max_hold=60)
CASES: dict[str, tuple[Mapping[str, Sequence[float]], GatePolicy, float, set[str]]] = {
    "no Pod is held": ({}, MINUTE, 60, set()),
    "a Pod may be held for longer": ({"one": [0]}, MINUTE, 59.9, set()),
    "a Pod has been held for maxHold": ({"one": [0]}, MINUTE, 60, {"one"}),
    "many Pods of a namespace count once": ({"one": [0, 0], "two": [0], "three": [30]}, MINUTE, 60, {"one", "two"}),
    "one Pod of many": ({"one": [30, 0, 40]}, MINUTE, 60, {"one"}),
    "Pods that may be held without end": ({"one": [0]}, GatePolicy(max_hold=None), 1e9, set()),
    "overdue Pods are only reported": ({"one": [0]}, GatePolicy(60, release_on_expiry=False), 1e9, set()),
}


@pytest.mark.parametrize(("since", "policy", "now", "want"), CASES.values(), ids=CASES)
def test_overdue_namespaces(
    since: Mapping[str, Sequence[float]], policy: GatePolicy, now: float, want: set[str]
) -> None:
    assert overdue.namespaces(since, policy, now) == want


def created(second: int) -> Pod:
    return pod(f"at-{second}").created(CREATED + second)


def test_who_became_overdue_between_two_looks_the_oldest_first() -> None:
    held = [created(4), created(3), created(1), created(2).deleting(), created(0)]
    found = overdue.between(held, timestamps.time(CREATED), timestamps.time(CREATED + 3))
    assert [each["metadata"]["name"] for each in found] == ["at-1", "at-3"]
