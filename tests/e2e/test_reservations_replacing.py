"""Devices that stay with their workload where Tollbar has the claims to itself: a Job keeps them between its Pods.

Beside kube-controller-manager's claim controller that cannot be (tests/e2e/reservations).
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from e2e.workloads import PINNED, Shared, deployment, for_web, job, workload_claim
from planes.objects import Cluster
from planes.parameters import since
from planes.replacing import OFF, namespace_of, restarted_with, start
from processes.stack import Stack, eventually

from tollbar.decide.claims.reservations import RECHECK
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.model.objects import Key

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def shared(replaced: Stack, node: BackgroundKubelet, request: pytest.FixtureRequest) -> Iterator[Shared]:
    """A template `one` for one device, in a namespace of its own."""
    cluster = Cluster(replaced.plane.kubectl, namespace_of(replaced, request.node.name))
    cluster.create(cluster.template("one", cluster.class_()))
    yield Shared(cluster)
    cluster.clear()


def test_a_job_keeps_it_between_its_pods(shared: Shared, node: BackgroundKubelet, replaced: Stack) -> None:
    wanted = workload_claim("device", "jobs", "batch", "train", resourceClaimTemplateName="one", release="WhenFinished")
    train = job("train", "device", completions=2)
    train["spec"]["parallelism"] = 1
    shared.apply(wanted, train)
    shared.until(shared.entries, ["jobs/train", "pods"])
    device = shared.device()
    (first,) = shared.running()
    since = replaced.plane.audit_fence()
    node.finish(Key(shared.cluster.namespace, first))
    (second,) = shared.running(without=first)
    shared.until(shared.entries, ["jobs/train", "pods"])
    replaced.plane.audit_fence()
    writes = replaced.plane.audit.writes(since, resource="resourceclaims", namespace=shared.cluster.namespace)
    assert (shared.device(), shared.condition()) == (device, ("True", "Held"))
    assert len([r for r in writes if r.code == 200]) <= 3, "one Pod's entry went, another's came"
    node.finish(Key(shared.cluster.namespace, second))
    shared.until(shared.device, None)
    shared.until(shared.entries, [])
    shared.until(shared.condition, ("False", "Released"))


@since("1.37", "DeviceTaintRules are not served by default")
def test_a_tainted_device_is_kept_until_pods_are_evicted_from_it(shared: Shared, replaced: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    (before,), device = shared.running(), shared.device()
    without = f"{OFF},-device-taint-eviction-controller"
    with ExitStack() as stack:
        with restarted_with(replaced.plane, CONTROLLER_MANAGER, without):
            stack.enter_context(shared.tainted(str(device)))
            shared.run("annotate", "resourceclaim/device", "example.com/touched=1")
            eventually(lambda: shared.condition() == ("True", "Held"), what="nobody evicts, nothing is given up")
            assert (shared.running(), shared.device(), shared.entries()) == ([before], device, PINNED)
        eventually(lambda: shared.device() not in (None, device), seconds=120, what="another device")
        shared.running(without=before)
        shared.until(shared.entries, PINNED)
        shared.until(shared.condition, ("True", "Held"))


def test_a_rollout_and_the_end_of_a_deployment(shared: Shared) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    device = shared.device()
    (before,) = shared.running()
    shared.run("set", "image", "deployment/web", "main=example.com/app:2")
    shared.running(without=before)
    assert shared.device() == device
    shared.run("delete", "deployment/web")
    shared.until(shared.device, None)
    shared.until(shared.entries, [])


def test_a_pin_that_the_one_who_generates_cannot_live_with_is_given_up(
    shared: Shared, node: BackgroundKubelet, replaced: Stack
) -> None:
    """kube-controller-manager's controller is switched on while ours does not run: ours is refused from then on."""
    wanted = workload_claim("device", "jobs", "batch", "train", resourceClaimTemplateName="one")
    shared.apply(wanted, job("train", "device"))
    (only,) = shared.running()
    node.finish(Key(shared.cluster.namespace, only))
    shared.until(shared.entries, ["jobs/train"])
    replaced.running["controllers"].stop()
    with restarted_with(replaced.plane, CONTROLLER_MANAGER):
        generated_for(shared, "canary")  # or it may not serve the probe in time
        refused = replaced.start("refused", "controllers", ready=False, claims="Replace")
        try:
            eventually(lambda: refused.said("ResourceClaims are not replaced"), what="refused")
            shared.until(shared.device, None, seconds=RECHECK + 60)
        finally:
            refused.stop()
    start(replaced)


def generated_for(shared: Shared, name: str) -> None:
    """Wait until somebody generates claims: for this Pod, which nobody schedules."""
    held = shared.cluster.pod(name).templates("one").but("spec.schedulingGates", [{"name": "example.com/never"}])
    shared.cluster.create(held)
    eventually(lambda: shared.cluster.get(name)["status"].get("resourceClaimStatuses"), what=f"a claim for {name}")


def test_no_traceback_was_logged(replaced: Stack) -> None:
    """The last test of the file: everything above went through these processes."""
    assert replaced.tracebacks() == ""
