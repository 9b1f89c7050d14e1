"""Reconciles one key of the claims controller: a Pod or PodGroup (see `consumers`), or a claim, which is deallocated
and deleted when its Pods are done.

The decisions are `tollbar.decide.claims.resourceclaims` and `tollbar.decide.claims.consumers`.
"""

from controllers.claims import consumers, probe
from controllers.claims.deps import Deps
from controllers.claims.mappers import ClaimKey
from tollbar.decide.claims import resourceclaims
from tollbar.decide.claims.resourceclaims import ClaimFacts, ClaimPlan
from tollbar.model.ask import Answers, Ask
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.plan import DONE, Outcome
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime import claimwrites
from tollbar.runtime.errors import ApiError


async def reconcile(key: ClaimKey, deps: Deps) -> Outcome:
    """Drops keys while somebody else generates claims; `Controller.resync` adds them again afterwards."""
    if not deps.takeover.works:
        return DONE
    match key.kind:
        case "Pod":
            pod = deps.pending.get(key.key)
            if pod is not None and probe.is_probe(pod, deps.manager.instance):
                return DONE
            return await consumers.reconcile(key.key, deps.lookup.consumers, deps)
        case "PodGroup":
            return await consumers.reconcile(key.key, deps.lookup.pod_groups, deps)
        case _:
            return await _reconcile_claim(key.key, deps)


async def _reconcile_claim(key: Key, deps: Deps) -> Outcome:
    claim = deps.lookup.claim(key)
    if claim is None:
        return DONE

    def decision(answers: Answers) -> ClaimPlan | Ask:
        return resourceclaims.decide(ClaimFacts(claim, deps.lookup, deps.lookup.pod_groups.resource, answers))

    plan = await deps.asker.decide(decision)
    try:
        await _act(claim, plan, deps)
    except ApiError as error:
        return claimwrites.outcome_of(error)
    return DONE


async def _act(claim: Object, plan: ClaimPlan, deps: Deps) -> None:
    lookup, key, uid = deps.lookup, key_of(claim), uid_of(claim)
    if plan.delete:
        lookup.deleted.add(uid)  # or every change until the DELETED event would delete it again
    try:
        if plan.deallocation is not None:
            lookup.claims.assume(await claimwrites.perform(deps.manager.client, claim, plan.deallocation))
        if plan.delete:
            await deps.manager.client.delete(RESOURCE_CLAIMS, key.name, key.namespace, uid=uid)
    except BaseException:
        lookup.deleted.discard(uid)
        raise
