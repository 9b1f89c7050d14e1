"""The component `reserved-keys` on a real API server: who may carry a toleration of a reserved key.

What Tollbar's webhook records there is seen in tests/e2e/test_refused.py.  Here a record that comes with the request
stands for it, in a namespace in which nothing takes it off.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from planes.parameters import since
from planes.policies import binding, role, said, spared, until_said
from processes.stack import ROOT, eventually

from tollbar.api.gates import CONTROLLERS
from tollbar.decide.pods.tolerations import Addition, entry, record
from tollbar.devplane.kubectl import Kubectl
from tollbar.wellknown import ANNOTATION_PROVENANCE

pytestmark = since("1.36", "no MutatingAdmissionPolicy")

FILES = [
    f"--filename={ROOT}/manifests/components/reserved-keys/{name}.yaml" for name in ("pods", "record", "workloads")
]
RIGHTS = f"--filename={ROOT}/manifests/components/reserved-keys/rights.yaml"
KEY = "example.com/gpu"
GPU = {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}
OTHER = {"key": "example.com/other", "operator": "Exists"}
EVERYTHING = {"operator": "Exists"}
ANYWAY = {"operator": "Exists", "effect": "NoExecute"}
MIRROR = {"kubernetes.io/config.mirror": "0123", "kubernetes.io/config.source": "file"}
NODE = "system:node:node-1"
REPLICAS = "system:serviceaccount:kube-system:replicaset-controller"
RECORDING = "tried-reserved-keys"
"""The namespace in which a record stays that comes with the request."""
DRIVER = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driver", "namespace": "default"}}
DRIVER_MAY = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "tried-reserved-keys-driver"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tollbar-reserved-keys"},
    "subjects": [{"kind": "ServiceAccount", "name": "driver", "namespace": "default"}],
}
HELD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "reserving", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "none"}], "schedulingGates": [{"name": "example.com/x"}]},
}
SUPPORT = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RECORDING}},
    role(
        "tried-reserved-keys",
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]},
        {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["create"]},
    ),
    binding("tried-reserved-keys", "alice", CONTROLLERS, NODE),
    DRIVER,
    HELD,
]


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Admission policies are only there."""
    return real_plane


@pytest.fixture(scope="module")
def reserving(plane: Any) -> Iterator[Kubectl]:
    kubectl: Kubectl = plane.kubectl
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=60s")
    kubectl.apply(*SUPPORT)
    kubectl("apply", RIGHTS)
    kubectl.apply(DRIVER_MAY)
    kubectl("apply", "--warnings-as-errors", *FILES)
    until_said(kubectl, "reserved key", *CREATE, stdin=pod(GPU))
    until_said(kubectl, "", *CREATE, stdin=pod(GPU, serviceAccountName="driver"))
    until_said(kubectl, "", *adding(CONTROLLERS))
    spared(kubectl, "mutatingadmissionpolicybinding/tollbar-reserved-keys-record", RECORDING)
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", RECORDING, "--timeout=60s")

    def stays(namespace: str) -> bool:
        tried = pod(annotations=RECORDED, namespace=namespace)
        return ANNOTATION_PROVENANCE in kubectl(*CREATE, "-o", "yaml", stdin=tried)

    eventually(lambda: stays(RECORDING) and not stays("default"))
    eventually(lambda: warned(kubectl, DEPLOYMENT), what="authors of workloads are warned")
    yield kubectl
    kubectl("delete", *FILES, RIGHTS)
    until_said(kubectl, "", *CREATE, stdin=pod(GPU))
    everything = {"apiVersion": "v1", "kind": "List", "items": [*SUPPORT, DRIVER_MAY]}
    kubectl("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=json.dumps(everything))


def spec(*tolerations: Any, **fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "none"}], "tolerations": list(tolerations), **fields}


def pod(*tolerations: Any, annotations: Any = None, namespace: str = "default", **fields: Any) -> str:
    meta = {"name": "tried", "namespace": namespace, "annotations": annotations or {}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec(*tolerations, **fields)})


def recorded(*rules: Sequence[Any]) -> dict[str, str]:
    """The record of what each of these rules gave."""
    additions = (Addition(f"rule-{number}", 1, tuple(given)) for number, given in enumerate(rules))
    return {ANNOTATION_PROVENANCE: record([entry(each, "admission") for each in additions])}


RECORDED = recorded([GPU])
CREATE = ("create", "--dry-run=server", "--as=alice", "-f", "-")
KUBELET = ("create", "--dry-run=server", f"--as={NODE}", "--as-group=system:nodes", "-f", "-")
ADMIN = ("create", "--dry-run=server", "-f", "-")
BY_CONTROLLER = ("create", "--dry-run=server", f"--as={REPLICAS}", "-f", "-")


def adding(user: str, toleration: Any = GPU) -> list[str]:
    """To a Pod that is there; the API server has given it two of its own.  By an administrator if no user is named."""
    patch = [{"op": "add", "path": "/spec/tolerations/-", "value": toleration}]
    where = ["pod/reserving", "-n", "default", "--dry-run=server", "--type=json"]
    return ["patch", *where, "-p", json.dumps(patch), *([f"--as={user}"] if user else [])]


def workload(kind: str, **fields: Any) -> dict[str, Any]:
    labels = {"app": "tried"}
    template = {"metadata": {"labels": labels}, "spec": spec(GPU, **fields)}
    meta = {"name": "tried", "namespace": "default"}
    if kind == "CronJob":
        job = {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}
        body: dict[str, Any] = {"schedule": "@daily", "jobTemplate": {"spec": job}}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": body}
    body = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


DEPLOYMENT = workload("Deployment")


def warned(kubectl: Kubectl, obj: dict[str, Any]) -> str:
    done = subprocess.run(
        [*kubectl.command, *CREATE],
        input=json.dumps(obj),
        env=kubectl.environment(),
        text=True,
        capture_output=True,
        check=True,
    )
    return done.stderr.strip()


def refusal(which: str, user: str = "alice", account: str = "default") -> str:
    return (
        f"only a TolerationRule gives tolerations of {which}; neither user {user} nor ServiceAccount {account} may use"
        " them; leave them out: a rule that is true for the Pod adds them"
    )


THE_KEY = f"the reserved key {KEY}"
CHOSEN = (
    "spec.nodeName passes by the taints of reserved Nodes; neither user alice nor ServiceAccount default may set it;"
    " use nodeSelector or node affinity"
)
ATTEMPTS: dict[str, tuple[tuple[list[str], str | None], str]] = {
    "a reserved key": (([*CREATE], pod(GPU)), refusal(THE_KEY)),
    "with another operator and effect": (([*CREATE], pod({"key": KEY, "value": "x"})), refusal(THE_KEY)),
    "every key": (([*CREATE], pod(EVERYTHING)), refusal("every key")),
    "both": (([*CREATE], pod(GPU, EVERYTHING)), refusal(f"{THE_KEY}, every key")),
    "with a record that the client wrote": (([*CREATE], pod(GPU, annotations=RECORDED)), refusal(THE_KEY)),
    "on a Pod that Tollbar leaves alone": (
        ([*CREATE], pod(GPU, annotations=RECORDED, nodeName="node-1")),
        refusal(THE_KEY),
    ),
    "on a Node that the author chooses": (([*CREATE], pod(nodeName="node-1")), CHOSEN),
    "on a Node that an administrator chooses": (([*ADMIN], pod(nodeName="node-1")), ""),
    "on a Node, for a ServiceAccount that may": (
        ([*CREATE], pod(nodeName="node-1", serviceAccountName="driver")),
        "",
    ),
    "a static Pod's mirror": (([*KUBELET], pod(ANYWAY, annotations=MIRROR, nodeName="node-1")), ""),
    "somebody else's mirror": (([*CREATE], pod(ANYWAY, annotations=MIRROR, nodeName="node-1")), refusal("every key")),
    "a kubelet's other Pod": (([*KUBELET], pod(ANYWAY, nodeName="node-1")), refusal("every key", user=NODE)),
    "another key": (([*CREATE], pod(OTHER)), ""),
    "none": (([*CREATE], pod()), ""),
    "by the controller of a ReplicaSet": (([*BY_CONTROLLER], pod(GPU)), refusal(THE_KEY, user=REPLICAS)),
    "by an administrator": (([*ADMIN], pod(GPU, EVERYTHING)), ""),
    "for a ServiceAccount that may": (([*CREATE], pod(GPU, EVERYTHING, serviceAccountName="driver")), ""),
    "in kube-system": (([*CREATE], pod(EVERYTHING, namespace="kube-system")), ""),
    "later": ((adding("alice"), None), refusal(THE_KEY)),
    "another key later": ((adding("alice", OTHER), None), ""),
    "later, by the controllers": ((adding(CONTROLLERS), None), ""),
    "later, by an administrator": ((adding(""), None), ""),
}


@pytest.mark.parametrize(("attempt", "want"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_who_may_carry_a_reserved_key(reserving: Kubectl, attempt: tuple[list[str], str | None], want: str) -> None:
    arguments, stdin = attempt
    answer = said(reserving, *arguments, stdin=stdin)
    assert answer.endswith(want) if want else answer == ""


def given(*tolerations: Any, by: Sequence[Sequence[Any]]) -> str:
    """A Pod that has these tolerations, from whomever, and from these rules what the record says."""
    return pod(*tolerations, annotations=recorded(*by), namespace=RECORDING)


FOR_A_MINUTE = {"key": KEY, "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 60}
OF_RULES: dict[str, tuple[str, str]] = {
    "what a rule gave": (given(GPU, OTHER, by=[[GPU]]), ""),
    "what two rules gave": (given(FOR_A_MINUTE, EVERYTHING, GPU, by=[[GPU, FOR_A_MINUTE], [EVERYTHING]]), ""),
    "another toleration of the key": (given(GPU, FOR_A_MINUTE, by=[[GPU]]), refusal(THE_KEY)),
    "a part of what a rule gave": (given({"key": KEY, "operator": "Exists"}, by=[[GPU]]), refusal(THE_KEY)),
    "of another key": (given(GPU, OTHER, by=[[OTHER]]), refusal(THE_KEY)),
}


@pytest.mark.parametrize(("obj", "want"), OF_RULES.values(), ids=OF_RULES)
def test_what_a_rule_gave_is_what_the_record_says(reserving: Kubectl, obj: str, want: str) -> None:
    answer = said(reserving, *CREATE, stdin=obj)
    assert answer.endswith(want) if want else answer == ""


def test_the_largest_record_is_read_to_its_end(reserving: Kubectl) -> None:
    """What is evaluated for it stays within the API server's limits."""
    many = [{"key": KEY, "operator": "Equal", "value": str(number)} for number in range(4000)]
    rules = [many[at : at + 16] for at in range(0, len(many), 16)]
    assert said(reserving, *CREATE, stdin=given(*many, by=rules)) == ""
    answer = said(reserving, *CREATE, stdin=given(*many, by=rules[:-1]))
    assert answer.endswith(refusal(", ".join([THE_KEY] * 8 + ["others"])))


WORKLOADS = {
    "a Deployment": (DEPLOYMENT, "default"),
    "a CronJob": (workload("CronJob"), "default"),
    "a Deployment whose Pods may": (workload("Deployment", serviceAccountName="driver"), ""),
}


@pytest.mark.parametrize(("obj", "account"), WORKLOADS.values(), ids=WORKLOADS)
def test_who_writes_a_workload_is_warned(reserving: Kubectl, obj: dict[str, Any], account: str) -> None:
    text = (
        "Warning: Validation failed for ValidatingAdmissionPolicy 'tollbar-reserved-keys-workloads' with binding"
        " 'tollbar-reserved-keys-workloads': the Pods of this template will be refused: only a TolerationRule gives"
        f" tolerations of {THE_KEY}, and ServiceAccount {account} may not use them; leave them out: a rule that is true"
        " for the Pods adds them"
    )
    assert warned(reserving, obj) == (text if account else "")
