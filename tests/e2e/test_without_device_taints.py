"""A cluster without taints of devices and without PodGroups: what is missing is said, and nothing breaks.

That is the default of Kubernetes before 1.36.  Where the server is newer, the feature gates of taints are switched off.
"""

import json
from collections.abc import Iterator

import pytest
from e2e.workloads import Shared, deployment, for_web
from objects.builders import device_class, toleration_rule
from planes.objects import Cluster, provenance
from planes.parameters import is_before, since
from planes.scheduling import scheduled
from processes.stack import Stack, eventually, installed

from tollbar import wellknown
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object, annotations_of

pytestmark = [
    pytest.mark.timeout(300),
    since("1.35", "tolerations of requests are kept, gate or no gate"),
]

OFF = "--feature-gates=DRADeviceTaints=false,DRADeviceTaintRules=false"
FLAGS = {} if is_before("1.36") else dict.fromkeys((API_SERVER, CONTROLLER_MANAGER, SCHEDULER), (OFF,))
DRIVERS = {"default-scheduler": "gpu.example.com", "tollbar-scheduler": "our-gpu.example.com"}
TAINT = {"key": "example.com/card", "effect": "NoSchedule"}
CARD = {"key": "example.com/card", "operator": "Exists", "effect": "NoSchedule"}
DROPPED = "the API server drops tolerations of devices (feature gate DRADeviceTaints): no claim gets any"


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    with scheduled(binaries, tmp_path_factory.mktemp("plane"), FLAGS) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(plane: RealPlane) -> Iterator[BackgroundKubelet]:
    """`gpu-1`, with tainted devices of one driver for each scheduler."""
    with BackgroundKubelet(plane.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec("gpu-1"))
        for driver in DRIVERS.values():
            devices = [{"name": f"gpu-{number}", "taints": [TAINT]} for number in range(4)]
            kubelet.publish_devices("gpu-1", driver, devices)
        yield kubelet


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """With a Lease, by which the webhook knows what the API server does."""
    with installed(plane, tmp_path_factory.mktemp("stack")) as running:
        running.webhook(leaderElection__enabled=True)
        running.controllers(leaderElection__enabled=True)
        running.register()
        eventually(lambda: on_the_lease(running) == "Dropped", what="said on the Lease")
        yield running


def on_the_lease(stack: Stack) -> str:
    where = ("-n", wellknown.SYSTEM_NAMESPACE, "--ignore-not-found", "-o", "json")
    said = stack.plane.kubectl("get", "lease", "tollbar-controllers", *where)
    return annotations_of(json.loads(said) if said else {}).get(wellknown.ANNOTATION_DEVICE_TOLERATIONS, "")


def rule_for(class_: str) -> Object:
    expression = f'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "{class_}"))'
    return toleration_rule("cards").cel(expression).giving_devices(CARD)


def ready(cluster: Cluster) -> tuple[str, str, str]:
    """Of the rule."""
    found = cluster.kubectl.json("get", "tolerationrule", "cards").get("status", {}).get("conditions", [])
    return next(((each["status"], each["reason"], each["message"]) for each in found), ("", "", ""))


def tolerations(obj: Object) -> list[object]:
    body = obj["spec"]["spec"] if obj["kind"] == "ResourceClaimTemplate" else obj["spec"]
    return [each["exactly"].get("tolerations") for each in body["devices"]["requests"]]


def test_nothing_is_recorded_that_the_api_server_does_not_keep(cluster: Cluster, stack: Stack) -> None:
    class_ = cluster.class_()
    rule = rule_for(class_)
    eventually(lambda: DROPPED in cluster.warned(rule, "--dry-run=server"), what="the webhook knows from the Lease")
    cluster.create(rule)
    eventually(lambda: ready(cluster) == ("False", "TolerationsDropped", DROPPED), what="said in the status")
    cluster.create(cluster.claim("mine", class_), cluster.template("one", class_))
    Shared(cluster).apply(for_web())
    made = eventually(lambda: Shared(cluster).claim(), what="the claim of the WorkloadClaim")
    written = [cluster.kubectl.json("get", *each, "-n", cluster.namespace) for each in (CLAIM, TEMPLATE)]
    assert [(provenance(each), tolerations(each)) for each in (*written, made)] == [([], [None])] * 3
    assert "rule cards: TolerationsDropped" in stack.tollbar("status").stdout


CLAIM, TEMPLATE = ("resourceclaim", "mine"), ("resourceclaimtemplate", "one")


@pytest.mark.parametrize("scheduler", DRIVERS)
def test_devices_whose_taints_are_dropped_are_allocated(cluster: Cluster, stack: Stack, scheduler: str) -> None:
    class_, driver = cluster.unique("any"), DRIVERS[scheduler]
    if scheduler == "tollbar-scheduler":
        exclusive = {"name": "DynamicResources", "args": {"exclusive": {"drivers": [driver]}}}
        stack.scheduler(profiles=[{"schedulerName": scheduler, "pluginConfig": [exclusive]}])
    cluster.create(
        device_class(class_).selecting(f'device.driver == "{driver}"'),
        cluster.template("one", class_),
        cluster.pod().templates("one").but("spec.schedulerName", scheduler),
    )
    assert cluster.bound_to() == "gpu-1"


def test_a_workload_claim_says_that_there_are_no_pod_groups(cluster: Cluster) -> None:
    cluster.create(cluster.template("one", cluster.class_()))
    shared = Shared(cluster)
    shared.apply(for_web(podGroup={"podClaimName": "device"}), deployment("web", "device", replicas=2))
    shared.until(lambda: shared.condition(type_="PodGroupReady"), ("False", "NotServed"))
    assert len(shared.running(2)) == 2
    too_old = ("False", "UpstreamTooOld")
    shared.until(shared.condition, too_old if is_before("1.36") else ("True", "Held"))
