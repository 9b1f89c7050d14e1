"""PrioritySort: Pods of higher priority come first, and of equal priority those that entered the queue first."""

from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments, Queued


class PrioritySort:
    name = "PrioritySort"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """There is nothing to configure."""

    def less(self, one: Queued, other: Queued) -> bool:
        return (-one.pod.priority, one.timestamp) < (-other.pod.priority, other.timestamp)
