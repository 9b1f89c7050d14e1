"""Which tolerations of devices new claims get, for whoever creates or admits them, and how many were given."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from tollbar.decide.claims import devicetolerations
from tollbar.decide.claims.devicetolerations import DeviceAddition, DeviceTolerationPlan
from tollbar.model.objects import Object
from tollbar.runtime.metrics import Metrics
from tollbar.views.gatherer import Gatherer


class DeviceTolerations:
    """Decides by the rules and DeviceClasses in the caches.

    `kept` says whether the API server keeps such tolerations.  Where it drops them no rule gives any, so that nothing
    is recorded or counted that the claim does not have.
    """

    def __init__(self, gatherer: Gatherer, metrics: Metrics, kept: Callable[[], bool]) -> None:
        self._gatherer = gatherer
        self._kept = kept
        self._given = metrics.counter("tollbar_device_tolerations_total")

    def decide(self, obj: Object) -> DeviceTolerationPlan:
        """About a ResourceClaim or a ResourceClaimTemplate that is about to be created, in its namespace."""
        facts = self._gatherer.device_toleration_facts(obj)
        return devicetolerations.decide(facts if self._kept() else replace(facts, rules=()))

    def created(self, plan: DeviceTolerationPlan) -> None:
        """Count what the controllers have created.  The webhook is asked about it, and counts what Audit would add."""
        self._count(plan.additions, "Enforce")

    def admitted(self, plan: DeviceTolerationPlan) -> None:
        """Count what the webhook has answered."""
        self._count(plan.additions, "Enforce")
        self._count(plan.audited, "Audit")

    def _count(self, additions: Iterable[DeviceAddition], mode: str) -> None:
        for addition in additions:
            self._given.labels(addition.rule, mode).inc(len(addition.tolerations))
