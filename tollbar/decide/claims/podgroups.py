"""The PodGroup of a WorkloadClaim: one entry in the claim's `status.reservedFor` stands for all Pods of it (KEP-5729).

kube-scheduler and the kubelet take the entry of a Pod's PodGroup for the Pod's own.  kube-controller-manager removes it
when the PodGroup is gone, and frees the claim with the last entry; a PodGroup that is deleted stays until its last Pod
has ended, and Pods may still join it until then.

Invariants: a PodGroup of somebody else's is never touched; whatever is missing is made again; devices are given back by
deleting the PodGroup, never by taking its entry away.
"""

from dataclasses import dataclass, replace
from typing import Final

from tollbar.api.reasons import PodGroupReason, ReservedReason
from tollbar.api.workloads import WorkloadClaim
from tollbar.decide.claims.reservations import State
from tollbar.model import claims
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object, controller_of, controller_reference, key_of, metadata, spec, uid_of
from tollbar.model.resources import POD_GROUPS, WORKLOAD_CLAIMS

_GIVEN_BACK: Final = frozenset(
    {
        ReservedReason.RELEASED,
        ReservedReason.WORKLOAD_MISSING,
        ReservedReason.DELETING,
        ReservedReason.DEVICE_TAINTED,
    }
)
"""The states of a reservation in which the claim is not kept for the workload any more, or not with these devices."""


@dataclass(frozen=True, slots=True)
class PodGroupPlan:
    """At most one of `create` and `delete`, a PodGroup.

    `condition` is None when no PodGroup is asked for; `joinable` is the one that Pods may be put into.
    """

    condition: Condition | None = None
    create: Object | None = None
    delete: Object | None = None
    joinable: Object | None = None


NOTHING: Final = PodGroupPlan()


def decide(
    owner: Object,
    wanted: WorkloadClaim,
    found: Object | None,
    claim: Object | None,
    state: State | None,
    refused: Condition | None = None,
) -> PodGroupPlan:
    """What becomes of the PodGroup that has the name of the WorkloadClaim `owner`; `found` is what there is.

    `claim` is the WorkloadClaim's, and `state` how its reservation stands; `refused` says why the PodGroup could not be
    created or deleted a moment ago.
    """
    plan = _wanted(owner, wanted, found, claim, state)
    if refused is None or (plan.create is None and plan.delete is None):
        return plan
    return replace(plan, condition=refused, create=None, delete=None)


def _wanted(
    owner: Object, wanted: WorkloadClaim, found: Object | None, claim: Object | None, state: State | None
) -> PodGroupPlan:
    if found is None or (controller_of(found) or {}).get("uid") != uid_of(owner):
        return _missing(owner, wanted, found)
    ending = metadata(found).get("deletionTimestamp") is not None
    if wanted.spec.pod_group is None:
        return NOTHING if ending else PodGroupPlan(delete=found)
    if not _shares(found, wanted):
        why = _not_shared() if not spec(found).get("resourceClaims") else _EARLIER
        return PodGroupPlan(why, delete=None if ending else found)
    if ending:
        return PodGroupPlan(Condition("True", PodGroupReason.ENDING, _ENDING), joinable=found)
    given_back = state is not None and not state.reserved and state.reason in _GIVEN_BACK
    has_entry = any(each.get("uid") == uid_of(found) for each in claims.reserved_for(claim or {}))
    delete = found if given_back and has_entry else None
    return PodGroupPlan(Condition("True", PodGroupReason.READY), delete=delete, joinable=found)


_ENDING: Final = "it is being deleted, goes with its last Pod, and is made again then"
_EARLIER: Final = Condition(
    "False",
    PodGroupReason.ENDING,
    "it is of an earlier podGroup of this WorkloadClaim, goes with its last Pod, and is made again then",
)


def _missing(owner: Object, wanted: WorkloadClaim, found: Object | None) -> PodGroupPlan:
    if wanted.spec.pod_group is None:
        return NOTHING
    if found is not None:
        why = f"PodGroup {key_of(found).name} is somebody else's"
        return PodGroupPlan(Condition("False", PodGroupReason.TAKEN, why))
    return PodGroupPlan(create=pod_group_for(owner, wanted))


def _shares(group: Object, wanted: WorkloadClaim) -> bool:
    """Whether it names the claim: the API server drops `resourceClaims` while DRAWorkloadResourceClaims is off."""
    return _entries(wanted) == spec(group).get("resourceClaims")


def _entries(wanted: WorkloadClaim) -> list[Object]:
    reference = wanted.spec.pod_group.pod_claim_name if wanted.spec.pod_group is not None else ""
    return [{"name": reference, "resourceClaimName": wanted.claim_name}]


def _not_shared() -> Condition:
    why = "the API server leaves claims out of PodGroups: the feature gate DRAWorkloadResourceClaims is off"
    return Condition("False", PodGroupReason.CLAIMS_NOT_SHARED, why)


def not_served() -> Condition:
    """The condition where the API server has no PodGroups."""
    why = "the API server does not serve PodGroups (scheduling.k8s.io, the feature gate GenericWorkload)"
    return Condition("False", PodGroupReason.NOT_SERVED, why)


def is_refused(why: str) -> Condition:
    """The condition when the API server does not take it."""
    return Condition("False", PodGroupReason.REFUSED, why)


def answered(would_be: Object, wanted: WorkloadClaim) -> Condition | None:
    """Why the PodGroup is not worth creating, from what the API server would make of it; None if it is."""
    return None if _shares(would_be, wanted) else _not_shared()


def pod_group_for(owner: Object, wanted: WorkloadClaim) -> Object:
    """The PodGroup to create: it goes with the WorkloadClaim, and schedules each Pod by itself (`basic`)."""
    given = wanted.spec.pod_group
    priority = {"priorityClassName": given.priority_class_name} if given and given.priority_class_name else {}
    return {
        **POD_GROUPS.type_meta,
        "metadata": {
            "namespace": key_of(owner).namespace,
            "name": key_of(owner).name,
            "ownerReferences": [controller_reference(owner, WORKLOAD_CLAIMS.type_meta)],
        },
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": _entries(wanted), **priority},
    }
