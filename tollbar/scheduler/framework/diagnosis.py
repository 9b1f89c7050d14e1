"""Why no Node fits: what each Node was rejected for, and the text that users read.

Source: NodeToStatus, Diagnosis and FitError in pkg/scheduler/framework.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tollbar.scheduler.framework.status import Code, Status, by_identity

NO_NODES = "no nodes available to schedule pods"
_UNKNOWN = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


@dataclass(slots=True)
class NodeStatuses:
    """The answer for each Node that was rejected, by name; `absent` is that of all Nodes that were not looked at."""

    by_node: dict[str, Status] = field(default_factory=dict)
    absent: Status = _UNKNOWN
    counts: Mapping[Status, int] | None = None
    """What `counted` tells, where that is known without a look at each Node."""

    def get(self, node_name: str) -> Status:
        return self.by_node.get(node_name, self.absent)

    def __len__(self) -> int:
        return len(self.by_node)

    def __iter__(self) -> Iterator[tuple[str, Status]]:
        return iter(self.by_node.items())

    def counted(self) -> Iterator[tuple[Status, int]]:
        """Each answer with the number of Nodes that got it; equal answers may come more than once."""
        if self.counts is not None:
            return iter(self.counts.items())
        statuses = self.by_node.values()
        different = by_identity(statuses)
        return ((different[one], count) for one, count in Counter(map(id, statuses)).items())


@dataclass(slots=True)
class Diagnosis:
    statuses: NodeStatuses = field(default_factory=NodeStatuses)
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""

    def add_plugin(self, status: Status) -> None:
        """Remember which plugin rejected, since the events that it registers for let the Pod be tried again."""
        if not status.plugin:
            return
        if status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)


@dataclass(slots=True)
class FitError:
    """No Node fits this Pod."""

    node_count: int
    diagnosis: Diagnosis

    def __str__(self) -> str:
        """The message of the condition and of the Event FailedScheduling."""
        found = self.diagnosis
        text = f"0/{self.node_count} nodes are available:"
        if found.pre_filter_message:
            text += f" {found.pre_filter_message}."
        else:
            reasons = Counter[str]()
            for status, count in found.statuses.counted():
                for reason in status.reasons:
                    reasons[reason] += count
            missing = self.node_count - len(found.statuses)
            if missing > 0:
                reasons.update(dict.fromkeys(found.statuses.absent.reasons, missing))
            if reasons:
                text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
        return f"{text} {found.post_filter_message}" if found.post_filter_message else text
