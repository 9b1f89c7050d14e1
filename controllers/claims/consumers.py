"""Reconciles one Pod or PodGroup: creates missing claims, records them in its status, reserves those of a bound Pod."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from controllers.claims.deps import Deps
from tollbar import wellknown
from tollbar.decide.claims import consumers, events
from tollbar.decide.claims.consumers import ConsumerFacts, ConsumerPlan, Creation, statuses
from tollbar.decide.claims.devicetolerations import DeviceTolerationPlan
from tollbar.model import claims
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.objects import Key, Object, controller_of, key_of, uid_of
from tollbar.model.plan import DONE, STALE, Event, Failed, Outcome, RetryAfter
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime import asking, claimwrites
from tollbar.runtime.asking import TooMuch
from tollbar.runtime.client import PatchType, as_text
from tollbar.runtime.creating import turn
from tollbar.runtime.errors import ApiError, Invalid, ServerError, Unreachable
from tollbar.runtime.store import Store

HELD_BACK: Final = RetryAfter(1.0)
TURN: Final = 0.5
"""Seconds after which a worker that reads templates to create claims is given back: few may read at one time, and a
tenant's Pods that refer to many such templates leave the workers to other namespaces in between.  Not after each claim,
since the next decision takes 0.1 s where a Pod refers to ten thousand."""
NEXT: Final = RetryAfter(0.0)
"""Then, without back-off: the cache has the claims."""


@dataclass(frozen=True, slots=True)
class _New:
    """A claim to create, with its tolerations, and the labels that count it."""

    plan: DeviceTolerationPlan
    labels: tuple[str, str, str]


async def reconcile(key: Key, store: Store, deps: Deps) -> Outcome:
    """`store` holds the Pods or the PodGroups."""
    consumer = store.get(key)
    if consumer is None:
        deps.unseen.forget(store.resource.kind, key)
        return DONE

    def decision(answers: Answers) -> ConsumerPlan | Ask:
        facts = ConsumerFacts(consumer, deps.lookup, answers=answers, resource=store.resource)
        itself = (facts.itself,) if deps.competing.was_seen else ()
        return consumers.decide(replace(facts, before_creating=(*deps.unseen.questions(consumer), *itself)))

    try:
        plan = await deps.asker.decide(decision, partial(deps.unseen.learn, consumer=consumer))
    except TooMuch as error:
        return _fail(consumer, consumers.too_much(consumer, error.question, asking.MOST_BYTES), deps)
    if not plan.creations:
        deps.unseen.forget(consumer["kind"], key)
    return await _act(consumer, plan, store, deps)


async def _act(consumer: Object, plan: ConsumerPlan, store: Store, deps: Deps) -> Outcome:
    recorded, clock = dict(plan.found), deps.manager.clock
    ends = clock.monotonic() + TURN
    for creation in plan.creations:
        if deps.competing.holds:
            return HELD_BACK
        try:
            created = await _create(creation, consumer, deps)
        except ApiError as error:
            return _not_created(consumer, creation, error, deps)
        if not isinstance(created, str):
            return created
        recorded[creation.reference] = created
        is_last = creation is plan.creations[-1]
        if isinstance(creation.claim, Get) and not is_last and clock.monotonic() >= ends:
            return NEXT
    if plan.failure is not None:
        return _fail(consumer, plan.failure, deps)
    try:
        if recorded:
            store.assume(await _record(consumer, recorded, store, deps))
        for reservation in plan.reservations:
            deps.lookup.claims.assume(
                await claimwrites.reserve(deps.manager.client, reservation.claim, reservation.entry)
            )
    except Invalid as error:
        if claimwrites.is_denied(error):
            raise
        return STALE  # not allocated any more, being deleted, full, or another object of the name
    except ApiError as error:
        return claimwrites.outcome_of(error)
    return DONE


async def _create(creation: Creation, consumer: Object, deps: Deps) -> str | Outcome:
    """The name of the new claim; or why there is none, such as that its template is gone, which the cache is about to
    show, or that somebody else has begun to generate claims while this one waited for its turn."""

    def make(template: Object | Absence) -> _New | None:
        if isinstance(template, Absence):
            return None
        new = _new(consumers.new_claim(consumer, creation.reference, template), deps)
        return replace(new, plan=replace(new.plan, obj=as_text(new.plan.obj)))  # for as long as it is being created

    async with turn(deps.manager.creating, creation.claim):
        given = creation.claim
        new = await deps.asker.read(given, make) if isinstance(given, Get) else _new(given, deps)
        if new is None:
            return STALE
        if deps.competing.holds or not deps.takeover.works:
            return HELD_BACK
        return await _post(new, deps)


def _new(claim: Object, deps: Deps) -> _New:
    owner = controller_of(claim) or {}
    group, _, _version = str(owner.get("apiVersion")).rpartition("/")
    labels = (str(claims.has_admin_access(claim)).lower(), group, str(owner.get("kind")))
    return _New(deps.tolerations.decide(claim), labels)


async def _post(new: _New, deps: Deps) -> str:
    counter = deps.manager.metrics.counter("dynamic_resource_allocation_resourceclaim_creates_total")
    try:
        claim = await deps.manager.leader_client.create(RESOURCE_CLAIMS, new.plan.obj)
    except ApiError:
        counter.labels("failure", *new.labels).inc()
        raise
    counter.labels("success", *new.labels).inc()
    deps.tolerations.created(new.plan)
    deps.lookup.claims.assume(claim, created=True)
    return key_of(claim).name


def _not_created(consumer: Object, creation: Creation, error: ApiError, deps: Deps) -> Outcome:
    """After a lost answer to the creation, the next attempt first checks whether the claim was created."""
    is_read = error.method == "GET"
    if isinstance(error, Unreachable | ServerError) and not is_read:
        deps.unseen.lost(consumer)
    why = f"{'read its template' if is_read else 'create ResourceClaim'}: {error.excerpt}"
    failed = _fail(consumer, events.failed_claim_creation(consumer["kind"], creation.reference, why), deps)
    if error.refused:
        return failed
    raise error


async def _record(consumer: Object, recorded: dict[str, str], store: Store, deps: Deps) -> Object:
    """Write these claims to the consumer's status by server-side apply; returns the consumer."""
    key = key_of(consumer)
    body = {
        "apiVersion": consumer["apiVersion"],
        "kind": consumer["kind"],
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid_of(consumer)},
        "status": {"resourceClaimStatuses": statuses(consumer, recorded)},
    }
    return await deps.manager.client.patch(
        store.resource,
        key.name,
        body,
        namespace=key.namespace,
        patch_type=PatchType.APPLY,
        subresource="status",
        field_manager=wellknown.CLAIMS_FIELD_MANAGER,
        force=True,
    )


def _fail(consumer: Object, failure: Event, deps: Deps) -> Outcome:
    deps.recorder.emit(consumer, failure)
    return Failed(failure.reason)
