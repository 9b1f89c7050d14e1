"""Reconciles one TolerationRule: writes in its status whether it is in force and which Pods it matches."""

from dataclasses import dataclass

from controllers.status import StatusWriter
from tollbar.api.webhooks import DEVICES
from tollbar.decide.rules import rulestatus
from tollbar.decide.rules.rule import Problem, Rule
from tollbar.decide.rules.rulestatus import RuleStatusFacts
from tollbar.model.objects import Key
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.detection import KeptTolerations
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches


@dataclass(frozen=True, slots=True)
class Deps:
    manager: Manager
    gatherer: Gatherer
    webhooks: Store
    matches: Matches
    status: StatusWriter
    kept: KeptTolerations


async def reconcile(key: Key, deps: Deps) -> Outcome:
    rule = deps.gatherer.rules.get(key)
    compiled = deps.gatherer.ruleset.get(key.name)
    if rule is None or compiled is None:
        deps.manager.metrics.forget("rule", key.name)
        deps.matches.forget(key.name)
        deps.status.forget(key)
        return DONE
    facts = RuleStatusFacts(
        rule=rule,
        compiled=compiled,
        pending=deps.matches.count(key.name) if deps.matches.complete else None,
        last=deps.matches.last(compiled) if isinstance(compiled, Rule) else None,
        prefiltered=is_prefiltered(deps.webhooks),
        written=deps.status.written(key),
        kept=deps.kept.kept(),
    )
    plan = rulestatus.decide(facts, deps.manager.clock.now())
    outcome = await deps.status.write(rule, plan)
    if plan.events and isinstance(compiled, Problem):
        deps.manager.metrics.counter("tollbar_rule_errors_total").labels(rule=key.name, reason=compiled.reason).inc()
    return outcome


def is_prefiltered(webhooks: Store) -> bool:
    """Whether the matchConditions of Tollbar's webhook let only Pods that request devices through."""
    return any(
        condition.get("name") == DEVICES[0]
        for configuration in webhooks.values()
        for webhook in configuration.get("webhooks") or ()
        for condition in webhook.get("matchConditions") or ()
    )
