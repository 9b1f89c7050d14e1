"""What the status of a TolerationRule says, and when it is written."""

from dataclasses import replace
from typing import Any

import pytest
from fakes.engine import expression, has_label, rule, wants_class
from objects.builders import CREATED, ready_status, toleration_rule

from tollbar.decide.rules import rulestatus
from tollbar.decide.rules.placements import Placement
from tollbar.decide.rules.rule import DROPPED, ExtendedResources, Problem
from tollbar.decide.rules.rulestatus import LastMatch, RuleStatusFacts
from tollbar.decide.status import StatusPlan
from tollbar.model.objects import Key, Object
from tollbar.model.plan import Event, RetryAfter

NOW = CREATED + 100.0
GPU = rule("gpu", wants_class("gpu"))
CLAIMS = replace(GPU, tolerations=(), device_tolerations=GPU.tolerations)


def facts(**changes: Any) -> RuleStatusFacts:
    given = RuleStatusFacts(
        rule=toleration_rule(), compiled=GPU, pending=0, last=None, prefiltered=True, written=None, kept=True
    )
    return replace(given, **changes)


def having(status_: Object, **changes: Any) -> RuleStatusFacts:
    return facts(rule=toleration_rule().but("status", status_), **changes)


COMPILED = ready_status("True", "Compiled", since=CREATED, pendingMatches=0)
LATE = "the webhook sees only Pods that want devices: added after admission"
WEB = {"lastMatch": {"time": "2026-01-01T00:00:10Z", "namespace": "ml", "pod": "web"}}
API = {"lastMatch": {"time": "2026-01-01T00:01:34Z", "namespace": "ml", "pod": "api"}}
FOUND = LastMatch(Key("ml", "api"), NOW - 5.5, restarted=False)
PROBLEM = Problem("InvalidExpression", "1:7: undeclared reference")
INVALID = Event("Warning", "InvalidRule", "InvalidExpression: 1:7: undeclared reference", "Compile")

RULES: dict[str, tuple[RuleStatusFacts, StatusPlan]] = {
    "a new rule": (facts(), StatusPlan(ready_status("True", "Compiled", pendingMatches=0))),
    "a new rule whose conditions are null": (
        having({"conditions": None}),
        StatusPlan(ready_status("True", "Compiled", pendingMatches=0)),
    ),
    "a status that is there already is not written again": (having(COMPILED), StatusPlan()),
    "another number": (having(COMPILED, pending=3), StatusPlan({**COMPILED, "pendingMatches": 3})),
    "another number soon after a write": (
        having(COMPILED, pending=3, written=NOW - 20),
        StatusPlan(outcome=RetryAfter(10.0)),
    ),
    "another number in the moment of a write": (
        having(COMPILED, pending=3, written=NOW),
        StatusPlan(outcome=RetryAfter(30.0)),
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
        StatusPlan(
            ready_status("False", "InvalidExpression", "1:7: undeclared reference", pendingMatches=0), (INVALID,)
        ),
    ),
    "a condition that is there already is not written or reported again": (
        having(
            ready_status("False", "InvalidExpression", "1:7: undeclared reference", since=CREATED, pendingMatches=0),
            compiled=PROBLEM,
        ),
        StatusPlan(),
    ),
    "another generation with the same outcome": (
        facts(rule=toleration_rule().but("metadata.generation", 2).but("status", COMPILED)),
        StatusPlan(ready_status("True", "Compiled", since=CREATED, generation=2, pendingMatches=0)),
    ),
    "a count that is not complete is not written": (
        having({**COMPILED, "pendingMatches": 7}, pending=None),
        StatusPlan(outcome=RetryAfter(1.0)),
    ),
    "a count that is not complete does not delay a condition": (
        having(COMPILED, compiled=PROBLEM, pending=None),
        StatusPlan(
            ready_status("False", "InvalidExpression", "1:7: undeclared reference", pendingMatches=0),
            (INVALID,),
            RetryAfter(1.0),
        ),
    ),
    "the first match": (having(COMPILED, last=FOUND), StatusPlan(COMPILED | API)),
    "another match": (having(COMPILED | WEB, last=FOUND), StatusPlan(COMPILED | API)),
    "another match soon after a write": (
        having(COMPILED | WEB, last=FOUND, written=NOW - 20),
        StatusPlan(outcome=RetryAfter(10.0)),
    ),
    "a match that is there already is not written again": (having(COMPILED | API, last=FOUND), StatusPlan()),
    "no match since the restart leaves the last one": (having(COMPILED | WEB), StatusPlan()),
    "what is found again after a restart leaves the last match": (
        having(COMPILED | WEB, last=replace(FOUND, restarted=True)),
        StatusPlan(),
    ),
    "what is found after a restart is the first match": (
        having(COMPILED, last=replace(FOUND, restarted=True)),
        StatusPlan(COMPILED | API),
    ),
    "a match is written with the count": (
        having(COMPILED, pending=None, last=FOUND),
        StatusPlan(outcome=RetryAfter(1.0)),
    ),
    "a disabled rule": (
        facts(compiled=replace(GPU, mode="Disabled")),
        StatusPlan(ready_status("True", "Disabled", "spec.mode is Disabled", pendingMatches=0)),
    ),
    "a rule about Pods alone behind the prefilter": (
        facts(compiled=rule("gpu", has_label("app"))),
        StatusPlan(ready_status("True", "LateOnly", LATE, pendingMatches=0)),
    ),
    "a rule about Pods alone without it": (
        facts(compiled=rule("gpu", has_label("app")), prefiltered=False),
        StatusPlan(ready_status("True", "Compiled", pendingMatches=0)),
    ),
    "a rule about extended resources passes the prefilter": (
        facts(
            compiled=rule(
                "gpu",
                ExtendedResources(frozenset({"example.com/gpu"})),
                reads={"pod.spec.containers", "pod.spec.initContainers"},
            )
        ),
        StatusPlan(ready_status("True", "Compiled", pendingMatches=0)),
    ),
    "a rule for claims alone matches no Pods": (facts(compiled=CLAIMS), StatusPlan(ready_status("True", "Compiled"))),
    "before the Pods are counted as well": (
        facts(compiled=CLAIMS, pending=None),
        StatusPlan(ready_status("True", "Compiled")),
    ),
    "a rule that was for Pods before": (
        having(COMPILED, compiled=CLAIMS),
        StatusPlan({**ready_status("True", "Compiled", since=CREATED), "pendingMatches": None}),
    ),
    "tolerations of devices are dropped, and it gives nothing else": (
        facts(compiled=CLAIMS, kept=False),
        StatusPlan(ready_status("False", "TolerationsDropped", DROPPED)),
    ),
    "tolerations of devices are dropped, and it gives Pods some": (
        facts(compiled=replace(GPU, device_tolerations=GPU.tolerations), kept=False),
        StatusPlan(ready_status("True", "TolerationsDropped", DROPPED, pendingMatches=0)),
    ),
    "tolerations of devices are dropped, of which it gives none": (
        facts(kept=False),
        StatusPlan(ready_status("True", "Compiled", pendingMatches=0)),
    ),
    "tolerations of devices are dropped, and it is disabled": (
        facts(compiled=replace(CLAIMS, mode="Disabled"), kept=False),
        StatusPlan(ready_status("True", "Disabled", "spec.mode is Disabled")),
    ),
    "a rule that reads nothing is about Pods alone": (
        facts(compiled=rule("gpu", expression(lambda _: True))),
        StatusPlan(ready_status("True", "LateOnly", LATE, pendingMatches=0)),
    ),
}


@pytest.mark.parametrize(("given", "want"), RULES.values(), ids=RULES)
def test_decisions(given: RuleStatusFacts, want: StatusPlan) -> None:
    assert rulestatus.decide(given, NOW) == want


READY = ready_status("True", "Compiled", since=CREATED)
UNNUMBERED = {"conditions": READY["conditions"]}
PLACEMENTS: dict[str, tuple[Object, Placement | Problem, float | None, StatusPlan]] = {
    "a new one": ({}, Placement(GPU, (), ()), None, StatusPlan(ready_status("True", "Compiled"))),
    "one that is not valid": (
        {},
        PROBLEM,
        None,
        StatusPlan(ready_status("False", "InvalidExpression", "1:7: undeclared reference"), (INVALID,)),
    ),
    "one whose status is there": (READY, Placement(GPU, (), ()), None, StatusPlan()),
    "one whose status lacks what is no condition, soon after a write": (
        UNNUMBERED,
        Placement(GPU, (), ()),
        NOW - 10,
        StatusPlan(outcome=RetryAfter(20.0)),
    ),
}


@pytest.mark.parametrize(("before", "compiled", "written", "want"), PLACEMENTS.values(), ids=PLACEMENTS)
def test_placement_rules(
    before: Object, compiled: Placement | Problem, written: float | None, want: StatusPlan
) -> None:
    assert rulestatus.of_placement(toleration_rule().but("status", before), compiled, written, NOW) == want
