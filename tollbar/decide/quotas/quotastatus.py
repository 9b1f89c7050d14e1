"""What the status of a PodQuota should say: whether it is in force, and what of its limits is used."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from tollbar import wellknown
from tollbar.api.reasons import QuotaReason
from tollbar.decide import status
from tollbar.decide.status import StatusPlan
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object


@dataclass(frozen=True, slots=True)
class Usage:
    """By resource what is allowed and used; how many Pods run and wait; `errors` of a quota that is not valid."""

    limits: Mapping[str, Decimal]
    used: Mapping[str, Decimal]
    running: int
    waiting: int
    errors: tuple[str, ...] = ()


def decide(quota: Object, usage: Usage, written: float | None, now: float) -> StatusPlan:
    """`written` is when this process last wrote the status, None if it did not; both times in epoch seconds."""
    members: Object = {
        "used": {name: text(usage.used.get(name, Decimal(0))) for name in sorted(usage.limits)},
        "running": usage.running,
        "waiting": usage.waiting,
    }
    wanted = status.with_condition(quota, wellknown.CONDITION_READY, _ready(usage), members, now)
    # A merge patch keeps the members of a map that it does not name.
    gone = {name: None for name in (quota.get("status") or {}).get("used") or {} if name not in usage.limits}
    plan = status.plan(quota, wanted, written, now)
    if plan.status is None or not gone:
        return plan
    return replace(plan, status={**plan.status, "used": {**gone, **members["used"]}})


def _ready(usage: Usage) -> Condition:
    if usage.errors:
        return Condition("False", QuotaReason.INVALID_SPEC, "; ".join(usage.errors))
    over = [name for name, limit in sorted(usage.limits.items()) if usage.used.get(name, Decimal(0)) > limit]
    if over:
        return Condition("True", QuotaReason.EXCEEDED, f"more is used than the limit of {', '.join(over)}")
    return Condition("True", QuotaReason.IN_FORCE)


def text(amount: Decimal) -> str:
    """As a quantity: whole numbers as they are, fractions in thousandths, rounded up."""
    if amount == amount.to_integral_value():
        return str(int(amount))
    thousandths = amount * 1000
    whole = int(thousandths)
    return f"{whole if whole == thousandths else whole + 1}m"
