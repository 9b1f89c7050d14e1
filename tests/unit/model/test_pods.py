"""Views of a Pod."""

from decimal import Decimal
from typing import Any

import pytest
from objects.builders import CREATED, Pod, pod

from tollbar import wellknown
from tollbar.model import pods
from tollbar.model.pods import ResourceRequest

GPU = "example.com/gpu"

VIEWS: dict[str, tuple[Any, Pod, Any]] = {
    "gates in their order": (pods.gate_names, pod().gated("b.dev/x", "a.dev/x"), ["b.dev/x", "a.dev/x"]),
    "no gates": (pods.gate_names, pod(), []),
    "our gate among others": (pods.is_gated, pod().gated("a.dev/x", wellknown.GATE), True),
    "somebody else's gate": (pods.is_gated, pod().gated("a.dev/x"), False),
    "a condition is not a gate": (
        pods.is_gated,
        pod().but("status.conditions", [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        False,
    ),
    "no tolerations": (pods.tolerations, pod(), []),
    "bound": (pods.is_bound, pod().bound(), True),
    "not bound": (pods.is_bound, pod().but("spec.nodeName", ""), False),
    "deleting": (pods.is_deleting, pod().deleting(), True),
    "done when it has ended": (pods.is_done, pod().bound().phase("Failed"), True),
    "done when it is deleted before it got a node": (pods.is_done, pod().deleting(), True),
    "not done while it is being stopped": (pods.is_done, pod().bound().deleting(), False),
    "not done while it runs": (pods.is_done, pod().bound().phase("Running"), False),
    "succeeded": (pods.is_terminal, pod().phase("Succeeded"), True),
    "failed": (pods.is_terminal, pod().phase("Failed"), True),
    "pending": (pods.is_terminal, pod().phase("Pending"), False),
    "without a status": (pods.is_terminal, pod(), False),
    "a mirror": (pods.is_mirror, pod().annotated({"kubernetes.io/config.mirror": "x"}), True),
    "opted out": (pods.is_skipped, pod().labelled({"tollbar.dev/skip": "true"}), True),
    "a skip label that says no": (pods.is_skipped, pod().labelled({"tollbar.dev/skip": "false"}), False),
    "of a DaemonSet": (pods.is_daemon, pod().owned_by("DaemonSet", api_version="apps/v1"), True),
    "of a ReplicaSet": (pods.is_daemon, pod().owned_by("ReplicaSet", api_version="apps/v1"), False),
    "of somebody else's kind DaemonSet": (pods.is_daemon, pod().owned_by("DaemonSet", api_version="x.dev/v1"), False),
    "owned by a DaemonSet, controlled by nobody": (
        pods.is_daemon,
        pod().but(
            "metadata.ownerReferences", [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]
        ),
        False,
    ),
}


@pytest.mark.parametrize(("view", "given", "want"), VIEWS.values(), ids=VIEWS)
def test_views(view: Any, given: Pod, want: Any) -> None:
    assert view(given) == want


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OF_A_NODE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "no labels": ({}, {}),
    "zone and region": ({REGION: "x", ZONE: "a"}, {ZONE: "a", REGION: "x"}),
    "a region alone, and others": ({REGION: "x", "topology.kubernetes.io/rack": "r", "app": "web"}, {REGION: "x"}),
    "an empty one": ({ZONE: ""}, {ZONE: ""}),
}


@pytest.mark.parametrize(("node_labels", "want"), OF_A_NODE.values(), ids=OF_A_NODE)
def test_labels_that_a_pod_gets_from_its_node(node_labels: dict[str, str], want: dict[str, str]) -> None:
    assert pods.topology_labels(node_labels) == want


NAMES = {
    GPU: True,
    "deviceclass.resource.kubernetes.io/gpu": True,
    "cpu": False,
    "hugepages-2Mi": False,
    "kubernetes.io/foo": False,
    "node.kubernetes.io/foo": False,
    "requests.example.com/gpu": False,
}


@pytest.mark.parametrize(("given", "want"), NAMES.items(), ids=NAMES)
def test_is_extended_resource(given: str, want: bool) -> None:
    assert pods.is_extended_resource(given) is want


REQUESTS = {
    "nothing": (pod(), []),
    "a container that names no resources": (pod().but("spec.containers", [{"name": "a", "resources": {}}]), []),
    "ordinary resources": (pod().wants({"cpu": "1", "memory": "1Gi"}), []),
    "in the second container": (pod().wants({GPU: "2"}), [ResourceRequest(1, 0, GPU, Decimal(2))]),
    "init containers count first": (
        pod().wants({GPU: "1"}).wants({GPU: "3"}, init=True),
        [ResourceRequest(0, 0, GPU, Decimal(3)), ResourceRequest(2, 0, GPU, Decimal(1))],
    ),
    "limits alone": (pod().wants({GPU: "2"}, member="limits"), [ResourceRequest(1, 0, GPU, Decimal(2))]),
    "quantity 0 is no request": (pod().wants({GPU: "0"}), []),
    "a request of 0 with a limit": (
        pod().but("spec.containers", [{"resources": {"requests": {GPU: "0"}, "limits": {GPU: "1"}}}]),
        [],
    ),
    "the place counts every resource by name": (
        pod().wants({"example.com/nic": "1", GPU: "1", "cpu": "1"}),
        [ResourceRequest(1, 1, GPU, Decimal(1)), ResourceRequest(1, 2, "example.com/nic", Decimal(1))],
    ),
    "a number instead of a text": (
        pod().but("spec.containers", [{"resources": {"requests": {GPU: 1}}}]),
        [ResourceRequest(0, 0, GPU, Decimal(1))],
    ),
    "no quantity": (pod().wants({GPU: "many"}), []),
    "a negative quantity": (pod().wants({GPU: "-1"}), []),
}


@pytest.mark.parametrize(("given", "want"), REQUESTS.values(), ids=REQUESTS)
def test_extended_resources(given: Pod, want: list[ResourceRequest]) -> None:
    assert list(pods.extended_resources(given)) == want


WITHOUT_OURS = {
    "nothing of ours": (pod().labelled(app="web"), pod().labelled(app="web")),
    "our gate and label": (pod().gated(), pod()),
    "among others": (
        pod()
        .gated("a.dev/x", wellknown.GATE)
        .labelled(app="web")
        .annotated({"tollbar.dev/tolerations": "[]", "a": "b"}),
        pod().gated("a.dev/x").labelled(app="web").annotated({"a": "b"}),
    ),
    "after the release": (
        pod().labelled({wellknown.LABEL_GATE: "released"}).annotated({"tollbar.dev/tolerations": "[]"}),
        pod(),
    ),
    "null instead of sources of a volume": (
        pod().but("spec.volumes", [{"name": "a", "projected": {"sources": None}}, {"name": "b", "emptyDir": {}}, "c"]),
        pod().but("spec.volumes", [{"name": "a", "projected": {"sources": []}}, {"name": "b", "emptyDir": {}}, "c"]),
    ),
    "the label of someone who opts out is his": (
        pod().labelled({"tollbar.dev/skip": "true"}),
        pod().labelled({"tollbar.dev/skip": "true"}),
    ),
}


@pytest.mark.parametrize(("given", "want"), WITHOUT_OURS.values(), ids=WITHOUT_OURS)
def test_without_ours(given: Pod, want: Pod) -> None:
    assert pods.without_ours(given) == want


def test_the_builders_default_is_what_tables_rely_on() -> None:
    assert pod() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "ml",
            "name": "web",
            "uid": "uid-of-web",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "main"}]},
    }
    assert CREATED == 1767225600.0
