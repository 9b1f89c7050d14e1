"""A Pod that waits to be scheduled, with what happened to it so far.

Source: QueuedPodInfo and QueueingParams in pkg/scheduler/framework/types.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tollbar.scheduler.cache.podinfo import PodInfo


@dataclass(eq=False, slots=True)
class QueuedPod:
    """One object for a Pod's whole stay in the queue and in flight.  All times are in seconds of the queue's clock."""

    pod: PodInfo
    timestamp: float
    """When it entered the queue, or came back to it."""
    attempts: int = 0
    """How often it was popped."""
    unschedulable_count: int = 0
    """How many attempts ended with a rejection."""
    consecutive_errors: int = 0
    """How many attempts in a row ended with an error, up to the latest one."""
    backoff_expiration: float | None = None
    """In whole seconds; None until it is asked for."""
    was_flushed: bool = False
    """Whether only the flush of the unschedulable Pods has made it try again: if the attempt succeeds, no event woke
    it that should have."""
    flush_timestamp: float = 0.0
    initial_attempt: float | None = None
    """When it first was ready to be tried."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    """The plugins that rejected it in its last attempt, and those that gated it since."""
    pending_plugins: set[str] = field(default_factory=set)
    """The plugins that rejected it with Pending."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that keeps it out of the active queue."""

    @property
    def is_gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> set[str]:
        """The plugins whose hints decide whether an event wakes it."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def profile(self) -> str:
        """The name of the scheduler that it asks for."""
        return self.pod.scheduler_name

    def failed(self, pod: PodInfo, unschedulable: Iterable[str] = (), pending: Iterable[str] = ()) -> None:
        """An attempt failed: remember who rejected the Pod, nobody after an error, and what the Pod is by now.

        Source: handleSchedulingFailure.
        """
        self.pod = pod
        self.unschedulable_plugins = set(unschedulable)
        self.pending_plugins = set(pending)
        self.gating_plugin = ""
