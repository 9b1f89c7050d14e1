"""What happens to a Pod at its creation: every row of the chain, one plan each."""

from dataclasses import replace

import pytest
from fakes.engine import failing, in_words, rule
from objects.builders import claim, pod, toleration
from unit.decide.pods.admissionplans import (
    ADD_LABEL,
    APP,
    AUDIT,
    BY_UID,
    CHAINED,
    CHOICES,
    CLAIM,
    CLAIM_NAMED,
    CLUSTER,
    CONSUMER,
    COSTLY,
    EXTENDED,
    GATE_AND_LABEL,
    GPU,
    GPU_CLASS,
    LATER,
    ML,
    NAMED,
    NEW,
    NOT_HELD,
    RESOURCE,
    SHY,
    STRIP,
    TEAM_A,
    TOLERATION,
    Given,
    again,
    first_annotation,
    first_tolerations,
    gated,
    ignored,
    record,
    recorded,
    tolerated,
)
from unit.decide.pods.tables import table

from tollbar import wellknown
from tollbar.decide.pods import admission
from tollbar.decide.pods.admission import AdmissionPlan

EXCLUDED = {
    "a bound Pod": (Given(CONSUMER.bound()), ignored("Bound")),
    "a mirror Pod": (Given(CONSUMER.annotated({"kubernetes.io/config.mirror": "x"})), ignored("MirrorPod")),
    "a DaemonSet's Pod": (Given(CONSUMER.owned_by("DaemonSet", api_version="apps/v1")), ignored("DaemonSetPod")),
    "a ReplicaSet's Pod is ours": (Given(CONSUMER.owned_by("ReplicaSet", api_version="apps/v1")), tolerated(GPU)),
    "a Pod that opts out": (Given(CONSUMER.labelled({"tollbar.dev/skip": "true"})), ignored("SkipLabel")),
    "an unmanaged namespace": (Given(CONSUMER, facts={"managed": False}), ignored("NamespaceNotManaged")),
    "a forged record in an unmanaged namespace stays": (
        Given(recorded(CONSUMER, "[]"), facts={"managed": False}),
        ignored("NamespaceNotManaged"),
    ),
    "caches that are not synced": (Given(CONSUMER, facts={"ready": False}), ignored("CachesNotSynced")),
}

ALREADY_GATED = {
    "a Pod with our gate and label is left alone": (Given(CONSUMER.gated()), gated("AlreadyGated", patch=())),
    "a Pod whose author wrote the gate gets the label": (
        Given(CONSUMER.but("spec.schedulingGates", [{"name": wellknown.GATE}])),
        gated("AlreadyGated", patch=ADD_LABEL),
    ),
    "a Pod with our gate is left alone in mode Never, too": (
        Given(CONSUMER.gated(), facts={"mode": "Never"}),
        gated("AlreadyGated", patch=()),
    ),
    "a forged record is stripped from a Pod with our gate": (
        Given(recorded(CONSUMER.gated(), "[]")),
        gated("AlreadyGated", patch=STRIP),
    ),
}

MODES = {
    "Never leaves everything to the controller": (Given(CONSUMER, facts={"mode": "Never"}), ignored("NeverMode")),
    "Never strips a forged record": (
        Given(recorded(CONSUMER, "[]"), facts={"mode": "Never"}),
        ignored("NeverMode", patch=STRIP),
    ),
    "Gate gates a Pod with a claim": (Given(CONSUMER, facts={"mode": "Gate"}), gated("GateMode")),
    "Gate gates a Pod with a template": (Given(NEW.templates("gpu"), facts={"mode": "Gate"}), gated("GateMode")),
    "Gate gates a Pod with any extended resource": (
        Given(NEW.wants({"example.com/other": "1"}), facts={"mode": "Gate"}),
        gated("GateMode"),
    ),
    "Gate gates without any rule": (Given(CONSUMER, (), facts={"mode": "Gate"}), gated("GateMode")),
    "Gate lets a plain Pod pass": (Given(NEW, facts={"mode": "Gate"}), ignored("NoRuleMatched")),
    "Gate lets a Pod pass that asks for quantity 0 of an extended resource": (
        Given(NEW.wants({RESOURCE: "0"}), facts={"mode": "Gate"}),
        ignored("NoRuleMatched"),
    ),
    "Gate gates a plain Pod when a rule is about Pods alone": (
        Given(NEW, (APP,), facts={"mode": "Gate"}),
        gated("GateMode"),
    ),
    "Gate lets a plain Pod pass when the rule about Pods is in Audit": (
        Given(NEW, (replace(APP, mode="Audit"),), facts={"mode": "Gate"}),
        ignored("NoRuleMatched"),
    ),
    "Gate lets a plain Pod pass when the rule about Pods is for other namespaces": (
        Given(NEW, (replace(APP, namespace_selector={"matchLabels": {"team": "b"}}),), facts={"mode": "Gate"}),
        ignored("NoRuleMatched"),
    ),
    "Gate lets a plain Pod pass when the rule is about extended resources": (
        Given(NEW, (EXTENDED,), facts={"mode": "Gate"}),
        ignored("NoRuleMatched"),
    ),
    "Gate decides at once when the controllers may not release Pods": (
        Given(CONSUMER, facts={"mode": "Gate", "gating": False}),
        tolerated(GPU),
    ),
}

UNDECIDED = {
    "a claim that does not exist": (
        Given(CONSUMER, cluster=(ML, GPU_CLASS)),
        gated("Undecided: rule gpu: ResourceClaim gpu"),
    ),
    "a template that does not exist": (
        Given(NEW.templates("gpu"), cluster=(ML, GPU_CLASS)),
        gated("Undecided: rule gpu: ResourceClaimTemplate gpu"),
    ),
    "a class that does not exist": (
        Given(CONSUMER, cluster=(ML, CLAIM)),
        gated("Undecided: rule gpu: DeviceClass gpu"),
    ),
    "two things that do not exist": (
        Given(CONSUMER.claims("b"), cluster=(ML,)),
        gated("Undecided: rule gpu: ResourceClaim gpu, ResourceClaim b"),
    ),
    "a namespace that the cache does not know yet": (
        Given(CONSUMER, cluster=CLUSTER[1:]),
        gated("Undecided: rule gpu: Namespace ml"),
    ),
    "an unknown namespace does not matter when no rule is true": (
        Given(NEW, cluster=CLUSTER[1:]),
        ignored("NoRuleMatched"),
    ),
    "a rule that reads the Pod's uid": (Given(NEW, (BY_UID,)), gated(f"Undecided: rule uid: {LATER}")),
    "a rule that reads a name to be generated": (
        Given(pod().being_created(generate_name=True), (NAMED,)),
        gated(f"Undecided: rule named: {LATER}"),
    ),
    "a rule that reads a name that is there": (Given(NEW, (NAMED,)), tolerated(NAMED)),
    "a rule that reads the name of a claim to come": (
        Given(NEW.templates("gpu"), (CLAIM_NAMED,)),
        gated("Undecided: rule claim: ResourceClaim from template gpu"),
    ),
    "more alternatives than admission looks at": (
        Given(CONSUMER, cluster=(ML, GPU_CLASS, claim("gpu").request(*CHOICES, "gpu"))),
        gated("Undecided: rule gpu: TooManyAlternatives"),
    ),
    "more steps than admission has time for": (
        Given(NEW, tuple(rule(f"r{i}", COSTLY) for i in range(6))),
        gated(
            "Undecided: rule r4: CostLimitExceeded",
            "Undecided: rule r5: CostLimitExceeded",
        ),
    ),
    "a Pod is gated for an undecided rule although another is true": (
        Given(CONSUMER.labelled(app="web"), (GPU, APP), cluster=(ML,)),
        gated(
            "Matched: rule app",
            "Undecided: rule gpu: ResourceClaim gpu",
            patch=(
                GATE_AND_LABEL[0],
                {"op": "add", "path": "/metadata/labels/tollbar.dev~1gate", "value": "held"},
            ),
        ),
    ),
    "somebody else's gate stays": (
        Given(CONSUMER.gated("a.dev/x"), cluster=(ML,)),
        gated(
            "Undecided: rule gpu: ResourceClaim gpu",
            patch=(
                {"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": wellknown.GATE}},
                GATE_AND_LABEL[1],
            ),
        ),
    ),
    "a rule in Audit gates nothing": (Given(CONSUMER, (AUDIT,), cluster=(ML,)), ignored("NoRuleMatched")),
    "an undecided rule gates nothing when the controllers may not release Pods": (
        Given(CONSUMER, cluster=(ML,), facts={"gating": False}),
        ignored("Undecided: rule gpu: ResourceClaim gpu", warnings=(NOT_HELD,)),
    ),
    "true rules add their tolerations when the controllers may not release Pods": (
        Given(CONSUMER.labelled(app="web"), (GPU, APP), cluster=(ML,), facts={"gating": False}),
        tolerated(APP, because=("Matched: rule app", "Undecided: rule gpu: ResourceClaim gpu"), warnings=(NOT_HELD,)),
    ),
    "a forged record is stripped from a gated Pod": (
        Given(recorded(CONSUMER, "[]"), cluster=(ML,)),
        gated("Undecided: rule gpu: ResourceClaim gpu", patch=(*STRIP, *GATE_AND_LABEL)),
    ),
}

APPEND = {"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}
ANNOTATE = {"op": "add", "path": "/metadata/annotations/tollbar.dev~1tolerations", "value": record(GPU)}
EXTENDED_CONSUMER = NEW.wants({RESOURCE: "1"})
IMPLICIT_CONSUMER = NEW.wants({"deviceclass.resource.kubernetes.io/gpu": "1"})

TOLERATED = {
    "a claim by name": (Given(CONSUMER), tolerated(GPU)),
    "a template says what the claim will want": (Given(NEW.templates("gpu")), tolerated(GPU)),
    "a Pod with tolerations and annotations": (
        Given(CONSUMER.tolerating(toleration("x")).annotated({"a": "b"})),
        tolerated(GPU, patch=(APPEND, ANNOTATE)),
    ),
    "a true rule whose toleration the author wrote": (
        Given(CONSUMER.tolerating(TOLERATION)),
        replace(tolerated(GPU, patch=()), additions=()),
    ),
    "the union of all true rules": (Given(CONSUMER.labelled(app="web"), (GPU, APP)), tolerated(APP, GPU)),
    "16 alternatives": (
        Given(CONSUMER, cluster=(ML, GPU_CLASS, claim("gpu").request(*CHOICES))),
        tolerated(GPU),
    ),
    "one alternative that needs no toleration": (
        Given(CONSUMER, cluster=(*CLUSTER[:3], claim("gpu").request("gpu", "tpu"))),
        ignored("NoRuleMatched"),
    ),
    "a rule for Any alternative": (
        Given(
            CONSUMER, (replace(GPU, when_alternatives="Any"),), cluster=(*CLUSTER[:3], claim().request("tpu", "gpu"))
        ),
        tolerated(GPU),
    ),
    "a rule for the First alternative": (
        Given(
            CONSUMER, (replace(GPU, when_alternatives="First"),), cluster=(*CLUSTER[:3], claim().request("tpu", "gpu"))
        ),
        ignored("NoRuleMatched"),
    ),
    "an extended resource": (Given(EXTENDED_CONSUMER, (EXTENDED,)), tolerated(EXTENDED)),
    "an extended resource as a limit": (
        Given(NEW.wants({RESOURCE: "1"}, member="limits"), (EXTENDED,)),
        tolerated(EXTENDED),
    ),
    "an extended resource that a class backs": (
        Given(EXTENDED_CONSUMER, cluster=(ML, GPU_CLASS.backing(RESOURCE))),
        tolerated(GPU),
    ),
    "a class by its implicit resource name": (Given(IMPLICIT_CONSUMER), tolerated(GPU)),
    "a forged record is stripped and replaced": (
        Given(recorded(CONSUMER, '[{"rule":"gpu"}]')),
        tolerated(GPU, patch=(*STRIP, first_tolerations(TOLERATION), first_annotation(GPU))),
    ),
    "a rule about Pods without tolerations": (Given(NEW, (SHY,)), tolerated(SHY)),
    "a rule about this namespace": (
        Given(
            CONSUMER,
            (replace(GPU, namespace_selector={"matchLabels": {"team": "a"}}),),
            cluster=(TEAM_A, *CLUSTER[1:]),
        ),
        tolerated(GPU),
    ),
    "a rule that fails does not affect the others": (
        Given(CONSUMER, (GPU, rule("r", failing()))),
        tolerated(
            GPU,
            because=("Matched: rule gpu", "Failed: rule r: 1:1: no such key"),
            failed=(("r", "1:1: no such key"),),
        ),
    ),
}

OTHERWISE = {
    "no rules": (Given(CONSUMER, ()), ignored("NoRuleMatched")),
    "a plain Pod": (Given(NEW), ignored("NoRuleMatched")),
    "another class": (
        Given(CONSUMER, cluster=(*CLUSTER[:3], claim("gpu").request("tpu"))),
        ignored("NoRuleMatched"),
    ),
    "an extended resource that nobody names": (Given(EXTENDED_CONSUMER), ignored("NoRuleMatched")),
    "quantity 0": (Given(NEW.wants({RESOURCE: "0"}), (EXTENDED,)), ignored("NoRuleMatched")),
    "a rule about another namespace": (
        Given(CONSUMER, (replace(GPU, namespace_selector={"matchLabels": {"team": "b"}}),)),
        ignored("NoRuleMatched"),
    ),
    "a rule that fails counts as false": (
        Given(NEW, (rule("r", failing()),)),
        ignored("Failed: rule r: 1:1: no such key", failed=(("r", "1:1: no such key"),)),
    ),
    "a forged record is stripped from a Pod that gets nothing": (
        Given(recorded(NEW, "[]")),
        ignored("NoRuleMatched", patch=STRIP),
    ),
}

AUDIT_MODE = {
    "Audit warns of what it would add": (
        Given(CONSUMER, (AUDIT,)),
        ignored("Audited: rule audit", warnings=("tollbar: rule audit (Audit) would add 2 tolerations",)),
    ),
    "Audit counts only the tolerations that the Pod lacks": (
        Given(CONSUMER.tolerating(toleration("example.com/a")), (AUDIT,)),
        ignored("Audited: rule audit", warnings=("tollbar: rule audit (Audit) would add 1 toleration",)),
    ),
    "Audit does not warn when the Pod lacks nothing": (
        Given(CONSUMER.tolerating(*AUDIT.tolerations), (AUDIT,)),
        ignored("Audited: rule audit"),
    ),
}

TABLE = table(
    {
        "excluded": EXCLUDED,
        "already gated": ALREADY_GATED,
        "mode": MODES,
        "undecided": UNDECIDED,
        "tolerated": TOLERATED,
        "otherwise": OTHERWISE,
        "audit": AUDIT_MODE,
    }
)


@pytest.mark.parametrize(("given", "want"), TABLE.values(), ids=TABLE)
def test_plan(given: Given, want: AdmissionPlan) -> None:
    assert in_words(given.decide()) == want


@pytest.mark.parametrize("given", [given for given, _ in TABLE.values()], ids=TABLE)
def test_a_second_pass_changes_nothing(given: Given) -> None:
    assert again(given).patch == ()


def test_a_rule_does_not_see_what_another_one_adds_unless_the_webhook_is_asked_again() -> None:
    given = Given(CONSUMER, (replace(CHAINED, name="a"), GPU, CHAINED))
    assert [[each.rule for each in plan.additions] for plan in (given.decide(), again(given))] == [["gpu"], ["a"]]


def test_the_chain_has_a_row_for_every_rule() -> None:
    assert [each.__name__ for each in admission.CHAIN] == [
        "excluded",
        "not_ready",
        "already_gated",
        "_never",
        "_gate_first",
        "answered",
    ]
