"""`claims: Replace` beside the real kube-scheduler, with kube-controller-manager's claim controller switched off.

Writes are counted from the audit log.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from contract.hooks import serving
from e2e import kueue
from planes.objects import RESERVED, Cluster, gpu_rule, is_compiled
from planes.replacing import namespace_of, start
from processes.stack import CONTROLLERS, Stack, eventually

from tollbar import wellknown
from tollbar.devplane.background import BackgroundKubelet
from tollbar.model import pods
from tollbar.model.objects import Key, Object, key_of

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(replaced: Stack, node: BackgroundKubelet, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    found = Cluster(replaced.plane.kubectl, namespace_of(replaced, request.node.name))
    yield found
    found.clear()


def the_claim(cluster: Cluster) -> Object:
    (found,) = eventually(cluster.claims, what="a claim")
    return dict(found)


def state(claim: Object) -> tuple[bool, list[str], bool]:
    """Allocated, consumers' names, protected."""
    status = claim.get("status") or {}
    finalizers = claim["metadata"].get("finalizers", [])
    return (
        "allocation" in status,
        sorted(entry["name"] for entry in status.get("reservedFor", [])),
        wellknown.DELETE_PROTECTION_FINALIZER in finalizers,
    )


def writes(stack: Stack, since: int, namespace: str) -> Counter[tuple[str, str, int]]:
    """What our controllers wrote: (verb, resource/subresource, code), Events excepted."""
    stack.plane.audit_fence()
    found = stack.plane.audit.writes(since, user=CONTROLLERS, namespace=namespace)
    return Counter(
        (r.verb, f"{r.resource}/{r.subresource}".rstrip("/"), r.code) for r in found if r.resource != "events"
    )


def test_the_life_of_a_generated_claim_and_its_five_writes(
    cluster: Cluster, replaced: Stack, node: BackgroundKubelet
) -> None:
    since = replaced.plane.audit_fence()
    given = cluster.template("mine", cluster.class_()).giving({"team": "a"}, {"note": "b"})
    cluster.create(given, cluster.pod().templates("mine"))
    cluster.runs()
    claim = the_claim(cluster)
    meta = claim["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "controller": True,
        "uid": cluster.get()["metadata"]["uid"],
    }
    assert (meta["name"][:9], meta["labels"], meta["annotations"], meta["ownerReferences"]) == (
        "web-mine-",
        {"team": "a"},
        {"note": "b", wellknown.POD_CLAIM_NAME_ANNOTATION: "mine"},
        [owner],
    )
    assert state(claim) == (True, ["web"], True)
    assert recorded_by(cluster) == {wellknown.CLAIMS_FIELD_MANAGER: ["mine"]}

    node.finish(Key(cluster.namespace, "web"))
    eventually(lambda: cluster.claims() == [], what="deleted although its Pod is still there")
    assert cluster.get()["status"]["phase"] == "Succeeded"
    assert writes(replaced, since, cluster.namespace) == {
        ("create", "resourceclaims", 201): 1,
        ("patch", "pods/status", 200): 1,
        ("update", "resourceclaims/status", 200): 1,
        ("patch", "resourceclaims", 200): 1,
        ("delete", "resourceclaims", 200): 1,
    }


def recorded_by(cluster: Cluster) -> dict[str, list[str]]:
    """Entries of `status.resourceClaimStatuses` by field manager."""
    pod = cluster.kubectl.json("get", "pod", "web", "-n", cluster.namespace, "--show-managed-fields")
    fields = {
        each["manager"]: each["fieldsV1"].get("f:status", {}).get("f:resourceClaimStatuses", {})
        for each in pod["metadata"]["managedFields"]
    }
    found: dict[str, list[str]] = {}
    for manager, entries in fields.items():
        if names := [key.split('"')[3] for key in entries if key.startswith("k:")]:
            found[manager] = names
    return found


def test_a_template_that_comes_late(cluster: Cluster) -> None:
    gpu = cluster.class_()
    cluster.create(cluster.pod().templates("mine"))
    missing = (
        'PodResourceClaim mine: resource claim template "mine": resourceclaimtemplate.resource.k8s.io "mine" not found'
    )
    reason = ("FailedResourceClaimCreation", missing)
    eventually(lambda: reason in cluster.events("web"), what="said what is missing")
    cluster.create(cluster.template("mine", gpu))
    assert cluster.bound_to() == "gpu-1"
    assert len(cluster.claims()) == 1


def test_a_finished_pod_beside_a_running_one_costs_one_write(
    cluster: Cluster, replaced: Stack, node: BackgroundKubelet
) -> None:
    """kube-controller-manager 1.37 takes the entry away and adds it again, for ever (kubernetes#141274)."""
    cluster.create(cluster.claim("shared", cluster.class_()))
    cluster.create(cluster.pod("ends").claims("shared"), cluster.pod("runs").claims("shared"))
    for name in ("ends", "runs"):
        cluster.runs(name)
    since = replaced.plane.audit_fence()
    node.finish(Key(cluster.namespace, "ends"))
    eventually(lambda: state(the_claim(cluster)) == (True, ["runs"], True), what="the finished one's entry is gone")
    # Both must have been looked at again since: what follows makes events about the claim and about either Pod.
    cluster.kubectl("label", "resourceclaim/shared", "pod/ends", "pod/runs", "-n", cluster.namespace, "seen=yes")
    cluster.create(cluster.template("mine", cluster.unique("gpu")), cluster.pod("later").templates("mine"))
    cluster.bound_to("later")
    replaced.plane.audit_fence()
    written = replaced.plane.audit.writes(since, user=CONTROLLERS, namespace=cluster.namespace)
    shared = [r for r in written if r.name == "shared"]
    assert [(r.verb, r.subresource, r.code) for r in shared] == [("update", "status", 200)]

    node.finish(Key(cluster.namespace, "runs"))
    eventually(
        lambda: state(next(c for c in cluster.claims() if key_of(c).name == "shared")) == (False, [], False),
        what="the last one's entry takes the allocation along",
    )


def test_a_pod_that_is_deleted_before_it_ran(cluster: Cluster) -> None:
    cluster.create(cluster.template("mine", cluster.unique("never")), cluster.pod().templates("mine"))
    the_claim(cluster)
    cluster.kubectl("delete", "pod", "web", "-n", cluster.namespace)
    eventually(lambda: cluster.claims() == [], what="gone with its Pod")


def test_a_claim_that_somebody_deletes_is_made_again(cluster: Cluster) -> None:
    cluster.create(cluster.template("mine", cluster.unique("never")), cluster.pod().templates("mine"))
    first = the_claim(cluster)["metadata"]["name"]
    cluster.kubectl("delete", "resourceclaim", first, "-n", cluster.namespace)

    def again() -> Any:
        names = [key_of(claim).name for claim in cluster.claims()]
        statuses = cluster.get()["status"].get("resourceClaimStatuses")
        return names and names != [first] and statuses == [{"name": "mine", "resourceClaimName": names[0]}]

    eventually(again, what="a second claim, recorded")


def test_a_pod_that_was_bound_by_hand_gets_its_reservation(cluster: Cluster) -> None:
    cluster.create(cluster.claim("shared", cluster.class_()), cluster.pod("first").claims("shared"))
    cluster.bound_to("first")
    cluster.create(cluster.pod("placed").claims("shared").but("spec.nodeName", "gpu-1"))
    eventually(lambda: state(the_claim(cluster)) == (True, ["first", "placed"], True), what="reserved for both")


def test_nothing_is_written_on_a_restart_and_what_was_missed_is_made_up(cluster: Cluster, replaced: Stack) -> None:
    gpu = cluster.class_()
    cluster.create(cluster.template("mine", gpu), cluster.pod("stays").templates("mine"))
    cluster.create(cluster.pod("goes").templates("mine"))
    for name in ("stays", "goes"):
        cluster.bound_to(name)
    replaced.running["controllers"].kill()
    cluster.kubectl("delete", "pod", "goes", "-n", cluster.namespace, "--force", "--grace-period=0")
    cluster.create(cluster.pod("new").templates("mine"))
    since = replaced.plane.audit_fence()
    start(replaced)
    cluster.bound_to("new")
    eventually(lambda: len(cluster.claims()) == 2, what="the claim of the Pod that went is gone")
    replaced.plane.audit_fence()
    records = replaced.plane.audit.writes(since, user=CONTROLLERS, namespace=cluster.namespace)
    assert [r for r in records if r.name.startswith("stays") or (r.resource == "pods" and r.name != "new")] == []


def test_beside_another_generator_it_refuses_until_that_one_is_gone(replaced: Stack) -> None:
    """Another process of ours stands for kube-controller-manager: whoever records a claim in the Pod's status."""
    second = replaced.controllers("second", ready=False, claims="Replace")
    eventually(lambda: second.said("ResourceClaims are not replaced"), what="refused")
    try:
        assert not second.is_ready()
        assert second.said(f"field manager {wellknown.CLAIMS_FIELD_MANAGER} generates ResourceClaims already")
        about = Cluster(replaced.plane.kubectl, "default")
        eventually(lambda: "ClaimsNotReplaced" in dict(about.events(wellknown.SYSTEM_NAMESPACE)), what="an Event")
        replaced.running["controllers"].stop()
        eventually(second.is_ready, what="ready when it is alone")
    finally:
        second.stop()
        start(replaced)


def test_claims_are_generated_while_kueue_holds_the_pods(cluster: Cluster, replaced: Stack) -> None:
    """That is no change to what Kueue compares; nor are, without Tollbar's webhook, late tolerations."""
    kueue.define(cluster.kubectl)
    gpu = cluster.class_()
    cluster.create(gpu_rule(gpu), cluster.template("gpu", gpu))
    is_compiled(cluster, gpu_rule(gpu))
    kueue.a_queue(cluster.kubectl, cluster.namespace)
    with serving() as hooks, kueue.beside(replaced.plane, cluster.namespace) as queue:
        with kueue.webhooks(hooks, queue.api):
            cluster.create(kueue.queued(cluster.pod("one")).templates("gpu"))
            cluster.create(*(kueue.queued(cluster.pod(f"all-{at}"), "all").templates("gpu") for at in range(2)))
        queue.look()
        names = ("one", "all-0", "all-1")

        def is_generated(name: str) -> bool:
            found = cluster.get(name)["status"].get("resourceClaimStatuses")
            return bool(found) and cluster.tolerations(name) == [RESERVED]

        eventually(lambda: all(map(is_generated, names)), what="claims are generated and tolerations added")
        assert all(pods.gate_names(each) == [kueue.GATE] for each in cluster.pods())
        queue.look()
        queue.run(kueue.workload_of(cluster.get("one")))
        queue.run("all")
        assert [cluster.bound_to(each) for each in names] == ["gpu-1"] * 3
        queue.look()
        assert not kueue.HARMFUL & set(queue.reasons()), queue.told
