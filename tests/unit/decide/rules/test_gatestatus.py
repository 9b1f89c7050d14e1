"""What the status of a SchedulingGate says, and when it is worth counting again."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from objects.builders import CREATED, ready_status, scheduling_gate

from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.decide.rules import gatestatus
from tollbar.decide.rules.gatestatus import GateStatusFacts
from tollbar.decide.status import StatusPlan
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.plan import RetryAfter

NOW = CREATED + 100.0


def since(*ages: float) -> dict[str, int]:
    """Pods of these ages."""
    return dict(Counter(timestamps.time(NOW - age) for age in ages))


def facts(**changes: Any) -> GateStatusFacts:
    given = GateStatusFacts(
        gate=scheduling_gate().but("metadata.generation", 1),
        policy=SHIPPED_GATE_POLICY,
        held_since={},
        owned=True,
        identity="system:serviceaccount:tollbar-system:tollbar-controllers",
        written=None,
    )
    return replace(given, **changes)


def held(pods: int, oldest: int, overdue: int) -> dict[str, int]:
    return {"heldPods": pods, "oldestHeldSeconds": oldest, "overdue": overdue}


EMPTY = ready_status("True", "Owned", since=CREATED, **held(0, 0, 0))
STRANGER = "system:serviceaccount:tollbar-system:tollbar-controllers is not among spec.owners and may not release Pods"
NO_HOLD = 'spec.maxHold: Invalid value: "soon": must be a duration longer than 0s, such as 60s or 1m30s'
NOT_OURS = (
    "spec.maxHold: Required value: onExpiry Release needs maxHold; spec.onExpiry: Forbidden: onExpiry Release is for"
    " gates of tollbar.dev only: gates of others are reported"
)

GATES: dict[str, tuple[GateStatusFacts, StatusPlan]] = {
    "our gate, nobody held": (facts(), StatusPlan(ready_status("True", "Owned", **held(0, 0, 0)))),
    "a gate without a generation": (
        facts(gate=scheduling_gate()),
        StatusPlan(ready_status("True", "Owned", generation=0, **held(0, 0, 0))),
    ),
    "a status that is there already is not written again": (
        facts(gate=facts().gate.but("status", EMPTY)),
        StatusPlan(),
    ),
    "Pods are held": (
        facts(held_since=since(5, 60, 59)),
        StatusPlan(ready_status("True", "Owned", **held(3, 60, 1)), outcome=RetryAfter(30.0)),
    ),
    "without a deadline nobody is overdue": (
        facts(held_since=since(5, 3600), policy=GatePolicy(max_hold=None)),
        StatusPlan(ready_status("True", "Owned", **held(2, 3600, 0)), outcome=RetryAfter(30.0)),
    ),
    "a Pod from a clock that is ahead": (
        facts(held_since=since(-5)),
        StatusPlan(ready_status("True", "Owned", **held(1, 0, 0)), outcome=RetryAfter(30.0)),
    ),
    "numbers are not written soon after a write": (
        facts(gate=facts().gate.but("status", EMPTY), held_since=since(5), written=NOW - 1),
        StatusPlan(outcome=RetryAfter(29.0)),
    ),
    "a gate that holds Pods is looked at again, since their age grows": (
        facts(
            gate=facts().gate.but("status", ready_status("True", "Owned", since=CREATED, **held(1, 5, 0))),
            held_since=since(5),
        ),
        StatusPlan(outcome=RetryAfter(30.0)),
    ),
    "a gate of which we are not an owner is not ready": (
        facts(owned=False),
        StatusPlan(ready_status("False", "NotAnOwner", STRANGER, **held(0, 0, 0))),
    ),
    "one that is not valid is not ready": (
        facts(gate=facts().gate.expiring("soon")),
        StatusPlan(ready_status("False", "InvalidSpec", NO_HOLD, **held(0, 0, 0))),
    ),
    "nor is one of others; every mistake is told": (
        facts(gate=facts().gate.expiring(None).but("spec.gateName", "example.com/x"), owned=None),
        StatusPlan(ready_status("False", "InvalidSpec", NOT_OURS, **held(0, 0, 0))),
    ),
    "that nobody may release Pods is told before other mistakes": (
        facts(gate=facts().gate.expiring("soon"), owned=False),
        StatusPlan(ready_status("False", "NotAnOwner", STRANGER, **held(0, 0, 0))),
    ),
    "somebody else's gate is observed": (
        facts(owned=None),
        StatusPlan(
            ready_status("True", "Observed", "this gate is somebody else's: watched and reported only", **held(0, 0, 0))
        ),
    ),
}


@pytest.mark.parametrize(("given", "want"), GATES.values(), ids=GATES)
def test_decisions(given: GateStatusFacts, want: StatusPlan) -> None:
    assert gatestatus.decide(given, NOW) == want


REPORTED = scheduling_gate().but("metadata.generation", 2).but("status.observedGeneration", 2)
DUE: dict[str, tuple[Object, float | None, float]] = {
    "never written by this process": (REPORTED, None, 0.0),
    "just written": (REPORTED, NOW - 1, 29.0),
    "written long ago": (REPORTED, NOW - 31, 0.0),
    "written, and the spec has changed since": (REPORTED.but("metadata.generation", 3), NOW - 1, 0.0),
    "the clock was set back": (REPORTED, NOW + 3600, 30.0),
}


@pytest.mark.parametrize(("given", "written", "want"), DUE.values(), ids=DUE)
def test_numbers_are_due(given: Object, written: float | None, want: float) -> None:
    assert gatestatus.numbers_due_in(given, written, NOW) == want
