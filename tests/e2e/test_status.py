"""`tollbar status` on a real API server: it names each kind of damage, and what the user may not read is unknown."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from faultproxy import FaultProxy, Hang, Rule
from planes.objects import Cluster, a_ready_rule, gpu_rule
from processes.stack import ROOT, Process, Stack, eventually, installed
from processes.transcripts import steps

import tollbar
from tollbar.api import crds, webhooks
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.runtime import certs

pytestmark = [pytest.mark.timeout(300), pytest.mark.real]

PAGE = (ROOT / "docs" / "operations" / "troubleshooting.md").read_text()
BOTH = "zz-tollbar-pods, zz-tollbar-rules"
IN_VAIN = "the API server gets no answer from the webhook: a broken rule passed a dry run"


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    """One of its own: what other tests have left would be told, too."""
    with RealPlane(binaries, tmp_path_factory.mktemp("plane"), Options()) as plane:
        yield plane


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Installed and running, with a leader."""
    with installed(plane, tmp_path_factory.mktemp("stack")) as running:
        running.webhook()
        running.controllers(leaderElection__enabled=True)
        running.register()
        eventually(lambda: status(running) == (0, []), what="all is well")
        yield running


def status(stack: Stack) -> tuple[int, list[str]]:
    """Exit code and problems."""
    said = stack.tollbar("status", "-o", "json")
    return said.returncode, json.loads(said.stdout)["problems"]


def table(stack: Stack, kubeconfig: Path | None = None) -> dict[str, str]:
    """What is printed for a person, by the first column."""
    lines = stack.tollbar("status", kubeconfig=kubeconfig).stdout.splitlines()
    return dict(re.split(" {3,}", line, maxsplit=1) for line in lines)


@contextmanager
def damaged(stack: Stack) -> Iterator[None]:
    """What is done to the webhook or its configurations is undone afterwards."""
    try:
        yield
    finally:
        process: Process = stack.running["webhook"]
        if process.child.poll() is None:
            process.stop()
        stack.webhook()
        stack.register()


def configure(stack: Stack, to: webhooks.ClientConfig) -> None:
    stack.plane.kubectl.apply(webhooks.pods_configuration(to), webhooks.rules_configuration(to))


def at(stack: Stack, authority: bytes) -> webhooks.ClientConfig:
    return webhooks.at_url(f"https://127.0.0.1:{stack.serving}", authority)


def test_the_page_has_the_lines_that_are_printed(stack: Stack) -> None:
    assert list(table(stack)) == [re.split(" {3,}", line)[0] for line in steps(PAGE)[0].output.splitlines()]


def test_versions_gates_and_the_certificate_are_shown(stack: Stack) -> None:
    shown = table(stack)
    assert shown["gate tollbar.dev/tolerations"] == "0 held, maxHold 1m0s, Release"
    assert shown["webhook zz-tollbar-pods"].startswith(f"127.0.0.1:{stack.serving}: trusted, certificate until 20")
    assert shown["Deployment tollbar-webhook"].endswith(", tollbar:0.1.0")


def test_the_webhook_does_not_run(stack: Stack) -> None:
    with damaged(stack):
        stack.running["webhook"].kill()
        assert status(stack) == (1, [f"{BOTH}: nothing listens at 127.0.0.1:{stack.serving}", IN_VAIN])


def test_the_configurations_trust_another_ca(stack: Stack, tmp_path: Path) -> None:
    certs.ensure(tmp_path, ["127.0.0.1"], time.time())
    with damaged(stack):
        configure(stack, at(stack, (tmp_path / "ca.crt").read_bytes()))
        why = "the CA bundle does not fit the certificate: unable to get local issuer certificate"
        eventually(lambda: status(stack) == (1, [f"{BOTH}: {why}", IN_VAIN]), what=why)


def test_the_certificate_has_expired(stack: Stack, tmp_path: Path) -> None:
    certs.ensure(tmp_path, ["127.0.0.1"], time.time() - 40 * 86400)
    with damaged(stack):
        stack.running["webhook"].stop()
        files = {"webhook__certFile": str(tmp_path / "tls.crt"), "webhook__keyFile": str(tmp_path / "tls.key")}
        stack.webhook(ready=False, **files)
        configure(stack, at(stack, (tmp_path / "ca.crt").read_bytes()))
        eventually(lambda: "has expired: the certificate at 20" in str(status(stack)), what="seen")
        assert status(stack)[1][1:] == [IN_VAIN]


def test_the_service_has_no_endpoints(stack: Stack) -> None:
    with damaged(stack):
        to = webhooks.at_service()
        bundle: Object = at(stack, stack.authority)("/")
        configure(stack, lambda path: {**to(path), "caBundle": bundle["caBundle"]})
        address = "tollbar-webhook.tollbar-system.svc:443"
        why = f"no ready endpoint for {address}: look at the Pods of the Deployment tollbar-webhook"
        eventually(lambda: status(stack) == (1, [f"{BOTH}: {why}", IN_VAIN]), what=why)
        assert table(stack)["webhook zz-tollbar-pods"].startswith(f"{address}: not tried: ")


def test_the_configurations_are_gone(stack: Stack) -> None:
    with damaged(stack):
        stack.unregister()
        code, (pods, rules) = status(stack)
        assert (code, pods.split(":")[0], rules.split(":")[0]) == (
            1,
            "no MutatingWebhookConfiguration of Tollbar",
            "no ValidatingWebhookConfiguration of Tollbar",
        )


def test_a_crd_is_older_than_the_command(stack: Stack) -> None:
    (crd,) = (each for each in crds.all_crds() if each["spec"]["names"]["plural"] == "tolerationrules")
    field = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/lastMatch"
    patch = ("patch", f"crd/{crd['metadata']['name']}", "--type=json", "-p")
    lacks = (
        f"CRD tolerationrules.tollbar.dev is older than this tollbar ({tollbar.__version__}), it lacks"
        " status.lastMatch: apply the manifests of this version"
    )
    stack.plane.kubectl(*patch, json.dumps([{"op": "remove", "path": field}]))
    try:
        eventually(lambda: status(stack) == (1, [lacks]), what=lacks)
        assert table(stack)["CRDs older than this command"] == "1"
    finally:
        stack.plane.kubectl.apply(crd)
    eventually(lambda: status(stack) == (0, []), what="all is well again")


def test_the_controllers_do_not_own_the_gate(stack: Stack) -> None:
    with gate(stack, owners=["somebody"]):
        why = "is not among spec.owners and may not release Pods"
        eventually(lambda: why in str(status(stack)[1]), what=why)
        (problem,) = status(stack)[1]
        assert problem.startswith("SchedulingGate tolerations: NotAnOwner: system:serviceaccount:")


def test_a_pod_is_held_for_too_long(stack: Stack, namespace: str) -> None:
    cluster = Cluster(stack.plane.kubectl, namespace)
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    with gate(stack, maxHold="1s", onExpiry="Report"):
        cluster.create(cluster.template("mine", late), cluster.pod().templates("mine"))
        why = f"Pod {namespace}/web is held by tollbar.dev/tolerations for "
        eventually(lambda: status(stack)[1][0].startswith(why) if status(stack)[1] else False, what=why)
    cluster.clear()


def test_a_gate_of_others_holds_a_pod_for_too_long(stack: Stack, namespace: str) -> None:
    """kubectl, an Event on the Pod and a metric tell of it as well."""
    cluster = Cluster(stack.plane.kubectl, namespace)
    name = f"{namespace}.dev/quota"
    cluster.create(cluster.pod().but("spec.schedulingGates", [{"name": name}]))
    declared = {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "SchedulingGate",
        "metadata": {"name": namespace},
        "spec": {"gateName": name, "maxHold": "1s", "owners": ["quota-controller"]},
    }
    created = timestamps.parse(cluster.get()["metadata"]["creationTimestamp"])
    eventually(lambda: time.time() > created + 1, what="overdue when it is first looked at")
    stack.plane.kubectl.apply(declared)
    said = eventually(lambda: dict(cluster.events("web")).get("GateOverdue"), what="GateOverdue")
    assert said == f"held by {name} for more than 1s; its owners are quota-controller"
    shown = ("get", "schedulinggate", namespace)

    def is_counted() -> bool:
        _, _, _, ready, held, _, overdue, *_ = [*stack.plane.kubectl(*shown).splitlines()[1].split(), *[""] * 7]
        return (ready, held, overdue) == ("True", "1", "1")

    eventually(is_counted, what="counted")
    assert stack.plane.kubectl(*shown).split()[:7] == ["NAME", "GATE", "MAXHOLD", "READY", "HELD", "OLDEST", "OVERDUE"]
    assert stack.running["controllers"].metrics()["tollbar_gate_overdue_pods"][f'gate="{name}"'] == 1
    stack.plane.kubectl("delete", "schedulinggate", namespace)
    cluster.clear()


@contextmanager
def gate(stack: Stack, **spec: Any) -> Iterator[None]:
    """The SchedulingGate with these fields instead of its own."""
    gate = ("schedulinggate", "tolerations")
    before = stack.plane.kubectl.json("get", *gate)["spec"]
    patch = ("patch", *gate, "--type=merge", "-p")
    stack.plane.kubectl(*patch, json.dumps({"spec": spec}))
    try:
        yield
    finally:
        stack.plane.kubectl(*patch, json.dumps({"spec": before}))
        eventually(lambda: status(stack) == (0, []), what="all is well again")


def test_who_may_read_nothing_is_told_so_and_the_role_grants_all_that_is_read(stack: Stack, namespace: str) -> None:
    plane = stack.plane
    plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    reader = plane.service_account_kubeconfig(namespace, "reader")
    said = stack.tollbar("status", "-o", "json", kubeconfig=reader)
    found = json.loads(said.stdout)
    known = {"version", "server", "crds", "claims", "leader", "problems", "unread"}
    assert (said.returncode, found["problems"]) == (3, []), said.stderr
    assert {name for name, value in found.items() if value is not None} == known
    assert table(stack, reader)["held Pods"] == "unknown"
    binding = f"{namespace}-reader"
    account = f"--serviceaccount={namespace}:reader"
    plane.kubectl("create", "clusterrolebinding", binding, "--clusterrole=tollbar-status", account)
    try:
        eventually(lambda: stack.tollbar("status", kubeconfig=reader).returncode == 0, what="all may be read")
        found = json.loads(stack.tollbar("status", "-o", "json", kubeconfig=reader).stdout)
    finally:
        plane.kubectl("delete", "clusterrolebinding", binding)
    assert (found["problems"], found["unread"], found["webhookCalled"]) == ([], [], None)


def test_no_cluster(stack: Stack, tmp_path: Path) -> None:
    said = stack.tollbar("status", kubeconfig=tmp_path / "none")
    assert (said.returncode, said.stdout, said.stderr) == (4, "", f"Error: no kubeconfig at {tmp_path}/none\n")


def test_who_cannot_ask_is_told_in_one_line(stack: Stack, tmp_path: Path) -> None:
    own = yaml.safe_load(stack.plane.kubeconfig.read_text())
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    empty, lacking = tmp_path / "empty", tmp_path / "lacking"
    empty.write_text("")
    lacking.write_text(yaml.safe_dump({**own, "users": [{**each, "user": {"exec": plugin}} for each in own["users"]]}))
    with FaultProxy(stack.plane.kubeconfig, tmp_path / "proxy") as proxy:
        through = proxy.kubeconfig()
        with proxy.faults(Rule("hangs", Hang())):
            hanging = stack.tollbar("status", "--request-timeout=1s", kubeconfig=through)
    told = {
        "an empty file": stack.tollbar("status", kubeconfig=empty),
        "a plugin that is not there": stack.tollbar("status", kubeconfig=lacking),
        "a server that hangs": hanging,
    }
    texts = {
        "an empty file": f"the kubeconfig at {empty} is empty",
        "a plugin that is not there": "the exec plugin of the kubeconfig gives no credentials: [^\n]*'no-such-plugin'",
        "a server that hangs": "the API server does not answer: no answer in time",
    }
    assert {name: (said.returncode, said.stdout) for name, said in told.items()} == dict.fromkeys(told, (4, ""))
    assert [name for name, said in told.items() if not re.fullmatch(f"Error: {texts[name]}\n", said.stderr)] == [], told


def test_a_port_that_is_taken_ends_the_process_with_one_line(stack: Stack) -> None:
    second = stack.start("second", "webhooks", ready=False)
    assert second.child.wait(60) == 1
    assert second.said(f"cannot listen at 127.0.0.1:{stack.serving}: Address already in use") == 1
    assert stack.tracebacks() == ""
    del stack.running["second"]
