"""One WorkloadClaim: its ResourceClaim exists and says whom it is kept for; its status says how that stands."""

import logging
from dataclasses import dataclass
from typing import Final

from controllers.reservations.states import States
from controllers.status import StatusWriter
from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims import workloadclaims
from tollbar.decide.claims.reservations import RECHECK, State
from tollbar.decide.claims.workloadclaims import WorkloadClaimFacts, WorkloadClaimPlan
from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden
from tollbar.views.caches import ClaimCaches

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deps:
    client: Client
    caches: ClaimCaches
    states: States
    status: StatusWriter
    clock: Clock


async def reconcile(key: Key, deps: Deps) -> Outcome:
    obj = deps.caches.workload_claims.get(key)
    if obj is None:
        deps.status.forget(key)
        return DONE
    facts = gather(key, obj, deps)
    plan = workloadclaims.decide(facts, deps.clock.now())
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
        claim, state = deps.caches.claims.get(claim_key), deps.states.get(claim_key)
        if name := parsed.spec.resource_claim_template_name:
            template = deps.caches.templates.get(Key(key.namespace, name))
    return WorkloadClaimFacts(obj, parsed, claim, template, state, deps.status.written(key))


async def act(facts: WorkloadClaimFacts, plan: WorkloadClaimPlan, deps: Deps) -> None:
    if plan.create is not None:
        await deps.client.create(resources.RESOURCE_CLAIMS, plan.create)
        _log.info("created the claim", extra={"object": str(key_of(plan.create))})
    if plan.annotate is not None and facts.claim is not None:
        key = key_of(facts.claim)
        body = {"metadata": {"uid": uid_of(facts.claim), "annotations": dict(plan.annotate)}}
        deps.caches.claims.assume(
            await deps.client.patch(
                resources.RESOURCE_CLAIMS, key.name, body, namespace=key.namespace, patch_type=PatchType.MERGE
            )
        )


async def _refused(facts: WorkloadClaimFacts, error: ApiError, deps: Deps) -> Outcome:
    """The API server will not have the claim: say so, and try again later."""
    reason = ReservedReason.PERMISSION_DENIED if isinstance(error, Forbidden) else ReservedReason.INVALID_SPEC
    status = workloadclaims.status_of(facts, State(False, reason, str(error)), deps.clock.now())
    await deps.status.write(facts.obj, status)
    return RetryAfter(RECHECK)
