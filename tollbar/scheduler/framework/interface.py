"""The extension points: what a plugin may implement, in the order of a scheduling cycle.

A plugin is a plain object with a `name` and the methods of those points that it takes part in.  Success is `None`
throughout.  The scheduling cycle (PreFilter to Permit) is one thing at a time and awaits nothing; what talks to the API
(PreBind, Bind, PostBind) is a coroutine, of which one runs for each Pod that is being bound.

Source: k8s.io/kube-scheduler/framework/interface.go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.events import ClusterEventWithHint
from tollbar.scheduler.framework.status import Status

MAX_SCORE: Final = 100
"""The highest score after normalisation; the lowest is 0."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The only Nodes that are worth a look."""

    node_names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Nominate:
    """What becomes of `status.nominatedNodeName`: this name, empty to clear it."""

    node_name: str


class Nominator(Protocol):
    """Which waiting Pods have been promised which Node."""

    @property
    def version(self) -> int:
        """Another number whenever other Pods, or other records of Pods, are nominated to any Node."""
        ...

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        """Those that are nominated to this Node and not on it yet."""
        ...

    def nominated_nodes(self) -> Collection[str]:
        """The names of all Nodes to which Pods are nominated."""
        ...

    def node_of(self, uid: str) -> str:
        """The Node to which this Pod is nominated; empty if it is not."""
        ...


@dataclass(frozen=True, slots=True)
class Wait:
    """Permit lets the Pod wait for at most so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PreFlight:
    """PreBind has work to do; with `allow_parallel` it may run beside its neighbours in the order of plugins."""

    allow_parallel: bool = False


class DependsOn(Enum):
    """What the answers of a plugin about a Node depend on, besides the Pod's spec and the plugin's arguments."""

    NODE = "Node"
    """The Node's API object alone."""
    NODE_AND_PODS = "NodeAndPods"
    """All of its NodeInfo."""


Mask: TypeAlias = NDArray[np.bool_]
"""One value for each Node, in the order of `Snapshot.nodes`."""
Scores: TypeAlias = NDArray[np.int64]
"""One score for each of the Nodes that are scored, in their order."""
Places: TypeAlias = NDArray[np.intp]
"""Indexes into `Snapshot.nodes`.  The columns of its table are by row instead: `table.order[places]` has the rows."""


class Known(NamedTuple):
    """The Nodes of a snapshot that Filter is known to let pass, and to reject; it is asked about all others.

    `why` is what it says of all that it rejects, None if that has to be asked for.
    """

    fits: Mask
    rejected: Mask
    why: Status | None = None


@runtime_checkable
class Plugin(Protocol):
    @property
    def name(self) -> str:
        """The name by which configurations enable the plugin, and by which Events and metrics show it."""
        ...


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Before a Pod enters the active queue; whatever is no success parks it as gated.  Must be quick."""


class Queued(Protocol):
    """What QueueSort compares: `timestamp` is in seconds, the time at which the Pod entered the queue."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def timestamp(self) -> float: ...


@runtime_checkable
class QueueSort(Plugin, Protocol):
    def less(self, one: Queued, other: Queued) -> bool:
        """Whether `one` comes first."""
        ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The events that may help a Pod which this plugin has rejected.

        Asked once.  A plugin without this method is woken by every event; with an empty list by none.
        """
        ...


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Snapshot
    ) -> PreFilterResult | Status | Steps[PreFilterResult | Status | None] | None:
        """Work out what Filter needs, once for all Nodes.  Skip means that Filter is not called either.

        NOT_CONCERNED is Skip for every Pod with the same `pod.spec` (the fields that scheduling reads): it need not be
        called for them.  A plugin that looks at `pod.object` must not say it.  One that may take long is a generator,
        as with Filter.
        """


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """Update what PreFilter has written into the CycleState, as if a Pod were added to a Node or removed from it.

    The NodeInfo already has that Pod, or no longer has it.  `add_pod` undoes `remove_pod`, and the reverse.
    """

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        """Count `added` as a Pod of the Node.  A Status is an Error: the Node is not tried any further."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        """Do not count `removed` any more, which was a Pod of the Node.  A Status is an Error, as of `add_pod`."""


@runtime_checkable
class Filter(Plugin, Protocol):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | Steps[Status | None] | None:
        """Whether the Pod can run on the Node, by looking at this NodeInfo: it may be a trial of preemption.

        An Error ends the cycle.  One that takes long is a generator, which yields where others may run.
        """


@runtime_checkable
class FilterNodes(Filter, Protocol):
    """Optional, for speed: the same answer as `filter` for all Nodes of the snapshot at once."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        """True where `filter` returns None."""
        ...


@runtime_checkable
class FilterReasons(FilterNodes, Protocol):
    """Optional, for speed where no Node fits: why `filter` rejects Nodes, for all Nodes of the snapshot at once."""

    def filter_reasons(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> list[Status | None]:
        """What `filter` returns for each Node, in the order of the snapshot."""
        ...


@runtime_checkable
class FilterKnown(Filter, Protocol):
    """Optional, for speed, where `filter` takes long: what it would say of Nodes about which that is known already.

    Filter is not called for those Nodes, so that Score and Reserve must not need what it writes into the CycleState.
    """

    def filter_known(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Known | None:
        """What is known of all Nodes of the snapshot; None if nothing is."""


@runtime_checkable
class PostFilter(Plugin, Protocol):
    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[Nominate | None, Status | None] | Steps[tuple[Nominate | None, Status | None]]:
        """When no Node fits: success with a nomination ends it, Unschedulable lets the next plugin try."""
        ...


@runtime_checkable
class PreScore(Plugin, Protocol):
    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | Steps[Status | None] | None:
        """Work out what Score needs, on the Nodes that fit.  Skip means that Score is not called.

        NOT_CONCERNED, and one that may take long: as with PreFilter.
        """


@runtime_checkable
class Score(Plugin, Protocol):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        """How well the Node suits, from 0 to MAX_SCORE unless `normalize_score` follows."""
        ...


@runtime_checkable
class ScoreNodes(Score, Protocol):
    """Optional, for speed: the same answer as `score` for several Nodes at once."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        """The scores of the Nodes at these places, in the same order."""
        ...


@runtime_checkable
class Reusable(Plugin, Protocol):
    """Optional, for speed: `filter_nodes` and `score_nodes` need not be called anew for each Pod of a workload.

    In their place `filter` and `score` are asked about Nodes that have changed, also about some that do not fit.
    """

    def depends_on(self, pod: PodInfo) -> DependsOn | None:
        """What the answers depend on besides the Pod's spec; volumes, labels and names are no part of it.

        None if they depend on anything else.
        """
        ...


@runtime_checkable
class ScoreExtensions(Plugin, Protocol):
    def normalize_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Scores
    ) -> Status | None:
        """Bring the scores of all Nodes, given in the same order, into 0 to MAX_SCORE, in place."""


@runtime_checkable
class Reserve(Plugin, Protocol):
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take in memory what the Pod needs of its Node.  A Status ends the cycle, after `unreserve` of all plugins."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take back what `reserve` did.  Called for every plugin, also if its `reserve` was not; must not fail."""


@runtime_checkable
class Permit(Plugin, Protocol):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Wait | None:
        """Let the Pod be bound, let it wait until `Handle.waiting_pods` allows or rejects it, or reject it at once."""


@runtime_checkable
class PreBind(Plugin, Protocol):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight | Status | None:
        """Whether `pre_bind` has anything to do; Skip if not.  Must be quick."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Do what has to be done before the Pod is bound, such as API calls.

        A Status ends the binding, and `unreserve` of all plugins follows.  It is cancelled if the Pod is preempted, and
        when the scheduler stops.
        """


@runtime_checkable
class Bind(Plugin, Protocol):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the Pod; Skip lets the next plugin do it."""


@runtime_checkable
class PostBind(Plugin, Protocol):
    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The Pod is bound, which nothing takes back."""


Arguments: TypeAlias = Mapping[str, object]
"""`args` of a plugin's pluginConfig, decoded, with defaults filled in for the plugins of kube-scheduler."""
