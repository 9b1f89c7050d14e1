"""`tollbar drain` beside an API server: what sets the gate goes first, then every gate of ours comes off."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml
from contract.claims import ALLOCATION, REQUEST
from planes.loading import VOLUME
from planes.parameters import only_real, real_too
from processes.stack import eventually

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli.drain import Drained, drain, is_ours
from tollbar.devplane.kubectl import Kubectl
from tollbar.model import pods
from tollbar.model.objects import Object, labels_of, metadata
from tollbar.model.resources import PODS
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError

pytestmark = pytest.mark.usefixtures("definitions")

OF_THE_COMMAND = real_too(VOLUME > 1, "it is about what the command says; part of make test-long")
CLOSED = webhooks.at_url("https://127.0.0.1:9", b"no certificate")
OURS = (webhooks.pods_configuration(CLOSED), webhooks.rules_configuration(CLOSED))
FOREIGN_GATE = "example.com/quota"
MORE_THAN_A_PAGE = 510


class Unhurried:
    """A clock whose waits are over at once and remembered."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture(autouse=True)
def _nobody_is_held(kubectl: Kubectl) -> None:
    """Pods of another test may be on their way out with their namespace: a drain would count them."""
    eventually(
        lambda: not any(map(pods.is_gated, kubectl.json("get", "pods", "-A")["items"])), what="nobody is held any more"
    )


@pytest.fixture
def foreign_configuration(kubectl: Kubectl) -> Iterator[str]:
    foreign = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "somebody-else"},
        "webhooks": [],
    }
    kubectl.apply(foreign)
    yield "somebody-else"
    kubectl("delete", "mutatingwebhookconfiguration", "somebody-else")


def pod(namespace: str, name: str, *gates: str) -> Object:
    held = {wellknown.LABEL_GATE: wellknown.GATE_HELD} if wellknown.GATE in gates else {"app": "x"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": held},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "schedulingGates": [{"name": gate} for gate in gates],
        },
    }


def tollbar(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tollbar.cli", *arguments], capture_output=True, text=True, check=False
    )


async def test_configurations_go_first_then_every_gate_of_ours_and_nothing_else(
    admin: Client, kubectl: Kubectl, namespace: str, foreign_configuration: str
) -> None:
    kubectl.apply(
        *OURS,
        pod(namespace, "held", wellknown.GATE),
        pod(namespace, "held-by-both", FOREIGN_GATE, wellknown.GATE),
        pod(namespace, "held-by-others", FOREIGN_GATE),
        pod(namespace, "free"),
    )
    clock = Unhurried()

    drained = await drain(admin, clock=clock, report=lambda _line: None)

    found = replace(drained, configurations=drained.configurations[:2])  # then policies, if a test has left some
    assert found == Drained(
        configurations=(
            "MutatingWebhookConfiguration zz-tollbar-pods",
            "ValidatingWebhookConfiguration zz-tollbar-rules",
        ),
        released=2,
        by_others=0,
        refused=(),
        remaining=0,
    )
    assert clock.slept == [webhooks.TIMEOUT_SECONDS + 1.0]
    found = {metadata(each)["name"]: each for each in (await admin.list(PODS, namespace))["items"]}
    assert {name: (pods.gate_names(each), labels_of(each)) for name, each in found.items()} == {
        "held": ([], {wellknown.LABEL_GATE: wellknown.GATE_RELEASED}),
        "held-by-both": ([FOREIGN_GATE], {wellknown.LABEL_GATE: wellknown.GATE_RELEASED}),
        "held-by-others": ([FOREIGN_GATE], {"app": "x"}),
        "free": ([], {"app": "x"}),
    }
    left = {each["metadata"]["name"] for each in kubectl.json("get", "mutatingwebhookconfigurations")["items"]}
    assert left == {foreign_configuration}


@real_too(VOLUME > 1, "part of make test-long")
async def test_more_pods_than_one_page_of_a_list(admin: Client, namespace: str) -> None:
    names = [f"held-{number}" for number in range(MORE_THAN_A_PAGE)]
    await asyncio.gather(*(admin.create(PODS, pod(namespace, name, wellknown.GATE)) for name in names))

    first = await drain(admin, clock=Unhurried(), report=lambda _line: None)
    second = await drain(admin, clock=Unhurried(), report=lambda _line: None)

    assert (first.released, second) == (MORE_THAN_A_PAGE, Drained((), 0, 0, (), 0))


async def test_pods_that_change_all_the_time_are_released(admin: Client, namespace: str) -> None:
    """Somebody else removes his own gate, so that the place of ours moves, and writes labels without a pause."""
    await admin.create(PODS, pod(namespace, "busy", FOREIGN_GATE, wellknown.GATE))

    async def write_labels() -> None:
        for number in range(100):
            body = [{"op": "add", "path": "/metadata/labels/number", "value": str(number)}]
            if number == 3:
                body = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
            await admin.patch(PODS, "busy", body, namespace=namespace)

    writer = asyncio.create_task(write_labels())
    drained = await drain(admin, clock=Unhurried(), report=lambda _line: None)
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)

    found = await admin.get(PODS, "busy", namespace)
    assert (drained.remaining, wellknown.GATE in pods.gate_names(found)) == (0, False)


@OF_THE_COMMAND
def test_the_command_prints_its_result_as_data_and_its_progress_apart(plane, kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(OURS[0], pod(namespace, "held", wellknown.GATE))

    done = tollbar("drain", "--keep-reservations", "--kubeconfig", str(plane.kubeconfig), "-o", "json")

    assert (done.returncode, json.loads(done.stdout)) == (
        0,
        {
            "configurations": ["MutatingWebhookConfiguration zz-tollbar-pods"],
            "released": 1,
            "byOthers": 0,
            "refused": [],
            "remaining": 0,
        },
    )
    assert done.stderr.splitlines() == [
        is_cluster(plane),
        "deleted MutatingWebhookConfiguration zz-tollbar-pods; waiting 3 s for requests that had begun",
    ]


def is_cluster(plane) -> str:
    """The line that names the cluster of this plane's kubeconfig."""
    found = yaml.safe_load(plane.kubeconfig.read_text())
    (cluster,), context = found["clusters"], found["current-context"]
    return f"cluster {cluster['name']} at {cluster['cluster']['server']} (context {context})"


@pytest.fixture
def reserved(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """A claim that is allocated and reserved for a Deployment, by us, and that no Pod uses."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "idle",
            "namespace": namespace,
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "annotations": {wellknown.ANNOTATION_RESERVED_FOR: "deployments.apps/web"},
        },
        "spec": {"devices": {"requests": [REQUEST]}},
    }
    entry = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
    kubectl.apply(claim)
    status = json.dumps({"status": {"allocation": ALLOCATION, "reservedFor": [entry]}})
    write = ("patch", "resourceclaim", "idle", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    kubectl(*write)
    yield "idle"
    kubectl(*write[:-1], json.dumps({"status": {"reservedFor": None, "allocation": None}}))
    kubectl("patch", "resourceclaim", "idle", "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


@OF_THE_COMMAND
def test_nothing_is_done_while_claims_are_reserved_and_nobody_has_said_what_becomes_of_them(
    plane, kubectl: Kubectl, namespace: str, reserved: str
) -> None:
    kubectl.apply(OURS[0], pod(namespace, "held", wellknown.GATE))
    before = state(kubectl, namespace)
    undecided = (
        "Error: nothing is done while claims are reserved that nobody will give back when Tollbar is gone. Give them"
        " back with --reservations, or leave them with --keep-reservations:"
    )
    claim = f"ResourceClaim {namespace}/{reserved}, reserved for deployments.apps/web"

    shown = tollbar("drain", "--dry-run", "-o", "json", "--kubeconfig", str(plane.kubeconfig))
    done = tollbar("drain", "--kubeconfig", str(plane.kubeconfig))

    said = [is_cluster(plane), undecided, claim]
    assert (shown.returncode, steps(shown, namespace), spoken(shown, namespace)) == (
        1,
        [
            {"action": "delete", "object": "MutatingWebhookConfiguration zz-tollbar-pods"},
            {"action": "release", "object": f"Pod {namespace}/held"},
            {"action": "refuse", "object": claim},
        ],
        said,
    )
    assert (done.returncode, done.stdout, spoken(done, namespace)) == (1, "", said)
    assert state(kubectl, namespace) == before


@OF_THE_COMMAND
@pytest.mark.parametrize(
    ("option", "action", "left"),
    [("--reservations", ["free"], None), ("--keep-reservations", [], "u1")],
    ids=["given back", "kept"],
)
def test_reservations_are_given_back_or_kept(
    plane, kubectl: Kubectl, namespace: str, reserved: str, option: str, action: list[str], left: str | None
) -> None:
    kubectl.apply(OURS[0], pod(namespace, "held", wellknown.GATE))
    before = state(kubectl, namespace)

    shown = tollbar("drain", option, "--dry-run", "-o", "json", "--kubeconfig", str(plane.kubeconfig))
    unchanged = state(kubectl, namespace)
    done = tollbar("drain", option, "--kubeconfig", str(plane.kubeconfig))

    assert (shown.returncode, [each["action"] for each in steps(shown, namespace)], unchanged) == (
        0,
        ["delete", "release", *action],
        before,
    )
    assert (done.returncode, state(kubectl, namespace)) == (0, (0, [], left)), done.stderr


def steps(shown: subprocess.CompletedProcess[str], namespace: str) -> list[Object]:
    """What a dry run has printed, without what other tests have left in their namespaces."""
    found = json.loads(shown.stdout)
    return [each for each in found if "/" not in each["object"] or f" {namespace}/" in each["object"]]


def spoken(done: subprocess.CompletedProcess[str], namespace: str) -> list[str]:
    """The lines on stderr, without those about claims of other namespaces."""
    lines = done.stderr.splitlines()
    return [line for line in lines if not line.startswith("ResourceClaim ") or f" {namespace}/" in line]


def state(kubectl: Kubectl, namespace: str) -> tuple[int, list[str], str | None]:
    """How many configurations of ours there are, the Pod's gates, and the uid for which the claim is reserved."""
    configurations = kubectl.json("get", "mutatingwebhookconfigurations")["items"]
    gates = pods.gate_names(kubectl.json("get", "pod", "held", "-n", namespace))
    status = kubectl.json("get", "resourceclaim", "idle", "-n", namespace).get("status") or {}
    uids = [entry["uid"] for entry in status.get("reservedFor") or ()]
    return sum(map(is_ours, configurations)), list(gates), uids[0] if uids else None


@only_real("admission policies")
async def test_a_pod_that_somebody_will_not_let_go_is_reported_and_the_others_are_released(
    plane, admin: Client, kubectl: Kubectl, namespace: str, keeper: str
) -> None:
    kubectl.apply(pod(namespace, "kept", wellknown.GATE), pod(namespace, "free", wellknown.GATE))
    await until_in_force(admin, namespace)

    done = tollbar("drain", "--keep-reservations", "--kubeconfig", str(plane.kubeconfig), "-o", "json")

    printed = json.loads(done.stdout)
    assert (
        done.returncode,
        printed["released"],
        printed["remaining"],
        [each["pod"] for each in printed["refused"]],
    ) == (
        1,
        1,
        1,
        [f"{namespace}/kept"],
    )
    assert f"Policy '{keeper}'" in done.stderr
    assert "Error: Pods that still have a gate of Tollbar's: 1" in done.stderr


async def until_in_force(admin: Client, namespace: str) -> None:
    """A new policy takes the API server up to a second; a change of nothing shows when it is there."""
    touch = [{"op": "add", "path": "/metadata/labels/touched", "value": "true"}]
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.patch(PODS, "kept", touch, namespace=namespace)
            except ApiError as error:
                if not error.refused:
                    raise
                return


@pytest.fixture
def keeper(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """A policy of somebody else that refuses every change of the Pod `kept`."""
    name = f"keeper-{namespace}"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
            ],
        },
        "validations": [{"expression": "object.metadata.name != 'kept'"}],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    kubectl.apply(
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )
    yield name
    kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
