"""What Tollbar writes, counted from the audit log: as little as the job allows, and nothing for nothing."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from planes.objects import RESERVED, Cluster, a_ready_rule, gpu_rule
from processes.stack import CONTROLLERS, Stack, eventually

from tollbar import wellknown
from tollbar.decide.gates.release import QUIET_HOLD
from tollbar.devplane.audit import Record
from tollbar.devplane.real.launcher import RealPlane

FOREIGN = [{"name": "other.dev/quota"}]


def ours(plane: RealPlane, since: int, namespace: str = "") -> list[Record]:
    """Our writes, Events excepted; of all namespaces if none is named."""
    plane.audit_fence()
    found = plane.audit.writes(since, user=CONTROLLERS, namespace=namespace)
    return [r for r in found if r.resource != "events"]


def test_the_fast_path_costs_no_write_beyond_the_creation(cluster: Cluster, own_plane: RealPlane) -> None:
    gpu, late = cluster.class_(), cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(gpu), gpu_rule(late))
    cluster.create(cluster.template("mine", gpu), cluster.template("late", late))
    since = own_plane.audit_fence()
    cluster.create_known(*(cluster.pod(f"web-{i}").templates("mine") for i in range(10)))
    for i in range(10):
        cluster.bound_to(f"web-{i}")
    # What would be written about those is written before the event about this one.
    cluster.create(cluster.pod("last").templates("late"))
    cluster.class_("late")
    eventually(lambda: "TolerationsAdded" in dict(cluster.events("last")), what="TolerationsAdded")
    assert [(r.name, r.verb) for r in ours(own_plane, since, cluster.namespace)] == [("last", "patch")]
    events = own_plane.audit.writes(since, user=CONTROLLERS, resource="events", namespace=cluster.namespace)
    assert {r.name.partition(".")[0] for r in events} == {"last"}


@pytest.mark.behaviour(6, 7)
def test_every_gated_pod_is_patched_exactly_once(cluster: Cluster, own_plane: RealPlane) -> None:
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    names = [f"web-{i}" for i in range(20)]
    cluster.create(*(cluster.pod(name).templates("mine") for name in names))
    assert cluster.held() == set(names)
    since = own_plane.audit_fence()
    cluster.class_("late")
    for name in names:
        cluster.bound_to(name)
    patches = ours(own_plane, since, cluster.namespace)
    assert Counter((r.name, r.verb, r.subresource, r.code) for r in patches) == Counter(
        (name, "patch", "", 200) for name in names
    )


KUBELET = "tollbar-fake-kubelet"
WRITTEN = {"metadata.annotations.tollbar.dev/tolerations", "metadata.labels.tollbar.dev/gate", "spec.tolerations"}


def test_on_objects_of_users_nothing_is_left_but_what_the_job_needs(cluster: Cluster) -> None:
    """No finalizer and no annotation of a framework, on Pods or on what they refer to: the API server has a record."""
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    cluster.create(cluster.pod().templates("mine"))
    assert cluster.is_held()
    cluster.class_("late")
    cluster.bound_to()
    kinds = "pods,resourceclaims,resourceclaimtemplates,deviceclasses"
    found = cluster.kubectl.json("get", kinds, "-n", cluster.namespace, "--show-managed-fields")["items"]
    paths = {
        (each["kind"], path)
        for each in found
        for entry in each["metadata"]["managedFields"]
        if entry["manager"].startswith(wellknown.FIELD_MANAGER_PREFIX) and entry["manager"] != KUBELET
        for path in leaves(entry["fieldsV1"])
    }
    assert {each["kind"] for each in found} == {"Pod", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass"}
    assert paths == {("Pod", path) for path in WRITTEN}


def leaves(fields: dict[str, Any], *path: str) -> Iterator[str]:
    """Paths of the fields that an entry of managedFields owns."""
    below = {name.removeprefix("f:"): value for name, value in fields.items() if name != "."}
    for name, value in below.items():
        yield from leaves(value, *path, name) if value else (".".join((*path, name)),)


@pytest.mark.timeout(300)
def test_nothing_is_written_on_a_relist_or_a_restart(cluster: Cluster, own_plane: RealPlane, stack: Stack) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    cluster.create_known(
        cluster.pod("decided").templates("mine"),
        cluster.pod("foreign").templates("mine").but("spec.schedulingGates", FOREIGN),
    )
    cluster.bound_to("decided")
    assert cluster.decided("foreign") == [RESERVED]
    # Numbers are written later than what they count, also those of the tests before this one.
    counted = ("get", "tolerationrule", gpu, "-o", "jsonpath={.status.pendingMatches}")
    eventually(lambda: cluster.kubectl(*counted) == "1", what="counted")
    held = ("get", "schedulinggates", "-o", "jsonpath={.items[*].status.heldPods}")
    eventually(lambda: cluster.kubectl(*held) == "0", what="held Pods counted")
    settle(stack)
    since = own_plane.audit_fence()
    stack.running["controllers"].stop()
    stack.controllers()
    eventually(lambda: stack.running["controllers"].reconciles() > 0, what="the restarted controllers looked at Pods")
    own_plane.restart_apiserver()
    cluster.create(cluster.pod("after").but("spec.schedulingGates", FOREIGN))
    after = f"{cluster.namespace}/after"
    eventually(lambda: stack.running["controllers"].looks()[after], seconds=120, what="watching again")
    settle(stack)
    assert ours(own_plane, since) == []


def settle(stack: Stack) -> None:
    """Until the controllers have been silent for longer than a held Pod waits for its first event."""
    eventually(stack.running["controllers"].is_ready, what="ready")
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
    cluster.create(
        cluster.pod("plain").but("spec.schedulingGates", FOREIGN),
        cluster.pod("wants-late").templates("names-late").but("spec.schedulingGates", FOREIGN),
        cluster.pod("wants-claim").claims("mine").but("spec.schedulingGates", FOREIGN),
        cluster.pod("wants-template").templates("mine").but("spec.schedulingGates", FOREIGN),
    )
    eventually(lambda: "resourceClaimStatuses" in cluster.get("wants-late")["status"], what="its claim is generated")
    settle(stack)
    before, here = stack.running["controllers"].looks(), f"{cluster.namespace}/"
    if change == "the class appears":
        cluster.class_("late")
    elif change == "the claim is created":
        cluster.create(cluster.claim("mine", there))
    elif change == "the template is created":
        cluster.create(cluster.template("mine", there))
    else:
        cluster.create(rule.giving({**RESERVED, "effect": "NoExecute"}))

    def looked_at_now() -> list[str]:
        new = stack.running["controllers"].looks() - before
        return sorted(each.removeprefix(here) for each in new if each.startswith(here))

    eventually(lambda: set(looked_at) <= set(looked_at_now()), what=f"looked at {looked_at}")
    settle(stack)
    assert looked_at_now() == looked_at
