"""Which events an update of a Pod or a Node causes, and which registrations match them."""

import pytest

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.framework.changes import node_changes, pod_changes
from tollbar.scheduler.framework.events import WILDCARD, Action, ClusterEvent, EventResource

shapes = Shapes()


def pod(
    *, labels: dict[str, str] | None = None, status: Object | None = None, cpu: str = "", **spec: object
) -> PodInfo:
    requests = {"cpu": cpu} if cpu else {}
    spec |= {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    metadata = {"name": "a", "namespace": "ns", "uid": "uid", "labels": labels or {}}
    return shapes.pod_info({"metadata": metadata, "spec": spec, "status": status or {}})


GATES = [{"name": "one"}, {"name": "other"}]
CLAIM = {"name": "gpu", "resourceClaimName": "a-gpu"}

PODS: dict[str, tuple[PodInfo, PodInfo, list[str]]] = {
    "labels": (pod(), pod(labels={"x": "y"}), ["UpdatePodLabel"]),
    "less is requested": (pod(cpu="2"), pod(cpu="1500m"), ["UpdatePodScaleDown"]),
    "more is requested": (pod(cpu="1"), pod(cpu="1001m"), ["UpdatePodScaleUp"]),
    "the same in other words": (pod(cpu="1"), pod(cpu="1000m"), ["Update"]),
    "one gate of two is gone": (pod(schedulingGates=GATES), pod(schedulingGates=GATES[:1]), ["Update"]),
    "the last gate is gone": (pod(schedulingGates=GATES[:1]), pod(), ["UpdatePodSchedulingGatesEliminated"]),
    "a toleration was added": (pod(), pod(tolerations=[{"operator": "Exists"}]), ["UpdatePodToleration"]),
    "a claim was generated": (
        pod(),
        pod(status={"resourceClaimStatuses": [CLAIM]}),
        ["UpdatePodGeneratedResourceClaim"],
    ),
    "the claim for extended resources was made": (
        pod(),
        pod(status={"extendedResourceClaimStatus": {"resourceClaimName": "a-x", "requestMappings": []}}),
        ["UpdatePodGeneratedResourceClaim"],
    ),
    "several at once": (
        pod(schedulingGates=GATES),
        pod(labels={"x": "y"}, tolerations=[{"operator": "Exists"}]),
        ["UpdatePodLabel", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration"],
    ),
    "nothing that matters": (pod(), pod(status={"phase": "Pending"}), ["Update"]),
}


@pytest.mark.parametrize(("old", "new", "expected"), PODS.values(), ids=PODS)
def test_changes_of_a_waiting_pod(old: PodInfo, new: PodInfo, expected: list[str]) -> None:
    assert [event.label for event in pod_changes(old, new, is_target=True)] == [f"TargetPod{e}" for e in expected]


@pytest.mark.parametrize(
    ("new", "is_target", "expected"),
    [
        (pod(nodeName="n"), False, EventResource.ASSIGNED_POD),
        (pod(), False, EventResource.UNSCHEDULED_POD),
        (pod(), True, EventResource.TARGET_POD),
    ],
    ids=["a Pod on a Node", "a waiting Pod for others", "a waiting Pod for itself"],
)
def test_about_whom_a_change_is(new: PodInfo, is_target: bool, expected: EventResource) -> None:
    assert pod_changes(pod(), new, is_target=is_target) == [ClusterEvent(expected, Action.UPDATE)]


def node(*, allocatable: Object | None = None, conditions: tuple[Object, ...] = (), **more: object) -> Object:
    status = {"allocatable": allocatable or {}, "conditions": list(conditions)}
    metadata = {"name": "n", "labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
    if "declaredFeatures" in more:
        status["declaredFeatures"] = more.pop("declaredFeatures")
    return {"metadata": metadata, "spec": more, "status": status}


TAINT = {"key": "a", "effect": "NoSchedule"}
READY = {"type": "Ready", "status": "True"}

NODES: dict[str, tuple[Object, Object, list[str]]] = {
    "it becomes schedulable": (node(unschedulable=True), node(), ["UpdateNodeTaint"]),
    "it becomes unschedulable": (node(), node(unschedulable=True), []),
    "more is allocatable": (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "2"}), ["UpdateNodeAllocatable"]),
    "another resource is allocatable": (node(), node(allocatable={"a/b": "0"}), ["UpdateNodeAllocatable"]),
    "the same is allocatable in other words": (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "1000m"}), []),
    "labels": (node(), node(labels={"x": "y"}), ["UpdateNodeLabel"]),
    "annotations": (node(), node(annotations={"x": "y"}), ["UpdateNodeAnnotation"]),
    "taints": (node(taints=[TAINT]), node(), ["UpdateNodeTaint"]),
    "a condition": (node(), node(conditions=(READY,)), ["UpdateNodeCondition"]),
    "a heartbeat": (
        node(conditions=({**READY, "lastHeartbeatTime": "1"},)),
        node(conditions=({**READY, "lastHeartbeatTime": "2"},)),
        [],
    ),
    "the preemption policy": (node(), node(podPreemptionPolicy={"x": "y"}), ["UpdateNodePreemptionPolicy"]),
    "declared features": (node(), node(declaredFeatures=["X"]), ["UpdateNodeDeclaredFeature"]),
    "several at once": (
        node(unschedulable=True, taints=[TAINT]),
        node(labels={"x": "y"}),
        ["UpdateNodeTaint", "UpdateNodeLabel", "UpdateNodeTaint"],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), NODES.values(), ids=NODES)
def test_changes_of_a_node(old: Object, new: Object, expected: list[str]) -> None:
    assert [event.label for event in node_changes(old, new)] == [f"Node{each}" for each in expected]


NODE, POD = EventResource.NODE, EventResource.POD
MATCHES: dict[str, tuple[ClusterEvent, ClusterEvent, bool]] = {
    "the same": (ClusterEvent(NODE, Action.ADD), ClusterEvent(NODE, Action.ADD), True),
    "a more specific one": (ClusterEvent(NODE, Action.UPDATE), ClusterEvent(NODE, Action.UPDATE_NODE_LABEL), True),
    "a more general one": (ClusterEvent(NODE, Action.UPDATE_NODE_LABEL), ClusterEvent(NODE, Action.UPDATE), False),
    "another kind": (ClusterEvent(NODE, Action.ADD), ClusterEvent(EventResource.CSI_NODE, Action.ADD), False),
    "another action": (ClusterEvent(NODE, Action.ADD), ClusterEvent(NODE, Action.DELETE), False),
    "any Pod": (ClusterEvent(POD, Action.ADD), ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD), True),
    "an assigned Pod only": (
        ClusterEvent(EventResource.ASSIGNED_POD, Action.ALL),
        ClusterEvent(EventResource.TARGET_POD, Action.UPDATE),
        False,
    ),
    "whatever happens": (WILDCARD, ClusterEvent(NODE, Action.DELETE), True),
    "a wildcard that happens": (ClusterEvent(NODE, Action.ALL), WILDCARD, False),
}


@pytest.mark.parametrize(("registered", "happened", "expected"), MATCHES.values(), ids=MATCHES)
def test_which_events_a_registration_matches(registered: ClusterEvent, happened: ClusterEvent, expected: bool) -> None:
    assert registered.matches(happened) is expected
