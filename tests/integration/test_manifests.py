"""The manifests on a real API server: rendered, applied, allowed, and with the rights that they name."""

import base64
import http.client
import json
import os
import re
import runpy
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from integration.following import settles, until_it_can_come_back, until_kubectl_knows
from planes.parameters import since
from processes.stack import CEILED

import tollbar
from tollbar.api.gates import shipped_gate
from tollbar.devplane.kubectl import Kubectl
from tollbar.runtime import config
from tollbar.scheduler.plugins import registry

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
DEFAULT = MANIFESTS / "overlays" / "default"

Render = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Deployments, Services and the Pod security standards are only there."""
    return real_plane


def test_the_overlay_with_a_configuration_file_that_the_page_shows(render: Render, tmp_path: Path) -> None:
    page = (MANIFESTS.parent / "docs" / "tasks" / "install.md").read_text()
    overlay, file, patches = map(textwrap.dedent, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    configuration = tmp_path / "manifests" / "overlays" / "tried" / "config.yaml"
    configuration.write_text(file)
    shown = render(overlay.replace("../manifests/overlays/default", "../default") + patches)
    written = next(each["metadata"]["name"] for each in shown if each["kind"] == "ConfigMap")
    found = {}
    for pods in [each["spec"]["template"]["spec"] for each in shown if each["kind"] == "Deployment"]:
        container = pods["containers"][0]
        volumes = {each["name"]: each.get("configMap", {}).get("name") for each in pods["volumes"]}
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        found[container["name"]] = (container["image"], container["args"][-1], volumes["config"], mounts["config"])
    as_shown = (
        "registry.example.com/tollbar:0.1.0",
        "--config=/etc/tollbar/config/config.yaml",
        written,
        "/etc/tollbar/config",
    )
    assert found == {"controllers": as_shown, "webhook": as_shown}
    assert config.load(configuration, {}).managed_namespace_selector == {"matchLabels": {"devices": "shared"}}


@pytest.mark.usefixtures("installed")
def test_the_overlays_with_which_the_page_restricts_access(render: Render, kubectl: Kubectl) -> None:
    page = (MANIFESTS.parent / "docs" / "tasks" / "restrict-access.md").read_text()
    blocks = [textwrap.dedent(each) for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    policies, clients = (
        render(each.replace("../manifests/overlays/default", "../default").replace("../manifests/", "../../"))
        for each in blocks
        if "kind: Kustomization" in each
    )
    kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(policies))
    (webhook,) = (each for each in clients if name_of(each) == "Deployment tollbar-webhook")
    pods = webhook["spec"]["template"]["spec"]
    assert (
        {name_of(each): each["spec"]["ingress"][0]["from"] for each in policies if each["kind"] == "NetworkPolicy"},
        pods["containers"][0]["args"][-1],
        pods["containers"][0]["volumeMounts"][-1]["mountPath"],
        pods["volumes"][-1]["configMap"]["name"],
    ) == (
        {
            "NetworkPolicy tollbar-webhook": [{"ipBlock": {"cidr": f"10.0.0.{last}/32"}} for last in (10, 11)],
            "NetworkPolicy tollbar-metrics": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
        },
        "--client-ca-file=/etc/tollbar/client-ca/client-ca.crt",
        "/etc/tollbar/client-ca",
        "tollbar-client-ca",
    )


def test_the_overlays_with_which_the_page_reserves_keys(render: Render) -> None:
    page = (MANIFESTS.parent / "docs" / "tasks" / "reserve-toleration-keys.md").read_text()
    overlays = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    shown = [
        each
        for overlay in overlays
        for each in render(
            overlay.replace("../manifests/overlays/default", "../default").replace("../manifests/", "../../")
        )
    ]
    found = {
        each["metadata"]["name"]: each["spec"]["variables"][0]
        for each in shown
        if each["kind"] == "ValidatingAdmissionPolicy"
    }
    keys = {"name": "keys", "expression": '["example.com/gpu", "example.com/tpu"]'}
    assert found == {
        "tollbar-reserved-keys": keys,
        "tollbar-reserved-keys-workloads": keys,
        "tollbar-reserved-device-keys": {"name": "keys", "expression": '["example.com/card", "example.com/fpga"]'},
    }


@pytest.fixture(scope="module")
def installed(plane: Any) -> Iterator[str]:
    """What kubectl says when install.yaml is applied, once, to a cluster without us; all is removed afterwards."""
    kubectl: Kubectl = plane.kubectl
    removal = ("delete", "--ignore-not-found", "--wait", "-f", str(MANIFESTS / "install.yaml"))
    kubectl(*removal)
    until_it_can_come_back(kubectl, "tollbar-system")
    said = kubectl("apply", "--server-side", "--warnings-as-errors", "-f", str(MANIFESTS / "install.yaml"))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "app.kubernetes.io/name=tollbar")
    until_kubectl_knows(kubectl)
    yield said
    kubectl(*removal)


def name_of(obj: dict[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"


def test_everything_is_accepted_and_again_without_a_conflict(installed: str, kubectl: Kubectl) -> None:
    again = kubectl("apply", "--server-side", "--warnings-as-errors", "-k", str(DEFAULT))
    lines = installed.splitlines()
    assert (len(lines), [line for line in lines if not line.endswith(" serverside-applied")], again) == (
        40,
        [],
        installed,
    )


@pytest.mark.usefixtures("installed")
def test_applying_everything_at_once_costs_no_create(kubectl: Kubectl, namespace: str) -> None:
    """The webhook is registered and nobody listens: Pods are created as they are, those with devices, too."""
    device = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": "main", "image": "example.com/app", "resources": resources}]},
        }
        for name, resources in (("plain", {}), ("with-a-device", device))
    ]
    said = kubectl("create", "-f", "-", "-o", "name", stdin=yaml.safe_dump_all(pods)).split()
    gates = [kubectl.json("get", name, "-n", namespace)["spec"].get("schedulingGates") for name in said]
    assert (said, gates) == (["pod/plain", "pod/with-a-device"], [None, None])


@pytest.mark.usefixtures("installed")
def test_the_default_webhook_configuration_sorts_last(kubectl: Kubectl) -> None:
    names = kubectl("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name").split()
    assert [name.split("/")[1] for name in names if "tollbar" in name] == ["zz-tollbar-pods", "zz-tollbar-rules"]


@pytest.mark.usefixtures("installed")
def test_applying_again_keeps_the_ca_that_somebody_else_wrote(kubectl: Kubectl) -> None:
    configuration = ("mutatingwebhookconfiguration", "zz-tollbar-pods")
    written = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Q0E="}]
    kubectl("patch", *configuration, "--type=json", "-p", json.dumps(written))
    kubectl("apply", "--server-side", "-k", str(DEFAULT))
    assert kubectl("get", *configuration, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}") == "Q0E="


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("component", ["webhook", "controllers"])
def test_our_pods_pass_the_restricted_standard_of_their_namespace(kubectl: Kubectl, component: str) -> None:
    """kube-controller-manager could create both replicas; without Nodes they stay pending."""
    in_ours = ("-n", "tollbar-system")
    kubectl("wait", f"deployment/tollbar-{component}", *in_ours, "--for=jsonpath={.status.replicas}=2", "--timeout=60s")
    pods = kubectl.json("get", "pods", *in_ours, "-l", f"app.kubernetes.io/component={component}")["items"]
    assert [pod["spec"].get("schedulingGates", []) for pod in pods] == [[], []]
    labels = kubectl.json("get", "namespace", "tollbar-system")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


RIGHTS = {
    "tollbar-webhook list resourceclaims.resource.k8s.io": True,
    "tollbar-webhook watch tolerationrules.tollbar.dev": True,
    "tollbar-webhook list pods": False,
    "tollbar-webhook get secrets": False,
    "tollbar-webhook list secrets": False,
    "tollbar-webhook watch secrets/tollbar-webhook-ca": True,
    "tollbar-webhook patch secrets/tollbar-webhook-ca": False,
    "tollbar-webhook patch mutatingwebhookconfigurations.admissionregistration.k8s.io/zz-tollbar-pods": False,
    "tollbar-webhook patch tolerationrules.tollbar.dev/status": False,
    "tollbar-webhook watch leases.coordination.k8s.io/tollbar-controllers": True,
    "tollbar-webhook watch leases.coordination.k8s.io/somebody-else": False,
    "tollbar-controllers patch pods": True,
    "tollbar-controllers update pods": False,
    "tollbar-controllers delete pods": False,
    "tollbar-controllers patch pods/status": False,
    "tollbar-controllers patch tolerationrules.tollbar.dev/status": True,
    "tollbar-controllers patch tolerationrules.tollbar.dev": False,
    "tollbar-controllers create schedulinggates.tollbar.dev": True,
    "tollbar-controllers patch schedulinggates.tollbar.dev": False,
    "tollbar-controllers delete schedulinggates.tollbar.dev": False,
    "tollbar-controllers create events.events.k8s.io": True,
    "tollbar-controllers list mutatingwebhookconfigurations.admissionregistration.k8s.io": True,
    "tollbar-controllers patch mutatingwebhookconfigurations.admissionregistration.k8s.io": False,
    "tollbar-controllers create resourceclaims.resource.k8s.io": True,
    "tollbar-controllers delete resourceclaims.resource.k8s.io": False,
    "tollbar-controllers update resourceclaims.resource.k8s.io/binding": True,
    "tollbar-controllers update resourceclaims.resource.k8s.io/driver": False,
    "tollbar-controllers patch workloadclaims.tollbar.dev": False,
    "tollbar-controllers watch statefulsets.apps": True,
    "tollbar-controllers patch statefulsets.apps": False,
    "tollbar-controllers patch mutatingwebhookconfigurations.admissionregistration.k8s.io/zz-tollbar-pods": True,
    "tollbar-controllers patch validatingwebhookconfigurations.admissionregistration.k8s.io/zz-tollbar-rules": True,
    "tollbar-controllers update mutatingwebhookconfigurations.admissionregistration.k8s.io/zz-tollbar-pods": False,
    "tollbar-controllers get secrets": False,
    "tollbar-controllers list secrets": False,
    "tollbar-controllers create secrets": True,
    "tollbar-controllers patch secrets/tollbar-webhook-ca": True,
    "tollbar-controllers delete secrets/tollbar-webhook-ca": False,
    "tollbar-controllers update leases.coordination.k8s.io/tollbar-controllers": True,
    "tollbar-controllers update leases.coordination.k8s.io/somebody-else": False,
}


NAMED = ("leases", "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
"""Kinds of which accounts have rights to single objects."""


@pytest.mark.usefixtures("installed")
def test_rights(kubectl: Kubectl) -> None:
    settles(lambda: dict(zip(RIGHTS, allowed(kubectl, "tollbar-system", *RIGHTS), strict=True)), RIGHTS)


def allowed(kubectl: Kubectl, namespace: str, *questions: str) -> list[bool]:
    """Answers to `ACCOUNT VERB RESOURCE.GROUP[/SUBRESOURCE]` about a namespace's accounts; for some, `/NAME`."""
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{account}",
                "groups": ["system:authenticated"],
                "resourceAttributes": attributes(namespace, verb, *resource.partition("/")[::2]),
            },
        }
        for account, verb, resource in (question.split() for question in questions)
    ]
    answers = kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed} ", stdin=yaml.safe_dump_all(reviews))
    return [answer == "true" for answer in answers.split()]


def attributes(namespace: str, verb: str, resource: str, part: str) -> dict[str, str]:
    plural, _, group = resource.partition(".")
    return {
        "namespace": namespace,
        "verb": verb,
        "resource": plural,
        "group": group,
        "name" if plural in NAMED else "subresource": part,
    }


@pytest.mark.usefixtures("installed")
def test_calls_about_our_leases_have_the_priority_of_leader_election(plane: Any, kubectl: Kubectl) -> None:
    """The API server says in its answer, also in a refusal, by which FlowSchema it has classified the request."""
    scheduler = str(MANIFESTS / "components/scheduler/rights.yaml")
    kubectl("apply", "--server-side", "-f", scheduler)
    accounts = ("tollbar-controllers", "tollbar-scheduler")
    given = [plane.service_account_kubeconfig("tollbar-system", account).read_text() for account in accounts]
    schema = kubectl.json("get", "flowschema", "tollbar-leader-election")["metadata"]["uid"]
    level = kubectl.json("get", "prioritylevelconfiguration", "leader-election")["metadata"]["uid"]
    for user in map(yaml.safe_load, given):
        settles(lambda user=user: classified(user, "GET", f"{LEASES}/tollbar-controllers"), (schema, level))
        assert {call: classified(user, *call.split())[0] == schema for call in PRIORITIES} == PRIORITIES
    kubectl("delete", "-f", scheduler)


LEASES = "/apis/coordination.k8s.io/v1/namespaces/tollbar-system/leases"
PRIORITIES = {
    f"POST {LEASES}": True,
    f"PUT {LEASES}/tollbar-controllers": True,
    f"GET {LEASES}": False,
    "GET /apis/coordination.k8s.io/v1/namespaces/default/leases/x": False,
    "GET /api/v1/pods": False,
}


def classified(kubeconfig: dict[str, Any], method: str, path: str) -> tuple[str | None, str | None]:
    """The uids of the FlowSchema and the PriorityLevelConfiguration that a request of this user is under."""
    cluster, token = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]["token"]
    trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
    server = urlsplit(cluster["server"]).netloc
    connection = http.client.HTTPSConnection(server, context=ssl.create_default_context(cadata=trusted))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, None if method == "GET" else "{}", headers)
    answer = connection.getresponse()
    connection.close()
    return answer.headers["X-Kubernetes-PF-FlowSchema-UID"], answer.headers["X-Kubernetes-PF-PriorityLevel-UID"]


@pytest.mark.usefixtures("installed")
def test_who_may_view_a_cluster_sees_rules_and_who_administers_it_writes_them(kubectl: Kubectl) -> None:
    ours, theirs = ("tolerationrules", "placementrules", "schedulinggates", "podquotas"), ("workloadclaims",)
    reading = [f"{verb} {kind}" for kind in (*ours, *theirs) for verb in ("get", "list", "watch")]
    writing, using = (
        [f"{verb} {kind}" for kind in kinds for verb in ("create", "update", "patch", "delete", "deletecollection")]
        for kinds in (ours, theirs)
    )
    want = {
        "view": sorted(reading),
        "edit": sorted([*reading, *using]),
        "admin": sorted([*reading, *using, *writing, "release schedulinggates"]),
    }
    settles(lambda: {role: verbs_of(kubectl, role) for role in want}, want)  # kube-controller-manager aggregates them


def verbs_of(kubectl: Kubectl, role: str) -> list[str]:
    return sorted(
        f"{verb} {resource}"
        for rule in kubectl.json("get", "clusterrole", role)["rules"]
        if rule["apiGroups"] == ["tollbar.dev"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def test_install_yaml_is_the_default_overlay(kubectl: Kubectl) -> None:
    header = runpy.run_path(str(MANIFESTS.parent / "scripts" / "render_install.py"))["HEADER"]
    assert (MANIFESTS / "install.yaml").read_text() == header + kubectl("kustomize", str(DEFAULT))


OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
EVERY_OBJECT = {
    "app.kubernetes.io/name": "tollbar",
    "app.kubernetes.io/instance": "tollbar",
    "app.kubernetes.io/version": tollbar.__version__,
    "app.kubernetes.io/part-of": "tollbar",
    "app.kubernetes.io/managed-by": "kustomize",
}
"""The recommended labels, but for component, which each object has of its own."""


def test_every_object_of_every_component_has_the_recommended_labels(render: Render) -> None:
    alone = {"admission-policy", "certificate-files", "pod-rules"}  # they remove or change what others would look at
    names = sorted({path.name for path in (MANIFESTS / "components").iterdir()} - alone)
    everything = render(ELSEWHERE + f"components: [{', '.join(f'../../components/{name}' for name in names)}]\n")
    policies = render(ELSEWHERE + "components: [../../components/admission-policy]\n")
    lacking = [
        name_of(each)
        for each in [*everything, *policies]
        if not EVERY_OBJECT.items() <= (labels := each["metadata"]["labels"]).items()
        or ("app.kubernetes.io/component" not in labels and each["kind"] != "Namespace")
    ]
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in everything if each["kind"] == "Deployment"]
    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in everything
        if "template" in each.get("spec", {})
    }
    assert (lacking, [EVERY_OBJECT.items() <= labels.items() for labels in pods], images) == (
        [],
        [True] * 3,
        {f"tollbar:{tollbar.__version__}"},
    )


SHAPES: dict[str, tuple[dict[str, int], list[dict[str, int]], list[str]]] = {
    "default": ({"controllers": 2, "webhook": 2}, [{"minAvailable": 1}] * 2, ["--log-format=json"] * 2),
    "ha": ({"controllers": 2, "webhook": 3}, [{"maxUnavailable": 1}] * 2, ["--log-format=json"] * 2),
    "minimal": ({"controllers": 1, "webhook": 1}, [], ["--claims=Disabled", "--log-format=json"]),
    "dev": ({"controllers": 1, "webhook": 1}, [], ["--v=4"] * 2),
    "policy-only": ({"controllers": 2}, [{"minAvailable": 1}], ["--no-manage-certificates"]),
}
"""By overlay: replicas, budgets for disruptions, and the last argument of each process."""


def test_every_overlay_has_the_replicas_that_it_says(kubectl: Kubectl) -> None:
    found = {}
    for overlay in OVERLAYS:
        objects = list(yaml.safe_load_all(kubectl("kustomize", str(MANIFESTS / "overlays" / overlay))))
        deployments = [each["spec"] for each in objects if each["kind"] == "Deployment"]
        found[overlay] = (
            {each["template"]["spec"]["containers"][0]["name"]: each["replicas"] for each in deployments},
            [
                {key: value for key, value in each["spec"].items() if "vailable" in key}
                for each in objects
                if each["kind"] == "PodDisruptionBudget"
            ],
            [each["template"]["spec"]["containers"][0]["args"][-1] for each in deployments],
        )
    assert found == SHAPES


def test_tolerations_only_needs_no_rights_to_claims_and_workloads(kubectl: Kubectl) -> None:
    rendered = yaml.safe_load_all(kubectl("kustomize", str(MANIFESTS / "overlays" / "minimal")))
    bound = [each for each in rendered if each["kind"] == "ClusterRole" and "controllers" in each["metadata"]["name"]]
    (rules,) = (each["rules"] for each in bound)
    written = {resource for rule in rules if {"create", "patch"} & set(rule["verbs"]) for resource in rule["resources"]}
    statuses = {f"{kind}/status" for kind in ("tolerationrules", "schedulinggates")}
    assert written == {"pods", "schedulinggates", "events", *statuses}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "overlay",
    ["ha", "minimal", "dev", pytest.param("policy-only", marks=since("1.36", "it serves no MutatingAdmissionPolicy"))],
)
def test_every_overlay_is_accepted_where_the_default_is_installed(overlay: str, kubectl: Kubectl) -> None:
    directory = str(MANIFESTS / "overlays" / overlay)
    said = kubectl("apply", "--server-side", "--warnings-as-errors", "-k", directory).splitlines()
    theirs = list(yaml.safe_load_all(kubectl("kustomize", directory)))
    default = {name_of(each) for each in yaml.safe_load_all((MANIFESTS / "install.yaml").read_text())}
    if added := [each for each in theirs if name_of(each) not in default]:
        kubectl("delete", "--wait", "-f", "-", stdin=yaml.safe_dump_all(added))
    kubectl("apply", "--server-side", "-f", str(MANIFESTS / "install.yaml"))
    refused = [line for line in said if not line.endswith(" serverside-applied")]
    # What others remove with the default overlay is all that they have: tests/e2e/test_removal.py.
    assert (len(said), refused, bool(added)) == (len(theirs), [], overlay == "policy-only")


ELSEWHERE = """
namespace: elsewhere
namePrefix: acme-
resources: [../default]
transformers: [../../identity]
"""


def test_another_namespace_and_prefix_reach_every_place(render: Render) -> None:
    objects = {name_of(obj): obj for obj in render(ELSEWHERE)}
    pods, claims = objects["MutatingWebhookConfiguration zz-acme-zz-tollbar-pods"]["webhooks"]
    rules = objects["ValidatingWebhookConfiguration zz-acme-zz-tollbar-rules"]["webhooks"][0]
    rights = objects["ClusterRole acme-tollbar-certificates"]["rules"]
    service = {"name": "acme-tollbar-webhook", "namespace": "elsewhere"}
    assert {
        "services": [webhook["clientConfig"]["service"] for webhook in (pods, claims, rules)],
        "unmanaged": [each["namespaceSelector"]["matchExpressions"][0]["values"] for each in (pods, claims)],
        "writes": [rule["resourceNames"] for rule in rights if rule["verbs"] == ["patch"]],
        "lease calls": objects["FlowSchema acme-tollbar-leader-election"]["spec"]["rules"][0]["subjects"],
        "still in the old namespace": [name for name, obj in objects.items() if "tollbar-system" in str(obj)],
    } == {
        "services": [
            {**service, "path": "/mutate-pods"},
            {**service, "path": "/mutate-claims"},
            {**service, "path": "/validate-rules"},
        ],
        "unmanaged": [["kube-system", "elsewhere"]] * 2,
        "writes": [["zz-acme-zz-tollbar-pods"], ["zz-acme-zz-tollbar-rules"]],
        "lease calls": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "elsewhere", "name": "*"}}],
        "still in the old namespace": [],
    }


@pytest.mark.usefixtures("installed")
def test_the_controllers_of_another_installation_declare_the_gate_as_theirs(
    render: Render, plane: Any, tmp_path: Path
) -> None:
    """Beside the first one, whose definitions it shares."""
    kubectl: Kubectl = plane.kubectl
    objects = [obj for obj in render(ELSEWHERE) if obj["kind"] != "CustomResourceDefinition"]
    text = yaml.safe_dump_all(objects)
    try:
        said = kubectl("apply", "--server-side", "--warnings-as-errors", "-f", "-", stdin=text).splitlines()
        account = plane.service_account_kubeconfig("elsewhere", "acme-tollbar-controllers")
        with controllers(account, "elsewhere", tmp_path / "log"):
            kubectl("wait", "--for=create", "schedulinggate/tolerations", "--timeout=60s")
            kubectl("wait", "--for=condition=Ready", "schedulinggate/tolerations", "--timeout=60s")
            lease = kubectl.json("get", "lease", "tollbar-controllers", "-n", "elsewhere")
        gates = kubectl.json("get", "schedulinggates")["items"]
    finally:
        kubectl("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=text)
        kubectl("delete", "schedulinggates", "--all")
    assert (
        (len(said), [line for line in said if not line.endswith(" serverside-applied")]),
        lease["spec"]["holderIdentity"].rpartition("-")[0],
        [gate["spec"] for gate in gates],
    ) == (
        (35, []),
        "tried",
        [shipped_gate(owners=("system:serviceaccount:elsewhere:acme-tollbar-controllers",))["spec"]],
    )


@contextmanager
def controllers(kubeconfig: Path, namespace: str, log: Path) -> Iterator[None]:
    """Our process as in a Pod of this namespace."""
    anywhere = ("--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0")
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "controllers", f"--kubeconfig={kubeconfig}", *anywhere],
            env={**os.environ, "POD_NAME": "tried", "POD_NAMESPACE": namespace},
            cwd=MANIFESTS.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        child.terminate()
        assert child.wait(40) == 0, log.read_text()


def test_pod_rules_leave_out_the_prefilter(render: Render) -> None:
    rendered = render("resources: [../default]\ncomponents: [../../components/pod-rules]\n")
    (pods,) = [obj for obj in rendered if obj["kind"] == "MutatingWebhookConfiguration"]
    names = [condition["name"] for condition in pods["webhooks"][0]["matchConditions"]]
    assert names == ["not-bound", "not-mirror", "not-daemonset"]


def test_with_the_admission_policy_there_is_no_webhook_left(render: Render) -> None:
    policies = "components: [../../components/admission-policy, ../../components/protective-gates]\n"
    objects = render(ELSEWHERE + policies)
    kinds = {obj["kind"] for obj in objects}
    bindings = {
        obj["metadata"]["name"]: obj["spec"]["policyName"]
        for obj in objects
        if "Binding" in obj["kind"] and "spec" in obj
    }
    assert (
        [name_of(obj) for obj in objects if "webhook" in obj["metadata"]["name"]],
        {kind for kind in kinds if "Webhook" in kind or kind == "Service"},
        bindings,
        [name_of(obj) for obj in objects if "Policy" in obj["kind"] and "namespace" in obj["metadata"]],
    ) == (
        [],
        set(),
        {
            name: name
            for name in (
                "acme-tollbar-gate",
                "acme-tollbar-strip-provenance",
                "acme-tollbar-gate-owner",
                "acme-tollbar-provenance",
            )
        },
        [],
    )


def test_with_cert_manager_the_controllers_write_no_authority_and_every_name_fits(render: Render) -> None:
    objects = {name_of(obj): obj for obj in render(ELSEWHERE + "components: [../../components/cert-manager]\n")}
    certificate = objects["Certificate acme-tollbar-webhook"]["spec"]
    webhook, controllers = (
        objects[f"Deployment acme-tollbar-{name}"]["spec"]["template"]["spec"] for name in ("webhook", "controllers")
    )
    injected = {
        obj["kind"]: obj["metadata"].get("annotations") for obj in objects.values() if "WebhookConfig" in obj["kind"]
    }
    from_secret = {"cert-manager.io/inject-ca-from-secret": f"elsewhere/{certificate['secretName']}"}
    assert {
        "rights": [name for name in objects if name.endswith("tollbar-certificates")],
        "secrets of the webhook": [r for r in objects["Role acme-tollbar-webhook"]["rules"] if r["apiGroups"] == [""]],
        "injected": injected,
        "names": certificate["dnsNames"],
        "issuer": f"Issuer {certificate['issuerRef']['name']}" in objects,
        "mounted": webhook["volumes"][0]["secret"]["secretName"] == certificate["secretName"],
        "reads": webhook["containers"][0]["args"][-2:],
        "controllers": controllers["containers"][0]["args"][-1],
    } == {
        "rights": [],
        "secrets of the webhook": [],
        "injected": dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), from_secret),
        "names": ["*.elsewhere.svc"],
        "issuer": True,
        "mounted": True,
        "reads": ["--tls-cert-file=/etc/tollbar/tls/tls.crt", "--tls-private-key-file=/etc/tollbar/tls/tls.key"],
        "controllers": "--no-manage-certificates",
    }


def test_a_ceiling_is_for_the_user_that_the_controllers_have(render: Render) -> None:
    objects = render(ELSEWHERE + "components: [../../components/ceiling]\n")
    user = {"name": "acme-tollbar-controllers", "namespace": "elsewhere", "parameterNotFoundAction": "Allow"}
    found = {
        each["spec"]["policyName"]: each["spec"]["paramRef"]
        for each in objects
        if each["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    assert found == {f"acme-tollbar-ceiling-{kind}": user for kind in CEILED}


def test_replacing_the_claim_controller_is_a_flag_and_rights_of_its_own(render: Render) -> None:
    objects = render(ELSEWHERE + "components: [../../components/claims-replace]\n")
    (deployment,) = (o for o in objects if name_of(o) == "Deployment acme-tollbar-controllers")
    roles = {
        name_of(o): o["metadata"].get("namespace") for o in objects if o["metadata"]["name"] == "acme-tollbar-claims"
    }
    bindings = [o for o in objects if name_of(o).endswith("Binding acme-tollbar-claims")]
    subject = {"kind": "ServiceAccount", "name": "acme-tollbar-controllers", "namespace": "elsewhere"}
    assert (
        deployment["spec"]["template"]["spec"]["containers"][0]["args"][-1],
        roles,
        [(each["roleRef"]["name"], each["subjects"]) for each in bindings],
    ) == (
        "--claims=Replace",
        {
            "ClusterRole acme-tollbar-claims": None,
            "ClusterRoleBinding acme-tollbar-claims": None,
            "Role acme-tollbar-claims": "elsewhere",
            "RoleBinding acme-tollbar-claims": "elsewhere",
        },
        [("acme-tollbar-claims", [subject])] * 2,
    )


def test_the_scheduler_has_a_configuration_and_rights_of_its_own(render: Render) -> None:
    objects = render(ELSEWHERE + "components: [../../components/scheduler]\n")
    (deployment,) = (o for o in objects if name_of(o) == "Deployment acme-tollbar-scheduler")
    (configuration,) = (o for o in objects if o["kind"] == "ConfigMap")
    pod = deployment["spec"]["template"]["spec"]
    election = yaml.safe_load(configuration["data"]["config.yaml"])["leaderElection"]
    (role,) = (o for o in objects if name_of(o) == "Role acme-tollbar-scheduler")
    bindings = [o for o in objects if name_of(o).endswith("Binding acme-tollbar-scheduler")]
    subject = {"kind": "ServiceAccount", "name": "acme-tollbar-scheduler", "namespace": "elsewhere"}
    assert (
        pod["serviceAccountName"],
        pod["volumes"],
        role["rules"][1]["resourceNames"],
        [each["subjects"] for each in bindings],
    ) == (
        "acme-tollbar-scheduler",
        [{"name": "config", "configMap": {"name": configuration["metadata"]["name"]}}],
        [election["resourceName"]],
        [[subject], [subject]],
    )


def test_monitoring_is_of_the_installation_that_it_is_in(render: Render) -> None:
    rendered = render(ELSEWHERE + "components: [../../components/monitoring]\n")
    objects = {name_of(o): o for o in rendered if o["kind"] in MONITORING}
    files = MANIFESTS / "components/monitoring"
    (endpoint,) = objects["PodMonitor acme-tollbar"]["spec"]["podMetricsEndpoints"]
    dashboard = objects["ConfigMap acme-tollbar-dashboard"]
    assert (
        {name: obj["metadata"]["namespace"] for name, obj in objects.items()},
        endpoint["relabelings"][0]["replacement"],
        [obj["spec"] for obj in objects.values() if obj["kind"] == "PrometheusRule"],
        dashboard["metadata"]["labels"]["grafana_dashboard"],
        dashboard["data"],
    ) == (
        dict.fromkeys(
            (
                "ConfigMap acme-tollbar-dashboard",
                "PodMonitor acme-tollbar",
                "PrometheusRule acme-tollbar",
                "PrometheusRule acme-tollbar-webhook",
            ),
            "elsewhere",
        ),
        "tollbar-$1",
        [rules["spec"] for rules in yaml.safe_load_all((files / "rules.yaml").read_text())],
        "1",
        {"tollbar.json": (files / "tollbar.json").read_text()},
    )


def test_metrics_for_those_who_may_get_them_are_scraped_with_a_token(render: Render) -> None:
    names = ("scheduler", "monitoring", "metrics-auth", "service-monitor")
    objects = {
        name_of(o): o
        for o in render(ELSEWHERE + f"components: [{', '.join(f'../../components/{n}' for n in names)}]\n")
    }
    processes = [
        each["spec"]["template"]["spec"] for name, each in objects.items() if name.startswith("Deployment acme-")
    ]
    secured = {each["serviceAccountName"] for each in processes if "--metrics-secure" in each["containers"][0]["args"]}
    binding = objects["ClusterRoleBinding acme-tollbar-metrics-auth"]["subjects"]
    monitor = objects["ServiceMonitor acme-tollbar"]["spec"]
    service = objects["Service acme-tollbar-metrics"]
    found = monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (
        {(each["name"], each["namespace"]) for each in binding},
        [name for name in objects if name.startswith("PodMonitor")],
        (found, monitor["endpoints"][0]["port"], monitor["endpoints"][0]["scheme"]),
    ) == ({(each, "elsewhere") for each in secured}, [], (True, service["spec"]["ports"][0]["name"], "https"))
    assert len(secured) == 3


MONITORING = {"ConfigMap", "PodMonitor", "PrometheusRule"}


def test_without_a_webhook_there_are_no_alerts_about_it(render: Render) -> None:
    both = "components: [../../components/monitoring, ../../components/admission-policy]\n"
    objects = render(ELSEWHERE + both)
    assert [name_of(o) for o in objects if o["kind"] == "PrometheusRule"] == ["PrometheusRule acme-tollbar"]


def test_the_overlay_with_monitoring_that_the_page_shows(render: Render) -> None:
    page = (ROOT / "docs/operations/monitoring.md").read_text()
    blocks = [textwrap.dedent(each) for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    overlay, patches, _, secured = (
        each.replace("../manifests/overlays/default", "../default").replace("../manifests/", "../../")
        for each in blocks
    )
    assert "ServiceMonitor tollbar" in map(name_of, render(secured))
    objects = [o for o in render(overlay + patches) if o["apiVersion"] == "monitoring.coreos.com/v1"]
    assert [(name_of(o), o["metadata"]["labels"]["release"]) for o in objects] == [
        ("PodMonitor tollbar", "prometheus"),
        ("PrometheusRule tollbar", "prometheus"),
        ("PrometheusRule tollbar-webhook", "prometheus"),
    ]


def test_the_configuration_of_the_scheduler_is_one(tmp_path: Path) -> None:
    """It is loaded as it is, and allocates no devices until somebody says which."""
    text = (MANIFESTS / "components/scheduler/config.yaml").read_text()
    (profile,) = registry.configuration(text).profiles
    assert (profile.scheduler_name, profile.args["DynamicResources"]["exclusive"]) == (
        "tollbar-scheduler",
        {"drivers": []},
    )


def test_the_overlay_with_the_scheduler_that_the_page_shows(render: Render) -> None:
    page = (ROOT / "docs/tasks/run-the-scheduler.md").read_text()
    blocks = [textwrap.dedent(each) for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    (overlay,) = (each for each in blocks if "components:" in each)
    shown = render(overlay.replace("../manifests/overlays/default", "../default").replace("../manifests/", "../../"))
    (written,) = (each for each in shown if each["kind"] == "ConfigMap")
    (scheduler,) = (each for each in shown if name_of(each) == "Deployment tollbar-scheduler")
    (volume,) = scheduler["spec"]["template"]["spec"]["volumes"]
    (profile,) = registry.configuration(written["data"]["config.yaml"]).profiles
    assert (volume["configMap"]["name"], profile.scheduler_name, profile.args["DynamicResources"]["exclusive"]) == (
        written["metadata"]["name"],
        "tollbar-scheduler",
        {"drivers": ["gpu.example.com"]},
    )
