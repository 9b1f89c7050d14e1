"""What a decision answers: events to emit and the outcome of a reconcile, as values.

Decisions build them, controllers execute them.  Nothing here refers to the API client.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Event:
    """One events.k8s.io/v1 Event to be; the recorder adds who, when and the series.

    `note` is shortened to the API's 1,024 characters by the recorder, not here.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    action: str


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until something changes."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Look again in so many seconds, even if nothing changes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Terminal:
    """Refused for good: back off as after an error, `at_most` so many seconds; the reason is stable and short."""

    reason: str
    at_most: float = math.inf


@dataclass(frozen=True, slots=True)
class Requeue:
    """The view was stale (conflict, failed test): try again soon with per-key back-off.  Not an error."""

    reason: str


Outcome: TypeAlias = Done | RetryAfter | Terminal | Requeue

DONE: Final = Done()
