"""What happens to a Pod at its creation: nothing, tolerations at once, or our gate.

Invariants: total on any JSON object; idempotent under reinvocation (deciding the patched Pod again yields no patch,
unless a rule reads the tolerations that were added);
never a `test` operation, and only patches that apply and leave the Pod valid, because the API server answers the user
with an error otherwise even under `failurePolicy: Ignore`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.pods import matching, tolerations
from tollbar.decide.pods.matching import Results, SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import AdmissionMode, exclusion_reason
from tollbar.decide.pods.tolerations import Addition
from tollbar.decide.rules.rule import Rule
from tollbar.model import jsonpatch, pods
from tollbar.model.jsonpatch import Patch, pointer
from tollbar.model.objects import Object, annotations_of, labels_of, metadata
from tollbar.model.plan import Reason
from tollbar.model.tolerations import Identity, identity

Decision = Literal["ignored", "tolerated", "gated"]


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """`managed`: the namespace is one of ours; `ready`: every cache has synced; `gating`: a controller is there, and
    may release what we gate."""

    package: Package
    rules: tuple[Rule, ...]
    engine: CelEngine
    selector: SelectorCompiler
    mode: AdmissionMode
    managed: bool
    ready: bool = True
    gating: bool = True


@dataclass(frozen=True, slots=True)
class AdmissionPlan:
    """`patch` may be non-empty for an ignored Pod: a forged record or label is removed.  `failed` are (rule, why)."""

    decision: Decision = "ignored"
    patch: Patch = ()
    warnings: tuple[str, ...] = ()
    because: tuple[Reason, ...] = ()
    additions: tuple[Addition, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


def decide(facts: AdmissionFacts) -> AdmissionPlan:
    """The plan for a Pod that is being created."""
    return first_answer(CHAIN, _Case(facts)) or AdmissionPlan()


class _Case:
    """The facts, with what several rules of the chain share.

    `pod` is the Pod without a forged provenance record, `strip` the operation that makes it so: clients may not claim
    that Tollbar added what it did not.  Only an evaluation of the rules tells whether a record is true, so both are
    used only for Pods that Tollbar does not leave alone.
    """

    def __init__(self, facts: AdmissionFacts) -> None:
        self.facts = facts

    @cached_property
    def strip(self) -> Patch:
        pod = self.facts.package.pod
        if wellknown.ANNOTATION_PROVENANCE not in annotations_of(pod) or _is_true_record(self):
            return ()
        return (jsonpatch.remove(pointer("metadata", "annotations", wellknown.ANNOTATION_PROVENANCE)),)

    @property
    def unlabel(self) -> Patch:
        """Takes off the label of held and released Pods, for a Pod that has no gate of ours: a client wrote it."""
        if wellknown.LABEL_GATE not in labels_of(self.facts.package.pod):
            return ()
        return (jsonpatch.remove(pointer("metadata", "labels", wellknown.LABEL_GATE)),)

    @cached_property
    def pod(self) -> Object:
        pod = self.facts.package.pod
        return _without_record(pod) if self.strip else pod

    @cached_property
    def results(self) -> Results:
        return self.evaluate(self.facts.rules, self.facts.package)

    def evaluate(self, rules: Sequence[Rule], package: Package) -> Results:
        return matching.evaluate(rules, package, self.facts.engine, self.facts.selector, matching.AT_ADMISSION)


def _excluded(case: _Case) -> AdmissionPlan | None:
    reason = exclusion_reason(case.facts.package.pod, managed=case.facts.managed)
    return _ignored(reason) if reason is not None else None


def _not_ready(case: _Case) -> AdmissionPlan | None:
    return None if case.facts.ready else _ignored(PodReason.CACHES_NOT_SYNCED)


def _already_gated(case: _Case) -> AdmissionPlan | None:
    """Our gate is there, from an earlier pass or from the author: the controller decides; the label is set."""
    return _gated(case, Reason(PodReason.ALREADY_GATED)) if pods.is_gated(case.pod) else None


def _gate_first(case: _Case) -> AdmissionPlan | None:
    """Mode Gate: whatever has a package, or falls under a rule about Pods alone, is decided by the controller."""
    if case.facts.mode != "Gate" or not case.facts.gating:
        return None
    too_large, references = case.facts.package.too_large, pods.claim_references(case.pod)
    wants_devices = too_large or references or any(pods.extended_resources(case.pod))
    in_scope = (r for r in case.facts.rules if r.mode == "Enforce" and r.in_scope(case.facts.package.namespace))
    if not wants_devices and not any(rule.pod_only for rule in in_scope):
        return None
    return _gated(case, Reason(PodReason.GATE_MODE))


def _never(case: _Case) -> AdmissionPlan | None:
    return _ignored(PodReason.NEVER_MODE, (*case.strip, *case.unlabel)) if case.facts.mode == "Never" else None


def _undecided(case: _Case) -> AdmissionPlan | None:
    if not case.results.undecided or not case.facts.gating:
        return None
    return _gated(case, *case.results.because)


def _tolerated(case: _Case) -> AdmissionPlan:
    results = case.results
    additions = tolerations.additions_for(case.pod, results.true)
    patch = tolerations.patch(case.pod, additions, via="admission", gate="keep", fenced=False)
    return AdmissionPlan(
        decision="tolerated" if results.true else "ignored",
        patch=(*case.strip, *case.unlabel, *patch),
        warnings=(*_undecided_warnings(results), *_audit_warnings(results.audited, case.pod)),
        because=results.because,
        additions=additions,
        failed=results.failures,
    )


CHAIN: Final[Chain[_Case, AdmissionPlan]] = (  # order is the specification
    _excluded,  # bound, mirror, DaemonSet, opted out, namespace not managed -> nothing
    _not_ready,  # caches not synced yet -> nothing, the controller repairs it late
    _already_gated,  # our gate is on the Pod -> leave it, keep the label right
    _never,  # mode Never -> nothing, the controller adds late what is due
    _gate_first,  # mode Gate -> gate
    _undecided,  # a rule cannot be decided yet, and somebody can release -> gate
    _tolerated,  # else -> the tolerations of every true rule, no gate
)


def _ignored(reason: PodReason, patch: Patch = ()) -> AdmissionPlan:
    return AdmissionPlan(patch=patch, because=(Reason(reason),))


def _gated(case: _Case, *because: Reason) -> AdmissionPlan:
    patch = tolerations.patch(case.pod, (), via="admission", gate="add", fenced=False)
    return AdmissionPlan(decision="gated", patch=(*case.strip, *patch), because=because)


def _undecided_warnings(results: Results) -> Iterator[str]:
    """For a Pod that would be gated if somebody could release it."""
    if results.undecided:
        why = "; ".join(dict.fromkeys(why for _, why in results.undecided))
        yield f"tollbar: not held, because no controller could release it; tolerations may come later: {why}"


def _audit_warnings(rules: Sequence[Rule], pod: Object) -> Iterator[str]:
    for rule in rules:
        for addition in tolerations.additions_for(pod, (rule,)):
            count = len(addition.tolerations)
            yield f"tollbar: rule {rule.name} (Audit) would add {count} toleration{'' if count == 1 else 's'}"


def _without_record(pod: Object) -> Object:
    kept = {k: v for k, v in annotations_of(pod).items() if k != wellknown.ANNOTATION_PROVENANCE}
    return {**pod, "metadata": {**metadata(pod), "annotations": kept}}


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
