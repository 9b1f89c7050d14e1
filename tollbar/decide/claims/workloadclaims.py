"""What a WorkloadClaim wants of its ResourceClaim: that it exists, and says whom it is kept for; and the status.

The reservation itself is decided about the claim (`tollbar.decide.claims.reservations`), whoever asks for it, and only
reported here, as is whether its Pods find a place in it.  Invariants: a claim that somebody else made or asked for is
never changed; a claim is made at most once for each WorkloadClaim; nothing that is already there is written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from tollbar import wellknown
from tollbar.api.reasons import ConsumersReason, ReservedReason
from tollbar.api.workloads import WorkloadClaim
from tollbar.decide import status
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.claims import events, podgroups
from tollbar.decide.claims.podgroups import PodGroupPlan
from tollbar.decide.claims.reservations import State, uid_on_record
from tollbar.decide.status import StatusPlan
from tollbar.model import claims, conditions
from tollbar.model.ask import Get
from tollbar.model.conditions import Condition
from tollbar.model.fields import FieldError
from tollbar.model.objects import (
    Object,
    annotations_of,
    controller_of,
    controller_reference,
    is_stub,
    key_of,
    labels_of,
    metadata,
    spec,
    uid_of,
)
from tollbar.model.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, WORKLOAD_CLAIMS


@dataclass(frozen=True, slots=True)
class WorkloadClaimFacts:
    """`template` and `claim` are the ones that it names, None while they do not exist.

    `state` is how the reservation of the claim was last found, None before; `written` is when this process last wrote
    the status; `pod_group` is the PodGroup of the WorkloadClaim's name, and
    `pod_group_refused` why it could not be created or deleted a moment ago.
    """

    obj: Object
    parsed: WorkloadClaim | list[FieldError]
    claim: Object | None
    template: Object | None
    state: State | None
    written: float | None
    pod_group: Object | None = None
    pod_group_refused: Condition | None = None


@dataclass(frozen=True, slots=True)
class WorkloadClaimPlan:
    """At most one of `create`, a ResourceClaim, and `annotate`, annotations of the one that is there.

    Where the caches have only a stub of the template, `create` is the question for that, of which the claim is to be
    made (`claim_for`).
    """

    create: Object | Get | None = None
    annotate: Mapping[str, str] | None = None
    pod_group: PodGroupPlan = podgroups.NOTHING
    status: StatusPlan = field(default_factory=StatusPlan)


NOTHING: Final = WorkloadClaimPlan()
Answer: TypeAlias = WorkloadClaimPlan | State
"""Of the chain: what to do, or what the status should say."""


def decide(facts: WorkloadClaimFacts, now: float) -> WorkloadClaimPlan:
    """`now` in epoch seconds."""
    if metadata(facts.obj).get("deletionTimestamp"):
        return NOTHING
    if not isinstance(facts.parsed, WorkloadClaim):
        invalid = State(False, ReservedReason.INVALID_SPEC, "; ".join(map(str, facts.parsed)))
        return WorkloadClaimPlan(status=status_of(facts, invalid, now))
    group = podgroups.decide(
        facts.obj, facts.parsed, facts.pod_group, facts.claim, facts.state, facts.pod_group_refused
    )
    answer: Answer = first_answer(CHAIN, _Case(facts, facts.parsed)) or facts.state or NOTHING
    if isinstance(answer, State):
        return WorkloadClaimPlan(status=status_of(facts, answer, now, group), pod_group=group)
    return replace(answer, pod_group=group)


class _Case(NamedTuple):
    facts: WorkloadClaimFacts
    wanted: WorkloadClaim


def _without_claim(case: _Case) -> Answer | None:
    wanted = case.wanted.spec.resource_claim_template_name
    if case.facts.claim is not None:
        return None
    if wanted is None:
        return State(False, ReservedReason.CLAIM_MISSING, f"ResourceClaim {case.wanted.claim_name} does not exist")
    template = case.facts.template
    if template is None:
        return State(False, ReservedReason.TEMPLATE_MISSING, f"ResourceClaimTemplate {wanted} does not exist")
    if is_stub(template):
        return WorkloadClaimPlan(create=Get(RESOURCE_CLAIM_TEMPLATES, key_of(template)))
    return WorkloadClaimPlan(create=claim_for(case.facts.obj, case.wanted, template))


def _taken(case: _Case) -> State | None:
    why = _foreign(case.facts.obj, case.wanted, case.facts.claim or {})
    return State(False, ReservedReason.CLAIM_TAKEN, why) if why else None


def _annotate(case: _Case) -> WorkloadClaimPlan | None:
    wanted = _annotations(case.wanted)
    if wanted.items() <= annotations_of(case.facts.claim or {}).items():
        return None
    return WorkloadClaimPlan(annotate=wanted)


CHAIN: Final[Chain[_Case, Answer]] = (  # order is the specification
    _without_claim,  # it does not exist -> make it, or say what is missing
    _taken,  # it is somebody else's -> say so
    _annotate,  # it does not say whom it is kept for -> write that
)  # else -> say how its reservation stands, once that is known


def claim_for(owner: Object, wanted: WorkloadClaim, template: Object) -> Object:
    """The ResourceClaim of a WorkloadClaim: what the template says, and whom it is kept for."""
    given = (template.get("spec") or {}).get("metadata") or {}
    return {
        **RESOURCE_CLAIMS.type_meta,
        "metadata": {
            "namespace": key_of(owner).namespace,
            "name": wanted.claim_name,
            "labels": dict(labels_of({"metadata": given})),
            "annotations": {**annotations_of({"metadata": given}), **_annotations(wanted)},
            "ownerReferences": [controller_reference(owner, WORKLOAD_CLAIMS.type_meta)],
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
    match state.reason:
        case _ if state.reserved:
            return "Reserved"
        case ReservedReason.RELEASED | ReservedReason.DELETING:
            return "Released"
        case (
            ReservedReason.NOT_ALLOCATED
            | ReservedReason.WORKLOAD_MISSING
            | ReservedReason.DEVICE_TAINTED
            | ReservedReason.CLAIM_MISSING
            | ReservedReason.TEMPLATE_MISSING
        ):
            return "Pending"
        case _:
            return "Blocked"


def status_of(
    facts: WorkloadClaimFacts, state: State, now: float, group: PodGroupPlan = podgroups.NOTHING
) -> StatusPlan:
    """The status that says `state` and how the PodGroup stands; `now` in epoch seconds."""
    claim = facts.claim or {}
    ours = uid_on_record(claim) if state.reserved else ""
    members = {
        "resourceClaimName": facts.parsed.claim_name if isinstance(facts.parsed, WorkloadClaim) else "",
        "phase": _phase(state),
        "consumers": sum(1 for entry in claims.reserved_for(claim) if entry.get("uid") != ours),
    }
    if ours or "workloadUID" in (facts.obj.get("status") or {}):
        members["workloadUID"] = ours or None  # a merge patch removes it with null
    condition = Condition("True" if state.reserved else "False", state.reason, state.message)
    joined = group.joinable
    if joined is not None or "podGroup" in (facts.obj.get("status") or {}):
        members["podGroup"] = None if joined is None else _joinable(joined)
    wanted = status.with_condition(facts.obj, wellknown.CONDITION_RESERVED, condition, members, now)
    wanted = _with_group(facts, wanted, group.condition, now)
    if state.crowded is None:
        if state is not facts.state:  # the reservation was not looked at
            wanted = _without(wanted, wellknown.CONDITION_CONSUMERS_FIT)
        return status.plan(facts.obj, wanted, facts.written, now)
    fit = _fit(state.crowded)
    wanted = status.with_condition({**facts.obj, "status": wanted}, wellknown.CONDITION_CONSUMERS_FIT, fit, {}, now)
    turned = state.crowded and not conditions.is_false(facts.obj, wellknown.CONDITION_CONSUMERS_FIT)
    told = (events.too_many_consumers(state.crowded),) if turned else ()
    return status.plan(facts.obj, wanted, facts.written, now, told)


def _fit(crowded: str) -> Condition:
    """The condition `ConsumersFit`."""
    if crowded:
        return Condition("False", ConsumersReason.TOO_MANY_CONSUMERS, crowded)
    return Condition("True", ConsumersReason.FIT)


def _joinable(group: Object) -> Object:
    return {"name": key_of(group).name, "priorityClassName": str(spec(group).get("priorityClassName") or "")}


def _with_group(facts: WorkloadClaimFacts, wanted: Object, condition: Condition | None, now: float) -> Object:
    """The status with the condition `PodGroupReady`; without it when nobody asks for a PodGroup."""
    asked = isinstance(facts.parsed, WorkloadClaim) and facts.parsed.spec.pod_group is not None
    if condition is not None:
        obj = {**facts.obj, "status": wanted}
        return status.with_condition(obj, wellknown.CONDITION_POD_GROUP_READY, condition, {}, now)
    return wanted if asked else _without(wanted, wellknown.CONDITION_POD_GROUP_READY)


def _without(wanted: Object, condition: str) -> Object:
    return {**wanted, "conditions": [each for each in wanted["conditions"] if each.get("type") != condition]}
