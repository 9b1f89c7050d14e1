"""How a claim, a rule and a Node stand."""

import json
from collections.abc import Mapping

import pytest
from clusters.scheduler import node
from objects.builders import claim, device_class, namespace, pod, template, toleration_rule
from objects.devices import allocation, published, taint_rule
from unit.explain.situations import GPU, HELD, NOW, TAINT, TAINTED, TOLERATION, WANTS_GPU, claiming, rule, wanting

from tollbar.explain import objects, text
from tollbar.explain.values import Explanation
from tollbar.model.objects import Object
from tollbar.offline import Cluster

USED = wanting().but("status.allocation", allocation("d1"))
CLAIMS: Mapping[str, tuple[list[Object], Object, str]] = {
    "nobody uses it": ([], wanting(), "pending: no Pod that waits for a Node uses it"),
    "a Pod waits": (
        [node("n1"), claiming()],
        wanting(),
        "pending: it is allocated with the first Pod that gets a Node",
    ),
    "its class is missing": ([], GPU[1], "pending: DeviceClass gpu does not exist"),
    "it is allocated": ([], USED, "allocated for every Node; nobody uses it"),
    "it is reserved": (
        [],
        USED.reserved({"resource": "pods", "name": "web", "uid": "u"}),
        "allocated for every Node; reserved for consumer web",
    ),
    "it is being deleted": (
        [],
        USED.reserved({"resource": "pods", "name": "web", "uid": "u"}).deleting(),
        "being deleted since 2026-01-01T00:00:01Z: it waits for consumer web",
    ),
}
RULES: Mapping[str, tuple[Object, str]] = {
    "in force": (rule(), "in force"),
    "in Audit": (rule().mode("Audit"), "in Audit: it is looked at, and adds nothing"),
    "disabled": (rule().mode("Disabled"), "not in force: spec.mode is Disabled"),
    "not valid": (rule().cel("claims.exists("), "not in force: InvalidExpression"),
}


def copied(*given: Object) -> Cluster:
    return Cluster([namespace(), *given], now=NOW)


def rows(found: Explanation, title: str) -> list[tuple[str, ...]]:
    json.dumps(text.data(found))
    assert text.of_object(found)
    return next(list(each.rows) for each in found.sections if each.title == title)


@pytest.mark.parametrize("case", CLAIMS)
def test_how_a_claim_stands(case: str) -> None:
    others, given, said = CLAIMS[case]
    cluster = copied(*others)
    assert objects.claim(cluster, cluster.put(given)).summary[0] == said


@pytest.mark.parametrize(("unread", "wants"), [({}, "1 of gpu (missing)"), ({"DeviceClass": "forbidden"}, "1 of gpu")])
def test_a_class_is_missing_only_where_classes_may_be_read(unread: dict[str, str], wants: str) -> None:
    cluster = Cluster([namespace()], now=NOW, unknown=unread)
    assert rows(objects.claim(cluster, cluster.put(GPU[1])), "Requests") == [("r0", wants)]


def test_a_claim_tells_why_its_pods_wait() -> None:
    cluster = copied(node("n1"), *GPU, claiming(), pod("runs").claims("c").but("spec.nodeName", "n1"))
    found = objects.claim(cluster, cluster.put(GPU[1]))
    asks = "claim ml/c, request r0 asks for 1 device of class gpu; there are none"
    assert rows(found, "Pods that use it") == [
        ("ml/runs", "n1", "-", "-"),
        ("ml/web", "-", f"NoDevices: node n1: {asks}", "-"),
    ]


def test_a_claim_tells_what_would_help_its_pods() -> None:
    cluster = copied(node("n1"), *GPU, published("s", "d1"), HELD, claiming())
    ((*_, helps),) = rows(objects.claim(cluster, cluster.put(GPU[1])), "Pods that use it")
    assert helps == "if ResourceClaim ml/other gives up its devices: the Pod fits on node n1"


def test_the_entry_of_a_pod_group_tells_for_how_many_pods_it_stands() -> None:
    gang = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g"}
    web = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "d"}
    members = [pod(name).claims("c").in_group("gang") for name in ("a", "b")]
    ended = pod("c").claims("c").in_group("gang").phase("Succeeded")
    cluster = copied(*members, ended)
    found = objects.claim(cluster, cluster.put(USED.reserved(gang, web)))
    assert rows(found, "Reserved for") == [
        ("podgroups.scheduling.k8s.io", "gang", "for 2 Pods of the group"),
        ("deployments.apps", "web", "a workload keeps it"),
    ]


@pytest.mark.parametrize("case", RULES)
def test_how_a_rule_stands(case: str) -> None:
    given, said = RULES[case]
    cluster = copied()
    assert objects.rule(cluster, cluster.put(given)).summary[0].startswith(said)


def test_a_rule_tells_its_pods_and_nodes() -> None:
    cluster = copied(TAINTED, node("n2"), *GPU, claiming(), pod("plain"), pod("early").claims("nothing"), rule())
    found = objects.rule(cluster, rule())
    assert found.summary == (
        "in force",
        "of 3 Pods that wait for a Node: 1 false, 1 true, 1 unknown",
        "it opens node n1",
    )
    assert rows(found, "Pods that wait") == [("true", "ml/web", "-"), ("unknown", "ml/early", "ResourceClaim nothing")]
    assert rows(found, "Taints that it tolerates") == [("n1", "example.com/gpu=true:NoSchedule")]


CARD_RULE = toleration_rule("cards").cel(WANTS_GPU).giving_devices(TOLERATION)
ADDED = [{"rule": "cards", "generation": 1, "request": "r0", "added": [TOLERATION], "via": "creation"}]
HAS = (
    claim("has")
    .annotated({"tollbar.dev/tolerations": json.dumps(ADDED)})
    .but("spec.devices.requests", [{"name": "r0", "exactly": {"deviceClassName": "gpu", "tolerations": [TOLERATION]}}])
)


def test_a_rule_for_claims_tells_their_requests_and_devices() -> None:
    made = template("one").request("nic", "gpu")
    tainted = published("s", {"name": "d1", "taints": [TAINT]}, {"name": "d2", "taints": [TAINT]}, "d3")
    others = (claim("other").request("nic"), device_class("nic"), taint_rule("broken", TAINT))
    cluster = copied(*json.loads(json.dumps((*GPU, HAS, made, tainted, *others, CARD_RULE))))
    found = objects.rule(cluster, CARD_RULE)
    assert found.summary == (
        "in force",
        "of 4 claims and templates 1 have tolerations by it, 2 would get some if made anew",
    )
    assert {each.title: list(each.rows) for each in found.sections} == {
        "Tolerations of devices": [("example.com/gpu:NoSchedule op=Exists",)],
        "Claims and templates": [
            ("ResourceClaim ml/c", "-", "r0"),
            ("ResourceClaim ml/has", "r0", "-"),
            ("ResourceClaimTemplate ml/one", "-", "r0/o1"),
        ],
        "Taints of devices that it tolerates": [
            ("gpu.example.com/n1", "example.com/gpu=true:NoSchedule", "2"),
            ("DeviceTaintRule broken", "example.com/gpu=true:NoSchedule", "-"),
        ],
    }


def test_a_rule_for_both_tells_of_both() -> None:
    both = CARD_RULE.giving(TOLERATION)
    found = objects.rule(copied(TAINTED, both), both)
    assert [each.title for each in found.sections] == [
        "Tolerations",
        "Pods that wait",
        "Taints that it tolerates",
        "Tolerations of devices",
        "Claims and templates",
        "Taints of devices that it tolerates",
    ]


def test_a_rule_whose_tolerations_are_dropped_says_so() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "TolerationsDropped"}
    dropped = CARD_RULE.but("status.conditions", [ready])
    assert objects.rule(copied(dropped), dropped).summary[:2] == (
        "the API server drops tolerations of devices (feature gate DRADeviceTaints): no claim gets any",
        "in force",
    )


def test_a_node_tells_who_is_rejected() -> None:
    cluster = copied(TAINTED, *GPU, published("s", "d1", "d2"), HELD, claiming(), pod("plain"), rule())
    found = objects.node(cluster, TAINTED)
    assert found.summary == ("0 Pods on it, taint example.com/gpu=true:NoSchedule",)
    assert rows(found, "Taints") == [("example.com/gpu=true:NoSchedule", "gpu")]
    assert rows(found, "Devices") == [("gpu.example.com/n1", "2", "1", "0", "usable")]
    waiting = "Pods that wait, and what rejects them here"
    assert rows(found, waiting) == [("2", "TaintToleration", "node(s) had untolerated taint(s)", "ml/plain, ml/web")]
