"""What evaluating rules for a package may cost, and what becomes of rules that would cost more."""

from dataclasses import replace
from typing import Any

import pytest
from fakes.engine import FakeEngine, Watched, expression, has_label, no_selector, rule
from objects.builders import claim, pod
from unit.decide.pods.packages import (
    BUILDING,
    EXCEEDED,
    GPU_RESOURCE,
    MANY,
    NO,
    PLENTY,
    SAYS_THE_CLASS,
    TOO_LARGE,
    TOO_MANY,
    YES,
    package,
    verdict,
)

from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import CostLimits, Evaluator, Truth, Verdict
from tollbar.decide.pods.package import Missing, Package
from tollbar.decide.rules.rule import Prototypes, Rule

THREE = package(claim().request("yes", "yes", "yes"))
LIMITS: dict[str, tuple[Rule, Package, CostLimits, Verdict]] = {
    "256 alternatives are looked at": (rule("r", SAYS_THE_CLASS), package(claim().request(*MANY)), PLENTY, YES),
    "257 are too many for All": (
        rule("r", SAYS_THE_CLASS),
        package(claim().request(*MANY, "yes")),
        PLENTY,
        Verdict(Truth.FALSE, TOO_MANY),
    ),
    "257 are too many for Any": (
        rule("r", SAYS_THE_CLASS, when="Any"),
        package(claim().request(*MANY, "yes")),
        PLENTY,
        Verdict(Truth.FALSE, TOO_MANY),
    ),
    "257 are not too many for First": (
        rule("r", SAYS_THE_CLASS, when="First"),
        package(claim().request(*MANY, "yes")),
        PLENTY,
        YES,
    ),
    "lists multiply": (
        rule("r", SAYS_THE_CLASS),
        package(claim().request(*MANY), claim().request("yes", "yes")),
        PLENTY,
        Verdict(Truth.FALSE, TOO_MANY),
    ),
    "257 are not too many for a rule about the Pod": (
        rule("r", has_label("app")),
        package(claim().request(*MANY, "yes"), pod=pod().labelled(app="web")),
        PLENTY,
        YES,
    ),
    "257 are not too many for a rule about the claims' labels": (
        rule("r", expression(lambda inputs: len(inputs["claims"]) == 1, "claims.metadata.labels")),
        package(claim().request(*MANY, "yes")),
        PLENTY,
        YES,
    ),
    "257 are not too many for a Device rule, which needs no product": (
        rule("r", Prototypes(())),
        package(claim().request(*MANY, "yes")),
        PLENTY,
        NO,
    ),
    "admission looks at 16": (
        rule("r", SAYS_THE_CLASS),
        package(claim().request(*MANY[:16])),
        matching.AT_ADMISSION,
        YES,
    ),
    "admission leaves 17 to the controllers": (
        rule("r", SAYS_THE_CLASS),
        package(claim().request(*MANY[:17])),
        matching.AT_ADMISSION,
        Verdict(Truth.UNKNOWN, TOO_MANY),
    ),
    "the last step that is allowed": (
        rule("r", SAYS_THE_CLASS),
        THREE,
        CostLimits(256, 3 * (3 * BUILDING + 2) - 1, Truth.FALSE),
        YES,
    ),
    "one step more than is allowed": (
        rule("r", SAYS_THE_CLASS),
        THREE,
        CostLimits(256, 3 * (3 * BUILDING + 2) - 2, Truth.FALSE),
        Verdict(Truth.FALSE, EXCEEDED),
    ),
    "all that an alternative is made of is paid for": (
        rule("r", SAYS_THE_CLASS, when="First"),
        package(claim().request("yes", "yes"), *[claim().request("yes")] * 100),
        CostLimits(256, 102 * BUILDING, Truth.FALSE),
        Verdict(Truth.FALSE, EXCEEDED),
    ),
    "a package that is too large is not evaluated": (
        rule("r", SAYS_THE_CLASS),
        package(too_large=True),
        matching.IN_THE_CONTROLLER,
        Verdict(Truth.FALSE, TOO_LARGE),
    ),
    "a package that is too large is not evaluated for First either": (
        rule("r", SAYS_THE_CLASS, when="First"),
        package(too_large=True),
        matching.IN_THE_CONTROLLER,
        Verdict(Truth.FALSE, TOO_LARGE),
    ),
    "admission leaves a package that is too large to the controllers": (
        rule("r", SAYS_THE_CLASS),
        package(too_large=True),
        matching.AT_ADMISSION,
        Verdict(Truth.UNKNOWN, TOO_LARGE),
    ),
    "the extended resources of a package that is too large are not evaluated": (
        rule("r", GPU_RESOURCE, reads={"pod.spec.containers", "pod.spec.initContainers"}),
        package(pod=pod().wants({"example.com/gpu": "1"}), too_large=True),
        PLENTY,
        Verdict(Truth.FALSE, TOO_LARGE),
    ),
    "rules about the Pod alone are evaluated for a package that is too large": (
        rule("r", has_label("app")),
        package(pod=pod().labelled(app="web"), too_large=True),
        PLENTY,
        YES,
    ),
    "the namespace of a package that is too large is waited for": (
        rule("r", SAYS_THE_CLASS, namespaces={"matchLabels": {"team": "a"}}),
        package(namespace=None, missing=(Missing("Namespace", "ml"),), too_large=True),
        PLENTY,
        Verdict(Truth.UNKNOWN, "Namespace ml"),
    ),
    "an evaluation that is begun is finished": (
        rule("r", expression(lambda _: True, "pod.metadata", steps=500_000)),
        package(),
        CostLimits(256, 1, Truth.FALSE),
        YES,
    ),
    "a verdict within the limits stands although others would exceed them": (
        rule("r", SAYS_THE_CLASS),
        package(claim().request("yes", "no", "yes", "yes")),
        CostLimits(256, 2 * (4 * BUILDING + 2), Truth.FALSE),
        NO,
    ),
}


@pytest.mark.parametrize(("given", "of", "limits", "want"), LIMITS.values(), ids=LIMITS)
def test_limits(given: Rule, of: Package, limits: CostLimits, want: Verdict) -> None:
    assert verdict(given, of, limits) == want


SEEN_ONCE: dict[str, tuple[str, int]] = {
    "counted, for many alternatives": ("All", 9),
    "counted and built, for a few": ("All", 2),
    "built, for the first": ("First", 9),
}


@pytest.mark.parametrize(("when", "lists"), SEEN_ONCE.values(), ids=SEEN_ONCE)
def test_a_package_is_looked_at_once_for_all_rules(when: Any, lists: int) -> None:
    requests = Watched([{"name": "r0", "firstAvailable": [{"deviceClassName": "yes"}] * 2}] * lists)
    evaluator = Evaluator(package(claim().but("spec.devices.requests", requests)), FakeEngine(), no_selector, PLENTY)
    rules = [rule(f"r{i}", SAYS_THE_CLASS, when=when) for i in range(10)]
    first = (evaluator.verdict(rules[0]), requests.walks)
    assert {(evaluator.verdict(each), requests.walks) for each in rules[1:]} == {first}


def test_rules_in_audit_cost_only_what_those_in_force_leave() -> None:
    given = package(claim().request("yes"), pod=pod().labelled(app="web"))
    one = Evaluator(given, FakeEngine(), no_selector, PLENTY)
    one.verdict(rule("r", has_label("app")))
    rules = (replace(rule("a", has_label("app")), mode="Audit"), rule("b", has_label("app")))
    found = matching.evaluate(rules, given, FakeEngine(), no_selector, CostLimits(256, one.spent, Truth.FALSE))
    assert ([each.name for each in found.true], found.audited) == (["b"], ())
