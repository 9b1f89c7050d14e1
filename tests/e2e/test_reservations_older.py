"""Reservations beside a kube-controller-manager that cannot live with them: refused, and said.

Before Kubernetes 1.36 its claim controller fails at a claim with an entry of anything but a Pod.  In its place
(`claims: Replace`) reservations work there as everywhere (tests/e2e/test_reservations_replacing.py).
"""

import pytest
from e2e.workloads import Shared, deployment, for_web
from planes.parameters import before
from processes.stack import Stack, eventually

from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.resources import DEPLOYMENTS, WORKLOAD_CLAIMS

pytestmark = [pytest.mark.timeout(180), before("1.36", "kube-controller-manager keeps entries of workloads")]

TOO_OLD = ("False", "UpstreamTooOld")


def reserve(shared: Shared, uid: str) -> None:
    """Write the entry of Deployment web, as a newer server's administrator might have left it."""
    shared.patch_entries({"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": uid})


def test_the_server_leaves_a_claim_with_an_entry_of_a_workload_alone(shared: Shared, own_plane: RealPlane) -> None:
    """Why Tollbar writes none."""
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, ["pods"])
    uid = "5f1a7b62-0000-4000-8000-000000000001"
    reserve(shared, uid)
    shared.run("scale", "deployment/web", "--replicas=0")
    eventually(lambda: shared.pods() == [], what="no Pods")
    failures = failed_syncs(own_plane, shared)
    eventually(lambda: failed_syncs(own_plane, shared) > failures, what="a sync that failed")
    assert shared.entries() == ["deployments/web", "pods"]
    shared.patch_entries({"$patch": "delete", "uid": uid})
    shared.until(shared.entries, [])
    shared.until(shared.device, None)


def failed_syncs(plane: RealPlane, shared: Shared) -> int:
    """How often kube-controller-manager gave up on the claim."""
    lines = plane.layout.log(CONTROLLER_MANAGER).read_text(errors="replace").splitlines()
    return sum("unsupported ReservedFor entry" in line and shared.cluster.namespace in line for line in lines)


def test_a_reservation_is_refused_and_the_claim_is_as_without_tollbar(shared: Shared, stack: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, ["pods"])
    shared.until(shared.condition, TOO_OLD)
    shared.reported("ReservationBlocked")
    status = shared.get(WORKLOAD_CLAIMS, "device")["status"]
    (condition,) = status["conditions"]
    assert (status["phase"], "claims: Replace" in condition["message"]) == ("Blocked", True), condition
    assert stack.running["controllers"].metrics()["tollbar_reservations"]['reason="UpstreamTooOld"'] >= 1
    shared.run("delete", "deployment/web")
    shared.until(shared.entries, [])
    shared.until(shared.device, None)


def test_an_entry_of_ours_that_is_there_goes(shared: Shared) -> None:
    """As after a return to an older Kubernetes, or from `claims: Replace`."""
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, ["pods"])
    uid = shared.get(DEPLOYMENTS, "web")["metadata"]["uid"]
    reserve(shared, uid)
    shared.until(shared.entries, ["deployments/web", "pods"])
    shared.run(
        "annotate",
        "resourceclaim/device",
        "tollbar.dev/reserved-for=deployments.apps/web",
        f"tollbar.dev/reserved-uid={uid}",
    )
    shared.until(shared.entries, ["pods"])
    shared.run("delete", "deployment/web")
    shared.until(shared.device, None)


def test_no_traceback_was_logged(stack: Stack) -> None:
    """The last test of the file: everything above went through these processes."""
    assert stack.tracebacks() == ""
