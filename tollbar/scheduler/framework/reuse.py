"""What plugins have answered about all Nodes for one Pod, kept for the next Pods with the same spec.

Pods of a workload come one after the other, and between two of them few Nodes change.  A plugin whose answers depend on
nothing but the Pod's spec and the Node says so (`tollbar.scheduler.framework.interface.Reusable`).  Its mask and its
scores are kept, and it is asked again only about Nodes that have changed since, one by one.  Where no Node fits, so are
the rejections of such plugins, also of Nodes to which other Pods are nominated.

Nothing is kept of a spec that comes once.
"""

from collections import Counter, OrderedDict
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
from tollbar.scheduler.framework.interface import DependsOn, Filter, Nominator
from tollbar.scheduler.framework.status import Status

A = TypeVar("A", bound=np.generic)

MAX_SPECS: Final = 32
"""Of how many specs answers are kept.  At 5,000 Nodes those of the default profile take some 400 KB each, and 1.5 MB
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
"""Two are equal if they refer to the same PodInfos.  A reference to one that is gone equals no other."""


def _referred(pods: Iterable[PodInfo]) -> _Nominated:
    return tuple(map(ref, pods))


class Rejections:
    """Who rejects a Node first, and why, where no Node fits; `by_node`, by name, of those of which that is known.

    Only rejections are kept that depend, as do the successes of all plugins before, on the Pod's spec and the Node,
    and on the Pods of equal or higher priority that are nominated to it: `nominated` refers to these, in their order,
    by name of the Node, and keeps none of them in memory.  What is kept of a Node is not for the Pods that are
    nominated to it themselves: each is filtered without its own nomination.
    """

    def __init__(self) -> None:
        self.by_node: dict[str, Status] = {}
        self._counts: Counter[Status] = Counter()
        """How many of these Nodes have got each answer."""
        self.nominated: Mapping[str, _Nominated] = {}
        self.is_complete = False
        self._plugins: tuple[Filter, ...] = ()
        self._version = -1
        self._nominations = -1

    def update(
        self,
        plugins: tuple[Filter, ...],
        nodes: Snapshot,
        nominator: Nominator,
        priority: int,
        *,
        is_complete: bool,
    ) -> None:
        """Forget Nodes that have changed since the last time, and all of them if the plugins were others.

        `plugins` are the first ones whose Filter is called, all of them Reusable for a Pod of this priority;
        `is_complete` if these are all.  A Node has changed, too, if other Pods are nominated to it than were then.
        """
        is_known = (plugins, is_complete) == (self._plugins, self.is_complete)
        changed = nodes.changed.since(self._version) if is_known else None
        names = None if changed is None else {nodes.nodes[place].name for place in changed}
        if nominator.version != self._nominations:
            self._nominations = nominator.version
            before, self.nominated = self.nominated, _counted(nominator, priority)
            if names is not None:
                both = before.keys() | self.nominated.keys()
                names.update(each for each in both if before.get(each) != self.nominated.get(each))
        self._forget(names)
        self._plugins, self.is_complete = plugins, is_complete
        self._version = nodes.changed.version

    def known_for(self, nominated_node: str) -> dict[str, Status]:
        """What is known of all Nodes but the one that the Pod itself is nominated to, whose name is empty for none."""
        known = self.by_node.copy()
        known.pop(nominated_node, None)
        return known

    def counts(self, said: Mapping[str, Status]) -> dict[Status, int]:
        """How many Nodes have got each answer, with what was said of these Nodes in the place of what is kept."""
        counts = self._counts.copy()
        for name, status in said.items():
            if (kept := self.by_node.get(name)) is not None:
                counts[kept] -= 1
            counts[status] += 1
        return +counts

    def may_keep(self, node_name: str, nominated: tuple[PodInfo, ...]) -> bool:
        """Whether what is found out about a Node, with these Pods nominated to it, may be kept.

        `update` has to have counted them.  With any of them, all plugins have to be Reusable: they are asked with these
        Pods first and then without, so that what the first one says in the end depends on the last one.
        """
        return self.nominated.get(node_name, ()) == _referred(nominated) and (self.is_complete or not nominated)

    def _forget(self, names: Collection[str] | None) -> None:
        """Forget these Nodes; None for all."""
        if names is None:
            self.by_node.clear()
            self._counts.clear()
            return
        for name in names:
            if (status := self.by_node.pop(name, None)) is not None:
                self._counts[status] -= 1
                if not self._counts[status]:
                    del self._counts[status]

    def put(self, node_name: str, status: Status) -> None:
        """Keep a rejection, if it is one of these plugins'."""
        if any(status.plugin == each.name for each in self._plugins):
            self._forget({node_name})
            self.by_node[node_name] = status
            self._counts[status] += 1


def _counted(nominator: Nominator, priority: int) -> dict[str, _Nominated]:
    """The nominated Pods that count for one of this priority, by name of the Node; Nodes without any are left out."""
    found = {
        name: _referred(each for each in nominator.nominated_pods(name) if each.priority >= priority)
        for name in nominator.nominated_nodes()
    }
    return {name: pods for name, pods in found.items() if pods}


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
        self._victims: dict[str, Victims] = {}
        self._budgets = budgets or Budgets()
        self._budgets_version = -1

    def victims(self, budgets: Sequence[Object]) -> dict[str, Victims]:
        """By name of the Node, with these PodDisruptionBudgets; put there what is found out."""
        if not self.is_complete:
            self._victims = {}
            return {}
        version = self._budgets.update(budgets)
        if version != self._budgets_version:
            self._victims, self._budgets_version = {}, version
        return self._victims

    def _forget(self, names: Collection[str] | None) -> None:
        super()._forget(names)
        if names is None:
            self._victims.clear()
        else:
            for name in names:
                self._victims.pop(name, None)


@dataclass(frozen=True, slots=True)
class Reused:
    """What is kept of one spec."""

    trials: Trials
    masks: Answers[np.bool_] = field(default_factory=Answers)
    scores: Answers[np.int64] = field(default_factory=Answers)
    rejections: Rejections = field(default_factory=Rejections)


class Reuse:
    """What is kept of the specs that came last, for one profile: the plugins of another have other arguments."""

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
        spec = pod.shape.template
        reused = (self._by_spec.pop(spec) or Reused(Trials(self._budgets))) if spec in self._by_spec else None
        self._by_spec[spec] = reused
        if len(self._by_spec) > MAX_SPECS:
            self._by_spec.popitem(last=False)
        return reused
