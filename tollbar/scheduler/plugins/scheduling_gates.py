"""SchedulingGates: a Pod with scheduling gates does not enter the queue (KEP-3521)."""

from collections.abc import Sequence

from tollbar.model.objects import spec
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, ClusterEvent, ClusterEventWithHint, EventResource
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments
from tollbar.scheduler.framework.status import Status, unresolvable


class SchedulingGates:
    name = "SchedulingGates"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """There is nothing to configure."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = spec(pod.object).get("schedulingGates")
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate['name'] for gate in gates)}]")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        eliminated = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [ClusterEventWithHint(eliminated)]
