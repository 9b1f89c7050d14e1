"""What is done to a Pod at its creation: nothing, adding tolerations, or adding Tollbar's gate.

Invariants: total on any JSON object; idempotent under reinvocation (deciding the patched Pod again yields no patch,
unless a rule reads the tolerations that were added); never a `test` operation, and only patches that apply and leave
the Pod valid, because the API server answers the user with an error otherwise even under `failurePolicy: Ignore`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.gates import creation
from tollbar.decide.gates.answers import Answer, Hold, Release
from tollbar.decide.gates.creation import CreationCase, CreationPlan
from tollbar.decide.pods import matching, tolerations
from tollbar.decide.pods.matching import Results, SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import AdmissionMode
from tollbar.decide.pods.tolerations import Addition
from tollbar.decide.rules.rule import Rule
from tollbar.model import jsonpatch, pods
from tollbar.model.jsonpatch import Patch, pointer
from tollbar.model.objects import Object, annotations_of, labels_of
from tollbar.model.plan import Reason
from tollbar.model.texts import counted
from tollbar.model.tolerations import Identity, identity


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """`managed`: Tollbar manages the namespace; `ready`: every cache has synced; `gating`: a controller runs, and may
    release gated Pods."""

    package: Package
    rules: tuple[Rule, ...]
    engine: CelEngine
    selector: SelectorCompiler
    mode: AdmissionMode
    managed: bool
    ready: bool = True
    gating: bool = True


@dataclass(frozen=True)
class AdmissionPlan(CreationPlan):
    """`patch` may be non-empty for an ignored Pod: a forged record or label is removed.  `failed` are (rule, why)."""

    additions: tuple[Addition, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


def decide(facts: AdmissionFacts) -> AdmissionPlan:
    """The plan for a Pod that is being created."""
    return first_answer(CHAIN, _Case(facts)) or AdmissionPlan()


class _Case(CreationCase[AdmissionPlan]):
    """The facts, with what several rules of the chain share.

    `clean` is the Pod without a forged provenance record, `strip` the operation that makes it so: clients may not claim
    that Tollbar added what it did not.  Only an evaluation of the rules tells whether a record is true, so both are
    used only for Pods that Tollbar does not leave alone.
    """

    gate = wellknown.GATE

    def __init__(self, facts: AdmissionFacts) -> None:
        super().__init__(facts.package.pod, managed=facts.managed, ready=facts.ready, gating=facts.gating)
        self.facts = facts

    @cached_property
    def strip(self) -> Patch:
        if wellknown.ANNOTATION_PROVENANCE not in annotations_of(self.pod) or _is_true_record(self):
            return ()
        return (jsonpatch.remove(pointer("metadata", "annotations", wellknown.ANNOTATION_PROVENANCE)),)

    @property
    def unlabel(self) -> Patch:
        """Takes off the label of held and released Pods, for a Pod that has no gate of ours: a client wrote it."""
        if wellknown.LABEL_GATE not in labels_of(self.pod):
            return ()
        return (jsonpatch.remove(pointer("metadata", "labels", wellknown.LABEL_GATE)),)

    @cached_property
    def clean(self) -> Object:
        return tolerations.without_record(self.pod) if self.strip else self.pod

    @cached_property
    def results(self) -> Results:
        return self.evaluate(self.facts.rules, self.facts.package)

    def evaluate(self, rules: Sequence[Rule], package: Package) -> Results:
        return matching.evaluate(rules, package, self.facts.engine, self.facts.selector, matching.AT_ADMISSION)

    @cached_property
    def answer(self) -> Answer:
        release = Release(because=self.results.because)
        if not self.results.undecided:
            return release
        return Hold(PodReason.UNDECIDED, "; ".join(dict.fromkeys(why for _, why in self.results.undecided)), release)

    def ignored(self, reason: PodReason, patch: Patch = ()) -> AdmissionPlan:
        return AdmissionPlan(patch=patch, because=(Reason(reason),))

    def gated(self, *because: Reason) -> AdmissionPlan:
        patch = tolerations.patch(self.clean, (), via="admission", gate="add", fenced=False)
        return AdmissionPlan(decision="gated", patch=(*self.strip, *patch), because=because)

    def changed(self, release: Release, unmet: str) -> AdmissionPlan:
        results = self.results
        additions = tolerations.additions_for(self.clean, results.true)
        patch = tolerations.patch(self.clean, additions, via="admission", gate="keep", fenced=False)
        missed = (f"tollbar: {creation.NOBODY_RELEASES}; tolerations may come later: {unmet}",) if unmet else ()
        return AdmissionPlan(
            decision="tolerated" if results.true else "ignored",
            patch=(*self.strip, *self.unlabel, *patch),
            warnings=(*missed, *_audit_warnings(results.audited, self.clean)),
            because=release.because,
            additions=additions,
            failed=results.failures,
        )


def _never(case: _Case) -> AdmissionPlan | None:
    if case.facts.mode != "Never":
        return None
    return case.ignored(PodReason.NEVER_MODE, (*case.strip, *case.unlabel))


def _gate_first(case: _Case) -> AdmissionPlan | None:
    """Mode Gate: whatever has a package, or falls under a rule about Pods alone, is decided by the controller."""
    if case.facts.mode != "Gate" or not case.facts.gating:
        return None
    too_large, references = case.facts.package.too_large, pods.claim_references(case.pod)
    wants_devices = too_large or references or any(pods.extended_resources(case.pod))
    in_scope = (r for r in case.facts.rules if r.mode == "Enforce" and r.in_scope(case.facts.package.namespace))
    if not wants_devices and not any(rule.pod_only for rule in in_scope):
        return None
    return case.gated(Reason(PodReason.GATE_MODE))


CHAIN: Final[Chain[_Case, AdmissionPlan]] = (  # order is the specification
    *creation.CHAIN[:-1],  # not ours, or not ready -> nothing; our gate is on the Pod -> keep its label right
    _never,  # mode Never -> nothing, the controller adds late what is due
    _gate_first,  # mode Gate -> gate
    creation.answered,  # undecided, and somebody can release -> gate; else -> the tolerations of every true rule
)


def _audit_warnings(rules: Sequence[Rule], pod: Object) -> Iterator[str]:
    for rule in rules:
        for addition in tolerations.additions_for(pod, (rule,)):
            yield f"tollbar: rule {rule.name} (Audit) would add {counted(len(addition.tolerations), 'toleration')}"


def _is_true_record(case: _Case) -> bool:
    """Whether the record is what an earlier pass of this very admission wrote (reinvocation), to the letter.

    Its rules must be true for this Pod: as it is, or as the earlier pass saw it, without what the record says was
    added.  One that cannot be decided yet wrote nothing: such a Pod is gated, and the controller records what it adds.
    """
    pod = case.facts.package.pod
    by_name = {rule.name: rule for rule in case.facts.rules}
    present = {identity(toleration) for toleration in pods.tolerations(pod)}
    entries = tolerations.provenance_of(pod)
    if not entries or annotations_of(pod)[wellknown.ANNOTATION_PROVENANCE] != tolerations.record(entries):
        return False
    if not all(_is_true_entry(entry, by_name.get(str(entry.get("rule"))), present) for entry in entries):
        return False
    names = {entry["rule"] for entry in entries} - {rule.name for rule in case.results.true}
    doubtful = [by_name[name] for name in names]
    if not doubtful:
        return True
    if not all(rule.reads_tolerations for rule in doubtful):
        return False  # the tolerations that were added make no difference to such a rule
    added = (toleration for entry in entries for toleration in entry["added"])
    before = replace(case.facts.package, pod=tolerations.without_recorded(pod, added))
    return len(case.evaluate(doubtful, before).true) == len(doubtful)


def _is_true_entry(entry: Object, rule: Rule | None, present: set[Identity]) -> bool:
    added = entry.get("added")
    return (
        rule is not None
        and isinstance(added, list)
        and len(added) > 0
        and all(toleration in rule.tolerations and identity(toleration) in present for toleration in added)
        and entry == tolerations.entry(Addition(rule.name, rule.generation, tuple(added)), "admission")
    )
