"""What a reservation costs, and the commands that are about them: `tollbar drain --reservations`, `tollbar status`."""

import json

import pytest
from e2e.workloads import FOR_WEB, PINNED, Shared, deployment, for_web, without_controllers, workload_claim
from processes.stack import CONTROLLERS, Stack, eventually

from tollbar.devplane.real.launcher import RealPlane

pytestmark = [pytest.mark.timeout(300), pytest.mark.real]


def test_a_reservation_costs_two_writes_of_the_claim_and_a_restart_none(
    shared: Shared, stack: Stack, own_plane: RealPlane
) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(FOR_WEB))
    since = own_plane.audit_fence()
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    assert claim_writes(own_plane, since, shared) == [("patch", ""), ("patch", "status")]
    with without_controllers(stack):
        since = own_plane.audit_fence()
        looks = stack.running["controllers"].looks("reservations")
    controllers, device = stack.running["controllers"], f"{shared.cluster.namespace}/device"
    eventually(lambda: controllers.looks("reservations")[device] > looks[device], what="looked at")
    eventually(lambda: controllers.metrics()["tollbar_reservations"]['reason="Held"'] >= 1, what="held")
    assert claim_writes(own_plane, since, shared) == []


def claim_writes(plane: RealPlane, since: int, shared: Shared) -> list[tuple[str, str]]:
    """Verbs and subresources of what our controllers wrote to the namespace's claims."""
    plane.audit_fence()
    found = plane.audit.writes(since, user=CONTROLLERS, namespace=shared.cluster.namespace)
    return [(r.verb, r.subresource) for r in found if r.resource == "resourceclaims"]


def test_drain_puts_pods_in_the_place_of_their_workload(shared: Shared, stack: Stack) -> None:
    free = Shared(shared.cluster, "free")
    shared.apply(
        for_web(),
        deployment("web", "device", replicas=2),
        workload_claim("free", "deployments", "apps", "idle", resourceClaimTemplateName="one"),
        deployment("idle", "free"),
    )
    shared.until(shared.entries, [*PINNED, "pods"])
    free.until(free.entries, ["deployments/idle", "pods"])
    device = shared.device()
    shared.run("scale", "deployment/idle", "--replicas=0")
    free.until(free.entries, ["deployments/idle"])
    with without_controllers(stack):
        said = stack.tollbar("drain", "--reservations", "-o", "json")
        reservations = json.loads(said.stdout)["reservations"]
        assert (said.returncode, reservations["remaining"], reservations["refused"]) == (0, 0, []), said.stderr
        assert (shared.entries(), shared.device()) == (["pods", "pods"], device)
        assert (free.entries(), free.device()) == ([], None)
    shared.until(shared.entries, [*PINNED, "pods"])


def test_status_says_how_it_stands(shared: Shared, stack: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.condition, ("True", "Held"))
    shared.apply(workload_claim("astray", "nosuchthings", "example.com", "x", resourceClaimTemplateName="one"))
    eventually(lambda: shared.condition("astray") == ("False", "KindUnknown"))
    said = stack.tollbar("status", "-o", "json")
    found = json.loads(said.stdout)
    reservations = found["reservations"]  # of every namespace
    assert (said.returncode, found["claims"]["mayBind"], reservations["KindUnknown"]) == (1, True, 1), said.stderr
    assert reservations["Held"] >= 1
    assert found["server"].startswith("v1.")
    named = f"reservation {shared.cluster.namespace}/astray: KindUnknown: "
    assert any(problem.startswith(named) for problem in found["problems"]), found["problems"]
    table = stack.tollbar("status")
    assert "1 KindUnknown" in table.stdout


def test_no_traceback_was_logged(stack: Stack) -> None:
    """The last test of the file: everything above went through these processes."""
    assert stack.tracebacks() == ""
