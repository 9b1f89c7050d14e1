"""Tollbar beside Kueue's plain-Pod integration, which is played by its rules (tests/e2e/kueue.py).

Both have a webhook, a gate, and something to change in the same Pods.  A Pod that reaches the node of its flavor has
lost both gates, and has the tolerations of the one and the node selector of the other.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.hooks import Hooks, serving
from e2e.kueue import (
    CONFIGURATION,
    GATE,
    HARMFUL,
    KINDS,
    POOL,
    ROLE_HASH,
    Kueue,
    a_queue,
    at_work,
    beside,
    define,
    definition,
    queued,
    role_of,
    webhooks,
    workload_of,
)
from objects.builders import Pod
from planes.objects import RESERVED, Cluster, a_ready_rule, gpu_rule
from processes.stack import eventually
from processes.transcripts import play

from tollbar import wellknown
from tollbar.api.gates import shipped_gate
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model import pods
from tollbar.model.objects import Object, spec, uid_of
from tollbar.model.resources import PODS
from tollbar.runtime.client import PatchType

pytestmark = pytest.mark.timeout(300)

EXAMPLE = Path(__file__).parents[2] / "manifests" / "examples" / "kueue"
LAST = "zzz-kueue"
"""A name that sorts after Tollbar's."""
ORDERS = {"Kueue first and again": (CONFIGURATION, "IfNeeded"), "Tollbar first": (LAST, "Never")}
"""In the other tests Kueue is called first, and once."""
TAINTED: Object = {**POOL, "nodeTaints": [{"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}]}


@pytest.fixture(scope="module")
def hooks() -> Iterator[Hooks]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def _served(plane: RealPlane) -> Iterator[None]:
    define(plane.kubectl)
    yield
    plane.kubectl("delete", "crd", *(each["metadata"]["name"] for each in map(definition, KINDS)))


@pytest.fixture
def kueue(cluster: Cluster, plane: RealPlane, _served: None) -> Iterator[Kueue]:
    """Kueue in the test's namespace; Pods may be held for as long as a busy machine takes."""
    shipped = shipped_gate()
    cluster.kubectl.apply({**shipped, "spec": {**spec(shipped), "maxHold": "1h"}})
    with beside(plane, cluster.namespace) as found:
        yield found


def gates(cluster: Cluster, name: str) -> list[str]:
    return pods.gate_names(cluster.get(name))


def released(cluster: Cluster, *names: str) -> None:
    """Wait until Tollbar holds none of them."""
    eventually(lambda: not cluster.held() & set(names), what=f"{names} released")


def a_rule(cluster: Cluster) -> str:
    """A rule for the claims of a class, which is returned."""
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    return gpu


@pytest.mark.parametrize(("name", "again"), ORDERS.values(), ids=ORDERS)
def test_in_every_order_of_the_webhooks_both_gates_leave(
    cluster: Cluster, kueue: Kueue, hooks: Hooks, name: str, again: str
) -> None:
    gpu = a_rule(cluster)
    a_queue(cluster.kubectl, cluster.namespace)
    cluster.create(cluster.claim("known", gpu))
    with webhooks(hooks, kueue.api, name, again):
        cluster.create_known(queued(cluster.pod("one")).claims("known"))
        cluster.create(
            queued(cluster.pod("later")).claims("late"),
            *(queued(cluster.pod(f"worker-{index}"), "workers").claims("late") for index in range(2)),
            *(queued(cluster.pod(f"ready-{index}"), "ready").claims("known") for index in range(2)),
        )
    uids = {uid_of(each) for each in cluster.pods()}
    assert cluster.held() == {"later", "worker-0", "worker-1"}
    assert set(gates(cluster, "later")) == {GATE, wellknown.GATE}

    kueue.look()
    kueue.run("ready")
    kueue.run("workers")  # before Tollbar lets its Pods go
    assert gates(cluster, "worker-0") == [wellknown.GATE]
    kueue.run(workload_of(cluster.get("one")))
    cluster.create(cluster.claim("late", gpu))
    released(cluster, "later", "worker-0", "worker-1")
    assert gates(cluster, "later") == [GATE]
    kueue.run(workload_of(cluster.get("later")))  # after it has

    for pod in ("one", "later", "worker-0", "worker-1", "ready-0", "ready-1"):
        assert (cluster.bound_to(pod), cluster.tolerations(pod)) == ("gpu-1", [RESERVED]), pod
    kueue.look()
    assert not HARMFUL & set(kueue.reasons()), kueue.told
    assert {uid_of(each) for each in cluster.pods()} == uids
    eventually(lambda: is_told(cluster, "later"), what="who else holds the Pod is told")


def is_told(cluster: Cluster, name: str) -> bool:
    """Whether the Event about the release names the gate that is left."""
    wanted = f"still waiting for {GATE}"
    return any(reason == "TolerationsAdded" and wanted in note for reason, note in cluster.events(name))


STAGES = {"waits": ["UpdatedWorkload"], "has its quota": ["DeletedWorkload", "CreatedWorkload"], "is admitted": []}


def test_a_toleration_that_comes_late_costs_a_place_in_the_queue_at_most(
    cluster: Cluster, kueue: Kueue, hooks: Hooks
) -> None:
    """By when it comes: while the Workload waits, has its quota but waits for admission checks, is admitted."""
    gpu = a_rule(cluster)
    a_queue(cluster.kubectl, cluster.namespace)
    names = dict(zip(STAGES, ("waits", "reserved", "admitted"), strict=True))
    with webhooks(hooks, kueue.api):
        cluster.create(*(queued(cluster.pod(each)).claims("late") for each in names.values()))
    kueue.look()
    workloads = {each: workload_of(cluster.get(each)) for each in names.values()}
    for each in ("reserved", "admitted"):
        assert kueue.reserve(workloads[each]) == ""
    kueue.admit(workloads["admitted"])
    cluster.create(cluster.claim("late", gpu))
    released(cluster, *names.values())
    kueue.told.clear()
    kueue.look()
    kueue.look()
    told = {each: [reason for reason, about in kueue.told if about == workloads[each]] for each in workloads}
    assert told == {names[stage]: want for stage, want in STAGES.items()}
    for each in workloads.values():
        if kueue.workload(each) and each != workloads["admitted"]:
            kueue.run(each)
    assert {each: cluster.bound_to(each) for each in workloads} == dict.fromkeys(workloads, "gpu-1")


MIXED: dict[str, tuple[str, dict[str, str], int, str]] = {
    "Kueue first": (CONFIGURATION, {}, 1, "Started"),
    "Tollbar first": (LAST, {}, 2, "ExcessPodDeleted"),
    "Tollbar first, and the author names the role": (LAST, {ROLE_HASH: "worker"}, 1, "Started"),
}


@pytest.mark.parametrize(("name", "notes", "roles", "becomes"), MIXED.values(), ids=MIXED)
def test_a_group_of_which_some_are_decided_at_admission(
    cluster: Cluster,
    kueue: Kueue,
    hooks: Hooks,
    name: str,
    notes: dict[str, str],
    roles: int,
    becomes: str,
) -> None:
    """Kueue counts Pods by what they were when its webhook was called.  A Pod that is held has no tolerations yet, and
    where Tollbar is called first, the one that replaces it is of another role: too many of that one, to Kueue."""
    gpu = a_rule(cluster)
    a_queue(cluster.kubectl, cluster.namespace)

    def member(index: int) -> Pod:
        return queued(cluster.pod(f"worker-{index}"), "workers", **notes).claims("gpu")

    with webhooks(hooks, kueue.api, name):
        cluster.create(member(0))
        assert cluster.held() == {"worker-0"}
        cluster.create(cluster.claim("gpu", gpu))
        released(cluster, "worker-0")
        cluster.create_known(member(1))
        assert len({role_of(each) for each in cluster.pods()}) == roles
        kueue.run("workers")
        assert [cluster.bound_to(f"worker-{index}") for index in range(2)] == ["gpu-1", "gpu-1"]
        cluster.runs("worker-0")
        kueue.api.patch(PODS, "worker-0", {"status": {"phase": "Failed"}}, PatchType.MERGE, "status").accepted()
        cluster.create_known(member(2))
    kueue.told.clear()
    kueue.look()
    assert kueue.told == [(becomes, "worker-2")]


def test_the_node_taints_of_a_flavor_ask_for_tolerations_before_the_workload_is_made(
    cluster: Cluster, kueue: Kueue, hooks: Hooks
) -> None:
    """A single Pod's Workload follows its tolerations, a group's does not.  The flavor can bring them."""
    gpu = a_rule(cluster)
    a_queue(cluster.kubectl, cluster.namespace, TAINTED)
    with webhooks(hooks, kueue.api):
        cluster.create(
            queued(cluster.pod("one")).claims("late"), queued(cluster.pod("worker"), "workers", 1).claims("late")
        )
    kueue.look()
    one = workload_of(cluster.get("one"))
    missing = f"untolerated taint example.com/gpu in flavor team.{cluster.namespace}"
    assert (kueue.reserve(one), kueue.reserve("workers")) == (missing, missing)
    cluster.create(cluster.claim("late", gpu))
    released(cluster, "one", "worker")
    kueue.look()
    assert (kueue.reserve(one), kueue.reserve("workers")) == ("", missing)
    a_queue(cluster.kubectl, cluster.namespace, {**TAINTED, "tolerations": [RESERVED]})
    kueue.admit(one)
    kueue.run("workers")
    assert (cluster.bound_to("one"), cluster.bound_to("worker")) == ("gpu-1", "gpu-1")
    assert cluster.tolerations("worker") == [RESERVED]


def test_who_comes_second_loses_nothing(cluster: Cluster, kueue: Kueue, hooks: Hooks) -> None:
    """Kueue patches the Pod that it has seen, with its resourceVersion and the whole list of gates: after a release of
    ours that it has not seen it gets a conflict, and our gate does not come back."""
    gpu = a_rule(cluster)
    a_queue(cluster.kubectl, cluster.namespace)
    with webhooks(hooks, kueue.api):
        cluster.create(queued(cluster.pod("one")).claims("late"))
    kueue.look()
    (seen,) = kueue.pods()
    name = workload_of(seen)
    assert kueue.reserve(name) == ""
    kueue.admit(name)
    cluster.create(cluster.claim("late", gpu))
    released(cluster, "one")
    workload = kueue.workload(name)
    assert workload is not None
    kueue.start(seen, workload)
    assert (kueue.conflicts, gates(cluster, "one")) == (1, [GATE])
    kueue.look()
    assert (kueue.reasons()[-1], cluster.bound_to("one")) == ("Started", "gpu-1")


def test_a_pod_that_kueue_ends_while_tollbar_holds_it(cluster: Cluster, kueue: Kueue, hooks: Hooks) -> None:
    """One that Kueue had let go is deleted when it is evicted, such as by `waitForPodsReady`; its finalizer is Kueue's
    to remove, and nobody is told that a release was refused."""
    a_rule(cluster)
    a_queue(cluster.kubectl, cluster.namespace)
    with webhooks(hooks, kueue.api):
        cluster.create(queued(cluster.pod("one")).claims("late"), queued(cluster.pod("two")).claims("late"))
    kueue.look()
    one = workload_of(cluster.get("one"))
    kueue.run(one)
    assert gates(cluster, "one") == [wellknown.GATE]
    kueue.evict(one)
    cluster.kubectl("delete", "pod", "two", "-n", cluster.namespace, "--wait=false")
    assert {each["metadata"]["name"] for each in cluster.pods() if pods.is_deleting(each)} == {"one", "two"}
    kueue.look()
    eventually(lambda: not cluster.pods(), what="both are gone")
    assert not {reason for name in ("one", "two") for reason, _ in cluster.events(name)} & {"ReleaseRefused"}


def test_what_the_readme_says_is_what_happens(cluster: Cluster, kueue: Kueue, hooks: Hooks, tmp_path: Path) -> None:
    with webhooks(hooks, kueue.api), at_work(kueue):
        play(EXAMPLE, cluster.kubectl, cluster.namespace, tmp_path)
