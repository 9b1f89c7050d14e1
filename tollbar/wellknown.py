"""Names that users see: the API group, gate, labels, annotations, reasons.

One home for every string that reaches another process or a person.  Changing one is an API change and wants a
CHANGELOG line.
"""

from typing import Final

GROUP: Final = "tollbar.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

SYSTEM_NAMESPACE: Final = "tollbar-system"

GATE: Final = f"{GROUP}/tolerations"
"""The Pod scheduling gate (KEP-3521) that Tollbar sets and removes."""

LABEL_GATE: Final = f"{GROUP}/gate"
GATE_HELD: Final = "held"
GATE_RELEASED: Final = "released"
LABEL_SKIP: Final = f"{GROUP}/skip"
ANNOTATION_PROVENANCE: Final = f"{GROUP}/tolerations"
"""JSON record of what was added, by which rule, when: a record for people, never an input to a decision."""

ANNOTATION_RESERVED_FOR: Final = f"{GROUP}/reserved-for"
"""On a ResourceClaim: `<resource>.<group>/<name>` of the workload that keeps it."""
ANNOTATION_RELEASE: Final = f"{GROUP}/release"
"""On a ResourceClaim: when the workload lets go of it (WhenDeleted, WhenFinished, WhenIdle)."""
ANNOTATION_RESERVED_UID: Final = f"{GROUP}/reserved-uid"
"""On a ResourceClaim: the uid of the entry of `status.reservedFor` that is ours, written before the entry."""
ANNOTATION_WORKLOAD_CLAIM: Final = f"{GROUP}/workload-claim"
"""On a ResourceClaim: the name of the WorkloadClaim that wrote the two annotations about the workload."""
ANNOTATION_CLAIMS: Final = f"{GROUP}/claims"
"""On the controllers' Lease: the mode (Complement, Replace, Disabled) in which its holder looks after claims."""
ANNOTATION_CLAIMS_CONDITION: Final = f"{GROUP}/claims-condition"
"""On the controllers' Lease: a metav1.Condition as JSON, whether that mode fits the cluster."""
LABEL_AGGREGATE: Final = f"{GROUP}/aggregate-to-workloads"
"""On a ClusterRole: its rules let the controllers read one more kind of workload."""
ANNOTATION_PREFIX: Final = f"{GROUP}/"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
DELETE_PROTECTION_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""On every claim that is or may become allocated: kube-scheduler sets it, who deallocates removes it."""
CLAIMS_FIELD_MANAGER: Final = "tollbar-resourceclaim"
"""Our field manager of `status.resourceClaimStatuses`."""
FIELD_MANAGER_PREFIX: Final = "tollbar-"
"""How the field managers of our processes begin: they are called after their User-Agent where they say nothing else."""
RESERVATIONS_FIELD_MANAGER: Final = "tollbar-reservations"
"""Our field manager of entries of `status.reservedFor`: the API server's own record of which of them are ours."""
IMPLICIT_EXTENDED_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
EXTENDED_RESOURCES_CLAIM: Final = "<extended-resources>"
"""Name of the stand-in claim for extended resources that a DeviceClass backs (KEP-5004): no real object can have it."""

DEFAULT_MAX_HOLD_SECONDS: Final = 60.0

# Event reasons (events.k8s.io/v1), on Pods.
SCHEDULING_HELD: Final = "SchedulingHeld"
TOLERATIONS_ADDED: Final = "TolerationsAdded"
GATE_RELEASED_REASON: Final = "GateReleased"
GATE_OVERDUE: Final = "GateOverdue"
RELEASE_REFUSED: Final = "ReleaseRefused"
RULE_EVALUATION_FAILED: Final = "RuleEvaluationFailed"
FAILED_CLAIM_CREATION: Final = "FailedResourceClaimCreation"
RESERVATION_BLOCKED: Final = "ReservationBlocked"
# On the system namespace.
CLAIMS_NOT_REPLACED: Final = "ClaimsNotReplaced"
# On TolerationRules.
INVALID_RULE: Final = "InvalidRule"
RULE_FAILING: Final = "RuleFailing"

# Condition types and reasons of TolerationRule and SchedulingGate.
CONDITION_READY: Final = "Ready"
COMPILED: Final = "Compiled"
DISABLED: Final = "Disabled"
LATE_ONLY: Final = "LateOnly"
INVALID_EXPRESSION: Final = "InvalidExpression"
INVALID_PROTOTYPE: Final = "InvalidPrototype"
INVALID_SPEC: Final = "InvalidSpec"
RESERVED_KEY: Final = "ReservedKey"
OWNED: Final = "Owned"
OBSERVED: Final = "Observed"
NOT_AN_OWNER: Final = "NotAnOwner"

# Events on ResourceClaims.
CLAIM_RESERVED: Final = "ClaimReserved"
RESERVATION_RELEASED: Final = "ReservationReleased"
CLAIM_DEALLOCATED: Final = "ClaimDeallocated"

# Condition type and reasons of WorkloadClaim.
CONDITION_RESERVED: Final = "Reserved"
HELD: Final = "Held"
NOT_ALLOCATED: Final = "NotAllocated"
WORKLOAD_MISSING: Final = "WorkloadMissing"
KIND_UNKNOWN: Final = "KindUnknown"
FULL: Final = "Full"
RELEASED: Final = "Released"
UPSTREAM_OSCILLATION: Final = "UpstreamOscillation"
"""Also the reason of the event on any ResourceClaim of which a finished Pod's entry comes and goes (k/k#141274)."""
UPSTREAM_TOO_OLD: Final = "UpstreamTooOld"
INVALID_REFERENCE: Final = "InvalidReference"
PERMISSION_DENIED: Final = "PermissionDenied"
CLAIM_MISSING: Final = "ClaimMissing"
CLAIM_TAKEN: Final = "ClaimTaken"
TEMPLATE_MISSING: Final = "TemplateMissing"
DELETING: Final = "Deleting"

# Condition type and reasons of the mode in which claims are looked after (`ANNOTATION_CLAIMS_CONDITION`); also
# UPSTREAM_OSCILLATION, UPSTREAM_TOO_OLD and PERMISSION_DENIED.
CONDITION_CLAIMS_MODE: Final = "ClaimsModeFits"
COMPLEMENTING: Final = "Complementing"
GENERATING: Final = "Generating"
STARTING: Final = "Starting"
ANOTHER_GENERATOR: Final = "AnotherGenerator"
NOBODY_GENERATES: Final = "NobodyGenerates"
MISSING_RIGHTS: Final = "MissingRights"
NOT_TRIED: Final = "NotTried"

WEBHOOK_CONFIGURATION: Final = "zz-tollbar"
"""How the names of our webhook configurations begin: mutating webhooks are called in the order of their names."""
