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

ANNOTATION_PREFIX: Final = f"{GROUP}/"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
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

WEBHOOK_CONFIGURATION: Final = "zz-tollbar"
"""How the names of our webhook configurations begin: mutating webhooks are called in the order of their names."""
