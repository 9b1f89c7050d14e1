"""Pods that were tried in vain and have to wait a while before the next attempt.

Source: pkg/scheduler/backend/queue/backoff_queue.go, with SchedulerPopFromBackoffQ (KEP-5142).
"""

from collections.abc import Callable
from math import floor, inf

from tollbar.model.objects import Key
from tollbar.scheduler.queue.heap import KeyedHeap
from tollbar.scheduler.queue.queued import QueuedPod


class BackoffQueue:
    """Rejected Pods and, apart from them, Pods whose attempt ended with an error.

    `initial` and `maximum` are the seconds of the first and the longest back-off; with a maximum of 0 there is none.
    A back-off ends at a whole second, and lasts until that second is over.  Rejected Pods whose back-off ends at the
    same second are in the order of `less`.
    """

    def __init__(
        self, less: Callable[[QueuedPod, QueuedPod], bool], initial: float, maximum: float, now: Callable[[], float]
    ) -> None:
        self._less = less
        self._initial = initial
        self._maximum = maximum
        self._now = now
        self._rejected: KeyedHeap[Key, QueuedPod] = KeyedHeap(self._before)
        self._failed: KeyedHeap[Key, QueuedPod] = KeyedHeap(
            lambda one, other: self._expiration(one) < self._expiration(other)
        )

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: Key) -> bool:
        return key in self._rejected or key in self._failed

    def is_backing_off(self, queued: QueuedPod) -> bool:
        return self._expiration(queued) >= floor(self._now())

    def add(self, queued: QueuedPod) -> None:
        (self._rejected if queued.rejectors else self._failed).put(queued.pod.key, queued)

    def get(self, key: Key) -> QueuedPod | None:
        return self._rejected.get(key) or self._failed.get(key)

    def changed(self, queued: QueuedPod) -> None:
        """Its Pod was updated."""
        heap = self._rejected if queued.pod.key in self._rejected else self._failed
        heap.put(queued.pod.key, queued)

    def remove(self, key: Key) -> QueuedPod | None:
        return self._rejected.remove(key) or self._failed.remove(key)

    @property
    def can_pop(self) -> bool:
        """Whether a Pod waits that had no error."""
        return len(self._rejected) > 0

    def pop(self) -> QueuedPod | None:
        """Take the Pod whose back-off ends first though it has not ended; never one that had an error."""
        return self._rejected.pop()

    def pop_completed(self) -> list[QueuedPod]:
        """Take all whose back-off is over."""
        found = []
        for heap in (self._rejected, self._failed):
            while (first := heap.first()) is not None and not self.is_backing_off(first):
                heap.pop()
                found.append(first)
        return found

    def next_completed(self) -> float:
        """When the next back-off will be over; infinity if there is none."""
        firsts = (self._rejected.first(), self._failed.first())
        return min([self._expiration(first) + 1 for first in firsts if first is not None], default=inf)

    def rejected(self) -> list[QueuedPod]:
        """In the order in which they will be popped."""
        return self._rejected.in_order()

    def failed(self) -> list[QueuedPod]:
        return self._failed.in_order()

    def _before(self, one: QueuedPod, other: QueuedPod) -> bool:
        ends, others = self._expiration(one), self._expiration(other)
        return self._less(one, other) if ends == others else ends < others

    def _expiration(self, queued: QueuedPod) -> float:
        count = queued.consecutive_errors or queued.unschedulable_count
        if not count or not self._maximum:
            return float("-inf")
        if queued.backoff_expiration is None:
            queued.backoff_expiration = floor(queued.timestamp + self._duration(count))
        return queued.backoff_expiration

    def _duration(self, count: int) -> float:
        """The first back-off, doubled with every further attempt: 1, 2, 4, 8, 10, 10 … seconds by default."""
        return min(self._initial * 2.0 ** min(count - 1, 62), self._maximum)
