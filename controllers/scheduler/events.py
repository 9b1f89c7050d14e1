"""The Events of the scheduler, with kube-scheduler's reasons and texts.

Source: pkg/scheduler/schedule_one.go.
"""

from typing import Final, Literal

from tollbar.model.plan import Code, Event
from tollbar.scheduler.cache.podinfo import PodInfo

_LONGEST: Final = 1024
"""Characters that the note of an Event may have."""


class SchedulerEvent(Code):
    """Events of Tollbar's scheduler on Pods.  Plugins add their own, such as `Preempted`."""

    SCHEDULED = "Scheduled", "The Pod was bound to a Node."
    FAILED_SCHEDULING = (
        "FailedScheduling",
        """Warning: no Node fits, or an internal error; the note counts the Nodes by what each was rejected for. The Pod
        is tried again when something happens that may help.""",
    )


def scheduled(pod: PodInfo, node_name: str) -> Event:
    note = f"Successfully assigned {pod.key} to {node_name}"
    return Event("Normal", SchedulerEvent.SCHEDULED, note, "Binding")


def failed(message: str) -> Event:
    note = message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ..."
    return Event("Warning", SchedulerEvent.FAILED_SCHEDULING, note, "Scheduling")


def skipped(pod: PodInfo) -> Event:
    """The Pod was not tried, because it is being deleted."""
    return failed(f"skip schedule deleting pod: {pod.key}")


def of_plugin(kind: Literal["Normal", "Warning"], reason: str, action: str, note: str) -> Event:
    return Event(kind, reason, note, action)
