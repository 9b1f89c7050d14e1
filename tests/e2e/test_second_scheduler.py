"""Tollbar's scheduler beside kube-scheduler: each schedules its own Pods, and each allocates its own devices."""

from collections.abc import Iterator

import pytest
from objects.builders import device_class
from planes import scheduling
from planes.objects import RESERVED, Cluster, as_written
from planes.parameters import since
from processes.stack import Process, Stack, eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.model.objects import Object, spec

OURS = "tollbar-scheduler"
DRIVER = "ours.example.com"
PRINCIPAL = f"system:serviceaccount:tollbar-system:{OURS}"


@pytest.fixture(scope="module")
def scheduler(stack: Stack, nodes: BackgroundKubelet) -> Iterator[Process]:
    """It alone allocates the devices of one driver, of which both Nodes have two."""
    for node in ("plain", "gpu-1"):
        nodes.publish_devices(node, DRIVER, [{"name": "ours-0"}, {"name": "ours-1"}])
    exclusive = {"name": "DynamicResources", "args": {"exclusive": {"drivers": [DRIVER]}}}
    process = stack.scheduler(profiles=[{"schedulerName": OURS, "pluginConfig": [exclusive]}])
    yield process
    process.stop()


def ours(cluster: Cluster, name: str = "web", **fields: object) -> Object:
    pod = as_written(cluster.pod(name))
    return {**pod, "spec": {**spec(pod), "schedulerName": OURS, **fields}}


def scheduled(cluster: Cluster, name: str = "web") -> Object:
    """The condition PodScheduled, once there is one."""

    def found() -> Object | None:
        conditions = cluster.get(name)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), None)

    condition: Object = eventually(found, what=f"{name} has a condition")
    return condition


def attempts(process: Process) -> float:
    return sum(process.metrics().get("scheduler_schedule_attempts_total", {}).values())


def test_each_schedules_its_own_pods(cluster: Cluster, scheduler: Process) -> None:
    assert scheduler.is_ready()
    cluster.create(ours(cluster, "ours"), as_written(cluster.pod("theirs")))
    assert (cluster.bound_to("ours"), cluster.bound_to("theirs")) == ("plain", "plain")

    def reported() -> dict[str, str]:
        found = cluster.kubectl.json(
            "get", "events.events.k8s.io", "-n", cluster.namespace, "--field-selector=reason=Scheduled"
        )
        return {each["regarding"]["name"]: each["reportingController"] for each in found["items"]}

    theirs = "tollbar.dev/scheduler" if scheduling.OURS else "default-scheduler"
    wanted = {"ours": "tollbar.dev/scheduler", "theirs": theirs}
    eventually(lambda: reported() == wanted, what="both events")


@pytest.mark.behaviour(28)
def test_a_late_toleration_wakes_its_pod_and_no_other(cluster: Cluster, scheduler: Process) -> None:
    """The hint of TaintToleration: what a gate controller adds late is tried at once."""
    there = {"nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}
    cluster.create(ours(cluster, "woken", **there), ours(cluster, "left", **there))
    for name in ("woken", "left"):
        eventually(lambda name=name: scheduled(cluster, name)["reason"] == "Unschedulable", what=f"{name} was tried")
    before = attempts(scheduler)
    late = [{"op": "add", "path": "/spec/tolerations/-", "value": RESERVED}]
    cluster.patch("woken", late)
    assert cluster.bound_to("woken") == "gpu-1"
    eventually(lambda: attempts(scheduler) == before + 1, what="one attempt")
    assert scheduled(cluster, "left")["status"] == "False"
    incoming = scheduler.metrics()["scheduler_queue_incoming_pods_total"]
    assert sum(count for labels, count in incoming.items() if "UpdatePodToleration" in labels) == 1.0


@pytest.mark.behaviour(10)
def test_gated_pods_cost_no_attempt_and_no_write(cluster: Cluster, stack: Stack, scheduler: Process) -> None:
    since_now, before = stack.plane.audit_fence(), attempts(scheduler)
    gated = {"schedulingGates": [{"name": "other.dev/quota"}]}
    names = [f"gated-{number}" for number in range(50)]
    cluster.create(*(ours(cluster, name, **gated) for name in names))

    def parked() -> bool:
        return scheduler.metrics()["scheduler_pending_pods"]['queue="gated"'] >= len(names)

    eventually(parked, what="all are known")
    cluster.create(ours(cluster, "passes"))
    assert cluster.bound_to("passes") == "plain"
    eventually(lambda: attempts(scheduler) == before + 1, what="counted")
    stack.plane.audit_fence()
    written = stack.plane.audit.writes(since_now, user=PRINCIPAL, resource="pods")
    assert {each.name for each in written} == {"passes"}
    cluster.patch(names[0], [{"op": "remove", "path": "/spec/schedulingGates"}])
    assert cluster.bound_to(names[0]) == "plain"


@since("1.36", "kube-scheduler's devices and ours are told apart by DeviceClasses alone")
def test_devices_of_both_stay_disjoint(cluster: Cluster, scheduler: Process) -> None:
    mine = cluster.unique("ours")
    theirs = cluster.class_("theirs")
    cluster.create(device_class(mine).selecting(f'device.driver == "{DRIVER}"'))
    cluster.create(cluster.template("mine", mine), cluster.template("theirs", theirs))
    for number in range(4):
        pod = as_written(cluster.pod(f"ours-{number}").templates("mine").tolerating(RESERVED))
        other = as_written(cluster.pod(f"theirs-{number}").templates("theirs").tolerating(RESERVED))
        cluster.create({**pod, "spec": {**spec(pod), "schedulerName": OURS}}, other)
    for number in range(4):
        assert cluster.bound_to(f"ours-{number}") in ("plain", "gpu-1")
        assert cluster.bound_to(f"theirs-{number}") == "gpu-1"
    devices = [
        (result["driver"], result["pool"], result["device"])
        for each in cluster.claims()
        for result in each["status"]["allocation"]["devices"]["results"]
    ]
    assert len(devices) == len(set(devices)) == 8
    assert sum(driver == DRIVER for driver, _, _ in devices) == 4


def test_devices_of_others_are_refused_with_the_reason(cluster: Cluster, scheduler: Process) -> None:
    theirs = cluster.class_("theirs")
    cluster.create(cluster.template("theirs", theirs))
    pod = as_written(cluster.pod().templates("theirs").tolerating(RESERVED))
    cluster.create({**pod, "spec": {**spec(pod), "schedulerName": OURS}})
    eventually(lambda: scheduled(cluster)["reason"] == "Unschedulable", what="refused")
    assert "exclusive" in scheduled(cluster)["message"]


def test_a_greater_priority_makes_room(cluster: Cluster, scheduler: Process) -> None:
    names = {name: cluster.unique(name) for name in ("low", "high")}
    for value, name in enumerate(names.values(), 1):
        cluster.kubectl.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    large = [{"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": "40"}}}]
    there = {"nodeSelector": {"kubernetes.io/hostname": "plain"}, "containers": large}
    cluster.create(ours(cluster, "victim", priorityClassName=names["low"], **there))
    assert cluster.bound_to("victim") == "plain"
    cluster.create(ours(cluster, "winner", priorityClassName=names["high"], **there))
    assert cluster.bound_to("winner") == "plain"
    assert [each["metadata"]["name"] for each in cluster.pods()] == ["winner"]
    eventually(lambda: "Preempted" in dict(cluster.events("victim")), what="Preempted")


@pytest.mark.behaviour(33)
def test_a_replica_that_is_killed_is_replaced_by_the_other_one(cluster: Cluster, stack: Stack) -> None:
    name = cluster.unique("other")
    election = {
        "leaderElect": True,
        "resourceName": OURS,
        "leaseDuration": "3s",
        "renewDeadline": "2s",
        "retryPeriod": "500ms",
    }
    configuration = {"profiles": [{"schedulerName": name}], "leaderElection": election}
    first = stack.scheduler("first", elects=True, **configuration)
    pod = as_written(cluster.pod("before"))
    cluster.create({**pod, "spec": {**spec(pod), "schedulerName": name}})
    cluster.bound_to("before")
    stack.scheduler("second", elects=True, **configuration)
    first.kill()
    pod = as_written(cluster.pod("after"))
    cluster.create({**pod, "spec": {**spec(pod), "schedulerName": name}})
    cluster.bound_to("after")
    stack.running["second"].stop()


def test_a_configuration_that_cannot_be_used_ends_with_the_place(stack: Stack) -> None:
    process = stack.scheduler("bad", ready=False, profiles=[{"schedulerName": OURS, "plugin": {}}])
    assert process.child.wait(60) == 2
    assert 'unknown field "profiles[0].plugin"' in process.log()
