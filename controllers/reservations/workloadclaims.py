"""Reconciles one WorkloadClaim: makes or annotates its ResourceClaim, its PodGroup, and writes its own status."""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import orjson

from controllers.status import StatusWriter
from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims import podgroups, workloadclaims
from tollbar.decide.claims.devicetolerations import DeviceTolerationPlan
from tollbar.decide.claims.podgroups import PodGroupPlan
from tollbar.decide.claims.reservations import RECHECK, State
from tollbar.decide.claims.workloadclaims import WorkloadClaimFacts, WorkloadClaimPlan
from tollbar.model import resources
from tollbar.model.ask import Absence, Get
from tollbar.model.conditions import Condition
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.plan import DONE, STALE, Outcome, RetryAfter
from tollbar.runtime import claimwrites
from tollbar.runtime.asking import Asker
from tollbar.runtime.client import as_text, decoded
from tollbar.runtime.clock import Clock
from tollbar.runtime.creating import turn
from tollbar.runtime.detection import ServedPodGroups
from tollbar.runtime.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.reservations import ReservationStates

_log: Final = logging.getLogger(__name__)


class PodGroupRefusals:
    """Why the PodGroup of a WorkloadClaim could not be created or deleted.

    Remembered for one generation of the WorkloadClaim and for `RECHECK` seconds, so that not each change of the claim
    asks the API server again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Key, tuple[tuple[str, int], float, Condition]] = {}

    def get(self, obj: Object) -> Condition | None:
        asked, until, why = self._known.get(key_of(obj), (None, 0.0, None))
        return why if asked == _generation(obj) and self._clock.monotonic() < until else None

    def remember(self, obj: Object, why: Condition) -> None:
        self._known[key_of(obj)] = (_generation(obj), self._clock.monotonic() + RECHECK, why)

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)


def _generation(obj: Object) -> tuple[str, int]:
    return uid_of(obj), metadata(obj).get("generation", 0)


@dataclass(frozen=True, slots=True)
class Deps:
    """`served` tells in which version PodGroups are served; `states` are those of the claims' reservations."""

    manager: Manager
    claims: Store
    templates: Store
    workload_claims: Store
    pod_groups: Store
    served: ServedPodGroups
    states: ReservationStates
    status: StatusWriter
    refusals: PodGroupRefusals
    tolerations: DeviceTolerations
    asker: Asker


class _TemplateGone(Exception):
    """The template of which the cache has a stub is gone, which the cache is about to show."""


async def reconcile(key: Key, deps: Deps) -> Outcome:
    """Writes the claim, then its PodGroup, then the status, which also says what the API server has refused."""
    obj = deps.workload_claims.get(key)
    if obj is None:
        deps.status.forget(key)
        deps.refusals.forget(key)
        return DONE
    facts = gather(key, obj, deps)
    plan = workloadclaims.decide(facts, deps.manager.clock.now())
    claim_refused: ApiError | None = None
    try:
        await act(facts, plan, deps)
    except (AlreadyExists, _TemplateGone):
        return STALE
    except ApiError as error:
        if not error.refused:
            raise
        claim_refused = error
    group_refused = facts.pod_group_refused
    if group_refused is None:
        group_refused = await act_on_group(facts, plan.pod_group, deps)
        if group_refused is not None:
            deps.refusals.remember(obj, group_refused)
            plan = workloadclaims.decide(replace(facts, pod_group_refused=group_refused), deps.manager.clock.now())
    if claim_refused is not None:
        return await _report_refusal(facts, plan.pod_group, claim_refused, deps)
    outcome = await deps.status.write(obj, plan.status)
    return RetryAfter(RECHECK) if group_refused is not None and outcome == DONE else outcome


def gather(key: Key, obj: Object, deps: Deps) -> WorkloadClaimFacts:
    """The facts about this WorkloadClaim, from the caches."""
    parsed = parse_workload_claim(obj)
    claim = template = state = None
    if isinstance(parsed, WorkloadClaim):
        claim_key = Key(key.namespace, parsed.claim_name)
        claim, state = deps.claims.get(claim_key), deps.states.get(claim_key)
        if name := parsed.spec.resource_claim_template_name:
            template = deps.templates.get(Key(key.namespace, name))
    return WorkloadClaimFacts(
        obj,
        parsed,
        claim,
        template,
        state,
        deps.status.written(key),
        pod_group=deps.pod_groups.get(key),
        pod_group_refused=deps.refusals.get(obj),
    )


async def act_on_group(facts: WorkloadClaimFacts, plan: PodGroupPlan, deps: Deps) -> Condition | None:
    """Create or delete the PodGroup; why that could not be done, None if it was or need not be."""
    try:
        if plan.delete is not None:
            await _delete_group(plan.delete, deps)
        elif plan.create is not None and isinstance(facts.parsed, WorkloadClaim):
            return await _create_group(plan.create, facts.parsed, deps)
    except ApiError as error:
        if not error.refused:
            raise
        return podgroups.is_refused(error.excerpt)
    return None


async def _delete_group(found: Object, deps: Deps) -> None:
    key = key_of(found)
    with suppress(NotFound, Conflict):
        await deps.manager.client.delete(deps.pod_groups.resource, key.name, key.namespace, uid=uid_of(found))
        _log.info("deleted the PodGroup", extra={"object": str(key)})


async def _create_group(group: Object, asked: WorkloadClaim, deps: Deps) -> Condition | None:
    """It is tried without effect first: what the API server drops would be missed only once it is there."""
    client = deps.manager.client
    served = await deps.served.resource()
    if served is None:
        return podgroups.not_served()
    wanted, namespace = {**group, "apiVersion": served.api_version}, key_of(group).namespace
    try:
        tried = await client.raw("POST", served.path(namespace), orjson.dumps(wanted), query={"dryRun": "All"})
        if (problem := podgroups.answered(decoded("POST", tried), asked)) is not None:
            return problem
        deps.pod_groups.assume(await client.create(served, wanted), created=True)
    except AlreadyExists:
        return None  # the watch is about to show it
    _log.info("created the PodGroup", extra={"object": str(key_of(wanted))})
    return None


async def act(facts: WorkloadClaimFacts, plan: WorkloadClaimPlan, deps: Deps) -> None:
    """Create the ResourceClaim, or annotate it.  Raises ApiError, and _TemplateGone."""
    if plan.create is not None:
        async with turn(deps.manager.creating, plan.create):
            if isinstance(plan.create, Get):
                await _post(await _of_template(plan.create, facts, deps), deps)
            else:
                await _post(deps.tolerations.decide(plan.create), deps)
    if plan.annotate is not None and facts.claim is not None:
        deps.claims.assume(await claimwrites.annotate(deps.manager.client, facts.claim, plan.annotate))


async def _of_template(asked: Get, facts: WorkloadClaimFacts, deps: Deps) -> DeviceTolerationPlan:
    """With the claim as text: its template is too large to be in memory for as long as the API server works on it."""

    def make(template: Object | Absence) -> DeviceTolerationPlan:
        if isinstance(template, Absence) or not isinstance(facts.parsed, WorkloadClaim):
            raise _TemplateGone
        given = deps.tolerations.decide(workloadclaims.claim_for(facts.obj, facts.parsed, template))
        return replace(given, obj=as_text(given.obj))

    return await deps.asker.read(asked, make)


async def _post(given: DeviceTolerationPlan, deps: Deps) -> None:
    await deps.manager.client.create(resources.RESOURCE_CLAIMS, given.obj)
    deps.tolerations.created(given)
    _log.info("created the claim", extra={"object": str(key_of(given.obj))})


async def _report_refusal(facts: WorkloadClaimFacts, group: PodGroupPlan, error: ApiError, deps: Deps) -> Outcome:
    """Say in the status that the API server refuses the claim, and try again later."""
    reason = ReservedReason.PERMISSION_DENIED if isinstance(error, Forbidden) else ReservedReason.INVALID_SPEC
    status = workloadclaims.status_of(facts, State(False, reason, str(error)), deps.manager.clock.now(), group)
    await deps.status.write(facts.obj, status)
    return RetryAfter(RECHECK)
