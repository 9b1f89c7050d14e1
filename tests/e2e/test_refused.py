"""Other admission that is against a rule's tolerations: the Pod is not held for longer than maxHold because of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule, provenance
from planes.parameters import since
from planes.policies import said, until_said
from processes.stack import ROOT, Stack, eventually

from tollbar.devplane.kubectl import KubectlError
from tollbar.model.objects import Object
from tollbar.wellknown import ANNOTATION_PROVENANCE, LABEL_SKIP

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


@since("1.36", "no MutatingAdmissionPolicy")
def test_a_reserved_key_comes_by_a_rule_at_admission_with_the_gate_and_late_and_no_other_way(
    cluster: Cluster, stack: Stack
) -> None:
    gpu, late = cluster.class_(), cluster.unique("late")
    # One without a key, whose empty members the API server does not store.
    everything: Object = {"key": "", "operator": "Exists", "value": "", "effect": "NoExecute"}
    both = gpu_rule(gpu).giving(RESERVED, everything).but("spec.allowReservedKeys", True)
    a_ready_rule(cluster, both, gpu_rule(late))
    cluster.create(cluster.template("mine", gpu), cluster.template("later", late))
    with reserved_keys(cluster) as tenant:
        cluster.create(cluster.pod("held").templates("later"))
        assert cluster.held() == {"held"}
        cluster.create_known(cluster.pod("asks").templates("mine"))
        tenants = as_written(cluster.pod("tenants").templates("mine"))
        assert said(cluster.kubectl, *tenant, stdin=json.dumps(tenants)) == ""
        cluster.class_("late")
        record = cluster.get("asks")["metadata"]["annotations"]
        forged = as_written(cluster.pod("forges").tolerating(RESERVED), annotations=record)
        assert "only a TolerationRule gives" in said(cluster.kubectl, *tenant, stdin=json.dumps(forged))
        stack.running["webhook"].stop()
        assert "only a TolerationRule gives" in said(cluster.kubectl, *tenant, stdin=json.dumps(forged))
        cluster.create(cluster.pod("missed").templates("mine"))
        names = ("asks", "held", "missed")
        assert {name: cluster.bound_to(name) for name in names} == dict.fromkeys(names, "gpu-1")
        ways = {name: [entry["via"] for entry in provenance(cluster.get(name))] for name in names}
        assert ways == {"asks": ["admission"], "held": ["gate"], "missed": ["late"]}
        stack.webhook()


@contextmanager
def reserved_keys(cluster: Cluster) -> Iterator[list[str]]:
    """The component of that name in force, and how a tenant of the namespace creates a Pod."""
    kubectl, folder = cluster.kubectl, ROOT / "manifests/components/reserved-keys"
    files = [f"--filename={folder}/{name}.yaml" for name in ("rights", "pods", "record", "workloads")]
    tenant = f"system:serviceaccount:{cluster.namespace}:a"
    binding = ("tenants", f"--user={tenant}", "-n", cluster.namespace)
    kubectl("create", "rolebinding", *binding, "--clusterrole=edit")
    creates = ["create", "--dry-run=server", f"--as={tenant}", "-f", "-"]
    kubectl("apply", "--server-side", *files)
    forbidden = json.dumps(as_written(cluster.pod("tried").tolerating(RESERVED)))
    recorded = cluster.pod("tried").annotated({ANNOTATION_PROVENANCE: "[]"}).labelled({LABEL_SKIP: "true"})
    try:
        until_said(kubectl, "only a TolerationRule gives", *creates, stdin=forbidden)
        dry = [*creates, "-o", "yaml"]  # Tollbar's webhook is not asked about a Pod with this label
        eventually(lambda: ANNOTATION_PROVENANCE not in kubectl(*dry, stdin=json.dumps(as_written(recorded))))
        yield creates
    finally:
        kubectl("delete", *files)
        until_said(kubectl, "", *creates, stdin=forbidden)
