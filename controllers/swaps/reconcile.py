"""Reconciles one running Pod: gathers its claims, decides, tells of what is not justified, evicts it if configured."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from tollbar.decide.pods import swaps
from tollbar.decide.pods.package import assemble
from tollbar.decide.pods.swaps import SwapFacts, SwapPlan
from tollbar.model import claims, resources, tolerations
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.objects import Key, Object, uid_of
from tollbar.model.plan import DONE, Failed, Outcome, RetryAfter
from tollbar.runtime.asking import Asker, TooMuch
from tollbar.runtime.errors import Conflict, Forbidden, NotFound, TooManyRequests
from tollbar.runtime.events import Recorder
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.gatherer import Gatherer
from tollbar.views.lookup import WholeClaims

_log: Final = logging.getLogger(__name__)

BUDGET_AGAIN: Final = 5.0
"""Seconds until a Pod that a PodDisruptionBudget keeps is tried again."""
FORBIDDEN_AGAIN: Final = 300.0
"""Seconds, at most, until an eviction that is forbidden is tried again."""


@dataclass(frozen=True, slots=True)
class Deps:
    """`told` are the uids of the Pods that have been told of, each once while it is there; `judged` is what was decided
    about Pods for which something had to be read, and on which basis (`swaps.basis`).  Both outlive the lease."""

    manager: Manager
    consumers: Store
    gatherer: Gatherer
    recorder: Recorder
    asker: Asker
    told: dict[Key, str] = field(default_factory=dict)
    judged: dict[Key, tuple[Hashable, SwapPlan]] = field(default_factory=dict)

    def known(self) -> set[Key]:
        """The Pods of which something is kept, some of which may be gone when this process leads again."""
        return {*self.told, *self.judged}


async def reconcile(key: Key, deps: Deps) -> Outcome:
    pod = deps.consumers.get(key)
    if pod is None:
        deps.told.pop(key, None)
        deps.judged.pop(key, None)
        return DONE
    plan = await _decided(key, pod, deps)
    if not plan.unjustified:
        return DONE
    _tell(key, pod, plan, deps)
    return await _evict(pod, deps) if deps.manager.configuration.on_unjustified_toleration == "Evict" else DONE


async def _decided(key: Key, pod: Object, deps: Deps) -> SwapPlan:
    """The plan; where something had to be read for it, as it was decided before if nothing has changed since: an
    eviction may be tried for hours."""
    facts = gather(pod, {}, deps, whole=False)
    basis = swaps.basis(facts, deps.gatherer.lookup.classes.values())
    if key in deps.judged:
        earlier, plan = deps.judged[key]
        if earlier == basis:
            return plan
    asked: list[object] = []

    def decision(answers: Answers) -> SwapPlan | Ask:
        whole = answers.get(Get(resources.PODS, key))
        if isinstance(whole, Absence) or (whole is not None and uid_of(whole) != uid_of(pod)):
            return swaps.NOTHING
        if not answers:
            return swaps.decide(facts)
        return swaps.decide(gather(pod if whole is None else whole, answers, deps, whole=whole is not None))

    try:
        plan = await deps.asker.decide(decision, lambda question, _: asked.append(question))
    except TooMuch:
        _log.warning("the claims that a Pod runs with are too large to be judged", extra={"object": str(key)})
        plan = swaps.NOTHING
    if asked:
        deps.judged[key] = basis, plan
    return plan


def gather(pod: Object, answers: Answers, deps: Deps, *, whole: bool) -> SwapFacts:
    """The facts about this Pod.  A claim from a template counts as none until the Pod's status names it."""
    gatherer, known = deps.gatherer, WholeClaims(deps.gatherer.lookup, answers)
    namespace = (pod.get("metadata") or {}).get("namespace") or ""
    named: list[Object | None] = []
    generated: list[Object | None] = []
    for reference, name in claims.resolved(pod):
        if name is claims.Unresolved.NOT_NEEDED:
            continue
        claim = known.claim(Key(namespace, name)) if isinstance(name, str) else None
        (generated if reference.get("resourceClaimTemplateName") else named).append(claim)
    return SwapFacts(
        package=assemble(pod, known),
        named=named,
        generated=generated,
        rules=gatherer.ruleset.rules,
        engine=gatherer.ruleset.engine,
        selector=gatherer.ruleset.selector,
        whole=whole,
    )


def _tell(key: Key, pod: Object, plan: SwapPlan, deps: Deps) -> None:
    if deps.told.get(key) == uid_of(pod):
        return
    deps.told[key] = uid_of(pod)
    for event in plan.events:
        deps.recorder.emit(pod, event)
    for each in plan.unjustified:
        deps.manager.metrics.counter("tollbar_tolerations_unjustified_total").labels(each.rule).inc()
        _log.warning(
            "the claims that a Pod runs with do not justify a toleration",
            extra={"object": str(key), "rule": each.rule, "toleration": tolerations.text(each.toleration)},
        )


async def _evict(pod: Object, deps: Deps) -> Outcome:
    evictions = deps.manager.metrics.counter("tollbar_evictions_total")
    try:
        await deps.manager.client.evict(pod)
    except (NotFound, Conflict):
        return DONE  # it is gone
    except TooManyRequests as error:
        evictions.labels("budget" if error.by_disruption_budget else "failed").inc()
        return RetryAfter(BUDGET_AGAIN)
    except Forbidden as error:
        evictions.labels("failed").inc()
        _log.warning("the Pod may not be evicted", extra={"error": str(error)})
        return Failed("EvictionForbidden", FORBIDDEN_AGAIN)
    evictions.labels("evicted").inc()
    _log.info("evicted", extra={"uid": uid_of(pod)})
    return DONE
