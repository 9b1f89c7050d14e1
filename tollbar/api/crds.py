"""The CustomResourceDefinitions of group tollbar.dev, from the types.

`manifests/base/crds` is generated from here, and `tollbar dev` applies the same values.
"""

from collections.abc import Sequence
from typing import Final

from tollbar.api.base import ApiType
from tollbar.api.gates import SchedulingGate
from tollbar.api.placements import PlacementRule
from tollbar.api.quotas import PodQuota
from tollbar.api.rules import TolerationRule
from tollbar.api.schema import structural
from tollbar.api.workloads import WorkloadClaim
from tollbar.model.objects import Object
from tollbar.model.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PLACEMENT_RULES,
    POD_QUOTAS,
    SCHEDULING_GATES,
    TOLERATION_RULES,
    WORKLOAD_CLAIMS,
    Resource,
)

_READY: Final = ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')
"""The column with the status of the condition Ready."""


def all_crds() -> list[Object]:
    """The CustomResourceDefinitions of all kinds, as they are applied."""
    return [
        _crd(
            TolerationRule,
            TOLERATION_RULES,
            short_name="tolrule",
            columns=(
                ("Mode", "string", ".spec.mode"),
                ("Match", "string", ".spec.match.type"),
                _READY,
                ("Pending", "integer", ".status.pendingMatches"),
                ("LastMatch", "date", ".status.lastMatch.time"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ),
            selectable=(".spec.mode", ".spec.match.type"),
        ),
        _crd(
            PlacementRule,
            PLACEMENT_RULES,
            short_name="placerule",
            columns=(
                ("Mode", "string", ".spec.mode"),
                ("Match", "string", ".spec.match.type"),
                _READY,
                ("Age", "date", ".metadata.creationTimestamp"),
            ),
            selectable=(".spec.mode", ".spec.match.type"),
        ),
        _crd(
            SchedulingGate,
            SCHEDULING_GATES,
            short_name="sgate",
            columns=(
                ("Gate", "string", ".spec.gateName"),
                ("MaxHold", "string", ".spec.maxHold"),
                _READY,
                ("Held", "integer", ".status.heldPods"),
                ("Oldest", "integer", ".status.oldestHeldSeconds"),
                ("Overdue", "integer", ".status.overdue"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ),
            selectable=(".spec.gateName",),
        ),
        _crd(
            WorkloadClaim,
            WORKLOAD_CLAIMS,
            short_name="wlclaim",
            columns=(
                ("Resource", "string", ".spec.workloadRef.resource"),
                ("Workload", "string", ".spec.workloadRef.name"),
                ("Claim", "string", ".status.resourceClaimName"),
                ("Phase", "string", ".status.phase"),
                ("Reason", "string", '.status.conditions[?(@.type=="Reserved")].reason'),
                ("Consumers", "integer", ".status.consumers"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ),
            selectable=(".spec.workloadRef.name", ".status.phase"),
        ),
        _crd(
            PodQuota,
            POD_QUOTAS,
            short_name="pquota",
            columns=(
                ("Sharing", "string", ".spec.sharing"),
                _READY,
                ("Running", "integer", ".status.running"),
                ("Waiting", "integer", ".status.waiting"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ),
            selectable=(".spec.sharing",),
        ),
    ]


def _crd(
    model: type[ApiType],
    served: Resource,
    *,
    short_name: str,
    columns: Sequence[tuple[str, str, str]],
    selectable: Sequence[str],
) -> Object:
    """`columns` are those of `kubectl get`, as (name, type, JSON path)."""
    version: Object = {
        "name": served.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [{"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns],
        "selectableFields": [{"jsonPath": path} for path in selectable],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": structural(model)},
    }
    return {
        **CUSTOM_RESOURCE_DEFINITIONS.type_meta,
        "metadata": {
            "name": f"{served.plural}.{served.group}",
            "labels": {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "crds"},
        },
        "spec": {
            "group": served.group,
            "scope": "Namespaced" if served.namespaced else "Cluster",
            "names": {
                "plural": served.plural,
                "singular": served.kind.lower(),
                "kind": served.kind,
                "listKind": f"{served.kind}List",
                "shortNames": [short_name],
                "categories": ["tollbar"],
            },
            "versions": [version],
        },
    }
