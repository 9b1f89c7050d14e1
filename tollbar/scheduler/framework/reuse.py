"""What plugins have answered about all Nodes for one Pod, kept for the next Pods with the same spec.

Pods of a workload come one after the other, and between two of them few Nodes change.  A plugin whose answers depend on
nothing but the Pod's spec and the Node says so (`tollbar.scheduler.framework.interface.Reusable`).  Its mask and its
scores are kept, and it is asked again only about Nodes that have changed since, one by one.  Where no Node fits, so are
the rejections of such plugins, also of Nodes to which other Pods are nominated.

Nothing is kept of a spec that comes once.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from tollbar.model.objects import Object
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shape
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.interface import DependsOn, Filter
from tollbar.scheduler.framework.status import Status

A = TypeVar("A", bound=np.generic)

MAX_SPECS: Final = 32
"""Of how many specs answers are kept.  At 5,000 Nodes those of the default profile take some 200 KB each, and 1.5 MB
more where preemption has found victims on all of them."""
MAX_ONE_BY_ONE: Final = 64
"""If more Nodes than so many have changed, all are asked about at once."""


@dataclass(slots=True)
class _Kept(Generic[A]):
    """The answers by place in the snapshot, as they were at a version of its log of changes."""

    values: NDArray[A]
    version: int


class Answers(Generic[A]):
    """Those of several plugins, at one extension point."""

    def __init__(self) -> None:
        self._by_plugin: dict[str, _Kept[A]] = {}

    def of(
        self,
        plugin: str,
        depends_on: DependsOn,
        nodes: Snapshot,
        about_all: Callable[[], NDArray[A] | Status],
        about: Callable[[NodeInfo], Any],
    ) -> NDArray[A] | Status:
        """What the plugin says of every Node now: those that have not changed are not asked about.

        The result holds until the next call.
        """
        log = nodes.changed_nodes if depends_on is DependsOn.NODE else nodes.changed
        kept = self._by_plugin.get(plugin)
        if kept is not None and kept.version == log.version:
            return kept.values
        self._by_plugin.pop(plugin, None)
        changed = log.since(kept.version) if kept is not None else None
        if kept is None or changed is None or len(changed) > MAX_ONE_BY_ONE:
            values = about_all()
            if isinstance(values, Status):
                return values
            kept = _Kept(values.copy(), log.version)
        else:
            for place in changed:
                answer = about(nodes.nodes[place])
                if isinstance(answer, Status):
                    return answer
                kept.values[place] = answer
            kept.version = log.version
        self._by_plugin[plugin] = kept
        return kept.values


_Nominated: TypeAlias = tuple[ref[PodInfo], ...]
"""Two are equal if they refer to the same records.  One that is gone equals no other."""


def _referred(pods: Iterable[PodInfo]) -> _Nominated:
    return tuple(map(ref, pods))


class Rejections:
    """Who rejects a Node first, and why, where no Node fits; `by_place` in the snapshot, None if that is not known.

    Only rejections are kept that depend, as do the successes of all plugins before, on the Pod's spec and the Node.
    `nominated` refers to the nominated Pods that were counted, in their order, by place, and keeps none of them in
    memory.
    """

    def __init__(self) -> None:
        self.by_place: list[Status | None] = []
        self.nominated: Mapping[int, _Nominated] = {}
        self.is_complete = False
        self._plugins: tuple[Filter, ...] = ()
        self._version = -1

    def update(
        self,
        plugins: tuple[Filter, ...],
        nodes: Snapshot,
        *,
        is_complete: bool,
        nominated: Mapping[int, tuple[PodInfo, ...]],
    ) -> None:
        """Forget Nodes that have changed since the last time, and all of them if the plugins were others.

        `plugins` are the first ones whose Filter is called, all of them Reusable for this Pod; `is_complete` if these
        are all.  A Node has changed, too, if other Pods are `nominated` to it than were then.
        """
        counted = {place: _referred(pods) for place, pods in nominated.items()}
        is_known = (plugins, is_complete) == (self._plugins, self.is_complete)
        changed = nodes.changed.since(self._version) if is_known else None
        if changed is not None:
            places = self.nominated.keys() | counted.keys()
            changed = {*changed, *(each for each in places if self.nominated.get(each) != counted.get(each))}
        self._forget(changed, len(nodes))
        self._plugins, self.is_complete, self.nominated = plugins, is_complete, counted
        self._version = nodes.changed.version

    def keeps(self, place: int, nominated: tuple[PodInfo, ...]) -> bool:
        """Whether what is found out about a Node, with these Pods nominated to it, may be kept.

        `update` has to have counted them.  With any of them, all plugins have to be Reusable: they are asked with these
        Pods first and then without, so that what the first one says in the end depends on the last one.
        """
        return self.nominated.get(place, ()) == _referred(nominated) and (self.is_complete or not nominated)

    def _forget(self, changed: Collection[int] | None, nodes: int) -> None:
        """Forget the Nodes that have changed, by place; None for all, of which there are so many now."""
        if changed is None:
            self.by_place = [None] * nodes
        else:
            for place in changed:
                self.by_place[place] = None

    def put(self, place: int, status: Status) -> None:
        """Keep a rejection, if it is one of these plugins'."""
        if any(status.plugin == each.name for each in self._plugins):
            self.by_place[place] = status


class Victims(NamedTuple):
    """The uids of the Pods that would have to go from a Node, the most important one first, and how many of them
    violate a PodDisruptionBudget."""

    uids: tuple[str, ...]
    violations: int


class Budgets:
    """The PodDisruptionBudgets as they were last, once for all specs; `version` grows whenever they are others."""

    def __init__(self) -> None:
        self.version = 0
        self._last: Sequence[Object] = ()

    def update(self, budgets: Sequence[Object]) -> int:
        """The version of these."""
        if budgets != self._last:
            self._last = budgets
            self.version += 1
        return self.version


class Trials(Rejections):
    """What trials of preemption have come to: who rejects a Node without the Pods of lower priority, or the victims.

    Victims are kept where `is_complete`: where the answers of all plugins depend on the Pod's spec and the Node.
    """

    def __init__(self, budgets: Budgets | None = None) -> None:
        super().__init__()
        self._victims: dict[int, Victims] = {}
        self._budgets = budgets or Budgets()
        self._budgets_version = -1

    def victims(self, budgets: Sequence[Object]) -> dict[int, Victims]:
        """By place in the snapshot, with these PodDisruptionBudgets; put there what is found out."""
        if not self.is_complete:
            self._victims = {}
            return {}
        version = self._budgets.update(budgets)
        if version != self._budgets_version:
            self._victims, self._budgets_version = {}, version
        return self._victims

    def _forget(self, changed: Collection[int] | None, nodes: int) -> None:
        super()._forget(changed, nodes)
        for place in list(self._victims) if changed is None else changed:
            self._victims.pop(place, None)


@dataclass(frozen=True, slots=True)
class Reused:
    """What is kept of one spec."""

    trials: Trials
    masks: Answers[np.bool_] = field(default_factory=Answers)
    scores: Answers[np.int64] = field(default_factory=Answers)
    rejections: Rejections = field(default_factory=Rejections)


class Reuse:
    """Of one profile: its plugins' arguments are part of what answers depend on."""

    def __init__(self) -> None:
        self._by_spec: OrderedDict[Shape, Reused | None] = OrderedDict()
        self._nodes: Snapshot | None = None
        self._budgets = Budgets()

    def of(self, pod: PodInfo, nodes: Snapshot) -> Reused | None:
        """What is kept for this Pod, to be asked for once in a cycle; None of a spec that comes for the first time."""
        if pod.requests is not pod.shape.requests:
            return None
        if nodes is not self._nodes:
            self._nodes = nodes
            self._by_spec.clear()
        spec = pod.shape.base or pod.shape
        reused = (self._by_spec.pop(spec) or Reused(Trials(self._budgets))) if spec in self._by_spec else None
        self._by_spec[spec] = reused
        if len(self._by_spec) > MAX_SPECS:
            self._by_spec.popitem(last=False)
        return reused
