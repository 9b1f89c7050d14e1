"""The rights of the manifests and the audit log, both ways: nothing else is asked for, and nothing is granted in vain.

Each process does in one short life all that it may have to do.
"""

from pathlib import Path

import pytest
import yaml
from builders import claim, toleration_rule
from cluster import RESERVED, Cluster, a_ready_rule, gpu_rule
from planes import since as since_version
from rights import Right, granted, missing, unused, used
from stack import CONTROLLERS, ROOT, WEBHOOK, Stack, eventually
from workloads import PINNED, Shared, deployment, for_web

from tollbar.api import webhooks
from tollbar.devplane.ports import free_ports
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object, metadata
from tollbar.wellknown import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.timeout(300), since_version("1.36", "reservations need claims: Replace")]

EVICTIONS = ROOT / "manifests/components/evict-unjustified/rights.yaml"
SECRET = ("secret", "tollbar-webhook-ca", "-n", SYSTEM_NAMESPACE)
LEASE = ("lease", "tollbar-controllers", "-n", SYSTEM_NAMESPACE)
SOON: dict[str, object] = {"certificates__prePublication": "3s"}
RENEWAL = "update leases.coordination.k8s.io tollbar-controllers"
BINDING = {f"{verb} resourceclaims/binding.resource.k8s.io" for verb in ("patch", "update")}
"""Never a request of its own: the API server asks for it when a status is written that reserves or allocates."""
POD_GROUPS = {f"{verb} podgroups.scheduling.k8s.io" for verb in ("create", "delete", "watch")}
"""Of use where PodGroups are served (tests/e2e/test_many_consumers.py)."""
WORKLOADS = (
    "replicationcontrollers",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "jobsets.jobset.x-k8s.io",
)
JOB_SETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "jobsets.jobset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "jobset.x-k8s.io",
        "names": {"kind": "JobSet", "plural": "jobsets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def manifests(stack: Stack, overlay: str, *files: Path) -> list[Object]:
    texts = [stack.plane.kubectl("kustomize", str(ROOT / "manifests/overlays" / overlay)), *map(Path.read_text, files)]
    return [obj for text in texts for obj in yaml.safe_load_all(text)]


def test_tolerations_only(cluster: Cluster, stack: Stack, own_plane: RealPlane) -> None:
    start_anew(cluster, stack)
    since = own_plane.audit_fence()
    stack.controllers(leaderElection__enabled=True, claims="Disabled", **SOON)
    release(cluster)
    certify(stack)
    eventually(lambda: RENEWAL in map(str, used_since(own_plane, since, CONTROLLERS)), what="the lease is renewed")
    uses, grants = (
        used_since(own_plane, since, CONTROLLERS),
        granted(manifests(stack, "minimal"), "tollbar-controllers"),
    )
    stack.unregister()
    stack.register()
    assert (missing(grants, uses), unused(grants, uses)) == (set(), set())


def test_the_controllers_and_the_webhook(cluster: Cluster, stack: Stack, own_plane: RealPlane) -> None:
    start_anew(cluster, stack)
    cluster.kubectl("apply", "--server-side", f"--filename={EVICTIONS}")
    cluster.kubectl.apply(JOB_SETS)
    since = own_plane.audit_fence()
    (port,) = free_ports(1)
    own: dict[str, object] = {"webhook__port": port, "webhook__certFile": "", "webhook__keyFile": ""}
    second = stack.start("second", "webhooks", ready=False, leaderElection__enabled=True, **own, **SOON)
    stack.controllers(leaderElection__enabled=True, onUnjustifiedToleration="Evict", **SOON)
    release(cluster)
    swap(cluster)
    reserve(cluster)
    look_up(cluster)
    certify(stack)
    eventually(second.is_ready, what="the second webhook has a certificate")
    look_ups = {RENEWAL, *(f"watch {kind}" for kind in WORKLOADS)}
    eventually(lambda: look_ups <= {str(use) for use in used_since(own_plane, since, CONTROLLERS)}, what="looked up")
    uses, asked = (used_since(own_plane, since, user) for user in (CONTROLLERS, WEBHOOK))
    everything = manifests(stack, "default", EVICTIONS)
    for grants, found, in_vain in (
        (granted(everything, "tollbar-controllers"), uses, BINDING | POD_GROUPS),
        (granted(everything, "tollbar-webhook"), asked, set()),
    ):
        assert (missing(grants, found), unused(grants, found)) == (set(), in_vain)
    without_webhook = granted(manifests(stack, "policy-only", EVICTIONS), "tollbar-controllers")
    of_certificates = {"secrets", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
    others = {use for use in uses if use.resource not in of_certificates}
    assert (missing(without_webhook, others), unused(without_webhook, uses)) == (set(), BINDING | POD_GROUPS)
    cluster.kubectl("delete", f"--filename={EVICTIONS}")
    cluster.kubectl("delete", "crd", metadata(JOB_SETS)["name"], "--wait=false")


def used_since(plane: RealPlane, since: int, user: str) -> set[Right]:
    plane.audit_fence()
    return used(plane.audit.records(since), user)


def start_anew(cluster: Cluster, stack: Stack) -> None:
    """Nothing is there of what the controllers make."""
    stack.running["controllers"].stop()
    for each in (("schedulinggates", "--all"), SECRET, LEASE):
        cluster.kubectl("delete", "--ignore-not-found", *each)


def release(cluster: Cluster) -> None:
    """Pods are held and released, and a rule fails for many at once, whose Events become one series."""
    late = cluster.unique("late")
    failing = toleration_rule(cluster.unique("failing")).cel("pod.metadata.labels['none'] == '' && claims.size() > 0")
    a_ready_rule(cluster, gpu_rule(late), failing.giving(RESERVED))
    cluster.create(cluster.template("late", late))
    cluster.create(*(cluster.pod(f"web-{i}").templates("late") for i in range(10)))
    cluster.class_("late")
    eventually(lambda: not cluster.held(), what="released")


def swap(cluster: Cluster) -> None:
    """A claim is put in the place of another one; the rule reads more of the Pod than the caches keep."""
    gpu = cluster.class_("swapped")
    expression = gpu_rule(gpu)["spec"]["match"]["cel"]["expression"]
    a_ready_rule(cluster, gpu_rule(gpu).cel(f"pod.spec.serviceAccountName != '' && {expression}"))
    asked = {"name": "gpu", "exactly": {"deviceClassName": gpu, "count": 65}}
    cluster.create(cluster.claim("sly", gpu).but("spec.devices.requests", [asked]))
    cluster.until_younger_than("tolerationrule", gpu)
    cluster.create_known(cluster.pod("sly").claims("sly").labelled(app="sly"))
    cluster.kubectl("delete", "resourceclaim", "sly", "-n", cluster.namespace)
    cluster.until_younger_than("pod", "sly")
    cluster.create(claim("sly", cluster.namespace))
    eventually(lambda: "sly" not in {metadata(each)["name"] for each in cluster.pods()}, what="evicted")


def reserve(cluster: Cluster) -> None:
    """A claim is made, reserved for a Deployment and given back."""
    shared = Shared(cluster)
    cluster.create(cluster.template("one", cluster.class_("one")))
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    shared.run("delete", "workloadclaim", "device")
    shared.run("delete", "deployment", "web")
    shared.until(shared.entries, [])


def look_up(cluster: Cluster) -> None:
    """Claims are to be kept for a workload of each kind."""
    for kind in WORKLOADS:
        kept = claim(kind, cluster.namespace).request(cluster.unique("one"))
        cluster.create(kept.annotated({"tollbar.dev/reserved-for": f"{kind}/x"}))


def certify(stack: Stack) -> None:
    """The authority is made, and made anew since its Secret was damaged."""
    kubectl, to = stack.plane.kubectl, webhooks.at_service()
    stack.unregister()
    kubectl.apply(webhooks.pods_configuration(to), webhooks.rules_configuration(to))
    eventually(lambda: kubectl("get", *SECRET, "--ignore-not-found"), what="an authority")
    kubectl("patch", *SECRET, "--type=json", "-p", '[{"op":"remove","path":"/data"}]')
    eventually(lambda: kubectl.json("get", *SECRET).get("data"), what="a new authority")
    bundles = ("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "jsonpath={..caBundle}")
    eventually(lambda: len(kubectl(*bundles).split()) >= 2, what="both configurations trust it")
