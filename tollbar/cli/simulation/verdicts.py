"""The scheduler's results for the Nodes, by the workload of the Pods.

Kept are the first attempt that found a Node, and the last one that found none, which shows the state at the end.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from controllers.scheduler.cycle import Attempt
from tollbar.model.objects import Key
from tollbar.model.steps import result_of
from tollbar.scheduler.algorithm import Scheduled
from tollbar.scheduler.framework.diagnosis import FitError, NodeStatuses
from tollbar.scheduler.framework.status import Status

_ORIGINS: Final = 100
"""Of so many origins the Nodes are kept, since each may have thousands."""
_ASKED: Final = 20_000
"""So many times Filter is asked about a Node that the scheduler itself may not have looked at, over all origins."""


class Rejected(NamedTuple):
    """The plugin that rejects a Node first, and its words."""

    plugin: str
    reason: str

    @classmethod
    def of(cls, status: Status | None) -> "Rejected | None":
        return None if status is None else cls(status.plugin, status.message)


Verdicts: TypeAlias = Mapping[str, Rejected | None]
"""By Node: why it was rejected, None for one that fits.  A Node that is not in it was not looked at."""


class Seen:
    """Is told of attempts (`controllers.scheduler.cycle.Observe`).

    `origin_of` tells what a Pod comes from; None for one that nobody asks about.
    """

    def __init__(self, origin_of: Callable[[Key], str | None]) -> None:
        self._origin_of = origin_of
        self._left = _ASKED
        self._found: dict[str, Verdicts] = {}
        self._missed: dict[str, tuple[NodeStatuses, list[str]]] = {}

    def __call__(self, attempt: Attempt, result: Scheduled | FitError | Status) -> None:
        origin = self._origin_of(attempt.pod.key)
        if origin is None or isinstance(result, Status):
            return
        if isinstance(result, FitError):
            if origin in self._missed or len(self._missed) < _ORIGINS:
                names = [node.name for node in attempt.framework.handle.snapshot]
                self._missed[origin] = result.diagnosis.statuses, names
        elif origin not in self._found and len(self._found) < _ORIGINS:
            self._found[origin] = dict(self._asked(attempt))

    def found(self, origin: str) -> Verdicts | None:
        """Of the first attempt that found a Node."""
        return self._found.get(origin)

    def missed(self, origin: str) -> Verdicts | None:
        """Of the last attempt that found none."""
        known = self._missed.get(origin)
        return {name: Rejected.of(known[0].get(name)) for name in known[1]} if known is not None else None

    def _asked(self, attempt: Attempt) -> Iterator[tuple[str, Rejected | None]]:
        """Also of Nodes that the scheduler itself did not look at, since enough others fit."""
        framework, state = attempt.framework, attempt.state.clone()
        for node in islice(framework.handle.snapshot, self._left):
            self._left -= 1
            yield node.name, Rejected.of(result_of(framework.filter_with_nominated_pods(state, attempt.pod, node)))
