"""Reconciles one WorkloadClaim: makes or annotates its ResourceClaim, its PodGroup, and writes its own status."""

import logging
from dataclasses import dataclass, replace
from typing import Final

import orjson

from controllers.status import StatusWriter
from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims import podgroups, workloadclaims
from tollbar.decide.claims.podgroups import PodGroupPlan
from tollbar.decide.claims.reservations import RECHECK, State
from tollbar.decide.claims.workloadclaims import WorkloadClaimFacts, WorkloadClaimPlan
from tollbar.model import resources
from tollbar.model.conditions import Condition
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.runtime import claimwrites, detection
from tollbar.runtime.client import Client
from tollbar.runtime.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
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
    pod_groups: Store
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
        refused = await act_on_group(facts, plan.pod_group, deps)
        if refused is not None:
            facts = replace(facts, pod_group_refused=refused)
            plan = workloadclaims.decide(facts, deps.manager.clock.now())
        await act(facts, plan, deps)
    except AlreadyExists:
        return Requeue("StaleView")
    except ApiError as error:
        if not (isinstance(error, Forbidden) or error.refused):
            raise
        return await _refused(facts, error, deps)
    outcome = await deps.status.write(obj, plan.status)
    return RetryAfter(RECHECK) if refused is not None and outcome == DONE else outcome


def gather(key: Key, obj: Object, deps: Deps) -> WorkloadClaimFacts:
    parsed = parse_workload_claim(obj)
    claim = template = state = None
    if isinstance(parsed, WorkloadClaim):
        claim_key = Key(key.namespace, parsed.claim_name)
        claim, state = deps.claims.get(claim_key), deps.states.get(claim_key)
        if name := parsed.spec.resource_claim_template_name:
            template = deps.templates.get(Key(key.namespace, name))
    return WorkloadClaimFacts(
        obj, parsed, claim, template, state, deps.status.written(key), pod_group=deps.pod_groups.get(key)
    )


async def act_on_group(facts: WorkloadClaimFacts, plan: PodGroupPlan, deps: Deps) -> Condition | None:
    """Create or delete the PodGroup; why that was not possible, None if it was, or there was nothing to do."""
    try:
        if plan.delete is not None:
            await _delete_group(plan.delete, deps)
        if plan.create is not None and isinstance(facts.parsed, WorkloadClaim):
            return await _create_group(plan.create, facts.parsed, deps.manager.client)
    except AlreadyExists:
        raise
    except ApiError as error:
        if not (isinstance(error, Forbidden) or error.refused):
            raise
        return podgroups.is_refused(error.excerpt)
    return None


async def _delete_group(group: Object, deps: Deps) -> None:
    key = key_of(group)
    try:
        await deps.manager.client.delete(deps.pod_groups.resource, key.name, key.namespace, uid=uid_of(group))
    except (NotFound, Conflict):
        return
    _log.info("deleted the PodGroup", extra={"object": str(key)})


async def _create_group(group: Object, wanted: WorkloadClaim, client: Client) -> Condition | None:
    """It is tried without effect first: what the API server drops would be missed only once it is there."""
    served = await detection.pod_groups(client)
    if served is None:
        return podgroups.not_served()
    body, namespace = {**group, "apiVersion": served.api_version}, key_of(group).namespace
    tried = await client.raw("POST", served.path(namespace), orjson.dumps(body), query={"dryRun": "All"})
    if (problem := podgroups.answered(orjson.loads(tried), wanted)) is not None:
        return problem
    await client.create(served, body)
    _log.info("created the PodGroup", extra={"object": str(key_of(group))})
    return None


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
