"""The scheduling queue: which Pod is tried next, and what wakes those that did not fit.

    queue = SchedulingQueue(less, {"default-scheduler": profile}, now=clock, nominator=NominatedPods(pods.get))
    queue.add(pod)
    queued = queue.pop()
    queued.failed(pod, unschedulable={"NodeResourcesFit"})
    queue.add_unschedulable_if_not_present(queued)
    queue.move_all_to_active_or_backoff(event, old, new)

`queue.py` says where Pods wait and how they move; each other file has one idea that it uses.
"""

from tollbar.scheduler.queue.hints import registrations
from tollbar.scheduler.queue.metrics import QueueMetrics
from tollbar.scheduler.queue.nominator import NominatedPods
from tollbar.scheduler.queue.notready import Report
from tollbar.scheduler.queue.queue import Profile, SchedulingQueue, Settings
from tollbar.scheduler.queue.queued import QueuedPod

__all__ = [
    "NominatedPods",
    "Profile",
    "QueueMetrics",
    "QueuedPod",
    "Report",
    "SchedulingQueue",
    "Settings",
    "registrations",
]
