"""TolerationRules: parsed, or every mistake in one clear line each with the reason for the condition."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.api.selection import CelMatch, DeviceMatch, ExtendedResourceMatch
from tollbar.model.fields import FieldError

GPU = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
CEL = {"type": "CEL", "cel": {"expression": "true"}}


def rule(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "TolerationRule",
        "metadata": {"name": "gpu-nodes", "uid": "u", "generation": 3, "managedFields": [{}]},
        "spec": {"match": CEL, "tolerations": [GPU], **spec},
    }


def names(*values: str) -> dict[str, Any]:
    return {"type": "ExtendedResource", "extendedResource": {"names": list(values)}}


def prototype(**members: Any) -> dict[str, Any]:
    return {"type": "Device", "device": {"prototypes": [{"driver": "gpu.example.com", **members}]}}


def attribute(**value: Any) -> dict[str, Any]:
    return prototype(attributes={"model": value})


ERRORS: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "no object": (["rule"], [("", 'InvalidSpec Invalid value: ["rule"]: must be an object')]),
    "nothing in it": ({}, [("spec", "InvalidSpec Required value")]),
    "another kind": (
        {**rule(), "kind": "Rule"},
        [("kind", 'InvalidSpec Unsupported value: "Rule": supported values: "TolerationRule"')],
    ),
    "no match": (rule(match=None), [("spec.match", "InvalidSpec Required value")]),
    "a match without a type": (rule(match={}), [("spec.match.type", "InvalidSpec Required value")]),
    "no tolerations": (
        rule(tolerations=[]),
        [("spec.tolerations", "InvalidSpec Required value: must have at least 1 item")],
    ),
    "a misspelt field": (
        rule(toleration=[GPU]),
        [("spec.toleration", 'InvalidSpec Forbidden: unknown field; did you mean "tolerations"?')],
    ),
    "a field that resembles none": (rule(zzz=1), [("spec.zzz", "InvalidSpec Forbidden: unknown field")]),
    "a mode that YAML read as a boolean": (
        rule(mode=False),
        [
            (
                "spec.mode",
                (
                    'InvalidSpec Unsupported value: false: supported values: "Enforce", "Audit", "Disabled"'
                    " (an unquoted Off or No is a boolean in YAML)"
                ),
            )
        ],
    ),
    "an unknown mode": (
        rule(mode="Off"),
        [("spec.mode", 'InvalidSpec Unsupported value: "Off": supported values: "Enforce", "Audit", "Disabled"')],
    ),
    "the member that the type names is missing": (
        rule(match={"type": "CEL"}),
        [
            (
                "spec.match.cel",
                "InvalidExpression Required value: match.cel must be set exactly when match.type is CEL",
            )
        ],
    ),
    "a member that the type does not name": (
        rule(match={**CEL, **names("example.com/gpu"), "type": "CEL"}),
        [
            (
                "spec.match.extendedResource",
                "InvalidSpec Forbidden: match.extendedResource must be set exactly when match.type is ExtendedResource",
            )
        ],
    ),
    "an empty expression": (
        rule(match={"type": "CEL", "cel": {"expression": ""}}),
        [("spec.match.cel.expression", "InvalidExpression Required value")],
    ),
    "an expression that is too long": (
        rule(match={"type": "CEL", "cel": {"expression": "x" * 10241}}),
        [("spec.match.cel.expression", "InvalidExpression Too long: may not be more than 10240 bytes")],
    ),
    "a resource without a domain": (
        rule(match=names("cpu")),
        [
            (
                "spec.match.extendedResource.names[0]",
                'InvalidSpec Invalid value: "cpu": must be the name of an extended resource, such as example.com/gpu',
            )
        ],
    ),
    "a resource twice": (
        rule(match=names("example.com/a", "example.com/b", "example.com/a")),
        [("spec.match.extendedResource.names[2]", 'InvalidSpec Duplicate value: "example.com/a"')],
    ),
    "no prototypes": (
        rule(match={"type": "Device", "device": {"prototypes": []}}),
        [("spec.match.device.prototypes", "InvalidPrototype Required value: must have at least 1 item")],
    ),
    "a prototype without a driver": (
        rule(match={"type": "Device", "device": {"prototypes": [{}]}}),
        [("spec.match.device.prototypes[0].driver", "InvalidPrototype Required value")],
    ),
    "an attribute of two types": (
        rule(match=attribute(string="a", int=1)),
        [
            (
                "spec.match.device.prototypes[0].attributes[model]",
                'InvalidPrototype Invalid value: {"string": "a", "int": 1}: exactly one value must be specified',
            )
        ],
    ),
    "an attribute of no type": (
        rule(match=attribute()),
        [
            (
                "spec.match.device.prototypes[0].attributes[model]",
                "InvalidPrototype Invalid value: {}: exactly one value must be specified",
            )
        ],
    ),
    "an attribute of the wrong type": (
        rule(match=attribute(int="1")),
        [
            (
                "spec.match.device.prototypes[0].attributes[model].int",
                'InvalidPrototype Invalid value: "1": must be an integer',
            )
        ],
    ),
    "a version that is none": (
        rule(match=attribute(version="1.4")),
        [
            (
                "spec.match.device.prototypes[0].attributes[model].version",
                'InvalidPrototype Invalid value: "1.4": must be a string compatible with semver.org spec 2.0.0',
            )
        ],
    ),
    "an attribute's name that no driver can use": (
        rule(match=prototype(attributes={"gpu model": {"string": "a"}})),
        [
            (
                "spec.match.device.prototypes[0].attributes",
                (
                    'InvalidPrototype Invalid value: "gpu model": must be a C identifier, optionally after a domain'
                    " and a slash, such as gpu.example.com/model"
                ),
            )
        ],
    ),
    "a capacity that is no quantity": (
        rule(match=prototype(capacity={"memory": {"value": "much"}})),
        [
            (
                "spec.match.device.prototypes[0].capacity[memory].value",
                'InvalidPrototype Invalid value: "much": must be a quantity, such as 80Gi',
            )
        ],
    ),
    "a bad namespace selector": (
        rule(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In"}]}),
        [
            (
                "spec.namespaceSelector.matchExpressions[0].values",
                "InvalidSpec Required value: must be specified when `operator` is 'In' or 'NotIn'",
            )
        ],
    ),
    "a toleration that the API server refuses": (
        rule(tolerations=[GPU, {**GPU, "value": "x"}]),
        [
            (
                "spec.tolerations[1].operator",
                "InvalidSpec Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
            )
        ],
    ),
    "reserved keys": (
        rule(tolerations=[{"operator": "Exists"}, {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
        [
            (
                f"spec.tolerations[{index}].key",
                (
                    f'ReservedKey Invalid value: "{key}": node.kubernetes.io/*, node-role.kubernetes.io/* and the'
                    " empty key are reserved: set allowReservedKeys to use them"
                ),
            )
            for index, key in enumerate(["", "node.kubernetes.io/not-ready"])
        ],
    ),
    "too many tolerations": (
        rule(tolerations=[GPU] * 17),
        [("spec.tolerations", "InvalidSpec Too many: 17: must have at most 16 items")],
    ),
    "tolerations of neither Pods nor devices": (
        rule(tolerations=None),
        [
            (
                "spec.tolerations",
                "InvalidSpec Required value: at least one of tolerations and deviceTolerations must be set",
            )
        ],
    ),
    "a toleration of every device": (
        rule(deviceTolerations=[{"operator": "Exists"}]),
        [
            (
                "spec.deviceTolerations[0].key",
                (
                    'ReservedKey Invalid value: "": node.kubernetes.io/*, node-role.kubernetes.io/* and the empty key'
                    " are reserved: set allowReservedKeys to use them"
                ),
            )
        ],
    ),
    "tolerations of devices by extended resources": (
        rule(match=names("example.com/gpu"), deviceTolerations=[GPU]),
        [
            (
                "spec.deviceTolerations",
                (
                    "InvalidSpec Forbidden: match.type ExtendedResource is about containers: for deviceTolerations use"
                    " CEL or Device"
                ),
            )
        ],
    ),
    "several mistakes at once": (
        rule(mode="On", tolerations={}, match=[]),
        [
            ("spec.mode", 'InvalidSpec Unsupported value: "On": supported values: "Enforce", "Audit", "Disabled"'),
            ("spec.match", "InvalidSpec Invalid value: []: must be an object"),
            ("spec.tolerations", "InvalidSpec Invalid value: {}: must be a list"),
        ],
    ),
    "numbers beyond 64 bits": (
        rule(tolerations=[{**GPU, "effect": "NoExecute", "tolerationSeconds": 2**63}]),
        [
            (
                "spec.tolerations[0].tolerationSeconds",
                "InvalidSpec Invalid value: 9223372036854775808: must be a 64-bit integer",
            )
        ],
    ),
}


@pytest.mark.parametrize(("given", "want"), ERRORS.values(), ids=ERRORS)
def test_mistakes(given: Any, want: list[tuple[str, str]]) -> None:
    found = parse_rule(given)
    assert isinstance(found, list)
    assert [(error.field, f"{error.reason} {error.message}") for error in found] == want


def test_defaults_are_those_of_the_crd() -> None:
    found = parse_rule(rule())
    assert isinstance(found, TolerationRule)
    assert found.spec.as_object() == {
        "mode": "Enforce",
        "match": CEL,
        "whenAlternatives": "All",
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": []},
        "tolerations": [GPU],
        "deviceTolerations": [],
        "allowReservedKeys": False,
    }


def test_reserved_keys_on_request() -> None:
    wanted = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
    found = parse_rule(rule(tolerations=wanted, allowReservedKeys=True))
    assert isinstance(found, TolerationRule)
    assert [toleration.as_object() for toleration in found.spec.tolerations] == wanted


def test_each_type_has_its_member() -> None:
    matches = [
        CEL,
        names("example.com/gpu"),
        prototype(capacity={"memory": {"value": 80}, "x.io/cores": {"value": "1k"}}),
    ]
    members = [
        parsed.spec.match.member
        for match in matches
        if isinstance(parsed := parse_rule(rule(match=match)), TolerationRule)
    ]
    assert [type(member) for member in members] == [CelMatch, ExtendedResourceMatch, DeviceMatch]
    assert isinstance(members[2], DeviceMatch)
    capacity = members[2].prototypes[0].as_object()["capacity"]
    assert capacity == {
        "memory": {"value": "80"},
        "x.io/cores": {"value": "1k"},
    }


def test_metadata_and_status_do_not_matter_and_null_is_absent() -> None:
    written = rule(namespaceSelector=None, mode=None)
    found = parse_rule({**written, "status": {"nonsense": [1]}})
    assert isinstance(found, TolerationRule)
    assert (found.metadata.name, found.metadata.generation, found.spec.mode) == ("gpu-nodes", 3, "Enforce")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(
    [
        ("spec",),
        ("spec", "match"),
        ("spec", "match", "type"),
        ("spec", "match", "device"),
        ("spec", "match", "device", "prototypes"),
        ("spec", "match", "extendedResource", "names"),
        ("spec", "match", "cel"),
        ("spec", "tolerations"),
        ("spec", "namespaceSelector"),
        ("spec", "namespaceSelector", "matchExpressions"),
        ("metadata",),
        ("kind",),
    ]
)


@given(PATHS, JSON)
def test_any_json_anywhere_gives_a_rule_or_one_line_errors(path: tuple[str, ...], value: Any) -> None:
    obj = deepcopy(rule(match={**CEL, **prototype(), **names("example.com/gpu")}))
    parent = obj
    for part in path[:-1]:
        parent = parent.setdefault(part, {})
    parent[path[-1]] = value
    found = parse_rule(obj)
    assert isinstance(found, TolerationRule) or (found and all(_is_clear(error) for error in found))


def _is_clear(error: FieldError) -> bool:
    return bool(error.reason and error.message) and "\n" not in str(error) and len(error.message) < 1000


def test_a_list_of_mistakes_is_no_flood() -> None:
    found = parse_rule(rule(tolerations=["x"] * 10_000))
    assert isinstance(found, list)
    assert (len(found), str(found[0]), str(found[-1])) == (
        16,
        'spec.tolerations[0]: Invalid value: "x": must be an object',
        "Too many errors: 9985 more",
    )


def test_unknown_fields_do_not_hide_other_errors() -> None:
    tolerations = [{"key": "not a key", "operator": "Exists", "efect": "NoSchedule"}]
    found = parse_rule(rule(tolerations=tolerations, unknown=1))
    assert isinstance(found, list)
    assert [(error.field, str(error).split(": ")[1]) for error in found] == [
        ("spec.tolerations[0].efect", "Forbidden"),
        ("spec.unknown", "Forbidden"),
        ("spec.tolerations[0].key", "Invalid value"),
    ]


def test_depth_is_no_problem() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"x": deep}
    found = parse_rule(rule(namespaceSelector=deep))
    assert isinstance(found, list)
    assert [str(error) for error in found] == ["spec.namespaceSelector.x: Forbidden: unknown field"]
