"""What the status of a rule should say: whether it is in force; of a TolerationRule for Pods also how many pending Pods
it matches, and which Pod it has matched last."""

from dataclasses import dataclass, replace
from typing import Final

from tollbar import wellknown
from tollbar.api.reasons import RuleReason
from tollbar.decide import status
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.rules import events
from tollbar.decide.rules.placements import Placement
from tollbar.decide.rules.rule import DROPPED, Problem, Rule
from tollbar.decide.status import StatusPlan
from tollbar.model import timestamps
from tollbar.model.conditions import Condition
from tollbar.model.objects import Key, Object
from tollbar.model.plan import RetryAfter

RECOUNT: Final = 1.0
"""Seconds until a count that is not complete is looked at again."""


@dataclass(frozen=True, slots=True)
class LastMatch:
    """The last Pod that a rule was found to match, and when (epoch seconds).

    `restarted` says that the Pod may have been there before this process began to decide about Pods, so that another
    process may have found it long ago.
    """

    pod: Key
    time: float
    restarted: bool


@dataclass(frozen=True, slots=True)
class RuleStatusFacts:
    """`written` is when this process last wrote the status (epoch seconds), None if it did not.

    `pending` is None while the Pods of the cache have not all been decided since this process started; `last` is None
    when this process has found no match.
    `prefiltered` says that the API server sends the webhook only Pods that want devices, so that a rule about Pods
    alone acts after admission; `kept`, that it keeps tolerations of devices in claims.
    """

    rule: Object
    compiled: Rule | Problem
    pending: int | None
    last: LastMatch | None
    prefiltered: bool
    written: float | None
    kept: bool


def decide(facts: RuleStatusFacts, now: float) -> StatusPlan:
    """`now` in epoch seconds.  One event at most: that the rule is not valid."""
    ready = first_answer(CHAIN, facts) or Condition("True", RuleReason.COMPILED)
    wanted = status.with_condition(facts.rule, wellknown.CONDITION_READY, ready, _matches(facts), now)
    said = (events.invalid_rule(ready.reason, ready.message),) if isinstance(facts.compiled, Problem) else ()
    plan = status.plan(facts.rule, wanted, facts.written, now, said)
    counted = facts.pending is not None or _is_of_claims(facts.compiled)
    return plan if counted else replace(plan, outcome=RetryAfter(RECOUNT))


def of_placement(rule: Object, compiled: Placement | Problem, written: float | None, now: float) -> StatusPlan:
    """The same for a PlacementRule, whose Pods are not counted."""
    ready = _not_in_force(compiled if isinstance(compiled, Problem) else compiled.rule)
    ready = ready or Condition("True", RuleReason.COMPILED)
    wanted = status.with_condition(rule, wellknown.CONDITION_READY, ready, {}, now)
    said = (events.invalid_rule(ready.reason, ready.message),) if isinstance(compiled, Problem) else ()
    return status.plan(rule, wanted, written, now, said)


def _not_in_force(compiled: Rule | Problem) -> Condition | None:
    """Of a rule that is not valid, or switched off."""
    if isinstance(compiled, Problem):
        return Condition("False", compiled.reason, compiled.message)
    return Condition("True", RuleReason.DISABLED, "spec.mode is Disabled") if compiled.mode == "Disabled" else None


def _matches(facts: RuleStatusFacts) -> Object:
    """The members about Pods; without a number for a rule that gives them nothing.

    A new leader, who finds anew what matches, leaves the last match as it is.
    """
    if _is_of_claims(facts.compiled):
        return {"pendingMatches": None} if "pendingMatches" in (facts.rule.get("status") or {}) else {}
    if facts.pending is None:
        return {}
    members: Object = {"pendingMatches": facts.pending}
    last, has_one = facts.last, (facts.rule.get("status") or {}).get("lastMatch")
    if last is not None and not (last.restarted and has_one):
        members["lastMatch"] = {
            "time": timestamps.time(last.time),
            "namespace": last.pod.namespace,
            "pod": last.pod.name,
        }
    return members


def _is_of_claims(compiled: Rule | Problem) -> bool:
    """Whether the rule is for requests of claims alone."""
    return isinstance(compiled, Rule) and not compiled.tolerations and bool(compiled.device_tolerations)


def _invalid_or_disabled(facts: RuleStatusFacts) -> Condition | None:
    return _not_in_force(facts.compiled)


def _dropped(facts: RuleStatusFacts) -> Condition | None:
    rule = facts.compiled
    if facts.kept or not isinstance(rule, Rule) or not rule.device_tolerations:
        return None
    return Condition("True" if rule.tolerations else "False", RuleReason.TOLERATIONS_DROPPED, DROPPED)


def _late_only(facts: RuleStatusFacts) -> Condition | None:
    rule = facts.compiled
    if not isinstance(rule, Rule) or not (facts.prefiltered and rule.tolerations and rule.pod_only):
        return None
    why = "the webhook sees only Pods that want devices: added after admission"
    return Condition("True", RuleReason.LATE_ONLY, why)


CHAIN: Final[Chain[RuleStatusFacts, Condition]] = (  # order is the specification
    _invalid_or_disabled,  # it does not compile -> not ready, and why; spec.mode is Disabled -> ready, does nothing
    _dropped,  # for claims, and the API server does not keep what they get -> ready as far as it is for Pods
    _late_only,  # about Pods that the webhook is not asked about -> ready, after admission
)  # else -> ready
