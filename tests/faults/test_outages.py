"""Processes that are down, killed or doubled.  Invariants: no Pod stays in our gate, none is patched twice."""

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from faultproxy import FaultProxy, Hang, ProxiedPlane, Rule
from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule
from processes.stack import CONTROLLERS, ELECTION, Process, Stack, eventually

from tollbar import wellknown
from tollbar.model.objects import Object, labels_of

IN_FLIGHT = 64
"""Patches that are under way at one time, at most: the configuration's `workers`."""
HEARD = 104
"""Patches that the API server hears of before the kill; the last of them are not answered."""
UNANSWERED = Rule("unanswered", Hang(after=True), {"patch"}, {"pods"}, nth=range(101, HEARD + 1))
UNHEARD = Rule("unheard", Hang(), {"patch"}, {"pods"}, nth=range(HEARD + 1, 10_000))
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{wellknown.SYSTEM_NAMESPACE}/leases"
LEASE = "tollbar-controllers"
CACHED = ("Pod", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "Namespace", "TolerationRule")
"""Kept while a process lives; kinds of workloads that claims name are listed anew by each leader."""
pytestmark = pytest.mark.timeout(300)


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


@pytest.mark.timeout(900)
def test_500_held_pods_survive_the_sigkill_of_the_controllers(cluster: Cluster, stack: Stack, tmp_path: Path) -> None:
    plane = stack.plane
    stack.webhook()
    stack.register()
    late = cluster.unique("late")
    names = {f"web-{i}" for i in range(500)}
    with FaultProxy(plane.kubeconfig, tmp_path / "proxy") as proxy, proxy.faults(UNANSWERED, UNHEARD):
        first = replace(stack, plane=ProxiedPlane(plane, proxy)).controllers("first")
        a_ready_rule(cluster, gpu_rule(late))
        cluster.create(cluster.template("mine", late))
        since = plane.audit_fence()
        cluster.create(*(cluster.pod(name).templates("mine") for name in sorted(names)))
        assert cluster.held() == names
        cluster.class_("late")
        eventually(lambda: proxy.hits["unheard"] > 0, what="the release is under way")
        first.kill()
    assert len(cluster.held()) >= len(names) - HEARD
    stack.controllers("second")
    eventually(lambda: not cluster.held(), seconds=180, what="released after the restart")
    # The log's status of a request that the kill cut off says nothing of what was stored: the object is the witness.
    accepted, refused = patches(stack, since)
    assert accepted.total() + refused.total() - len(names) <= IN_FLIGHT
    assert Counter(pod["metadata"]["generation"] for pod in cluster.pods()) == Counter({2: 500})
    assert all(RESERVED in pod["spec"]["tolerations"] for pod in cluster.pods())


def test_two_replicas_have_one_leader_and_hand_over(cluster: Cluster, stack: Stack) -> None:
    plane = stack.plane
    stack.webhook()
    stack.register()
    election = {"leaderElection__enabled": True}
    first = stack.controllers("first", **election)
    eventually(lambda: stack.running["first"].leads(), what="the first one leads")
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
    assert not stack.running["second"].leads()
    first.kill()
    cluster.class_("later")
    eventually(lambda: stack.running["second"].leads(), what="handed over")
    eventually(lambda: not cluster.held(), what="the new leader releases")
    eventually(lambda: patches(stack, since)[0].keys() >= set(names), what="logged")
    assert patches(stack, since) == (Counter(dict.fromkeys(names, 1)), Counter())


def test_a_leader_that_is_told_to_stop_hands_over_at_once(cluster: Cluster, stack: Stack) -> None:
    election = {"leaderElection__enabled": True}
    first = stack.controllers("first", **election)
    eventually(lambda: stack.running["first"].leads(), what="the first one leads")
    stack.controllers("second", **election)
    lease = stack.plane.kubectl.json("get", "lease", LEASE, "-n", wellknown.SYSTEM_NAMESPACE)
    assert first.stop() == 0
    eventually(lambda: stack.running["second"].leads(), what="handed over")
    before, *others = holders(stack, lease)
    assert before == lease["spec"]["holderIdentity"]
    assert [bool(each) for each in others] == [False, True], "the lease was not given back but expired"


def test_a_leader_outlives_an_api_server_that_hangs_and_leads_again_with_warm_caches(
    cluster: Cluster, stack: Stack, tmp_path: Path
) -> None:
    """Nothing is answered for longer than the lease can be held without; the watches stay connected."""
    stack.webhook()
    stack.register()
    with FaultProxy(stack.plane.kubeconfig, tmp_path / "proxy") as proxy:
        through = replace(stack, plane=ProxiedPlane(stack.plane, proxy))
        process = through.controllers("first", leaderElection__enabled=True)
        eventually(lambda: stack.running["first"].leads(), what="it leads")
        late = cluster.unique("late")
        a_ready_rule(cluster, gpu_rule(late))
        cluster.create(cluster.template("mine", late))
        names = [f"web-{i}" for i in range(20)]
        cluster.create(*(cluster.pod(name).templates("mine") for name in names))
        assert cluster.held() == set(names)
        eventually(process.is_ready, what="all caches are filled")
        eventually(lambda: sent(process) >= len(names), what="SchedulingHeld is said of each")
        before = lists(process)
        since = stack.plane.audit_fence()
        until_now = len(troubles(process))
        with proxy.faults(Rule("hang", Hang())):
            cluster.class_("late")  # the watches tell: every release is tried, and hangs
            eventually(lambda: not stack.running["first"].leads(), what="the lease is lost, and the work has stopped")
        eventually(lambda: stack.running["first"].leads(), what="the same process leads again")
        eventually(lambda: not cluster.held(), what="released")
        assert process.is_ready()
        assert lists(process) == before
        accepted, refused = patches(stack, since)
        assert (accepted, refused) == (Counter(dict.fromkeys(names, 1)), Counter())
        assert troubles(process)[until_now:] == ["cannot renew the lease", "lost the lease, stopping the work"]
        assert (process.said("calls about the lease succeed again"), process.said("became leader")) == (1, 2)


def test_an_outage_is_one_line_in_the_log_and_not_one_for_every_pod(
    cluster: Cluster, stack: Stack, tmp_path: Path
) -> None:
    stack.webhook()
    stack.register()
    with FaultProxy(stack.plane.kubeconfig, tmp_path / "proxy") as proxy:
        process = replace(stack, plane=ProxiedPlane(stack.plane, proxy)).controllers()
        late = cluster.unique("late")
        a_ready_rule(cluster, gpu_rule(late))
        cluster.create(cluster.template("mine", late))
        cluster.create(*(cluster.pod(f"web-{i}").templates("mine") for i in range(20)))
        assert len(cluster.held()) == 20
        eventually(lambda: sent(process) >= 20, what="SchedulingHeld is said of each")
        until_now = len(troubles(process))
        with proxy.faults(Rule("hang", Hang())):
            cluster.class_("late")
            eventually(lambda: process.said("reconcile failed") >= 20, what="every release has failed")
        eventually(lambda: not cluster.held(), what="released")
        assert troubles(process)[until_now:] == ["the API server does not answer"]
        assert process.said("the API server answers again") == 1


def test_nobody_is_gated_while_no_controller_is_there_to_release_them(cluster: Cluster, stack: Stack) -> None:
    first = stack.controllers("first", **ELECTION)
    stack.webhook(**ELECTION)
    stack.register()  # which waits until a Pod is gated in a dry run
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late), cluster.pod("held").templates("mine"))
    assert cluster.held() == {"held"}
    first.kill()
    eventually(lambda: not would_be_gated(cluster), what="nobody is gated any more")
    names = [f"web-{i}" for i in range(40)]
    cluster.create(*(cluster.pod(name).templates("mine") for name in names))
    assert cluster.held() == {"held"}
    stack.controllers("second", **ELECTION)
    eventually(lambda: would_be_gated(cluster), what="Pods are gated again")
    cluster.class_("late")
    given = [RESERVED]
    eventually(lambda: all(cluster.tolerations(name) == given for name in ("held", *names)), what="all is repaired")


def would_be_gated(cluster: Cluster) -> bool:
    """Whether a Pod that waits for a class would be gated now: a dry run."""
    return wellknown.LABEL_GATE in labels_of(cluster.tried(cluster.pod("tried").templates("mine")))


def test_a_pod_is_released_after_max_hold_and_repaired_when_the_class_appears(cluster: Cluster, stack: Stack) -> None:
    stack.webhook()
    stack.register()
    stack.controllers()
    kubectl = stack.plane.kubectl
    kubectl("patch", "schedulinggate", "tolerations", "--type=merge", "-p", '{"spec":{"maxHold":"3s"}}')
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    waiting = as_written(cluster.pod().templates("mine"))
    admitted = json.loads(kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(waiting)))
    assert admitted["spec"]["schedulingGates"] == [{"name": wellknown.GATE}]
    eventually(lambda: not cluster.is_held(), what="released after maxHold")
    assert cluster.tolerations() == []
    eventually(lambda: "GateOverdue" in dict(cluster.events("web")), what="GateOverdue")
    cluster.class_("late")
    eventually(lambda: cluster.tolerations() == [RESERVED], what="added late")


def lists(process: Process) -> list[float]:
    """How often each cached kind has been listed."""
    relists = process.metrics()["tollbar_relists_total"]
    return [relists[f'kind="{kind}"'] for kind in CACHED]


def sent(process: Process) -> float:
    """How many Events the API server has accepted."""
    return process.metrics().get("tollbar_events_total", {}).get('result="sent"', 0.0)


def troubles(process: Process) -> list[str]:
    """The messages of warnings and errors, without their keys."""
    found = re.findall(r'^[WE]\d{4} .*?\] "([^"]*)"', process.log(), re.MULTILINE)
    return [str(each) for each in found]


def patches(stack: Stack, since: int) -> tuple[Counter[str], Counter[int]]:
    """Our patches of Pods: by name those that were accepted, by HTTP status those that were not."""
    stack.plane.audit_fence()
    written = stack.plane.audit.writes(since, user=CONTROLLERS, resource="pods")
    return Counter(r.name for r in written if r.code == 200), Counter(r.code for r in written if r.code != 200)


def holders(stack: Stack, lease: Object) -> list[str]:
    """Who has held the lease since then, "" for nobody: from a watch that begins with this state of it."""
    version = lease["metadata"]["resourceVersion"]
    question = f"watch=1&fieldSelector=metadata.name%3D{LEASE}&resourceVersion={version}&timeoutSeconds=5"
    answer = stack.plane.kubectl("get", "--raw", f"{LEASES}?{question}")
    states = [lease, *(json.loads(line)["object"] for line in answer.splitlines())]
    return [holder for holder, _ in itertools.groupby(each["spec"].get("holderIdentity") or "" for each in states)]
