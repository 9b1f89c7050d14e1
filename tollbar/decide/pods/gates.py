"""When our gate comes off a Pod, and with which tolerations; and which a Pod without gate still lacks.

Used by the gates controller, `explain` and `simulate`.  Invariants: never adds a gate, never removes a toleration or
somebody else's gate; a released Pod that lacks nothing yields an empty plan; at most two events; other admission that
refuses the tolerations delays a release until `maxHold`, not longer.

Hazard: ages compare this process's clock with the API server's.  One that is ahead by `maxHold` releases at once what
should wait; its tolerations then come late.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.pods import matching, tolerations
from tollbar.decide.pods.matching import Judgement, SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.scope import NAMESPACE_NOT_MANAGED, GatePolicy, hands_off
from tollbar.decide.pods.tolerations import Addition, Via
from tollbar.decide.rules.rule import Rule
from tollbar.model import pods, timestamps
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, labels_of, metadata, spec
from tollbar.model.plan import DONE, Event, Outcome, RetryAfter, Terminal

_TOLERATIONS: Final = "pod.spec.tolerations"
QUIET_HOLD: Final = 2.0
"""Seconds of holding before anyone is told: most Pods are released sooner, and an Event is a write."""
REFUSED_AGAIN: Final = 60.0
"""Seconds between two refused attempts to release a Pod, at most: nothing wakes it when a policy is corrected."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Other admission refused the release with these additions, in these words."""

    additions: tuple[Addition, ...]
    why: str


@dataclass(frozen=True, slots=True)
class GateFacts:
    """`refusal` is the last one of this Pod's release, if there was one."""

    package: Package
    rules: tuple[Rule, ...]
    engine: CelEngine
    selector: SelectorCompiler
    managed: bool
    policy: GatePolicy
    ready: bool = True
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class GatePlan:
    """At most one patch.  Events and metrics are due when the patch was accepted, or at once when there is none.

    `refusal` is what to remember for the next decision.
    """

    patch: Patch = ()
    events: tuple[Event, ...] = ()
    outcome: Outcome = DONE
    because: tuple[str, ...] = ()
    released: bool = False
    via: Via = "late"
    additions: tuple[Addition, ...] = ()
    matched: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    refusal: Refusal | None = None


def decide(facts: GateFacts, now: float) -> GatePlan:
    """The plan for an existing Pod: the first rule of the chain that speaks decides.  `now` in epoch seconds."""
    case = _Case(facts, now)
    for rule in CHAIN:
        if (plan := rule(case)) is not None:
            return plan
    return GatePlan()


def refused(facts: GateFacts, plan: GatePlan, why: str, now: float) -> GatePlan:
    """What is left of a plan whose patch other admission refused, in the words `why`: who is told, and the next try.

    A Pod that ought to be free by now is tried again at once, without the tolerations; one that may be held until then
    at `maxHold` at the latest.
    """
    case = _Case(facts, now)
    note = f"the API server refused the patch: {why}"
    event = Event("Warning", wellknown.RELEASE_REFUSED, note, "Release")
    because = (wellknown.RELEASE_REFUSED,)
    if not case.gated:
        return GatePlan(events=(event,), outcome=Terminal(wellknown.RELEASE_REFUSED), because=because)
    events: tuple[Event, ...] = (event,)
    at_most = REFUSED_AGAIN
    if not case.held_too_long:
        at_most = min(at_most, case.may_be_held_for)
    elif plan.additions and facts.policy.release_on_expiry:
        at_most = 0.0
    else:
        overdue = f"held for more than {facts.policy.max_hold:g}s: {note}"
        events = (event, Event("Warning", wellknown.GATE_OVERDUE, overdue, "Hold"))
    return GatePlan(
        events=events,
        outcome=Terminal(wellknown.RELEASE_REFUSED, at_most),
        because=because,
        refusal=Refusal(plan.additions, why) if plan.additions else None,
    )


def foreseen(facts: GateFacts, plan: GatePlan) -> Object | None:
    """The Pod as the plan's patch leaves it, in what decisions read; None when that may have to be decided again.

    While nothing else changes, a decision about this Pod does nothing: it is not held, lacks nothing, and every rule
    says of it what it said before.  Rules see Pods without our gate, label and record (`pods.without_ours`), so the
    tolerations are all that is new to them: no rule in force may read those.  A Pod that was refused some may be
    released without them, and lacks them.
    """
    if not plan.patch or facts.refusal is not None or any(rule.reads_any(_TOLERATIONS) for rule in facts.rules):
        return None
    pod = facts.package.pod
    meta, body = dict(metadata(pod)), dict(spec(pod))
    if plan.released:
        meta["labels"] = {**labels_of(pod), wellknown.LABEL_GATE: wellknown.GATE_RELEASED}
        body["schedulingGates"] = [gate for gate in body["schedulingGates"] if gate.get("name") != wellknown.GATE]
        if not body["schedulingGates"]:
            del body["schedulingGates"]  # the API server leaves out what is empty
    if plan.additions:
        added = (toleration for addition in plan.additions for toleration in addition.tolerations)
        body["tolerations"] = [*pods.tolerations(pod), *added]
    return {**pod, "metadata": meta, "spec": body}


class _Case:
    """The facts at one moment, with what several rules of the chain share."""

    def __init__(self, facts: GateFacts, now: float) -> None:
        self.facts = facts
        self.pod = facts.package.pod
        self.gated = pods.is_gated(self.pod)
        created = metadata(self.pod).get("creationTimestamp")
        self.age = max(0.0, now - timestamps.parse(created)) if created else 0.0

    @cached_property
    def judgement(self) -> Judgement:
        facts = self.facts
        if not facts.ready:
            return Judgement()
        return matching.judge(facts.rules, facts.package, facts.engine, facts.selector, matching.IN_THE_CONTROLLER)

    @property
    def additions(self) -> tuple[Addition, ...]:
        return tolerations.additions_for(self.pod, self.judgement.true)

    @property
    def held_too_long(self) -> bool:
        return self.facts.policy.max_hold is not None and self.age >= self.facts.policy.max_hold

    @property
    def may_be_held_for(self) -> float:
        """Seconds until `maxHold`, without end if there is none."""
        return math.inf if self.facts.policy.max_hold is None else self.facts.policy.max_hold - self.age

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of what would be added now; none when rules or Pod have changed so that it is something else."""
        refusal = self.facts.refusal
        return refusal if refusal is not None and refusal.additions == self.additions else None

    @property
    def waiting_for(self) -> str:
        """What the Pod is held for, for a person; empty when everything that the rules need is known."""
        if not self.facts.ready:
            return "the rules to be loaded"
        return "; ".join(dict.fromkeys(why for _, why in self.judgement.undecided))


def _not_ours(case: _Case) -> GatePlan | None:
    if pods.is_deleting(case.pod) or pods.is_terminal(case.pod):
        return GatePlan(because=("Ending",))
    reason = hands_off(case.pod, managed=case.facts.managed)
    if not reason:
        return None
    if not case.gated or pods.is_bound(case.pod):
        return GatePlan(because=(reason,))
    if reason == NAMESPACE_NOT_MANAGED and not (case.facts.ready and case.facts.package.namespace):
        return None  # its labels, which say so, are not known yet
    return _release(case, (), (reason,))


def _overdue(case: _Case) -> GatePlan | None:
    """Held longer than the SchedulingGate allows: release with what is known, or without what is refused."""
    if not (case.gated and case.held_too_long and case.facts.policy.release_on_expiry):
        return None
    refusal, reasons = case.refusal, []
    if case.waiting_for:
        reasons.append(f"still waiting for {case.waiting_for}")
    if refusal is not None:
        rules = ", ".join(addition.rule for addition in refusal.additions)
        reasons.append(f"without the tolerations by {rules}, which the API server refused: {refusal.why}")
    if not reasons:
        return None
    plan = _release(case, () if refusal is not None else case.additions, ("HeldTooLong",))
    note = f"released after {case.facts.policy.max_hold:g}s, {'; '.join(reasons)}"
    return _judged(
        replace(plan, events=(Event("Warning", wellknown.GATE_OVERDUE, note, "Release"), *plan.events)), case
    )


def _hold(case: _Case) -> GatePlan | None:
    if not case.gated or not case.waiting_for:
        return None
    policy = case.facts.policy
    events: tuple[Event, ...] = ()
    wake_ups = []
    if case.held_too_long:
        note = f"held for more than {policy.max_hold:g}s, waiting for {case.waiting_for}"
        events = (Event("Warning", wellknown.GATE_OVERDUE, note, "Hold"),)
    elif case.age >= QUIET_HOLD:
        events = (Event("Normal", wellknown.SCHEDULING_HELD, f"waiting for {case.waiting_for}", "Hold"),)
    else:
        wake_ups.append(QUIET_HOLD - case.age)
    if policy.max_hold is not None and not case.held_too_long:
        wake_ups.append(case.may_be_held_for)
    outcome = RetryAfter(min(wake_ups)) if wake_ups else DONE
    return _judged(GatePlan(events=events, outcome=outcome, because=(f"WaitingFor: {case.waiting_for}",)), case)


def _decided(case: _Case) -> GatePlan | None:
    """Everything the rules need is known, or the Pod has no gate: add what it lacks, and release it if it is held."""
    if not case.facts.ready:
        return GatePlan(because=("RulesNotReady",))
    plan = (_release if case.gated else _add_late)(case, case.additions, case.judgement.because)
    return _judged(replace(plan, events=(*plan.events, *_failure_event(case.judgement))), case)


CHAIN: Final[Sequence[Callable[[_Case], GatePlan | None]]] = (  # order is the specification
    _not_ours,  # ending or bound -> nothing; held but not ours to decide about -> release as it is
    _overdue,  # held past maxHold, undecided or refused, onExpiry Release -> release with what is known and allowed
    _hold,  # a rule is undecided, or rules not ready -> hold, until the missing object's event or maxHold
    _decided,  # else -> one patch: missing tolerations, gate removal, provenance
)


def _release(case: _Case, additions: tuple[Addition, ...], because: tuple[str, ...]) -> GatePlan:
    others = [name for name in pods.gate_names(case.pod) if name != wellknown.GATE]
    released = "released" + (f"; still waiting for {', '.join(others)}" if others else "")
    if additions:
        event = _added_event(additions, released)
    else:
        event = Event("Normal", wellknown.GATE_RELEASED_REASON, f"{released}; no toleration added", "Release")
    return GatePlan(
        patch=tolerations.patch(case.pod, additions, via="gate", gate="remove", fenced=True),
        events=(event,),
        because=because,
        released=True,
        via="gate",
        additions=additions,
    )


def _add_late(case: _Case, additions: tuple[Addition, ...], because: tuple[str, ...]) -> GatePlan:
    return GatePlan(
        patch=tolerations.patch(case.pod, additions, via="late", gate="keep", fenced=True),
        events=(_added_event(additions, "added after admission"),) if additions else (),
        because=because,
        additions=additions,
    )


def _added_event(additions: Sequence[Addition], how: str) -> Event:
    count = sum(len(addition.tolerations) for addition in additions)
    rules = ", ".join(addition.rule for addition in additions)
    noun = "toleration" if count == 1 else "tolerations"
    return Event("Normal", wellknown.TOLERATIONS_ADDED, f"{count} {noun} by {rules}; {how}", "AddTolerations")


def _failure_event(judgement: Judgement) -> tuple[Event, ...]:
    if not judgement.failed:
        return ()
    note = "; ".join(f"rule {rule.name}: {why}" for rule, why in judgement.failed)
    return (Event("Warning", wellknown.RULE_EVALUATION_FAILED, note, "Evaluate"),)


def _judged(plan: GatePlan, case: _Case) -> GatePlan:
    """The plan with what was found about the rules, whatever became of the Pod."""
    judgement = case.judgement
    return replace(
        plan,
        matched=tuple(sorted(rule.name for rule in (*judgement.true, *judgement.audited))),
        failed=tuple((rule.name, why) for rule, why in judgement.failed),
    )
