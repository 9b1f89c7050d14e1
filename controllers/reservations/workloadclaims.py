"""Reconciles one WorkloadClaim: creates or annotates its ResourceClaim and writes its own status."""

import logging
from dataclasses import dataclass
from typing import Final

from controllers.status import StatusWriter
from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims import workloadclaims
from tollbar.decide.claims.reservations import RECHECK, State
from tollbar.decide.claims.workloadclaims import WorkloadClaimFacts, WorkloadClaimPlan
from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.runtime import claimwrites
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.reservations import States

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deps:
    manager: Manager
    claims: Store
    templates: Store
    workload_claims: Store
    states: States
    status: StatusWriter


async def reconcile(key: Key, deps: Deps) -> Outcome:
    obj = deps.workload_claims.get(key)
    if obj is None:
        deps.status.forget(key)
        return DONE
    facts = gather(key, obj, deps)
    plan = workloadclaims.decide(facts, deps.manager.clock.now())
    try:
        await act(facts, plan, deps)
    except AlreadyExists:
        return Requeue("StaleView")
    except ApiError as error:
        if not (isinstance(error, Forbidden) or error.refused):
            raise
        return await _refused(facts, error, deps)
    return await deps.status.write(obj, plan.status)


def gather(key: Key, obj: Object, deps: Deps) -> WorkloadClaimFacts:
    parsed = parse_workload_claim(obj)
    claim = template = state = None
    if isinstance(parsed, WorkloadClaim):
        claim_key = Key(key.namespace, parsed.claim_name)
        claim, state = deps.claims.get(claim_key), deps.states.get(claim_key)
        if name := parsed.spec.resource_claim_template_name:
            template = deps.templates.get(Key(key.namespace, name))
    return WorkloadClaimFacts(obj, parsed, claim, template, state, deps.status.written(key))


async def act(facts: WorkloadClaimFacts, plan: WorkloadClaimPlan, deps: Deps) -> None:
    if plan.create is not None:
        await deps.manager.client.create(resources.RESOURCE_CLAIMS, plan.create)
        _log.info("created the claim", extra={"object": str(key_of(plan.create))})
    if plan.annotate is not None and facts.claim is not None:
        deps.claims.assume(await claimwrites.annotate(deps.manager.client, facts.claim, plan.annotate))


async def _refused(facts: WorkloadClaimFacts, error: ApiError, deps: Deps) -> Outcome:
    """Report in the status that the API server refuses the claim, and try again later."""
    reason = ReservedReason.PERMISSION_DENIED if isinstance(error, Forbidden) else ReservedReason.INVALID_SPEC
    status = workloadclaims.status_of(facts, State(False, reason, str(error)), deps.manager.clock.now())
    await deps.status.write(facts.obj, status)
    return RetryAfter(RECHECK)
