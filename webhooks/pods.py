"""Answers reviews of Pods at their creation: adds tolerations or Tollbar's gate, or changes nothing.

The API server sends every Pod that passes the matchConditions, and again when a later webhook changed it.  The answer
comes from the caches alone; the decision is `tollbar.decide.pods.admission`.  A dry run gets the same answer and is not
counted.

Hazards: while this process is down, or its caches are behind, Pods are created without a decision; the controllers add
the tolerations late.  While no controller renews the Lease, no Pod is gated, because none would be released.
"""

from collections.abc import Callable

from tollbar.decide.pods import admission
from tollbar.decide.pods.admission import AdmissionFacts, AdmissionPlan
from tollbar.decide.pods.scope import AdmissionMode
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import PODS
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.source import Delta
from tollbar.views.gatherer import Gatherer
from webhooks.review import ALLOWED, Answer, created


class PodHandler:
    """`releasing` tells whether a controller runs that releases gated Pods."""

    def __init__(
        self, gatherer: Gatherer, *, mode: AdmissionMode, metrics: Metrics, releasing: Callable[[], bool]
    ) -> None:
        self._gatherer = gatherer
        self._releasing = releasing
        self._mode = mode
        self._decisions = metrics.counter("tollbar_admission_decisions_total")
        self._added = metrics.counter("tollbar_tolerations_added_total")
        self._errors = metrics.counter("tollbar_rule_errors_total")
        self._metrics = metrics
        gatherer.rules.subscribe(self._on_rule)

    def __call__(self, request: Object) -> Answer:
        pod = created(request, PODS)
        if pod is None:
            return ALLOWED
        plan = admission.decide(self.gather(pod))
        if not request.get("dryRun"):
            self._count(plan)
        return Answer(patch=plan.patch, warnings=plan.warnings)

    def gather(self, pod: Object) -> AdmissionFacts:
        return self._gatherer.admission_facts(pod, self._mode, releasing=self._releasing())

    def _on_rule(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None:
            self._metrics.forget("rule", key_of(delta.old).name)

    def _count(self, plan: AdmissionPlan) -> None:
        self._decisions.labels(plan.decision).inc()
        for addition in plan.additions:
            self._added.labels(addition.rule, "admission").inc(len(addition.tolerations))
        for rule, _ in plan.failed:
            self._errors.labels(rule, "EvaluationFailed").inc()
