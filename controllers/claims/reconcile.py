"""One key of the claims controller: a Pod or PodGroup (`users`), or a claim: free it, delete it if its Pod is done.

Gather, decide, act: the decisions are `tollbar.decide.claims.resourceclaims` and `tollbar.decide.claims.consumers`.
"""

import asyncio

from controllers import claimwrites
from controllers.claims import users
from controllers.claims.deps import Deps
from controllers.claims.mappers import ClaimKey
from tollbar.decide.claims import resourceclaims
from tollbar.decide.claims.resourceclaims import ClaimFacts, ClaimPlan, is_done
from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.plan import DONE, Outcome
from tollbar.model.resources import PODS, RESOURCE_CLAIMS
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.runtime.retry import READ


async def reconcile(key: ClaimKey, deps: Deps) -> Outcome:
    caches = deps.view.caches
    match key.kind:
        case "Pod":
            return await users.reconcile(key.key, caches.claim_users, deps)
        case "PodGroup":
            return await users.reconcile(key.key, caches.pod_groups, deps)
        case _:
            return await reconcile_claim(key.key, deps)


async def reconcile_claim(key: Key, deps: Deps) -> Outcome:
    claim = deps.view.caches.claims.get(key)
    if claim is None:
        return DONE
    plan = resourceclaims.decide(ClaimFacts(claim, deps.view))
    if plan.questions:
        plan = resourceclaims.decide(ClaimFacts(claim, deps.view, await _answers(claim, plan.questions, deps)))
    try:
        await _act(claim, plan, deps)
    except ApiError as error:
        return claimwrites.outcome_of(error)
    return DONE


async def _act(claim: Object, plan: ClaimPlan, deps: Deps) -> None:
    caches, key, uid = deps.view.caches, key_of(claim), uid_of(claim)
    if plan.delete:
        caches.deleted.add(uid)  # or every change until the watch shows it gone would have it deleted again
    try:
        if plan.deallocation is not None:
            await claimwrites.perform(deps.client, caches.claims, claim, plan.deallocation)
        if plan.delete:
            await deps.client.delete(RESOURCE_CLAIMS, key.name, key.namespace, uid=uid)
    except BaseException:
        caches.deleted.discard(uid)
        raise


async def _answers(claim: Object, entries: tuple[Object, ...], deps: Deps) -> dict[str, bool]:
    """Whether the consumers behind these entries are gone, by uid.  One that cannot be told stops everything."""
    gone = await asyncio.gather(*(_is_gone(key_of(claim).namespace, entry, deps) for entry in entries))
    return {entry["uid"]: is_gone for entry, is_gone in zip(entries, gone, strict=True)}


async def _is_gone(namespace: str, entry: Object, deps: Deps) -> bool:
    resource = PODS if claims.is_pod_entry(entry) else deps.view.caches.pod_groups.resource
    try:
        found: Object = await READ(deps.client.get, resource, entry["name"], namespace)
    except NotFound as error:
        # Without the name it is the kind that is not served: then nobody knows.
        return bool(error.details.get("name") == entry["name"])
    return uid_of(found) != entry["uid"] or is_done(found)
