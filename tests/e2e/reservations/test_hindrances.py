"""What stands in the way of a reservation, or ends it: said, and got over when it is gone."""

import json
from collections.abc import Iterator

import pytest
from e2e.workloads import (
    PINNED,
    Shared,
    bare_pod,
    deployment,
    for_web,
    job,
    workload_claim,
)
from planes.objects import Cluster
from planes.parameters import since
from processes.stack import CONTROLLERS, Stack, eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.kubectl import KubectlError
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Key, Object
from tollbar.model.resources import WORKLOAD_CLAIMS

pytestmark = [pytest.mark.timeout(300), pytest.mark.real]
only_beside = since("1.36", "reservations need claims: Replace")

UNFIT = '"whether the claims mode fits the cluster" mode="Complement" fits="False" reason="UpstreamOscillation"'


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
    eventually(lambda: any("KindUnknown" in note for _, note in shared.cluster.events("device")))
    assert shared.entries() == pinned
    serve(shared, training, served=True)
    shared.run("delete", training, "bert")
    shared.until(shared.entries, ["pods"])


def test_more_pods_than_a_claim_has_entries_for_are_told_before_the_first_is_there(
    shared: Shared, stack: Stack
) -> None:
    web = deployment("web", "device", replicas=257)
    shared.apply(for_web(), {**web, "spec": {**web["spec"], "paused": True}})  # it makes no Pods
    shared.until(lambda: shared.condition(type_="ConsumersFit"), ("False", "TooManyConsumers"))
    name = f"{shared.cluster.namespace}/device"
    assert (
        f"reservation {name}: TooManyConsumers: the workload asks for up to 257 Pods" in stack.tollbar("status").stdout
    )
    eventually(lambda: "TooManyConsumers" in {reason for reason, _ in shared.cluster.events("device")})
    shared.run("scale", "deployment/web", "--replicas=256")
    shared.until(lambda: shared.condition(type_="ConsumersFit"), ("True", "Fit"))


def training_job(training: str, name: str) -> Object:
    return {"apiVersion": f"{training.partition('.')[2]}/v1", "kind": "Training", "metadata": {"name": name}}


@pytest.fixture
def training(cluster: Cluster) -> Iterator[str]:
    """A kind of workload that comes with a CRD, is served, and may be read by the controllers: `trainings.<group>`."""
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
    eventually(lambda: is_served(cluster, f"trainings.{group}"), what="served")
    eventually(lambda: cluster.may(CONTROLLERS, "list", group, "trainings"), what="permitted")
    yield f"trainings.{group}"
    cluster.kubectl("delete", f"crd/trainings.{group}", f"clusterrole/{cluster.unique('trainings')}")


def is_served(cluster: Cluster, training: str) -> bool:
    """By discovery and by itself: both are behind the definition."""
    try:
        cluster.kubectl("get", training, "-n", cluster.namespace)
    except KubectlError:
        return False
    return True


def serve(shared: Shared, training: str, *, served: bool) -> None:
    patch = [{"op": "replace", "path": "/spec/versions/0/served", "value": served}]
    shared.cluster.kubectl("patch", "crd", training, "--type=json", "-p", json.dumps(patch))
    eventually(lambda: is_served(shared.cluster, training) is served, what=f"served: {served}")


def test_a_kind_that_may_not_be_read_is_said(shared: Shared) -> None:
    shared.apply(workload_claim("device", "configmaps", "", "web", resourceClaimTemplateName="one"))
    shared.until(shared.condition, ("False", "PermissionDenied"))
    (condition,) = shared.get(WORKLOAD_CLAIMS, "device")["status"]["conditions"]
    assert 'cannot list resource "configmaps"' in condition["message"]


@only_beside
def test_a_missing_permission_is_said_and_found_again(shared: Shared) -> None:
    role = shared.cluster.kubectl.json("get", "clusterrole", "tollbar-reservations")
    without = [{**rule, "resources": [r for r in rule["resources"] if "binding" not in r]} for rule in role["rules"]]
    set_rules(shared, without, may_bind=False)
    try:
        shared.apply(for_web(), deployment("web", "device"))
        shared.until(shared.condition, ("False", "PermissionDenied"))
        shared.reported("ReservationBlocked")
        conditions = shared.get(WORKLOAD_CLAIMS, "device")["status"]["conditions"]
        (condition,) = (each for each in conditions if each["type"] == "Reserved")
        assert (shared.entries(), "resourceclaims/binding" in condition["message"]) == (["pods"], True), condition
    finally:
        set_rules(shared, role["rules"], may_bind=True)
    shared.until(shared.entries, PINNED)


def set_rules(shared: Shared, rules: list[Object], *, may_bind: bool) -> None:
    patch = json.dumps({"rules": rules})
    shared.cluster.kubectl("patch", "clusterrole", "tollbar-reservations", "--type=merge", "-p", patch)
    asked = (CONTROLLERS, "update", "resource.k8s.io", "resourceclaims", "binding")
    eventually(lambda: shared.cluster.may(*asked) is may_bind, what=f"may bind: {may_bind}")


def test_a_full_claim_is_not_reserved_until_there_is_room_and_makes_room(shared: Shared) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")))
    shared.apply(deployment("web", "device"))
    shared.until(shared.entries, ["pods"])
    add_foreign(shared, range(254))
    shared.run("annotate", "resourceclaim/device", "tollbar.dev/reserved-for=deployments.apps/web")
    shared.reported("ReservationBlocked")
    assert len(shared.entries()) == 255
    remove_foreign(shared, 0)
    shared.until(lambda: "deployments/web" in shared.entries(), True)
    assert len(shared.entries()) == 255
    add_foreign(shared, range(254, 255))
    shared.until(lambda: ("deployments/web" in shared.entries(), len(shared.entries())), (False, 255))


def add_foreign(shared: Shared, numbers: range) -> None:
    entries = [
        {"apiGroup": "example.com", "resource": "widgets", "name": f"w{number}", "uid": f"w{number}"}
        for number in numbers
    ]
    shared.patch_entries(*entries)


def remove_foreign(shared: Shared, number: int) -> None:
    shared.patch_entries({"$patch": "delete", "uid": f"w{number}"})


@only_beside
def test_a_finished_pod_that_lingers_ends_the_reservation_when_it_was_the_last(
    shared: Shared, nodes: BackgroundKubelet, own_plane: RealPlane
) -> None:
    """With the pin the server's own controller would write for ever."""
    wanted = workload_claim("device", "jobs", "batch", "train", resourceClaimTemplateName="one")
    shared.apply(wanted, job("train", "device", completions=2))
    shared.until(shared.entries, ["jobs/train", "pods", "pods"])
    first, second = shared.running(2)
    nodes.finish(Key(shared.cluster.namespace, first))
    shared.until(shared.condition, ("True", "UpstreamOscillation"))
    shared.reported("UpstreamOscillation")
    nodes.finish(Key(shared.cluster.namespace, second))
    shared.until(shared.device, None)
    shared.until(shared.entries, [])
    since = own_plane.audit_fence()
    shared.until(shared.condition, ("False", "NotAllocated"))
    own_plane.audit_fence()
    here = shared.cluster.namespace
    assert len(own_plane.audit.writes(since, resource="resourceclaims", namespace=here)) <= 2


@only_beside
def test_a_loop_of_the_server_is_found_on_a_claim_that_nobody_keeps(
    shared: Shared, nodes: BackgroundKubelet, stack: Stack
) -> None:
    shared.cluster.create(shared.cluster.claim("device", shared.cluster.unique("gpu")))
    shared.apply(bare_pod("first"), bare_pod("second"))
    shared.until(shared.entries, ["pods", "pods"])
    shared.running(2)
    nodes.finish(Key(shared.cluster.namespace, "first"))
    shared.reported("UpstreamOscillation")
    controllers = stack.running["controllers"]
    assert controllers.metrics()["tollbar_claim_oscillations_total"][""] >= 1
    eventually(lambda: controllers.said(UNFIT), what="the mode does not fit")
    shared.run("delete", "pod/first")
    shared.until(shared.entries, ["pods"])


def test_no_traceback_was_logged(stack: Stack) -> None:
    """The last test of the file: everything above went through these processes."""
    assert stack.tracebacks() == ""
