"""The placement gate: which Nodes a Pod is kept to, and when it waits to be told."""

from collections.abc import Callable
from typing import Any

import pytest
from objects.builders import claim, device_class, namespace, pod, template

from tollbar.cel import engine
from tollbar.decide.rules import rulestatus
from tollbar.decide.rules.placements import compile_placement
from tollbar.decide.rules.validation import placement_errors, placement_warnings
from tollbar.gates import Answer, Facts, Hold, Mutation, NotMine, Release
from tollbar.gates.placement import PlacementGate
from tollbar.gates.registry import enabled
from tollbar.model.objects import Object

NODES = {"key": "example.com/pool", "operator": "In", "values": ["batch"]}
FAST = {"weight": 10, "preference": {"matchExpressions": [{"key": "example.com/fast", "operator": "Exists"}]}}
BATCH = "has(pod.metadata.labels) && 'batch' in pod.metadata.labels"
WANTS_GPU = "claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == 'gpu'))"
POD = pod().labelled(batch="yes")


def rule(name: str = "batch", expression: str = BATCH, **spec: Any) -> Object:
    body = {"match": {"type": "CEL", "cel": {"expression": expression}}, "required": [NODES], **spec}
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "PlacementRule",
        "metadata": {"name": name, "uid": name, "generation": 1},
        "spec": {member: value for member, value in body.items() if value is not None},
    }


def decided(about: Object, *objects: Object, at_admission: bool = False) -> Answer:
    names = {
        "PlacementRule": "placement rules",
        "DeviceClass": "classes",
        "ResourceClaim": "claims",
        "ResourceClaimTemplate": "templates",
    }
    found: dict[str, list[Object]] = {name: [] for name in names.values()}
    for obj in objects:
        found[names[obj["kind"]]].append(obj)
    return PlacementGate().decide(Facts(about, namespace(), at_admission, found))


def shown(answer: Answer) -> Any:
    match answer:
        case Release(mutation) if mutation:
            return [*mutation.required, *mutation.preferred], mutation.annotations["tollbar.dev/placement"]
        case Release():
            return list(answer.warnings)
        case Hold(_, subject):
            return subject
        case _:
            return None


CASES: dict[str, tuple[Callable[[], Answer], Any]] = {
    "no rule": (lambda: decided(POD), None),
    "it is true": (lambda: decided(POD, rule()), ([NODES], "batch")),
    "it is true, at creation": (lambda: decided(POD.being_created(), rule(), at_admission=True), ([NODES], "batch")),
    "it is false": (lambda: decided(pod(), rule()), []),
    "a preference alone": (lambda: decided(POD, rule(required=None, preferred=[FAST])), ([FAST], "batch")),
    "an empty list of values is left out, as the API server does": (
        lambda: decided(POD, rule(required=[{"key": "a", "operator": "Exists", "values": []}])),
        ([{"key": "a", "operator": "Exists"}], "batch"),
    ),
    "two rules, and what both ask for once": (
        lambda: decided(POD, rule("b", preferred=[FAST]), rule("a")),
        ([NODES, FAST], "a,b"),
    ),
    "in Audit it only tells": (
        lambda: decided(POD, rule(mode="Audit")),
        ["PlacementRule batch (Audit) would narrow the node affinity"],
    ),
    "in Audit one that fails holds nobody": (lambda: decided(POD, rule("a", "1 / 0 == 1", mode="Audit")), []),
    "switched off": (lambda: decided(POD, rule(mode="Disabled")), []),
    "another namespace": (lambda: decided(POD, rule(namespaceSelector={"matchLabels": {"team": "a"}})), []),
    "by its claim": (
        lambda: decided(
            POD.claims("mine"), rule(expression=WANTS_GPU), claim("mine").request("gpu"), device_class("gpu")
        ),
        ([NODES], "batch"),
    ),
    "by what its template will make": (
        lambda: decided(
            POD.templates("mine"), rule(expression=WANTS_GPU), template("mine").request("gpu"), device_class("gpu")
        ),
        ([NODES], "batch"),
    ),
    "by an extended resource that a class backs": (
        lambda: decided(
            pod().wants({"example.com/gpu": "1"}),
            rule(expression=WANTS_GPU),
            device_class("gpu").backing("example.com/gpu"),
        ),
        ([NODES], "batch"),
    ),
    "by the class that was created last, of two that back it": (
        lambda: decided(
            pod().wants({"example.com/gpu": "1"}),
            rule(expression=WANTS_GPU),
            device_class("gpu").backing("example.com/gpu").created(1.0),
            device_class("other").backing("example.com/gpu").created(2.0),
        ),
        [],
    ),
    "its claim is not there yet": (
        lambda: decided(POD.claims("mine"), rule(expression=WANTS_GPU)),
        "ResourceClaim mine (PlacementRule batch)",
    ),
    "a class is not there yet": (
        lambda: decided(POD.claims("mine"), rule(expression=WANTS_GPU), claim("mine").request("gpu")),
        "DeviceClass gpu (PlacementRule batch)",
    ),
    "what is missing does not matter to a rule about Pods": (
        lambda: decided(POD.claims("mine"), rule()),
        ([NODES], "batch"),
    ),
    "it fails for this Pod: in doubt the Pod waits": (
        lambda: decided(POD, rule(expression="pod.metadata.labels['team'] == 'a'")),
        "a correction of PlacementRule batch, which fails for this Pod: 1:1: no such key: team",
    ),
    "an invalid rule is not in force": (lambda: decided(POD, rule(expression="nope")), None),
    "the gate, the label and the record do not change what a rule sees": (
        lambda: decided(
            POD.gated("tollbar.dev/placement").annotated({"tollbar.dev/placement": "x"}),
            rule(expression="!has(pod.spec.schedulingGates) && !has(pod.metadata.annotations)"),
        ),
        ([NODES], "batch"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_decisions(name: str) -> None:
    attempt, want = CASES[name]
    answer = attempt()
    said = shown(answer)
    if isinstance(want, str) and want.startswith("a correction"):
        assert isinstance(said, str)
        assert said.startswith("a correction of PlacementRule batch, which fails for this Pod: ")
    else:
        assert said == want


def test_a_pod_that_costs_too_much_waits_in_the_controllers_too() -> None:
    """What the author of a Pod writes must not free it from a rule."""
    many = POD.claims(*(f"c{index}" for index in range(2000)))
    answer = decided(many, rule(expression=WANTS_GPU))
    assert isinstance(answer, Hold)
    assert answer.subject == "PackageTooLarge (PlacementRule batch)"


def test_what_is_known_is_the_release_at_max_hold() -> None:
    answer = decided(POD.claims("mine"), rule(), rule("gpu", WANTS_GPU))
    assert isinstance(answer, Hold)
    assert answer.otherwise.mutation == Mutation(required=(NODES,), annotations={"tollbar.dev/placement": "batch"})


def test_a_rule_is_compiled_again_only_when_its_spec_changes() -> None:
    gate = PlacementGate()

    def ask(each: Object) -> Answer:
        found = {"placement rules": [each], "classes": [], "claims": [], "templates": []}
        return gate.decide(Facts(POD, namespace(), at_admission=False, objects=found))

    first = rule()
    ask(first)
    compiled = gate._compiled["batch"][1]
    ask({**first, "status": {"observedGeneration": 1}})
    assert gate._compiled["batch"][1] is compiled
    assert shown(ask(rule(expression="false"))) == []
    gate.decide(
        Facts(
            POD,
            namespace(),
            at_admission=False,
            objects=dict.fromkeys(("placement rules", "classes", "claims", "templates"), ()),
        )
    )
    assert gate._compiled == {}


def test_it_is_enabled_by_its_name() -> None:
    assert [each.name for each in enabled(["placement"])] == ["tollbar.dev/placement"]


ERRORS: dict[str, tuple[Object, list[str]]] = {
    "valid": (rule(preferred=[FAST]), []),
    "an expression that does not compile": (
        rule(expression="pod.metadat.name == ''"),
        ["spec.match.cel.expression: Invalid value: "],
    ),
    "nothing to place by": (rule(required=None), ["spec: Required value: at least one of required and preferred"]),
    "In without values": (
        rule(required=[{"key": "a", "operator": "In"}]),
        ["spec.required[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    "Exists with a value": (
        rule(required=[{"key": "a", "operator": "Exists", "values": ["b"]}]),
        ["spec.required[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    "a bound that is no number": (
        rule(required=[{"key": "a", "operator": "Gt", "values": ["many"]}]),
        ['spec.required[0].values[0]: Invalid value: "many": must be one integer'],
    ),
    "two bounds": (
        rule(required=[{"key": "a", "operator": "Lt", "values": ["1", "2"]}]),
        ["spec.required[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"],
    ),
    "a key that no label has": (
        rule(required=[{"key": "a b", "operator": "Exists"}]),
        ['spec.required[0].key: Invalid value: "a b"'],
    ),
    "a value that no label has": (
        rule(required=[{**NODES, "values": ["a b"]}]),
        ['spec.required[0].values[0]: Invalid value: "a b"'],
    ),
    "in a preference": (
        rule(preferred=[{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
        ["spec.preferred[0].preference.matchExpressions[0].values: Required value"],
    ),
    "a weight of nothing": (rule(preferred=[{**FAST, "weight": 0}]), ["spec.preferred[0].weight: Invalid value: 0"]),
    "another part of the Pod": (
        rule(podAffinity={}),
        ["spec.podAffinity: Forbidden: unknown field"],
    ),
    "a field of the Node": (
        rule(preferred=[{"weight": 1, "preference": {"matchFields": [], **FAST["preference"]}}]),
        ["spec.preferred[0].preference.matchFields: Forbidden: unknown field"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_refused(name: str) -> None:
    obj, want = ERRORS[name]
    found = [str(each) for each in placement_errors(obj, engine())]
    assert len(found) == len(want), found
    assert all(text.startswith(begins) for text, begins in zip(found, want, strict=True)), found


def test_an_expression_is_refused_with_line_and_column() -> None:
    (found,) = placement_errors(rule(expression="has(pod.metadata.labels) &&\n  pod.metadat.name == ''"), engine())
    assert str(found).endswith(": 2:7: undefined field 'metadat' in Pod; did you mean 'metadata'?")


def test_what_always_fails_is_told_to_the_author() -> None:
    (found,) = placement_warnings(rule(expression=f"{BATCH} && 1 / 0 == 1"), engine())
    assert "always fails" in str(found)
    assert placement_warnings(rule(), engine()) == []


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (rule(), ("True", "Compiled")),
        (rule(mode="Disabled"), ("True", "Disabled")),
        (rule(expression="nope"), ("False", "InvalidExpression")),
        (rule(required=[]), ("False", "InvalidSpec")),
    ],
    ids=["in force", "switched off", "an expression that does not compile", "an invalid spec"],
)
def test_status(obj: Object, want: tuple[str, str]) -> None:
    plan = rulestatus.of_placement(obj, compile_placement(obj, engine()), None, 0.0)
    assert plan.status is not None
    (condition,) = plan.status["conditions"]
    assert (condition["status"], condition["reason"]) == want
    assert [event.reason for event in plan.events] == (["InvalidRule"] if want[0] == "False" else [])


def test_not_mine_without_rules() -> None:
    assert decided(POD) == NotMine()
