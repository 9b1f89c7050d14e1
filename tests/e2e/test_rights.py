"""The rights of the manifests and the audit log, both ways: nothing else is asked for, and nothing is granted in vain.

Each process does in one short life all that it may have to do.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from conftest import Plane
from e2e.rights import Right, granted, missing, unused, used
from e2e.test_second_scheduler import DRIVER, OURS, PRINCIPAL, ours
from e2e.workloads import PINNED, Shared, deployment, for_web, workload_claim
from faultproxy import FaultProxy, ProxiedPlane, Refuse, Rule
from objects.builders import Built, claim, device_class, pod_group, toleration_rule
from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule
from planes.parameters import is_before
from planes.parameters import since as since_version
from planes.podgroups import FLAGS, NONE_BEFORE
from planes.replacing import BEGUN, OFF, restarted_with
from planes.replacing import RIGHTS as OF_CLAIMS
from planes.scheduling import scheduled
from processes.stack import CONTROLLERS, ROOT, SCHEDULER, WEBHOOK, Stack, eventually

from tollbar.api import webhooks
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.ports import free_ports
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Key, Object, metadata, spec
from tollbar.wellknown import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.timeout(300), since_version("1.36", "reservations need claims: Replace")]

EVICTIONS = ROOT / "manifests/components/evict-unjustified/rights.yaml"
SECRET = ("secret", "tollbar-webhook-ca", "-n", SYSTEM_NAMESPACE)
LEASE = ("lease", "tollbar-controllers", "-n", SYSTEM_NAMESPACE)
SOON: dict[str, object] = {"certificates__prePublication": "3s"}
RENEWAL = "update leases.coordination.k8s.io tollbar-controllers"
BINDING = {f"{verb} resourceclaims/binding.resource.k8s.io" for verb in ("patch", "update")}
"""Never a request of its own: the API server asks for it when a status is written that reserves or allocates."""
GROUPS = not is_before("1.37")
"""Whether PodGroups can be served: otherwise no right about them is of use."""
OF_GROUPS = set() if GROUPS else {f"{verb} podgroups.scheduling.k8s.io" for verb in ("create", "delete", "watch")}
IN_VAIN = BINDING | OF_GROUPS
LATER = {
    "update resourceclaims/binding.resource.k8s.io",
    "patch events.events.k8s.io",
    *(each for each in OF_GROUPS if each.startswith("watch ")),
}
"""The same of the scheduler, whose Events become a series when they are repeated for ten seconds."""
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


@pytest.fixture(scope="module")
def plane(
    request: pytest.FixtureRequest, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    """One that serves PodGroups, where there are any."""
    if not GROUPS:
        yield request.getfixturevalue("real_plane")
        return
    with scheduled(binaries, tmp_path_factory.mktemp("grouped"), FLAGS) as own:
        yield own


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
    do_everything(cluster, stack, since)
    eventually(second.is_ready, what="the second webhook has a certificate")
    uses, asked = (used_since(own_plane, since, user) for user in (CONTROLLERS, WEBHOOK))
    everything = manifests(stack, "default", EVICTIONS)
    for grants, found, in_vain in (
        (granted(everything, "tollbar-controllers"), uses, IN_VAIN),
        (granted(everything, "tollbar-webhook"), asked, set()),
    ):
        assert (missing(grants, found), unused(grants, found)) == (set(), in_vain)
    without_webhook = granted(manifests(stack, "policy-only", EVICTIONS), "tollbar-controllers")
    of_certificates = {"secrets", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
    others = {use for use in uses if use.resource not in of_certificates}
    assert (missing(without_webhook, others), unused(without_webhook, uses)) == (set(), IN_VAIN)
    cluster.kubectl("delete", f"--filename={EVICTIONS}")
    cluster.kubectl("delete", "crd", metadata(JOB_SETS)["name"], "--wait=false")


def test_the_scheduler(
    cluster: Cluster, stack: Stack, own_plane: RealPlane, nodes: BackgroundKubelet, tmp_path: Path
) -> None:
    name = cluster.unique("ours")
    exclusive = {"name": "DynamicResources", "args": {"exclusive": {"drivers": [DRIVER]}}}
    profile = {"schedulerName": OURS, "pluginConfig": [exclusive]}
    nodes.publish_devices("plain", DRIVER, [{"name": "ours-0"}, {"name": "ours-1"}])
    cluster.create(device_class(name).selecting(f'device.driver == "{DRIVER}"').backing("example.com/ours"))
    since = own_plane.audit_fence()
    with FaultProxy(own_plane.kubeconfig, tmp_path / "proxy") as proxy, proxy.faults(*UNLUCKY):
        process = replace(stack, plane=ProxiedPlane(own_plane, proxy)).scheduler(
            elects=True, leaderElection={"leaderElect": True, "resourceName": OURS}, profiles=[profile]
        )
        schedule(cluster, name)
        process.stop()
        assert {rule.name for rule in UNLUCKY} == set(proxy.hits)
    uses, grants = used_since(own_plane, since, PRINCIPAL), manifests(stack, "default", SCHEDULER / "rights.yaml")
    allowed = granted(grants, OURS)
    assert (missing(allowed, uses), unused(allowed, uses)) == (set(), LATER)


@pytest.fixture
def generating(stack: Stack, own_plane: RealPlane, nodes: BackgroundKubelet) -> Iterator[Stack]:
    """kube-controller-manager leaves claims alone, and a Node that is not reserved has devices."""
    nodes.add_node(NodeSpec("gpu-2"))
    nodes.publish_devices("gpu-2", "gpu.example.com", [{"name": f"gpu-{index}"} for index in range(64)])
    with restarted_with(own_plane, CONTROLLER_MANAGER, *FLAGS[CONTROLLER_MANAGER], OFF):
        own_plane.kubectl("apply", "--server-side", f"--filename={OF_CLAIMS}")
        yield stack


@since_version("1.37", NONE_BEFORE)
def test_in_the_place_of_the_claim_controller(
    cluster: Cluster, generating: Stack, own_plane: RealPlane, nodes: BackgroundKubelet
) -> None:
    """The last one: its controllers give way once kube-controller-manager generates claims again."""
    start_anew(cluster, generating)
    cluster.kubectl("apply", "--server-side", f"--filename={EVICTIONS}")
    cluster.kubectl.apply(JOB_SETS)
    since = own_plane.audit_fence()
    process = generating.controllers(
        claims="Replace", leaderElection__enabled=True, onUnjustifiedToleration="Evict", **SOON
    )
    eventually(lambda: process.said(BEGUN), what="it generates")
    do_everything(cluster, generating, since)
    generate(cluster, nodes)
    uses, grants = used_since(own_plane, since, CONTROLLERS), manifests(generating, "default", EVICTIONS, OF_CLAIMS)
    allowed = granted(grants, "tollbar-controllers")
    assert (missing(allowed, uses), unused(allowed, uses)) == (set(), BINDING)


def used_since(plane: RealPlane, since: int, user: str) -> set[Right]:
    plane.audit_fence()
    return used(plane.audit.records(since), user)


def start_anew(cluster: Cluster, stack: Stack) -> None:
    """Nothing is there of what the controllers make."""
    stack.running["controllers"].stop()
    for each in (("schedulinggates", "--all"), SECRET, LEASE):
        cluster.kubectl("delete", "--ignore-not-found", *each)


def do_everything(cluster: Cluster, stack: Stack, since: int) -> None:
    """What controllers that keep claims for workloads may have to do."""
    release(cluster)
    swap(cluster)
    reserve(cluster)
    if GROUPS:
        group(cluster)
    look_up(cluster)
    certify(stack)
    look_ups = {RENEWAL, *(f"watch {kind}" for kind in WORKLOADS)}
    eventually(lambda: look_ups <= {str(use) for use in used_since(stack.plane, since, CONTROLLERS)}, what="looked up")


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
    """A claim is put in the place of another one, too large for the caches; the rule reads more of the Pod than they
    keep."""
    gpu = cluster.class_("swapped")
    expression = gpu_rule(gpu)["spec"]["match"]["cel"]["expression"]
    a_ready_rule(cluster, gpu_rule(gpu).cel(f"pod.spec.serviceAccountName != '' && {expression}"))
    asked = {"name": "gpu", "exactly": {"deviceClassName": gpu, "count": 65}}
    cluster.create(cluster.claim("sly", gpu).but("spec.devices.requests", [asked]))
    cluster.until_younger_than("tolerationrule", gpu)
    cluster.create_known(cluster.pod("sly").claims("sly").labelled(app="sly"))
    cluster.kubectl("delete", "resourceclaim", "sly", "-n", cluster.namespace)
    cluster.until_younger_than("pod", "sly")
    create_too_large(cluster, claim("sly", cluster.namespace))
    eventually(lambda: "sly" not in {metadata(each)["name"] for each in cluster.pods()}, what="evicted")


def create_too_large(cluster: Cluster, obj: Built) -> None:
    """With labels that take more than a mebibyte of memory: the API server counts neither them nor their length."""
    labelled = as_written(obj.labelled({f"l{number}": "x" * 63 for number in range(6000)}))
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(labelled))


def reserve(cluster: Cluster) -> None:
    """A claim is made, of a template that is too large for the caches, reserved for a Deployment and given back."""
    shared = Shared(cluster)
    create_too_large(cluster, cluster.template("one", cluster.class_("one")))
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
    """The authority is made, and made anew since its Secret was damaged; then the webhook is called as before."""
    kubectl, to = stack.plane.kubectl, webhooks.at_service()
    stack.unregister()
    kubectl.apply(webhooks.pods_configuration(to), webhooks.rules_configuration(to))
    eventually(lambda: kubectl("get", *SECRET, "--ignore-not-found"), what="an authority")
    kubectl("patch", *SECRET, "--type=json", "-p", '[{"op":"remove","path":"/data"}]')
    eventually(lambda: kubectl.json("get", *SECRET).get("data"), what="a new authority")
    bundles = ("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "jsonpath={..caBundle}")
    eventually(lambda: len(kubectl(*bundles).split()) >= 2, what="both configurations trust it")
    stack.unregister()
    stack.register()


def generate(cluster: Cluster, kubelet: BackgroundKubelet) -> None:
    """A claim lives and ends with its Pod; that of a PodGroup is deleted by somebody, and made again."""
    here = ("-n", cluster.namespace)
    cluster.create(cluster.template("made", cluster.class_("made")), cluster.pod("one").templates("made"))
    cluster.runs("one")
    kubelet.finish(Key(cluster.namespace, "one"))
    gang = pod_group("gang", cluster.namespace).templates("made")
    cluster.kubectl.apply(as_written(gang.but("spec.schedulingPolicy", {"gang": {"minCount": 1}})))

    def claims() -> list[tuple[str, str]]:
        """Names, and whose they are, of those that were made from the template."""
        found = [metadata(each) for each in cluster.claims()]
        return [(each["name"], each["ownerReferences"][0]["name"]) for each in found if "-made-" in each["name"]]

    eventually(lambda: [owner for _, owner in claims()] == ["gang"], what="one is gone, the other one is there")
    status = ("get", "podgroup", "gang", *here, "-o", "jsonpath={.status.resourceClaimStatuses[*].resourceClaimName}")
    name = eventually(lambda: cluster.kubectl(*status), what="the PodGroup is told of its claim")
    cluster.kubectl("delete", "resourceclaim", name, *here)
    eventually(lambda: claims() and claims() != [(name, "gang")], what="made again")


def group(cluster: Cluster) -> None:
    """A PodGroup is made for a workload, and is not wanted any more."""
    shared = Shared(cluster, "grouped")
    grouped = {"resourceClaimTemplateName": "one", "podGroup": {"podClaimName": "device"}}
    shared.apply(
        workload_claim("grouped", "deployments", "apps", "apart", **grouped), deployment("apart", "grouped", replicas=0)
    )
    found = ("get", "podgroup", "grouped", "--ignore-not-found")
    eventually(lambda: shared.run(*found), what="a PodGroup")
    remove = '[{"op": "remove", "path": "/spec/podGroup"}]'
    shared.run("patch", "workloadclaim", "grouped", "--type=json", "-p", remove)
    eventually(lambda: not shared.run(*found), what="the PodGroup is gone")


UNLUCKY = (
    Rule("claims conflict", Refuse(409, "Conflict"), {"update"}, {"resourceclaims"}, "status", nth=(1,)),
    Rule(
        "bindings are broken",
        Refuse(500, "InternalError"),
        {"create"},
        {"pods"},
        "binding",
        where=lambda request: request.name == "extended",
        nth=(1,),
    ),
)
"""So that it reads again what it wrote in vain, and takes back what it had made."""


def schedule(cluster: Cluster, device: str) -> None:
    """Pods get devices by claims and by extended resources, and one makes room for another."""
    cluster.create(cluster.template("mine", device))
    pod = as_written(cluster.pod("device").templates("mine"))
    cluster.create({**pod, "spec": {**spec(pod), "schedulerName": OURS}})
    assert cluster.bound_to("device") == "plain"
    amount = {"example.com/ours": "1"}
    wants = [{"name": "main", "image": "example.com/app", "resources": {"requests": amount, "limits": amount}}]
    cluster.create(ours(cluster, "extended", containers=wants))
    assert cluster.bound_to("extended") == "plain"
    names = {name: cluster.unique(name) for name in ("low", "high")}
    for value, name in enumerate(names.values(), 1):
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        cluster.kubectl.apply({**priority, "value": value})
    large = [{"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": "40"}}}]
    there = {"nodeSelector": {"kubernetes.io/hostname": "plain"}, "containers": large}
    cluster.create(ours(cluster, "victim", priorityClassName=names["low"], **there))
    cluster.bound_to("victim")
    cluster.create(ours(cluster, "winner", priorityClassName=names["high"], **there))
    cluster.bound_to("winner")
