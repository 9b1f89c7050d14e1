"""One claim that more Pods share than it has entries for: its PodGroup's entry stands for all of them.

Beside kube-controller-manager's claim controller and in its place.  TOLLBAR_CONSUMERS=2000 is the full volume.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.simulated import is_simulated_as_it_becomes
from e2e.workloads import Shared, deployment, for_web
from objects.builders import Pod
from planes.objects import Cluster
from planes.parameters import since
from planes.podgroups import FLAGS, NONE_BEFORE
from planes.replacing import OFF, RIGHTS, namespace_of, restarted_with, start
from planes.scheduling import scheduled
from processes.stack import ROOT, Stack, eventually, installed
from processes.transcripts import play

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.claims import RESERVED_FOR_MAX
from tollbar.model.objects import Object, uid_of
from tollbar.model.resources import POD_GROUPS

VOLUME = os.environ.get("TOLLBAR_CONSUMERS")
CONSUMERS = {
    "Complement": int(VOLUME or RESERVED_FOR_MAX + 4),
    "Replace": int(VOLUME or 20),
}
"""The Pods of the workload by mode: in one of them there are more than the claim has entries for."""
POLICY = ROOT / "manifests/components/pod-groups/policy.yaml"
GROUPED = ["deployments/web", "podgroups/device"]
SECONDS = 60.0 + max(CONSUMERS.values()) / 5

pytestmark = [pytest.mark.timeout(600 + 2 * SECONDS), since("1.37", NONE_BEFORE)]


@pytest.fixture(scope="module")
def grouped(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("grouped")
    (directory / "stack").mkdir()
    with (
        scheduled(binaries, directory / "plane", FLAGS) as plane,
        installed(plane, directory / "stack") as stack,
    ):
        plane.kubectl("apply", "--server-side", "-f", str(RIGHTS), "-f", str(POLICY))
        yield stack


@pytest.fixture(scope="module", autouse=True)
def nodes(grouped: Stack) -> Iterator[BackgroundKubelet]:
    """One Node for all Pods, with two devices."""
    with BackgroundKubelet(grouped.plane.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec("gpu-1", capacity={"pods": str(2 * CONSUMERS["Complement"] + 100)}))
        kubelet.publish_devices("gpu-1", "gpu.example.com", [{"name": f"gpu-{number}"} for number in range(2)])
        yield kubelet


@contextmanager
def claims(grouped: Stack, mode: str) -> Iterator[None]:
    """The controllers run in this mode, and kube-controller-manager as it is to."""
    if mode == "Complement":
        grouped.controllers()
        yield
        grouped.running["controllers"].stop()
        return
    with restarted_with(grouped.plane, CONTROLLER_MANAGER, *FLAGS[CONTROLLER_MANAGER], OFF):
        start(grouped)
        yield
        grouped.running["controllers"].stop()


@pytest.mark.parametrize("mode", ["Complement", "Replace"])
def test_a_pod_group_stands_for_all_pods_of_a_workload(grouped: Stack, mode: str) -> None:
    cluster = Cluster(grouped.plane.kubectl, namespace_of(grouped, f"many-{mode.lower()}"))
    cluster.create(cluster.template("one", cluster.class_()))
    shared, consumers = Shared(cluster), CONSUMERS[mode]
    with claims(grouped, mode):
        shared.apply(for_web(podGroup={"podClaimName": "device"}))
        shared.until(lambda: shared.condition(type_="PodGroupReady"), ("True", "Ready"))
        eventually(lambda: group_of(cluster, cluster.pod().claims("device")), what="the policy is in force")
        before = grouped.plane.audit_fence()
        shared.apply(deployment("web", "device", replicas=consumers))
        eventually(lambda: running(cluster) == consumers, seconds=SECONDS, what="all Pods run")
        shared.until(shared.entries, GROUPED)
        shared.until(shared.condition, ("True", "Held"))
        shared.until(lambda: shared.condition(type_="ConsumersFit"), ("True", "Fit"))
        device, group = shared.device(), uid_of(shared.get(POD_GROUPS, "device"))

        grouped.running["controllers"].kill()
        some = [each["metadata"]["name"] for each in shared.pods()[: consumers // 4]]
        shared.run("delete", "pod", *some, "--wait=false")
        if mode == "Complement":
            grouped.controllers()
        else:
            start(grouped)
        eventually(lambda: churned(cluster, consumers, set(some)), seconds=SECONDS, what="other Pods run")
        assert (shared.entries(), shared.device()) == (GROUPED, device)
        grouped.plane.audit_fence()
        writes = grouped.plane.audit.writes(before, resource="resourceclaims", namespace=cluster.namespace)
        assert len([each for each in writes if each.code == 200]) <= 5, "finalizer, allocation, record and pin"

        shared.run("delete", "deployment", "web", "--cascade=foreground", f"--timeout={SECONDS:g}s")
        shared.until(shared.entries, [], seconds=SECONDS)
        shared.until(shared.device, None)
        shared.until(lambda: shared.condition()[0], "False")
        eventually(lambda: again(shared, group), what="another PodGroup for the next workload")
        shared.run("delete", "workloadclaim", "device")
        eventually(lambda: not shared.run("get", "podgroups,resourceclaims", "-o", "name"), what="nothing is left")


def group_of(cluster: Cluster, pod: Pod) -> Any:
    """The PodGroup that a Pod would be put into if it was created."""
    return cluster.tried(pod)["spec"].get("schedulingGroup", {}).get("podGroupName")


def test_which_pods_are_put_into_the_pod_group(grouped: Stack) -> None:
    cluster = Cluster(grouped.plane.kubectl, namespace_of(grouped, "which-pods"))
    cluster.create(cluster.template("one", cluster.class_()))
    grouped.plane.kubectl("create", "priorityclass", "high.example.com", "--value=1000")
    shared, member = Shared(cluster), cluster.pod().claims("device")
    other = member.but("spec.resourceClaims", [{"name": "other", "resourceClaimName": "device"}])
    pods = {
        "one that refers to the claim": member,
        "of a group already": member.in_group("mine"),
        "by another name": other,
        "to another claim": cluster.pod().claims("another"),
        "to none": cluster.pod(),
        "of another priority": member.but("spec.priorityClassName", "high.example.com"),
        "of another scheduler": member.but("spec.schedulerName", "another"),
        "that Tollbar leaves alone": member.labelled({"tollbar.dev/skip": "true"}),
    }
    with claims(grouped, "Complement"):
        assert group_of(cluster, member) is None
        shared.apply(for_web(podGroup={"podClaimName": "device"}))
        eventually(lambda: group_of(cluster, member), what="the policy knows the WorkloadClaim")
        assert {what: group_of(cluster, pod) for what, pod in pods.items() if group_of(cluster, pod)} == {
            "one that refers to the claim": "device",
            "of a group already": "mine",
        }


def phases(cluster: Cluster) -> dict[str, str]:
    """Of the Pods that are not being deleted, by name."""
    each = '{{.metadata.name}} {{.status.phase}}{{"\\n"}}'
    said = f"go-template={{{{range .items}}}}{{{{if not .metadata.deletionTimestamp}}}}{each}{{{{end}}}}{{{{end}}}}"
    lines = cluster.kubectl("get", "pods", "-n", cluster.namespace, "-o", said).splitlines()
    return {name: phase for name, _, phase in (line.partition(" ") for line in lines)}


def running(cluster: Cluster) -> int:
    return list(phases(cluster).values()).count("Running")


def churned(cluster: Cluster, number: int, gone: set[str]) -> bool:
    """Whether so many Pods run, and none of those that are to be gone."""
    found = phases(cluster)
    return list(found.values()).count("Running") == number and not gone & found.keys()


def again(shared: Shared, before: str) -> bool:
    found: list[Object] = shared.cluster.kubectl.json("get", "podgroups", "-n", shared.cluster.namespace)["items"]
    return [uid_of(each) != before for each in found] == [True]


def test_a_tainted_device_is_given_back_with_the_pod_group(grouped: Stack) -> None:
    """At the latest when the workload has no Pods: until then another one may join before the last is gone."""
    cluster = Cluster(grouped.plane.kubectl, namespace_of(grouped, "tainted"))
    cluster.create(cluster.template("one", cluster.class_()))
    shared = Shared(cluster)
    with claims(grouped, "Complement"):
        shared.apply(for_web(podGroup={"podClaimName": "device"}))
        shared.until(lambda: shared.condition(type_="PodGroupReady"), ("True", "Ready"))
        eventually(lambda: group_of(cluster, cluster.pod().claims("device")), what="the policy is in force")
        shared.apply(deployment("web", "device"))
        shared.until(shared.entries, GROUPED)
        shared.until(shared.condition, ("True", "Held"))
        device, group = shared.device(), uid_of(shared.get(POD_GROUPS, "device"))
        with shared.tainted(str(device)):
            given_up = ("False", "DeviceTainted")
            eventually(lambda: shared.condition() == given_up or shared.device() != device, what="given up")
            shared.run("scale", "deployment", "web", "--replicas=0")
            eventually(lambda: shared.device() != device, what="the claim is freed")
            eventually(lambda: again(shared, group), what="another PodGroup for the next Pods")
            shared.run("scale", "deployment", "web", "--replicas=1")
            eventually(lambda: shared.device() not in (None, device), what="another device")
            shared.until(shared.entries, GROUPED)
            shared.until(shared.condition, ("True", "Held"))
        shared.run("delete", "deployment", "web", "--cascade=foreground")
        shared.run("delete", "workloadclaim", "device")


def test_what_the_readme_of_the_example_says_is_what_happens(grouped: Stack, tmp_path: Path) -> None:
    namespace = namespace_of(grouped, "example")
    with claims(grouped, "Complement"):
        play(ROOT / "manifests/examples/pod-group", grouped.plane.kubectl, namespace, tmp_path)


def test_the_simulation_of_the_example_is_what_becomes_of_it(grouped: Stack, tmp_path: Path) -> None:
    cluster = Cluster(grouped.plane.kubectl, namespace_of(grouped, "simulated"))
    with claims(grouped, "Complement"):
        is_simulated_as_it_becomes(cluster, "pod-group", tmp_path)
