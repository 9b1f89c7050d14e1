"""What the scheduler writes into the status of a Pod: the condition PodScheduled and the nominated Node.

Source: updatePod in pkg/scheduler/schedule_one.go, UpdatePodCondition in pkg/api/v1/pod.
"""

from typing import Final

from tollbar.model import timestamps
from tollbar.model.objects import Object, metadata

POD_SCHEDULED: Final = "PodScheduled"


def patch(
    pod: Object, now: float, *, reason: str = "", message: str = "", nominated_node_name: str | None = None
) -> Object | None:
    """The strategic merge patch of a Pod's status, or None if it says all that already.

    With `reason` the condition PodScheduled becomes False.  `nominated_node_name` of None leaves that field as it is,
    an empty one clears it.
    """
    status: Object = {}
    if reason and (condition := _condition(pod, now, reason, message)):
        status["conditions"] = [condition]
    if nominated_node_name is not None and nominated_node_name != (
        (pod.get("status") or {}).get("nominatedNodeName") or ""
    ):
        status["nominatedNodeName"] = nominated_node_name or None
    return {"status": status} if status else None


def _condition(pod: Object, now: float, reason: str, message: str) -> Object | None:
    old: Object = next(
        (each for each in (pod.get("status") or {}).get("conditions") or () if each.get("type") == POD_SCHEDULED), {}
    )
    wanted = ("False", reason, message)
    if (old.get("status"), old.get("reason"), old.get("message") or "") == wanted:
        return None
    same = old.get("status") == "False"
    return {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": old.get("lastTransitionTime") if same else timestamps.time(now),
        "observedGeneration": metadata(pod).get("generation") or 0,
    }
