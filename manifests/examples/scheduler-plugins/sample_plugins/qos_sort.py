"""QOSSort: of Pods with equal priority, Guaranteed ones come first, then Burstable ones, then BestEffort ones.

It takes the place of PrioritySort, and has no arguments.
"""

from typing import Final

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments, Queued

_PLACES: Final = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}


class QOSSort:
    name = "QOSSort"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        if args:
            raise ValueError(f"unknown fields: {', '.join(sorted(args))}")

    def less(self, one: Queued, other: Queued) -> bool:
        """By priority, then by QoS class, then by the time at which they entered the queue."""
        return _place(one) < _place(other)


def _place(queued: Queued) -> tuple[int, int, float]:
    return -queued.pod.priority, _PLACES[qos_class(queued.pod)], queued.timestamp


def qos_class(pod: PodInfo) -> str:
    """What the API server has made of the Pod's requests and limits; BestEffort if it says nothing."""
    found = (pod.object.get("status") or {}).get("qosClass")
    return found if found in _PLACES else "BestEffort"
