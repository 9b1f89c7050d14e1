"""Tollbar's own kinds: what the API server refuses and in which words, and that our parsers are of the same mind."""

from collections.abc import Iterator
from typing import Any

import pytest
from contract.api import Api, told
from contract.definitions import established
from contract.objects import GPU, made, put
from contract.tables import Rows, invalid, last, rows, wrong

from tollbar.api import crds
from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.model.objects import Object
from tollbar.model.resources import SCHEDULING_GATES, TOLERATION_RULES
from tollbar.runtime.client import PatchType

CEL = {"type": "CEL", "cel": {"expression": "true"}}
NOT_CHECKED = "some validation rules were not checked because the object was invalid"


@pytest.fixture(scope="module", autouse=True)
def definitions(home: Api) -> Iterator[None]:
    with established(home, *crds.all_crds()):
        yield


def rule(**spec: Any) -> Object:
    return made(TOLERATION_RULES, "tried", spec={"match": CEL, "tolerations": [GPU], **spec})


def gate(**spec: Any) -> Object:
    return made(SCHEDULING_GATES, "tried", spec={"gateName": "example.com/tried", **spec})


def parse(obj: Object) -> Any:
    return (parse_rule if obj["kind"] == TOLERATION_RULES.kind else parse_gate)(obj)


def names(*values: str) -> Object:
    return {"type": "ExtendedResource", "extendedResource": {"names": list(values)}}


def prototype(**members: Any) -> Object:
    return {"type": "Device", "device": {"prototypes": [{"driver": "gpu.example.com", **members}]}}


QUALIFIED = (
    "must be a qualified name: an optional DNS subdomain and '/', then at most 63 alphanumeric characters, '-', '_'"
    " or '.'"
)
HOLD = "must be a duration longer than 0s, such as 60s or 1m30s"
PROTOTYPE = "spec.match.device.prototypes[0]"

REFUSED: dict[str, tuple[Object, list[str]]] = {
    "no match": (rule(match=None), ["spec.match: Required value"]),
    "no type": (rule(match={}), ["spec.match.type: Required value"]),
    "no tolerations": (
        rule(tolerations=[]),
        ["spec.tolerations: Invalid value: 0: spec.tolerations in body should have at least 1 items"],
    ),
    "Off, read as a boolean": (
        rule(mode=False),
        [
            'spec.mode: Invalid value: "boolean": spec.mode in body must be of type string: "boolean"',
            'spec.mode: Unsupported value: false: supported values: "Enforce", "Audit", "Disabled"',
        ],
    ),
    "the member is missing": (
        rule(match={"type": "Device"}),
        ["spec.match.device: Invalid value: match.device must be set exactly when match.type is Device"],
    ),
    "another member is set": (
        rule(match={**names("example.com/gpu"), "cel": {"expression": "true"}}),
        ["spec.match.cel: Invalid value: match.cel must be set exactly when match.type is CEL"],
    ),
    "an empty expression": (
        rule(match={"type": "CEL", "cel": {"expression": ""}}),
        [
            (
                'spec.match.cel.expression: Invalid value: "": spec.match.cel.expression in body should be at least 1'
                " chars long"
            )
        ],
    ),
    "a resource without a domain": (
        rule(match=names("cpu")),
        [
            (
                'spec.match.extendedResource.names[0]: Invalid value: "cpu": must be the name of an extended resource,'
                " such as example.com/gpu"
            )
        ],
    ),
    "a resource twice": (
        rule(match=names("example.com/a", "example.com/a")),
        ['spec.match.extendedResource.names[1]: Duplicate value: "example.com/a"'],
    ),
    "a driver that is no domain": (
        rule(match={"type": "Device", "device": {"prototypes": [{"driver": "GPU_x"}]}}),
        [
            (
                f'{PROTOTYPE}.driver: Invalid value: "GPU_x": must be a DNS subdomain: alphanumeric'
                " characters, '-' or '.'"
            )
        ],
    ),
    "an attribute of two types": (
        rule(match=prototype(attributes={"model": {"string": "a", "int": 1}})),
        [f"{PROTOTYPE}.attributes[model]: Invalid value: exactly one value must be specified"],
    ),
    "a version that is none": (
        rule(match=prototype(attributes={"model": {"version": "1.4"}})),
        [
            (
                f'{PROTOTYPE}.attributes[model].version: Invalid value: "1.4": must be a string compatible with'
                " semver.org spec 2.0.0"
            )
        ],
    ),
    "an attribute's name that no driver can use": (
        rule(match=prototype(attributes={"gpu model": {"string": "a"}})),
        [
            (
                f"{PROTOTYPE}.attributes: Invalid value: must be a C identifier, optionally after a domain and a slash,"
                " such as gpu.example.com/model"
            )
        ],
    ),
    "In without values": (
        rule(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In"}]}),
        [
            (
                "spec.namespaceSelector.matchExpressions[0].values: Invalid value: must be specified when `operator` is"
                " 'In' or 'NotIn'"
            )
        ],
    ),
    "Exists with a value": (
        rule(tolerations=[GPU, {**GPU, "value": "x"}]),
        ["spec.tolerations[1].operator: Invalid value: value must be empty when `operator` is 'Exists'"],
    ),
    "Equal without a key": (
        rule(tolerations=[{"value": "x"}], allowReservedKeys=True),
        [
            (
                "spec.tolerations[0].operator: Invalid value: operator must be Exists when `key` is empty,"
                ' which means "match all values and all keys"'
            )
        ],
    ),
    "seconds without NoExecute": (
        rule(tolerations=[{**GPU, "tolerationSeconds": 1}]),
        ["spec.tolerations[0].effect: Invalid value: effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
    "a taint key with a blank": (
        rule(tolerations=[{**GPU, "key": "a b"}]),
        [f'spec.tolerations[0].key: Invalid value: "a b": {QUALIFIED}'],
    ),
    "a taint value with a blank": (
        rule(tolerations=[{"key": "a", "value": "a b"}]),
        [
            (
                'spec.tolerations[0].value: Invalid value: "a b": must be a label value: at most 63 alphanumeric'
                " characters, '-', '_' or '.'"
            )
        ],
    ),
    "an unknown effect": (
        rule(tolerations=[{**GPU, "effect": "Never"}]),
        [
            (
                'spec.tolerations[0].effect: Unsupported value: "Never": supported values: "NoSchedule",'
                ' "PreferNoSchedule", "NoExecute"'
            )
        ],
    ),
    "a numeric operator": (
        rule(tolerations=[{**GPU, "operator": "Gt"}]),
        ['spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'],
    ),
    "a reserved key": (
        rule(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
        [
            (
                "spec.tolerations: Invalid value: node.kubernetes.io/*, node-role.kubernetes.io/* and the empty key are"
                " reserved: set allowReservedKeys to use them"
            )
        ],
    ),
    "too many tolerations": (
        rule(tolerations=[GPU] * 17),
        ["spec.tolerations: Too many: 17: must have at most 16 items"],
    ),
    "tolerations of neither Pods nor devices": (
        rule(tolerations=None),
        ["spec.tolerations: Invalid value: at least one of tolerations and deviceTolerations must be set"],
    ),
    "no tolerations of devices": (
        rule(deviceTolerations=[]),
        ["spec.deviceTolerations: Invalid value: 0: spec.deviceTolerations in body should have at least 1 items"],
    ),
    "too many tolerations of devices": (
        rule(deviceTolerations=[GPU] * 17),
        ["spec.deviceTolerations: Too many: 17: must have at most 16 items"],
    ),
    "an effect that taints of devices do not have": (
        rule(deviceTolerations=[{**GPU, "effect": "PreferNoSchedule"}]),
        [
            (
                'spec.deviceTolerations[0].effect: Unsupported value: "PreferNoSchedule": supported values:'
                ' "NoSchedule", "NoExecute"'
            ),
        ],
    ),
    "a toleration of devices with a value and Exists": (
        rule(deviceTolerations=[{**GPU, "value": "x"}]),
        ["spec.deviceTolerations[0].operator: Invalid value: value must be empty when `operator` is 'Exists'"],
    ),
    "a toleration of every device": (
        rule(tolerations=None, deviceTolerations=[{"operator": "Exists"}]),
        [
            (
                "spec.deviceTolerations: Invalid value: node.kubernetes.io/*, node-role.kubernetes.io/* and the empty"
                " key are reserved: set allowReservedKeys to use them"
            )
        ],
    ),
    "tolerations of devices by extended resources": (
        rule(match=names("example.com/gpu"), deviceTolerations=[GPU]),
        [
            (
                "spec.deviceTolerations: Invalid value: match.type ExtendedResource is about containers: for"
                " deviceTolerations use CEL or Device"
            )
        ],
    ),
    "a gate without a name": (gate(gateName=None), ["spec.gateName: Required value"]),
    "a gate's name with two slashes": (
        gate(gateName="a/b/c"),
        [f'spec.gateName: Invalid value: "a/b/c": {QUALIFIED}'],
    ),
    "a hold in words": (gate(maxHold="1 minute"), [f'spec.maxHold: Invalid value: "1 minute": {HOLD}']),
    "a hold of nothing": (gate(maxHold="0s"), [f'spec.maxHold: Invalid value: "0s": {HOLD}']),
    "a hold in bare seconds": (
        gate(maxHold=60),
        ['spec.maxHold: Invalid value: "integer": spec.maxHold in body must be of type string: "integer"'],
    ),
    "release without a deadline": (
        gate(gateName="tollbar.dev/x", onExpiry="Release"),
        ["spec.onExpiry: Invalid value: onExpiry Release needs maxHold"],
    ),
    "release of somebody else's gate": (
        gate(maxHold="1h", onExpiry="Release"),
        [
            (
                "spec.onExpiry: Invalid value: onExpiry Release is for gates of tollbar.dev only: gates of others are"
                " reported"
            )
        ],
    ),
    "an owner twice": (gate(owners=["a", "a"]), ['spec.owners[1]: Duplicate value: "a"']),
}


@pytest.mark.parametrize(("given", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(api: Api, given: Object, want: list[str]) -> None:
    """By the API server with these words, and by our parser, too."""
    refusal = api.create(given, fieldValidation="Strict").refusal()
    said = [f"{field}: {text}" for _, field, text in refusal.causes if NOT_CHECKED not in text]
    assert (said, refusal.code, isinstance(parse(given), list)) == (want, 422, True)


ACCEPTED = {
    "a rule by expression": rule(),
    "a rule by resource": rule(match=names("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu.example.com")),
    "a rule by device": rule(
        match=prototype(
            attributes={
                "model": {"string": "a100"},
                "cores": {"int": 8},
                "other.example.com/shared": {"bool": False},
                "driverVersion": {"version": "1.4.0-rc.1+build"},
            },
            capacity={"memory": {"value": "80Gi"}, "slots": {"value": 4}},
        )
    ),
    "every field": rule(
        mode="Audit",
        whenAlternatives="First",
        namespaceSelector={
            "matchLabels": {"example.com/team": "ml"},
            "matchExpressions": [
                {"key": "env", "operator": "NotIn", "values": ["dev"]},
                {"key": "env", "operator": "Exists"},
            ],
        },
        tolerations=[
            {"operator": "Exists"},
            {"key": "a", "value": ""},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1},
        ],
        allowReservedKeys=True,
    ),
    "a rule for claims": rule(
        tolerations=None,
        deviceTolerations=[GPU, {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60}],
    ),
    "a rule for Pods and claims, and every taint": rule(
        deviceTolerations=[{"operator": "Exists"}], allowReservedKeys=True
    ),
    "a foreign gate": gate(),
    "a gate of ours": gate(gateName="tollbar.dev/x", owners=["a", "b"], maxHold="1m30.5s", onExpiry="Release"),
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_and_defaulted_like_our_types_do(api: Api, given: Object) -> None:
    stored = api.create(given, fieldValidation="Strict").accepted().object
    parsed, again = parse(given), parse(stored)
    assert isinstance(parsed, TolerationRule | SchedulingGate)
    assert isinstance(again, TolerationRule | SchedulingGate)
    assert parsed.spec == again.spec


def written(api: Api, obj: Object, body: Object) -> Any:
    """The generation after a merge patch of the status, and the status itself."""
    api.create(obj).accepted()
    res = TOLERATION_RULES if obj["kind"] == TOLERATION_RULES.kind else SCHEDULING_GATES
    answer = api.patch(res, "tried", {"status": body}, PatchType.MERGE, "status").accepted()
    return answer["metadata.generation"], answer["status"]


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
OURS: Rows = {
    "an unknown field, Strict": (
        lambda api: api.create(rule(toleration=[]), fieldValidation="Strict").refusal().message.split(": ", 1)[1],
        'strict decoding error: unknown field "spec.toleration"',
    ),
    "a gate's name stays": (
        lambda api: last(
            api.create(gate()), api.patch(SCHEDULING_GATES, "tried", [put("/spec/gateName", "example.com/other")])
        ),
        invalid(
            'SchedulingGate.tollbar.dev "tried"', wrong("spec.gateName", '"example.com/other"', "field is immutable")
        ),
    ),
    "a rule's mode and match are selected by": (
        lambda api: last(
            api.create(rule(mode="Audit")),
            (
                api.names(TOLERATION_RULES, fieldSelector="spec.mode=Audit,spec.match.type=CEL"),
                api.names(TOLERATION_RULES, fieldSelector="spec.mode=Enforce"),
            ),
        ),
        (["tried"], []),
    ),
    "a rule's defaults are selected by, too": (
        lambda api: last(api.create(rule()), api.names(TOLERATION_RULES, fieldSelector="spec.mode=Enforce")),
        ["tried"],
    ),
    "a rule's status does not count as a change": (
        lambda api: written(api, rule(), {"pendingMatches": 3, "conditions": [READY]}),
        (1, {"pendingMatches": 3, "conditions": [READY]}),
    ),
    "a rule's columns": (
        lambda api: last(
            api.create(rule()),
            [each["name"] for each in api.table(TOLERATION_RULES)["columnDefinitions"] if each["priority"] == 0],
        ),
        ["Name", "Mode", "Match", "Ready", "Pending", "LastMatch", "Age"],
    ),
    "a gate's columns": (
        lambda api: last(
            api.create(gate()),
            [each["name"] for each in api.table(SCHEDULING_GATES)["columnDefinitions"] if each["priority"] == 0],
        ),
        ["Name", "Gate", "MaxHold", "Ready", "Held", "Oldest", "Overdue", "Age"],
    ),
}


@rows(OURS)
def test_ours(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
