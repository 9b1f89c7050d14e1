"""The reasons of the conditions that Tollbar writes, for each kind of condition one enumeration."""

from tollbar.model.plan import Code


class RuleReason(Code):
    """Condition `Ready` of a TolerationRule."""

    COMPILED = "Compiled", "True: the rule is in force."
    LATE_ONLY = (
        "LateOnly",
        """True: the rule is in force, but its tolerations are added after admission only, because it is about Pods for
        which the API server does not call the webhook. The component `pod-rules` changes that.""",
    )
    TOLERATIONS_DROPPED = (
        "TolerationsDropped",
        """The API server drops tolerations of devices, because its feature gate DRADeviceTaints is off, as it is by
        default before 1.36: no claim gets any. True for a rule that gives Pods tolerations as well: these it gives;
        False for one with `deviceTolerations` alone.""",
    )
    DISABLED = "Disabled", "True: `spec.mode` is Disabled, and the rule does nothing."
    INVALID_EXPRESSION = "InvalidExpression", "False: the expression does not compile; the message has line and column."
    INVALID_PROTOTYPE = "InvalidPrototype", "False: a device prototype is not valid; the message names the field."
    RESERVED_KEY = (
        "ReservedKey",
        "False: the rule tolerates a key that is reserved; choose another, or set `spec.allowReservedKeys`.",
    )
    INVALID_SPEC = "InvalidSpec", "False: another field is not valid; the message names it."


class GateReason(Code):
    """Condition `Ready` of a SchedulingGate."""

    OWNED = (
        "Owned",
        "True: the object declares Tollbar's gate or that of a gate class, and the controllers are among its owners.",
    )
    OBSERVED = "Observed", "True: the object declares another controller's gate, which is only watched and reported."
    NOT_AN_OWNER = (
        "NotAnOwner",
        """False: the controllers are not among the owners, so they may not release a Pod where `protective-gates` is
        installed, and the webhook gates no Pod. Add the user that the message names to `spec.owners`.""",
    )
    INVALID_SPEC = (
        "InvalidSpec",
        """False: a field is not valid; the message names it. Until it is mended the limits apply that Tollbar's gate or
        the gate class has without a SchedulingGate; a gate of others has none.""",
    )


class QuotaReason(Code):
    """Condition `Ready` of a PodQuota."""

    IN_FORCE = "InForce", "True: Pods that do not fit wait."
    EXCEEDED = (
        "Exceeded",
        """True: more is used than a limit allows, by Pods that no gate held: those that were there before the quota or
        before it was lowered, that opted out, or of DaemonSets. No Pod that needs this resource is released until
        enough of them have ended.""",
    )
    INVALID_SPEC = "InvalidSpec", "False: a field is not valid, and the quota limits nothing; the message names it."


class HoldReason(Code):
    """Why the gate of PodQuotas holds a Pod."""

    UNCOUNTED = "QuotaUncounted", "The leader of the controllers has not looked at the Pod yet, which takes a moment."
    EXCEEDED = "QuotaExceeded", "The quota has no room for the Pod: others have to end, or the limit to be raised."
    TOO_SMALL = (
        "QuotaTooSmall",
        "The Pod requests more than the quota allows at all: it waits until the limit is raised.",
    )
    KEPT = "QuotaKept", "There is room, and it is kept for a Pod that has waited for longer than `spec.patience`."
    SHARED = (
        "QuotaShared",
        """There is room, and the Pod's namespace already has a larger share than others that wait
        (`spec.sharing: Fair`).""",
    )
    CLAIM_MISSING = (
        "QuotaClaimMissing",
        """The quota limits devices, and the named claim or template, which says how many the Pod takes, is not there:
        create it; without it the Pod could not start either.  Of a Pod with more than 128 claims, or with an entry
        that names neither, the text says that.""",
    )
    REFUSED = (
        "QuotaRefused",
        "There was room, and other admission refused the Pod's release (Event `ReleaseRefused`): fix that policy.",
    )


class OrdinalReason(Code):
    """Why the gate class `ordinal` holds a Pod."""

    STARTING = "Starting", "The controllers do not know all Pods yet, which takes a moment after one begins to lead."
    PEER_UNKNOWN = (
        "PeerUnknown",
        """The Pod has the label and does not name the other StatefulSet: annotate the Pod template with
        `tollbar.dev/ordinal-peer`.""",
    )
    SET_MISSING = "SetMissing", "The Pod's own StatefulSet does not exist, so that its first ordinal is not known."
    PEER_DISAGREES = (
        "PeerDisagrees",
        """The other StatefulSet does not name this one: annotate it with `tollbar.dev/ordinal-peer`, or remove the
        label from this one's Pod template.""",
    )
    TAKEN = (
        "OrdinalTaken",
        """The other StatefulSet's Pod of this ordinal has to be gone: scale that StatefulSet down or delete the Pod.
        A terminating Pod counts until it is gone.""",
    )
    PREDECESSOR_NOT_READY = (
        "PredecessorNotReady",
        "The Pod of the ordinal before has to be Ready in its own StatefulSet: see what that one waits for.",
    )


class ReservedReason(Code):
    """Condition `Reserved` of a WorkloadClaim.

    While it is True, a reason other than `Held` says what is wrong, and the reservation stays.  The phase is Reserved
    while the condition is True; Released for `Released` and `Deleting`; Pending for `NotAllocated`, `WorkloadMissing`,
    `DeviceTainted`, `ClaimMissing` and `TemplateMissing`; Blocked for the others.  For claims that are annotated
    without a WorkloadClaim, the Event `ReservationBlocked` and the metric `tollbar_reservations` say it.
    """

    HELD = "Held", "The claim is reserved for its workload."
    NOT_ALLOCATED = "NotAllocated", "No Pod that refers to the claim was scheduled yet: look at the Pod."
    WORKLOAD_MISSING = (
        "WorkloadMissing",
        "The workload does not exist, or is being deleted: create it, or correct resource, group or name.",
    )
    CLAIM_MISSING = (
        "ClaimMissing",
        "The claim that the WorkloadClaim names does not exist: create it, and Tollbar does the rest.",
    )
    TEMPLATE_MISSING = (
        "TemplateMissing",
        "The template that the WorkloadClaim names does not exist: create it, and Tollbar does the rest.",
    )
    CLAIM_TAKEN = (
        "ClaimTaken",
        """A claim of that name is somebody else's, or is reserved for another workload: choose another name, or remove
        the other's annotation.""",
    )
    RELEASED = "Released", "The reservation was given back, as `release` says."
    DELETING = "Deleting", "The claim is being deleted, and waits for its Pods."
    KIND_UNKNOWN = (
        "KindUnknown",
        """The API server does not serve the workload's kind, or does not answer about it; an existing reservation
        stays. Check the plural name and the kind's conversion webhook, or install the CRD: Tollbar looks for the kind
        again every 30 s.""",
    )
    PERMISSION_DENIED = (
        "PermissionDenied",
        """The controllers may not read the workload's kind or write reservations, or other admission refuses it; the
        message names what is missing. Add a ClusterRole with `tollbar.dev/aggregate-to-workloads: "true"`; for
        `resourceclaims/binding` (required by Kubernetes 1.36 and newer), apply the manifests again.""",
    )
    INVALID_REFERENCE = (
        "InvalidReference",
        "The annotation cannot be understood, or the claim was generated for a Pod: see the message.",
    )
    INVALID_SPEC = (
        "InvalidSpec",
        "The WorkloadClaim is not valid, or the API server refuses the claim that it asks for: see the message.",
    )
    FULL = (
        "Full",
        "Fewer than two of the 256 entries are free: let fewer Pods share the claim, or share it by `spec.podGroup`.",
    )
    DEVICE_TAINTED = (
        "DeviceTainted",
        """A device of the claim is tainted NoExecute, and its Pods are evicted: the reservation is given up, so that
        the claim may get other devices, and is made again then. If other Pods keep the claim allocated, let all of them
        end, for example by scaling the workload to zero.""",
    )
    UPSTREAM_OSCILLATION = (
        "UpstreamOscillation",
        """A finished Pod that refers to the claim still exists, and kube-controller-manager would remove its entry and
        add it again without end (kubernetes/kubernetes#141274): delete finished Pods (`ttlSecondsAfterFinished` for
        Jobs), or run with `claims: Replace`.""",
    )
    UPSTREAM_TOO_OLD = (
        "UpstreamTooOld",
        """kube-controller-manager before 1.36 cannot handle a claim with such an entry (kubernetes/kubernetes#136406):
        [what Tollbar does](kubernetes-versions.md#reservations-before-136). Upgrade Kubernetes, or run with
        `claims: Replace`.""",
    )


class ConsumersReason(Code):
    """Condition `ConsumersFit` of a WorkloadClaim.

    Whether every Pod that may use the claim finds a place among the 256 entries of its `status.reservedFor`.
    """

    FIT = "Fit", "True: the claim has enough entries for the Pods that refer to it or that the workload asks for."
    TOO_MANY_CONSUMERS = (
        "TooManyConsumers",
        """False: the workload asks for more Pods than the claim has entries for, or more Pods refer to it. Pods without
        an entry cannot be bound, and stay Pending:
        [what to do](../operations/troubleshooting.md#more-than-256-pods-on-one-claim).""",
    )


class PodGroupReason(Code):
    """Condition `PodGroupReady` of a WorkloadClaim.

    Only where `spec.podGroup` asks for a PodGroup. While it is False, Pods get entries of their own.
    """

    READY = "Ready", "True: the PodGroup exists and names the claim, and Pods may join it."
    ENDING = (
        "Ending",
        """True: the PodGroup is being deleted, and exists until its last Pod has ended; Pods may still join it, and it
        is created again afterwards. False: it was made for an earlier `spec.podGroup`, and Pods cannot join it.""",
    )
    NOT_SERVED = (
        "NotServed",
        """False: the API server has no PodGroups. They are in Kubernetes 1.37 with the feature gate GenericWorkload and
        `--runtime-config=scheduling.k8s.io/v1beta1=true`. Tollbar looks for them again every 30 s.""",
    )
    CLAIMS_NOT_SHARED = (
        "ClaimsNotShared",
        """False: the API server leaves claims out of PodGroups, so none is made. Switch the feature gate
        DRAWorkloadResourceClaims on, in API server, kube-controller-manager, kube-scheduler and kubelet.""",
    )
    TAKEN = "Taken", "False: a PodGroup of the WorkloadClaim's name is somebody else's: choose another name."
    REFUSED = (
        "Refused",
        """False: the API server refuses the PodGroup; the message says why: a missing right, a quota, a PriorityClass
        that does not exist. Tollbar tries again every 30 s.""",
    )


class ModeReason(Code):
    """Condition `ClaimsModeFits`.

    In the annotation `tollbar.dev/claims-condition` of the controllers' Lease; the message names the server's version
    and PodGroups, or what would fit better.
    """

    COMPLEMENTING = "Complementing", "True (Complement): kube-controller-manager generates claims, as it should."
    GENERATING = "Generating", "True (Replace): Tollbar generates claims, and no other controller does."
    DISABLED = "Disabled", "True (Disabled): claims are left alone."
    STARTING = (
        "Starting",
        """Unknown (Replace): Tollbar is finding out whether another controller generates claims. If this takes longer
        than half a minute, the API server does not answer: see the log.""",
    )
    ANOTHER_GENERATOR = (
        "AnotherGenerator",
        """False (Replace): another controller generates claims, so Tollbar does not. Switch that one off
        ([how](../tasks/replace-the-claim-controller.md)), or run with `claims: Complement`.""",
    )
    MISSING_RIGHTS = (
        "MissingRights",
        "False (Replace): the rights that the message names are missing. Apply the component `claims-replace`.",
    )
    NOT_TRIED = (
        "NotTried",
        """False (Replace): Tollbar could not find out whether another controller generates claims, because the trial's
        Pod or template is refused in its namespace: by a quota, by admission, or for a missing right.""",
    )
    NOBODY_GENERATES = (
        "NobodyGenerates",
        """False (Complement): Pods have waited a minute for a claim whose template is there. If they have events
        `FailedResourceClaimCreation`, those say why; otherwise give kube-controller-manager its
        `resourceclaim-controller` back, or use `claims: Replace`.""",
    )
    UPSTREAM_OSCILLATION = (
        "UpstreamOscillation",
        """False (Complement): kube-controller-manager writes to claims without end (kubernetes/kubernetes#141274).
        Delete the finished Pods that `tollbar status` leads to, or use `claims: Replace`.""",
    )
    UPSTREAM_TOO_OLD = (
        "UpstreamTooOld",
        """False (Complement): reservations are asked for that this kube-controller-manager cannot handle
        (kubernetes/kubernetes#136406). Upgrade Kubernetes to 1.36, or use `claims: Replace`.""",
    )
    PERMISSION_DENIED = (
        "PermissionDenied",
        """False: the controllers lack the right to `resourceclaims/binding`, which Kubernetes 1.36 and newer require.
        Apply the manifests again.""",
    )
