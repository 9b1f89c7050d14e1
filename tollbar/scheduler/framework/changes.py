"""Which events an update of a Pod or a Node causes: one for each thing that changed and that plugins may care about.

Source: PodSchedulingPropertiesChange and NodeSchedulingPropertiesChange in pkg/scheduler/framework/events.go.
"""

from typing import Any

from tollbar.model import quantity
from tollbar.model.objects import Object, annotations_of, labels_of, spec
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.resources import Resources
from tollbar.scheduler.framework.events import Action, ClusterEvent, EventResource


def pod_changes(old: PodInfo, new: PodInfo, *, is_target: bool) -> list[ClusterEvent]:
    """The events of an update of a Pod, a general one if nothing specific changed.

    `is_target` says that the events are about this very Pod as it waits, not about what they mean to others.
    """
    if new.node_name:
        resource = EventResource.ASSIGNED_POD
    else:
        resource = EventResource.TARGET_POD if is_target else EventResource.UNSCHEDULED_POD
    changed = (
        (Action.UPDATE_POD_LABEL, old.labels != new.labels),
        (Action.UPDATE_POD_SCALE_DOWN, _requests_less(new.requests.resources, old.requests.resources)),
        (Action.UPDATE_POD_SCALE_UP, _requests_less(old.requests.resources, new.requests.resources)),
        (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, bool(_gates(old)) and not _gates(new)),
        # Validation lets tolerations only be added, so that their number tells.
        (Action.UPDATE_POD_TOLERATION, _tolerations(old) != _tolerations(new)),
        (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _generated_claims(old) != _generated_claims(new)),
    )
    return [ClusterEvent(resource, action) for action, happened in changed if happened] or [
        ClusterEvent(resource, Action.UPDATE)
    ]


def node_changes(old: Object, new: Object) -> list[ClusterEvent]:
    """The events of an update of a Node; none if nothing changed that matters to scheduling.

    A Node that becomes schedulable counts as a change of its taints.
    """
    changed = (
        (Action.UPDATE_NODE_TAINT, bool(spec(old).get("unschedulable")) and not spec(new).get("unschedulable")),
        (Action.UPDATE_NODE_ALLOCATABLE, _allocatable_differs(old, new)),
        (Action.UPDATE_NODE_LABEL, labels_of(old) != labels_of(new)),
        (Action.UPDATE_NODE_TAINT, (spec(old).get("taints") or []) != (spec(new).get("taints") or [])),
        (Action.UPDATE_NODE_CONDITION, _conditions(old) != _conditions(new)),
        (Action.UPDATE_NODE_ANNOTATION, annotations_of(old) != annotations_of(new)),
        (Action.UPDATE_NODE_PREEMPTION_POLICY, _preemption_policy(old) != _preemption_policy(new)),
        (Action.UPDATE_NODE_DECLARED_FEATURE, _declared_features(old) != _declared_features(new)),
    )
    return [ClusterEvent(EventResource.NODE, action) for action, happened in changed if happened]


def _requests_less(one: Resources, other: Resources) -> bool:
    """Whether there is a resource of which `one` is less than `other`, or that it does not have at all."""
    return (
        one.milli_cpu < other.milli_cpu
        or one.memory < other.memory
        or one.ephemeral_storage < other.ephemeral_storage
        or any(one.scalars.get(name, -1) < amount for name, amount in other.scalars.items())
    )


def _gates(pod: PodInfo) -> list[Object]:
    return spec(pod.object).get("schedulingGates") or []


def _tolerations(pod: PodInfo) -> int:
    return len(pod.spec.get("tolerations") or ())


def _generated_claims(pod: PodInfo) -> tuple[Any, ...]:
    status = pod.object.get("status") or {}
    return status.get("resourceClaimStatuses") or [], status.get("extendedResourceClaimStatus")


def _allocatable_differs(old: Object, new: Object) -> bool:
    one, other = _status(old).get("allocatable") or {}, _status(new).get("allocatable") or {}
    return one != other and (
        one.keys() != other.keys() or any(quantity.nanos(one[name]) != quantity.nanos(other[name]) for name in one)
    )


def _conditions(node: Object) -> dict[str, str]:
    return {each["type"]: each.get("status", "") for each in _status(node).get("conditions") or ()}


def _preemption_policy(node: Object) -> Any:
    return spec(node).get("podPreemptionPolicy")


def _declared_features(node: Object) -> list[str]:
    return _status(node).get("declaredFeatures") or []


def _status(node: Object) -> Object:
    return node.get("status") or {}
