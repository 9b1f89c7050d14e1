"""Pods that run with other claims than they had when they got their tolerations: every row of the chain."""

import json
from typing import Any

import pytest
from builders import CREATED, Claim, Pod, claim, device_class, namespace, pod, template
from fakes import FakeEngine, has_label, no_selector, rule, wants_class

from tollbar import wellknown
from tollbar.decide.pods import swaps
from tollbar.decide.pods.package import assemble
from tollbar.decide.pods.swaps import NOTHING, SwapFacts
from tollbar.model import claims, resources
from tollbar.model.ask import Ask, Get
from tollbar.model.objects import Key, Object
from tollbar.views.lookup import PackageLookup

GPU = rule("gpu", wants_class("gpu"))
APP = rule("gpu", has_label("app"))
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


def decide(web: Pod, *cluster: Object, rules: Any = (GPU,), whole: bool = False) -> Any:
    """Names of the rules whose tolerations the Pod has without justification; or what is asked."""
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in cluster}
    named, templates, generated = [], [], []
    for reference, name in claims.resolved(web):
        if wanted := reference.get("resourceClaimTemplateName"):
            templates.append(by_name.get(("ResourceClaimTemplate", wanted)))
            generated.append(by_name.get(("ResourceClaim", str(name))))
        else:
            named.append(by_name.get(("ResourceClaim", str(name))))
    package = assemble(web, PackageLookup.of((namespace(), device_class("gpu"), *cluster)))
    facts = SwapFacts(package, named, templates, generated, rules, FakeEngine(), no_selector, whole)
    plan = swaps.decide(facts)
    return plan if isinstance(plan, Ask) else [each.rule for each in plan.unjustified]


CASES: dict[str, tuple[Any, Any]] = {
    "an empty claim that is younger than the Pod": (decide(NAMING, reserved(EMPTY)), FOUND),
    "one of the same second": (decide(NAMING, reserved(EMPTY.created(CREATED))), FOUND),
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
    "a claim from a template that is younger than the Pod": (
        decide(MADE, template("mine").created(CREATED + 1), reserved(GENERATED)),
        FOUND,
    ),
    "from one that is gone": (decide(MADE, reserved(GENERATED)), FOUND),
    "from one that was there before the Pod": (
        decide(MADE, template("mine").created(CREATED - 1), reserved(GENERATED)),
        [],
    ),
    "no Node yet": (decide(NAMING.but("spec.nodeName", None), reserved(EMPTY)), []),
    "no record": (decide(pod().bound().claims("mine"), reserved(EMPTY)), []),
    "the Pod is being deleted": (decide(NAMING.deleting(), reserved(EMPTY)), []),
    "the Pod has ended": (decide(NAMING.phase("Succeeded"), reserved(EMPTY)), []),
    "a rule that reads more of the Pod than is known": (
        decide(NAMING, reserved(EMPTY), rules=(APP,)),
        Ask((Get(resources.PODS, Key("ml", "web")),)),
    ),
    "and is true of the whole Pod": (decide(NAMING.labelled(app="x"), reserved(EMPTY), rules=(APP,), whole=True), []),
    "and is not": (decide(NAMING, reserved(EMPTY), rules=(APP,), whole=True), FOUND),
    "a rule that was deleted is no offence": (decide(NAMING, reserved(EMPTY), rules=()), []),
}


@pytest.mark.parametrize(("found", "want"), CASES.values(), ids=CASES)
def test_who_is_found(found: Any, want: Any) -> None:
    assert found == want


def test_what_is_said() -> None:
    package = assemble(NAMING, PackageLookup.of((namespace(), EMPTY)))
    plan = swaps.decide(SwapFacts(package, [reserved(EMPTY)], [], [], (GPU,), FakeEngine(), no_selector, whole=True))
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
