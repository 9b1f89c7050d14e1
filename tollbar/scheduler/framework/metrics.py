"""What is measured of one profile, by the framework and by plugins, under kube-scheduler's names.

Source: pkg/scheduler/metrics/metrics.go.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from tollbar.model.objects import Object
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.status import Code


class Metrics(Protocol):
    """The names in parentheses are those of the series, without their prefix; times are in seconds."""

    def point(self, point: Point, code: Code, seconds: float) -> None:
        """An extension point has been run, with all its plugins (framework_extension_point_duration_seconds)."""

    def plugin(self, point: Point, plugin: str, code: Code, seconds: float) -> None:
        """One plugin has been called, in a cycle that records it (plugin_execution_duration_seconds)."""

    def evaluated(self, point: Point, plugin: str, times: int) -> None:
        """PreFilter, Filter, PreScore or Score of a plugin was called so often, and did not skip the Pod
        (plugin_evaluation_total)."""

    def permit_wait(self, code: Code, seconds: float) -> None:
        """A Pod has waited for Permit (permit_wait_duration_seconds)."""

    def preemption_tried(self) -> None:
        """PostFilter looks for Pods to preempt (preemption_attempts_total)."""

    def preempted(self, victims: int) -> None:
        """That many Pods are preempted for one (preemption_victims)."""

    def claim_created(self, created: bool) -> None:
        """The API server took a claim for extended resources (KEP-5004), or refused it
        (resourceclaim_creates_total)."""

    def waited_for_devices(self, outcome: str, seconds: float, devices: Iterable[Object]) -> None:
        """PreBind has waited for binding conditions (KEP-5007) of some of the Pod's devices
        (dra_bindingconditions_wait_duration_seconds, dra_bindingconditions_allocations_total).

        The outcome is success, failure, timeout or error; the devices are the results in `status.allocation` of the
        Pod's claims.
        """


class NoMetrics:
    """Measures nothing."""

    def point(self, point: Point, code: Code, seconds: float) -> None:
        pass

    def plugin(self, point: Point, plugin: str, code: Code, seconds: float) -> None:
        pass

    def evaluated(self, point: Point, plugin: str, times: int) -> None:
        pass

    def permit_wait(self, code: Code, seconds: float) -> None:
        pass

    def preemption_tried(self) -> None:
        pass

    def preempted(self, victims: int) -> None:
        pass

    def claim_created(self, created: bool) -> None:
        pass

    def waited_for_devices(self, outcome: str, seconds: float, devices: Iterable[Object]) -> None:
        pass


NO_METRICS: Final = NoMetrics()
