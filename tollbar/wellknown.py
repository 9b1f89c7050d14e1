"""Names that users see: the API group, gate, labels, annotations, field managers, condition types.

Changing one is an API change and wants a CHANGELOG line.  Reasons of conditions are in `tollbar.api.reasons`, those of
Events beside their texts in the `events` modules of `tollbar.decide`.
"""

from typing import Final

GROUP: Final = "tollbar.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

SYSTEM_NAMESPACE: Final = "tollbar-system"

GATE: Final = f"{GROUP}/tolerations"
"""The Pod scheduling gate (KEP-3521) that Tollbar sets and removes."""

PLACEMENT_GATE: Final = f"{GROUP}/placement"
"""The gate of Pods whose placement is not decided yet; set and removed where the gate class `placement` is enabled."""

QUOTA_GATE: Final = f"{GROUP}/quota"
"""The Pod scheduling gate of the gate class quota."""
LABEL_QUOTA: Final = f"{GROUP}/quota"
"""On a Namespace, with any value: its Pods are held and counted by PodQuotas."""

ORDINAL_GATE: Final = f"{GROUP}/ordinal"
"""The gate of Pods that wait for their turn; set and removed where the gate class `ordinal` is enabled."""
LABEL_ORDINAL: Final = f"{GROUP}/ordinal"
"""On Pods of a StatefulSet that shares its ordinals with another one."""
ANNOTATION_ORDINAL_PEER: Final = f"{GROUP}/ordinal-peer"
"""On these Pods and on both StatefulSets: the other StatefulSet, as NAMESPACE/NAME."""

LABEL_GATE: Final = f"{GROUP}/gate"
GATE_HELD: Final = "held"
GATE_RELEASED: Final = "released"
LABEL_SKIP: Final = f"{GROUP}/skip"
ANNOTATION_PROVENANCE: Final = f"{GROUP}/tolerations"
"""JSON record, for people, of what was added and by which rule.  Which tolerations a Pod gets never depends on it:
later additions are appended, and at admission a record that is not true is removed."""

ANNOTATION_PLACEMENT: Final = f"{GROUP}/placement"
"""On a Pod: the names of the PlacementRules that narrowed its node affinity, for people.  No decision reads it."""

ANNOTATION_RESERVED_FOR: Final = f"{GROUP}/reserved-for"
"""On a ResourceClaim: `<resource>.<group>/<name>` of the workload that keeps it."""
ANNOTATION_RELEASE: Final = f"{GROUP}/release"
"""On a ResourceClaim: when its reservation is released (WhenDeleted, WhenFinished, WhenIdle)."""
ANNOTATION_RESERVED_UID: Final = f"{GROUP}/reserved-uid"
"""On a ResourceClaim: the uid of the entry of `status.reservedFor` that is ours, written before the entry."""
ANNOTATION_WORKLOAD_CLAIM: Final = f"{GROUP}/workload-claim"
"""On a ResourceClaim: the name of the WorkloadClaim that wrote the two annotations about the workload."""
ANNOTATION_EVICTED_FROM: Final = f"{GROUP}/evicted-from"
"""On a ResourceClaim: the allocation from whose devices Pods were evicted, which is not kept for the workload."""
ANNOTATION_CLAIMS: Final = f"{GROUP}/claims"
"""On the controllers' Lease: the mode (Complement, Replace, Disabled) in which its holder looks after claims."""
ANNOTATION_GATES: Final = f"{GROUP}/gates"
"""On the controllers' Lease: the scheduling gates that its holder releases beside `GATE`, by comma."""
ANNOTATION_DEVICE_TOLERATIONS: Final = f"{GROUP}/device-tolerations"
"""On the controllers' Lease: what the API server does with tolerations of devices in claims, `KEPT` or `DROPPED`."""
KEPT: Final = "Kept"
DROPPED: Final = "Dropped"
ANNOTATION_CLAIMS_CONDITION: Final = f"{GROUP}/claims-condition"
"""On the controllers' Lease: a metav1.Condition as JSON, whether that mode fits the cluster."""
LABEL_AGGREGATE: Final = f"{GROUP}/aggregate-to-workloads"
"""On a ClusterRole: its rules let the controllers read one more kind of workload."""
ANNOTATION_PREFIX: Final = f"{GROUP}/"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""On every Namespace, by the API server: its name."""
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
LAST_APPLIED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
DELETE_PROTECTION_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""On every claim that is or may become allocated: kube-scheduler sets it, and whoever deallocates removes it."""
CLAIMS_FIELD_MANAGER: Final = "tollbar-resourceclaim"
"""Our field manager of `status.resourceClaimStatuses`."""
FIELD_MANAGER_PREFIX: Final = "tollbar-"
"""What the field managers of our processes begin with: the API server takes a User-Agent's name for a request without
one."""
RESERVATIONS_FIELD_MANAGER: Final = "tollbar-reservations"
"""Our field manager of entries of `status.reservedFor`: the API server's own record of which of them are ours."""
IMPLICIT_EXTENDED_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""After the name of a DeviceClass: the resource by which quotas limit its devices (ResourceClaimsPerClass, core/v1)."""
EXTENDED_RESOURCES_CLAIM: Final = "<extended-resources>"
"""Name of the stand-in claim for extended resources that a DeviceClass backs (KEP-5004): no real object can have it."""

DEFAULT_MAX_HOLD_SECONDS: Final = 60.0

CONDITION_READY: Final = "Ready"
"""Condition type of TolerationRule, PlacementRule and SchedulingGate."""
CONDITION_RESERVED: Final = "Reserved"
"""Condition type of WorkloadClaim."""
CONDITION_CONSUMERS_FIT: Final = "ConsumersFit"
"""Condition type of WorkloadClaim."""
CONDITION_POD_GROUP_READY: Final = "PodGroupReady"
"""Condition type of a WorkloadClaim with `spec.podGroup`."""
CONDITION_CLAIMS_MODE: Final = "ClaimsModeFits"
"""Condition type in `ANNOTATION_CLAIMS_CONDITION`."""

WEBHOOK_CONFIGURATION: Final = "zz-tollbar"
"""How the names of our webhook configurations begin: mutating webhooks are called in the order of their names."""
