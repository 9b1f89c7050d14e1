"""Devices that stay with their workload, beside kube-controller-manager's own claim controller.

Before Kubernetes 1.36 that one cannot live with it (tests/e2e/test_reservations_older.py): there the same scenarios are
played with `claims: Replace`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cluster import Cluster
from planes import is_before, since
from replacing import start
from stack import CONTROLLERS, ROOT, Stack, eventually
from workloads import Shared, deployment, job, pod_template, stateful_set, workload_claim

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Key, Object

pytestmark = [pytest.mark.timeout(180), pytest.mark.real]
only_beside = since("1.36", "reservations need claims: Replace")

REPLACING = is_before("1.36")
PINNED = ["deployments/web", "pods"]
ALONE = ["deployments/web"]


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> Stack:
    found: Stack = request.getfixturevalue("replaced" if REPLACING else "stack")
    return found


@pytest.fixture(scope="module")
def nodes(request: pytest.FixtureRequest) -> BackgroundKubelet:
    found: BackgroundKubelet = request.getfixturevalue("node" if REPLACING else "nodes")
    return found


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> RealPlane:
    found: RealPlane = request.getfixturevalue("replaced").plane if REPLACING else request.getfixturevalue("plane")
    return found


@pytest.fixture
def shared(cluster: Cluster) -> Shared:
    """A template `one` for one device, in a namespace of its own."""
    cluster.create(cluster.template("one", cluster.class_()))
    return Shared(cluster)


def for_web(**spec: Any) -> Any:
    return workload_claim("device", "deployments", "apps", "web", resourceClaimTemplateName="one", **spec)


@pytest.mark.parametrize("strategy", ["Recreate", "RollingUpdate"])
def test_the_device_survives_a_rollout(shared: Shared, strategy: str) -> None:
    shared.apply(for_web(), deployment("web", "device", strategy=strategy))
    shared.until(shared.entries, PINNED)
    shared.until(shared.condition, ("True", "Held"))
    (before,) = eventually(shared.running)
    uid, device = shared.uid(), shared.device()
    shared.run("set", "image", "deployment/web", "main=example.com/app:2")
    eventually(lambda: shared.running(without=before), what="the next Pod")
    shared.until(shared.entries, PINNED)
    assert (shared.uid(), shared.device()) == (uid, device)


@pytest.mark.parametrize(
    ("release", "kept"), [("WhenDeleted", ALONE), ("WhenFinished", ALONE), ("WhenIdle", [])], ids=str
)
def test_scaled_to_zero_and_back(shared: Shared, release: str, kept: list[str]) -> None:
    shared.apply(for_web(release=release), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    device = shared.device()
    shared.run("scale", "deployment/web", "--replicas=0")
    shared.until(shared.entries, kept)
    shared.until(shared.device, device if kept else None)
    shared.until(shared.condition, ("True", "Held") if kept else ("False", "Released"))
    shared.run("scale", "deployment/web", "--replicas=1")
    shared.until(shared.entries, PINNED)
    shared.until(shared.condition, ("True", "Held"))


def test_idle_waits_for_a_pod_of_somebody_else(shared: Shared) -> None:
    shared.apply(for_web(release="WhenIdle"), deployment("web", "device"), deployment("other", "device"))
    shared.until(shared.entries, [*PINNED, "pods"])
    shared.run("scale", "deployment/web", "--replicas=0")
    shared.until(shared.entries, PINNED)
    eventually(lambda: shared.get("deployment", "web")["status"].get("observedGeneration") == 2)
    assert shared.condition() == ("True", "Held")
    shared.run("delete", "deployment/other")
    shared.until(shared.entries, [])
    shared.until(shared.device, None)


def test_a_stateful_set_keeps_it_while_its_pod_is_replaced(shared: Shared) -> None:
    wanted = workload_claim("device", "statefulsets", "apps", "db", resourceClaimTemplateName="one")
    shared.apply(wanted, stateful_set("db", "device"))
    shared.until(shared.entries, ["pods", "statefulsets/db"])
    device, old = shared.device(), shared.get("pod", "db-0")["metadata"]["uid"]
    shared.run("delete", "pod/db-0")
    eventually(lambda: shared.running() == ["db-0"] and shared.get("pod", "db-0")["metadata"]["uid"] != old)
    shared.until(shared.entries, ["pods", "statefulsets/db"])
    assert shared.device() == device


def test_a_claim_without_a_workloadclaim_is_kept_by_its_annotation(shared: Shared) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(FOR_WEB))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    shared.run("annotate", "resourceclaim/device", "tollbar.dev/reserved-for-")
    shared.until(shared.entries, ["pods"])
    assert {"ClaimReserved", "ReservationReleased"} <= set(eventually(lambda: two(shared.reasons())))


def test_without_any_annotation_the_api_server_still_knows_whose_the_entry_is(shared: Shared, stack: Stack) -> None:
    """Both go in one write while nobody looks; an entry of somebody else, of the same sort, stays."""
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(FOR_WEB))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    with without_controllers(stack):
        patch_status(shared, [{"apiGroup": "apps", "resource": "deployments", "name": "other", "uid": "other"}])
        shared.run("annotate", "resourceclaim/device", "tollbar.dev/reserved-for-", "tollbar.dev/reserved-uid-")
        shared.until(shared.entries, ["deployments/other", *PINNED])
    shared.until(shared.entries, ["deployments/other", "pods"])


def two(found: list[str]) -> list[str]:
    return found if len(found) >= 2 else []


FOR_WEB = {"tollbar.dev/reserved-for": "deployments.apps/web"}


def test_a_deleted_workload_gives_it_back(shared: Shared) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    shared.run("delete", "deployment/web")
    shared.until(shared.entries, [])
    shared.until(shared.device, None)
    shared.until(shared.condition, ("False", "WorkloadMissing"))


def test_a_workload_that_was_deleted_while_nobody_looked(shared: Shared, stack: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    with without_controllers(stack):
        shared.run("delete", "deployment/web")
        eventually(lambda: shared.pods() == [], what="no Pods")
        assert "deployments/web" in shared.entries()
    shared.until(shared.entries, [])
    shared.until(shared.device, None)


@contextmanager
def without_controllers(stack: Stack) -> Iterator[None]:
    stack.running["controllers"].stop()
    try:
        yield
    finally:
        if REPLACING:
            start(stack)
        else:
            stack.controllers()


def test_another_workload_of_the_same_name_is_another_workload(shared: Shared, stack: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    old = reserved_uid(shared)
    with without_controllers(stack):
        shared.run("delete", "deployment/web")
        shared.apply(deployment("web", "device"))
        eventually(shared.running)
    eventually(lambda: reserved_uid(shared) not in ("", old), what="reserved for the new one")
    shared.until(shared.entries, PINNED)
    assert reserved_uid(shared) == shared.get("deployment", "web")["metadata"]["uid"]


def reserved_uid(shared: Shared) -> str:
    entries = (shared.claim() or {})["status"].get("reservedFor", [])
    return next((each["uid"] for each in entries if each["resource"] == "deployments"), "")


def test_a_kind_that_is_not_served_for_a_while_loses_nothing(shared: Shared, training: str) -> None:
    shared.apply(training_job(training, "bert"), bare_pod("trainer"))
    shared.cluster.create(
        shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(
            {"tollbar.dev/reserved-for": f"{training}/bert"}
        )
    )
    pinned = ["pods", f"{training.split('.')[0]}/bert"]
    shared.until(shared.entries, pinned)
    serve(shared, training, served=False)
    shared.run("annotate", "resourceclaim/device", "example.com/touched=1")
    eventually(lambda: any("KindUnknown" in note for _, note in shared.cluster.events("device")), seconds=60)
    assert shared.entries() == pinned
    serve(shared, training, served=True)
    shared.run("delete", training, "bert")
    shared.until(shared.entries, ["pods"], seconds=60)


def bare_pod(name: str, claim: str = "device") -> Object:
    template = pod_template(name, claim, restartPolicy="Never")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}


def training_job(training: str, name: str) -> Object:
    return {"apiVersion": f"{training.partition('.')[2]}/v1", "kind": "Training", "metadata": {"name": name}}


@pytest.fixture
def training(cluster: Cluster) -> Iterator[str]:
    """A kind of workload that comes with a CRD, and that the controllers may read: `trainings.<group>`."""
    group = f"{cluster.namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "trainings", "singular": "training", "kind": "Training"}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    cluster.kubectl.apply(
        {**crd, "metadata": {"name": f"trainings.{group}"}, "spec": spec},
        {
            **role,
            "metadata": {"name": cluster.unique("trainings"), "labels": {"tollbar.dev/aggregate-to-workloads": "true"}},
            "rules": [{"apiGroups": [group], "resources": ["trainings"], "verbs": ["get", "list", "watch"]}],
        },
    )
    cluster.kubectl("wait", "--for=condition=Established", f"crd/trainings.{group}", "--timeout=20s")
    eventually(lambda: group in cluster.kubectl("get", "clusterrole", "tollbar-workloads", "-o", "yaml"))
    yield f"trainings.{group}"
    cluster.kubectl("delete", f"crd/trainings.{group}", f"clusterrole/{cluster.unique('trainings')}")


def serve(shared: Shared, training: str, *, served: bool) -> None:
    patch = [{"op": "replace", "path": "/spec/versions/0/served", "value": served}]
    shared.cluster.kubectl("patch", "crd", training, "--type=json", "-p", json.dumps(patch))


def test_a_claim_that_is_deleted_while_reserved_goes_with_its_last_pod(shared: Shared) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(FOR_WEB))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    shared.run("delete", "resourceclaim/device", "--wait=false")
    shared.until(shared.entries, ["pods"])
    shared.run("scale", "deployment/web", "--replicas=0")
    shared.until(shared.claim, None)


def test_a_workloadclaim_takes_its_claim_with_it_and_leaves_an_adopted_one(shared: Shared) -> None:
    other = Shared(shared.cluster, "adopted")
    shared.cluster.create(shared.cluster.claim("adopted", shared.cluster.unique("gpu")))
    adopting = workload_claim("adopting", "deployments", "apps", "other", resourceClaimName="adopted")
    shared.apply(for_web(), adopting, deployment("web", "device"), deployment("other", "adopted"))
    shared.until(shared.entries, PINNED)
    other.until(other.entries, ["deployments/other", "pods"])
    shared.run("delete", "workloadclaims", "--all")
    shared.until(shared.entries, ["pods"])
    other.until(other.entries, ["pods"])
    shared.run("delete", "deployments", "--all")
    shared.until(shared.claim, None)
    other.until(other.device, None)
    annotations = (other.claim() or {})["metadata"].get("annotations") or {}
    assert [name for name in annotations if name.startswith("tollbar.dev/")] == []


def test_a_full_claim_is_not_reserved_until_there_is_room_and_makes_room(shared: Shared) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, ["pods"])
    add_foreign(shared, range(254))
    shared.run("annotate", "resourceclaim/device", "tollbar.dev/reserved-for=deployments.apps/web")
    eventually(lambda: "ReservationBlocked" in shared.reasons(), what="ReservationBlocked")
    assert len(shared.entries()) == 255
    remove_foreign(shared, 0)
    shared.until(lambda: "deployments/web" in shared.entries(), True)
    assert len(shared.entries()) == 255
    add_foreign(shared, range(254, 255))
    shared.until(lambda: ("deployments/web" in shared.entries(), len(shared.entries())), (False, 255))


def test_foreign_entries_are_left_alone(shared: Shared) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    add_foreign(shared, range(2))
    shared.run("delete", "deployment/web")
    shared.until(shared.entries, ["widgets/w0", "widgets/w1"])
    assert shared.device() is not None


def add_foreign(shared: Shared, numbers: range) -> None:
    entries = [
        {"apiGroup": "example.com", "resource": "widgets", "name": f"w{number}", "uid": f"w{number}"}
        for number in numbers
    ]
    patch_status(shared, entries)


def remove_foreign(shared: Shared, number: int) -> None:
    patch_status(shared, [{"$patch": "delete", "uid": f"w{number}"}])


def patch_status(shared: Shared, entries: list[Object]) -> None:
    body = json.dumps({"status": {"reservedFor": entries}})
    shared.run("patch", "resourceclaim/device", "--subresource=status", "--type=strategic", "-p", body)


@only_beside
def test_a_missing_permission_is_said_and_found_again(shared: Shared) -> None:
    role = shared.cluster.kubectl.json("get", "clusterrole", "tollbar-reservations")
    without = [{**rule, "resources": [r for r in rule["resources"] if "binding" not in r]} for rule in role["rules"]]
    set_rules(shared, without)
    try:
        shared.apply(for_web(), deployment("web", "device"))
        shared.until(shared.condition, ("False", "PermissionDenied"))
        eventually(lambda: "ReservationBlocked" in shared.reasons(), what="ReservationBlocked")
        (condition,) = shared.get("workloadclaim", "device")["status"]["conditions"]
        assert (shared.entries(), "resourceclaims/binding" in condition["message"]) == (["pods"], True), condition
    finally:
        set_rules(shared, role["rules"])
    shared.until(shared.entries, PINNED, seconds=60)


def set_rules(shared: Shared, rules: list[Object]) -> None:
    patch = json.dumps({"rules": rules})
    shared.cluster.kubectl("patch", "clusterrole", "tollbar-reservations", "--type=merge", "-p", patch)


def test_a_finished_job_gives_it_back(shared: Shared, nodes: BackgroundKubelet) -> None:
    wanted = workload_claim("device", "jobs", "batch", "train", resourceClaimTemplateName="one", release="WhenFinished")
    shared.apply(wanted, job("train", "device"))
    shared.until(shared.entries, ["jobs/train", "pods"])
    (pod,) = eventually(shared.running)
    nodes.finish(Key(shared.cluster.namespace, pod))
    shared.until(shared.entries, [])
    shared.until(shared.device, None)
    shared.until(shared.condition, ("False", "Released"))


@only_beside
def test_a_finished_pod_that_lingers_ends_the_reservation_when_it_was_the_last(
    shared: Shared, nodes: BackgroundKubelet, own_plane: RealPlane
) -> None:
    """With the pin the server's own controller would write for ever."""
    wanted = workload_claim("device", "jobs", "batch", "train", resourceClaimTemplateName="one")
    shared.apply(wanted, job("train", "device", completions=2))
    shared.until(shared.entries, ["jobs/train", "pods", "pods"])
    first, second = eventually(lambda: two(shared.running()))
    nodes.finish(Key(shared.cluster.namespace, first))
    shared.until(shared.condition, ("True", "UpstreamOscillation"))
    eventually(lambda: "UpstreamOscillation" in shared.reasons(), what="reported on the claim")
    nodes.finish(Key(shared.cluster.namespace, second))
    shared.until(shared.device, None)
    shared.until(shared.entries, [])
    since = own_plane.audit_fence()
    shared.until(shared.condition, ("False", "NotAllocated"))
    own_plane.audit_fence()
    assert len([r for r in own_plane.audit.writes(since) if r.resource == "resourceclaims"]) <= 2


UNFIT = '"claims" mode="Complement" fits="False" reason="UpstreamOscillation"'


@only_beside
def test_a_loop_of_the_server_is_found_on_a_claim_that_nobody_keeps(
    shared: Shared, nodes: BackgroundKubelet, stack: Stack
) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")))
    shared.apply(bare_pod("first"), bare_pod("second"))
    shared.until(shared.entries, ["pods", "pods"])
    eventually(lambda: two(shared.running()))
    nodes.finish(Key(shared.cluster.namespace, "first"))
    eventually(lambda: "UpstreamOscillation" in shared.reasons(), seconds=30, what="reported")
    controllers = stack.running["controllers"]
    assert controllers.metrics()["tollbar_claim_oscillations_total"][""] >= 1
    eventually(lambda: UNFIT in controllers.log(), what="the mode does not fit")
    shared.run("delete", "pod/first")
    shared.until(shared.entries, ["pods"])


def test_a_kind_that_may_not_be_read_is_said(shared: Shared) -> None:
    shared.apply(workload_claim("device", "configmaps", "", "web", resourceClaimTemplateName="one"))
    shared.until(shared.condition, ("False", "PermissionDenied"))
    (condition,) = shared.get("workloadclaim", "device")["status"]["conditions"]
    assert 'cannot list resource "configmaps"' in condition["message"]


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
    controllers = stack.running["controllers"]
    eventually(lambda: controllers.reconciles("reservations") > 0, what="looked at")
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
        said = tollbar(stack, "drain", "--reservations", "-o", "json")
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
    said = tollbar(stack, "status", "-o", "json")
    found = json.loads(said.stdout)
    reservations = found["reservations"]  # of every namespace
    assert (said.returncode, found["claims"]["mayBind"], reservations["KindUnknown"]) == (1, True, 1), said.stderr
    assert reservations["Held"] >= 1
    assert found["server"].startswith("v1.")
    assert "1 reservation: KindUnknown" in found["problems"]
    table = tollbar(stack, "status")
    assert "1 KindUnknown" in table.stdout


def tollbar(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tollbar.cli", *arguments, f"--kubeconfig={stack.plane.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_no_traceback_was_logged(stack: Stack) -> None:
    """The last test of the file: everything above went through these processes."""
    assert [name for name, process in stack.running.items() if "Traceback" in process.log()] == []
