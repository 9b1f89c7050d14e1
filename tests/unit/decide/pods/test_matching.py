"""Which rules are true for a package."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from builders import claim, device_class, namespace, pod
from fakes import FakeEngine, FakeProgram, Watched, expression, failing, has_label, no_selector, rule, wants_class

from tollbar.cel import COMPILE, UNKNOWN, CelError, CostBudget
from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import CostLimits, Evaluator, Results, Truth, Verdict
from tollbar.decide.pods.package import Missing, Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.rules.rule import Expression, ExtendedResources, Match, Prototypes, Rule
from tollbar.model import claims
from tollbar.model.objects import Object
from tollbar.model.plan import Reason

PLENTY = CostLimits(alternatives=256, steps=20_000_000, beyond=Truth.FALSE)
YES, NO = Verdict(Truth.TRUE), Verdict(Truth.FALSE)
FAILED = Verdict(Truth.ERROR, "1:1: no such key")
UNDECIDED = Verdict(Truth.UNKNOWN, "what the Pod gets only after its admission")
TOO_MANY = PodReason.TOO_MANY_ALTERNATIVES
EXCEEDED = PodReason.COST_LIMIT_EXCEEDED
TOO_LARGE = PodReason.PACKAGE_TOO_LARGE


def package(*claims_: Object, **more: Any) -> Package:
    names = {name for each in claims_ for name in claims.device_classes(each)}
    given = {"pod": pod(), "namespace": namespace(), "classes": {name: device_class(name) for name in names}, **more}
    return Package(claims=tuple(claims_), **given)


def verdict(given: Rule, of: Package, limits: CostLimits = PLENTY) -> Verdict:
    return Evaluator(of, FakeEngine(), no_selector, limits).verdict(given)


class SaysTheClass:
    """A program whose answer is what the first request's class is called: yes, no, error or unknown."""

    source = ""
    reads = frozenset({"claims.spec.devices.requests.exactly.deviceClassName"})

    def evaluate_partial(self, inputs: Mapping[str, Any], _unknown: frozenset[str], budget: CostBudget) -> Any:
        budget.steps -= 1
        name = inputs["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"]
        answers = {"yes": True, "no": False, "unknown": UNKNOWN, "error": CelError("no such key", 1, 1, "RUNTIME")}
        return answers[name]


SAYS_THE_CLASS = Expression(SaysTheClass())  # type: ignore[arg-type]

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


MANY = ("yes",) * 256
GPU_RESOURCE = ExtendedResources(frozenset({"example.com/gpu"}))
THREE = package(claim().request("yes", "yes", "yes"))
BUILDING = 150  # steps for a request that an alternative is made of, before the two that each evaluation here takes
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


CLAIM_MISSING = package(missing=(Missing("ResourceClaim", "gpu"),))
CLASS_MISSING = package(claim().request("gpu"), missing=(Missing("DeviceClass", "gpu"),))
ONLY_NAMESPACE_MISSING = package(namespace=None, missing=(Missing("Namespace", "ml"),))

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


# A prototype is an input of the device environment; here simply what it is called.
IS_BIG_STEPS = 7
BIG, SMALL = {"device": "big"}, {"device": "small"}
IS_BIG = FakeProgram(lambda inputs: inputs["device"] == "big", frozenset({"device"}), steps=IS_BIG_STEPS)
IS_KNOWN = FakeProgram(lambda inputs: inputs["device"] in ("big", "small"), frozenset({"device"}))
FAILS = FakeProgram(lambda inputs: inputs["attributes"], frozenset({"device"}))
SELECTORS = {"is-big": IS_BIG, "is-known": IS_KNOWN, "fails": FAILS}


def selector(source: str) -> Any:
    return SELECTORS.get(source) or CelError("no", 1, 1, COMPILE)


BIGS, ANYS = device_class("bigs").selecting("is-big"), device_class("anys").selecting("is-known")
FREE = device_class("free")
NONE = device_class("none").selecting("fails")
BROKEN = device_class("broken").selecting("no such selector")

# given a claim and prototypes: All, Any, First
DEVICES: dict[str, tuple[Object, tuple[Object, ...], tuple[bool, bool, bool]]] = {
    "no requests": (claim(), (BIG,), (False, False, False)),
    "a class that selects it": (claim().request("bigs"), (BIG,), (True, True, True)),
    "a class that selects another": (claim().request("bigs"), (SMALL,), (False, False, False)),
    "one of several prototypes": (claim().request("bigs"), (SMALL, BIG), (True, True, True)),
    "a class without selectors": (claim().request("free"), (SMALL,), (True, True, True)),
    "the request narrows the class": (claim().request("free", selectors=("is-big",)), (SMALL,), (False, False, False)),
    "both select it": (claim().request("anys", selectors=("is-big",)), (BIG,), (True, True, True)),
    "no one device passes both": (claim().request("bigs", selectors=("fails",)), (BIG, SMALL), (False, False, False)),
    "a selector that fails selects nothing": (claim().request("none"), (BIG,), (False, False, False)),
    "a selector that does not compile selects nothing": (claim().request("broken"), (BIG,), (False, False, False)),
    "a request that names no class": (
        claim().but("spec.devices.requests", [{"name": "r0", "exactly": {}}]),
        (BIG,),
        (False, False, False),
    ),
    "any request will do": (claim().request("none").request("bigs"), (BIG,), (True, True, True)),
    "every choice": (claim().request("bigs", "anys"), (BIG,), (True, True, True)),
    "the first choice": (claim().request("bigs", "none"), (BIG,), (False, True, True)),
    "the second choice": (claim().request("none", "bigs"), (BIG,), (False, True, False)),
    "every choice of one request among others": (
        claim().request("none", "bigs").request("bigs", "anys"),
        (BIG,),
        (True, True, True),
    ),
    "choices of two requests that may both be others": (
        claim().request("none", "bigs").request("bigs", "none"),
        (BIG,),
        (False, True, True),
    ),
}


@pytest.mark.parametrize(("given", "prototypes", "want"), DEVICES.values(), ids=DEVICES)
def test_devices(given: Object, prototypes: tuple[Object, ...], want: tuple[bool, ...]) -> None:
    classes = {each["metadata"]["name"]: each for each in (BIGS, ANYS, FREE, NONE, BROKEN)}
    evaluator = Evaluator(package(given, classes=classes), FakeEngine(), selector, PLENTY)
    rules = (rule("r", Prototypes(prototypes), when=when) for when in ("All", "Any", "First"))
    assert tuple(evaluator.verdict(each) for each in rules) == tuple(YES if truth else NO for truth in want)


COMPILING = 50_000 + 1_000 * len("is-big")


def test_a_selector_is_compiled_and_asked_about_a_device_once_for_all_rules() -> None:
    given = package(claim().request("bigs"), classes={"bigs": BIGS})
    limits = CostLimits(1, COMPILING + IS_BIG_STEPS + 2 * (BUILDING + 1), Truth.FALSE)
    evaluator = Evaluator(given, FakeEngine(), selector, limits)
    rules = [rule(name, Prototypes((BIG,))) for name in ("one", "two", "three")]
    assert [evaluator.verdict(each) for each in rules] == [YES, YES, Verdict(Truth.FALSE, EXCEEDED)]


def test_selectors_that_would_take_too_long_to_compile() -> None:
    given = package(claim().request("free", selectors=("x" * 10_240,)), classes={"free": FREE})
    verdicts = [
        Evaluator(given, FakeEngine(), no_selector, limits).verdict(rule("r", Prototypes((BIG,))))
        for limits in (matching.AT_ADMISSION, matching.IN_THE_CONTROLLER)
    ]
    assert verdicts == [Verdict(Truth.UNKNOWN, EXCEEDED), NO]


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
