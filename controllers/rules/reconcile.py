"""One TolerationRule: is it in force, how many pending Pods does it match; its status, at most one write."""

from dataclasses import dataclass

from controllers.status import StatusWriter
from tollbar.decide.rules import rulestatus
from tollbar.decide.rules.rule import Problem
from tollbar.decide.rules.rulestatus import RuleStatusFacts
from tollbar.model.objects import Key
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.clock import Clock
from tollbar.runtime.metrics import Metrics
from tollbar.views.caches import PodCaches
from tollbar.views.matches import Matches


@dataclass(frozen=True, slots=True)
class Deps:
    caches: PodCaches
    matches: Matches
    metrics: Metrics
    clock: Clock
    status: StatusWriter


async def reconcile(key: Key, deps: Deps) -> Outcome:
    rule = deps.caches.rules.get(key)
    compiled = deps.caches.ruleset.get(key.name)
    if rule is None or compiled is None:
        deps.metrics.forget("rule", key.name)
        deps.status.forget(key)
        return DONE
    facts = RuleStatusFacts(
        rule=rule,
        compiled=compiled,
        pending=deps.matches.count(key.name) if deps.matches.complete else None,
        prefiltered=deps.caches.is_prefiltered,
        written=deps.status.written(key),
    )
    plan = rulestatus.decide(facts, deps.clock.now())
    outcome = await deps.status.write(rule, plan)
    if plan.events and isinstance(compiled, Problem):
        deps.metrics.counter("tollbar_rule_errors_total").labels(rule=key.name, reason=compiled.reason).inc()
    return outcome
