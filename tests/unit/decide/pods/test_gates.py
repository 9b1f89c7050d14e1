"""When our gate comes off, and what a Pod without gate still lacks: every row of the chain, one plan each."""

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any

import patching
import pytest
from builders import CREATED, Pod, claim, device_class, namespace, pod, template, toleration
from fakes import FakeEngine, expression, failing, has_label, in_words, no_selector, rule, wants_class

from tollbar import wellknown
from tollbar.decide.gates import release
from tollbar.decide.gates.release import Refusal
from tollbar.decide.pods import gates, package
from tollbar.decide.pods.gates import GateFacts, GatePlan
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.decide.pods.tolerations import Addition
from tollbar.decide.rules.rule import Rule
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.model.plan import DONE, Event, Failed, Outcome, RetryAfter
from tollbar.views.lookup import PackageLookup

ML, GPU_CLASS = namespace(), device_class("gpu")
CLAIM, TEMPLATE = claim("gpu").request("gpu"), template("gpu").request("gpu")
CLUSTER = (ML, GPU_CLASS, CLAIM, TEMPLATE)
EMPTY = (ML,)

TOLERATION = toleration("example.com/gpu")
GPU = rule("gpu", wants_class("gpu"))
APP = rule("app", has_label("app"))
SAME = replace(GPU, name="same")
EQUAL = replace(GPU, tolerations=({"key": "k", "operator": "Equal", "value": "v"},))
AUDIT = replace(GPU, name="audit", mode="Audit")
AUDIT_TOO = replace(AUDIT, name="audit-too")
FAILING = rule("r", failing())
CHAINED = replace(
    rule(
        "chained", expression(lambda inputs: TOLERATION in inputs["pod"]["spec"]["tolerations"], "pod.spec.tolerations")
    ),
    tolerations=(toleration("example.com/chained"),),
)
CLAIM_NAMED = rule("claim", expression(lambda _: True, "claims.metadata.name"))
ELSEWHERE = replace(GPU, namespace_selector={"matchLabels": {"team": "b"}})

REPORT = replace(SHIPPED_GATE_POLICY, release_on_expiry=False)
NO_DEADLINE = GatePolicy(max_hold=None)
UNUSABLE = replace(SHIPPED_GATE_POLICY, usable=False)

HELD = pod().gated().claims("gpu").tolerating(toleration("x"))
FREE = pod().claims("gpu").tolerating(toleration("x"))
PLAIN = pod().gated()


@dataclass
class Given:
    """A Pod so many seconds after its creation, in a cluster that has everything."""

    pod: Pod
    rules: tuple[Rule, ...] = (GPU,)
    cluster: tuple[Object, ...] = CLUSTER
    age: float = 1.0
    facts: dict[str, Any] = field(default_factory=dict)

    def gather(self) -> GateFacts:
        return GateFacts(
            package=package.assemble(self.pod, PackageLookup.of(self.cluster)),
            rules=self.rules,
            engine=FakeEngine(),
            selector=no_selector,
            **{"managed": True, "policy": SHIPPED_GATE_POLICY, **self.facts},
        )

    def decide(self) -> GatePlan:
        return gates.decide(self.gather(), CREATED + self.age)

    def refused(self) -> GatePlan:
        """What comes after other admission has refused what is decided."""
        return gates.refused(self.gather(), self.decide(), "no", CREATED + self.age)


TEST_UID = {"op": "test", "path": "/metadata/uid", "value": "uid-of-web"}
ONLY_X = {"op": "test", "path": "/spec/tolerations", "value": [toleration("x")]}
APPEND = {"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}
LABEL = {"op": "add", "path": "/metadata/labels/tollbar.dev~1gate", "value": "released"}


def lift(place: int = 0) -> Patch:
    path = f"/spec/schedulingGates/{place}"
    test = {"op": "test", "path": f"{path}/name", "value": wellknown.GATE}
    return (TEST_UID, test, {"op": "remove", "path": path}, LABEL)


def first_record(via: str, *rules: Rule) -> Patch:
    entries = [{"rule": each.name, "generation": 1, "added": list(each.tolerations), "via": via} for each in rules]
    text = json.dumps(entries, separators=(",", ":"))
    return (
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {"tollbar.dev/tolerations": text}},
    )


BLOCKED = "; kube-scheduler waits for ResourceClaim gpu, until then kubectl shows SchedulingGated"


def additions(*rules: Rule) -> tuple[Addition, ...]:
    return tuple(Addition(each.name, 1, each.tolerations) for each in rules)


def nothing(*because: Any, outcome: Outcome = DONE, events: tuple[Event, ...] = (), **more: Any) -> GatePlan:
    return GatePlan(because=because, outcome=outcome, events=events, **more)


def released(
    *because: Any, note: str = "released; no toleration added", patch: Patch | None = None, **more: Any
) -> GatePlan:
    """Without tolerations."""
    event = Event("Normal", "GateReleased", note, "Release")
    return GatePlan(lift() if patch is None else patch, (event,), DONE, because, released=True, via="gate", **more)


def added(note: str) -> Event:
    return Event("Normal", "TolerationsAdded", note, "AddTolerations")


def overdue(note: str, action: str) -> Event:
    return Event("Warning", "GateOverdue", note, action)


def waiting(for_: str, *events: Event, after: float | None) -> GatePlan:
    return nothing(f"WaitingFor: {for_}", outcome=DONE if after is None else RetryAfter(after), events=events)


RELEASED_WITH_GPU = GatePlan(
    (*lift(), ONLY_X, APPEND, *first_record("gate", GPU)),
    (added("1 toleration by gpu; released"),),
    because=("Matched: rule gpu",),
    released=True,
    via="gate",
    additions=additions(GPU),
    matched=(GPU,),
)
LATE_WITH_GPU = GatePlan(
    (TEST_UID, ONLY_X, APPEND, *first_record("late", GPU)),
    (added("1 toleration by gpu; added after admission"),),
    because=("Matched: rule gpu",),
    additions=additions(GPU),
    matched=(GPU,),
)

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

LATE = {
    "what admission missed": (Given(FREE), LATE_WITH_GPU),
    "what a rule reads that another one added": (
        Given(FREE.tolerating(TOLERATION), (GPU, CHAINED)),
        GatePlan(
            (
                TEST_UID,
                {**ONLY_X, "value": [toleration("x"), TOLERATION]},
                {**APPEND, "value": toleration("example.com/chained")},
                *first_record("late", CHAINED),
            ),
            (added("1 toleration by chained; added after admission"),),
            because=("Matched: rule chained", "Matched: rule gpu"),
            additions=additions(CHAINED),
            matched=(CHAINED, GPU),
        ),
    ),
    "nothing lacking": (Given(FREE.tolerating(TOLERATION)), nothing("Matched: rule gpu", matched=(GPU,))),
    "no rule": (Given(FREE, ()), nothing("NoRuleMatched")),
    "somebody else's gate is no hindrance": (Given(FREE.gated("a.dev/x")), LATE_WITH_GPU),
    "rules that are not loaded": (Given(FREE, facts={"ready": False}), nothing("RulesNotReady")),
    "an undecided rule": (Given(FREE, cluster=EMPTY), nothing("Undecided: rule gpu: ResourceClaim gpu")),
    "a true rule adds its tolerations beside an undecided one": (
        Given(FREE.labelled(app="web"), (GPU, APP), EMPTY),
        GatePlan(
            (TEST_UID, ONLY_X, {**APPEND, "value": toleration("example.com/app")}, *first_record("late", APP)),
            (added("1 toleration by app; added after admission"),),
            because=("Matched: rule app", "Undecided: rule gpu: ResourceClaim gpu"),
            additions=additions(APP),
            matched=(APP,),
        ),
    ),
    "nothing is added where the namespace is not known": (
        Given(FREE, cluster=CLUSTER[1:]),
        nothing("Undecided: rule gpu: Namespace ml"),
    ),
    "a rule that fails is an Event": (
        Given(FREE, (FAILING,)),
        nothing(
            "Failed: rule r: 1:1: no such key",
            events=(Event("Warning", "RuleEvaluationFailed", "rule r: 1:1: no such key", "Evaluate"),),
            failed=(("r", "1:1: no such key"),),
        ),
    ),
    "released earlier, and a rule came since": (
        Given(FREE.labelled({"tollbar.dev/gate": "released"})),
        LATE_WITH_GPU,
    ),
}

GPU_REFUSED = Refusal(additions(GPU), "no")
BARE = replace(
    released("HeldTooLong"),
    events=(
        overdue("released after 60s, without the tolerations by gpu, which the API server refused: no", "Release"),
        Event("Normal", "GateReleased", "released; no toleration added", "Release"),
    ),
    matched=(GPU,),
)

REFUSED = {
    "before maxHold the same release is tried again": (Given(HELD, facts={"refusal": GPU_REFUSED}), RELEASED_WITH_GPU),
    "at maxHold the Pod is released without the tolerations": (
        Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED}),
        BARE,
    ),
    "at maxHold it is released without the tolerations although a claim is missing": (
        Given(HELD.labelled(app="web"), (GPU, APP), EMPTY, age=60.0, facts={"refusal": Refusal(additions(APP), "no")}),
        replace(
            BARE,
            events=(
                overdue(
                    "released after 60s, while Tollbar still waits for ResourceClaim gpu; without the tolerations by"
                    " app, which the API server refused: no",
                    "Release",
                ),
                replace(BARE.events[1], note=f"released; no toleration added{BLOCKED}"),
            ),
            matched=(APP,),
        ),
    ),
    "onExpiry Report: the same release is tried again after maxHold": (
        Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED, "policy": REPORT}),
        RELEASED_WITH_GPU,
    ),
    "without maxHold the same release is tried again": (
        Given(HELD, age=86_400.0, facts={"refusal": GPU_REFUSED, "policy": NO_DEADLINE}),
        RELEASED_WITH_GPU,
    ),
    "other tolerations are tried after maxHold": (
        Given(HELD, age=60.0, facts={"refusal": Refusal(additions(APP), "no")}),
        RELEASED_WITH_GPU,
    ),
    "the tolerations of an edited rule are tried after maxHold": (
        Given(HELD, age=60.0, facts={"refusal": Refusal((Addition("gpu", 0, GPU.tolerations),), "no")}),
        RELEASED_WITH_GPU,
    ),
    "a Pod whose author added the tolerations is released": (
        Given(HELD.tolerating(TOLERATION), age=60.0, facts={"refusal": GPU_REFUSED}),
        released("Matched: rule gpu", matched=(GPU,)),
    ),
    "a Pod without our gate gets the tolerations late": (
        Given(FREE, age=60.0, facts={"refusal": GPU_REFUSED}),
        LATE_WITH_GPU,
    ),
}

TABLE = {
    f"{title}: {row}": case
    for title, rows in {
        "excluded": EXCLUDED,
        "hold": HOLD,
        "expiry": EXPIRY,
        "release": RELEASE,
        "late": LATE,
        "a refused release": REFUSED,
    }.items()
    for row, case in rows.items()
}


@pytest.mark.behaviour(6, case="one event for all rules")
@pytest.mark.behaviour(5, 32, case="somebody else's gates stay, and the Event names them")
@pytest.mark.parametrize(("given", "want"), TABLE.values(), ids=TABLE)
def test_plan(given: Given, want: GatePlan) -> None:
    assert in_words(given.decide()) == want


DONE_ONCE = {
    title: given
    for title, (given, want) in TABLE.items()
    if want.patch and not (want.released and "refusal" in given.facts)
}


@pytest.mark.parametrize("given", DONE_ONCE.values(), ids=DONE_ONCE)
def test_once_done_nothing_is_left_to_do(given: Given) -> None:
    patched = Pod(patching.apply(given.pod, given.decide().patch))
    after = replace(given, pod=patched).decide()
    assert (after.patch, after.released, after.additions) == ((), False, ())


EXPECTED = {
    title: given
    for title, (given, want) in TABLE.items()
    if want.patch and "refusal" not in given.facts and not any(rule.reads_tolerations for rule in given.rules)
}


@pytest.mark.parametrize("given", EXPECTED.values(), ids=EXPECTED)
def test_the_expected_pod_is_what_the_patch_leaves_but_for_the_record(given: Given) -> None:
    plan = given.decide()
    expected = gates.expected(given.gather(), plan)
    patched = patching.apply(given.pod, plan.patch)
    assert expected is not None
    assert without_record(expected) == without_record(patched)


def without_record(obj: Object) -> Object:
    """Also without what is empty, which the API server leaves out."""
    annotations = {k: v for k, v in obj["metadata"].get("annotations", {}).items() if k != "tollbar.dev/tolerations"}
    meta = {**obj["metadata"], "annotations": annotations}
    return {**obj, "metadata": meta, "spec": {k: v for k, v in obj["spec"].items() if v != []}}


def test_there_is_no_expected_pod_without_a_patch() -> None:
    given = Given(HELD, cluster=EMPTY)
    assert gates.expected(given.gather(), given.decide()) is None


def test_a_pod_that_does_not_say_when_it_was_created_has_just_been() -> None:
    assert Given(HELD.but("metadata.creationTimestamp", None), cluster=EMPTY).decide().outcome == RetryAfter(2.0)


def test_what_a_rule_adds_for_the_tolerations_of_another_one_comes_after_the_release() -> None:
    given = Given(HELD, (CHAINED, GPU))
    plan = given.decide()
    assert (plan.released, plan.additions) == (True, additions(GPU))
    assert gates.expected(given.gather(), plan) is None, "its own event has to wake the Pod"
    late = replace(given, pod=Pod(patching.apply(given.pod, plan.patch))).decide()
    assert (late.via, late.additions) == ("late", additions(CHAINED))


def test_what_was_refused_with_the_release_is_added_late() -> None:
    given = Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED})
    free = replace(given, pod=Pod(patching.apply(given.pod, given.decide().patch)))
    assert (free.decide().additions, free.decide().via) == (additions(GPU), "late")
    assert gates.expected(given.gather(), given.decide()) is None, "its own event has to wake the Pod"


def tried_again(at_most: float, *more: Event, refusal: Refusal | None = GPU_REFUSED) -> GatePlan:
    note = "the API server refused the patch: no"
    return GatePlan(
        events=(Event("Warning", "ReleaseRefused", note, "Release"), *more),
        outcome=Failed("ReleaseRefused", at_most),
        because=("ReleaseRefused",),
        refusal=refusal,
    )


STILL_HELD = overdue("held for more than 60s: the API server refused the patch: no", "Hold")
NEXT_TRY = {
    "within a minute": (Given(HELD, facts={"policy": GatePolicy(max_hold=600.0)}), tried_again(60.0)),
    "at maxHold at the latest": (Given(HELD, age=50.0), tried_again(10.0)),
    "at once after maxHold": (Given(HELD, age=60.0), tried_again(0.0)),
    "within a minute when nothing can be left out": (
        Given(PLAIN, age=60.0),
        tried_again(60.0, STILL_HELD, refusal=None),
    ),
    "within a minute when the release without tolerations was refused": (
        Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED}),
        tried_again(60.0, STILL_HELD, refusal=None),
    ),
    "within a minute when the SchedulingGate says Report": (
        Given(HELD, age=60.0, facts={"policy": REPORT}),
        tried_again(60.0, STILL_HELD),
    ),
    "within a minute when there is no deadline": (
        Given(HELD, age=86_400.0, facts={"policy": NO_DEADLINE}),
        tried_again(60.0),
    ),
    "after its back-off without our gate": (Given(FREE), tried_again(math.inf, refusal=None)),
}


@pytest.mark.parametrize(("given", "want"), NEXT_TRY.values(), ids=NEXT_TRY)
def test_a_refused_patch_is_tried_again(given: Given, want: GatePlan) -> None:
    assert in_words(given.refused()) == want


def test_the_chain_has_a_row_for_every_rule() -> None:
    assert [each.__name__ for each in release.CHAIN] == ["_excluded", "_overdue", "_hold", "_decided"]
