"""What the queue counts, for the metrics of kube-scheduler that are named here."""

from typing import Protocol


class QueueMetrics(Protocol):
    def incoming(self, queue: str, event: str) -> None:
        """A Pod entered a queue (active, backoff or unschedulable): scheduler_queue_incoming_pods_total."""

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """So many Pods more, or fewer, wait because of this plugin: scheduler_unschedulable_pods."""


class NoMetrics:
    def incoming(self, queue: str, event: str) -> None:
        pass

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        pass


NO_METRICS = NoMetrics()
