"""The CustomResourceDefinitions: structural, described, bounded."""

from collections.abc import Iterator
from typing import Any

import pytest

from tollbar.api import crds

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crds.all_crds()}


def schemas(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield from schemas(node[keyword], f"{path}[]")


def schema(kind: str) -> dict[str, Any]:
    return CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


def test_names() -> None:
    assert {kind: crd["spec"]["names"] for kind, crd in CRDS.items()} == {
        "TolerationRule": {
            "plural": "tolerationrules",
            "singular": "tolerationrule",
            "kind": "TolerationRule",
            "listKind": "TolerationRuleList",
            "shortNames": ["tolrule"],
            "categories": ["tollbar"],
        },
        "PlacementRule": {
            "plural": "placementrules",
            "singular": "placementrule",
            "kind": "PlacementRule",
            "listKind": "PlacementRuleList",
            "shortNames": ["placerule"],
            "categories": ["tollbar"],
        },
        "SchedulingGate": {
            "plural": "schedulinggates",
            "singular": "schedulinggate",
            "kind": "SchedulingGate",
            "listKind": "SchedulingGateList",
            "shortNames": ["sgate"],
            "categories": ["tollbar"],
        },
        "WorkloadClaim": {
            "plural": "workloadclaims",
            "singular": "workloadclaim",
            "kind": "WorkloadClaim",
            "listKind": "WorkloadClaimList",
            "shortNames": ["wlclaim"],
            "categories": ["tollbar"],
        },
        "PodQuota": {
            "plural": "podquotas",
            "singular": "podquota",
            "kind": "PodQuota",
            "listKind": "PodQuotaList",
            "shortNames": ["pquota"],
            "categories": ["tollbar"],
        },
    }


def test_only_workload_claims_belong_to_a_namespace() -> None:
    scopes = {kind: crd["spec"]["scope"] for kind, crd in CRDS.items()}
    assert scopes == {
        "TolerationRule": "Cluster",
        "PlacementRule": "Cluster",
        "SchedulingGate": "Cluster",
        "WorkloadClaim": "Namespaced",
        "PodQuota": "Cluster",
    }


def test_columns_show_what_the_status_has() -> None:
    columns = {
        kind: {column["name"]: column["jsonPath"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]}
        for kind, crd in CRDS.items()
    }
    assert columns == {
        "TolerationRule": {
            "Mode": ".spec.mode",
            "Match": ".spec.match.type",
            "Ready": '.status.conditions[?(@.type=="Ready")].status',
            "Pending": ".status.pendingMatches",
            "LastMatch": ".status.lastMatch.time",
            "Age": ".metadata.creationTimestamp",
        },
        "PlacementRule": {
            "Mode": ".spec.mode",
            "Match": ".spec.match.type",
            "Ready": '.status.conditions[?(@.type=="Ready")].status',
            "Age": ".metadata.creationTimestamp",
        },
        "SchedulingGate": {
            "Gate": ".spec.gateName",
            "MaxHold": ".spec.maxHold",
            "Ready": '.status.conditions[?(@.type=="Ready")].status',
            "Held": ".status.heldPods",
            "Oldest": ".status.oldestHeldSeconds",
            "Overdue": ".status.overdue",
            "Age": ".metadata.creationTimestamp",
        },
        "WorkloadClaim": {
            "Resource": ".spec.workloadRef.resource",
            "Workload": ".spec.workloadRef.name",
            "Claim": ".status.resourceClaimName",
            "Phase": ".status.phase",
            "Reason": '.status.conditions[?(@.type=="Reserved")].reason',
            "Consumers": ".status.consumers",
            "Age": ".metadata.creationTimestamp",
        },
        "PodQuota": {
            "Sharing": ".spec.sharing",
            "Ready": '.status.conditions[?(@.type=="Ready")].status',
            "Running": ".status.running",
            "Waiting": ".status.waiting",
            "Age": ".metadata.creationTimestamp",
        },
    }


@pytest.mark.parametrize("kind", CRDS)
def test_every_schema_has_one_type(kind: str) -> None:
    untyped = [
        path
        for path, node in schemas(schema(kind))
        if "type" not in node and not node.get("x-kubernetes-int-or-string")
    ]
    assert untyped == []


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_is_described(kind: str) -> None:
    bare = [
        f"{path}.{name}"
        for path, node in schemas(schema(kind))
        for name, child in node.get("properties", {}).items()
        if not child.get("description") and name != "metadata"
    ]
    assert bare == []


BOUNDS = {"array": "maxItems", "string": "maxLength", "map": "maxProperties"}


@pytest.mark.parametrize("kind", CRDS)
def test_every_list_map_and_text_is_bounded(kind: str) -> None:
    """The API server estimates the cost of CEL rules from these bounds, and refuses the CRD without them."""
    unbounded = [
        path
        for path, node in schemas(schema(kind)["properties"]["spec"])
        if (bound := BOUNDS.get("map" if "additionalProperties" in node else node.get("type", "")))
        and not {bound, "enum"} & set(node)
    ]
    assert unbounded == []


@pytest.mark.parametrize("kind", CRDS)
def test_every_list_says_how_it_merges(kind: str) -> None:
    silent = [
        path
        for path, node in schemas(schema(kind))
        if node.get("type") == "array" and "x-kubernetes-list-type" not in node
    ]
    assert silent == []
