"""One Pod: gather its package, decide, write at most one patch."""

import logging
from dataclasses import dataclass
from typing import Final

from controllers.gates.refusals import Refusals
from tollbar.decide.pods import gates
from tollbar.decide.pods.gates import GateFacts, GatePlan
from tollbar.decide.pods.package import assemble
from tollbar.decide.rules import events
from tollbar.model import resources, timestamps
from tollbar.model.objects import Key, Object, metadata
from tollbar.model.plan import DONE, Outcome, Requeue
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Conflict, Invalid, NotFound
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics
from tollbar.views.caches import PodCaches
from tollbar.views.matches import Matches

_log: Final = logging.getLogger(__name__)
_SHOWN: Final = 400
"""Characters of a refusal that an Event shows: a strict field validation answers with the whole Pod."""


@dataclass(frozen=True, slots=True)
class Deps:
    client: Client
    caches: PodCaches
    recorder: Recorder
    metrics: Metrics
    matches: Matches
    clock: Clock
    refusals: Refusals


async def reconcile(key: Key, deps: Deps) -> Outcome:
    facts = gather(key, deps)
    if facts is None:
        return DONE
    plan = gates.decide(facts, deps.clock.now())
    deps.matches.record(key, plan.matched)
    return await act(key, facts, plan, deps)


def gather(key: Key, deps: Deps) -> GateFacts | None:
    """The facts about this Pod, None when it is gone or has got a node."""
    caches = deps.caches
    pod = caches.pods.get(key)
    if pod is None:
        return None
    return GateFacts(
        package=assemble(pod, caches),
        rules=caches.ruleset.rules,
        engine=caches.ruleset.engine,
        selector=caches.ruleset.selector,
        managed=caches.is_managed(key.namespace),
        policy=caches.gate_policy(),
        ready=caches.synced,
        refusal=deps.refusals.of(pod),
    )


async def act(key: Key, facts: GateFacts, plan: GatePlan, deps: Deps) -> Outcome:
    pod = facts.package.pod
    if plan.patch:
        try:
            await _patch(key, plan, gates.expected(facts, plan), deps)
        except ApiError as error:
            if not error.refused:
                return _not_patched(error)
            plan = gates.refused(facts, plan, error.message[:_SHOWN], deps.clock.now())
            if plan.refusal is not None:
                deps.refusals.remember(pod, plan.refusal)
    _report(key, pod, plan, deps)
    return plan.outcome


async def _patch(key: Key, plan: GatePlan, foreseen: Object | None, deps: Deps) -> None:
    caches = deps.caches
    if foreseen is not None:
        caches.foreseen[key] = foreseen
    try:
        caches.pods.assume(await deps.client.patch(resources.PODS, key.name, plan.patch, namespace=key.namespace))
    finally:
        caches.foreseen.pop(key, None)


def _not_patched(error: ApiError) -> Outcome:
    """A stale view is an ordinary outcome."""
    if isinstance(error, NotFound):
        return DONE
    if isinstance(error, Conflict | Invalid):
        return Requeue("StaleView")
    raise error


def _report(key: Key, pod: Object, plan: GatePlan, deps: Deps) -> None:
    """Events and metrics of a plan that is done, or of what a refusal left of it: all of it comes from the plan."""
    for event in plan.events:
        deps.recorder.emit(pod, event)
    for addition in plan.additions:
        added = deps.metrics.counter("tollbar_tolerations_added_total").labels(addition.rule, plan.via)
        added.inc(len(addition.tolerations))
    for name, why in plan.failed:
        deps.metrics.counter("tollbar_rule_errors_total").labels(rule=name, reason="EvaluationFailed").inc()
        rule = deps.caches.rules.get(Key("", name))
        if rule is not None:
            deps.recorder.emit(rule, events.rule_failing(why))
    if plan.released:
        created = timestamps.parse(metadata(pod)["creationTimestamp"])
        deps.metrics.histogram("tollbar_gate_hold_seconds").observe(max(0.0, deps.clock.now() - created))
        _log.info(
            "Released",
            extra={"object": str(key), "because": [*map(str, plan.because)], "rules": [a.rule for a in plan.additions]},
        )
