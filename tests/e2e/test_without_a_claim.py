"""A Pod that is released although its claim does not exist: kubectl shows SchedulingGated, and our event says why."""

from planes.objects import RESERVED, Cluster, a_ready_rule, gpu_rule
from processes.stack import eventually


def test_a_pod_released_at_max_hold_without_its_claim_says_who_waits_for_what(cluster: Cluster) -> None:
    kubectl, gpu = cluster.kubectl, cluster.class_()
    kubectl("wait", "--for=create", "schedulinggate/tolerations", "--timeout=60s")
    kubectl("patch", "schedulinggate", "tolerations", "--type=merge", "-p", '{"spec":{"maxHold":"3s"}}')
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.pod().claims("mine"))
    assert cluster.decided() == []
    said = eventually(lambda: complete(cluster.events("web")), what="the events")
    assert said["GateOverdue"] == "released after 3s, while Tollbar still waits for ResourceClaim mine"
    assert said["GateReleased"] == (
        "released; no toleration added; kube-scheduler waits for ResourceClaim mine, until then kubectl shows"
        " SchedulingGated"
    )
    shown = kubectl("get", "pod", "web", "-n", cluster.namespace, "--no-headers")
    assert shown.split()[2] == "SchedulingGated"
    cluster.create(cluster.claim("mine", gpu))
    assert cluster.bound_to() == "gpu-1"
    assert cluster.tolerations() == [RESERVED]


def complete(events: list[tuple[str, str]]) -> dict[str, str]:
    """The notes by reason, once the last one is there."""
    return dict(events) if {"GateOverdue", "GateReleased"} <= dict(events).keys() else {}
