"""For how long a workload keeps its device: over the ends of its Pods, and no longer than it should."""

import pytest
from e2e.workloads import (
    FOR_WEB,
    PINNED,
    Shared,
    deployment,
    for_web,
    job,
    stateful_set,
    without_controllers,
    workload_claim,
)
from processes.stack import Stack, eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.model.objects import Key, Object, annotations_of
from tollbar.model.resources import DEPLOYMENTS, PODS

pytestmark = [pytest.mark.timeout(300), pytest.mark.real]

ALONE = ["deployments/web"]


@pytest.mark.parametrize("strategy", ["Recreate", "RollingUpdate"])
def test_the_device_survives_a_rollout(shared: Shared, strategy: str) -> None:
    shared.apply(for_web(), deployment("web", "device", strategy=strategy))
    shared.until(shared.entries, PINNED)
    shared.until(shared.condition, ("True", "Held"))
    (before,) = shared.running()
    uid, device = shared.uid(), shared.device()
    shared.run("set", "image", "deployment/web", "main=example.com/app:2")
    shared.running(without=before)
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
    eventually(lambda: shared.get(DEPLOYMENTS, "web")["status"].get("observedGeneration") == 2)
    shared.until(shared.condition, ("True", "Held"))
    assert shared.entries() == PINNED
    shared.run("delete", "deployment/other")
    shared.until(shared.entries, [])
    shared.until(shared.device, None)


def test_a_stateful_set_keeps_it_while_its_pod_is_replaced(shared: Shared) -> None:
    wanted = workload_claim("device", "statefulsets", "apps", "db", resourceClaimTemplateName="one")
    shared.apply(wanted, stateful_set("db", "device"))
    shared.until(shared.entries, ["pods", "statefulsets/db"])
    device, old = shared.device(), shared.get(PODS, "db-0")["metadata"]["uid"]
    shared.run("delete", "pod/db-0")
    assert shared.running() == ["db-0"]
    assert shared.get(PODS, "db-0")["metadata"]["uid"] != old
    shared.until(shared.entries, ["pods", "statefulsets/db"])
    assert shared.device() == device


def test_a_claim_without_a_workloadclaim_is_kept_by_its_annotation(shared: Shared) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(FOR_WEB))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    shared.run("annotate", "resourceclaim/device", "tollbar.dev/reserved-for-")
    shared.until(shared.entries, ["pods"])
    shared.reported("ClaimReserved", "ReservationReleased")


def test_without_any_annotation_the_api_server_still_knows_whose_the_entry_is(shared: Shared, stack: Stack) -> None:
    """Both go in one write while nobody looks; an entry of somebody else, of the same sort, stays."""
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")).annotated(FOR_WEB))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    with without_controllers(stack):
        shared.patch_entries({"apiGroup": "apps", "resource": "deployments", "name": "other", "uid": "other"})
        shared.run("annotate", "resourceclaim/device", "tollbar.dev/reserved-for-", "tollbar.dev/reserved-uid-")
        shared.until(shared.entries, ["deployments/other", *PINNED])
    shared.until(shared.entries, ["deployments/other", "pods"])


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


def test_another_workload_of_the_same_name_is_another_workload(shared: Shared, stack: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    old = reserved_uid(shared)
    with without_controllers(stack):
        shared.run("delete", "deployment/web")
        shared.apply(deployment("web", "device"))
        shared.running()
    eventually(lambda: reserved_uid(shared) not in ("", old), what="reserved for the new one")
    shared.until(shared.entries, PINNED)
    assert reserved_uid(shared) == shared.get(DEPLOYMENTS, "web")["metadata"]["uid"]


def reserved_uid(shared: Shared) -> str:
    entries = (shared.claim() or {})["status"].get("reservedFor", [])
    return next((each["uid"] for each in entries if each["resource"] == "deployments"), "")


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
    shared.until(shared.claim, None)  # the garbage collector looks for new kinds every 30 seconds
    other.until(other.device, None)
    other.until(lambda: ours(other.claim() or {}), [])


def ours(claim: Object) -> list[str]:
    return [name for name in annotations_of(claim) if name.startswith("tollbar.dev/")]


def test_a_finished_job_gives_it_back(shared: Shared, nodes: BackgroundKubelet) -> None:
    wanted = workload_claim("device", "jobs", "batch", "train", resourceClaimTemplateName="one", release="WhenFinished")
    shared.apply(wanted, job("train", "device"))
    shared.until(shared.entries, ["jobs/train", "pods"])
    (pod,) = shared.running()
    nodes.finish(Key(shared.cluster.namespace, pod))
    shared.until(shared.entries, [])
    shared.until(shared.device, None)
    shared.until(shared.condition, ("False", "Released"))


def test_foreign_entries_are_left_alone(shared: Shared) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    foreign = [{"apiGroup": "example.com", "resource": "widgets", "name": name, "uid": name} for name in ("w0", "w1")]
    shared.patch_entries(*foreign)
    shared.run("delete", "deployment/web")
    shared.until(shared.entries, ["widgets/w0", "widgets/w1"])
    assert shared.device() is not None


def test_no_traceback_was_logged(stack: Stack) -> None:
    """The last test of the file: everything above went through these processes."""
    assert stack.tracebacks() == ""
