"""The namespaces whose Pods should have been released."""

import pytest
from builders import CREATED, pod

from tollbar.decide.pods import overdue
from tollbar.decide.pods.scope import GatePolicy
from tollbar.model.objects import Object

MINUTE = GatePolicy(max_hold=60)
CASES: dict[str, tuple[list[Object], GatePolicy, float, set[str]]] = {
    "no Pod is held": ([], MINUTE, 60, set()),
    "a Pod may be held for longer": ([pod("a", "one")], MINUTE, 59, set()),
    "a Pod has been held for maxHold": ([pod("a", "one")], MINUTE, 60, {"one"}),
    "many Pods of a namespace count once": (
        [pod("a", "one"), pod("b", "one"), pod("c", "two")],
        MINUTE,
        60,
        {"one", "two"},
    ),
    "a Pod that is being deleted": ([pod("a", "one").deleting()], MINUTE, 60, set()),
    "Pods that may be held without end": ([pod("a", "one")], GatePolicy(max_hold=None), 1e9, set()),
    "overdue Pods are only reported": ([pod("a", "one")], GatePolicy(60, release_on_expiry=False), 1e9, set()),
}


@pytest.mark.parametrize(("held", "policy", "age", "want"), CASES.values(), ids=CASES)
def test_overdue_namespaces(held: list[Object], policy: GatePolicy, age: float, want: set[str]) -> None:
    assert overdue.namespaces(held, policy, CREATED + age) == want
