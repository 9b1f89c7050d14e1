"""What Tollbar writes, counted from the audit log: as little as the job allows, and nothing for nothing."""

import re
import time
from collections import Counter

import pytest
from cluster import RESERVED, Cluster, a_ready_rule, gpu_rule
from stack import CONTROLLERS, Stack, eventually

from tollbar.decide.gates import QUIET_HOLD
from tollbar.devplane.real.audit import Record
from tollbar.devplane.real.launcher import RealPlane


def ours(plane: RealPlane, since: int) -> list[Record]:
    """Our writes, Events excepted."""
    plane.audit_fence()
    return [r for r in plane.audit.writes(since, user=CONTROLLERS) if r.resource != "events"]


def test_the_fast_path_costs_no_write_beyond_the_creation(cluster: Cluster, own_plane: RealPlane) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    since = own_plane.audit_fence()
    cluster.create_known(*(cluster.pod(f"web-{i}").templates("mine") for i in range(10)))
    for i in range(10):
        cluster.bound_to(f"web-{i}")
    assert [r for r in ours(own_plane, since) if r.resource == "pods"] == []
    events = [r for r in own_plane.audit.writes(since, user=CONTROLLERS) if r.resource == "events"]
    assert events == []


def test_every_gated_pod_is_patched_exactly_once(cluster: Cluster, own_plane: RealPlane) -> None:
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    names = [f"web-{i}" for i in range(20)]
    cluster.create(*(cluster.pod(name).templates("mine") for name in names))
    eventually(lambda: all(cluster.is_held(name) for name in names), what="held")
    since = own_plane.audit_fence()
    cluster.class_("late")
    for name in names:
        cluster.bound_to(name)
    patches = [r for r in ours(own_plane, since) if r.resource == "pods"]
    assert Counter((r.name, r.verb, r.subresource, r.code) for r in patches) == Counter(
        (name, "patch", "", 200) for name in names
    )


@pytest.mark.timeout(180)
def test_nothing_is_written_on_a_relist_or_a_restart(cluster: Cluster, own_plane: RealPlane, stack: Stack) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    cluster.create(cluster.pod("decided").templates("mine"))
    cluster.create(cluster.pod("foreign").templates("mine").but("spec.schedulingGates", [{"name": "other.dev/quota"}]))
    cluster.bound_to("decided")
    assert cluster.decided("foreign") == [RESERVED]
    counted = ("get", "tolerationrule", gpu, "-o", "jsonpath={.status.pendingMatches}")
    eventually(lambda: cluster.kubectl(*counted) == "1", seconds=45, what="counted")
    settle(stack)
    since = own_plane.audit_fence()
    stack.running["controllers"].stop()
    stack.controllers()
    eventually(lambda: stack.running["controllers"].reconciles() > 0, what="the restarted controllers looked at Pods")
    own_plane.restart_apiserver()
    cluster.create(cluster.pod("after").but("spec.schedulingGates", [{"name": "other.dev/quota"}]))
    eventually(lambda: f"{cluster.namespace}/after" in looks(stack), seconds=40, what="watching again")
    settle(stack)
    assert ours(own_plane, since) == []


def settle(stack: Stack) -> None:
    """Until the controllers have been silent for longer than a held Pod waits for its first event."""
    eventually(stack.running["controllers"].is_ready, seconds=40, what="ready")
    last = time.monotonic()
    seen = stack.running["controllers"].reconciles()
    while time.monotonic() - last < QUIET_HOLD + 1.0:
        if (now := stack.running["controllers"].reconciles()) != seen:
            seen, last = now, time.monotonic()
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("change", "looked_at"),
    [
        ("the class appears", ["wants-late"]),
        ("the claim is created", ["wants-claim"]),
        ("the template is created", ["wants-template"]),
        ("the rule is edited", ["plain", "wants-claim", "wants-late", "wants-template"]),
    ],
)
def test_a_change_looks_at_exactly_the_pods_it_concerns(
    cluster: Cluster, stack: Stack, own_plane: RealPlane, change: str, looked_at: list[str]
) -> None:
    late, there = cluster.unique("late"), cluster.class_("there")
    rule = gpu_rule(late)
    a_ready_rule(cluster, rule)
    cluster.create(cluster.template("names-late", late))
    foreign = [{"name": "other.dev/quota"}]
    cluster.create(
        cluster.pod("plain").but("spec.schedulingGates", foreign),
        cluster.pod("wants-late").templates("names-late").but("spec.schedulingGates", foreign),
        cluster.pod("wants-claim").claims("mine").but("spec.schedulingGates", foreign),
        cluster.pod("wants-template").templates("mine").but("spec.schedulingGates", foreign),
    )
    settle(stack)
    before = looks(stack)
    if change == "the class appears":
        cluster.class_("late")
    elif change == "the claim is created":
        cluster.create(cluster.claim("mine", there))
    elif change == "the template is created":
        cluster.create(cluster.template("mine", there))
    else:
        cluster.create(rule.giving({**RESERVED, "effect": "NoExecute"}))
    settle(stack)
    assert sorted(looks(stack) - before) == [f"{cluster.namespace}/{name}" for name in looked_at]


def looks(stack: Stack) -> Counter[str]:
    """How often the gates controller has looked at each Pod, from its debug log."""
    return Counter(re.findall(r'controller="gates" object="([^"]+)"', stack.running["controllers"].log()))
