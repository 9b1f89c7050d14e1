"""When our gate comes off: every row of the chain, one plan each."""

from dataclasses import replace

import pytest
from fakes.engine import in_words
from objects.builders import claim, toleration
from unit.decide.pods.gateplans import (
    APP,
    APPEND,
    AUDIT,
    AUDIT_TOO,
    BLOCKED,
    CLAIM,
    CLAIM_NAMED,
    CLUSTER,
    ELSEWHERE,
    EMPTY,
    EQUAL,
    FAILING,
    FREE,
    GPU,
    GPU_CLASS,
    HELD,
    ML,
    NO_DEADLINE,
    ONLY_X,
    PLAIN,
    RELEASED_WITH_GPU,
    REPORT,
    SAME,
    TOLERATION,
    UNUSABLE,
    Given,
    added,
    additions,
    first_record,
    is_done_once,
    leaves_what_it_expects,
    lift,
    nothing,
    overdue,
    released,
    waiting,
)
from unit.decide.pods.tables import table

from tollbar import wellknown
from tollbar.decide.gates import release
from tollbar.decide.pods import tolerationgate
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.pods.tolerationgate import GatePlan
from tollbar.model.plan import Event, RetryAfter

EXCLUDED = {
    "a Pod that is being deleted": (Given(HELD.deleting()), nothing("Ending")),
    "a Pod that has finished": (Given(HELD.phase("Failed")), nothing("Ending")),
    "a bound Pod": (Given(FREE.bound()), nothing("Bound")),
    "a DaemonSet's Pod": (Given(FREE.owned_by("DaemonSet", api_version="apps/v1")), nothing("DaemonSetPod")),
    "a Pod that opts out": (Given(FREE.labelled({"tollbar.dev/skip": "true"})), nothing("SkipLabel")),
    "an unmanaged namespace": (Given(FREE, facts={"managed": False}), nothing("NamespaceNotManaged")),
    "a DaemonSet's Pod with our gate is released as it is": (
        Given(HELD.owned_by("DaemonSet", api_version="apps/v1")),
        released("DaemonSetPod"),
    ),
    "a Pod that opts out while held is released as it is": (
        Given(HELD.labelled({"tollbar.dev/skip": "true"})),
        released("SkipLabel"),
    ),
    "a Pod held in an unmanaged namespace is released as it is": (
        Given(HELD, facts={"managed": False}),
        released("NamespaceNotManaged"),
    ),
    "a Pod in an unmanaged namespace is released although its claim is missing": (
        Given(HELD, cluster=EMPTY, facts={"managed": False}),
        released("NamespaceNotManaged", note=f"released; no toleration added{BLOCKED}"),
    ),
    "a Pod is held until it is known whether its namespace is managed": (
        Given(HELD, facts={"managed": False, "ready": False}),
        waiting("the rules to be loaded", after=1.0),
    ),
    "a Pod is held until its namespace is known": (
        Given(HELD, cluster=CLUSTER[1:], facts={"managed": False}),
        waiting("Namespace ml", after=1.0),
    ),
}

HOLD = {
    "a missing claim": (Given(HELD, cluster=EMPTY), waiting("ResourceClaim gpu", after=1.0)),
    "a missing template": (
        Given(PLAIN.templates("gpu"), cluster=EMPTY),
        waiting("ResourceClaimTemplate gpu", after=1.0),
    ),
    "a missing class": (Given(HELD, cluster=(ML, CLAIM)), waiting("DeviceClass gpu", after=1.0)),
    "a namespace that is not known yet": (Given(HELD, cluster=CLUSTER[1:]), waiting("Namespace ml", after=1.0)),
    "a claim to come, for a rule that reads its name": (
        Given(PLAIN.templates("gpu"), (CLAIM_NAMED,)),
        waiting("ResourceClaim from template gpu", after=1.0),
    ),
    "several rules wait for the same": (
        Given(HELD, (GPU, replace(GPU, name="b")), EMPTY),
        waiting("ResourceClaim gpu", after=1.0),
    ),
    "several rules wait for different things": (
        Given(HELD.labelled(app="web"), (GPU, APP), ()),
        waiting("Namespace ml; ResourceClaim gpu", after=1.0),
    ),
    "rules that are not loaded": (Given(HELD, facts={"ready": False}), waiting("the rules to be loaded", after=1.0)),
    "there is no Event in the first two seconds": (
        Given(HELD, cluster=EMPTY, age=1.5),
        waiting("ResourceClaim gpu", after=0.5),
    ),
    "after two seconds an Event says what the Pod waits for": (
        Given(HELD, cluster=EMPTY, age=2.0),
        waiting(
            "ResourceClaim gpu",
            Event("Normal", "SchedulingHeld", "waiting for ResourceClaim gpu", "Hold"),
            after=58.0,
        ),
    ),
    "without a deadline there is nothing to wake up for": (
        Given(HELD, cluster=EMPTY, age=2.0, facts={"policy": NO_DEADLINE}),
        waiting(
            "ResourceClaim gpu",
            Event("Normal", "SchedulingHeld", "waiting for ResourceClaim gpu", "Hold"),
            after=None,
        ),
    ),
    "a maxHold of less than two seconds is waited for": (
        Given(HELD, cluster=EMPTY, age=0.5, facts={"policy": GatePolicy(max_hold=1.5)}),
        waiting("ResourceClaim gpu", after=1.0),
    ),
    "a clock that is behind the API server's": (
        Given(HELD, cluster=EMPTY, age=-5.0),
        waiting("ResourceClaim gpu", after=2.0),
    ),
    "true rules wait for undecided ones": (
        Given(HELD.labelled(app="web"), (GPU, APP), EMPTY),
        replace(waiting("ResourceClaim gpu", after=1.0), matched=(APP,)),
    ),
    "failing rules wait for undecided ones": (
        Given(HELD, (GPU, FAILING), EMPTY),
        replace(waiting("ResourceClaim gpu", after=1.0), failed=(("r", "1:1: no such key"),)),
    ),
}

EXPIRY = {
    "a Pod is released without what is unknown": (
        Given(HELD, cluster=EMPTY, age=60.0),
        replace(
            released("HeldTooLong"),
            events=(
                overdue("released after 60s, while Tollbar still waits for ResourceClaim gpu", "Release"),
                Event("Normal", "GateReleased", f"released; no toleration added{BLOCKED}", "Release"),
            ),
        ),
    ),
    "a Pod is released with the tolerations of the rules that are true": (
        Given(HELD.labelled(app="web"), (GPU, APP), EMPTY, age=60.0),
        GatePlan(
            (*lift(), ONLY_X, {**APPEND, "value": toleration("example.com/app")}, *first_record("gate", APP)),
            (
                overdue("released after 60s, while Tollbar still waits for ResourceClaim gpu", "Release"),
                added(f"1 toleration by app; released{BLOCKED}"),
            ),
            because=("HeldTooLong",),
            released=True,
            via="gate",
            additions=additions(APP),
            matched=(APP,),
        ),
    ),
    "a Pod is released at maxHold although no rules are loaded": (
        Given(HELD, age=60.0, facts={"ready": False}),
        replace(
            released("HeldTooLong"),
            events=(
                overdue("released after 60s, while Tollbar still waits for the rules to be loaded", "Release"),
                Event("Normal", "GateReleased", "released; no toleration added", "Release"),
            ),
        ),
    ),
    "onExpiry Report: the Pod is held on, with an Event": (
        Given(HELD, cluster=EMPTY, age=60.0, facts={"policy": REPORT}),
        waiting(
            "ResourceClaim gpu",
            overdue("held for more than 60s, waiting for ResourceClaim gpu", "Hold"),
            after=None,
        ),
    ),
    "onExpiry Report: the Pod is looked at again at maxHold": (
        Given(HELD, cluster=EMPTY, age=59.0, facts={"policy": REPORT}),
        waiting(
            "ResourceClaim gpu",
            Event("Normal", "SchedulingHeld", "waiting for ResourceClaim gpu", "Hold"),
            after=1.0,
        ),
    ),
    "a complete Pod is released normally, however old": (Given(HELD, age=86_400.0), RELEASED_WITH_GPU),
    "a Pod without gate has no deadline": (
        Given(FREE, cluster=EMPTY, age=86_400.0),
        nothing("Undecided: rule gpu: ResourceClaim gpu"),
    ),
}

RELEASE = {
    "with the tolerations that it lacks": (Given(HELD), RELEASED_WITH_GPU),
    "a template says what the claim will want": (
        Given(HELD.but("spec.resourceClaims", None).templates("gpu")),
        RELEASED_WITH_GPU,
    ),
    "although the SchedulingGate names other owners": (Given(HELD, facts={"policy": UNUSABLE}), RELEASED_WITH_GPU),
    "with none when its author wrote them": (
        Given(HELD.tolerating(TOLERATION)),
        released("Matched: rule gpu", matched=(GPU,)),
    ),
    "with none when the author left Equal out": (
        Given(
            PLAIN.claims("gpu").tolerating({"key": "k", "value": "v"}),
            (EQUAL,),
        ),
        released("Matched: rule gpu", matched=(EQUAL,)),
    ),
    "with none when no rule is true": (Given(PLAIN), released("NoRuleMatched")),
    "with none when there are no rules": (Given(HELD, ()), released("NoRuleMatched")),
    "although a claim is missing that no rule asks about; the Event says who waits for it": (
        Given(HELD, (), EMPTY),
        released("NoRuleMatched", note=f"released; no toleration added{BLOCKED}"),
    ),
    "a template is missing: kube-scheduler waits for its claim": (
        Given(PLAIN.templates("lost"), ()),
        released(
            "NoRuleMatched",
            note="released; no toleration added; kube-scheduler waits for ResourceClaimTemplate lost,"
            " until then kubectl shows SchedulingGated",
        ),
    ),
    "a class is missing: kube-scheduler says so itself": (
        Given(HELD, (), (ML, CLAIM)),
        released("NoRuleMatched"),
    ),
    "a claim is missing, and somebody else's gate stays: the Event names the gate": (
        Given(HELD.but("spec.schedulingGates", [{"name": wellknown.GATE}, {"name": "a.dev/x"}]), (), EMPTY),
        released("NoRuleMatched", note="released; still waiting for a.dev/x; no toleration added"),
    ),
    "although a claim is missing that only a rule for other namespaces asks about": (
        Given(HELD, (ELSEWHERE,), EMPTY),
        released("NoRuleMatched", note=f"released; no toleration added{BLOCKED}"),
    ),
    "although a claim is missing that only a rule in Audit asks about": (
        Given(HELD, (AUDIT,), EMPTY),
        released("NoRuleMatched", note=f"released; no toleration added{BLOCKED}"),
    ),
    "a rule in Audit adds nothing, counts as matched, and says what it would add": (
        Given(HELD, (AUDIT,)),
        released("Audited: rule audit", matched=(AUDIT,), audited=additions(AUDIT)),
    ),
    "rules in Audit that would add the same say so each": (
        Given(HELD, (AUDIT, AUDIT_TOO)),
        released(
            "Audited: rule audit",
            "Audited: rule audit-too",
            matched=(AUDIT, AUDIT_TOO),
            audited=additions(AUDIT, AUDIT_TOO),
        ),
    ),
    "a rule in Audit would add nothing that the Pod has": (
        Given(HELD.tolerating(TOLERATION), (AUDIT,)),
        released("Audited: rule audit", matched=(AUDIT,)),
    ),
    "a rule that fails counts as false, with an Event": (
        Given(PLAIN, (FAILING,)),
        replace(
            released("Failed: rule r: 1:1: no such key", failed=(("r", "1:1: no such key"),)),
            events=(
                Event("Normal", "GateReleased", "released; no toleration added", "Release"),
                Event("Warning", "RuleEvaluationFailed", "rule r: 1:1: no such key", "Evaluate"),
            ),
        ),
    ),
    "too many alternatives count as false": (
        Given(HELD, cluster=(ML, GPU_CLASS, claim("gpu").request(*["gpu"] * 257))),
        released("TooManyAlternatives: rule gpu"),
    ),
    "somebody else's gates stay, and the Event names them": (
        Given(PLAIN.gated("a.dev/x", wellknown.GATE, "b.dev/y")),
        released(
            "NoRuleMatched", note="released; still waiting for a.dev/x, b.dev/y; no toleration added", patch=lift(1)
        ),
    ),
    "one event for all rules": (
        Given(HELD.labelled(app="web"), (GPU, APP, SAME)),
        GatePlan(
            (
                *lift(),
                ONLY_X,
                {**APPEND, "value": toleration("example.com/app")},
                APPEND,
                *first_record("gate", APP, GPU),
            ),
            (added("2 tolerations by app, gpu; released"),),
            because=("Matched: rule app", "Matched: rule gpu", "Matched: rule same"),
            released=True,
            via="gate",
            additions=additions(APP, GPU),
            matched=(APP, GPU, SAME),
        ),
    ),
}

TABLE = table({"excluded": EXCLUDED, "hold": HOLD, "expiry": EXPIRY, "release": RELEASE})


@pytest.mark.behaviour(6, case="one event for all rules")
@pytest.mark.behaviour(5, 32, case="somebody else's gates stay, and the Event names them")
@pytest.mark.parametrize(("given", "want"), TABLE.values(), ids=TABLE)
def test_plan(given: Given, want: GatePlan) -> None:
    assert in_words(given.decide()) == want


PATCHED = {title: given for title, (given, want) in TABLE.items() if want.patch}


@pytest.mark.parametrize("given", PATCHED.values(), ids=PATCHED)
def test_once_done_nothing_is_left_to_do(given: Given) -> None:
    assert is_done_once(given)


@pytest.mark.parametrize("given", PATCHED.values(), ids=PATCHED)
def test_the_expected_pod_is_what_the_patch_leaves_but_for_the_record(given: Given) -> None:
    assert leaves_what_it_expects(given)


def test_there_is_no_expected_pod_without_a_patch() -> None:
    given = Given(HELD, cluster=EMPTY)
    assert tolerationgate.expected(given.gather(), given.decide()) is None


def test_a_pod_that_does_not_say_when_it_was_created_has_just_been() -> None:
    assert Given(HELD.but("metadata.creationTimestamp", None), cluster=EMPTY).decide().outcome == RetryAfter(2.0)


def test_the_chain_has_a_row_for_every_rule() -> None:
    assert [each.__name__ for each in release.CHAIN] == ["_excluded", "_overdue", "_hold", "_decided"]
