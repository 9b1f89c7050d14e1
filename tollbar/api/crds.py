"""The CustomResourceDefinitions of group tollbar.dev, from the types.

`manifests/base/crds` is generated from here, and `tollbar dev` applies the same values.
"""

from tollbar import wellknown
from tollbar.api.base import ApiType
from tollbar.api.schema import structural
from tollbar.api.types import SchedulingGate, TolerationRule
from tollbar.api.workloads import WorkloadClaim
from tollbar.model.objects import Object


def all_crds() -> list[Object]:
    return [toleration_rules(), scheduling_gates(), workload_claims()]


def toleration_rules() -> Object:
    return _crd(
        TolerationRule,
        plural="tolerationrules",
        short_name="tolrule",
        columns=[
            _column("Mode", "string", ".spec.mode"),
            _column("Match", "string", ".spec.match.type"),
            _column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
            _column("Pending", "integer", ".status.pendingMatches"),
            _column("Age", "date", ".metadata.creationTimestamp"),
        ],
        selectable=[".spec.mode", ".spec.match.type"],
    )


def scheduling_gates() -> Object:
    return _crd(
        SchedulingGate,
        plural="schedulinggates",
        short_name="sgate",
        columns=[
            _column("Gate", "string", ".spec.gateName"),
            _column("MaxHold", "string", ".spec.maxHold"),
            _column("Held", "integer", ".status.heldPods"),
            _column("Oldest", "integer", ".status.oldestHeldSeconds"),
            _column("Age", "date", ".metadata.creationTimestamp"),
        ],
        selectable=[".spec.gateName"],
    )


def workload_claims() -> Object:
    return _crd(
        WorkloadClaim,
        plural="workloadclaims",
        short_name="wlclaim",
        columns=[
            _column("Resource", "string", ".spec.workloadRef.resource"),
            _column("Workload", "string", ".spec.workloadRef.name"),
            _column("Claim", "string", ".status.resourceClaimName"),
            _column("Phase", "string", ".status.phase"),
            _column("Reason", "string", '.status.conditions[?(@.type=="Reserved")].reason'),
            _column("Consumers", "integer", ".status.consumers"),
            _column("Age", "date", ".metadata.creationTimestamp"),
        ],
        selectable=[".spec.workloadRef.name", ".status.phase"],
        scope="Namespaced",
    )


def _column(name: str, type_: str, path: str) -> Object:
    return {"name": name, "type": type_, "jsonPath": path}


def _crd(
    model: type[ApiType],
    *,
    plural: str,
    short_name: str,
    columns: list[Object],
    selectable: list[str],
    scope: str = "Cluster",
) -> Object:
    kind = model.__name__
    version: Object = {
        "name": wellknown.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": path} for path in selectable],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": structural(model)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{wellknown.GROUP}", "labels": {"app.kubernetes.io/name": "tollbar"}},
        "spec": {
            "group": wellknown.GROUP,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
                "shortNames": [short_name],
                "categories": ["tollbar"],
            },
            "versions": [version],
        },
    }
