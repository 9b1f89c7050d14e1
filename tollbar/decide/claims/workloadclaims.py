"""What a WorkloadClaim wants of its ResourceClaim: that it exists, and says whom it is kept for; and the status.

The reservation itself is decided about the claim (`tollbar.decide.claims.reservations`), whoever asks for it: here it
is only reported.  Invariants: a claim that somebody else made or asked for is never changed; a claim is made at most
once for each WorkloadClaim; nothing that is already there is written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tollbar import wellknown
from tollbar.api.workloads import WorkloadClaim
from tollbar.decide.claims.reservations import State, uid_on_record
from tollbar.decide.rules.statuses import StatusPlan, status_plan
from tollbar.model import claims, conditions
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object, annotations_of, controller_of, key_of, labels_of, metadata, uid_of

NO_STATUS: Final = StatusPlan()
PENDING: Final = "Pending"
RESERVED: Final = "Reserved"
RELEASED: Final = "Released"
BLOCKED: Final = "Blocked"
_BLOCKED: Final = frozenset(
    {
        wellknown.KIND_UNKNOWN,
        wellknown.FULL,
        wellknown.UPSTREAM_OSCILLATION,
        wellknown.UPSTREAM_TOO_OLD,
        wellknown.INVALID_REFERENCE,
        wellknown.INVALID_SPEC,
        wellknown.PERMISSION_DENIED,
        wellknown.CLAIM_TAKEN,
    }
)


@dataclass(frozen=True, slots=True)
class WorkloadClaimFacts:
    """`template` and `claim` are the ones that it names, None while they do not exist.

    `state` is how the reservation of the claim was last found, None before; `written` is when this process last wrote
    the status.
    """

    obj: Object
    parsed: WorkloadClaim | list[FieldError]
    claim: Object | None
    template: Object | None
    state: State | None
    written: float | None


@dataclass(frozen=True, slots=True)
class WorkloadClaimPlan:
    """At most one of `create`, a ResourceClaim, and `annotate`, annotations of the one that is there."""

    create: Object | None = None
    annotate: Mapping[str, str] | None = None
    status: StatusPlan = NO_STATUS


def decide(facts: WorkloadClaimFacts, now: float) -> WorkloadClaimPlan:
    """`now` in epoch seconds."""
    if metadata(facts.obj).get("deletionTimestamp"):
        return WorkloadClaimPlan()
    if isinstance(facts.parsed, list):
        said = "; ".join(map(str, facts.parsed))
        return WorkloadClaimPlan(status=status(facts, State(False, wellknown.INVALID_SPEC, said), now))
    if facts.claim is None:
        return _without_claim(facts, facts.parsed, now)
    if problem := _foreign(facts.obj, facts.parsed, facts.claim):
        return WorkloadClaimPlan(status=status(facts, State(False, wellknown.CLAIM_TAKEN, problem), now))
    wanted = _annotations(facts.parsed)
    if not wanted.items() <= annotations_of(facts.claim).items():
        return WorkloadClaimPlan(annotate=wanted)
    return WorkloadClaimPlan(status=status(facts, facts.state, now) if facts.state is not None else NO_STATUS)


def _without_claim(facts: WorkloadClaimFacts, wanted: WorkloadClaim, now: float) -> WorkloadClaimPlan:
    template = wanted.spec.resource_claim_template_name
    if template is None:
        missing = State(False, wellknown.CLAIM_MISSING, f"ResourceClaim {wanted.claim_name} does not exist")
    elif facts.template is None:
        missing = State(False, wellknown.TEMPLATE_MISSING, f"ResourceClaimTemplate {template} does not exist")
    else:
        return WorkloadClaimPlan(create=claim_for(facts.obj, wanted, facts.template))
    return WorkloadClaimPlan(status=status(facts, missing, now))


def claim_for(owner: Object, wanted: WorkloadClaim, template: Object) -> Object:
    """The ResourceClaim of a WorkloadClaim: what the template says, and whom it is kept for."""
    given = (template.get("spec") or {}).get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": key_of(owner).namespace,
            "name": wanted.claim_name,
            "labels": dict(labels_of({"metadata": given})),
            "annotations": {**annotations_of({"metadata": given}), **_annotations(wanted)},
            "ownerReferences": [
                {
                    "apiVersion": wellknown.API_VERSION,
                    "kind": "WorkloadClaim",
                    "name": key_of(owner).name,
                    "uid": uid_of(owner),
                    "controller": True,
                }
            ],
        },
        "spec": claims.template_claim_spec(template),
    }


def _annotations(wanted: WorkloadClaim) -> dict[str, str]:
    return {
        wellknown.ANNOTATION_RESERVED_FOR: str(wanted.spec.workload_ref.reference),
        wellknown.ANNOTATION_RELEASE: wanted.spec.release,
        wellknown.ANNOTATION_WORKLOAD_CLAIM: wanted.metadata.name,
    }


def _foreign(owner: Object, wanted: WorkloadClaim, claim: Object) -> str:
    """Why the claim of that name cannot be this one's; empty when it can."""
    if wanted.spec.resource_claim_template_name is not None:
        controller = controller_of(claim) or {}
        return "" if controller.get("uid") == uid_of(owner) else f"ResourceClaim {wanted.claim_name} is somebody else's"
    written = annotations_of(claim)
    asked = written.get(wellknown.ANNOTATION_RESERVED_FOR, str(wanted.spec.workload_ref.reference))
    by = written.get(wellknown.ANNOTATION_WORKLOAD_CLAIM, wanted.metadata.name)
    if by != wanted.metadata.name:
        return f"WorkloadClaim {by} has ResourceClaim {wanted.claim_name}"
    if asked != str(wanted.spec.workload_ref.reference):
        return f"ResourceClaim {wanted.claim_name} is annotated to be reserved for {asked}"
    return ""


def _phase(state: State) -> str:
    if state.reserved:
        return RESERVED
    if state.reason in (wellknown.RELEASED, wellknown.DELETING):
        return RELEASED
    return BLOCKED if state.reason in _BLOCKED else PENDING


def status(facts: WorkloadClaimFacts, state: State, now: float) -> StatusPlan:
    """The status that says `state`."""
    old = facts.obj.get("status") or {}
    generation = int(metadata(facts.obj).get("generation") or 0)
    entries = claims.reserved_for(facts.claim or {})
    ours = uid_on_record(facts.claim or {}) if state.reserved else ""
    wanted = {
        **old,
        "observedGeneration": generation,
        "resourceClaimName": facts.parsed.claim_name if isinstance(facts.parsed, WorkloadClaim) else "",
        "phase": _phase(state),
        "workloadUID": ours or None,
        "consumers": sum(1 for entry in entries if entry.get("uid") != ours),
        "conditions": conditions.with_condition(
            old.get("conditions"),
            type_=wellknown.CONDITION_RESERVED,
            status="True" if state.reserved else "False",
            reason=state.reason,
            message=state.message,
            generation=generation,
            now=now,
        ),
    }
    if not ours and "workloadUID" not in old:
        del wanted["workloadUID"]  # nothing to remove
    return status_plan(facts.obj, wanted, (), facts.written, now)
