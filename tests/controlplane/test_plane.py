"""The real control plane itself: its components work together, and what tests build on it holds."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from processes.stack import eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.kubectl import Kubectl, KubectlError
from tollbar.devplane.layout import API_SERVER, SCHEDULER
from tollbar.devplane.nodes import LEASE_NAMESPACE, NodeSpec
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Key, Object
from tollbar.model.resources import LEASES, PODS
from tollbar.runtime.client import Client
from tollbar.runtime.retry import READ

pytestmark = pytest.mark.timeout(300)

DRIVER = "gpu.example.com"
PATIENCE = 120
"""Seconds: an API server that was away is looked for again after a minute at the latest."""


def pod(name: str, namespace: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 30, **spec},
    }


def status(kubectl: Kubectl, namespace: str, name: str) -> tuple[str, str]:
    found = kubectl.json("get", "pod", name, "-n", namespace)
    return found["spec"].get("nodeName", ""), found["status"]["phase"]


def await_ready(kubectl: Kubectl, namespace: str, name: str) -> None:
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "-n", namespace, f"--timeout={PATIENCE}s")


def is_allowed(kubectl: Kubectl, user: str, *what: str) -> bool:
    """Whether the API server's authorizer knows by now that a user may do this."""
    try:
        return kubectl("auth", "can-i", *what, f"--as={user}") == "yes\n"
    except KubectlError:
        return False


def on_offer(kubectl: Kubectl, node: str) -> list[str]:
    """The devices in all ResourceSlices of a Node."""
    slices = kubectl.json("get", "resourceslices", f"--field-selector=spec.nodeName={node}")["items"]
    return [device["name"] for each in slices for device in each["spec"]["devices"]]


def test_the_four_system_namespaces_exist(kubectl: Kubectl) -> None:
    wanted = {"default", "kube-node-lease", "kube-public", "kube-system"}

    def missing() -> set[str]:
        return wanted - {each["metadata"]["name"] for each in kubectl.json("get", "namespaces")["items"]}

    eventually(lambda: not missing(), seconds=PATIENCE, what="made by the API server after its start")


@pytest.mark.behaviour(34)
def test_a_pod_is_bound_by_the_real_scheduler_to_the_node_it_tolerates_runs_and_goes_when_deleted(
    kubectl: Kubectl, namespace: str, kubelet: BackgroundKubelet
) -> None:
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    kubelet.add_node(NodeSpec("plain"))
    kubelet.add_node(NodeSpec("gpu", taints=(taint,), capacity={"example.com/gpu": "4"}))
    limits = {"resources": {"limits": {"example.com/gpu": "2"}}}
    kubectl.apply(
        pod(
            "web",
            namespace,
            containers=[{"name": "main", "image": "none", **limits}],
            tolerations=[{"key": "gpu", "operator": "Exists"}],
        )
    )

    await_ready(kubectl, namespace, "web")
    assert status(kubectl, namespace, "web") == ("gpu", "Running")
    kubectl("delete", "pod", "web", "-n", namespace, f"--timeout={PATIENCE}s")
    assert kubectl.json("get", "pods", "-n", namespace)["items"] == []


def test_published_devices_are_allocated_to_the_claim_of_a_pod(
    kubelet: BackgroundKubelet, kubectl: Kubectl, namespace: str
) -> None:
    kubelet.add_node(NodeSpec("devices"))
    kubelet.publish_devices("devices", DRIVER, [{"name": f"gpu-{number}"} for number in range(70)])
    kubelet.publish_devices("devices", DRIVER, [{"name": "gpu-7", "attributes": {"model": {"string": "new"}}}])
    # The scheduler hears of the new generation when it does: it must not be able to allocate from the old one.
    new = f'device.driver == "{DRIVER}" && "model" in device.attributes["{DRIVER}"]'
    kubectl.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": namespace},
            "spec": {"selectors": [{"cel": {"expression": new}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "one", "namespace": namespace},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": namespace}}]}},
        },
        pod("user", namespace, resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}]),
    )
    try:
        await_ready(kubectl, namespace, "user")
        claim = kubectl.json("get", "resourceclaim", "one", "-n", namespace)
        results = claim["status"]["allocation"]["devices"]["results"]
        assert [(each["driver"], each["pool"], each["device"]) for each in results] == [(DRIVER, "devices", "gpu-7")]
        assert on_offer(kubectl, "devices") == ["gpu-7"]
    finally:
        kubectl("delete", "deviceclass", namespace)


def test_a_node_has_addresses_and_a_pod_that_is_created_on_it_has_the_status_of_one_that_runs(
    kubectl: Kubectl, namespace: str, kubelet: BackgroundKubelet
) -> None:
    kubelet.add_node(NodeSpec("direct"))
    kubectl.apply(pod("static", namespace, nodeName="direct"))
    await_ready(kubectl, namespace, "static")
    addresses = {each["type"]: each["address"] for each in kubectl.json("get", "node", "direct")["status"]["addresses"]}
    found = kubectl.json("get", "pod", "static", "-n", namespace)["status"]
    assert {each["type"] for each in found["conditions"] if each["status"] == "True"} >= {"PodScheduled", "Ready"}
    assert (found["hostIP"], addresses["Hostname"]) == (addresses["InternalIP"], "direct")
    assert {"startTime", "podIP", "podIPs", "hostIPs"} <= found.keys()


def test_an_extended_resource_that_is_added_to_a_node_can_be_used(
    kubectl: Kubectl, namespace: str, kubelet: BackgroundKubelet
) -> None:
    kubelet.add_node(NodeSpec("extended"))
    limits = {"resources": {"limits": {"example.com/dongle": "2"}}}
    kubectl.apply(pod("user", namespace, containers=[{"name": "main", "image": "none", **limits}]))
    patch = '{"status": {"capacity": {"example.com/dongle": "4"}}}'
    kubectl("patch", "node", "extended", "--subresource=status", "--type=merge", "-p", patch)
    await_ready(kubectl, namespace, "user")
    assert status(kubectl, namespace, "user") == ("extended", "Running")


def test_a_pod_that_is_deleted_runs_until_its_hook_has_slept(
    kubectl: Kubectl, namespace: str, kubelet: BackgroundKubelet
) -> None:
    kubelet.add_node(NodeSpec("sleeping"))
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 30}}}}
    kubectl.apply(
        pod("slow", namespace, containers=[{"name": "main", "image": "none", **hook}]), pod("fast", namespace)
    )
    for name in ("slow", "fast"):
        await_ready(kubectl, namespace, name)
    kubectl("delete", "pod", "slow", "-n", namespace, "--wait=false")
    kubectl("delete", "pod", "fast", "-n", namespace)
    assert status(kubectl, namespace, "slow") == ("sleeping", "Running")


def test_a_pod_can_be_let_finish(kubelet: BackgroundKubelet, kubectl: Kubectl, namespace: str) -> None:
    kubelet.add_node(NodeSpec("finishing"))
    kubectl.apply(pod("job", namespace, restartPolicy="Never"))
    await_ready(kubectl, namespace, "job")

    kubelet.finish(Key(namespace, "job"))

    assert status(kubectl, namespace, "job") == ("finishing", "Succeeded")


def test_the_audit_log_counts_each_write_of_a_user_once_with_its_patch(
    own_plane: RealPlane, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(pod("gated", namespace, schedulingGates=[{"name": "example.com/wait"}]))
    start = own_plane.audit_fence()

    kubectl("label", "pod", "gated", "-n", namespace, "a=b")
    kubectl("get", "pods", "-n", namespace)
    kubectl("annotate", "pod", "gated", "-n", namespace, "--dry-run=server", "c=d")
    with pytest.raises(KubectlError):
        kubectl("patch", "pod", "gated", "-n", namespace, "--type=json", "-p", '[{"op":"remove","path":"/nothing"}]')
    end = own_plane.audit_fence()

    writes = own_plane.audit.writes(start, user="tollbar:admin", namespace=namespace)
    assert [(each.verb, each.resource, each.name, each.code, each.request) for each in writes] == [
        ("patch", "pods", "gated", 200, {"metadata": {"labels": {"a": "b"}}}),
        ("patch", "pods", "gated", 422, [{"op": "remove", "path": "/nothing"}]),
    ]
    assert own_plane.audit.writes(end, user="tollbar:admin", namespace=namespace) == []


def test_a_service_account_gets_what_rbac_grants_and_its_reads_are_audited(
    own_plane: RealPlane, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    kubectl("create", "serviceaccount", "reader", "-n", namespace)
    kubectl("create", "role", "reader", "-n", namespace, "--verb=list", "--resource=pods")
    kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", f"--serviceaccount={namespace}:reader")
    user = f"system:serviceaccount:{namespace}:reader"
    eventually(lambda: is_allowed(kubectl, user, "list", "pods", "-n", namespace), seconds=PATIENCE)
    start = own_plane.audit_fence()
    reader = Kubectl(kubectl.command, own_plane.service_account_kubeconfig(namespace, "reader"), tmp_path)

    reader("get", "pods", "-n", namespace)
    with pytest.raises(KubectlError, match="forbidden"):
        reader("get", "configmaps", "-n", namespace)

    own_plane.audit_fence()
    seen = [(each.verb, each.resource, each.code) for each in own_plane.audit.records(start) if each.user == user]
    assert seen == [("list", "pods", 200), ("list", "configmaps", 403)]


async def test_the_api_server_comes_back_on_its_port_with_its_data_after_being_killed(
    own_plane: RealPlane, admin: Client, namespace: str
) -> None:
    await admin.create(PODS, pod("kept", namespace))
    before = own_plane.pids

    await asyncio.to_thread(own_plane.restart_apiserver)

    kept: Object = await READ(admin.get, PODS, "kept", namespace)
    assert kept["metadata"]["name"] == "kept"
    changed = {name for name, pid in own_plane.pids.items() if before[name] != pid}
    assert changed == {API_SERVER}


def test_a_stopped_scheduler_binds_nothing_until_it_is_started_again(
    own_plane: RealPlane, kubectl: Kubectl, namespace: str, kubelet: BackgroundKubelet
) -> None:
    kubelet.add_node(NodeSpec("late"))
    own_plane.stop_component(SCHEDULER)
    try:
        kubectl.apply(pod("waiting", namespace))
        assert status(kubectl, namespace, "waiting") == ("", "Pending")
        assert "conditions" not in kubectl.json("get", "pod", "waiting", "-n", namespace)["status"]
    finally:
        own_plane.start_component(SCHEDULER)

    await_ready(kubectl, namespace, "waiting")


def test_the_fake_kubelet_goes_on_after_the_api_server_was_killed(
    own_plane: RealPlane, kubectl: Kubectl, namespace: str, kubelet: BackgroundKubelet
) -> None:
    kubelet.add_node(NodeSpec("surviving"))
    own_plane.restart_apiserver()

    kubectl.apply(pod("after", namespace))

    await_ready(kubectl, namespace, "after")


async def test_the_lease_of_a_node_is_renewed(admin: Client, plane: RealPlane) -> None:
    with BackgroundKubelet(plane.kubeconfig, heartbeat=0.1) as kubelet:
        kubelet.add_node(NodeSpec("beating"))
        first: Object = await READ(admin.get, LEASES, "beating", LEASE_NAMESPACE)
        watch = admin.watch(
            LEASES,
            LEASE_NAMESPACE,
            resource_version=first["metadata"]["resourceVersion"],
            field_selector="metadata.name=beating",
            timeout_seconds=PATIENCE,
        )
        async with aclosing(watch) as events:
            renewed = await anext(events)

    assert renewed.object["spec"]["renewTime"] > first["spec"]["renewTime"]
