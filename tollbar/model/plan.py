"""What a decision answers: its reasons, events to emit and the outcome of a reconcile, as values.

Decisions build them, controllers execute them.  Nothing here refers to the API client.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Self, TypeAlias


class Code(StrEnum):
    """A CamelCase word that people search for and alerts match on: of an Event, a condition or a decision.

    Written as `NAME = "Value", "meaning"`; docs/reference/reasons.md is made of the meanings, a sentence or two on what
    has happened and what to do.  A value is API: changing one wants a line in CHANGELOG.md.
    """

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = " ".join(meaning.split())
        return member


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of a decision.  `subject` names what it is about (`rule gpu`), `detail` is for a person."""

    code: Code
    subject: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.code, self.subject, self.detail)))


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
class Failed:
    """What a user wrote, or the API server's refusal, rules success out as things stand; `reason` is stable and short.

    Counts as an error, and is tried again with per-key back-off of at most `at_most` seconds: nothing may tell when the
    obstacle is gone.
    """

    reason: str
    at_most: float = math.inf


@dataclass(frozen=True, slots=True)
class Requeue:
    """The view was stale (conflict, failed test): try again soon with per-key back-off.  Not an error."""

    reason: str


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Nothing is decided before a question is answered, which wakes the key.  Its back-off stays as it is."""


Outcome: TypeAlias = Done | RetryAfter | Failed | Requeue | Awaiting

DONE: Final = Done()
AWAITING: Final = Awaiting()
STALE: Final = Requeue("StaleView")
"""The API server has another version of the object than the one that was decided about."""
