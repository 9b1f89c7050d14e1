"""Which rules are true for a package."""

from collections.abc import Sequence

import pytest
from fakes.engine import FakeEngine, expression, failing, has_label, no_selector, rule, wants_class
from objects.builders import claim, device_class, namespace, pod
from unit.decide.pods.packages import (
    BUILDING,
    CLAIM_MISSING,
    CLASS_MISSING,
    FAILED,
    GPU_RESOURCE,
    MANY,
    NO,
    ONLY_NAMESPACE_MISSING,
    PLENTY,
    SAYS_THE_CLASS,
    TOO_MANY,
    UNDECIDED,
    YES,
    package,
    verdict,
)

from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import CostLimits, Results, Truth, Verdict
from tollbar.decide.pods.package import Missing, Package
from tollbar.decide.rules.rule import Expression, Match, Prototypes, Rule
from tollbar.model.plan import Reason

# given the answers of the alternatives, in order: All, Any, First
COMBINED: dict[str, tuple[tuple[str, ...], tuple[Verdict, Verdict, Verdict]]] = {
    "one that is true": (("yes",), (YES, YES, YES)),
    "one that is false": (("no",), (NO, NO, NO)),
    "one that fails": (("error",), (FAILED, FAILED, FAILED)),
    "one that is unknown": (("unknown",), (UNDECIDED, UNDECIDED, UNDECIDED)),
    "all true": (("yes", "yes"), (YES, YES, YES)),
    "all false": (("no", "no"), (NO, NO, NO)),
    "the first true": (("yes", "no"), (NO, YES, YES)),
    "the first false": (("no", "yes"), (NO, YES, NO)),
    "false beats error in All": (("error", "no"), (NO, FAILED, FAILED)),
    "false beats error in All, in either order": (("no", "error"), (NO, FAILED, NO)),
    "true beats error in Any": (("error", "yes"), (FAILED, YES, FAILED)),
    "true beats error in Any, in either order": (("yes", "error"), (FAILED, YES, YES)),
    "false beats unknown in All": (("unknown", "no"), (NO, UNDECIDED, UNDECIDED)),
    "true beats unknown in Any": (("unknown", "yes"), (UNDECIDED, YES, UNDECIDED)),
    "unknown beats error in both": (("error", "unknown"), (UNDECIDED, UNDECIDED, FAILED)),
    "everything at once": (("unknown", "error", "yes", "no"), (NO, YES, UNDECIDED)),
}


@pytest.mark.parametrize(("given", "want"), COMBINED.values(), ids=COMBINED)
def test_alternatives_combine(given: Sequence[str], want: tuple[Verdict, ...]) -> None:
    asked = package(claim().request(*given))
    assert tuple(verdict(rule("r", SAYS_THE_CLASS, when=when), asked) for when in ("All", "Any", "First")) == want


SINGLE: dict[str, tuple[Match, Package, Verdict]] = {
    "CEL that is true": (wants_class("gpu"), package(claim().request("gpu")), YES),
    "CEL that is false": (wants_class("tpu"), package(claim().request("gpu")), NO),
    "CEL that fails": (failing(), package(), FAILED),
    "an extended resource": (GPU_RESOURCE, package(pod=pod().wants({"example.com/gpu": "1"})), YES),
    "an extended resource by its limit": (
        GPU_RESOURCE,
        package(pod=pod().wants({"example.com/gpu": "1"}, member="limits")),
        YES,
    ),
    "an extended resource of an init container": (
        GPU_RESOURCE,
        package(pod=pod().wants({"example.com/gpu": "1"}, init=True)),
        YES,
    ),
    "quantity 0 of it": (GPU_RESOURCE, package(pod=pod().wants({"example.com/gpu": "0"})), NO),
    "another extended resource": (GPU_RESOURCE, package(pod=pod().wants({"example.com/nic": "1"})), NO),
    "no containers that want any": (GPU_RESOURCE, package(), NO),
    "a missing claim leaves a rule about claims undecided": (
        wants_class("gpu"),
        CLAIM_MISSING,
        Verdict(Truth.UNKNOWN, "ResourceClaim gpu"),
    ),
    "a missing claim leaves a Device rule undecided": (
        Prototypes(()),
        CLAIM_MISSING,
        Verdict(Truth.UNKNOWN, "ResourceClaim gpu"),
    ),
    "a missing claim does not matter to a rule about the Pod": (has_label("app"), CLAIM_MISSING, NO),
    "a missing class leaves a rule about claims undecided": (
        wants_class("gpu"),
        CLASS_MISSING,
        Verdict(Truth.UNKNOWN, "DeviceClass gpu"),
    ),
    "everything that is missing is named": (
        wants_class("gpu"),
        package(missing=(Missing("ResourceClaim", "a"), Missing("ResourceClaimTemplate", "b"))),
        Verdict(Truth.UNKNOWN, "ResourceClaim a, ResourceClaimTemplate b"),
    ),
    "a missing namespace leaves a rule about it undecided": (
        expression(lambda _: False, "namespaceObject.metadata.labels"),
        ONLY_NAMESPACE_MISSING,
        Verdict(Truth.UNKNOWN, "Namespace ml"),
    ),
    "nothing is true in a missing namespace": (
        expression(lambda _: True, "pod"),
        ONLY_NAMESPACE_MISSING,
        Verdict(Truth.UNKNOWN, "Namespace ml"),
    ),
    "false is false in a missing namespace": (expression(lambda _: False, "pod"), ONLY_NAMESPACE_MISSING, NO),
    "what a claim to come will be called is not known": (
        expression(lambda _: True, "claims.metadata.name"),
        package(
            claim().request("gpu"),
            pending=(Missing("ResourceClaim", "from template gpu"),),
            unknown=frozenset({"claims.metadata.name"}),
        ),
        Verdict(Truth.UNKNOWN, "ResourceClaim from template gpu"),
    ),
    "what a claim to come will request is known": (
        wants_class("gpu"),
        package(
            claim().request("gpu"),
            pending=(Missing("ResourceClaim", "from template gpu"),),
            unknown=frozenset({"claims.metadata.name"}),
        ),
        YES,
    ),
    "a Pod's uid is not known at admission": (
        expression(lambda _: True, "pod.metadata.uid"),
        package(unknown=frozenset({"pod.metadata.uid"})),
        UNDECIDED,
    ),
    "a rule that reads all of the Pod is undecided at admission": (
        expression(lambda _: True, "pod"),
        package(unknown=frozenset({"pod.metadata.uid"})),
        UNDECIDED,
    ),
    "rules do not see our gate": (
        expression(lambda inputs: "schedulingGates" in inputs["pod"]["spec"], "pod.spec"),
        package(pod=pod().gated()),
        NO,
    ),
    "rules see the classes that the claims name, and no others": (
        expression(lambda inputs: set(inputs["deviceClasses"]) == {"gpu"}, "deviceClasses"),
        package(claim().request("gpu"), classes={"gpu": device_class("gpu"), "tpu": device_class("tpu")}),
        YES,
    ),
    "rules see the namespace": (
        expression(lambda inputs: inputs["namespaceObject"]["metadata"]["labels"]["team"] == "a", "namespaceObject"),
        package(namespace=namespace().labelled(team="a")),
        YES,
    ),
}


@pytest.mark.parametrize(("given", "of", "want"), SINGLE.values(), ids=SINGLE)
def test_verdict(given: Match, of: Package, want: Verdict) -> None:
    reads = None if isinstance(given, Expression) else {"claims"} if isinstance(given, Prototypes) else {"pod.spec"}
    assert verdict(rule("r", given, reads=reads), of) == want


TRUE_, FALSE_ = expression(lambda _: True, "pod.spec"), expression(lambda _: False, "pod.spec")
GPU = wants_class("gpu")
B, A = rule("b", TRUE_), rule("a", TRUE_)
AUDIT, AUDIT_FALSE = rule("c", TRUE_, mode="Audit"), rule("d", FALSE_, mode="Audit")
FAILING, AUDIT_FAILING = rule("e", failing()), rule("f", failing(), mode="Audit")
ELSEWHERE = rule("g", TRUE_, namespaces={"matchLabels": {"team": "b"}})
HERE = rule("h", TRUE_, namespaces={"matchLabels": {"kubernetes.io/metadata.name": "ml"}})
DISABLED = rule("i", TRUE_, mode="Disabled")
WAITING, AUDIT_WAITING = rule("j", GPU), rule("k", GPU, mode="Audit")
COSTLY = rule("aa", SAYS_THE_CLASS, mode="Audit")

RESULTS: dict[str, tuple[Sequence[Rule], Package, CostLimits, Results]] = {
    "no rules": ((), package(), PLENTY, Results()),
    "true rules by name": ((B, A), package(), PLENTY, Results(true=(A, B))),
    "a false rule leaves no trace": ((rule("r", FALSE_),), package(), PLENTY, Results()),
    "Audit is kept apart": ((AUDIT, A, AUDIT_FALSE), package(), PLENTY, Results(true=(A,), audited=(AUDIT,))),
    "a rule in mode Disabled is not evaluated": ((DISABLED,), package(), PLENTY, Results()),
    "only rules that look at the namespace": ((ELSEWHERE, HERE), package(), PLENTY, Results(true=(HERE,))),
    "an unknown namespace leaves them undecided": (
        (ELSEWHERE,),
        ONLY_NAMESPACE_MISSING,
        PLENTY,
        Results(undecided=((ELSEWHERE, "Namespace ml"),)),
    ),
    "errors, of Audit too": (
        (AUDIT_FAILING, FAILING),
        package(),
        PLENTY,
        Results(failed=((FAILING, "1:1: no such key"), (AUDIT_FAILING, "1:1: no such key"))),
    ),
    "an undecided rule, but not one in Audit": (
        (AUDIT_WAITING, WAITING, A),
        CLAIM_MISSING,
        PLENTY,
        Results(true=(A,), undecided=((WAITING, "ResourceClaim gpu"),)),
    ),
    "a rule that exceeds a limit is false, and listed": (
        (rule("r", SAYS_THE_CLASS),),
        package(claim().request(*MANY, "yes")),
        PLENTY,
        Results(exceeded=(Reason(TOO_MANY, "rule r"),)),
    ),
    "a rule in Audit spends only what the others leave": (
        (COSTLY, A),
        package(claim().request("yes", "yes")),
        CostLimits(256, 2 * BUILDING + 2, Truth.UNKNOWN),
        Results(true=(A,)),
    ),
}


@pytest.mark.parametrize(("given", "of", "limits", "want"), RESULTS.values(), ids=RESULTS)
def test_results(given: Sequence[Rule], of: Package, limits: CostLimits, want: Results) -> None:
    assert matching.evaluate(given, of, FakeEngine(), no_selector, limits) == want


BECAUSE: dict[str, tuple[Results, tuple[str, ...]]] = {
    "nothing": (Results(), ("NoRuleMatched",)),
    "everything, in this order": (
        Results(
            (A, B),
            (AUDIT,),
            ((WAITING, "ResourceClaim gpu"),),
            ((FAILING, "no such key"),),
            (Reason(TOO_MANY, "rule x"),),
        ),
        (
            "Matched: rule a",
            "Matched: rule b",
            "Audited: rule c",
            "Undecided: rule j: ResourceClaim gpu",
            "Failed: rule e: no such key",
            "TooManyAlternatives: rule x",
        ),
    ),
}


@pytest.mark.parametrize(("given", "want"), BECAUSE.values(), ids=BECAUSE)
def test_because(given: Results, want: tuple[str, ...]) -> None:
    assert tuple(map(str, given.because)) == want
