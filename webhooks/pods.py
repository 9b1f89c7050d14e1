"""Pods at their creation: tolerations, our gate, or nothing.

Called by the server for every Pod that the API server's own prefilter lets through, and again when a later webhook
changed it.  Reads the caches and no API; the decision itself is `tollbar.decide.pods.admission`.  A dry run gets the
same answer and is not counted.

Hazards: while this process is down, or its caches are behind, Pods are created without a decision; the controllers
add the tolerations late.  Replicas do not know of each other: each answers from its own caches.
"""

from tollbar.cel import CelEngine
from tollbar.decide.pods import admission
from tollbar.decide.pods.admission import AdmissionFacts, AdmissionPlan
from tollbar.decide.pods.package import assemble
from tollbar.decide.pods.scope import AdmissionMode
from tollbar.model.objects import Object, key_of, metadata
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Delta
from tollbar.views.caches import Caches
from webhooks.review import ALLOWED, Answer


class PodHandler:
    def __init__(self, caches: Caches, *, engine: CelEngine, mode: AdmissionMode, metrics: Metrics) -> None:
        self._caches = caches
        self._engine = engine
        self._mode = mode
        self._decisions = metrics.counter("tollbar_admission_decisions_total")
        self._added = metrics.counter("tollbar_tolerations_added_total")
        self._errors = metrics.counter("tollbar_rule_errors_total")
        self._metrics = metrics
        self._gating: bool | None = None
        caches.gates.subscribe(self._on_gate)
        caches.rules.subscribe(self._on_rule)

    def __call__(self, request: Object) -> Answer:
        pod = _created_pod(request)
        if pod is None:
            return ALLOWED
        plan = admission.decide(self.gather(pod))
        if not request.get("dryRun"):
            self._count(plan)
        return Answer(patch=plan.patch, warnings=plan.warnings)

    def gather(self, pod: Object) -> AdmissionFacts:
        caches = self._caches
        return AdmissionFacts(
            package=assemble(pod, caches, at_admission=True),
            rules=caches.ruleset.rules,
            engine=self._engine,
            selector=caches.ruleset.selector,
            mode=self._mode,
            managed=caches.is_managed(metadata(pod)["namespace"]),
            ready=caches.synced,
            gating=self._somebody_releases(),
        )

    def _somebody_releases(self) -> bool:
        if self._gating is None:
            self._gating = self._caches.gate_policy().usable
        return self._gating

    def _on_gate(self, _: Delta) -> None:
        self._gating = None

    def _on_rule(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None:
            self._metrics.forget("rule", key_of(delta.old).name)

    def _count(self, plan: AdmissionPlan) -> None:
        self._decisions.labels(plan.decision).inc()
        for addition in plan.additions:
            self._added.labels(addition.rule, "admission").inc(len(addition.tolerations))
        for rule, _ in plan.failed:
            self._errors.labels(rule, "EvaluationFailed").inc()


def _created_pod(request: Object) -> Object | None:
    """The Pod, in its namespace; None when the request is something else than the creation of a Pod."""
    kind = request.get("kind") or {}
    if request.get("operation") != "CREATE" or request.get("subResource"):
        return None
    if kind.get("kind") != "Pod" or kind.get("group"):
        return None
    pod = request.get("object")
    if not isinstance(pod, dict) or not isinstance(pod.get("spec"), dict) or not isinstance(pod.get("metadata"), dict):
        return None  # nothing that a patch of ours would apply to
    namespace = pod["metadata"].get("namespace") or request.get("namespace") or ""
    return {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
