"""When to report that PreEnqueue keeps a Pod out of the queue (KEP-5501).

kube-scheduler 1.37.0 does not report it; this follows the KEP.  A rejection that is over within the delay costs no
write.  kube-apiserver itself reports scheduling gates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from tollbar.model.objects import Key
from tollbar.scheduler.cache.podinfo import PodInfo

REASON: Final = "NotReadyForScheduling"
"""The reason in the condition PodScheduled."""
DELAY: Final = 5.0
_REPORTED_ELSEWHERE: Final = frozenset({"SchedulingGates"})


@dataclass(frozen=True, slots=True)
class Report:
    """Set the condition PodScheduled to False with the reason above and this message."""

    key: Key
    uid: str
    message: str


class Reports:
    """What is to be reported after `delay` seconds, by uid; nothing if `delay` is None."""

    def __init__(self, delay: float | None = DELAY) -> None:
        self._delay = delay
        self._due: dict[str, tuple[float, Report]] = {}
        """In the order of their times."""

    def rejected(self, pod: PodInfo, plugin: str, message: str, now: float) -> None:
        """PreEnqueue rejected the Pod.  A further one replaces the message and keeps the time."""
        if plugin in _REPORTED_ELSEWHERE or self._delay is None:
            return
        if _shown(pod) == message:
            self.forget(pod.uid)
        else:
            due, _ = self._due.get(pod.uid, (now + self._delay, None))
            self._due[pod.uid] = (due, Report(pod.key, pod.uid, message))

    def forget(self, uid: str) -> None:
        """PreEnqueue let the Pod pass, or it is gone.  What its condition says is replaced by its next attempt."""
        self._due.pop(uid, None)

    def next_due(self) -> float:
        """When the next report is due; infinity if there is none."""
        due, _ = next(iter(self._due.values()), (inf, None))
        return due

    def take(self, now: float) -> Sequence[Report]:
        """The reports that are due, each once."""
        taken = []
        while self._due and (entry := next(iter(self._due.values())))[0] <= now:
            report = entry[1]
            del self._due[report.uid]
            taken.append(report)
        return taken


def _shown(pod: PodInfo) -> str:
    """The message that the Pod's condition has already."""
    for condition in (pod.object.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == REASON:
            return str(condition.get("message") or "")
    return ""
