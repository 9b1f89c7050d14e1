"""What happens in the cluster while Pods are being scheduled, for those that come back rejected.

Source: inFlightPods and inFlightEvents in pkg/scheduler/backend/queue/active_queue.go.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import ClusterEvent


@dataclass(frozen=True, slots=True)
class Happened:
    """An event with its objects, as hints get them."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods that were popped and are not done, and the events since the first of them was popped.

    Events are numbered; those that happened before all Pods that are left were popped are dropped.
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[PodInfo, int]] = {}
        """By uid, in the order in which they were popped, with the number of the first event after that."""
        self._events: deque[Happened] = deque()
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def pods(self) -> list[PodInfo]:
        """As they were when they were popped."""
        return [pod for pod, _ in self._pods.values()]

    @property
    def events(self) -> tuple[Happened, ...]:
        return tuple(self._events)

    def add(self, pod: PodInfo) -> None:
        self._pods[pod.uid] = (pod, self._dropped + len(self._events))

    def done(self, uid: str) -> None:
        """This Pod is bound, or goes back to the queue, or is gone.  Does nothing if it is not in flight."""
        if self._pods.pop(uid, None) is None:
            return
        _, oldest = next(iter(self._pods.values()), (None, self._dropped + len(self._events)))
        while self._dropped < oldest:
            self._events.popleft()
            self._dropped += 1

    def happened(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Remember an event, if any Pod is in flight."""
        if self._pods:
            self._events.append(Happened(event, old, new))

    def since(self, uid: str) -> tuple[Happened, ...] | None:
        """The events since this Pod was popped; None if it is not in flight."""
        if uid not in self._pods:
            return None
        _, first = self._pods[uid]
        return tuple(islice(self._events, first - self._dropped, None))
