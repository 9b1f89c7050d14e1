"""One ResourceClaim: gather who keeps it and who uses it, decide, write at most its annotations and its status."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from controllers import claimwrites
from controllers.reservations.states import States
from controllers.reservations.workloads import Workloads, is_about
from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims import events, reservations
from tollbar.decide.claims.reservations import RECHECK, ReservationFacts, ReservationPlan, State
from tollbar.model import claims, resources, workloads
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.plan import DONE, Outcome, RetryAfter
from tollbar.model.workloads import Intent
from tollbar.runtime import pager
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import ApiError, Invalid, NotFound
from tollbar.runtime.events import Recorder
from tollbar.runtime.retry import READ
from tollbar.views.caches import ClaimCaches
from tollbar.views.oscillations import Oscillations

_log: Final = logging.getLogger(__name__)
_SHOWN: Final = 400
"""Characters of a refusal that an Event shows."""


@dataclass(frozen=True, slots=True)
class Deps:
    """`hot_loop`: whether kube-controller-manager's own claim controller may run beside us; `replaces`: whether we are
    to take its place and have not found it at work; `wedged_by_pins`: whether it is one that an entry of ours stops.
    """

    client: Client
    caches: ClaimCaches
    recorder: Recorder
    workloads: Workloads
    states: States
    oscillations: Oscillations
    hot_loop: Callable[[], bool]
    replaces: Callable[[], bool]
    wedged_by_pins: Callable[[], Awaitable[bool]]


async def reconcile(key: Key, deps: Deps) -> Outcome:
    claim = deps.caches.claims.get(key)
    if claim is None:
        deps.workloads.forget(key)
        deps.states.record(key, None)
        return DONE
    facts = await gather(key, claim, deps)
    plan = reservations.decide(facts)
    if plan.list_consumers:
        facts = replace(facts, consumers=await _live_users(key, deps.client), listed=True)
        plan = reservations.decide(facts)
    try:
        await act(claim, plan, deps)
    except ApiError as error:
        return _refused(claim, plan, error, deps)
    deps.states.record(key, plan.state)
    for event in plan.events:
        deps.recorder.emit(_named(claim), event)
    return plan.outcome


async def gather(key: Key, claim: Object, deps: Deps) -> ReservationFacts:
    """The facts about this claim.  Asks the API server only for what the caches lack."""
    withdrawn = await _is_withdrawn(key, claim, deps)
    intent = workloads.intent_of(claim)
    workload = None
    if isinstance(intent, Intent) and not withdrawn:
        recorded = reservations.uid_on_record(claim)
        workload = await deps.workloads.look_up(key, intent.reference, recorded)
    else:
        deps.workloads.forget(key)
    hot_loop = deps.hot_loop()  # once: it may change while the API server is asked for its version
    wedged_by_pins = hot_loop and await deps.wedged_by_pins()
    return ReservationFacts(
        claim=claim,
        workload=workload,
        consumers=deps.caches.claim_users.by_index("claim", key),
        withdrawn=withdrawn,
        replaces=deps.replaces(),
        wedged_by_pins=wedged_by_pins,
        hot_loop=hot_loop,
        oscillating=deps.oscillations.flapping(claim),
    )


async def act(claim: Object, plan: ReservationPlan, deps: Deps) -> None:
    """The annotations first, so that an entry of ours is known as ours whatever happens in between."""
    store = deps.caches.claims
    if plan.annotations:
        body = {"metadata": {"uid": uid_of(claim), "annotations": dict(plan.annotations)}}
        key = key_of(claim)
        claim = await deps.client.patch(
            resources.RESOURCE_CLAIMS, key.name, body, namespace=key.namespace, patch_type=PatchType.MERGE
        )
        store.assume(claim)
    if plan.add is not None:
        await claimwrites.reserve(deps.client, store, claim, plan.add)
    if plan.remove is not None:
        await claimwrites.perform(deps.client, store, claim, plan.remove)
    if (plan.add or plan.remove) and plan.state is not None:
        _log.info(
            "reserved" if plan.add else "released",
            extra={"object": str(key_of(claim)), "reason": plan.state.reason, "why": plan.state.message},
        )


def _refused(claim: Object, plan: ReservationPlan, error: ApiError, deps: Deps) -> Outcome:
    """A view that is out of date is ordinary; what is not permitted is said, and tried again later."""
    denied = claimwrites.is_denied(error)
    if isinstance(error, Invalid) and not denied and _is_overtaken(error):
        _log.info("the claim has changed", extra={"object": str(key_of(claim)), "error": str(error)})
        return claimwrites.STALE
    if denied or error.refused:
        held = plan.remove is not None
        return _blocked(claim, State(held, ReservedReason.PERMISSION_DENIED, error.message[:_SHOWN]), deps)
    return claimwrites.outcome_of(error)


def _is_overtaken(error: Invalid) -> bool:
    """Whether validation says that the claim is another by now: not allocated, being deleted, full, or made anew."""
    return any(str(cause.get("field")).startswith(("status.", "metadata.uid")) for cause in error.causes)


def _blocked(claim: Object, state: State, deps: Deps) -> Outcome:
    deps.recorder.emit(_named(claim), events.reservation_blocked(state.reason, state.message))
    deps.states.record(key_of(claim), state)
    _log.warning("not permitted", extra={"object": str(key_of(claim)), "why": state.message})
    return RetryAfter(RECHECK)


async def _is_withdrawn(key: Key, claim: Object, deps: Deps) -> bool:
    """Whether the intent came from a WorkloadClaim that is gone, or asks for another claim now."""
    name = workloads.workload_claim_of(claim)
    if not name:
        return False
    owner = Key(key.namespace, name)
    found: Object | None = deps.caches.workload_claims.get(owner)
    try:
        found = found or await READ(deps.client.get, resources.WORKLOAD_CLAIMS, name, key.namespace)
    except NotFound as error:
        return is_about(error, owner)
    if found is None or metadata(found).get("deletionTimestamp"):
        return False  # not yet
    parsed = parse_workload_claim(found)
    return isinstance(parsed, WorkloadClaim) and parsed.claim_name != key.name


async def _live_users(key: Key, client: Client) -> list[Object]:
    """The Pods that refer to the claim, from the API server."""
    every = pager.every(client, resources.PODS, key.namespace)
    return [pod async for pod in every if key.name in claims.names_of(pod)]


def _named(claim: Object) -> Object:
    """What an Event says that it is about: caches keep no kind."""
    kind = resources.RESOURCE_CLAIMS
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata(claim)}
