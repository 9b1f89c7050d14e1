"""The status of an object of ours: what it should say, and when that is worth a write.

Invariants: conditions are written at once, numbers at most once in `PERIOD`, and nothing that is already there is
written again; Events go with a change of conditions.
"""

from dataclasses import dataclass
from typing import Final

from tollbar.model import conditions
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object, metadata
from tollbar.model.plan import DONE, Event, Outcome, RetryAfter

PERIOD: Final = 30.0
"""Seconds between two writes of numbers to one object's status."""


@dataclass(frozen=True, slots=True)
class StatusPlan:
    """`status` is the whole new status, None when the object already says so."""

    status: Object | None = None
    events: tuple[Event, ...] = ()
    outcome: Outcome = DONE


def with_condition(obj: Object, type_: str, condition: Condition, members: Object, now: float) -> Object:
    """The object's whole status with these members and this condition, about its current generation."""
    old = obj.get("status") or {}
    generation = int(metadata(obj).get("generation") or 0)
    found = conditions.with_condition(
        old.get("conditions"), type_=type_, **condition._asdict(), generation=generation, now=now
    )
    return {**old, **members, "observedGeneration": generation, "conditions": found}


def plan(obj: Object, wanted: Object, written: float | None, now: float, events: tuple[Event, ...] = ()) -> StatusPlan:
    """When to write `wanted`: at once if conditions differ, at the end of `PERIOD` if only numbers do; else never.

    `written` is when this process last wrote the status, None if it did not; both times in epoch seconds.
    """
    old = obj.get("status") or {}
    if old == wanted:
        return StatusPlan()
    if old.get("conditions") == wanted["conditions"]:
        if written is not None and 0 <= now - written < PERIOD:  # not when the clock was set back meanwhile
            return StatusPlan(outcome=RetryAfter(PERIOD - (now - written)))
        return StatusPlan(wanted)
    return StatusPlan(wanted, events)
