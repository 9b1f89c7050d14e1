"""What the status of a SchedulingGate should say: whether it is valid and we may release its Pods, how many it holds,
and for how long.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tollbar import wellknown
from tollbar.api.gates import parse_gate
from tollbar.api.reasons import GateReason
from tollbar.decide import status
from tollbar.decide.pods import overdue
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.status import PERIOD, StatusPlan
from tollbar.model import timestamps
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object, metadata
from tollbar.model.plan import DONE, RetryAfter


@dataclass(frozen=True, slots=True)
class GateStatusFacts:
    """`held_since` is how many Pods that carry this gate were created at which time, as the API writes it.

    `owned` tells, for our own gate, whether this process may remove it according to `spec.owners`; None for others.
    `written` is when this process last wrote the status (epoch seconds), None if it did not.
    """

    gate: Object
    policy: GatePolicy
    held_since: Mapping[str, int]
    owned: bool | None
    identity: str
    written: float | None


def numbers_due_in(gate: Object, written: float | None, now: float) -> float:
    """Seconds until it is worth counting again; 0 also when the status is not about the current specification.

    Every release of a Pod gives cause to count.
    """
    reported = (gate.get("status") or {}).get("observedGeneration")
    if written is None or reported != metadata(gate).get("generation"):
        return 0.0
    return min(PERIOD, max(0.0, PERIOD - (now - written)))


def decide(facts: GateStatusFacts, now: float) -> StatusPlan:
    """`now` in epoch seconds."""
    held = facts.held_since
    numbers = {
        "heldPods": sum(held.values()),
        "oldestHeldSeconds": int(max(0.0, now - timestamps.parse(min(held)))) if held else 0,
        "overdue": overdue.count(held, facts.policy, now),
    }
    wanted = status.with_condition(facts.gate, wellknown.CONDITION_READY, _ready(facts), numbers, now)
    plan = status.plan(facts.gate, wanted, facts.written, now)
    if held and plan.outcome == DONE:
        return replace(plan, outcome=RetryAfter(PERIOD))  # the oldest grows older without any event
    return plan


def _ready(facts: GateStatusFacts) -> Condition:
    """Without an owner no Pod is gated, whatever else is wrong: that is told first."""
    if facts.owned is False:
        why = f"{facts.identity} is not among spec.owners and may not release Pods"
        return Condition("False", GateReason.NOT_AN_OWNER, why)
    parsed = parse_gate(facts.gate)
    if isinstance(parsed, list):
        return Condition("False", GateReason.INVALID_SPEC, "; ".join(map(str, parsed)))
    if facts.owned is None:
        return Condition("True", GateReason.OBSERVED, "this gate is somebody else's: watched and reported only")
    return Condition("True", GateReason.OWNED)
