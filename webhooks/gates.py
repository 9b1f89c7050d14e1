"""Answers reviews of Pods at their creation for one gate class: adds its gate, makes a release's change, or neither.

Hazards: while this process is down, Pods are created without the gate, or cannot be created if the class does not fail
open.  If the class raises, the Pod is held.
"""

from collections.abc import Callable

from tollbar.decide.gates.creation import CreationPlan
from tollbar.gates.admission import GateCreation
from tollbar.gates.evaluation import GateEvaluator
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import PODS
from tollbar.runtime.metrics import Metrics
from webhooks.review import ALLOWED, Answer, created


class GateHandler:
    """`releasing` tells whether a controller runs that releases Pods with this gate."""

    def __init__(self, evaluator: GateEvaluator, *, metrics: Metrics, releasing: Callable[[], bool]) -> None:
        self._evaluator = evaluator
        self._releasing = releasing
        self._decisions = metrics.counter("tollbar_gate_decisions_total")

    def __call__(self, request: Object) -> Answer:
        pod = created(request, PODS)
        if pod is None:
            return ALLOWED
        case = GateCreation(self._evaluator, pod, releasing=self._releasing())
        plan = case.decide()
        if not request.get("dryRun"):
            self._count(case, plan)
        return Answer(patch=plan.patch, warnings=plan.warnings)

    def _count(self, case: GateCreation, plan: CreationPlan) -> None:
        self._decisions.labels(case.gate, plan.decision).inc()
        if (failure := case.failure) is not None:
            self._evaluator.report(failure, key_of(case.pod))
