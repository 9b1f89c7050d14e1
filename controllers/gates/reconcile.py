"""Reconciles one Pod: gathers its package, decides, writes at most one patch."""

import logging
from dataclasses import dataclass
from typing import Final

from controllers.gates.refusals import Refusals
from tollbar.decide.pods import gates
from tollbar.decide.pods.gates import GateFacts, GatePlan
from tollbar.decide.rules import events
from tollbar.model import resources, timestamps, tolerations
from tollbar.model.objects import Key, Object, metadata
from tollbar.model.plan import DONE, Outcome, Requeue
from tollbar.runtime.errors import ApiError, Conflict, Invalid, NotFound
from tollbar.runtime.events import Recorder
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deps:
    """`expected` are Pods as the patches being sent will leave them: a watch event may arrive before the answer."""

    manager: Manager
    pods: Store
    gatherer: Gatherer
    recorder: Recorder
    matches: Matches
    refusals: Refusals
    expected: dict[Key, Object]


async def reconcile(key: Key, deps: Deps) -> Outcome:
    facts = gather(key, deps)
    if facts is None:
        return DONE
    plan = gates.decide(facts, deps.manager.clock.now())
    _tell_matches(key, plan, deps)
    return await act(key, facts, plan, deps) if key in deps.pods else DONE


def gather(key: Key, deps: Deps) -> GateFacts | None:
    """The facts about this Pod, None when it has been decided about and is gone or has got a node."""
    pod = deps.pods.get(key) or deps.matches.departed(key)
    if pod is None:
        return None
    return deps.gatherer.gate_facts(pod, deps.refusals.of(pod))


def _tell_matches(key: Key, plan: GatePlan, deps: Deps) -> None:
    """Count the rules that had not been known to match the Pod, and log what those in Audit would add."""
    would_add = {addition.rule: addition.tolerations for addition in plan.audited}
    for rule in deps.matches.record(key, plan.matched, deps.manager.clock.now()):
        deps.manager.metrics.counter("tollbar_rule_matches_total").labels(rule.name).inc()
        if rule.mode == "Audit":
            _log.info(
                "a rule in Audit matches the Pod",
                extra={
                    "rule": rule.name,
                    "generation": rule.generation,
                    "object": str(key),
                    "wouldAdd": [*map(tolerations.text, would_add.get(rule.name, ()))],
                },
            )


async def act(key: Key, facts: GateFacts, plan: GatePlan, deps: Deps) -> Outcome:
    pod = facts.package.pod
    if plan.patch:
        try:
            await _patch(key, plan, gates.expected(facts, plan), deps)
        except ApiError as error:
            if not error.refused:
                return _not_patched(error)
            plan = gates.refused(facts, plan, error.excerpt, deps.manager.clock.now())
            if plan.refusal is not None:
                deps.refusals.remember(pod, plan.refusal)
    _report(key, pod, plan, deps)
    return plan.outcome


async def _patch(key: Key, plan: GatePlan, expected: Object | None, deps: Deps) -> None:
    if expected is not None:
        deps.expected[key] = expected
    try:
        deps.pods.assume(await deps.manager.client.patch(resources.PODS, key.name, plan.patch, namespace=key.namespace))
    finally:
        deps.expected.pop(key, None)


def _not_patched(error: ApiError) -> Outcome:
    """The outcome when the Pod is gone or the view was stale.  Raises all other errors."""
    if isinstance(error, NotFound):
        return DONE
    if isinstance(error, Conflict | Invalid):
        return Requeue("StaleView")
    raise error


def _report(key: Key, pod: Object, plan: GatePlan, deps: Deps) -> None:
    """Record the events and metrics of a plan that was carried out, or of what remains of it after a refusal."""
    metrics = deps.manager.metrics
    for event in plan.events:
        deps.recorder.emit(pod, event)
    for addition in plan.additions:
        added = metrics.counter("tollbar_tolerations_added_total").labels(addition.rule, plan.via)
        added.inc(len(addition.tolerations))
    for name, why in plan.failed:
        metrics.counter("tollbar_rule_errors_total").labels(rule=name, reason="EvaluationFailed").inc()
        rule = deps.gatherer.rules.get(Key("", name))
        if rule is not None:
            deps.recorder.emit(rule, events.rule_failing(why))
    if plan.released:
        created = timestamps.parse(metadata(pod)["creationTimestamp"])
        metrics.histogram("tollbar_gate_hold_seconds").observe(max(0.0, deps.manager.clock.now() - created))
        _log.info(
            "Released",
            extra={"object": str(key), "because": [*map(str, plan.because)], "rules": [a.rule for a in plan.additions]},
        )
