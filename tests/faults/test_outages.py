"""Processes that are down, killed or doubled.  Invariants: no Pod stays in our gate, none is patched twice."""

from collections import Counter

import pytest
from cluster import RESERVED, Cluster, a_ready_rule, gpu_rule
from stack import CONTROLLERS, Stack, eventually

from tollbar import wellknown

IN_FLIGHT = 64
"""Patches that are under way at one time, at most: the configuration's `workers`."""


def test_pods_created_while_the_webhook_is_down_get_their_tolerations_late(cluster: Cluster, stack: Stack) -> None:
    stack.controllers()
    stack.webhook()
    stack.register()
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    stack.running["webhook"].kill()
    cluster.create(cluster.pod().templates("mine"))
    eventually(lambda: cluster.tolerations() == [RESERVED], what="added late")
    assert not cluster.is_held()


@pytest.mark.timeout(180)
def test_500_held_pods_survive_the_sigkill_of_the_controllers(cluster: Cluster, stack: Stack) -> None:
    plane = stack.plane
    stack.webhook()
    stack.register()
    stack.controllers()
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    names = {f"web-{i}" for i in range(500)}
    since = plane.audit_fence()
    cluster.create(*(cluster.pod(name).templates("mine") for name in sorted(names)))
    assert cluster.held() == names
    cluster.class_("late")
    eventually(lambda: released(stack) >= 20, what="the release has begun")
    stack.running["controllers"].kill()
    left = cluster.held()
    stack.controllers("again")
    eventually(lambda: not cluster.held(), seconds=60, what="released after the restart")
    # The log's status of a request that the kill cut off says nothing of what was stored: the object is the witness.
    accepted, refused = patches(stack, since)
    assert accepted.total() + refused.total() - len(names) <= IN_FLIGHT
    assert Counter(pod["metadata"]["generation"] for pod in cluster.pods()) == Counter({2: 500})
    assert left, "everything was released before the kill: nothing was tested"
    assert all(RESERVED in pod["spec"]["tolerations"] for pod in cluster.pods())


def test_two_replicas_have_one_leader_and_hand_over(cluster: Cluster, stack: Stack) -> None:
    plane = stack.plane
    stack.webhook()
    stack.register()
    election = {"leaderElection__enabled": True}
    first = stack.controllers("first", **election)
    eventually(lambda: leads(stack, "first"), what="the first one leads")
    stack.controllers("second", **election)
    late, later = cluster.unique("late"), cluster.unique("later")
    a_ready_rule(cluster, gpu_rule(late), gpu_rule(later))
    cluster.create(cluster.template("late", late), cluster.template("later", later))
    names = [f"web-{i}" for i in range(40)]
    since = plane.audit_fence()
    cluster.create(*(cluster.pod(name).templates("late") for name in names[:20]))
    cluster.create(*(cluster.pod(name).templates("later") for name in names[20:]))
    assert cluster.held() == set(names)
    cluster.class_("late")
    eventually(lambda: cluster.held() == set(names[20:]), what="the leader releases")
    assert not leads(stack, "second")
    first.kill()
    cluster.class_("later")
    eventually(lambda: leads(stack, "second"), seconds=40, what="handed over")
    eventually(lambda: not cluster.held(), what="the new leader releases")
    assert patches(stack, since) == (Counter(dict.fromkeys(names, 1)), Counter())


def test_a_leader_that_is_told_to_stop_hands_over_at_once(cluster: Cluster, stack: Stack) -> None:
    election = {"leaderElection__enabled": True}
    first = stack.controllers("first", **election)
    eventually(lambda: leads(stack, "first"), what="the first one leads")
    stack.controllers("second", **election)
    assert first.stop() == 0
    lease = stack.plane.kubectl.json("get", "lease", "tollbar-controllers", "-n", wellknown.SYSTEM_NAMESPACE)
    eventually(lambda: leads(stack, "second"), seconds=8, what="handed over before the lease could expire")
    assert lease["spec"]["leaseDurationSeconds"] < 15


def test_a_pod_is_released_after_max_hold_and_repaired_when_the_class_appears(cluster: Cluster, stack: Stack) -> None:
    stack.webhook()
    stack.register()
    stack.controllers()
    kubectl = stack.plane.kubectl
    kubectl("wait", "--for=create", "schedulinggate/tolerations", "--timeout=10s")
    kubectl("patch", "schedulinggate", "tolerations", "--type=merge", "-p", '{"spec":{"maxHold":"3s"}}')
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    cluster.create(cluster.pod().templates("mine"))
    assert cluster.is_held()
    eventually(lambda: not cluster.is_held(), what="released after maxHold")
    assert cluster.tolerations() == []
    eventually(lambda: "GateOverdue" in dict(cluster.events("web")), what="GateOverdue")
    cluster.class_("late")
    eventually(lambda: cluster.tolerations() == [RESERVED], what="added late")


def patches(stack: Stack, since: int) -> tuple[Counter[str], Counter[int]]:
    """Our patches of Pods: by name those that were accepted, by HTTP status those that were not."""
    stack.plane.audit_fence()
    written = stack.plane.audit.writes(since, user=CONTROLLERS, resource="pods")
    return Counter(r.name for r in written if r.code == 200), Counter(r.code for r in written if r.code != 200)


def released(stack: Stack) -> int:
    """How many Pods the controllers have released, from their metrics: quicker to ask than the API server."""
    return int(sum(stack.running["controllers"].metrics().get("tollbar_gate_hold_seconds_count", {}).values()))


def leads(stack: Stack, name: str) -> bool:
    return 1.0 in stack.running[name].metrics().get("leader_election_master_status", {}).values()
