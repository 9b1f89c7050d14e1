"""Pods that run with other claims than they had when they got their tolerations: every row of the chain."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from fakes.engine import FakeEngine, FakeProgram, expression, failing, has_label, no_selector, rule, wants_class
from objects.builders import CREATED, Claim, Pod, claim, device_class, namespace, pod

from tollbar import wellknown
from tollbar.decide.pods import swaps
from tollbar.decide.pods.package import Package, assemble
from tollbar.decide.pods.swaps import NOTHING, SwapFacts
from tollbar.decide.rules.rule import Prototypes
from tollbar.model import claims, resources, timestamps
from tollbar.model.ask import Ask, Get, kept
from tollbar.model.objects import Key, Object
from tollbar.views.lookup import PackageLookup

GPU = rule("gpu", wants_class("gpu"))
LABEL = rule("gpu", has_label("app"), reads={"claims", "pod.metadata.labels"})
ACCOUNT = rule(
    "gpu",
    expression(
        lambda inputs: inputs["pod"]["spec"].get("serviceAccountName") == "a", "claims", "pod.spec.serviceAccountName"
    ),
)
CLASS = replace(GPU, reads=GPU.reads | {"deviceClasses.spec.selectors"})
LATER = timestamps.time(CREATED + 1)
RECORD = [{"rule": "gpu", "generation": 1, "added": list(GPU.tolerations), "via": "admission"}]
WEB = pod().annotated({wellknown.ANNOTATION_PROVENANCE: json.dumps(RECORD)}).bound()
NAMING = WEB.claims("mine")
MADE = WEB.templates("mine").generated("mine", "web-mine-x")
EMPTY = claim("mine").created(CREATED + 1)
OLD = EMPTY.created(CREATED - 1)
GENERATED = claim("web-mine-x").generated_for(WEB, "mine")
FOUND = ["gpu"]


def reserved(given: Claim, web: Pod = WEB) -> Claim:
    return given.allocated().reserved(claims.pod_entry(web))


def decide(*given: Any, **more: Any) -> Callable[[], Any]:
    """What is decided, in the test and not when the table is read."""
    return partial(decided, *given, **more)


def decided(web: Pod, *cluster: Object, rules: Any = (GPU,), whole: bool = False, selector: Any = no_selector) -> Any:
    """Names of the rules whose tolerations the Pod has without justification; or what is asked."""
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in cluster}
    named, generated = [], []
    for reference, name in claims.resolved(web):
        used = generated if "resourceClaimTemplateName" in reference else named
        used.append(by_name.get(("ResourceClaim", str(name))))
    package = assemble(web, PackageLookup.of((namespace(), device_class("gpu"), *cluster)))
    facts = SwapFacts(package, named, generated, rules, FakeEngine(), selector, whole)
    plan = swaps.decide(facts)
    if isinstance(plan, Ask):
        return plan
    assert len(plan.events) == bool(plan.unjustified)
    return [each.rule for each in plan.unjustified]


CHOICES = [claim(name).request("gpu", "other").created(CREATED + 1) for name in "abcdefghi"]
"""Together they have 512 alternatives."""
OTHER = device_class("other").created(CREATED - 1).but("metadata.generation", 1)


def naming_another(other: Object, reads: str = "deviceClasses.spec.selectors") -> Callable[[], Any]:
    """With a claim that names this class, by a rule about another one."""
    given = replace(GPU, reads=GPU.reads | {reads})
    return decide(NAMING, reserved(EMPTY.request("other")), other, rules=(given,))


CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "an empty claim that is younger than the Pod": (decide(NAMING, reserved(EMPTY)), FOUND),
    "one of the same second may be the one that it was created with": (
        decide(NAMING, reserved(EMPTY.created(CREATED))),
        [],
    ),
    "one that was there before the Pod": (decide(NAMING, reserved(OLD)), []),
    "a claim for which the rule is true": (decide(NAMING, reserved(EMPTY.request("gpu"))), []),
    "it is not reserved for the Pod yet": (decide(NAMING, EMPTY.allocated()), []),
    "it is gone": (decide(NAMING), []),
    "one of two is not reserved yet": (decide(NAMING.claims("other"), reserved(EMPTY), claim("other")), []),
    "reserved for the Pod's group": (
        decide(
            NAMING.in_group("gang"),
            EMPTY.reserved({"apiGroup": claims.POD_GROUP_API, "resource": "podgroups", "name": "gang", "uid": "g"}),
        ),
        FOUND,
    ),
    "an empty one that is too large for the caches": (
        decide(NAMING, reserved(EMPTY).but("stub", True)),
        Ask((Get(resources.RESOURCE_CLAIMS, Key("ml", "mine")),)),
    ),
    "one that is too large and was there before the Pod": (decide(NAMING, reserved(OLD).but("stub", True)), []),
    "one that is too large, and no rule that reads nothing else that may have changed": (
        decide(NAMING, reserved(EMPTY).but("stub", True), rules=(LABEL,)),
        [],
    ),
    "one that is too large, and a rule that did not give anything to the Pod": (
        decide(NAMING, reserved(EMPTY).but("stub", True), rules=(replace(GPU, tolerations=()),)),
        [],
    ),
    "an empty claim that was generated for it": (decide(MADE, reserved(GENERATED)), FOUND),
    "a generated one for which the rule is true": (decide(MADE, reserved(GENERATED.request("gpu"))), []),
    "one whose devices are others": (
        decide(
            NAMING,
            reserved(EMPTY.request("picky")),
            device_class("picky").selecting("none"),
            rules=(rule("gpu", Prototypes(({},)), reads={"claims"}),),
            selector=lambda _: FakeProgram(lambda _: False, frozenset({"device"})),
        ),
        FOUND,
    ),
    "a Pod that does not say when it was created": (
        decide(MADE.but("metadata.creationTimestamp", None), reserved(GENERATED)),
        [],
    ),
    "no Node yet": (decide(NAMING.but("spec.nodeName", None), reserved(EMPTY)), []),
    "no record": (decide(pod().bound().claims("mine"), reserved(EMPTY)), []),
    "the Pod is being deleted": (decide(NAMING.deleting(), reserved(EMPTY)), []),
    "the Pod has ended": (decide(NAMING.phase("Succeeded"), reserved(EMPTY)), []),
    "a rule that reads more of the Pod than is known": (
        decide(NAMING, reserved(EMPTY), rules=(ACCOUNT,)),
        Ask((Get(resources.PODS, Key("ml", "web")),)),
    ),
    "and is true of the whole Pod": (
        decide(NAMING.but("spec.serviceAccountName", "a"), reserved(EMPTY), rules=(ACCOUNT,), whole=True),
        [],
    ),
    "and is not": (decide(NAMING, reserved(EMPTY), rules=(ACCOUNT,), whole=True), FOUND),
    "a rule that was deleted is no offence": (decide(NAMING, reserved(EMPTY), rules=()), []),
    "one that was created again after the Pod": (
        decide(NAMING, reserved(EMPTY), rules=(replace(GPU, created=LATER),)),
        [],
    ),
    "or in its second": (
        decide(NAMING, reserved(EMPTY), rules=(replace(GPU, created=timestamps.time(CREATED)),)),
        [],
    ),
    "one that fails": (
        decide(NAMING, reserved(EMPTY), rules=(rule("gpu", failing("claims")),), whole=True),
        [],
    ),
    "claims with more alternatives than are looked at": (
        decide(WEB.claims(*"abcdefghi"), *map(reserved, CHOICES), device_class("other"), whole=True),
        [],
    ),
    "one that leaves out the namespace now": (
        decide(NAMING, reserved(EMPTY), rules=(replace(GPU, namespace_selector={"matchLabels": {"a": "b"}}),)),
        [],
    ),
    "one that reads the namespace": (
        decide(NAMING, reserved(EMPTY), rules=(replace(GPU, reads=GPU.reads | {"namespaceObject.metadata"}),)),
        [],
    ),
    "one that reads what may change of the Pod": (
        decide(NAMING, reserved(EMPTY), rules=(LABEL,), whole=True),
        [],
    ),
    "one that reads a claim's metadata": (
        decide(MADE, reserved(GENERATED), rules=(replace(GPU, reads=GPU.reads | {"claims.metadata.labels"}),)),
        [],
    ),
    "one that reads nothing of claims": (
        decide(NAMING, reserved(EMPTY), rules=(replace(GPU, reads=frozenset({"pod.spec.volumes"})),)),
        [],
    ),
    "one that reads classes, of a claim that names none": (decide(NAMING, reserved(EMPTY), rules=(CLASS,)), FOUND),
    "and of a claim that names one that is as it was": (naming_another(OTHER), FOUND),
    "that has been changed": (naming_another(OTHER.but("metadata.generation", 2)), []),
    "that is younger than the Pod": (naming_another(OTHER.created(CREATED + 1)), []),
    "that was made in its second": (naming_another(OTHER.created(CREATED)), []),
    "whose metadata the rule reads": (naming_another(OTHER, "deviceClasses.metadata.labels"), []),
    "of a Pod with extended resources": (
        decide(NAMING.but("spec.containers", [{"resources": {"requests": {"example.com/foo": "1"}}}]), reserved(EMPTY)),
        [],
    ),
}


@pytest.mark.parametrize(("found", "want"), CASES.values(), ids=CASES)
def test_who_is_found(found: Callable[[], Any], want: Any) -> None:
    assert found() == want


def test_what_is_said() -> None:
    package = assemble(NAMING, PackageLookup.of((namespace(), EMPTY)))
    plan = swaps.decide(SwapFacts(package, [reserved(EMPTY)], [], (GPU,), FakeEngine(), no_selector, whole=True))
    assert not isinstance(plan, Ask)
    assert plan is not NOTHING
    (event,) = plan.events
    assert (event.type, event.reason, event.note.split(": ")) == (
        "Warning",
        "TolerationUnjustified",
        [
            "the claims that the Pod runs with do not justify what it tolerates",
            "example.com/gpu:NoSchedule op=Exists by rule gpu",
        ],
    )


READS: dict[str, tuple[set[str], set[str]]] = {
    "a class": (
        {"claims.spec.devices.requests.exactly.deviceClassName", "pod.spec.volumes"},
        {"spec.devices.requests.exactly.deviceClassName", "spec.devices.requests.firstAvailable.deviceClassName"},
    ),
    "what subrequests may have, too": (
        {"claims.spec.devices.requests.exactly.count"},
        {"spec.devices.requests.exactly.count", "spec.devices.requests.firstAvailable.count"},
    ),
    "all requests": ({"claims.spec.devices.requests"}, {"spec.devices.requests"}),
    "everything": ({"claims"}, {"metadata", "spec"}),
}


@pytest.mark.parametrize(("reads", "want"), READS.values(), ids=READS)
def test_of_a_claim_that_is_too_large_it_is_kept_what_rules_read(reads: set[str], want: set[str]) -> None:
    asked = decided(NAMING, reserved(EMPTY).but("stub", True), rules=(replace(GPU, reads=frozenset(reads)),))
    (question,) = asked.questions
    assert question.keep >= want | {"metadata.name", "status.reservedFor"}
    assert "spec.devices.config" not in question.keep


FAT = EMPTY.request("gpu", selectors=("device.driver == 'a'",)).annotated({"example.com/note": "x"})


def test_what_is_kept_of_a_claim_is_judged_like_the_claim() -> None:
    """Whichever requests it has, by what the rule reads."""
    (question,) = decided(NAMING, reserved(EMPTY).but("stub", True)).questions
    for claim_ in (reserved(EMPTY), reserved(FAT)):
        small = kept(claim_, question.keep)
        assert len(str(small)) < len(str(claim_))
        assert decided(NAMING, {**small, "kind": "ResourceClaim"}) == decided(NAMING, claim_)


def facts(**other: Any) -> SwapFacts:
    given = {"package": Package(NAMING), "named": [reserved(EMPTY)], "generated": [], "rules": (GPU,)}
    return SwapFacts(**{**given, "engine": FakeEngine(), "selector": no_selector, **other})


BASES: dict[str, tuple[dict[str, Any], bool]] = {
    "the same": ({}, True),
    "a claim that is not reserved for the Pod": ({"named": [EMPTY]}, False),
    "another claim of the name": ({"named": [reserved(EMPTY).but("metadata.uid", "other")]}, False),
    "another rule": ({"rules": (replace(GPU, generation=2),)}, False),
    "one more, which gives nothing to the Pod": ({"rules": (GPU, replace(GPU, name="other", tolerations=()))}, True),
    "another Pod of the name": ({"package": Package(NAMING.but("metadata.uid", "other"))}, False),
    "the Pod was changed": ({"package": Package(NAMING.but("metadata.resourceVersion", "2"))}, False),
    "a DeviceClass was changed": ({"classes": [OTHER.but("metadata.generation", 2)]}, False),
    "a DeviceClass was replaced": ({"classes": [OTHER.but("metadata.uid", "new")]}, False),
    "a DeviceClass is gone": ({"classes": []}, False),
    "the labels of a DeviceClass were changed": ({"classes": [OTHER.but("metadata.resourceVersion", "2")]}, True),
}


@pytest.mark.parametrize(("other", "equal"), BASES.values(), ids=BASES)
def test_what_a_verdict_depends_on(other: dict[str, Any], equal: bool) -> None:
    classes = other.get("classes", [OTHER])
    changed = facts(**{name: value for name, value in other.items() if name != "classes"})
    assert (swaps.basis(changed, classes) == swaps.basis(facts(), [OTHER])) is equal
