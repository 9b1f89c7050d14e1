"""The CustomResourceDefinitions on a real API server: accepted, clear about mistakes, one mind with the parsers."""

import itertools
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tollbar.api import crds
from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.devplane.real.kubectl import Kubectl, KubectlError
from tollbar.model import tolerations
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Invalid
from tollbar.runtime.resources import PODS, RESOURCE_SLICES, SCHEDULING_GATES, TOLERATION_RULES

GPU = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
CEL = {"type": "CEL", "cel": {"expression": "true"}}
NOT_CHECKED = "some validation rules were not checked because the object was invalid"


@pytest.fixture(scope="module", autouse=True)
def definitions(plane: Any) -> Iterator[None]:
    """Our CRDs, for this file only, unless somebody else put them there before."""
    kubectl: Kubectl = plane.kubectl
    wanted = crds.all_crds()
    names = [f"crd/{crd['metadata']['name']}" for crd in wanted]
    there = set(kubectl("get", "--ignore-not-found", "-o", "name", *names).split())
    kubectl.apply(*wanted)
    kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    yield
    if not there:
        kubectl("delete", "--wait", *names)


def rule(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "TolerationRule",
        "metadata": {"name": "tried"},
        "spec": {"match": CEL, "tolerations": [GPU], **spec},
    }


def gate(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "SchedulingGate",
        "metadata": {"name": "tried"},
        "spec": {"gateName": "example.com/tried", **spec},
    }


def names(*values: str) -> dict[str, Any]:
    return {"type": "ExtendedResource", "extendedResource": {"names": list(values)}}


def prototype(**members: Any) -> dict[str, Any]:
    return {"type": "Device", "device": {"prototypes": [{"driver": "gpu.example.com", **members}]}}


QUALIFIED = (
    "must be a qualified name: an optional DNS subdomain and '/', then at most 63 alphanumeric characters, '-', '_'"
    " or '.'"
)
HOLD = "must be a duration longer than 0s, such as 60s or 1m30s; leave it out for no deadline"
PROTOTYPE = "spec.match.device.prototypes[0]"

REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
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
async def test_refused(admin: Client, given: dict[str, Any], want: list[str]) -> None:
    """By the API server with these words, and by our parser, too."""
    with pytest.raises(Invalid) as refused:
        await dry_run(admin, given)
    said = [
        f"{cause['field']}: {cause['message']}" for cause in refused.value.causes if NOT_CHECKED not in cause["message"]
    ]
    assert (said, isinstance(parse(given), list)) == (want, True)


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
    "a foreign gate": gate(),
    "a gate of ours": gate(gateName="tollbar.dev/x", owners=["a", "b"], maxHold="1m30.5s", onExpiry="Release"),
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED)
async def test_accepted_and_defaulted_like_our_types_do(admin: Client, given: dict[str, Any]) -> None:
    stored = await dry_run(admin, given)
    parsed, again = parse(given), parse(stored)
    assert isinstance(parsed, TolerationRule | SchedulingGate)
    assert isinstance(again, TolerationRule | SchedulingGate)
    assert parsed.spec == again.spec


async def test_an_unknown_field_is_refused_by_strict_clients(admin: Client) -> None:
    with pytest.raises(ApiError, match=r'strict decoding error: unknown field "spec\.toleration"'):
        await dry_run(admin, rule(toleration=[]))


def test_kubectl_shows_our_columns_and_finds_by_mode_and_match(kubectl: Kubectl) -> None:
    kubectl.apply(rule(mode="Audit"), gate(gateName="tollbar.dev/tried", maxHold="60s", onExpiry="Release"))
    try:
        kubectl(
            "patch", "tolrule/tried", "--subresource=status", "--type=merge", "-p", '{"status":{"pendingMatches":3}}'
        )
        shown = [line.split()[:-1] for line in kubectl("get", "tollbar").splitlines() if line]
        found = kubectl("get", "tolrule", "-o", "name", "--field-selector=spec.mode=Audit,spec.match.type=CEL")
        other = kubectl("get", "tolrule", "-o", "name", "--field-selector=spec.mode=Enforce")
    finally:
        kubectl("delete", "tolrule/tried", "sgate/tried")
    assert (shown, found, other) == (
        [
            ["NAME", "GATE", "MAXHOLD", "HELD", "OLDEST"],
            ["schedulinggate.tollbar.dev/tried", "tollbar.dev/tried", "60s"],
            ["NAME", "MODE", "MATCH", "READY", "PENDING"],
            ["tolerationrule.tollbar.dev/tried", "Audit", "CEL", "3"],
        ],
        "tolerationrule.tollbar.dev/tried\n",
        "",
    )


def test_a_gates_name_stays(kubectl: Kubectl) -> None:
    kubectl.apply(gate())
    try:
        with pytest.raises(
            KubectlError, match=r'spec\.gateName: Invalid value: "example\.com/other": field is immutable'
        ):
            kubectl.apply(gate(gateName="example.com/other"))
    finally:
        kubectl("delete", "sgate/tried")


async def test_tolerations_are_refused_in_the_api_servers_words(admin: Client, namespace: str) -> None:
    """Every combination of good and bad fields in one Pod: the same causes, but for the operators behind a gate."""
    every: list[dict[str, Any]] = [
        {name: value for name, value in zip(FIELDS, values, strict=True) if value is not None}
        for values in itertools.product(*FIELDS.values())
    ]
    ours = [
        (error.field, error.message, error.cause)
        for index, toleration in enumerate(every)
        for error in tolerations.validate(toleration, path=f"spec.tolerations[{index}]")
    ]
    with pytest.raises(Invalid) as refused:
        await admin.create(PODS, pod(namespace, every), namespace)
    theirs = [(cause["field"], cause["message"], cause["reason"]) for cause in refused.value.causes]
    assert sorted(theirs) == sorted(ours)


FIELDS: dict[str, list[Any]] = {
    "key": [None, "", "example.com/gpu", "a b", "/a", "a/b/c", "x" * 64],
    "operator": [None, "Equal", "Exists", "In"],
    "value": [None, "a", "a b", "v" * 64],
    "effect": [None, "NoSchedule", "NoExecute", "Never"],
    "tolerationSeconds": [None, 0],
}


def pod(namespace: str, wanted: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "none"}], "tolerations": wanted},
    }


PROTOTYPES = {
    "every type of value": {"attributes": {"a": {"string": "x"}, "b": {"int": 1}, "c": {"bool": True}}},
    "a version": {"attributes": {"a": {"version": "1.2.3-rc.1"}}},
    "a short version": {"attributes": {"a": {"version": "1.2"}}},
    "a version with a leading zero": {"attributes": {"a": {"version": "1.02.3"}}},
    "two values": {"attributes": {"a": {"string": "x", "int": 1}}},
    "no value": {"attributes": {"a": {}}},
    "a long value": {"attributes": {"a": {"string": "x" * 64}}},
    "a longer value": {"attributes": {"a": {"string": "x" * 65}}},
    "a domain": {"attributes": {"other.example.com/a": {"string": "x"}}},
    "an empty domain": {"attributes": {"/a": {"string": "x"}}},
    "a domain in capitals": {"attributes": {"Other.example.com/a": {"string": "x"}}},
    "a name with a dash": {"attributes": {"a-b": {"string": "x"}}},
    "a long name": {"attributes": {"a" * 32: {"string": "x"}}},
    "a longer name": {"attributes": {"a" * 33: {"string": "x"}}},
    "capacities": {"capacity": {"memory": {"value": "80Gi"}, "other.example.com/slots": {"value": "4"}}},
    "a capacity in words": {"capacity": {"memory": {"value": "much"}}},
}


@pytest.mark.parametrize("given", PROTOTYPES.values(), ids=PROTOTYPES)
async def test_a_prototype_is_what_a_driver_could_publish(admin: Client, given: dict[str, Any]) -> None:
    slice_ = {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"name": "tried"},
        "spec": {
            "driver": "gpu.example.com",
            "allNodes": True,
            "pool": {"name": "tried", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "device-0", **given}],
        },
    }
    published = await is_accepted(admin, slice_, RESOURCE_SLICES.path())
    tried = rule(match=prototype(**given))
    accepted = await is_accepted(admin, tried, TOLERATION_RULES.path())
    assert (accepted, isinstance(parse_rule(tried), TolerationRule)) == (published, published)


def parse(obj: dict[str, Any]) -> Any:
    return (parse_rule if obj["kind"] == "TolerationRule" else parse_gate)(obj)


async def dry_run(admin: Client, obj: dict[str, Any]) -> Any:
    resource = TOLERATION_RULES if obj["kind"] == "TolerationRule" else SCHEDULING_GATES
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return orjson.loads(await admin.raw("POST", resource.path(), orjson.dumps(obj), query=query))


async def is_accepted(admin: Client, obj: dict[str, Any], path: str) -> bool:
    try:
        await admin.raw("POST", path, orjson.dumps(obj), query={"dryRun": "All"})
    except ApiError:
        return False
    return True
