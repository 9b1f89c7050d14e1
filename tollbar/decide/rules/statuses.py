"""What the status of a TolerationRule or a SchedulingGate should say, and when it is worth a write.

Used by the rules and watchdog controllers.  Invariants: conditions are written at once, numbers at most once in
`PERIOD`, and nothing that is already there is written again; at most one event.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tollbar import wellknown
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.rules.rule import Problem, Rule
from tollbar.model import conditions
from tollbar.model.objects import Object, metadata
from tollbar.model.plan import DONE, Event, Outcome, RetryAfter

PERIOD: Final = 30.0
"""Seconds between two writes of numbers to one object's status."""
RECOUNT: Final = 1.0
"""Seconds until a count that is not complete is looked at again."""


@dataclass(frozen=True, slots=True)
class StatusPlan:
    """`status` is the whole new status, None when the object already says so."""

    status: Object | None = None
    events: tuple[Event, ...] = ()
    outcome: Outcome = DONE


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """`written` is when this process last wrote the status (epoch seconds), None if it did not.

    `pending` is None while the Pods of the cache have not all been decided since this process started.
    `prefiltered` says that the API server sends the webhook only Pods that want devices, so that a rule about Pods
    alone acts after admission.
    """

    rule: Object
    compiled: Rule | Problem
    pending: int | None
    prefiltered: bool
    written: float | None


def rule_status(facts: RuleFacts, now: float) -> StatusPlan:
    status, reason, message = "True", wellknown.COMPILED, ""
    events: tuple[Event, ...] = ()
    match facts.compiled:
        case Problem():
            status, reason, message = "False", facts.compiled.reason, facts.compiled.message
            events = (Event("Warning", wellknown.INVALID_RULE, f"{reason}: {message}", "Compile"),)
        case Rule(mode="Disabled"):
            reason, message = wellknown.DISABLED, "spec.mode is Disabled"
        case Rule() if facts.prefiltered and facts.compiled.pod_only:
            reason, message = wellknown.LATE_ONLY, "the webhook sees only Pods that want devices: added after admission"
        case _:
            pass
    numbers = {} if facts.pending is None else {"pendingMatches": facts.pending}
    wanted = _with_ready(facts.rule, status == "True", reason, message, numbers, now)
    plan = status_plan(facts.rule, wanted, events, facts.written, now)
    return plan if facts.pending is not None else replace(plan, outcome=RetryAfter(RECOUNT))


@dataclass(frozen=True, slots=True)
class GateFacts:
    """`held_since` are the creation times (epoch seconds) of the Pods that carry this gate.

    `owned` tells, for our own gate, whether this process may remove it according to `spec.owners`; None for others.
    """

    gate: Object
    policy: GatePolicy
    held_since: Sequence[float]
    owned: bool | None
    identity: str
    written: float | None


def numbers_due_in(obj: Object, written: float | None, now: float) -> float:
    """Seconds until it is worth counting again; 0 also when the status is not about the current specification.

    Counting goes over everything that is held, and every release asks for it.
    """
    reported = (obj.get("status") or {}).get("observedGeneration")
    if written is None or reported != metadata(obj).get("generation"):
        return 0.0
    return min(PERIOD, max(0.0, PERIOD - (now - written)))


def gate_status(facts: GateFacts, now: float) -> StatusPlan:
    ages = [max(0.0, now - since) for since in facts.held_since]
    limit = facts.policy.max_hold
    numbers = {
        "heldPods": len(ages),
        "oldestHeldSeconds": int(max(ages, default=0.0)),
        "overdue": sum(1 for age in ages if limit is not None and age >= limit),
    }
    if facts.owned is None:
        reason, message = wellknown.OBSERVED, "this gate is somebody else's: watched and reported only"
    elif facts.owned:
        reason, message = wellknown.OWNED, ""
    else:
        reason, message = wellknown.NOT_AN_OWNER, f"{facts.identity} is not among spec.owners and may not release Pods"
    wanted = _with_ready(facts.gate, facts.owned is not False, reason, message, numbers, now)
    plan = status_plan(facts.gate, wanted, (), facts.written, now)
    if ages and plan.outcome == DONE:
        return StatusPlan(plan.status, plan.events, RetryAfter(PERIOD))  # the oldest grows older without any event
    return plan


def _with_ready(obj: Object, ready: bool, reason: str, message: str, numbers: Object, now: float) -> Object:
    old = obj.get("status") or {}
    generation = int(metadata(obj).get("generation") or 0)
    return {
        **old,
        **numbers,
        "observedGeneration": generation,
        "conditions": conditions.with_condition(
            old.get("conditions"),
            type_=wellknown.CONDITION_READY,
            status="True" if ready else "False",
            reason=reason,
            message=message,
            generation=generation,
            now=now,
        ),
    }


def status_plan(
    obj: Object, wanted: Object, events: tuple[Event, ...], written: float | None, now: float
) -> StatusPlan:
    """Write `wanted` now if conditions differ, in time if only numbers do; events go with a change of conditions."""
    old = obj.get("status") or {}
    if old == wanted:
        return StatusPlan()
    if old.get("conditions") == wanted["conditions"]:
        if written is not None and 0 <= now - written < PERIOD:  # not when the clock was set back meanwhile
            return StatusPlan(outcome=RetryAfter(PERIOD - (now - written)))
        return StatusPlan(wanted)
    return StatusPlan(wanted, events)
