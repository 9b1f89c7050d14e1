"""Reconciles one ResourceClaim: gathers its workload and its consumers, decides, writes its annotations and status."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from controllers.reservations.workloads import Workloads
from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims import events, reservations
from tollbar.decide.claims.reservations import (
    IGNORES_PINNED,
    RECHECK,
    ClaimController,
    ConsumersOf,
    LookUp,
    ReservationFacts,
    ReservationPlan,
    State,
)
from tollbar.model import claims, pods, resources, workloads
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.model.plan import DONE, STALE, Outcome, RetryAfter
from tollbar.runtime import asking, claimwrites
from tollbar.runtime.asking import Asker
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Invalid
from tollbar.runtime.events import Recorder
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.evictions import Evictions
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deps:
    """`takeover` tells whether this process generates claims; it is None where kube-controller-manager does."""

    manager: Manager
    claims: Store
    consumers: Store
    workload_claims: Store
    pod_groups: Store
    recorder: Recorder
    workloads: Workloads
    states: ReservationStates
    oscillations: Oscillations
    evictions: Evictions
    takeover: Takeover | None
    asker: Asker


async def reconcile(key: Key, deps: Deps) -> Outcome:
    claim = deps.claims.get(key)
    if claim is None:
        deps.workloads.forget(key)
        deps.states.record(key, None)
        return DONE
    asked = set[type]()

    def decision(answers: Answers) -> ReservationPlan | Ask:
        return reservations.decide(gather(key, claim, answers, deps))

    plan = await deps.asker.decide(decision, lambda question, _: asked.add(type(question)))
    if LookUp not in asked:
        deps.workloads.forget(key)
    try:
        await act(claim, plan, deps)
    except ApiError as error:
        return _refused(claim, plan, error, deps)
    deps.states.record(key, plan.state)
    for event in plan.events:
        deps.recorder.emit(_named(claim), event)
    return plan.outcome


def gather(key: Key, claim: Object, answers: Answers, deps: Deps) -> ReservationFacts:
    """The facts about this claim, with what the API server has answered so far."""
    claim_controller = _claim_controller(deps.takeover)
    listed = answers.get(ConsumersOf(key))
    consumers = deps.consumers.by_index("claim", key)
    return ReservationFacts(
        claim=claim,
        workload=next((answer for question, answer in answers.items() if isinstance(question, LookUp)), None),
        consumers=consumers if listed is None else (*consumers, *listed),
        listed=listed is not None,
        withdrawn=_is_withdrawn(key, claim, answers, deps),
        claim_controller=claim_controller,
        ignores_pinned=False if claim_controller is ClaimController.OURS else answers.get(IGNORES_PINNED),
        oscillating=deps.oscillations.oscillating(claim),
        pod_groups=deps.pod_groups.by_index("claim", key),
        evicted_from=deps.evictions.evicted_from(key),
        state=deps.states.get(key),
    )


async def act(claim: Object, plan: ReservationPlan, deps: Deps) -> None:
    """Writes the annotations first, so that Tollbar's entry can be recognized even if the second write is lost."""
    if plan.annotations:
        claim = await claimwrites.annotate(deps.manager.client, claim, dict(plan.annotations))
        deps.claims.assume(claim)
    if plan.add is not None:
        deps.claims.assume(await claimwrites.reserve(deps.manager.client, claim, plan.add))
    if plan.remove is not None:
        deps.claims.assume(await claimwrites.perform(deps.manager.client, claim, plan.remove))
    if (plan.add or plan.remove) and plan.state is not None:
        _log.info(
            "reserved" if plan.add else "released",
            extra={"object": str(key_of(claim)), "reason": plan.state.reason, "why": plan.state.message},
        )


def _refused(claim: Object, plan: ReservationPlan, error: ApiError, deps: Deps) -> Outcome:
    """The outcome of a refused write: a stale view is requeued, a missing permission reported and tried again."""
    denied = claimwrites.is_denied(error)
    if isinstance(error, Invalid) and not denied and _is_overtaken(error):
        _log.info("the claim has changed", extra={"object": str(key_of(claim)), "error": str(error)})
        return STALE
    if denied or error.refused:
        held = plan.remove is not None
        crowded = plan.state.crowded if plan.state is not None else None
        return _blocked(claim, State(held, ReservedReason.PERMISSION_DENIED, error.excerpt, crowded), deps)
    return claimwrites.outcome_of(error)


def _is_overtaken(error: Invalid) -> bool:
    """Whether validation refused because the claim has changed: not allocated, being deleted, full, or another uid."""
    return any(str(cause.get("field")).startswith(("status.", "metadata.uid")) for cause in error.causes)


def _blocked(claim: Object, state: State, deps: Deps) -> Outcome:
    deps.recorder.emit(_named(claim), events.reservation_blocked(state.reason, state.message))
    deps.states.record(key_of(claim), state)
    _log.warning("writing the claim was refused", extra={"object": str(key_of(claim)), "why": state.message})
    return RetryAfter(RECHECK)


def _claim_controller(takeover: Takeover | None) -> ClaimController:
    if takeover is None or takeover.yields:
        return ClaimController.UPSTREAM
    return ClaimController.OURS if takeover.works else ClaimController.TAKING_OVER


def _is_withdrawn(key: Key, claim: Object, answers: Answers, deps: Deps) -> bool | None:
    """Whether the WorkloadClaim behind the annotations is gone or names another claim now; None when unknown."""
    name = workloads.workload_claim_of(claim)
    if not name:
        return False
    owner = Key(key.namespace, name)
    found = deps.workload_claims.get(owner) or answers.get(Get(resources.WORKLOAD_CLAIMS, owner))
    if found is None:
        return None
    if isinstance(found, Absence):
        return found is Absence.OBJECT
    if metadata(found).get("deletionTimestamp"):
        return False  # not yet
    parsed = parse_workload_claim(found)
    return isinstance(parsed, WorkloadClaim) and parsed.claim_name != key.name


async def consumers_of(question: ConsumersOf, client: Client, reading: asyncio.Semaphore) -> tuple[Object, ...]:
    """From the API server, page by page; of a Pod what the cache keeps."""
    found: list[Object] = []

    def take(pod: Object) -> None:
        if not found and question.claim.name in claims.names_of(pod) and not pods.is_done(pod):
            found.append(kinds.CLAIM_CONSUMERS.project(pod))

    await asking.each_list_item(take, client, reading, resources.PODS, question.claim.namespace)
    return tuple(found)


def _named(claim: Object) -> Object:
    """The object that an Event is about: cached objects have no kind."""
    return {**resources.RESOURCE_CLAIMS.type_meta, "metadata": metadata(claim)}
