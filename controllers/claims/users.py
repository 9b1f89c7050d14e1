"""One Pod or PodGroup: create the claims that it misses, record them in its status, reserve those of a bound Pod."""

from typing import Final

from controllers import claimwrites
from controllers.claims.deps import Deps
from tollbar import wellknown
from tollbar.decide.claims import consumers, events
from tollbar.decide.claims.consumers import ConsumerFacts, ConsumerPlan, Creation, statuses
from tollbar.model import claims
from tollbar.model.objects import Key, Object, controller_of, key_of, uid_of
from tollbar.model.plan import DONE, Event, Failed, Outcome
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime import pager
from tollbar.runtime.client import PatchType
from tollbar.runtime.errors import ApiError, Invalid, NotFound, ServerError, Unreachable
from tollbar.runtime.retry import READ
from tollbar.runtime.store import Store

_SHOWN: Final = 400
"""Characters of a refusal that an Event shows."""


async def reconcile(key: Key, store: Store, deps: Deps) -> Outcome:
    """`store` holds the Pods or the PodGroups."""
    user = store.get(key)
    doubt = (store.resource.kind, key)
    if user is None:
        deps.doubtful.discard(doubt)
        return DONE
    if doubt in deps.doubtful:
        await _look_for_claims_of(user, deps)
        deps.doubtful.discard(doubt)
    plan = consumers.decide(ConsumerFacts(user, deps.view))
    absent: frozenset[Key] = frozenset()
    if plan.questions:
        absent = await _absent(plan.questions, deps)
        plan = consumers.decide(ConsumerFacts(user, deps.view, absent))
    if plan.creations and await deps.learn(key.namespace):
        plan = consumers.decide(ConsumerFacts(user, deps.view, absent))
    return await _act(user, plan, store, deps)


async def _act(user: Object, plan: ConsumerPlan, store: Store, deps: Deps) -> Outcome:
    recorded = dict(plan.found)
    for creation in plan.creations:
        try:
            recorded[creation.reference] = key_of(await _create(creation, deps)).name
        except ApiError as error:
            return _not_created(user, creation, error, deps)
    if plan.failure is not None:
        return _fail(user, plan.failure, deps)
    try:
        if recorded:
            store.assume(await _record(user, recorded, store, deps))
        for reservation in plan.reservations:
            await claimwrites.reserve(deps.client, deps.view.caches.claims, reservation.claim, reservation.entry)
    except Invalid as error:
        if claimwrites.is_denied(error):
            raise
        return claimwrites.STALE  # not allocated any more, being deleted, full, or another object of the name
    except ApiError as error:
        return claimwrites.outcome_of(error)
    return DONE


async def _look_for_claims_of(user: Object, deps: Deps) -> None:
    """Find by its owner what an unanswered creation may have left: a second one would be one too many."""
    async for claim in pager.every(deps.client, RESOURCE_CLAIMS, key_of(user).namespace):
        if (controller_of(claim) or {}).get("uid") == uid_of(user):
            deps.view.created.add(claim)


async def _absent(questions: tuple[Key, ...], deps: Deps) -> frozenset[Key]:
    """Which of these claims do not exist; the others are in the view from here on."""
    absent = set()
    for key in questions:
        try:
            deps.view.created.add(await READ(deps.client.get, RESOURCE_CLAIMS, key.name, key.namespace))
        except NotFound:
            absent.add(key)
    return frozenset(absent)


async def _create(creation: Creation, deps: Deps) -> Object:
    owner = controller_of(creation.claim) or {}
    group, _, _version = str(owner.get("apiVersion")).rpartition("/")
    labels = (str(claims.has_admin_access(creation.claim)).lower(), group, str(owner.get("kind")))
    counter = deps.metrics.counter("dynamic_resource_allocation_resourceclaim_creates_total")
    try:
        claim = await deps.client.create(RESOURCE_CLAIMS, creation.claim)
    except ApiError:
        counter.labels("failure", *labels).inc()
        raise
    counter.labels("success", *labels).inc()
    deps.view.created.add(claim)
    return claim


def _not_created(user: Object, creation: Creation, error: ApiError, deps: Deps) -> Outcome:
    """Never repeated blindly: whether a lost answer was a success is looked up before the next attempt."""
    if isinstance(error, Unreachable | ServerError):
        deps.doubtful.add((user["kind"], key_of(user)))
    why = f"create ResourceClaim: {error.message[:_SHOWN]}"
    failed = _fail(user, events.failed_claim_creation(user["kind"], creation.reference, why), deps)
    if error.refused:
        return failed
    raise error


async def _record(user: Object, recorded: dict[str, str], store: Store, deps: Deps) -> Object:
    """The user with these claims in its status, written as its only field manager."""
    key = key_of(user)
    body = {
        "apiVersion": user["apiVersion"],
        "kind": user["kind"],
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid_of(user)},
        "status": {"resourceClaimStatuses": statuses(user, recorded)},
    }
    return await deps.client.patch(
        store.resource,
        key.name,
        body,
        namespace=key.namespace,
        patch_type=PatchType.APPLY,
        subresource="status",
        field_manager=wellknown.CLAIMS_FIELD_MANAGER,
        force=True,
    )


def _fail(user: Object, failure: Event, deps: Deps) -> Outcome:
    deps.recorder.emit(user, failure)
    return Failed(failure.reason)
