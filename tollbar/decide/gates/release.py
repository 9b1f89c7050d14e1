"""When a gate is removed from a Pod, for any gate: the chain around the gate's answer.

Invariants: no gate is added and no gate of another controller is removed; one patch; other admission that refuses the
change delays a release until `maxHold`, not longer.

Hazard: a Pod's age is this process's time less the API server's `creationTimestamp`.  With a clock that is ahead by
`maxHold`, Pods are released at once that should wait.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, Self, TypeVar

from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.gates import mutations
from tollbar.decide.gates.answers import Answer, Hold, Release
from tollbar.decide.pods import events
from tollbar.decide.pods.events import PodEvent
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import GatePolicy, exclusion_reason
from tollbar.model import pods, timestamps
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, metadata
from tollbar.model.plan import DONE, Event, Failed, Outcome, Reason, RetryAfter

QUIET_HOLD: Final = 2.0
"""Seconds of holding before there is an Event: most Pods are released sooner, and an Event is a write."""
REFUSED_AGAIN: Final = 60.0
"""Seconds between two refused attempts to release a Pod, at most: nothing wakes it when a policy is corrected."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Other admission refused the release with these `changes` (`Release.changes`), in these words."""

    changes: object
    why: str


@dataclass(frozen=True)
class Plan:
    """At most one patch.  Events and metrics are due when the patch was accepted, or at once when there is none.

    `refusal` is what to remember for the next decision; `release` is what the patch is made of.
    """

    patch: Patch = ()
    events: tuple[Event, ...] = ()
    outcome: Outcome = DONE
    because: tuple[Reason, ...] = ()
    released: bool = False
    refusal: Refusal | None = None
    release: Release | None = field(default=None, compare=False)


P = TypeVar("P", bound=Plan)


class Case(ABC, Generic[P]):
    """One Pod and one gate at one moment, with what several rules of the chain share; `now` in epoch seconds.

    `managed`: the namespace is one of ours, as far as that is `known`; `refusal`: the last one of this Pod's release.
    """

    gate: str
    known = True

    def __init__(self, pod: Object, policy: GatePolicy, now: float, *, managed: bool, refusal: Refusal | None) -> None:
        self.pod = pod
        self.policy = policy
        self.managed = managed
        self.gated = self.gate in pods.gate_names(pod)
        self._refusal = refusal
        self.age = _age(pod, now)
        self.max_hold = math.inf if policy.max_hold is None else policy.max_hold

    def at(self, now: float) -> Self:
        """The same at a later moment."""
        later = copy(self)
        later.age = _age(self.pod, now)
        return later

    @cached_property
    @abstractmethod
    def answer(self) -> Answer:
        """The answer of the gate for the Pod."""

    @abstractmethod
    def decide(self) -> P:
        """The plan for the Pod, by `plan`."""

    @abstractmethod
    def refused(self, plan: P, why: str) -> P:
        """What remains of a plan whose patch other admission refused, by `after_refusal`."""

    def late(self) -> Plan:
        """For a Pod without the gate."""
        return Plan()

    def patch(self, release: Release) -> Patch:
        mutation = mutations.lacking(self.pod, release.mutation)
        return mutations.patch(self.pod, mutation, gate=self.gate, action="remove", fenced=True)

    def release_event(self, release: Release, others: Sequence[str]) -> Event:
        """The Event of the release; the `others` are gates that stay."""
        return events.gate_released(release.gives if release.mutation else "", others)

    @property
    def release(self) -> Release:
        """The release that is due now, or would be at `maxHold`."""
        match self.answer:
            case Hold(otherwise=release) | (Release() as release):
                return release
            case _:
                return Release()

    @property
    def held_too_long(self) -> bool:
        return self.age >= self.max_hold

    @property
    def may_be_held_for(self) -> float:
        """Seconds until `maxHold`, infinite without a limit."""
        return self.max_hold - self.age

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of what would be changed now; None when other changes are due, since something has changed."""
        refusal = self._refusal
        return refusal if refusal is not None and refusal.changes == self.release.changes else None

    @property
    def waiting_for(self) -> str:
        """What the Pod is held for, for a person; empty when it is not."""
        return self.answer.subject if isinstance(self.answer, Hold) else ""


def _age(pod: Object, now: float) -> float:
    """Seconds since the Pod's creation; 0 for one that does not say when that was."""
    created = metadata(pod).get("creationTimestamp")
    return max(0.0, now - timestamps.parse(created)) if created else 0.0


def plan(case: Case[P]) -> Plan:
    """The plan for an existing Pod."""
    return first_answer(CHAIN, case) or Plan()


def after_refusal(case: Case[P], changes: object, why: str) -> Plan:
    """What remains of a plan with these changes after other admission refused it with the text `why`: the next attempt.

    A Pod that has been held for `maxHold` is tried again at once, without the changes; one that may be held for longer
    is tried again at `maxHold` at the latest.
    """
    said: tuple[Event, ...] = (events.release_refused(why),)
    because = (Reason(PodReason.RELEASE_REFUSED),)
    if not case.gated:
        return Plan(events=said, outcome=Failed(PodEvent.RELEASE_REFUSED), because=because)
    at_most = REFUSED_AGAIN
    if not case.held_too_long:
        at_most = min(at_most, case.may_be_held_for)
    elif changes and case.policy.release_on_expiry:
        at_most = 0.0
    else:
        said = (*said, events.refused_overdue(case.max_hold, why))
    return Plan(
        events=said,
        outcome=Failed(PodEvent.RELEASE_REFUSED, at_most),
        because=because,
        refusal=Refusal(changes, why) if changes else None,
    )


def _excluded(case: Case[P]) -> Plan | None:
    if pods.is_deleting(case.pod) or pods.is_terminal(case.pod):
        return Plan(because=(Reason(PodReason.ENDING),))
    reason = exclusion_reason(case.pod, managed=case.managed)
    if reason is None:
        return None
    if not case.gated or pods.is_bound(case.pod):
        return Plan(because=(Reason(reason),))
    if reason is PodReason.NAMESPACE_NOT_MANAGED and not case.known:
        return None  # the namespace's labels, which tell whether it is managed, are not known yet
    return _release(case, Release(because=(Reason(reason),)))


def _overdue(case: Case[P]) -> Plan | None:
    """Held longer than the SchedulingGate allows: release with the changes that are known, or without those that are
    refused."""
    if not (case.gated and case.held_too_long and case.policy.release_on_expiry):
        return None
    refusal = case.refusal
    if refusal is None and not isinstance(case.answer, Hold):
        return None
    without, why = (case.release.gives, refusal.why) if refusal is not None else ("", "")
    event = events.released_overdue(case.max_hold, case.waiting_for, without, why)
    release = replace(case.release, because=(Reason(PodReason.HELD_TOO_LONG),), events=())
    found = _release(case, release if refusal is None else Release(because=release.because))
    return replace(found, events=(event, *found.events))


def _hold(case: Case[P]) -> Plan | None:
    if not (case.gated and isinstance(case.answer, Hold)):
        return None
    said: tuple[Event, ...] = ()
    wake_up = case.answer.again
    if case.held_too_long:
        said = (events.held_overdue(case.max_hold, case.waiting_for),)
    else:
        wake_up = min(wake_up, case.may_be_held_for)
        if case.age >= QUIET_HOLD:
            said = (events.scheduling_held(case.waiting_for),)
        else:
            wake_up = min(wake_up, QUIET_HOLD - case.age)
    outcome = RetryAfter(wake_up) if wake_up < math.inf else DONE
    return Plan(events=said, outcome=outcome, because=(Reason(PodReason.WAITING_FOR, detail=case.waiting_for),))


def _decided(case: Case[P]) -> Plan:
    return _release(case, case.release) if case.gated else case.late()


CHAIN: Final[Chain[Case[Any], Plan]] = (  # order is the specification
    _excluded,  # ending or bound -> nothing; held but excluded -> release as it is
    _overdue,  # held past maxHold, undecided or refused, onExpiry Release -> release with what is known and allowed
    _hold,  # the gate says Hold -> hold, until what it waits for or maxHold
    _decided,  # else -> one patch: the changes and the gate's removal
)


def _release(case: Case[P], release: Release) -> Plan:
    others = [name for name in pods.gate_names(case.pod) if name != case.gate]
    return Plan(
        patch=case.patch(release),
        events=(case.release_event(release, others), *release.events),
        because=release.because,
        released=True,
        release=release,
    )
