"""What the scheduler measures that plugins tell it, under kube-scheduler's names."""

from controllers.scheduler.metrics import FrameworkMetrics
from tollbar.runtime.metrics import Metrics
from tollbar.scheduler.framework.points import Point


def test_claims_for_extended_resources_are_counted_as_upstream_counts_them() -> None:
    metrics = Metrics()
    own = FrameworkMetrics(metrics, "own")
    for created in (True, True, False):
        own.claim_created(created)
    counter = metrics.counter("dynamic_resource_allocation_resourceclaim_creates_total")
    counted = {status: counter.labels(status, "false", "", "Pod")._value.get() for status in ("success", "failure")}

    assert counted == {"success": 2, "failure": 1}


def test_waits_for_binding_conditions_are_measured_for_each_device() -> None:
    metrics = Metrics()
    devices = [{"driver": "fabric", "bindingConditions": ["attached"]}, {"driver": "fabric"}, {"driver": "local"}]
    FrameworkMetrics(metrics, "own").waited_for_devices("timeout", 600.0, devices)
    counter = metrics.counter("scheduler_dra_bindingconditions_allocations_total")
    histogram = metrics.histogram("scheduler_dra_bindingconditions_wait_duration_seconds")
    labels = [("own", driver, "timeout") for driver in ("fabric", "local")]

    assert [(counter.labels(*each)._value.get(), histogram.labels(*each)._sum.get()) for each in labels] == [
        (1, 1200.0),
        (0, 600.0),
    ]


def test_evaluations_of_plugins_are_counted_whenever_they_are_read() -> None:
    metrics = Metrics()
    own = FrameworkMetrics(metrics, "own")
    read = []
    for times in (3, 4, 0):
        own.evaluated(Point.FILTER, "NodeName", times)
        read += [line for line in metrics.render().decode().splitlines() if line.startswith("scheduler_plugin_eval")]

    series = 'scheduler_plugin_evaluation_total{extension_point="Filter",plugin="NodeName",profile="own"}'
    assert read == [f"{series} {count}" for count in ("3.0", "7.0", "7.0")]
