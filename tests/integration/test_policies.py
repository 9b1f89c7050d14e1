"""The policy components on a real API server: who may take a gate off, and gating without a webhook."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from planes.parameters import since
from planes.policies import binding, role, said, until_said
from processes.stack import eventually

from tollbar.api.gates import CONTROLLERS, shipped_gate
from tollbar.devplane.kubectl import Kubectl

COMPONENTS = Path(__file__).parents[2] / "manifests" / "components"
OURS = "tollbar.dev/tolerations"
QUOTA = "example.com/quota"
UNDECLARED = "example.com/other"
USERS = ("alice", "releaser", CONTROLLERS)
RECORD = '[{"rule":"gpu"}]'


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Admission policies are only there."""
    return real_plane


SUPPORT = [
    role("tried-pods", {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch"]}),
    binding("tried-pods", *USERS),
    role(
        "tried-release",
        {
            "apiGroups": ["tollbar.dev"],
            "resources": ["schedulinggates"],
            "resourceNames": ["quota"],
            "verbs": ["release"],
        },
    ),
    binding("tried-release", "releaser"),
]
GATES = [
    shipped_gate(),
    {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "SchedulingGate",
        "metadata": {"name": "quota"},
        "spec": {"gateName": QUOTA, "owners": ["quota-controller"]},
    },
]
HELD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "held", "namespace": "default", "annotations": {OURS: RECORD}},
    "spec": {
        "containers": [{"name": "main", "image": "none"}],
        "schedulingGates": [{"name": OURS}, {"name": QUOTA}, {"name": UNDECLARED}],
    },
}


@pytest.fixture(scope="module")
def protected(definitions: None, plane: Any) -> Iterator[Kubectl]:
    """The protective-gates policies in force, two SchedulingGates, and a Pod with their gates and one more."""
    kubectl: Kubectl = plane.kubectl
    policies = [
        argument
        for name in ("gate-owner", "provenance")
        for argument in ("-f", f"{COMPONENTS}/protective-gates/{name}.yaml")
    ]
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=60s")
    kubectl.apply(*SUPPORT, *GATES, HELD)
    kubectl("apply", "--warnings-as-errors", *policies)
    until_said(kubectl, "", *patch(CONTROLLERS, {"metadata": {"labels": {"a": "b"}}}))  # no ceiling of others is left
    until_said(kubectl, "may only be removed", *removal("alice", OURS))
    until_said(kubectl, "may only be removed", *removal("alice", QUOTA))
    until_said(kubectl, "are written only", *annotating("alice", OURS, "mine"))
    until_said(kubectl, "", *removal("releaser", QUOTA))
    yield kubectl
    kubectl("delete", "--ignore-not-found", *policies)
    until_said(kubectl, "", *removal("alice", OURS))
    everything = {"apiVersion": "v1", "kind": "List", "items": [HELD, *GATES, *SUPPORT]}
    kubectl("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=json.dumps(everything))


def patch(user: str, body: Any, *more: str) -> list[str]:
    as_user = [f"--as={user}"] if user else []
    kind = "json" if isinstance(body, list) else "merge"
    return [
        "patch",
        "pod/held",
        "-n",
        "default",
        "--dry-run=server",
        f"--type={kind}",
        "-p",
        json.dumps(body),
        *as_user,
        *more,
    ]


def removal(user: str, *gates: str) -> list[str]:
    left = [gate for gate in HELD["spec"]["schedulingGates"] if gate["name"] not in gates]  # type: ignore[index]
    return patch(user, [{"op": "replace", "path": "/spec/schedulingGates", "value": left}])


def annotating(user: str, name: str, value: str | None, *more: str) -> list[str]:
    return patch(user, {"metadata": {"annotations": {name: value}}}, *more)


def not_an_owner(policy: str, text: str) -> str:
    return (
        f"Error from server (Forbidden): pods \"held\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding"
        f" '{policy}' denied request: {text}"
    )


def gate_is_kept(gate: str, object_name: str, user: str) -> str:
    return not_an_owner(
        "tollbar-gate-owner",
        f"gate {gate} may only be removed by its owners (SchedulingGate {object_name}); user {user} is none of them and"
        " lacks verb release",
    )


RECORD_IS_KEPT = not_an_owner(
    "tollbar-provenance",
    "annotations tollbar.dev/* are written only by the owners of the gate tollbar.dev/tolerations"
    " (SchedulingGate tolerations); user alice is none of them",
)

PROTECTED: dict[str, tuple[list[str], str]] = {
    "a user takes our gate off": (removal("alice", OURS), gate_is_kept(OURS, "tolerations", "alice")),
    "a user takes another declared gate off": (removal("alice", QUOTA), gate_is_kept(QUOTA, "quota", "alice")),
    "a user takes a gate off that nobody declared": (removal("alice", UNDECLARED), ""),
    "a user writes a label": (patch("alice", {"metadata": {"labels": {"a": "b"}}}), ""),
    "the owner takes its gate off": (removal(CONTROLLERS, OURS), ""),
    "the owner takes another's gate off": (removal(CONTROLLERS, QUOTA), gate_is_kept(QUOTA, "quota", CONTROLLERS)),
    "whoever may release takes that gate off": (removal("releaser", QUOTA), ""),
    "whoever may release one gate takes another off": (
        removal("releaser", OURS),
        gate_is_kept(OURS, "tolerations", "releaser"),
    ),
    "an administrator takes all gates off": (removal("", OURS, QUOTA, UNDECLARED), ""),
    "a user changes our record": (annotating("alice", OURS, "[]"), RECORD_IS_KEPT),
    "a user removes our record": (annotating("alice", OURS, None), RECORD_IS_KEPT),
    "a user removes all annotations": (
        patch("alice", [{"op": "remove", "path": "/metadata/annotations"}]),
        RECORD_IS_KEPT,
    ),
    "a user changes our record through the status": (
        annotating("alice", OURS, "[]", "--subresource=status"),
        RECORD_IS_KEPT,
    ),
    "a user writes an annotation of another domain": (annotating("alice", "example.com/a", "b"), ""),
    "the owner changes the record": (annotating(CONTROLLERS, OURS, "[]"), ""),
}


@pytest.mark.behaviour(12)
@pytest.mark.parametrize(("attempt", "want"), PROTECTED.values(), ids=PROTECTED)
def test_protective_gates(protected: Kubectl, attempt: list[str], want: str) -> None:
    assert said(protected, *attempt) == want


def test_without_schedulinggates_nothing_is_protected_and_nobody_is_refused(protected: Kubectl) -> None:
    protected("delete", "sgate", "--all", "--wait")
    try:
        until_said(protected, "", *removal("alice", OURS, QUOTA))
        assert said(protected, *patch("alice", {"metadata": {"labels": {"a": "b"}}})) == ""
    finally:
        protected.apply(*GATES)
        until_said(protected, "may only be removed", *removal("alice", OURS))
        until_said(protected, "may only be removed", *removal("alice", QUOTA))
        until_said(protected, "are written only", *annotating("alice", OURS, "mine"))


@pytest.fixture(scope="module")
def gating(definitions: None, plane: Any) -> Iterator[Kubectl]:
    """The admission-policy component's policies in force."""
    kubectl: Kubectl = plane.kubectl
    policies = [
        argument
        for name in ("gate", "strip-provenance")
        for argument in ("-f", f"{COMPONENTS}/admission-policy/{name}.yaml")
    ]
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=60s")
    kubectl("apply", "--warnings-as-errors", *policies)
    wanted, forged = pod(resourceClaims=[CLAIM]), pod(annotations={OURS: RECORD})
    eventually(lambda: created(kubectl, wanted)[0], what="Pods are gated")
    eventually(lambda: OURS not in created(kubectl, forged)[2], what="records are taken off")
    yield kubectl
    kubectl("delete", *policies)
    eventually(lambda: not created(kubectl, wanted)[0], what="Pods are gated no more")


CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
GATED = ([OURS], {"tollbar.dev/gate": "held"}, {})
UNTOUCHED: tuple[list[str], dict[str, str], dict[str, str]] = ([], {}, {})


def pod(*, requests: str = "", where: str = "containers", **fields: Any) -> dict[str, Any]:
    """A Pod; `requests` is a resource of which one container in `where` asks one, other fields go where they belong."""
    meta = {key: fields.pop(key) for key in ("labels", "annotations", "ownerReferences") if key in fields}
    container: dict[str, Any] = {"name": "main", "image": "none"}
    asking = {**container, "name": "asking", "resources": {"limits": {requests: fields.pop("quantity", "1")}}}
    spec: dict[str, Any] = {"containers": [container], **fields}
    if requests:
        spec[where] = [*spec.get(where, []), asking]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried", **meta}, "spec": spec}


def created(kubectl: Kubectl, obj: dict[str, Any], namespace: str = "default") -> tuple[list[str], Any, Any]:
    """Gates, labels and annotations of a Pod as it would be stored."""
    answer = kubectl("create", "--dry-run=server", "-n", namespace, "-o", "json", "-f", "-", stdin=json.dumps(obj))
    stored = json.loads(answer)
    meta = stored["metadata"]
    gates = [gate["name"] for gate in stored["spec"].get("schedulingGates", [])]
    return gates, meta.get("labels", {}), meta.get("annotations", {})


OWNER = {"apiVersion": "apps/v1", "name": "x", "uid": "x", "controller": True}
CREATED: dict[str, tuple[dict[str, Any], tuple[list[str], dict[str, str], dict[str, str]]]] = {
    "a claim": (pod(resourceClaims=[CLAIM]), GATED),
    "an extended resource": (pod(requests="example.com/gpu"), GATED),
    "an extended resource in an init container": (pod(requests="example.com/gpu", where="initContainers"), GATED),
    "a class by its resource": (pod(requests="deviceclass.resource.kubernetes.io/gpu.example.com"), GATED),
    "a quantity of zero, which the controllers look at": (pod(requests="example.com/gpu", quantity="0"), GATED),
    "a Pod of a ReplicaSet": (pod(resourceClaims=[CLAIM], ownerReferences=[{**OWNER, "kind": "ReplicaSet"}]), GATED),
    "no device": (pod(), UNTOUCHED),
    "only cpu": (pod(requests="cpu"), UNTOUCHED),
    "a Node": (pod(requests="example.com/gpu", nodeName="node-1"), UNTOUCHED),
    "a Pod of a DaemonSet": (pod(resourceClaims=[CLAIM], ownerReferences=[{**OWNER, "kind": "DaemonSet"}]), UNTOUCHED),
    "the label that says never": (
        pod(resourceClaims=[CLAIM], labels={"tollbar.dev/skip": "true"}),
        ([], {"tollbar.dev/skip": "true"}, {}),
    ),
    "somebody else's gate and label": (
        pod(resourceClaims=[CLAIM], schedulingGates=[{"name": UNDECLARED}], labels={"app": "x"}),
        ([UNDECLARED, OURS], {"app": "x", "tollbar.dev/gate": "held"}, {}),
    ),
    "our gate already": (pod(resourceClaims=[CLAIM], schedulingGates=[{"name": OURS}]), GATED),
    "a record that the client wrote": (
        pod(resourceClaims=[CLAIM], annotations={OURS: RECORD, "example.com/a": "b"}),
        ([OURS], {"tollbar.dev/gate": "held"}, {"example.com/a": "b"}),
    ),
    "a record on a Pod without devices": (pod(annotations={OURS: RECORD}), UNTOUCHED),
}


@since("1.36", "no MutatingAdmissionPolicy")
@pytest.mark.parametrize(("given", "want"), CREATED.values(), ids=CREATED)
def test_gating_without_a_webhook(gating: Kubectl, given: dict[str, Any], want: Any) -> None:
    assert created(gating, given) == want


@since("1.36", "no MutatingAdmissionPolicy")
def test_kube_system_is_left_alone(gating: Kubectl) -> None:
    gating("wait", "--for=create", "serviceaccount/default", "-n", "kube-system", "--timeout=60s")
    assert created(gating, pod(resourceClaims=[CLAIM]), "kube-system") == UNTOUCHED
