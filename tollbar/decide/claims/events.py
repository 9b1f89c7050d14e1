"""The Events about ResourceClaims: every reason and every text."""

from typing import Final

from tollbar.model import claims
from tollbar.model.plan import Code, Event

OSCILLATION: Final = (
    "kube-controller-manager would take their entries away and add them again without end"
    " (kubernetes/kubernetes#141274); delete them, or run Tollbar with claims: Replace"
)
"""What finished Pods on a claim lead to, and what to do."""


class ClaimEvent(Code):
    """Events about ResourceClaims.  On the claim, unless something else is said."""

    CLAIM_RESERVED = "ClaimReserved", "An entry for the claim's workload was added."
    RESERVATION_RELEASED = (
        "ReservationReleased",
        """The workload's entry was removed, others remain; the note begins with the reason of the condition
        `Reserved`. A Warning when kube-controller-manager makes the reservation impossible.""",
    )
    CLAIM_DEALLOCATED = (
        "ClaimDeallocated",
        "The workload's entry was the last one and was removed: the devices are free. A Warning as above.",
    )
    RESERVATION_BLOCKED = (
        "ReservationBlocked",
        """Warning: the claim cannot be reserved; the note begins with the reason of the condition `Reserved`. On a Pod
        (`claims: Replace`): its claim has 256 consumers already, and the kubelet will not start the Pod. Use
        another claim.""",
    )
    UPSTREAM_OSCILLATION = (
        "UpstreamOscillation",
        """Warning: kube-controller-manager removes the entry of a finished Pod and adds it again without end
        (kubernetes/kubernetes#141274), with some twenty writes a second to that one claim. Delete the finished Pod, or
        run with `claims: Replace`.""",
    )
    TOO_MANY_CONSUMERS = (
        "TooManyConsumers",
        """Warning, on a WorkloadClaim: not every Pod will find a place among the claim's 256 entries; the note says
        why. [What to do](../operations/troubleshooting.md#more-than-256-pods-on-one-claim).""",
    )
    FAILED_CLAIM_CREATION = (
        "FailedResourceClaimCreation",
        """Warning, on a Pod or PodGroup (`claims: Replace`): a claim cannot be made; reason and text are those of
        kube-controller-manager. Create the template that the note names, or see why the API server refuses the
        claim.""",
    )
    CLAIMS_NOT_REPLACED = (
        "ClaimsNotReplaced",
        """Warning, on Tollbar's Namespace: `claims: Replace` does not start, or has stopped; the note says why. [What
        to do](../operations/troubleshooting.md#does-the-mode-fit).""",
    )


def claim_reserved(workload: str) -> Event:
    return Event("Normal", ClaimEvent.CLAIM_RESERVED, f"reserved for {workload}", "Reserve")


def reservation_released(reason: str, message: str, *, deallocated: bool, by_upstream: bool) -> Event:
    """Given up for the reason of a condition; `by_upstream` when it is kube-controller-manager that makes us."""
    event = ClaimEvent.CLAIM_DEALLOCATED if deallocated else ClaimEvent.RESERVATION_RELEASED
    return Event("Warning" if by_upstream else "Normal", event, f"{reason}: {message}", "Release")


def reservation_blocked(reason: str, message: str) -> Event:
    """On the claim, for the reason of a condition."""
    return Event("Warning", ClaimEvent.RESERVATION_BLOCKED, f"{reason}: {message}", "Reserve")


def claim_full(claim: str) -> Event:
    """On a Pod that cannot reserve it."""
    note = f"ResourceClaim {claim}: status.reservedFor has {claims.RESERVED_FOR_MAX} entries, the most it can have"
    return Event("Warning", ClaimEvent.RESERVATION_BLOCKED, note, "Claim")


def too_many_consumers(why: str) -> Event:
    """On a WorkloadClaim, when the condition `ConsumersFit` turns False."""
    return Event("Warning", ClaimEvent.TOO_MANY_CONSUMERS, why, "Reserve")


def upstream_oscillation(finished: str) -> Event:
    """`finished` names Pods.  On the claim, whoever reserved it: this costs the whole cluster."""
    note = f"the entries of finished Pods ({finished}) come and go without end; {OSCILLATION}"
    return Event("Warning", ClaimEvent.UPSTREAM_OSCILLATION, note, "Observe")


def failed_claim_creation(kind: str, reference: str, why: str) -> Event:
    """On a Pod or PodGroup of this kind, about one entry of `spec.resourceClaims`."""
    return Event("Warning", ClaimEvent.FAILED_CLAIM_CREATION, f"{kind}ResourceClaim {reference}: {why}", "Claim")


def claims_not_replaced(why: str) -> Event:
    return Event("Warning", ClaimEvent.CLAIMS_NOT_REPLACED, why, "Start")
