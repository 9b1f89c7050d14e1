"""Our kinds on a real API server: what kubectl shows of them, and that our validation is of one mind with the server's.

What the server refuses of our kinds, and in which words, is in tests/contract/test_rules.py.
"""

import itertools
from typing import Any

import pytest
from integration.dryrun import is_accepted

from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.devplane.kubectl import Kubectl
from tollbar.model import tolerations
from tollbar.model.resources import PODS, RESOURCE_SLICES, TOLERATION_RULES
from tollbar.runtime.client import Client
from tollbar.runtime.errors import Invalid

GPU = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
CEL = {"type": "CEL", "cel": {"expression": "true"}}

pytestmark = pytest.mark.usefixtures("definitions")


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Our words are compared with the API server's own; what the definitions refuse is in the contract suite."""
    return real_plane


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


def prototype(**members: Any) -> dict[str, Any]:
    return {"type": "Device", "device": {"prototypes": [{"driver": "gpu.example.com", **members}]}}


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
            ["NAME", "GATE", "MAXHOLD", "READY", "HELD", "OLDEST", "OVERDUE"],
            ["schedulinggate.tollbar.dev/tried", "tollbar.dev/tried", "60s"],
            ["NAME", "MODE", "MATCH", "READY", "PENDING", "LASTMATCH"],
            ["tolerationrule.tollbar.dev/tried", "Audit", "CEL", "3"],
        ],
        "tolerationrule.tollbar.dev/tried\n",
        "",
    )


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
    published = await is_accepted(admin, RESOURCE_SLICES.path(), slice_)
    tried = rule(match=prototype(**given))
    accepted = await is_accepted(admin, TOLERATION_RULES.path(), tried)
    assert (accepted, isinstance(parse_rule(tried), TolerationRule)) == (published, published)
