"""What `tollbar explain` says of Pods that gate classes hold: the classes' own texts, of a copy of the cluster."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from objects.builders import Pod, claim, namespace, pod, scheduling_gate, template
from unit.explain.situations import NOW, lease
from unit.gates.zones import BATCH, Zone, config_map, saying

from tollbar import wellknown
from tollbar.explain import pods, text
from tollbar.explain.causes import Cause
from tollbar.explain.values import PodExplanation
from tollbar.gates import Gate, Hold
from tollbar.gates.ordinal import OrdinalGate
from tollbar.gates.placement import PlacementGate
from tollbar.gates.quota import PodQuotas
from tollbar.model.objects import Object
from tollbar.offline import Cluster

ENROLLED = namespace().labelled({"tollbar.dev/quota": ""})
QUOTA, ORDINAL, PLACEMENT = PodQuotas.name, OrdinalGate.name, PlacementGate.name
LED = lease(NOW)
GPU = claim().request("gpu")
GPUS = "gpu.deviceclass.resource.k8s.io/devices"


def of_tollbar(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": "tollbar.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def quota(**spec: Any) -> Object:
    return of_tollbar("PodQuota", "q", **{"limits": {"cpu": "4"}, **spec})


def asking(name: str, cpu: str = "2", *, age: float = 10.0) -> Pod:
    return pod(name).wants({"cpu": cpu}).created(NOW - age)


def waiting(name: str = "web", cpu: str = "2", *, age: float = 10.0) -> Pod:
    return asking(name, cpu, age=age).gated(QUOTA)


def placement(expression: str) -> Object:
    required = [{"key": "example.com/pool", "operator": "Exists"}]
    return of_tollbar(
        "PlacementRule", "pool", match={"type": "CEL", "cel": {"expression": expression}}, required=required
    )


def stateful_set(name: str, peer: str) -> Object:
    meta = {"name": name, "namespace": "ml", "annotations": {"tollbar.dev/ordinal-peer": peer}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": {}}


def member(set_: str, peer: str, ordinal: int) -> Pod:
    built = pod(f"{set_}-{ordinal}").owned_by("StatefulSet", set_, api_version="apps/v1").labelled({ORDINAL: ""})
    return built.annotated({"tollbar.dev/ordinal-peer": peer}).created(NOW - 10)


SETS = (stateful_set("old", "new"), stateful_set("new", "old"))


class Held(NamedTuple):
    """What is there beside the Pod, its class, and what is said: the finding, what to do, and rows of tables."""

    objects: tuple[Object, ...]
    pod: Object
    gate: Gate
    cause: Cause
    what: str
    action: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


CASES: Mapping[str, Callable[[], Held]] = {
    "no room in a quota: what is used, and who is before the Pod": lambda: Held(
        (ENROLLED, quota(), asking("runs", "3"), waiting("old", age=60), waiting("new", age=1)),
        waiting(),
        PodQuotas(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/quota holds the Pod: QuotaExceeded: waiting for cpu in PodQuota q",
        "The quota has no room for the Pod",
        (
            ("q", "cpu", "3", "4", "2", "-"),
            ("ml/old", "0", "QuotaExceeded: cpu in PodQuota q"),
        ),
    ),
    "a namespace with a larger share than others that wait": lambda: Held(
        (
            ENROLLED,
            namespace("other").labelled({"tollbar.dev/quota": ""}),
            quota(sharing="Fair"),
            asking("runs", "2"),
            pod("big", "other").wants({"cpu": "3"}).created(NOW - 5).gated(QUOTA),
        ),
        waiting(),
        PodQuotas(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/quota holds the Pod: QuotaShared: waiting for namespaces with a smaller",
        "There is room, and the Pod's namespace already has a larger share",
        (("q", "cpu", "2", "4", "2", "50%"),),
    ),
    "a Pod that is larger than the limit": lambda: Held(
        (ENROLLED, quota()),
        waiting(cpu="5"),
        PodQuotas(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/quota holds the Pod: QuotaTooSmall: waiting for a PodQuota q that allows it",
        "The Pod requests more than the quota allows at all",
        (("q", "cpu", "0", "4", "5", "-"),),
    ),
    "no device left in a quota": lambda: Held(
        (
            ENROLLED,
            quota(limits={GPUS: "2"}),
            GPU,
            template().request("gpu"),
            template("pair").request("gpu").request("gpu"),
            asking("runs").claims("gpu"),
            waiting("before", age=60).templates("gpu"),
        ),
        waiting().templates("pair"),
        PodQuotas(),
        Cause.GATE_CLASS,
        f"scheduling gate tollbar.dev/quota holds the Pod: QuotaExceeded: waiting for {GPUS} in PodQuota q",
        "The quota has no room for the Pod",
        (("q", GPUS, "2", "2", "2", "-"),),
    ),
    "a claim that is not there, in a quota of devices": lambda: Held(
        (ENROLLED, quota(limits={GPUS: "2"})),
        waiting().claims("gpu"),
        PodQuotas(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/quota holds the Pod: QuotaClaimMissing: waiting for ResourceClaim gpu",
        "The quota limits devices, and the named claim",
    ),
    "there is room, and a controller leads": lambda: Held(
        (ENROLLED, quota(), LED), waiting(), PodQuotas(), Cause.RELEASE_DUE, "scheduling gate tollbar.dev/quota waits"
    ),
    "there is room, and no controller leads": lambda: Held(
        (ENROLLED, quota()), waiting(), PodQuotas(), Cause.NO_CONTROLLER, "nothing holds the Pod by scheduling gate"
    ),
    "there is room, and the leader runs without the class": lambda: Held(
        (ENROLLED, quota(), {**LED, "metadata": {**LED["metadata"], "annotations": {"tollbar.dev/gates": ORDINAL}}}),
        waiting(),
        PodQuotas(),
        Cause.NO_CONTROLLER,
        "nothing holds the Pod by scheduling gate tollbar.dev/quota any more, and no controller leads that releases it",
    ),
    "its namespace takes no part any more": lambda: Held(
        (namespace(), quota(), LED), waiting(cpu="9"), PodQuotas(), Cause.RELEASE_DUE, "scheduling gate"
    ),
    "its ordinal is taken": lambda: Held(
        (namespace(), *SETS, member("old", "new", 1), member("new", "old", 0)),
        member("new", "old", 1).gated(ORDINAL),
        OrdinalGate(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/ordinal holds the Pod: OrdinalTaken: waiting for Pod ml/old-1 to be gone",
        "The other StatefulSet's Pod of this ordinal has to be gone",
        (
            ("ml/old-1", "its ordinal's Pod of the other StatefulSet", "not Ready"),
            ("ml/new-0", "its predecessor", "not Ready"),
        ),
    ),
    "a rule of placement fails for the Pod": lambda: Held(
        (namespace(), placement("pod.metadata.labels['pool'] == 'a'")),
        pod().created(NOW - 10).gated(PLACEMENT),
        PlacementGate(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/placement holds the Pod: Undecided: waiting for a correction of PlacementRule",
        "The named rule cannot be decided",
        (("pool", "error"),),
    ),
    "a class of somebody else": lambda: Held(
        (namespace(),),
        pod().labelled(BATCH).gated(Zone.name),
        Zone(),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/zone holds the Pod: ZoneMissing: waiting for key zone of ConfigMap ml/zone",
        "see what tollbar.dev/zone waits for",
    ),
    "a class of somebody else, whose object is there": lambda: Held(
        (namespace(), config_map(), LED),
        pod().labelled(BATCH).gated(Zone.name),
        Zone(),
        Cause.RELEASE_DUE,
        "scheduling gate tollbar.dev/zone waits for nothing any more",
    ),
    "a class that raises": lambda: Held(
        (namespace(),),
        pod().labelled(BATCH).gated(Zone.name),
        saying(lambda facts: facts.pod["nothing"]),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/zone holds the Pod: Raised: waiting for gate class unit.gates.zones.Saying raised",
        "The class raised an error",
    ),
    "a class that answers what is no answer": lambda: Held(
        (namespace(),),
        pod().labelled(BATCH).gated(Zone.name),
        saying(lambda _: Hold("", "")),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/zone holds the Pod: ForbiddenMutation: waiting for gate class unit.gates.zones",
    ),
}


def explained(given: Held, *events: Object, **more: Any) -> PodExplanation:
    cluster = Cluster(given.objects, now=NOW, gates=[given.gate], **more)
    return pods.explain(cluster, cluster.put(given.pod), events)


@pytest.mark.parametrize("case", CASES)
def test_what_a_class_says_on_a_copy(case: str) -> None:
    given = CASES[case]()
    found = explained(given)
    first = found.findings[0]
    shown = "\n".join(text.of_pod(found, wide=True))
    assert (first.cause, first.what[: len(given.what)]) == (given.cause, given.what), shown
    assert first.action.startswith(given.action)
    rows = [row for section in found.told for row in section.rows]
    assert [row[: len(want)] for row, want in zip(rows, given.rows, strict=False)] == list(given.rows), shown
    (gate,) = found.gates
    assert (gate.reason == "") == (given.cause is not Cause.GATE_CLASS)
    json.dumps(text.data(found))


def said(reason: str, note: str) -> Object:
    return {"reason": reason, "note": f"{QUOTA}: {note}", "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}


def test_what_other_admission_refuses_is_known_from_events() -> None:
    given = Held((ENROLLED, quota(), LED), waiting(), PodQuotas(), Cause.RELEASE_REFUSED, "")
    found = explained(given, said("ReleaseRefused", "the API server refused the patch: no")).findings[0]
    assert (found.cause, found.what) == (
        Cause.RELEASE_REFUSED,
        "scheduling gate tollbar.dev/quota: the API server refused the patch: no",
    )


def test_an_earlier_refusal_does_not_hide_what_holds_the_pod_now() -> None:
    objects = (ENROLLED, quota(), LED, asking("runs", "3"))
    refused = said("ReleaseRefused", "the API server refused the patch: no")
    found = explained(Held(objects, waiting(), PodQuotas(), Cause.GATE_CLASS, ""), refused).findings[0]
    assert (found.cause, found.what) == (
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/quota holds the Pod: QuotaExceeded: waiting for cpu in PodQuota q",
    )


def test_a_refusal_of_a_class_is_not_taken_for_one_of_tollbars_own_gate() -> None:
    held = pod().labelled(BATCH).gated(wellknown.GATE, Zone.name)
    refused = {**said("ReleaseRefused", ""), "note": f"{Zone.name}: the API server refused the patch: no"}
    found = explained(Held((namespace(), LED), held, Zone(), Cause.RELEASE_DUE, ""), refused).findings
    assert [each.cause for each in found[:2]] == [Cause.RELEASE_DUE, Cause.GATE_CLASS]


def test_what_an_event_says_that_goes_on_is_newer_than_what_came_between() -> None:
    goes_on = {**said("SchedulingHeld", "waiting for cpu"), "series": {"lastObservedTime": "2026-01-01T00:02:00Z"}}
    between = said("SchedulingHeld", "waiting for memory") | {"metadata": {"creationTimestamp": "2026-01-01T00:01:00Z"}}
    given = Held((ENROLLED, LED), waiting(), PodQuotas(), Cause.GATE_CLASS, "")
    found = explained(given, goes_on, between, unknown={"PodQuota": "forbidden"}).findings[0]
    assert found.what == "scheduling gate tollbar.dev/quota holds the Pod: waiting for cpu"


def test_without_the_right_to_list_namespaces_nobody_says_that_the_pod_waits_for_its_own() -> None:
    held = said("SchedulingHeld", "waiting for cpu in PodQuota q")
    given = Held((quota(), LED), waiting(), PodQuotas(), Cause.GATE_CLASS, "")
    found = explained(given, held, unknown={"Namespace": "forbidden"}).findings[0]
    assert found.what == "scheduling gate tollbar.dev/quota holds the Pod: waiting for cpu in PodQuota q"


def test_where_what_the_class_reads_may_not_be_read_its_events_are_what_is_known() -> None:
    given = Held((ENROLLED, LED), waiting(), PodQuotas(), Cause.GATE_CLASS, "")
    held = said("SchedulingHeld", "waiting for cpu in PodQuota q")
    found = explained(given, held, unknown={"PodQuota": "forbidden"}).findings[0]
    assert found.what == "scheduling gate tollbar.dev/quota holds the Pod: waiting for cpu in PodQuota q"


LIMITS: Mapping[str, tuple[tuple[Object, ...], float, str]] = {
    "of its SchedulingGate": ((scheduling_gate("zone", Zone.name).expiring("20s", "Report"),), 30, "20s"),
    "of its class, where the SchedulingGate is not valid": (
        (scheduling_gate("zone", Zone.name).expiring("soon", "Report"),),
        60,
        "1m0s",
    ),
    "of its class, before that has run out": ((scheduling_gate("zone", Zone.name).expiring("soon", "Report"),), 59, ""),
    "of its class, without a SchedulingGate": ((), 61, "1m0s"),
}


@pytest.mark.parametrize(("declared", "age", "limit"), LIMITS.values(), ids=LIMITS)
def test_a_pod_is_held_for_longer_than_the_max_hold(declared: tuple[Object, ...], age: float, limit: str) -> None:
    held = pod().labelled(BATCH).gated(Zone.name).created(NOW - age)
    found = explained(Held((namespace(), *declared), held, Zone(), Cause.GATE_CLASS, "")).findings[0]
    overdue = f", for longer than its maxHold {limit}" if limit else ""
    assert found.what.startswith(f"scheduling gate tollbar.dev/zone holds the Pod{overdue}: ZoneMissing: ")


def test_without_the_right_to_list_scheduling_gates_nobody_says_that_a_limit_has_passed() -> None:
    held = pod().labelled(BATCH).gated(Zone.name).created(NOW - 3600)
    given = Held((namespace(),), held, Zone(), Cause.GATE_CLASS, "")
    found = explained(given, unknown={"SchedulingGate": "forbidden"}).findings[0]
    assert found.what.startswith("scheduling gate tollbar.dev/zone holds the Pod: ZoneMissing: ")


def test_of_many_pods_before_it_some_are_listed() -> None:
    others = [waiting(f"old-{number:03}", age=100 + number) for number in range(150)]
    found = explained(
        Held((ENROLLED, quota(limits={"cpu": "1"}), *others), waiting(), PodQuotas(), Cause.GATE_CLASS, "")
    )
    before = next(each for each in found.told if each.title.startswith("Pods before it"))
    assert (before.title, len(before.rows)) == ("Pods before it, the first 100 of 150", 100)


def test_pods_of_which_the_quota_is_another_are_not_before_it() -> None:
    blue = quota(podSelector={"matchLabels": {"team": "blue"}}, limits={"cpu": "1"})
    blue["metadata"] = {"name": "blue"}
    objects = (ENROLLED, quota(limits={"cpu": "1"}, podSelector={"matchLabels": {"team": "red"}}), blue)
    other = waiting("other", age=100).labelled(team="blue")
    found = explained(Held((*objects, other), waiting().labelled(team="red"), PodQuotas(), Cause.GATE_CLASS, ""))
    assert [each.rows for each in found.told if each.title == "Pods before it"] == [()]


def test_no_pod_is_before_one_that_is_not_held() -> None:
    found = explained(
        Held((ENROLLED, quota(), LED, waiting("large", "9", age=1)), waiting(), PodQuotas(), Cause.RELEASE_DUE, "")
    )
    assert [each.rows for each in found.told if each.title == "Pods before it"] == [()]
