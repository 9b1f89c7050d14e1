"""`tollbar dev` beside an API server: it works, and leaves the cluster and the machine as it found them."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.following import until_kubectl_knows
from planes.loading import VOLUME
from planes.parameters import only_real, real_too, since
from processes.stack import eventually

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.devplane.kubectl import Kubectl

pytestmark = pytest.mark.timeout(300)

OF_PROCESSES = real_too(VOLUME > 1, "it is about processes of this machine; part of make test-long")
QUICKSTART = Path(__file__).parents[2] / "manifests" / "examples" / "quickstart"
CONFIGURATIONS = (
    "customresourcedefinitions",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
)
KINDS = ("schedulinggates", "tolerationrules")


class Dev:
    """A running `tollbar dev`; its progress is read line by line."""

    def __init__(self, kubeconfig: Path, *arguments: str) -> None:
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tollbar.cli", "dev", "--kubeconfig", str(kubeconfig), *arguments],
            env={**os.environ, "TOLLBAR_TEST_RUN": self._mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""

    def until(self, text: str) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if text in line:
                return
        raise AssertionError(f"it ended without {text!r}:\n{self.said}")

    def end(self, number: signal.Signals | None = None) -> int:
        if number is not None:
            self.process.send_signal(number)
        assert self.process.stderr is not None
        with self.process.stderr as rest:
            self.said += rest.read()
        return self.process.wait()

    def processes(self) -> dict[str, int]:
        """What runs of this run, by module."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (process / "environ").read_bytes():
                    found[(process / "cmdline").read_text().split("\0")[2]] = int(process.name)
            except (OSError, IndexError):  # it has gone, or is none of ours
                continue
        return found


@pytest.fixture
def dev(plane) -> Iterator[Any]:
    started = []

    def start(*arguments: str) -> Dev:
        started.append(Dev(plane.kubeconfig, *arguments))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.end(signal.SIGINT)


def cluster(kubectl: Kubectl) -> dict[str, list[Any]]:
    """Everything of the kinds that dev touches, and nothing that only time changes."""
    defined = kubectl("get", "crd", "-o", "name")  # discovery is a moment behind
    return {
        kind: [(each["metadata"]["name"], each["metadata"].get("labels"), each.get("spec")) for each in found]
        for kind in (*CONFIGURATIONS, *(kind for kind in KINDS if f"/{kind}." in defined))
        for found in [kubectl.json("get", kind)["items"]]
    }


def pod(kubectl: Kubectl, namespace: str, name: str) -> dict[str, Any]:
    return dict(kubectl.json("get", "pod", name, "-n", namespace))


def apply(kubectl: Kubectl, namespace: str, *files: str) -> None:
    for file in files:
        kubectl("apply", "-n", namespace, "-f", str(QUICKSTART / file))


def held_pod(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    """Pod B as it was created, in a gate.

    The webhook has rules from a watch of its own, and fails open: behind, or on a busy machine, it lets one pass.
    """

    def created() -> dict[str, Any] | None:
        apply(kubectl, namespace, "pod-b.yaml")
        found = pod(kubectl, namespace, "pod-b")
        if "schedulingGates" in found["spec"]:
            return found
        kubectl("delete", "pod", "pod-b", "-n", namespace)
        return None

    return dict(eventually(created, what="Pod B held"))


def is_webhook_asked(kubectl: Kubectl, namespace: str) -> bool:
    """It takes off a record of tolerations that a client has written."""
    forged = {"name": "forged", "annotations": {wellknown.ANNOTATION_PROVENANCE: "[]"}}
    spec = {"containers": [{"name": "main", "image": "example.com/app"}]}
    body = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": forged, "spec": spec})
    answer = kubectl("create", "--dry-run=server", "-n", namespace, "-o", "json", "-f", "-", stdin=body)
    return "annotations" not in json.loads(answer)["metadata"]


@pytest.fixture
def classes(kubectl: Kubectl) -> Iterator[None]:
    yield
    kubectl("delete", "deviceclass", "gpu.example.com", "large-gpu.example.com", "--ignore-not-found")


def test_pods_are_tolerated_and_held_and_at_the_end_all_is_as_before(
    kubectl: Kubectl, namespace: str, dev: Any, classes: None
) -> None:
    before = cluster(kubectl)
    running = dev()
    running.until("ready: webhook at https://127.0.0.1:")
    until_kubectl_knows(kubectl)
    apply(kubectl, namespace, "device-class.yaml", "claim-templates.yaml", "rule.yaml")
    kubectl("wait", "--for=condition=Ready", "tolerationrule/gpu-nodes", "--timeout=60s")
    apply(kubectl, namespace, "../workload-claim/workload-claim.yaml")
    held = held_pod(kubectl, namespace)

    code = running.end(signal.SIGINT)

    released = pod(kubectl, namespace, "pod-b")
    assert (code, running.processes(), cluster(kubectl)) == (0, {}, before), running.said
    assert held["spec"]["schedulingGates"] == [{"name": wellknown.GATE}]
    assert "schedulingGates" not in released["spec"]
    assert "removing TolerationRules with their definition: gpu-nodes" in running.said
    lost = f"removing WorkloadClaims with their definition, and the claims made for them: {namespace}/web-gpu"
    assert lost in running.said
    assert "Traceback" not in running.said


@OF_PROCESSES
def test_a_child_that_dies_ends_it_with_its_exit_code(kubectl: Kubectl, dev: Any) -> None:
    before = cluster(kubectl)
    running = dev()
    running.until("ready: webhook at")
    os.kill(running.processes()["webhooks"], signal.SIGKILL)

    code = running.end()

    assert (code, running.processes(), cluster(kubectl)) == (137, {}, before), running.said
    assert running.said.splitlines()[-1] == "Error: webhook was ended by SIGKILL"


@OF_PROCESSES
def test_a_second_one_is_refused_and_the_next_cleans_up_after_one_that_was_killed_and_after_itself(
    kubectl: Kubectl, dev: Any
) -> None:
    before = cluster(kubectl)
    first = dev()
    first.until("ready: webhook at")
    second = dev()
    refused = second.end()
    first.end(signal.SIGKILL)
    eventually(lambda: first.processes() == {}, what="its children ended")
    third = dev()
    third.until("left behind by an earlier run")
    third.until("as an owner")  # it starts
    code = third.end(signal.SIGTERM)

    assert (refused, second.said.splitlines()[-1]) == (
        1,
        "Error: another `tollbar dev` serves this cluster: end that one first",
    )
    assert (code, third.processes(), cluster(kubectl)) == (130, {}, before), third.said


@OF_PROCESSES
def test_an_installation_is_left_alone(kubectl: Kubectl, dev: Any) -> None:
    kubectl.apply(webhooks.pods_configuration(webhooks.at_service()))
    try:
        before = cluster(kubectl)
        running = dev()
        code = running.end()

        assert (code, cluster(kubectl)) == (1, before)
        assert running.said.splitlines()[-1].startswith("Error: Tollbar is installed in this cluster: ")
    finally:
        kubectl("delete", "mutatingwebhookconfiguration", webhooks.PODS_NAME)


@OF_PROCESSES
def test_never_gates_when_told_so(kubectl: Kubectl, namespace: str, dev: Any, classes: None) -> None:
    running = dev("--admission", "Never")
    running.until("ready: webhook at")
    until_kubectl_knows(kubectl)
    apply(kubectl, namespace, "claim-templates.yaml", "rule.yaml")
    eventually(lambda: is_webhook_asked(kubectl, namespace), what="the webhook is asked")
    apply(kubectl, namespace, "pod-b.yaml")
    created = pod(kubectl, namespace, "pod-b")

    code = running.end(signal.SIGINT)

    assert (code, "schedulingGates" in created["spec"]) == (0, False)


@only_real("Deployments")
@since("1.36", "no reservation beside kube-controller-manager")
def test_at_the_end_no_claim_is_kept_by_it(kubectl: Kubectl, namespace: str, dev: Any) -> None:
    here = ("-n", namespace)
    running = dev()
    running.until("ready: webhook at")
    kubectl.apply(*a_kept_claim(namespace))
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]}}
    body = json.dumps({"status": {"allocation": allocation}})
    kubectl("patch", "resourceclaim/gpu", "--subresource=status", "--type=merge", "-p", body, *here)
    kubectl("wait", "resourceclaim/gpu", "--for=jsonpath={.status.reservedFor[0].name}=owner", "--timeout=60s", *here)

    code = running.end(signal.SIGINT)

    left = kubectl.json("get", "resourceclaim", "gpu", *here)
    assert (code, left.get("status", {}), left["metadata"].get("finalizers")) == (0, {}, None), running.said
    assert "claims freed: 1" in running.said


def a_kept_claim(namespace: str) -> list[dict[str, Any]]:
    """A workload that has no Pods, and a claim for it that can be freed."""
    template = {
        "metadata": {"labels": {"app": "owner"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/app"}]},
    }
    workload = {
        "metadata": {"name": "owner", "namespace": namespace},
        "spec": {"replicas": 0, "selector": {"app": "owner"}, "template": template},
    }
    claim = {
        "name": "gpu",
        "namespace": namespace,
        "annotations": {wellknown.ANNOTATION_RESERVED_FOR: "replicationcontrollers/owner"},
        "finalizers": [wellknown.DELETE_PROTECTION_FINALIZER],
    }
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return [
        {"apiVersion": "v1", "kind": "ReplicationController", **workload},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": claim,
            "spec": {"devices": {"requests": [request]}},
        },
    ]
