"""What happens in a cluster that may let a waiting Pod be scheduled, and the hints that plugins give about it.

Source: ClusterEvent, ActionType and QueueingHintFn of k8s.io/kube-scheduler/framework, and pkg/scheduler/framework
events.go.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from typing import Any, Final, TypeAlias

from tollbar.model.objects import Key
from tollbar.scheduler.cache.podinfo import PodInfo


class Action(IntFlag):
    """How an object changed; the updates of Nodes and Pods are told apart by what they change."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    UPDATE = 32764
    """Any of the updates; also that of an object that is neither a Node nor a Pod."""
    ALL = 32767


_NAMES: Final = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_NODE_PREEMPTION_POLICY: "UpdateNodePreemptionPolicy",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE: "Update",
    Action.ALL: "All",
}


class EventResource(Enum):
    """The kinds whose changes the scheduler watches; the values are upstream's, which metrics show."""

    POD = "Pod"
    """In a registration: each of the following three."""
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    """The waiting Pod itself."""
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


_PODS: Final = frozenset({EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD, EventResource.TARGET_POD})


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One kind of change.  `action` is usually one, in what a plugin registers for often several."""

    resource: EventResource
    action: Action
    custom_label: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """Its name in logs and metrics, such as `NodeAdd`."""
        return self.custom_label or f"{self.resource.value}{_NAMES.get(self.action, '')}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it wakes whatever waits."""
        return self.resource is EventResource.WILDCARD and self.action == Action.ALL

    def matches(self, happened: "ClusterEvent") -> bool:
        """Whether this registration is for an event that happened: the same, or a more specific one.

        A general update is not matched by a registration for some of the updates.  Source: MatchClusterEvents.
        """
        if self.is_wildcard:
            return True
        return (
            (self.resource in (EventResource.WILDCARD, happened.resource) or self._is_any_pod(happened))
            and bool(self.action & happened.action)
            and happened.action <= self.action
        )

    def _is_any_pod(self, happened: "ClusterEvent") -> bool:
        return self.resource is EventResource.POD and happened.resource in _PODS


class QueueingHint(Enum):
    """Whether an event may let a Pod be scheduled that a plugin has rejected."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


def queue_if(helps: object) -> QueueingHint:
    """`QUEUE` if the event helps, which is anything that is true, else `SKIP`."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


HintFn: TypeAlias = Callable[[PodInfo, Any, Any], QueueingHint]
"""(waiting Pod, old object, new object) to a hint; there is no old object of an addition and no new one of a deletion.

Pods are given as PodInfo, all other kinds as API objects.  A change of the DeviceTaintRules is an update of
ResourceSlices, without objects.  A hint that raises counts as `QUEUE`."""

PreQueueingHintFn: TypeAlias = Callable[[Any, Any], Iterable[Key] | None]
"""(old object, new object) to the Pods that the event can concern; None means all of them (KEP-6132)."""


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """An event that a plugin registers for; without a hint it always queues the Pods that the plugin rejected."""

    event: ClusterEvent
    hint: HintFn | None = None
    pre_hint: PreQueueingHintFn | None = None


WILDCARD: Final = ClusterEvent(EventResource.WILDCARD, Action.ALL)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(EventResource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, Action.ALL, "ForceActivate")
ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.ADD)
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
"""Labels of moves between queues that no change of the cluster causes."""
