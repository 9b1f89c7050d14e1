"""When Tollbar's gate is removed from a Pod, and with which tolerations; and which ones a Pod without the gate lacks.

The chain is that of every gate (`tollbar.decide.gates.release`); this module has the answer of the toleration gate.

Invariants: never removes a toleration; a released Pod that lacks nothing yields an empty plan; at most two events.

Hazard: where the clock is ahead by `maxHold`, tolerations come late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.gates import release
from tollbar.decide.gates.answers import Answer, Hold, Release
from tollbar.decide.gates.release import Case, Plan, Refusal
from tollbar.decide.pods import events, matching, tolerations
from tollbar.decide.pods.matching import Results, SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.pods.tolerations import Addition, Via
from tollbar.decide.rules.rule import Rule
from tollbar.model import pods
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, labels_of, metadata, spec
from tollbar.model.plan import Event, Reason


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


@dataclass(frozen=True)
class GatePlan(Plan):
    """`matched` are the rules that are true, in Audit or in force, by name; `audited` is what those in Audit would add,
    each on its own; `failed` are (rule, why) pairs.
    """

    via: Via = "late"
    additions: tuple[Addition, ...] = ()
    matched: tuple[Rule, ...] = ()
    audited: tuple[Addition, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


def decide(facts: GateFacts, now: float) -> GatePlan:
    """The plan for an existing Pod; `now` in epoch seconds."""
    return TolerationCase(facts, now).decide()


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


@dataclass(frozen=True, slots=True)
class Tolerated(Release):
    """A release with these additions."""

    additions: tuple[Addition, ...] = ()

    @property
    def changes(self) -> object:
        return self.additions


def _additions(release: Release | None) -> tuple[Addition, ...]:
    return release.additions if isinstance(release, Tolerated) else ()


class TolerationCase(Case[GatePlan]):
    """What the rules say of one Pod, with or without the gate."""

    gate = wellknown.GATE

    def __init__(self, facts: GateFacts, now: float) -> None:
        super().__init__(facts.package.pod, facts.policy, now, managed=facts.managed, refusal=facts.refusal)
        self.facts = facts
        self.known = facts.ready and facts.package.namespace is not None

    @cached_property
    def results(self) -> Results:
        facts = self.facts
        if not facts.ready:
            return Results()
        return matching.evaluate(facts.rules, facts.package, facts.engine, facts.selector, matching.IN_THE_CONTROLLER)

    @cached_property
    def answer(self) -> Answer:
        """Hold while a rule is undecided; what is added then are the tolerations of those that are true."""
        results = self.results
        added = tolerations.additions_for(self.pod, results.true)
        failed = (events.rule_evaluation_failed(results.failures),) if results.failures else ()
        release = Tolerated(
            gives=f"the tolerations by {events.rules(added)}", because=results.because, events=failed, additions=added
        )
        if not self.facts.ready:
            return Hold(PodReason.RULES_NOT_READY, "the rules to be loaded", release)
        undecided = "; ".join(dict.fromkeys(why for _, why in results.undecided))
        return Hold(PodReason.UNDECIDED, undecided, release) if undecided else release

    def decide(self) -> GatePlan:
        found = release.plan(self)
        asked = "answer" in vars(self)
        results = self.results if asked else Results()
        audited = (each for rule in results.audited for each in tolerations.additions_for(self.pod, (rule,)))
        return GatePlan(
            **vars(found),
            via="gate" if found.released else "late",
            additions=_additions(found.release),
            matched=tuple(sorted((*results.true, *results.audited), key=lambda rule: rule.name)),
            audited=tuple(audited),
            failed=results.failures,
        )

    def refused(self, plan: GatePlan, why: str) -> GatePlan:
        return GatePlan(**vars(release.after_refusal(self, plan.additions, why)))

    def late(self) -> Plan:
        if not self.facts.ready:
            return Plan(because=(Reason(PodReason.RULES_NOT_READY),))
        due = self.release
        added = _additions(due)
        return Plan(
            patch=tolerations.patch(self.pod, added, via="late", gate="keep", fenced=True),
            events=(*((events.added_late(added),) if added else ()), *due.events),
            because=due.because,
            release=due,
        )

    def patch(self, release: Release) -> Patch:
        return tolerations.patch(self.pod, _additions(release), via="gate", gate="remove", fenced=True)

    def release_event(self, release: Release, others: Sequence[str]) -> Event:
        """Names the claims and templates without which kube-scheduler's PreEnqueue keeps the Pod, and says nothing."""
        missing = self.facts.package.missing
        without = [str(each) for each in missing if each.kind in ("ResourceClaim", "ResourceClaimTemplate")]
        return events.released(_additions(release), others, without)
