"""Each planted situation has its true cause first, and remedies that the engine has tried."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from clusters.scheduler import node
from objects.builders import device_class, namespace, pod, scheduling_gate, toleration, toleration_rule
from objects.devices import a_claim, published, whole
from unit.explain.situations import GPU, NOW, SITUATIONS, TOLERATION, WANTS_GPU, Situation, claiming, lease

from tollbar import wellknown
from tollbar.explain import pods, text
from tollbar.explain.causes import Cause
from tollbar.explain.values import PodExplanation
from tollbar.model.objects import Object
from tollbar.offline import Cluster


def explained(given: Situation) -> PodExplanation:
    cluster = Cluster([namespace(), *given.objects], now=NOW)
    before = json.dumps(cluster.objects())
    found = pods.explain(cluster, cluster.put(given.pod), given.events)
    cluster.remove(given.pod)
    assert json.dumps(cluster.objects()) == before, "trials leave nothing behind"
    return found


@pytest.mark.parametrize("case", SITUATIONS)
def test_the_true_cause_comes_first(case: str) -> None:
    given = SITUATIONS[case]()
    found = explained(given)
    lines = "\n".join(text.of_pod(found, wide=True))
    assert [each.cause for each in found.findings] == [given.cause, *given.then], lines
    helpful = [each.change for each in found.remedies if each.helps]
    assert given.helps in helpful if given.helps else not helpful, lines
    json.dumps(text.data(found))


@pytest.mark.parametrize(
    ("case", "action"),
    [
        ("the generated claim is another Pod's", "see whether its ResourceClaim controller runs"),
        ("the generated claim is another Pod's, and there is no template for another one", "create Res"),
    ],
)
def test_who_makes_the_claim_in_the_place_of_another_pods(case: str, action: str) -> None:
    (found,) = explained(SITUATIONS[case]()).findings
    assert found.action.startswith(action)


def test_a_full_claim_has_to_let_somebody_go_whatever_else_would_help() -> None:
    given = SITUATIONS["the claim is reserved for as many as may be"]()
    cordoned = [each.but("spec.unschedulable", True) if each["kind"] == "Node" else each for each in given.objects]
    found = explained(replace(given, objects=cordoned))
    helpful = [each.change for each in found.remedies if each.helps]
    assert helpful == ["one of the 256 consumers lets ResourceClaim c go, and node n1 is uncordoned"]


@pytest.mark.parametrize(("renewed", "who"), [(NOW, "Tollbar's controllers"), (NOW - 300, "who runs Tollbar")])
def test_who_adds_the_tolerations_that_a_pod_lacks(renewed: float, who: str) -> None:
    given = SITUATIONS["a rule that is true and was not applied"]()
    (found,) = explained(replace(given, objects=[*given.objects, lease(renewed)])).findings
    assert (found.cause, found.who) == (Cause.RULE_NOT_APPLIED, who)
    assert ("no controller renews the Lease" in found.what) == (renewed < NOW)


def test_of_many_rules_that_wait_some_are_named() -> None:
    rules = [toleration_rule(f"rule-{number}").cel("size(claims) > 0") for number in range(100)]
    held = pod().claims("gone").gated()
    (found,) = pods.explain(Cluster([namespace(), *rules, held], now=NOW), held).findings
    assert found.what.endswith(" and 96 more")
    assert found.what.count("waits for") == 4


@pytest.mark.parametrize(
    ("max_hold", "said"), [("5s", ", for longer than its maxHold 5s"), ("1h", ""), ("soon", ""), (None, "")]
)
def test_a_gate_of_others_is_overdue_if_it_has_a_limit_that_is_valid(max_hold: str | None, said: str) -> None:
    gate = scheduling_gate("quota", "example.com/quota").but("spec.maxHold", max_hold)
    held = pod().gated("example.com/quota").created(NOW - 10)
    (found,) = pods.explain(Cluster([namespace(), gate, held, node("n1")], now=NOW), held).findings
    assert found.what == f"scheduling gate example.com/quota holds the Pod{said}"


def test_a_claim_that_looks_at_a_device_with_admin_access_holds_no_counters() -> None:
    given = SITUATIONS["counters are exhausted"]()
    looking = a_claim("looking", whole("d1", adminAccess=True))
    found = explained(replace(given, objects=[*given.objects, looking]))
    assert [each.change for each in found.remedies if "gives up" in each.change] == [given.helps]


UNREAD: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "Nodes": ("the Node is too small", ("Node",), "Node may not be read everywhere"),
    "Pods of other namespaces": ("the Node is full", ("Pod",), "Pod may not be read everywhere"),
    "classes, where our gate holds": (
        "the class is missing, our gate holds",
        ("DeviceClass",),
        "DeviceClass gpu may not be read; Tollbar's gate holds the Pod: rule gpu waits for DeviceClass gpu",
    ),
    "rules, where our gate holds": (
        "our gate is due, and a controller runs",
        ("TolerationRule",),
        "Tollbar's gate holds the Pod, and TolerationRules may not be read",
    ),
    "slices": ("there are no devices", ("ResourceSlice",), "ResourceSlice may not be read everywhere"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_may_not_be_read_is_not_taken_for_missing(case: str) -> None:
    name, kinds, said = UNREAD[case]
    given = SITUATIONS[name]()
    cluster = Cluster([namespace(), *given.objects], now=NOW, unknown=dict.fromkeys(kinds, "forbidden"))
    found = pods.explain(cluster, cluster.put(given.pod))
    assert (found.findings[0].cause, found.findings[0].what[: len(said)]) == (Cause.UNKNOWN, said)
    assert found.unknown == tuple(f"{kind}: forbidden" for kind in kinds)


ADDED, OWN = toleration("example.com/gpu"), toleration("example.com/own")
GIVEN = (
    pod()
    .tolerating(OWN, ADDED)
    .annotated(
        {
            wellknown.ANNOTATION_PROVENANCE: json.dumps(
                [{"rule": "gpu", "generation": 1, "added": [ADDED], "via": "late"}]
            )
        }
    )
)
APPLIED = {wellknown.LAST_APPLIED_ANNOTATION: json.dumps({"spec": {"tolerations": [OWN]}})}
NOTED: Mapping[str, tuple[Object, bool]] = {
    "a Pod that is applied with tolerations, and has others by rules": (GIVEN.annotated(APPLIED), True),
    "a Pod that is not applied": (GIVEN, False),
    "a Pod that is applied without tolerations": (
        GIVEN.annotated({wellknown.LAST_APPLIED_ANNOTATION: json.dumps({"spec": {}})}),
        False,
    ),
    "a Pod that no rule gave anything": (pod().tolerating(OWN).annotated(APPLIED), False),
    "a Pod that has lost what a rule gave": (GIVEN.but("spec.tolerations", [OWN]).annotated(APPLIED), False),
}


@pytest.mark.parametrize(("given", "noted"), NOTED.values(), ids=NOTED)
def test_whether_a_pod_can_be_applied_again_is_noted(given: Object, noted: bool) -> None:
    found = pods.explain(Cluster([namespace()], now=NOW), given)
    lines = text.of_pod(found)
    assert [each.startswith("this Pod is applied with tolerations") for each in found.notes] == [True] * noted
    assert lines[-2:] == ["Besides", f"  {found.notes[0]}"] if noted else "Besides" not in lines


RECORDS: Mapping[str, tuple[str, str]] = {
    "Tollbar's": ('[{"rule":"gpu","generation":1,"added":[ADDED],"via":"late"}]', "rule gpu, late"),
    "additions that are a number": ('[{"added":5}]', "the Pod's own"),
    "a toleration that is a number": ('[{"rule":"gpu","generation":1,"added":[5],"via":"late"}]', "the Pod's own"),
    "a key that is a list": ('[{"rule":"gpu","generation":1,"added":[{"key":[]}],"via":"late"}]', "the Pod's own"),
    "a via that is a list": ('[{"rule":"gpu","generation":1,"added":[ADDED],"via":[]}]', "the Pod's own"),
}


@pytest.mark.parametrize(("record", "origin"), RECORDS.values(), ids=RECORDS)
def test_where_a_toleration_comes_from_by_a_record_of(record: str, origin: str) -> None:
    added = toleration("example.com/gpu")
    annotations = {wellknown.ANNOTATION_PROVENANCE: record.replace("ADDED", json.dumps(added))}
    found = pods.explain(Cluster([namespace()], now=NOW), pod().tolerating(added).annotated(annotations))
    assert [each.origin for each in found.tolerations] == [origin]
    by_rule = origin.startswith("rule ")
    assert [(each.rule, each.via) for each in found.tolerations] == [("gpu", "late") if by_rule else ("", "")]


CARDS = toleration_rule("cards").cel(WANTS_GPU).giving_devices(TOLERATION)
RECORD = [{"rule": "cards", "generation": 1, "request": "r0", "added": [TOLERATION], "via": "creation"}]
OF_CLAIMS: dict[str, tuple[Object, Object, tuple[str, str]]] = {
    "its claim would get some": (CARDS, GPU[1], ("for claims", "ResourceClaim c made anew: r0")),
    "in Audit as well": (CARDS.mode("Audit"), GPU[1], ("for claims", "ResourceClaim c made anew: r0")),
    "its claim has got them": (
        CARDS,
        GPU[1]
        .annotated({"tollbar.dev/tolerations": json.dumps(RECORD)})
        .but(
            "spec.devices.requests",
            [{"name": "r0", "exactly": {"deviceClassName": "gpu", "tolerations": [TOLERATION]}}],
        ),
        ("for claims", "gave r0 of ResourceClaim c"),
    ),
    "another class": (CARDS.cel(WANTS_GPU.replace("gpu", "nic")), GPU[1], ("false", "")),
    "disabled": (CARDS.mode("Disabled"), GPU[1], ("not in force", "spec.mode is Disabled")),
}


@pytest.mark.parametrize(("given", "wanted", "said"), OF_CLAIMS.values(), ids=OF_CLAIMS)
def test_a_rule_for_claims_alone_is_in_the_table(given: Object, wanted: Object, said: tuple[str, str]) -> None:
    cluster = Cluster(json.loads(json.dumps([namespace(), GPU[0], wanted, given])), now=NOW)
    (found,) = pods.explain(cluster, cluster.put(claiming())).rules
    assert (found.verdict, found.why, found.gives) == (*said, ("example.com/gpu:NoSchedule op=Exists",))


@pytest.mark.parametrize(("nodes", "which"), [(50, "Nodes"), (60, "50 of the 60 Nodes")])
def test_of_how_many_nodes_the_devices_were_looked_at_is_said(nodes: int, which: str) -> None:
    names = [f"n{number}" for number in range(nodes)]
    there = [*map(node, names), *(published(name, "d", node=name) for name in names)]
    given = Situation([*there, device_class("gpu").selecting("false"), GPU[1]], claiming(), Cause.NO_DEVICE_MATCHES)
    assert f"Devices of {which} that DynamicResources rejects" in text.of_pod(explained(given))


OVERDUE: Mapping[str, tuple[Object, Object, str]] = {
    "ours, which reports": (
        scheduling_gate().expiring("10s", "Report"),
        claiming().gated(),
        "Tollbar's gate holds the Pod for longer than maxHold, which says onExpiry Report",
    ),
    "ours, in time": (
        scheduling_gate().expiring("60s", "Report"),
        claiming().gated(),
        "Tollbar's gate holds the Pod: ",
    ),
    "somebody else's": (
        scheduling_gate("quota", "example.com/quota").expiring("10s", "Report"),
        claiming().gated("example.com/quota"),
        "scheduling gate example.com/quota holds the Pod, for longer than its maxHold 10s",
    ),
}


@pytest.mark.parametrize("case", OVERDUE)
def test_that_a_gate_is_overdue_is_said(case: str) -> None:
    declared, held, said = OVERDUE[case]
    objects = [GPU[1], toleration_rule("gpu").cel(WANTS_GPU).giving(TOLERATION), declared]
    first = explained(Situation(objects, held, Cause.CLASS_MISSING)).findings[0]
    assert said in first.what
