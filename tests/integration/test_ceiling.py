"""The component `ceiling` on a real API server: what the controllers' ServiceAccount may do, whatever RBAC grants."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from planes.policies import binding, role, said
from processes.stack import CEILING, eventually

from tollbar.api.gates import CONTROLLERS, shipped_gate
from tollbar.api.webhooks import at_service, pods_configuration
from tollbar.cli import gates
from tollbar.devplane.kubectl import Kubectl
from tollbar.gates import registry
from tollbar.gates.evaluation import declaration
from tollbar.wellknown import SYSTEM_NAMESPACE

OURS = "tollbar.dev/tolerations"
QUOTA = "example.com/quota"
HELD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "held", "namespace": "default"},
    "spec": {
        "containers": [{"name": "main", "image": "none"}],
        "schedulingGates": [{"name": OURS}, {"name": QUOTA}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    },
}
CLASSES = registry.enabled(("quota", "placement"))
QUOTAS, PLACEMENT, ORDINAL = "tollbar.dev/quota", "tollbar.dev/placement", "tollbar.dev/ordinal"
ALIKE = ("tollbar.dev/Quota", "tollbar/dev.quota", "tollbar.dev.quota")
"""Gates of others, whose names differ from that of the class in what object names cannot tell apart."""
GATES = (QUOTAS, PLACEMENT, ORDINAL, *ALIKE)
OF_CLASSES = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "classed", "namespace": "default"},
    "spec": {
        "containers": [{"name": "main", "image": "none"}],
        "schedulingGates": [{"name": gate} for gate in GATES],
        "tolerations": [{"key": "mine", "operator": "Exists"}],
    },
}
RELEASE = "tollbar.dev/release"
RIGHTS = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "tollbar-controllers", "namespace": SYSTEM_NAMESPACE},
    },
    role(
        "tried-ceiling",
        {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "create", "patch"]},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaims/status", "resourceclaims/binding"],
            "verbs": ["get", "patch", "update"],
        },
        {"apiGroups": ["tollbar.dev"], "resources": ["schedulinggates"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "verbs": ["get", "patch"],
        },
    ),
    binding("tried-ceiling", CONTROLLERS, "alice"),
]
REPLACES = [
    role("tried-replace", {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["delete"]}),
    binding("tried-replace", CONTROLLERS),
]
BY_POD = {"resource": "pods", "name": "held", "uid": "UID"}
"""The Pod has to exist: kube-controller-manager takes back what others have left.  Its uid is filled in later."""
BY_JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "2"}
DEVICE = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
ALLOCATED = {"devices": {"results": [{"request": "gpu", **DEVICE}]}}
PROTECTION = "resource.kubernetes.io/delete-protection"
USED: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "used", "namespace": "default", "finalizers": [PROTECTION, "example.com/mine"]},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}


ANOTHERS = {
    "apiVersion": "tollbar.dev/v1alpha1",
    "kind": "SchedulingGate",
    "metadata": {"name": "quota"},
    "spec": {"gateName": QUOTA, "owners": [CONTROLLERS]},
}
CONFIGURATION = {
    **pods_configuration(at_service(), name="tried-pods"),
    "metadata": {"name": "tried-pods", "labels": {"app.kubernetes.io/name": "tried"}},
}
"""Of a webhook that nobody serves, which fails open."""
UNUSED = USED | {"metadata": {"name": "unused", "namespace": "default"}}


@dataclass(frozen=True)
class Ceiling:
    """The policies in force, a Pod with two gates, a claim that the Pod and a Job use, and one that nobody uses."""

    kubectl: Kubectl
    uid: str
    """Of the Pod."""

    def said(self, tried: "Tried") -> str:
        arguments = [each.replace('"UID"', json.dumps(self.uid)) for each in tried.arguments]
        return said(self.kubectl, *arguments, stdin=tried.stdin)

    def until(self, tried: "Tried") -> None:
        eventually(lambda: tried.fits(self.said(tried)), what=str(tried))


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Admission policies are only there."""
    return real_plane


@pytest.fixture(scope="module")
def ceiling(definitions: None, plane: Any) -> Iterator[Ceiling]:
    kubectl: Kubectl = plane.kubectl
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=60s")
    kubectl.apply(*RIGHTS, HELD, OF_CLASSES, USED, UNUSED, CONFIGURATION)
    made = Ceiling(kubectl, kubectl("get", "pod/held", "-n", "default", "-o", "jsonpath={.metadata.uid}"))
    in_use = {"status": {"allocation": ALLOCATED, "reservedFor": [BY_POD | {"uid": made.uid}, BY_JOB]}}
    kubectl(*patching("used", in_use, "--subresource=status"))
    policies = [f"--filename={path}" for path in CEILING]
    kubectl("apply", "--warnings-as-errors", *policies)
    for name in (
        "a label of a Pod",
        "an annotation of a claim",
        "the SchedulingGate of somebody else",
        "another Secret",
        "a label of a webhook configuration",
    ):
        made.until(ATTEMPTS[name])
    yield made
    kubectl("delete", *policies)
    made.until(ATTEMPTS["a label of a Pod"]._replace(want=""))
    kubectl(*patching("used", {"status": {"allocation": None, "reservedFor": None}}, "--subresource=status"))
    kubectl(*patching("used", {"metadata": {"finalizers": None}}))
    everything = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [HELD, OF_CLASSES, USED, UNUSED, CONFIGURATION, *RIGHTS[2:]],
    }
    kubectl("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=json.dumps(everything))


def patching(claim: str, body: Any, *more: str) -> list[str]:
    return ["patch", f"resourceclaim/{claim}", "-n", "default", "--type=merge", "-p", json.dumps(body), *more]


def patched(body: Any, *more: str, user: str = CONTROLLERS, claim: str = "used") -> list[str]:
    return patching(claim, body, "--dry-run=server", f"--as={user}", *more)


def reserving(*entries: Any, user: str = CONTROLLERS) -> list[str]:
    return patched({"status": {"reservedFor": list(entries)}}, "--subresource=status", user=user)


FREED = patched({"status": {"reservedFor": None, "allocation": None}}, "--subresource=status")


def of_pod(body: Any, *more: str, user: str = CONTROLLERS) -> list[str]:
    kind = "json" if isinstance(body, list) else "merge"
    where = ["pod/held", "-n", "default", "--dry-run=server", f"--as={user}", f"--type={kind}"]
    return ["patch", *where, "-p", json.dumps(body), *more]


def removal(*gates: str) -> list[str]:
    left = [{"name": gate} for gate in (OURS, QUOTA) if gate not in gates]
    return of_pod([{"op": "replace", "path": "/spec/schedulingGates", "value": left}])


def annotating(name: str, value: str, *more: str) -> list[str]:
    return of_pod({"metadata": {"annotations": {name: value}}}, *more)


class Tried(NamedTuple):
    """What kubectl is asked, and a part of its refusal; "" where there is none."""

    arguments: list[str]
    want: str
    stdin: str | None = None

    def fits(self, answer: str) -> bool:
        return bool(answer) and self.want in answer if self.want else not answer


def creates(obj: dict[str, Any], want: str, namespace: str = "default") -> Tried:
    arguments = ["create", "--dry-run=server", "-n", namespace, f"--as={CONTROLLERS}", "-f", "-"]
    return Tried(arguments, want, json.dumps(obj))


def of_configuration(*operations: Any, user: str = CONTROLLERS) -> list[str]:
    where = ["mutatingwebhookconfiguration/tried-pods", "--dry-run=server", f"--as={user}", "--type=json"]
    return ["patch", *where, "-p", json.dumps(operations)]


def a_secret(name: str, type_: str = "Opaque", **data: str) -> dict[str, Any]:
    # An account is named for the type that needs one; other types may have the annotation as well.
    meta = {"name": name, "annotations": {"kubernetes.io/service-account.name": "default"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": type_, "data": data}


def restricted(**fields: Any) -> dict[str, Any]:
    """A Pod as Tollbar's namespace accepts it."""
    drops = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    containers = [{"name": "main", "image": "none", "securityContext": drops}]
    spec = {"containers": containers, "securityContext": security, **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": spec}


def released(gate: str, *more: Any) -> list[str]:
    """The gate of a class comes off the Pod that has several, with more in the same patch."""
    left = [{"name": each} for each in GATES if each != gate]
    operations = [{"op": "replace", "path": "/spec/schedulingGates", "value": left}, *more]
    where = ["pod/classed", "-n", "default", "--dry-run=server", f"--as={CONTROLLERS}", "--type=json"]
    return ["patch", *where, "-p", json.dumps(operations)]


def declared(name: str) -> dict[str, Any]:
    (gate,) = registry.enabled([name])
    return dict(declaration(gate, [CONTROLLERS]))


IMAGE = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/other"}]
TOLERATE = {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "gpu", "operator": "Exists"}}
LABEL = {"metadata": {"labels": {"tollbar.dev/gate": "held"}}}
TRUSTED = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Q0E="}
ELSEWHERE = {"op": "replace", "path": "/webhooks/0/clientConfig/service/name", "value": "other"}
EVERYTHING = {"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*"]}
NARROWER = {"op": "remove", "path": "/webhooks/0/matchConditions"}
LABELLED = {"op": "add", "path": "/metadata/labels/a", "value": "b"}
POOL = {"key": "example.com/pool", "operator": "In", "values": ["batch"]}
NODES = {
    "op": "add",
    "path": "/spec/affinity",
    "value": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [POOL]}]}
        }
    },
}
SELECTED = {"op": "add", "path": "/spec/nodeSelector", "value": {"example.com/pool": "batch"}}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
MADE = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "held-gpu"}]}}

ATTEMPTS = {
    "the image of a container": Tried(of_pod(IMAGE), "nothing in the spec of a Pod but tolerations"),
    "the image of a container, by another user": Tried(of_pod(IMAGE, user="alice"), ""),
    "a deadline": Tried(of_pod({"spec": {"activeDeadlineSeconds": 1}}), "nothing in the spec of a Pod but tolerations"),
    "a toleration": Tried(of_pod([TOLERATE]), ""),
    "Tollbar's gate": Tried(removal(OURS), ""),
    "another gate": Tried(removal(QUOTA), "no gates but Tollbar's own"),
    "all gates": Tried(removal(OURS, QUOTA), "no gates but Tollbar's own"),
    "Tollbar's label": Tried(of_pod(LABEL), ""),
    "a label of a Pod": Tried(of_pod({"metadata": {"labels": {"a": "b"}}}), "no label of a Pod"),
    "Tollbar's record": Tried(annotating(OURS, "[]"), ""),
    "an annotation of a Pod": Tried(annotating("example.com/a", "b"), "no annotation of a Pod"),
    "an annotation of a Pod, by its status": Tried(
        annotating("example.com/a", "b", "--subresource=status"), "no annotation of a Pod"
    ),
    "a finalizer of a Pod": Tried(
        of_pod({"metadata": {"finalizers": ["example.com/a"]}}), "neither finalizers nor owners of a Pod"
    ),
    "the claims in the status of a Pod": Tried(of_pod(MADE, "--subresource=status"), ""),
    "a condition of a Pod": Tried(
        of_pod(READY, "--subresource=status"), "nothing in the status of a Pod but the claims"
    ),
    "the Pod of the trial": creates(
        restricted(schedulingGates=[{"name": "tollbar.dev/claims-trial"}]), "", SYSTEM_NAMESPACE
    ),
    "a Pod that would run": creates(restricted(), "create no Pods but the one of their trial", SYSTEM_NAMESPACE),
    "Tollbar's annotation of a claim": Tried(patched({"metadata": {"annotations": {RELEASE: "Immediately"}}}), ""),
    "an annotation of a claim": Tried(
        patched({"metadata": {"annotations": {"a": "b"}}}), "no annotation of a ResourceClaim"
    ),
    "a label of a claim": Tried(patched({"metadata": {"labels": {"a": "b"}}}), "neither labels nor owners"),
    "the protection of a claim": Tried(patched({"metadata": {"finalizers": ["example.com/mine"]}}), ""),
    "the finalizer of somebody else": Tried(patched({"metadata": {"finalizers": [PROTECTION]}}), "no finalizer"),
    "a finalizer more": Tried(
        patched({"metadata": {"finalizers": [PROTECTION, "example.com/mine", "example.com/more"]}}), "no finalizer"
    ),
    "one more reservation of a workload": Tried(reserving(BY_POD, BY_JOB, {**BY_JOB, "uid": "3"}), ""),
    "the reservation of a workload": Tried(reserving(BY_POD), ""),
    "the reservation of a Pod": Tried(reserving(BY_JOB), "leave the reservations of Pods alone"),
    "the reservation of a Pod, by another user": Tried(reserving(BY_JOB, user="alice"), ""),
    "one more reservation of a Pod": Tried(
        reserving(BY_POD, BY_JOB, {**BY_POD, "uid": "3"}), "leave the reservations of Pods alone"
    ),
    "the allocation of a claim in use": Tried(FREED, "leave the reservations of Pods alone"),
    "an allocation": Tried(
        patched({"status": {"allocation": ALLOCATED}}, "--subresource=status", claim="unused"),
        "the controllers allocate no devices",
    ),
    "the authorities that a webhook configuration trusts": Tried(of_configuration(TRUSTED), ""),
    "whom a webhook configuration calls": Tried(of_configuration(ELSEWHERE), "but the authorities that it trusts"),
    "what a webhook is asked about": Tried(of_configuration(EVERYTHING), "but the authorities that it trusts"),
    "the conditions of a webhook": Tried(of_configuration(NARROWER), "but the authorities that it trusts"),
    "one webhook more": Tried(
        of_configuration(
            {"op": "add", "path": "/webhooks/-", "value": CONFIGURATION["webhooks"][0] | {"name": "a.b.c"}}
        ),
        "but the authorities that it trusts",
    ),
    "whom a webhook configuration calls, by another user": Tried(of_configuration(ELSEWHERE, user="alice"), ""),
    "a label of a webhook configuration": Tried(of_configuration(LABELLED), "nothing in the metadata"),
    "the Secret of the authority": creates(a_secret("tollbar-webhook-ca", **{"tls.crt": "Q0E="}), "", SYSTEM_NAMESPACE),
    "another Secret": creates(a_secret("other"), "no Secret but tollbar-webhook-ca", SYSTEM_NAMESPACE),
    "the token of an account": creates(
        a_secret("tollbar-webhook-ca", "kubernetes.io/service-account-token"),
        "no Secret but tollbar-webhook-ca",
        SYSTEM_NAMESPACE,
    ),
    "something else in the Secret": creates(
        a_secret("tollbar-webhook-ca", other="Q0E="), "nothing in their Secret but authorities", SYSTEM_NAMESPACE
    ),
    "the SchedulingGate of Tollbar": creates(shipped_gate(), ""),
    "the SchedulingGate of somebody else": creates(ANOTHERS, "no gate but tollbar.dev/tolerations"),
}


@pytest.mark.parametrize("tried", ATTEMPTS.values(), ids=ATTEMPTS)
def test_what_the_controllers_may_do_at_most(ceiling: Ceiling, tried: Tried) -> None:
    answer = ceiling.said(tried)
    assert tried.fits(answer), answer


def test_with_the_rights_of_claims_replace_they_free_what_pods_leave(ceiling: Ceiling) -> None:
    ceiling.kubectl.apply(*REPLACES)
    try:
        ceiling.until(Tried(FREED, ""))
    finally:
        everything = {"apiVersion": "v1", "kind": "List", "items": REPLACES}
        ceiling.kubectl("delete", "-f", "-", stdin=json.dumps(everything))
        ceiling.until(ATTEMPTS["the allocation of a claim in use"])


KEPT = "no gates but Tollbar's own, and those of gate classes that they may release"
SAME_NODES = "the Nodes that it may run on only with a gate whose class may narrow them"
SWITCHED_OFF = {
    "the gate of a class": Tried(released(QUOTAS), KEPT),
    "the gate of a class, with other Nodes": Tried(released(PLACEMENT, NODES), SAME_NODES),
    "the SchedulingGate of a class": creates(declared("quota"), "no gate but tollbar.dev/tolerations"),
}
SWITCHED_ON = {
    "the gate of a class that changes nothing": Tried(released(QUOTAS), ""),
    "the same, with a toleration": Tried(released(QUOTAS, TOLERATE), ""),
    "the same, with other Nodes": Tried(released(QUOTAS, NODES), SAME_NODES),
    "the gate of a class that narrows": Tried(released(PLACEMENT), ""),
    "the same, with fewer Nodes": Tried(released(PLACEMENT, NODES), ""),
    "the same, with a node selector": Tried(released(PLACEMENT, SELECTED), ""),
    "the same, with another image": Tried(released(PLACEMENT, NODES, *IMAGE), "nothing in the spec of a Pod but"),
    "fewer Nodes, and every gate stays": Tried(released("", NODES), SAME_NODES),
    "the gate of a class that is switched off": Tried(released(ORDINAL), KEPT),
    "the same beside one that is on": Tried(
        released(ORDINAL, {"op": "remove", "path": "/spec/schedulingGates/0"}), KEPT
    ),
    **{f"another gate, {gate}": Tried(released(gate), KEPT) for gate in ALIKE},
    "the SchedulingGates of classes": creates(declared("quota"), ""),
    "the SchedulingGate of a class that is switched off": creates(
        declared("ordinal"), "no gate but tollbar.dev/tolerations"
    ),
    **{
        f"the SchedulingGate of {gate}": creates(
            {**ANOTHERS, "spec": {"gateName": gate}}, "no gate but tollbar.dev/tolerations"
        )
        for gate in ALIKE
    },
}


@pytest.fixture(scope="module")
def switched_on(ceiling: Ceiling) -> Iterator[Ceiling]:
    """With what `tollbar gates quota,placement --manifests` grants the controllers."""
    granted = [
        each
        for each in gates.objects(CLASSES, SYSTEM_NAMESPACE)
        if each["metadata"]["name"] == "tollbar-gates-controllers"
    ]
    ceiling.kubectl.apply(*granted)
    ceiling.until(SWITCHED_ON["the gate of a class that changes nothing"])
    yield ceiling
    ceiling.kubectl("delete", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": granted}))
    ceiling.until(SWITCHED_OFF["the gate of a class"])


@pytest.mark.parametrize("tried", SWITCHED_OFF.values(), ids=SWITCHED_OFF)
def test_without_the_rights_of_a_gate_class_its_gate_stays(ceiling: Ceiling, tried: Tried) -> None:
    answer = ceiling.said(tried)
    assert tried.fits(answer), answer


@pytest.mark.parametrize("tried", SWITCHED_ON.values(), ids=SWITCHED_ON)
def test_with_the_rights_of_a_gate_class_they_do_what_it_does_and_no_more(switched_on: Ceiling, tried: Tried) -> None:
    answer = switched_on.said(tried)
    assert tried.fits(answer), answer


def test_everything_else_stays_as_it_is_with_the_rights_of_gate_classes(switched_on: Ceiling) -> None:
    assert {name for name, tried in ATTEMPTS.items() if not tried.fits(switched_on.said(tried))} == set()
