"""Lists of metav1.Condition; `lastTransitionTime` changes only with the status."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tollbar.model import timestamps
from tollbar.model.objects import Object


class Condition(NamedTuple):
    """What a condition says, whatever its type; `reason` is a CamelCase word, `message` for a person."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""


def find(conditions: Sequence[Object] | None, type_: str) -> Object | None:
    """The condition of this type in the list; None when there is none."""
    return next((c for c in conditions or () if c.get("type") == type_), None)


def of(obj: Object | None, type_: str) -> Object:
    """The condition of this type in the object's status; empty when there is none."""
    return find(((obj or {}).get("status") or {}).get("conditions"), type_) or {}


def is_true(obj: Object | None, type_: str) -> bool:
    """Whether the object's status has this condition with status "True"."""
    return of(obj, type_).get("status") == "True"


def is_false(obj: Object | None, type_: str) -> bool:
    """Whether the object's status has this condition with status "False"; an absent one is not false."""
    return of(obj, type_).get("status") == "False"


def with_condition(
    conditions: Sequence[Object] | None,
    *,
    type_: str,
    status: Literal["True", "False", "Unknown"],
    reason: str,
    message: str,
    generation: int,
    now: float,
) -> list[Object]:
    """A new list in which this type is set, at its old place or at the end."""
    old = find(conditions, type_) or {}
    moved = old.get("status") != status
    new: Object = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": (not moved and old.get("lastTransitionTime")) or timestamps.time(now),
    }
    if not old:
        return [*(conditions or ()), new]
    return [new if condition.get("type") == type_ else condition for condition in conditions or ()]
