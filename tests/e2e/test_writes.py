"""What Tollbar writes, counted from the audit log: as little as the job allows, and nothing for nothing."""

import re
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from cluster import RESERVED, Cluster, a_ready_rule, gpu_rule
from stack import CONTROLLERS, Stack, eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.real.audit import Record
from tollbar.devplane.real.launcher import RealPlane


@pytest.fixture
def quiet(stack: Stack, nodes: BackgroundKubelet, namespace: str) -> Iterator[Cluster]:
    """A cluster in which nothing of ours is under way."""
    yield Cluster(stack.plane.kubectl, namespace)
    stack.plane.kubectl("delete", "tolerationrules,deviceclasses", "--all")


def ours(plane: RealPlane, since: int) -> list[Record]:
    """Our writes, Events excepted."""
    plane.audit_fence()
    return [r for r in plane.audit.writes(since, user=CONTROLLERS) if r.resource != "events"]


def test_the_fast_path_costs_no_write_beyond_the_creation(quiet: Cluster, own_plane: RealPlane) -> None:
    gpu = quiet.class_()
    a_ready_rule(quiet, gpu_rule(gpu))
    quiet.create(quiet.template("mine", gpu))
    since = own_plane.audit_fence()
    quiet.create(*(quiet.pod(f"web-{i}").templates("mine") for i in range(10)))
    for i in range(10):
        quiet.bound_to(f"web-{i}")
    assert [r for r in ours(own_plane, since) if r.resource == "pods"] == []
    events = [r for r in own_plane.audit.writes(since, user=CONTROLLERS) if r.resource == "events"]
    assert events == []


def test_every_gated_pod_is_patched_exactly_once(quiet: Cluster, own_plane: RealPlane) -> None:
    late = quiet.unique("late")
    a_ready_rule(quiet, gpu_rule(late))
    quiet.create(quiet.template("mine", late))
    names = [f"web-{i}" for i in range(20)]
    quiet.create(*(quiet.pod(name).templates("mine") for name in names))
    eventually(lambda: all(quiet.is_held(name) for name in names), what="held")
    since = own_plane.audit_fence()
    quiet.class_("late")
    for name in names:
        quiet.bound_to(name)
    patches = [r for r in ours(own_plane, since) if r.resource == "pods"]
    assert Counter((r.name, r.verb, r.subresource, r.code) for r in patches) == Counter(
        (name, "patch", "", 200) for name in names
    )


def test_nothing_is_written_on_a_relist_or_a_restart(quiet: Cluster, own_plane: RealPlane, stack: Stack) -> None:
    gpu = quiet.class_()
    a_ready_rule(quiet, gpu_rule(gpu))
    quiet.create(quiet.template("mine", gpu))
    quiet.create(quiet.pod("decided").templates("mine"))
    quiet.create(quiet.pod("foreign").templates("mine").but("spec.schedulingGates", [{"name": "other.dev/quota"}]))
    quiet.bound_to("decided")
    assert quiet.tolerations("foreign") == [RESERVED]
    settle(stack, own_plane)
    since = own_plane.audit_fence()
    stack.running["controllers"].stop()
    stack.controllers()
    eventually(lambda: stack.running["controllers"].reconciles() > 0, what="the restarted controllers looked at Pods")
    own_plane.restart_apiserver()
    eventually(lambda: relisted(stack), seconds=40, what="relisted")
    settle(stack, own_plane)
    assert ours(own_plane, since) == []


def relisted(stack: Stack) -> bool:
    lists = stack.running["controllers"].metrics().get("tollbar_relists_total", {})
    return sum(value for labels, value in lists.items() if 'kind="Pod"' in labels) >= 2


def settle(stack: Stack, plane: RealPlane) -> None:
    """Until our processes have been silent for a while."""
    eventually(stack.running["controllers"].is_ready, seconds=40, what="ready")
    last = time.monotonic()
    seen = stack.running["controllers"].reconciles()
    while time.monotonic() - last < 1.0:
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
    quiet: Cluster, stack: Stack, own_plane: RealPlane, change: str, looked_at: list[str]
) -> None:
    late, there = quiet.unique("late"), quiet.class_("there")
    rule = gpu_rule(late)
    a_ready_rule(quiet, rule)
    quiet.create(quiet.template("names-late", late))
    foreign = [{"name": "other.dev/quota"}]
    quiet.create(
        quiet.pod("plain").but("spec.schedulingGates", foreign),
        quiet.pod("wants-late").templates("names-late").but("spec.schedulingGates", foreign),
        quiet.pod("wants-claim").claims("mine").but("spec.schedulingGates", foreign),
        quiet.pod("wants-template").templates("mine").but("spec.schedulingGates", foreign),
    )
    settle(stack, own_plane)
    before = looks(stack)
    if change == "the class appears":
        quiet.class_("late")
    elif change == "the claim is created":
        quiet.create(quiet.claim("mine", there))
    elif change == "the template is created":
        quiet.create(quiet.template("mine", there))
    else:
        quiet.create(rule.giving({**RESERVED, "effect": "NoExecute"}))
    settle(stack, own_plane)
    assert sorted(looks(stack) - before) == [f"{quiet.namespace}/{name}" for name in looked_at]


def looks(stack: Stack) -> Counter[str]:
    """How often the gates controller has looked at each Pod, from its debug log."""
    return Counter(re.findall(r'controller="gates" object="([^"]+)"', stack.running["controllers"].log()))
