"""PodGroups that share claims (KEP-5729), where the cluster serves them: `claims: Replace` on the real API server.

No scheduler: what it would write, the test writes.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from objects.builders import pod_group
from planes.objects import Cluster, as_written
from planes.parameters import since
from planes.podgroups import FLAGS, NONE_BEFORE
from planes.replacing import namespace_of, replacing
from processes.stack import Stack, eventually

from tollbar import wellknown
from tollbar.devplane.binaries import Binaries
from tollbar.model.objects import Object, controller_of, key_of

pytestmark = [pytest.mark.timeout(300), since("1.37", NONE_BEFORE)]


@pytest.fixture(scope="module")
def grouped(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with replacing(binaries, tmp_path_factory.mktemp("grouped"), FLAGS) as stack:
        yield stack


def claims_by_owner(cluster: Cluster) -> dict[str, Object]:
    owners = ((controller_of(each), each) for each in cluster.claims())
    return {f"{owner['kind']} {owner['name']}": each for owner, each in owners if owner is not None}


def test_a_group_shares_a_claim_that_lives_as_long_as_it_does(grouped: Stack) -> None:
    cluster = Cluster(grouped.plane.kubectl, namespace_of(grouped, "a-group-shares-a-claim"))
    in_ours, kubectl = ("-n", cluster.namespace), cluster.kubectl
    templates = [cluster.template(name, cluster.unique("never")) for name in ("shared", "own")]
    member = cluster.pod().templates("shared", "own").in_group("gang").but("spec.nodeName", "gpu-1")
    cluster.create(*templates, member, cluster.pod("later").templates("own"))
    group = pod_group("gang", cluster.namespace).templates("shared")
    eventually(lambda: cluster.generated("later"), what="told of its claim")
    assert list(claims_by_owner(cluster)) == ["Pod later"], "nothing for its predecessor before its PodGroup is known"
    kubectl("delete", "pod", "later", *in_ours)
    eventually(lambda: claims_by_owner(cluster) == {}, what="gone with its Pod")
    kubectl.apply(as_written(group.but("spec.schedulingPolicy", {"gang": {"minCount": 1}})))

    eventually(lambda: len(cluster.generated()) == 2, what="told of both claims")
    made = claims_by_owner(cluster)
    shared = key_of(made["PodGroup gang"]).name
    assert (sorted(made), cluster.generated()) == (
        ["Pod web", "PodGroup gang"],
        {"shared": shared, "own": key_of(made["Pod web"]).name},
    )

    protect: Any = {"metadata": {"finalizers": [wellknown.DELETE_PROTECTION_FINALIZER]}}
    result = {"request": "r0", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    allocate = {"status": {"allocation": {"devices": {"results": [result]}}}}
    kubectl("patch", "resourceclaim", shared, *in_ours, "--type=merge", "-p", json.dumps(protect))
    kubectl(
        "patch", "resourceclaim", shared, *in_ours, "--type=merge", "--subresource=status", "-p", json.dumps(allocate)
    )

    def reservations() -> Any:
        return claims_by_owner(cluster)["PodGroup gang"]["status"].get("reservedFor")

    uid = kubectl.json("get", "podgroup", "gang", *in_ours)["metadata"]["uid"]
    entry = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": uid}
    eventually(lambda: reservations() == [entry], what="the bound Pod reserves for its PodGroup")

    kubectl("delete", "pod", "web", *in_ours, "--force", "--grace-period=0")
    eventually(lambda: list(claims_by_owner(cluster)) == ["PodGroup gang"], what="the Pod's own claim is gone")
    assert reservations() == [entry]
    kubectl("delete", "podgroup", "gang", *in_ours)
    eventually(lambda: claims_by_owner(cluster) == {}, what="freed and gone with the PodGroup")
