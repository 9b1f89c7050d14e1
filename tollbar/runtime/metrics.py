"""Every metric of every process, declared in one table, on a private registry.

The reference and the dashboard are generated from `TABLE`; the expressions of alerts are checked against it.

Invariants: a metric that is not in the table cannot be obtained; names and labels of the framework metrics are those of
controller-runtime and client-go, so that their dashboards work; a rule's series can be dropped when the rule is
deleted.  Gauges over a cache are computed at scrape time (`gauge(name).set_function(...)`), never counted up and down.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

_M = TypeVar("_M", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: the name as it is exposed (counters end in `_total`), its labels and, for histograms, the buckets."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_QUEUE_BUCKETS: Final = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
_RECONCILE_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ADMISSION_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_SCHEDULING_BUCKETS: Final = tuple(0.001 * 2**i for i in range(15))
_POINT_BUCKETS: Final = tuple(0.0001 * 2**i for i in range(12))
_PLUGIN_BUCKETS: Final = tuple(0.00001 * 1.5**i for i in range(20))
_SLI_BUCKETS: Final = tuple(0.01 * 2**i for i in range(20))
_BINDING_BUCKETS: Final = tuple(0.1 * 2**i for i in range(14))
_HOLD_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

TABLE: Final[tuple[Metric, ...]] = (
    # Work queues (client-go).
    Metric("workqueue_depth", "gauge", "Keys waiting in the work queue.", ("name",)),
    Metric("workqueue_adds_total", "counter", "Keys added to the work queue.", ("name",)),
    Metric(
        "workqueue_queue_duration_seconds", "histogram", "Seconds a key waits for a worker.", ("name",), _QUEUE_BUCKETS
    ),
    Metric(
        "workqueue_work_duration_seconds", "histogram", "Seconds a worker spends on a key.", ("name",), _QUEUE_BUCKETS
    ),
    Metric("workqueue_retries_total", "counter", "Keys added again with back-off.", ("name",)),
    Metric("workqueue_unfinished_work_seconds", "gauge", "Seconds of work in progress, summed over keys.", ("name",)),
    Metric(
        "workqueue_longest_running_processor_seconds", "gauge", "Seconds the oldest work in progress takes.", ("name",)
    ),
    # Controllers and webhooks (controller-runtime).
    Metric(
        "controller_runtime_reconcile_total",
        "counter",
        "Reconciles by result: success, requeue, requeue_after or error.",
        ("controller", "result"),
    ),
    Metric("controller_runtime_reconcile_errors_total", "counter", "Reconciles that failed.", ("controller",)),
    Metric(
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "Reconciles that failed for what a user wrote or the API server refused; tried again with back-off.",
        ("controller",),
    ),
    Metric(
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        "Seconds per reconcile.",
        ("controller",),
        _RECONCILE_BUCKETS,
    ),
    Metric(
        "controller_runtime_reconcile_panics_total",
        "counter",
        "Reconciles that raised what they should not have raised: errors of the program.",
        ("controller",),
    ),
    Metric("controller_runtime_active_workers", "gauge", "Workers that are busy.", ("controller",)),
    Metric("controller_runtime_max_concurrent_reconciles", "gauge", "Workers in all.", ("controller",)),
    Metric(
        "controller_runtime_webhook_requests_total",
        "counter",
        "Admission requests by HTTP status code.",
        ("webhook", "code"),
    ),
    Metric(
        "controller_runtime_webhook_latency_seconds",
        "histogram",
        "Seconds per admission request.",
        ("webhook",),
        _ADMISSION_BUCKETS,
    ),
    Metric(
        "controller_runtime_webhook_requests_in_flight", "gauge", "Admission requests being answered.", ("webhook",)
    ),
    Metric(
        "controller_runtime_webhook_panics_total",
        "counter",
        "Admission requests whose handler raised: errors of the program; the object was let through unchanged.",
    ),
    Metric("certwatcher_read_certificate_total", "counter", "Attempts to load the serving certificate."),
    Metric(
        "certwatcher_read_certificate_errors_total", "counter", "Attempts to load the serving certificate that failed."
    ),
    # API client and election (client-go).
    Metric(
        "rest_client_requests_total",
        "counter",
        "API requests by status code (<error> without an answer), method and host.",
        ("code", "method", "host"),
    ),
    Metric("leader_election_master_status", "gauge", "1 while this process holds the lease.", ("name",)),
    # ResourceClaims (kube-controller-manager).
    Metric(
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "counter",
        "ResourceClaims made from templates, or by the scheduler for extended resources, by success or failure.",
        ("status", "admin_access", "owner_api_group", "owner_api_kind"),
    ),
    Metric(
        "dynamic_resource_allocation_resource_claims",
        "gauge",
        "ResourceClaims by allocation, admin access and source: resource_claim_template, extended_resource or empty.",
        ("allocated", "admin_access", "source"),
    ),
    # The scheduler (kube-scheduler).
    Metric(
        "scheduler_schedule_attempts_total",
        "counter",
        "Attempts to schedule a Pod, by result: scheduled, unschedulable or error.",
        ("result", "profile"),
    ),
    Metric(
        "scheduler_scheduling_attempt_duration_seconds",
        "histogram",
        "Seconds per attempt, with the binding.",
        ("result", "profile"),
        _SCHEDULING_BUCKETS,
    ),
    Metric(
        "scheduler_scheduling_algorithm_duration_seconds",
        "histogram",
        "Seconds to look for a Node.",
        (),
        _SCHEDULING_BUCKETS,
    ),
    Metric(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "histogram",
        "Seconds from when a Pod first could be tried until it is bound, by the number of attempts.",
        ("attempts",),
        _SLI_BUCKETS,
    ),
    Metric(
        "scheduler_pod_scheduling_attempts",
        "histogram",
        "Attempts until a Pod is bound.",
        (),
        (1.0, 2.0, 4.0, 8.0, 16.0),
    ),
    Metric(
        "scheduler_pod_scheduled_after_flush_total",
        "counter",
        "Pods that were bound after no event but the flush had made the scheduler try them again.",
    ),
    Metric("scheduler_pending_pods", "gauge", "Pods that wait: active, backoff, unschedulable or gated.", ("queue",)),
    Metric(
        "scheduler_queue_incoming_pods_total",
        "counter",
        "Pods that entered a queue, by queue and by what brought them there.",
        ("queue", "event"),
    ),
    Metric("scheduler_unschedulable_pods", "gauge", "Pods that wait because of a plugin.", ("plugin", "profile")),
    Metric("scheduler_cache_size", "gauge", "Nodes, Pods and assumed Pods in the scheduler's cache.", ("type",)),
    Metric(
        "scheduler_framework_extension_point_duration_seconds",
        "histogram",
        "Seconds that all plugins of an extension point take together.",
        ("extension_point", "status", "profile"),
        _POINT_BUCKETS,
    ),
    Metric(
        "scheduler_plugin_execution_duration_seconds",
        "histogram",
        "Seconds of one plugin at one extension point, in a tenth of the attempts.",
        ("plugin", "extension_point", "status"),
        _PLUGIN_BUCKETS,
    ),
    Metric(
        "scheduler_plugin_evaluation_total",
        "counter",
        "Calls of a plugin's PreFilter, Filter, PreScore and Score, once for each Node that it looks at; not those of "
        "PreFilter and PreScore that say Skip.",
        ("plugin", "extension_point", "profile"),
    ),
    Metric(
        "scheduler_permit_wait_duration_seconds",
        "histogram",
        "Seconds for which Permit let a Pod wait.",
        ("result",),
        _SCHEDULING_BUCKETS,
    ),
    Metric("scheduler_preemption_attempts_total", "counter", "Attempts to make room by deleting other Pods."),
    Metric(
        "scheduler_preemption_victims",
        "histogram",
        "Pods that one preemption deletes.",
        (),
        (1, 2, 4, 8, 16, 32, 64),
    ),
    Metric(
        "scheduler_dra_bindingconditions_allocations_total",
        "counter",
        "Devices with binding conditions, by how the wait for them ended: success, failure, timeout or error.",
        ("profile", "driver", "status"),
    ),
    Metric(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "histogram",
        "Seconds for which PreBind waited for binding conditions, for each device of the Pod.",
        ("profile", "driver", "status"),
        _BINDING_BUCKETS,
    ),
    # Tollbar.
    Metric(
        "tollbar_gate_hold_seconds",
        "histogram",
        "Seconds from the creation of a Pod to the release of its gate.",
        (),
        _HOLD_BUCKETS,
    ),
    Metric(
        "tollbar_gate_decisions_total",
        "counter",
        "Pods at admission by a gate class: ignored, changed (the fast path) or gated.",
        ("gate", "decision"),
    ),
    Metric("tollbar_gate_releases_total", "counter", "Pods that a gate class's controller has released.", ("gate",)),
    Metric(
        "tollbar_gate_errors_total",
        "counter",
        "Decisions in which a gate class raised, or asked for a change that the API server refuses.",
        ("gate", "reason"),
    ),
    Metric("tollbar_gated_pods", "gauge", "Pods that carry the gate tollbar.dev/tolerations."),
    Metric(
        "tollbar_gate_held_pods",
        "gauge",
        "Pods that carry a gate, Tollbar's or of others, which a SchedulingGate declares.",
        ("gate",),
    ),
    Metric(
        "tollbar_gate_overdue_pods",
        "gauge",
        "Pods that carry such a gate for longer than maxHold of its SchedulingGate.",
        ("gate",),
    ),
    Metric(
        "tollbar_overdue_namespaces",
        "gauge",
        "Namespaces with Pods that carry Tollbar's gate for longer than maxHold and should have been released.",
    ),
    Metric(
        "tollbar_admission_decisions_total",
        "counter",
        "Pods at admission: ignored, tolerated (the fast path) or gated.",
        ("decision",),
    ),
    Metric(
        "tollbar_admission_connections_shed_total",
        "counter",
        "Connections that the webhook closed: too many connections, too many bytes of unread reviews, or a timeout.",
        ("reason",),
    ),
    Metric(
        "tollbar_tolerations_added_total",
        "counter",
        "Tolerations added, by rule and by the way they came: admission, gate or late.",
        ("rule", "via"),
    ),
    Metric(
        "tollbar_device_tolerations_total",
        "counter",
        "Tolerations of devices that new claims and templates got, by rule; with the mode Audit, would have got.",
        ("rule", "mode"),
    ),
    Metric(
        "tollbar_tolerations_unjustified_total",
        "counter",
        "Tolerations of running Pods that a rule gave for other claims than they run with.",
        ("rule",),
    ),
    Metric(
        "tollbar_evictions_total",
        "counter",
        "Evictions of Pods with unjustified tolerations: evicted, budget (a PodDisruptionBudget does not allow it yet)"
        " or failed.",
        ("result",),
    ),
    Metric(
        "tollbar_rule_matches_total",
        "counter",
        "Pods that a rule was found to match, in Audit or in force: each once for a generation of the rule.",
        ("rule",),
    ),
    Metric("tollbar_rule_errors_total", "counter", "Evaluations and compilations that failed.", ("rule", "reason")),
    Metric(
        "tollbar_reservations",
        "gauge",
        "Claims that are to be kept for a workload, by the reason of the condition Reserved.",
        ("reason",),
    ),
    Metric(
        "tollbar_claim_oscillations_total",
        "counter",
        "Times that a finished Pod's entry of a claim was found to come and go (kubernetes/kubernetes#141274).",
    ),
    Metric(
        "tollbar_claims_oscillating",
        "gauge",
        "Claims on which a finished Pod's entry was seen to come and go within half a minute.",
    ),
    Metric("tollbar_cache_objects", "gauge", "Objects in the cache.", ("kind",)),
    Metric(
        "tollbar_cache_stubs",
        "gauge",
        "Objects of which the cache has but a stub, without what rules read: too large, nested too deeply, or too many"
        " for its memory.",
        ("kind",),
    ),
    Metric("tollbar_watch_age_seconds", "gauge", "Seconds since the API server last answered for a kind.", ("kind",)),
    Metric("tollbar_relists_total", "counter", "Complete lists of a kind.", ("kind",)),
    Metric("tollbar_watch_events_total", "counter", "Watch events of a kind, bookmarks excepted.", ("kind",)),
    Metric(
        "tollbar_events_total",
        "counter",
        "Events (events.k8s.io) by what became of them: sent, series, dropped or failed.",
        ("result",),
    ),
    Metric(
        "tollbar_certificate_expiry_timestamp_seconds",
        "gauge",
        "When the serving certificate expires, in seconds since the epoch.",
    ),
    Metric(
        "tollbar_certificate_authority_expiry_timestamp_seconds",
        "gauge",
        "When the authority that signs serving certificates expires, in seconds since the epoch.",
    ),
    Metric("tollbar_build_info", "gauge", "1, labelled with the version that runs.", ("version",)),
)


class _BeforeReading(Collector):
    """Has no metrics.  It is registered first, and so asked before all that has some."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def collect(self) -> Iterable[Family]:
        for call in self.calls:
            call()
        return ()


class Metrics:
    """The metrics of one process.  Two instances never share a series, so tests need no clean-up."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # one extra series per counter that nobody reads
        self.registry = CollectorRegistry(auto_describe=True)
        self._before_reading = _BeforeReading()
        self.registry.register(self._before_reading)
        self._rows = {row.name: row for row in TABLE}
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str) -> Counter:
        """The declared counter.  Raises KeyError on an undeclared name, TypeError when it is not a counter."""
        return self._get(name, Counter)

    def gauge(self, name: str) -> Gauge:
        """The declared gauge, whose children take `set` or `set_function`.  Raises like `counter`."""
        return self._get(name, Gauge)

    def histogram(self, name: str) -> Histogram:
        """The declared histogram.  Raises like `counter`."""
        return self._get(name, Histogram)

    def before_reading(self, call: Callable[[], None]) -> None:
        """Call this when metrics are about to be read, to add what was counted elsewhere, where it takes less time."""
        self._before_reading.calls.append(call)

    def render(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return generate_latest(self.registry)

    def forget(self, label_name: str, value: str) -> None:
        """Drop every series with this label value, for instance those of a rule that was deleted."""
        for name, metric in self._metrics.items():
            labels = self._rows[name].labels
            if labels == (label_name,):
                metric.remove(value)  # the other one looks at every series of the metric
            elif label_name in labels:
                metric.remove_by_labels({label_name: value})

    def _get(self, name: str, kind: type[_M]) -> _M:
        metric = self._metrics.get(name)
        if metric is None:
            # Registered on first use, so that a process does not expose the metrics of the other process as zeros.
            metric = self._metrics[name] = self._build(self._rows[name])
        if not isinstance(metric, kind):
            raise TypeError(f"{name} is a {type(metric).__name__.lower()}, not a {kind.__name__.lower()}")
        return metric

    def _build(self, row: Metric) -> Counter | Gauge | Histogram:
        match row.type:
            case "counter":
                return Counter(row.name, row.help, row.labels, registry=self.registry)
            case "gauge":
                return Gauge(row.name, row.help, row.labels, registry=self.registry)
            case "histogram":
                return Histogram(row.name, row.help, row.labels, buckets=row.buckets, registry=self.registry)
