"""What the statuses of our own objects say, and when they are written."""

from dataclasses import replace
from typing import Any

import pytest
from builders import CREATED, scheduling_gate, toleration_rule
from fakes import expression, has_label, rule, wants_class

from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.decide.rules import statuses
from tollbar.decide.rules.rule import ExtendedResources, Problem
from tollbar.decide.rules.statuses import GateFacts, RuleFacts, StatusPlan
from tollbar.model.objects import Object
from tollbar.model.plan import Event, RetryAfter

NOW = CREATED + 100.0
SINCE, BEFORE = "2026-01-01T00:01:40Z", "2026-01-01T00:00:00Z"
GPU = rule("gpu", wants_class("gpu"))


def status(
    ready: str, reason: str, message: str = "", *, since: str = SINCE, generation: int = 1, **numbers: int
) -> Object:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }
    return {**numbers, "observedGeneration": generation, "conditions": [condition]}


def facts(**changes: Any) -> RuleFacts:
    given = RuleFacts(rule=toleration_rule(), compiled=GPU, pending=0, prefiltered=True, written=None)
    return replace(given, **changes)


def having(status_: Object, **changes: Any) -> RuleFacts:
    return facts(rule=toleration_rule().but("status", status_), **changes)


COMPILED = status("True", "Compiled", since=BEFORE, pendingMatches=0)
LATE = "the webhook sees only Pods that want devices: added after admission"
PROBLEM = Problem("InvalidExpression", "1:7: undeclared reference")
INVALID = Event("Warning", "InvalidRule", "InvalidExpression: 1:7: undeclared reference", "Compile")

RULES: dict[str, tuple[RuleFacts, StatusPlan]] = {
    "a new rule": (facts(), StatusPlan(status("True", "Compiled", pendingMatches=0))),
    "a new rule whose conditions are null": (
        having({"conditions": None}),
        StatusPlan(status("True", "Compiled", pendingMatches=0)),
    ),
    "nothing new": (having(COMPILED), StatusPlan()),
    "another number": (having(COMPILED, pending=3), StatusPlan({**COMPILED, "pendingMatches": 3})),
    "another number soon after a write": (
        having(COMPILED, pending=3, written=NOW - 20),
        StatusPlan(outcome=RetryAfter(10.0)),
    ),
    "another number when the clock was set back since the write": (
        having(COMPILED, pending=3, written=NOW + 3600),
        StatusPlan({**COMPILED, "pendingMatches": 3}),
    ),
    "another number a period after a write": (
        having(COMPILED, pending=3, written=NOW - 30),
        StatusPlan({**COMPILED, "pendingMatches": 3}),
    ),
    "a condition is written at once": (
        having(COMPILED, compiled=PROBLEM, written=NOW - 1),
        StatusPlan(status("False", "InvalidExpression", "1:7: undeclared reference", pendingMatches=0), (INVALID,)),
    ),
    "and told once": (
        having(
            status("False", "InvalidExpression", "1:7: undeclared reference", since=BEFORE, pendingMatches=0),
            compiled=PROBLEM,
        ),
        StatusPlan(),
    ),
    "another generation with the same outcome": (
        facts(rule=toleration_rule().but("metadata.generation", 2).but("status", COMPILED)),
        StatusPlan(status("True", "Compiled", since=BEFORE, generation=2, pendingMatches=0)),
    ),
    "a count that is not complete is not written": (
        having({**COMPILED, "pendingMatches": 7}, pending=None),
        StatusPlan(outcome=RetryAfter(1.0)),
    ),
    "nor does it hold up a condition": (
        having(COMPILED, compiled=PROBLEM, pending=None),
        StatusPlan(
            status("False", "InvalidExpression", "1:7: undeclared reference", pendingMatches=0),
            (INVALID,),
            RetryAfter(1.0),
        ),
    ),
    "a disabled rule": (
        facts(compiled=replace(GPU, mode="Disabled")),
        StatusPlan(status("True", "Disabled", "spec.mode is Disabled", pendingMatches=0)),
    ),
    "a rule about Pods alone behind the prefilter": (
        facts(compiled=rule("gpu", has_label("app"))),
        StatusPlan(status("True", "LateOnly", LATE, pendingMatches=0)),
    ),
    "a rule about Pods alone without it": (
        facts(compiled=rule("gpu", has_label("app")), prefiltered=False),
        StatusPlan(status("True", "Compiled", pendingMatches=0)),
    ),
    "a rule about extended resources passes the prefilter": (
        facts(compiled=rule("gpu", ExtendedResources(frozenset({"example.com/gpu"})), reads={"pod.spec"})),
        StatusPlan(status("True", "Compiled", pendingMatches=0)),
    ),
    "a rule that reads nothing is about Pods alone": (
        facts(compiled=rule("gpu", expression(lambda _: True))),
        StatusPlan(status("True", "LateOnly", LATE, pendingMatches=0)),
    ),
}


@pytest.mark.parametrize(("given", "want"), RULES.values(), ids=RULES)
def test_rule_status(given: RuleFacts, want: StatusPlan) -> None:
    assert statuses.rule_status(given, NOW) == want


def gate_facts(**changes: Any) -> GateFacts:
    given = GateFacts(
        gate=scheduling_gate().but("metadata.generation", 1),
        policy=SHIPPED_GATE_POLICY,
        held_since=(),
        owned=True,
        identity="system:serviceaccount:tollbar-system:tollbar-controllers",
        written=None,
    )
    return replace(given, **changes)


def held(pods: int, oldest: int, overdue: int) -> dict[str, int]:
    return {"heldPods": pods, "oldestHeldSeconds": oldest, "overdue": overdue}


EMPTY = status("True", "Owned", since=BEFORE, **held(0, 0, 0))
STRANGER = "system:serviceaccount:tollbar-system:tollbar-controllers is not among spec.owners and may not release Pods"

GATES: dict[str, tuple[GateFacts, StatusPlan]] = {
    "our gate, nobody held": (gate_facts(), StatusPlan(status("True", "Owned", **held(0, 0, 0)))),
    "nothing new": (gate_facts(gate=gate_facts().gate.but("status", EMPTY)), StatusPlan()),
    "Pods are held": (
        gate_facts(held_since=(NOW - 5, NOW - 60.9, NOW - 59)),
        StatusPlan(status("True", "Owned", **held(3, 60, 1)), outcome=RetryAfter(30.0)),
    ),
    "without a deadline nobody is overdue": (
        gate_facts(held_since=(NOW - 5, NOW - 3600), policy=GatePolicy(max_hold=None)),
        StatusPlan(status("True", "Owned", **held(2, 3600, 0)), outcome=RetryAfter(30.0)),
    ),
    "a Pod from a clock that is ahead": (
        gate_facts(held_since=(NOW + 5,)),
        StatusPlan(status("True", "Owned", **held(1, 0, 0)), outcome=RetryAfter(30.0)),
    ),
    "soon after a write": (
        gate_facts(gate=gate_facts().gate.but("status", EMPTY), held_since=(NOW - 5,), written=NOW - 1),
        StatusPlan(outcome=RetryAfter(29.0)),
    ),
    "what is held goes on growing older": (
        gate_facts(
            gate=gate_facts().gate.but("status", status("True", "Owned", since=BEFORE, **held(1, 5, 0))),
            held_since=(NOW - 5,),
        ),
        StatusPlan(outcome=RetryAfter(30.0)),
    ),
    "we are not among the owners": (
        gate_facts(owned=False),
        StatusPlan(status("False", "NotAnOwner", STRANGER, **held(0, 0, 0))),
    ),
    "somebody else's gate": (
        gate_facts(owned=None),
        StatusPlan(
            status("True", "Observed", "this gate is somebody else's: watched and reported only", **held(0, 0, 0))
        ),
    ),
}


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
    assert statuses.numbers_due_in(given, written, NOW) == want


@pytest.mark.parametrize(("given", "want"), GATES.values(), ids=GATES)
def test_gate_status(given: GateFacts, want: StatusPlan) -> None:
    assert statuses.gate_status(given, NOW) == want
