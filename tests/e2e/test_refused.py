"""Other admission that is against a rule's tolerations: the Pod is not held for longer than maxHold because of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from cluster import RESERVED, Cluster, a_ready_rule, gpu_rule
from stack import eventually

from tollbar.devplane.kubectl import KubectlError
from tollbar.model.objects import Object

KEY = RESERVED["key"]
WORDS = "this key is not for everybody"
OTHERS_GATE = "other.dev/quota"


def test_a_pod_whose_tolerations_are_refused_is_released_without_them_and_gets_them_late(cluster: Cluster) -> None:
    kubectl, gpu = cluster.kubectl, cluster.class_()
    kubectl("wait", "--for=create", "schedulinggate/tolerations", "--timeout=60s")
    kubectl("patch", "schedulinggate", "tolerations", "--type=merge", "-p", '{"spec":{"maxHold":"3s"}}')
    expression = gpu_rule(gpu)["spec"]["match"]["cel"]["expression"]
    a_ready_rule(cluster, gpu_rule(gpu).cel(f'pod.metadata.uid != "" && {expression}'))  # no admission can decide that
    cluster.create(cluster.template("mine", gpu))
    with refused_updates(cluster):
        cluster.create(cluster.pod().templates("mine"))
        assert cluster.decided() == []
        said = eventually(lambda: complete(cluster.events("web")), what="the events")
        assert WORDS in said["ReleaseRefused"]
        assert f"released after 3s, without the tolerations by {gpu}, which the API server" in said["GateOverdue"]
        assert WORDS in said["GateOverdue"]
        assert cluster.get()["metadata"]["labels"]["tollbar.dev/gate"] == "released"
    assert cluster.bound_to() == "gpu-1"
    assert cluster.tolerations() == [RESERVED]


def complete(events: list[tuple[str, str]]) -> dict[str, str]:
    """The notes by reason, once the last one is there."""
    return dict(events) if {"ReleaseRefused", "GateOverdue", "GateReleased"} <= dict(events).keys() else {}


@contextmanager
def refused_updates(cluster: Cluster) -> Iterator[None]:
    """A policy of this namespace that refuses updates of Pods which tolerate the reserved key; in force, then gone."""
    name = cluster.unique("tolerations")
    untolerated = f"!has(object.spec.tolerations) || object.spec.tolerations.all(t, !has(t.key) || t.key != '{KEY}')"
    policy = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": untolerated, "message": WORDS, "reason": "Forbidden"}],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    both = [
        admission("ValidatingAdmissionPolicy", name, policy),
        admission("ValidatingAdmissionPolicyBinding", name, binding),
    ]
    cluster.create(cluster.pod("tried").but("spec.schedulingGates", [{"name": OTHERS_GATE}]))
    cluster.kubectl.apply(*both)
    try:
        eventually(lambda: is_refused(cluster), what="the policy in force")
        yield
    finally:
        for each in both:
            cluster.kubectl("delete", each["kind"], name)


def admission(kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def is_refused(cluster: Cluster) -> bool:
    """Asked without effect: the API server learns of policies from a watch of its own."""
    patch = json.dumps([{"op": "add", "path": "/spec/tolerations/-", "value": RESERVED}])
    dry = ("--dry-run=server", "--type=json", "-p", patch)
    try:
        cluster.kubectl("patch", "pod", "tried", "-n", cluster.namespace, *dry)
    except KubectlError as error:
        return WORDS in error.stderr
    return False
