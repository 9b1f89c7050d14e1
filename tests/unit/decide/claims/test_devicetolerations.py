"""Which tolerations of devices new claims and templates get: every form of request, with the engine of production."""

import json
from typing import Any

import pytest
from fakes.manager import Managed
from objects.builders import (
    Claim,
    TolerationRule,
    claim,
    device_class,
    namespace,
    template,
    toleration,
    toleration_rule,
)
from objects.patching import apply

from tollbar import wellknown
from tollbar.cel import engine
from tollbar.decide.claims import devicetolerations
from tollbar.decide.claims.devicetolerations import MOST, DeviceAddition, DeviceTolerationPlan
from tollbar.decide.rules.rule import Rule
from tollbar.model.objects import Object, annotations_of, key_of

CEL = engine()
GPU, NIC = toleration("example.com/gpu"), toleration("example.com/nic", effect="NoExecute")
OTHER = {"key": "example.com/other", "operator": "Equal", "value": "a"}
WANTS_GPU = 'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))'
WANTS_ALL = 'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.?allocationMode.orValue("") == "All"))'
ADMIN = "claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.?adminAccess.orValue(false)))"
TIER = 'deviceClasses.exists(name, deviceClasses[name].metadata.?labels[?"tier"].orValue("") == "fast")'
LABELLED = 'claims.exists(c, c.metadata.?labels[?"team"].orValue("") == "a")'
TEAM = 'namespaceObject.metadata.?labels[?"team"].orValue("") == "a"'
ANNOTATED = 'claims.exists(c, c.metadata.?annotations[?"team"].orValue("") == "a")'
HAS_OTHER = (
    "claims.exists(c, c.spec.devices.requests.exists(r,"
    ' r.exactly.?tolerations.orValue([]).exists(t, t.key == "example.com/other")))'
)

GIVES = toleration_rule("gpu").cel(WANTS_GPU).giving_devices(GPU)
CLASSES = (
    device_class("gpu").but("metadata.labels", {"tier": "fast"}),
    device_class("nic").but("spec.selectors", [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]),
    device_class("cards").but("spec.selectors", [{"cel": {"expression": 'device.driver == "cards.example.com"'}}]),
)


def plain(obj: Any) -> Any:
    """As decoded JSON: the engine takes nothing else."""
    return json.loads(json.dumps(obj))


def decided(obj: Object, *rules: TolerationRule, of: tuple[Object, ...] = CLASSES) -> DeviceTolerationPlan:
    manager = Managed()
    gatherer = manager.gatherer(CEL)
    manager.fill(map(plain, (*of, namespace("ml").labelled(team="a"), namespace("tollbar-system"), *rules)))
    assert all(isinstance(gatherer.ruleset.get(key_of(rule).name), Rule) for rule in rules)
    return devicetolerations.decide(gatherer.device_toleration_facts(plain(obj)))


def given(obj: Object) -> dict[str, list[str]]:
    """Keys of the tolerations of every request and entry of `firstAvailable` that has some."""
    body = obj["spec"]["spec"] if obj["kind"] == "ResourceClaimTemplate" else obj["spec"]
    found = {}
    for request in (body.get("devices") or {}).get("requests") or ():
        places = {request["name"]: request.get("exactly") or {}}
        places |= {f"{request['name']}/{each['name']}": each for each in request.get("firstAvailable") or ()}
        found |= {
            name: [each.get("key", "") for each in it["tolerations"]]
            for name, it in places.items()
            if "tolerations" in it
        }
    return found


def asking(**exactly: Any) -> Claim:
    """A claim with one request r0 for a gpu, and these members of `exactly`."""
    return claim().but("spec.devices.requests", [{"name": "r0", "exactly": {"deviceClassName": "gpu", **exactly}}])


NEARLY_FULL = [toleration(f"example.com/t{index}") for index in range(MOST - 1)]

ADDED: dict[str, tuple[Object, tuple[TolerationRule, ...], dict[str, list[str]]]] = {
    "exactly": (claim().request("gpu"), (GIVES,), {"r0": ["example.com/gpu"]}),
    "another class": (claim().request("nic"), (GIVES,), {}),
    "of several requests, those that match": (
        claim().request("nic").request("gpu").request("gpu"),
        (GIVES,),
        {"r1": ["example.com/gpu"], "r2": ["example.com/gpu"]},
    ),
    "firstAvailable: each entry by itself": (
        claim().request("nic", "gpu", "gpu"),
        (GIVES,),
        {"r0/o1": ["example.com/gpu"], "r0/o2": ["example.com/gpu"]},
    ),
    "firstAvailable, whatever whenAlternatives says": (
        claim().request("nic", "gpu"),
        (GIVES.when("First"),),
        {"r0/o1": ["example.com/gpu"]},
    ),
    "All": (
        asking(allocationMode="All"),
        (toleration_rule("gpu").cel(WANTS_ALL).giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "a rule for All, a request for one": (
        asking(allocationMode="ExactCount", count=1),
        (toleration_rule("gpu").cel(WANTS_ALL).giving_devices(GPU),),
        {},
    ),
    "adminAccess": (
        asking(adminAccess=True),
        (toleration_rule("gpu").cel(ADMIN).giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "a rule for adminAccess, a request without": (
        asking(),
        (toleration_rule("gpu").cel(ADMIN).giving_devices(GPU),),
        {},
    ),
    "a template": (template().request("nic", "gpu"), (GIVES,), {"r0/o1": ["example.com/gpu"]}),
    "the labels that a template gives": (
        template().giving({"team": "a"}).request("nic"),
        (toleration_rule("gpu").cel(LABELLED).giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "the template's own labels are not those of its claims": (
        template().labelled(team="a").request("nic"),
        (toleration_rule("gpu").cel(LABELLED).giving_devices(GPU),),
        {},
    ),
    "the class of each request": (
        claim().request("gpu").request("nic"),
        (toleration_rule("gpu").cel(TIER).giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "the namespace": (
        claim().request("nic"),
        (toleration_rule("gpu").cel(TEAM).giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "the name of the namespace": (
        claim().request("nic"),
        (toleration_rule("gpu").cel('claims.exists(c, c.metadata.namespace == "ml")').giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "annotations": (
        claim().annotated({"team": "a"}).request("nic"),
        (toleration_rule("gpu").cel(ANNOTATED).giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "no annotations": (
        claim().request("nic"),
        (toleration_rule("gpu").cel("claims.exists(c, !has(c.metadata.annotations))").giving_devices(GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "another namespace by the selector": (claim().request("gpu"), (GIVES.in_namespaces(team="b"),), {}),
    "a prototype, by the selectors of class and request": (
        claim().request("cards", "nic", selectors=('device.driver == "cards.example.com"',)),
        (toleration_rule("gpu").device("cards.example.com").giving_devices(GPU),),
        {"r0/o0": ["example.com/gpu"]},
    ),
    "rules by name, each toleration once": (
        claim().request("gpu"),
        (GIVES, toleration_rule("a").cel(WANTS_GPU).giving_devices(NIC, GPU)),
        {"r0": ["example.com/nic", "example.com/gpu"]},
    ),
    "what each of several rules gives": (
        claim().request("gpu"),
        (GIVES, toleration_rule("a").cel(WANTS_GPU).giving_devices(NIC)),
        {"r0": ["example.com/nic", "example.com/gpu"]},
    ),
    "a rule that gives it twice": (
        claim().request("gpu"),
        (toleration_rule("gpu").cel(WANTS_GPU).giving_devices(GPU, GPU),),
        {"r0": ["example.com/gpu"]},
    ),
    "behind those of the author, which stay": (
        asking(tolerations=[OTHER]),
        (GIVES,),
        {"r0": ["example.com/other", "example.com/gpu"]},
    ),
    "what the author wrote is there": (asking(tolerations=[GPU]), (GIVES,), {"r0": ["example.com/gpu"]}),
    "the last one that a request takes": (
        asking(tolerations=NEARLY_FULL),
        (GIVES,),
        {"r0": [*(each["key"] for each in NEARLY_FULL), "example.com/gpu"]},
    ),
    "a rule for Pods": (claim().request("gpu"), (toleration_rule("gpu").cel(WANTS_GPU),), {}),
    "a rule for both": (
        claim().request("gpu"),
        (toleration_rule("gpu").cel(WANTS_GPU).but("spec.deviceTolerations", [NIC]),),
        {"r0": ["example.com/nic"]},
    ),
    "a rule in Audit": (claim().request("gpu"), (GIVES.mode("Audit"),), {}),
    "a disabled rule": (claim().request("gpu"), (GIVES.mode("Disabled"),), {}),
    "no requests": (claim().but("spec.devices", {"requests": None}), (GIVES,), {}),
    "no devices": (claim(), (GIVES,), {}),
    "a request of a kind that is not known": (
        claim().but("spec.devices.requests", [{"name": "r0", "newer": {}}]),
        (GIVES,),
        {},
    ),
    "beside a request of a kind that is not known": (
        claim().but(
            "spec.devices.requests",
            [{"name": "r0", "newer": {}}, {"name": "r1", "exactly": {"deviceClassName": "gpu"}}],
        ),
        (GIVES,),
        {"r1": ["example.com/gpu"]},
    ),
    "one that opts out": (claim().labelled({wellknown.LABEL_SKIP: "true"}).request("gpu"), (GIVES,), {}),
    "for extended resources": (
        claim().annotated({wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}).request("gpu"),
        (GIVES,),
        {},
    ),
    "in the installation's own namespace": (claim(namespace="tollbar-system").request("gpu"), (GIVES,), {}),
    "in a namespace that is not known yet": (claim(namespace="new").request("gpu"), (GIVES,), {}),
    "of a class that does not exist": (
        claim().request("none"),
        (
            toleration_rule("gpu").cel(WANTS_GPU.replace("gpu", "none")).giving_devices(GPU),
            toleration_rule("b").cel(TIER).giving_devices(NIC),
        ),
        {"r0": ["example.com/gpu"]},
    ),
}


@pytest.mark.parametrize(("obj", "rules", "want"), ADDED.values(), ids=ADDED)
def test_what_each_request_gets(obj: Object, rules: tuple[TolerationRule, ...], want: dict[str, list[str]]) -> None:
    plan = decided(obj, *rules)
    again = decided(plan.obj, *rules)
    assert (given(plan.obj), apply(plain(obj), plan.patch), again.patch) == (want, plan.obj, ())


def test_the_record_says_which_request_got_what_by_which_rule() -> None:
    obj = claim().request("nic", "gpu").annotated({"a": "b"})
    plan = decided(obj, GIVES)
    assert apply(plain(obj), plan.patch) == plan.obj
    written = annotations_of(plan.obj)
    assert (json.loads(written.pop(wellknown.ANNOTATION_PROVENANCE)), written) == (
        [{"rule": "gpu", "generation": 1, "request": "r0/o1", "added": [GPU], "via": "creation"}],
        {"a": "b"},
    )


def test_without_annotations_the_record_is_the_first() -> None:
    assert list(annotations_of(decided(claim().request("gpu"), GIVES).obj)) == [wellknown.ANNOTATION_PROVENANCE]


def test_a_record_for_which_there_is_no_room_is_left_out() -> None:
    full = claim().request("gpu").annotated({"a": "x" * 262_000})
    plan = decided(full, GIVES)
    assert (given(plan.obj), list(annotations_of(plan.obj))) == ({"r0": ["example.com/gpu"]}, ["a"])


FORGED = json.dumps([{"rule": "gpu", "generation": 1, "request": "r0", "added": [GPU], "via": "creation"}])
RECORDS: dict[str, tuple[Object, tuple[TolerationRule, ...], dict[str, list[str]], bool]] = {
    "of a rule that is not there": (
        asking(tolerations=[GPU]).annotated({wellknown.ANNOTATION_PROVENANCE: FORGED}),
        (),
        {"r0": ["example.com/gpu"]},
        False,
    ),
    "of a rule that is not true": (
        claim().request("nic").annotated({wellknown.ANNOTATION_PROVENANCE: FORGED}),
        (GIVES,),
        {},
        False,
    ),
    "of another generation": (
        asking(tolerations=[GPU]).annotated({wellknown.ANNOTATION_PROVENANCE: FORGED}),
        (GIVES.but("metadata.generation", 2),),
        {"r0": ["example.com/gpu"]},
        False,
    ),
    "without the tolerations": (
        asking().annotated({wellknown.ANNOTATION_PROVENANCE: FORGED}),
        (GIVES,),
        {"r0": ["example.com/gpu"]},
        True,
    ),
    "no JSON": (
        asking().annotated({wellknown.ANNOTATION_PROVENANCE: "{"}),
        (GIVES,),
        {"r0": ["example.com/gpu"]},
        True,
    ),
    "empty": (asking().annotated({wellknown.ANNOTATION_PROVENANCE: ""}), (), {}, False),
}


@pytest.mark.parametrize(("obj", "rules", "want", "recorded"), RECORDS.values(), ids=RECORDS)
def test_a_forged_record_is_replaced_or_taken_off(
    obj: Object, rules: tuple[TolerationRule, ...], want: dict[str, list[str]], recorded: bool
) -> None:
    plan = decided(obj, *rules)
    assert (given(plan.obj), apply(plain(obj), plan.patch)) == (want, plan.obj)
    assert (wellknown.ANNOTATION_PROVENANCE in annotations_of(plan.obj)) is recorded


BARE = "claims.all(c, c.spec.devices.requests.all(r, !has(r.exactly.tolerations)))"


@pytest.mark.parametrize(
    ("expression", "others"), [(WANTS_GPU, ()), (WANTS_GPU, (NIC,)), (BARE, ())], ids=["as it is", "more", "reads them"]
)
def test_a_true_record_stays_when_the_api_server_asks_again(expression: str, others: tuple[Object, ...]) -> None:
    """Reinvocation: another webhook changed the claim; a rule may read the tolerations of requests."""
    rule = toleration_rule("gpu").cel(expression).giving_devices(GPU)
    first = decided(claim().request("gpu"), rule).obj
    first["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] += others
    assert decided(first, rule) == DeviceTolerationPlan(first)


def test_a_true_record_stays_beside_tolerations_of_the_author() -> None:
    """Also those of a request that a rule gives something because of them."""
    of_gpu, of_nic = ({"deviceClassName": name, "tolerations": [OTHER]} for name in ("gpu", "nic"))
    obj = claim().but("spec.devices.requests", [{"name": "r0", "exactly": of_gpu}, {"name": "r1", "exactly": of_nic}])
    rule = toleration_rule("gpu").cel(f"{HAS_OTHER} && {WANTS_GPU}").giving_devices(GPU)
    first = decided(obj, rule).obj
    assert given(first) == {"r0": ["example.com/other", "example.com/gpu"], "r1": ["example.com/other"]}
    assert decided(first, rule) == DeviceTolerationPlan(first)


def test_a_request_is_never_given_more_than_the_api_allows() -> None:
    plan = decided(asking(tolerations=NEARLY_FULL), toleration_rule("gpu").cel(WANTS_GPU).giving_devices(GPU, NIC))
    assert (plan.patch, plan.warnings) == (
        (),
        ("tollbar: rule gpu gives request r0 no device tolerations: a request takes 16 at most",),
    )


NOT_KNOWN = "tollbar: rule gpu gives request r0 no device tolerations: Namespace new"
WARNED: dict[str, tuple[Object, TolerationRule, tuple[str, ...]]] = {
    "in force and added": (claim().request("gpu"), GIVES, ()),
    "in Audit": (
        claim().request("nic", "gpu"),
        GIVES.mode("Audit"),
        ("tollbar: rule gpu (Audit) would add 1 device toleration to request r0/o1",),
    ),
    "a namespace that is not known yet": (claim(namespace="new").request("gpu"), GIVES, (NOT_KNOWN,)),
    "a rule that reads the namespace, which is not known yet": (
        claim(namespace="new").request("gpu"),
        toleration_rule("gpu").cel(TEAM).giving_devices(GPU),
        (NOT_KNOWN,),
    ),
    "what a claim has once it is created": (
        claim().request("gpu"),
        toleration_rule("gpu").cel('claims.exists(c, c.metadata == {"namespace": "ml"})').giving_devices(GPU),
        (("tollbar: rule gpu gives request r0 no device tolerations: what the Pod gets only after its admission"),),
    ),
    "a request that has more than it takes, and it": (asking(tolerations=[*NEARLY_FULL, NIC, GPU]), GIVES, ()),
    "in Audit, of several tolerations": (
        claim().request("gpu"),
        toleration_rule("gpu").cel(WANTS_GPU).giving_devices(GPU, NIC).mode("Audit"),
        ("tollbar: rule gpu (Audit) would add 2 device tolerations to request r0",),
    ),
    "a request that is full, and has it": (asking(tolerations=[*NEARLY_FULL, GPU]), GIVES, ()),
    "in Audit, and there already": (asking(tolerations=[GPU]), GIVES.mode("Audit"), ()),
    "a class that does not exist": (
        claim().request("none"),
        toleration_rule("gpu").cel(TIER).giving_devices(GPU),
        ("tollbar: rule gpu gives request r0 no device tolerations: DeviceClass none does not exist",),
    ),
    "a rule that fails": (
        claim().request("gpu"),
        toleration_rule("gpu").cel("claims.exists(c, c.metadata.labels['a'] == 'b')").giving_devices(GPU),
        ("tollbar: rule gpu gives request r0 no device tolerations: 1:29: no such key: labels",),
    ),
}


@pytest.mark.parametrize(("obj", "rule", "want"), WARNED.values(), ids=WARNED)
def test_whoever_creates_it_is_told(obj: Object, rule: TolerationRule, want: tuple[str, ...]) -> None:
    assert decided(obj, rule).warnings == want


def test_one_claim_cannot_keep_the_webhook_busy() -> None:
    """All its requests are decided from one budget; what is beyond it stays as it is, and is told at most 16 times."""
    numbers = list(range(100))
    slow = f"!{numbers}.exists(x, {numbers}.exists(y, x * y < 0))"
    large = claim()
    for _ in range(32):
        large = large.request(*["gpu"] * 8)
    plan = decided(large, toleration_rule("gpu").cel(f"{WANTS_GPU} && {slow}").giving_devices(GPU))
    assert 0 < len(given(plan.obj)) < 256
    assert len(plan.undecided) == 256 - len(given(plan.obj))
    assert len(plan.warnings) == 16
    assert "CostLimitExceeded" in plan.warnings[0]


def test_rules_in_audit_cost_only_what_those_in_force_leave() -> None:
    slow = f"[{', '.join(map(str, range(100)))}].all(x, lists.range(100).all(y, x * y >= 0))"
    large = claim()
    for _ in range(32):
        large = large.request(*["gpu"] * 8)
    plan = decided(large, GIVES, toleration_rule("a").cel(f"{WANTS_GPU} && {slow}").giving_devices(NIC).mode("Audit"))
    assert (len(given(plan.obj)), 0 < len(plan.audited) < 256) == (256, True)


def test_what_a_rule_in_audit_would_add_is_told_by_its_generation() -> None:
    plan = decided(claim().request("gpu"), GIVES.but("metadata.generation", 3).mode("Audit"))
    assert plan.audited == (DeviceAddition("gpu", 3, "r0", (GPU,)),)
