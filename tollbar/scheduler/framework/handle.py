"""What plugins may use of their scheduler, as framework.Handle upstream."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol

from tollbar.dra.manager import DraManager
from tollbar.model.objects import Key, Object
from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.interface import Filter, Nominator
from tollbar.scheduler.framework.metrics import NO_METRICS, Metrics
from tollbar.scheduler.framework.reuse import Trials
from tollbar.scheduler.framework.status import Status


class Lister(Protocol):
    """The objects of one kind, as the watch showed them last."""

    @property
    def served(self) -> bool:
        """Whether the API server serves the kind, in a version that is read; otherwise there are no objects."""
        ...

    def get(self, key: Key) -> Object | None:
        """The object of this key; None if there is none.  Do not change it."""

    def values(self) -> list[Object]:
        """All objects, in any order.  Do not change them."""
        ...

    def by_index(self, name: str, value: Hashable) -> list[Object]:
        """By one of these indexes:

        - of Services `selector`, namespace, key and value of a label that they demand: a Service that selects a Pod is
          found by one of the labels of the Pod;
        - of VolumeAttachments `node`, the name of the Node.
        """
        ...

    def keys_by_index(self, name: str, value: Hashable) -> Collection[Key]:
        """The keys of objects, which costs less than the objects: of Pods by `claim`, the key of a ResourceClaim that
        they use.  Iterate over them without awaiting."""
        ...


class NoObjects:
    """The lister of a kind that is not watched."""

    served = False

    def get(self, key: Key) -> Object | None:  # noqa: ARG002
        return None

    def values(self) -> list[Object]:
        return []

    def by_index(self, name: str, value: Hashable) -> list[Object]:  # noqa: ARG002
        return []

    def keys_by_index(self, name: str, value: Hashable) -> Collection[Key]:  # noqa: ARG002
        return ()


NOTHING = NoObjects()


@dataclass(slots=True)
class Listers:
    """The kinds that the plugins of kube-scheduler read."""

    pods: Lister = NOTHING
    namespaces: Lister = NOTHING
    services: Lister = NOTHING
    replication_controllers: Lister = NOTHING
    replica_sets: Lister = NOTHING
    stateful_sets: Lister = NOTHING
    pod_disruption_budgets: Lister = NOTHING
    persistent_volumes: Lister = NOTHING
    persistent_volume_claims: Lister = NOTHING
    storage_classes: Lister = NOTHING
    csi_nodes: Lister = NOTHING
    csi_drivers: Lister = NOTHING
    volume_attachments: Lister = NOTHING
    pod_groups: Lister = NOTHING


class WaitingPod(Protocol):
    """A Pod that Permit lets wait."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed it yet."""
        ...

    def allow(self, plugin: str) -> None:
        """This plugin has nothing against it any more; bound once that holds of all."""

    def reject(self, plugin: str, message: str) -> bool:
        """The Pod is not bound but goes back to the queue; false if it was allowed or rejected before."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """As `reject`, but it does not count as unschedulable: it is tried again after a back-off."""
        ...


class PodInPreBind(Protocol):
    """A Pod whose PreBind plugins are at work."""

    def cancel(self, message: str) -> bool:
        """End that work, so that the Pod is not bound but tried again; false if it is over."""
        ...


class Calls(Protocol):
    """The API calls of plugins.  All of them raise `tollbar.runtime.errors.ApiError`.

    A `kind` is Pod or ResourceClaim; KeyError for another one.
    """

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Bind this very Pod to the Node: its uid is a precondition."""

    async def delete_pod(self, pod: PodInfo) -> None:
        """Delete this very Pod: its uid is a precondition."""

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        """A strategic merge patch of the status subresource of this very Pod: its uid is a precondition."""
        ...

    async def get(self, kind: str, key: Key) -> Object:
        """The object as the API server has it, which the caches may not show yet."""
        ...

    async def create(self, kind: str, obj: Object) -> Object:
        """Create the object in the namespace of its metadata; the created one."""
        ...

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        """A PUT, refused if the object has another resourceVersion by now; the object as it is then."""
        ...

    async def delete(self, kind: str, key: Key, *, uid: str = "") -> None:
        """Delete the object of this key; with `uid` only the very one that has it."""


class PluginsRunner(Protocol):
    """Runs the plugins of the profile for one of them: preemption tries where the Pod would fit without others."""

    def filters_of_pods(self, state: CycleState, pod: PodInfo) -> tuple[Filter, ...]:
        """The plugins whose Filter may answer something else once a Pod was added to a Node, or removed from it."""
        ...

    def filter_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Iterable[Filter] | None = None
    ) -> Steps[Status | None]:
        """The first answer of Filter that is no success, of these plugins, by default all.

        If Pods of equal or higher priority are nominated to the Node, it has to pass with them and without.
        """
        ...

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        """PreFilterExtensions of all plugins, for a Node that already has the added Pod."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        """PreFilterExtensions of all plugins, for a Node that no longer has the removed Pod."""

    def trials(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Trials:
        """The results of trials of preemption for Pods with the same spec, on Nodes that have not changed since."""
        ...

    def nominated_pods(self, pod: PodInfo, node_name: str) -> tuple[PodInfo, ...]:
        """The Pods that `filter_with_nominated_pods` counts on the Node."""
        ...


class NoPlugins:
    """The runner of a handle without a profile."""

    def filters_of_pods(self, state: CycleState, pod: PodInfo) -> tuple[Filter, ...]:  # noqa: ARG002
        return ()

    def filter_with_nominated_pods(
        self,
        state: CycleState,  # noqa: ARG002
        pod: PodInfo,  # noqa: ARG002
        node: NodeInfo,  # noqa: ARG002
        plugins: Iterable[Filter] | None = None,  # noqa: ARG002
    ) -> Steps[Status | None]:
        yield from ()
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:  # noqa: ARG002
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:  # noqa: ARG002
        return None

    def trials(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Trials:  # noqa: ARG002
        return Trials()

    def nominated_pods(self, pod: PodInfo, node_name: str) -> tuple[PodInfo, ...]:  # noqa: ARG002
        return ()


@dataclass(slots=True)
class Handle:
    """What the plugins of one profile may use.

    Where nothing is given, listers have no objects and what plugins report goes nowhere, as for a command that only
    asks what would be done.
    """

    snapshot: Snapshot
    """The Nodes as they were when the scheduling cycle began."""
    nominator: Nominator
    dra: DraManager | None
    """The ResourceClaims, devices and DeviceClasses of the cluster; None where nothing is known of them."""
    calls: Calls
    now: Callable[[], float]
    """The wall-clock time in seconds since 1970."""
    monotonic: Callable[[], float]
    """A clock in seconds, for durations."""
    listers: Listers = field(default_factory=Listers)
    """The other objects of the cluster."""
    metrics: Metrics = NO_METRICS
    """What the profile and its plugins measure."""
    rng: Random = field(default_factory=Random)
    waiting_pods: Mapping[str, WaitingPod] = field(default_factory=dict)
    """The Pods that Permit lets wait, by uid."""
    pods_in_pre_bind: Mapping[str, PodInPreBind] = field(default_factory=dict)
    """The Pods whose PreBind plugins are at work, by uid."""
    activate: Callable[[Iterable[PodInfo]], None] = lambda pods: None  # noqa: ARG005
    """Move waiting Pods to the active queue."""
    freed: Callable[[PodInfo, Object, Object], None] = lambda *_: None
    """Let other Pods be tried that wait for devices, because a pending allocation of this Pod is given up: the Pod, the
    claim with the allocation, and the claim without it.  No watch tells of that, since no object has changed."""
    event: Callable[[PodInfo, Literal["Normal", "Warning"], str, str, str], None] = lambda *_: None
    """Report an Event about a Pod: its type, reason, action and note."""
    start: Callable[[Any], None] = lambda coroutine: coroutine.close()
    """Run a coroutine beside the scheduling cycles; it is cancelled when they end."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Wait for so many seconds."""
    runner: PluginsRunner = field(default_factory=NoPlugins)
    """The plugins of the profile, set once all of them are made."""
