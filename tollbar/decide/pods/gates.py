"""When our gate comes off a Pod, and with which tolerations; and which a Pod without gate still lacks.

Invariants: never adds a gate, never removes a toleration or
somebody else's gate; a released Pod that lacks nothing yields an empty plan; at most two events; other admission that
refuses the tolerations delays a release until `maxHold`, not longer.

Hazard: a Pod's age is this process's time less the API server's `creationTimestamp`.  With a clock that is ahead by
`maxHold`, Pods are released at once that should wait, and their tolerations come late.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.pods import events, matching, tolerations
from tollbar.decide.pods.events import PodEvent
from tollbar.decide.pods.matching import Results, SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import GatePolicy, exclusion_reason
from tollbar.decide.pods.tolerations import Addition, Via
from tollbar.decide.rules.rule import Rule
from tollbar.model import pods, timestamps
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, labels_of, metadata, spec
from tollbar.model.plan import DONE, Event, Failed, Outcome, Reason, RetryAfter

QUIET_HOLD: Final = 2.0
"""Seconds of holding before there is an Event: most Pods are released sooner, and an Event is a write."""
REFUSED_AGAIN: Final = 60.0
"""Seconds between two refused attempts to release a Pod, at most: nothing wakes it when a policy is corrected."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Other admission refused the release with these additions, in these words."""

    additions: tuple[Addition, ...]
    why: str


@dataclass(frozen=True, slots=True)
class GateFacts:
    """`managed`: the namespace is one of ours; `ready`: every cache has synced; `refusal`: the last one of this Pod's
    release, if there was one."""

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

    `matched` are the rules that are true, in Audit or in force, by name; `audited` is what those in Audit would add,
    each on its own; `failed` are (rule, why) pairs; `refusal` is what to remember for the next decision.
    """

    patch: Patch = ()
    events: tuple[Event, ...] = ()
    outcome: Outcome = DONE
    because: tuple[Reason, ...] = ()
    released: bool = False
    via: Via = "late"
    additions: tuple[Addition, ...] = ()
    matched: tuple[Rule, ...] = ()
    audited: tuple[Addition, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    refusal: Refusal | None = None


def decide(facts: GateFacts, now: float) -> GatePlan:
    """The plan for an existing Pod; `now` in epoch seconds."""
    return first_answer(CHAIN, _Case(facts, now)) or GatePlan()


def refused(facts: GateFacts, plan: GatePlan, why: str, now: float) -> GatePlan:
    """What is left of a plan whose patch other admission refused, in the words `why`: events, and the next attempt.

    A Pod that has been held for `maxHold` is tried again at once, without the tolerations; one that may be held for
    longer is tried again at `maxHold` at the latest.
    """
    case = _Case(facts, now)
    said: tuple[Event, ...] = (events.release_refused(why),)
    because = (Reason(PodReason.RELEASE_REFUSED),)
    if not case.gated:
        return GatePlan(events=said, outcome=Failed(PodEvent.RELEASE_REFUSED), because=because)
    at_most = REFUSED_AGAIN
    if not case.held_too_long:
        at_most = min(at_most, case.may_be_held_for)
    elif plan.additions and facts.policy.release_on_expiry:
        at_most = 0.0
    else:
        said = (*said, events.refused_overdue(case.max_hold, why))
    return GatePlan(
        events=said,
        outcome=Failed(PodEvent.RELEASE_REFUSED, at_most),
        because=because,
        refusal=Refusal(plan.additions, why) if plan.additions else None,
    )


def expected(facts: GateFacts, plan: GatePlan) -> Object | None:
    """The Pod as the plan's patch leaves it, in what decisions read; None when it may have to be decided again.

    While nothing else changes, a decision about the expected Pod does nothing: it is not held, lacks nothing, and every
    rule says of it what it said before.  Rules see Pods without our gate, label and record (`pods.without_ours`), so
    only the tolerations are new to them: there is no expected Pod while a rule in force reads those.  Nor is there one
    after a refusal: a Pod that is released without the refused tolerations still lacks them.
    """
    if not plan.patch or facts.refusal is not None or any(rule.reads_tolerations for rule in facts.rules):
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
        self.max_hold = math.inf if facts.policy.max_hold is None else facts.policy.max_hold

    @cached_property
    def results(self) -> Results:
        facts = self.facts
        if not facts.ready:
            return Results()
        return matching.evaluate(facts.rules, facts.package, facts.engine, facts.selector, matching.IN_THE_CONTROLLER)

    @property
    def additions(self) -> tuple[Addition, ...]:
        return tolerations.additions_for(self.pod, self.results.true)

    @property
    def held_too_long(self) -> bool:
        return self.age >= self.max_hold

    @property
    def may_be_held_for(self) -> float:
        """Seconds until `maxHold`, infinite without a limit."""
        return self.max_hold - self.age

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of what would be added now; None when other additions are due, after a change of rules or Pod."""
        refusal = self.facts.refusal
        return refusal if refusal is not None and refusal.additions == self.additions else None

    @property
    def waiting_for(self) -> str:
        """What the Pod is held for, for a person; empty when everything that the rules need is known."""
        if not self.facts.ready:
            return "the rules to be loaded"
        return "; ".join(dict.fromkeys(why for _, why in self.results.undecided))


def _excluded(case: _Case) -> GatePlan | None:
    if pods.is_deleting(case.pod) or pods.is_terminal(case.pod):
        return GatePlan(because=(Reason(PodReason.ENDING),))
    reason = exclusion_reason(case.pod, managed=case.facts.managed)
    if reason is None:
        return None
    if not case.gated or pods.is_bound(case.pod):
        return GatePlan(because=(Reason(reason),))
    if reason is PodReason.NAMESPACE_NOT_MANAGED and not (case.facts.ready and case.facts.package.namespace):
        return None  # the namespace's labels, which tell whether it is managed, are not known yet
    return _release(case, (), Reason(reason))


def _overdue(case: _Case) -> GatePlan | None:
    """Held longer than the SchedulingGate allows: release with what is known, or without what is refused."""
    if not (case.gated and case.held_too_long and case.facts.policy.release_on_expiry):
        return None
    refusal = case.refusal
    if refusal is None and not case.waiting_for:
        return None
    refused, why = (refusal.additions, refusal.why) if refusal is not None else ((), "")
    event = events.released_overdue(case.max_hold, case.waiting_for, refused, why)
    plan = _release(case, () if refusal is not None else case.additions, Reason(PodReason.HELD_TOO_LONG))
    return _with_results(replace(plan, events=(event, *plan.events)), case)


def _hold(case: _Case) -> GatePlan | None:
    if not case.gated or not case.waiting_for:
        return None
    said: tuple[Event, ...] = ()
    wake_up = math.inf
    if case.held_too_long:
        said = (events.held_overdue(case.max_hold, case.waiting_for),)
    else:
        wake_up = case.may_be_held_for
        if case.age >= QUIET_HOLD:
            said = (events.scheduling_held(case.waiting_for),)
        else:
            wake_up = min(wake_up, QUIET_HOLD - case.age)
    outcome = RetryAfter(wake_up) if wake_up < math.inf else DONE
    because = (Reason(PodReason.WAITING_FOR, detail=case.waiting_for),)
    return _with_results(GatePlan(events=said, outcome=outcome, because=because), case)


def _decided(case: _Case) -> GatePlan | None:
    """Everything the rules need is known, or the Pod has no gate: add what it lacks, and release it if it is held."""
    if not case.facts.ready:
        return GatePlan(because=(Reason(PodReason.RULES_NOT_READY),))
    plan = (_release if case.gated else _add_late)(case, case.additions, *case.results.because)
    if failures := case.results.failures:
        plan = replace(plan, events=(*plan.events, events.rule_evaluation_failed(failures)))
    return _with_results(plan, case)


CHAIN: Final[Chain[_Case, GatePlan]] = (  # order is the specification
    _excluded,  # ending or bound -> nothing; held but excluded -> release as it is
    _overdue,  # held past maxHold, undecided or refused, onExpiry Release -> release with what is known and allowed
    _hold,  # a rule is undecided, or rules not ready -> hold, until the missing object's event or maxHold
    _decided,  # else -> one patch: missing tolerations, gate removal, provenance
)


def _release(case: _Case, additions: tuple[Addition, ...], *because: Reason) -> GatePlan:
    others = [name for name in pods.gate_names(case.pod) if name != wellknown.GATE]
    return GatePlan(
        patch=tolerations.patch(case.pod, additions, via="gate", gate="remove", fenced=True),
        events=(events.released(additions, others, _without(case)),),
        because=because,
        released=True,
        via="gate",
        additions=additions,
    )


def _without(case: _Case) -> list[str]:
    """The claims and templates without which kube-scheduler's PreEnqueue keeps the Pod, and says nothing."""
    missing = case.facts.package.missing
    return [str(each) for each in missing if each.kind in ("ResourceClaim", "ResourceClaimTemplate")]


def _add_late(case: _Case, additions: tuple[Addition, ...], *because: Reason) -> GatePlan:
    return GatePlan(
        patch=tolerations.patch(case.pod, additions, via="late", gate="keep", fenced=True),
        events=(events.added_late(additions),) if additions else (),
        because=because,
        additions=additions,
    )


def _with_results(plan: GatePlan, case: _Case) -> GatePlan:
    """The plan with what the rules said, whatever became of the Pod."""
    results = case.results
    matched = tuple(sorted((*results.true, *results.audited), key=lambda rule: rule.name))
    audited = tuple(each for rule in results.audited for each in tolerations.additions_for(case.pod, (rule,)))
    return replace(plan, matched=matched, audited=audited, failed=results.failures)
