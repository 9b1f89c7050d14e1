"""Decides for one gate class what a Pod gets at its creation: nothing, the change of a release, or the gate."""

from tollbar.decide.chain import first_answer
from tollbar.decide.gates import creation, mutations
from tollbar.decide.gates.answers import NOTHING, Release
from tollbar.decide.gates.creation import CreationCase, CreationPlan
from tollbar.decide.pods.reasons import PodReason
from tollbar.gates.evaluation import Evaluated, GateEvaluator
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import Reason


class GateCreation(Evaluated, CreationCase[CreationPlan]):
    """`releasing` is whether a controller is there that releases what is gated."""

    at_admission = True

    def __init__(self, evaluator: GateEvaluator, pod: Object, *, releasing: bool) -> None:
        self.gate = evaluator.gate.name
        self.evaluator = evaluator
        super().__init__(
            pod,
            managed=evaluator.gatherer.is_managed(key_of(pod).namespace),
            ready=evaluator.synced,
            gating=not evaluator.gate.fails_open or (releasing and evaluator.policy.usable),
        )

    def decide(self) -> CreationPlan:
        return first_answer(creation.CHAIN, self) or CreationPlan()

    def ignored(self, reason: PodReason) -> CreationPlan:
        if reason is PodReason.CACHES_NOT_SYNCED and not self.evaluator.gate.fails_open:
            return self.gated(Reason(reason))
        return CreationPlan(because=(Reason(reason),))

    def gated(self, *because: Reason) -> CreationPlan:
        patch = mutations.patch(self.pod, NOTHING, gate=self.gate, action="add", fenced=False)
        return CreationPlan("gated", patch, because=because)

    def changed(self, release: Release, unmet: str) -> CreationPlan:
        mutation = mutations.lacking(self.pod, release.mutation)
        patch = mutations.patch(self.pod, mutation, gate=self.gate, action="keep", fenced=False)
        warnings = (f"tollbar: {self.gate}: {creation.NOBODY_RELEASES}: {unmet}",) if unmet else ()
        told = tuple(f"tollbar: {self.gate}: {each}" for each in release.warnings)
        return CreationPlan("changed" if patch else "ignored", patch, (*warnings, *told), release.because)
