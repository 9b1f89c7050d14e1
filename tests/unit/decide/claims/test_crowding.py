"""Whether every Pod finds a place among a claim's 256 entries, case by case."""

from typing import Any

import pytest
from objects.builders import Built, Pod, claim, pod, pod_group

from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.crowding import crowding
from tollbar.decide.claims.reservations import Knowledge, ReservationFacts, ReservationPlan, State, Workload, decide
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Object, uid_of

REMEDY = "let fewer Pods share the claim, give them several claims, or put them into a PodGroup (spec.podGroup)"
OURS = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
FOREIGN = {"apiGroup": "example.com", "resource": "widgets", "name": "w", "uid": "w1"}
FOREIGNS = [{**FOREIGN, "uid": f"w{number}"} for number in range(256)]
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "web", "uid": "g1"}
EMPTY = claim().allocated()


def some(number: int, form: Pod | None = None) -> list[Pod]:
    return [
        (form or pod()).but("metadata.name", f"web-{index}").but("metadata.uid", f"p{index}") for index in range(number)
    ]


def workload(*claims: str, group: str = "", **spec: Any) -> Built:
    """One whose Pods refer to these claims."""
    template = pod().claims(*claims).in_group(group) if group else pod().claims(*claims)
    return Built(spec={**spec, "template": {"spec": template["spec"]}})


def asks(number: int, places: int = 256) -> str:
    return f"the workload asks for up to {number} Pods at once, the claim has entries for {places}: {REMEDY}"


def full(places: int = 256) -> str:
    return f"more Pods refer to the claim than it has entries for ({places}): {REMEDY}"


DONE = pod().bound().phase("Succeeded")
CASES: dict[str, tuple[Object, list[Pod], Object | None, str]] = {
    "no Pods, no workload": (EMPTY, [], None, ""),
    "256 Pods fit, whether or not they are reserved": (
        EMPTY.reserved(*map(pod_entry, some(100))),
        some(256),
        None,
        "",
    ),
    "257 do not, although none was refused yet": (claim(), some(257), None, full()),
    "Pods that have ended have no entries": (EMPTY, [*some(200), *some(300, DONE)], None, ""),
    "the workload's own entry makes room": (EMPTY.reserved(OURS), some(256), None, ""),
    "an entry of somebody else's does not": (EMPTY.reserved(FOREIGN, OURS), some(256), None, full(255)),
    "an entry of a Pod that is gone is about to go": (EMPTY.reserved(pod_entry(pod("gone"))), some(256), None, ""),
    "a workload of 256 Pods fits": (claim(), [], workload("gpu", replicas=256), ""),
    "one of 257 does not, before any Pod is there": (claim(), [], workload("gpu", replicas=257), asks(257)),
    "beside an entry of somebody else's it is one less": (
        EMPTY.reserved(FOREIGN),
        [],
        workload("gpu", replicas=256),
        asks(256, 255),
    ),
    "a rolling update needs more": (
        claim(),
        [],
        workload("gpu", replicas=205, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}),
        asks(257),
    ),
    "a workload whose Pods refer to another claim": (claim(), [], workload("other", replicas=400), ""),
    "a workload without a template": (claim(), [], Built(spec={"replicas": 400}), ""),
    "no place, and a workload that needs none": (EMPTY.reserved(*FOREIGNS), [], workload("other", replicas=400), ""),
    "no place, and a workload that does not say how many Pods it has": (
        EMPTY.reserved(*FOREIGNS),
        [],
        workload("gpu", replicas="?"),
        "",
    ),
    "a Job": (claim(), [], workload("gpu", parallelism=300, completions=1000), asks(300)),
    "a workload whose Pods name a PodGroup that does not share the claim": (
        claim(),
        [],
        workload("gpu", group="web", replicas=400),
        asks(400),
    ),
    "one entry stands for all Pods of a PodGroup": (
        EMPTY.reserved(GROUP),
        some(2000, pod().in_group("web")),
        workload("gpu", group="web", replicas=2000),
        "",
    ),
    "and takes one place from the others": (
        EMPTY.reserved(GROUP),
        [*some(300, pod().in_group("web")), *some(256)],
        None,
        full(255),
    ),
    "without an entry of the PodGroup every Pod needs its own": (EMPTY, some(257, pod().in_group("web")), None, full()),
}


SHARING = pod_group("web").claims("gpu")
OTHER = pod_group("web").claims("gpu").but("spec.resourceClaims", [{"name": "else", "resourceClaimName": "gpu"}])
MEMBERS = some(2000, pod().claims("gpu").in_group("web"))
GROUPED: dict[str, tuple[Object, list[Pod], Object | None, str]] = {
    "Pods of a PodGroup that shares the claim, before the first is bound": (SHARING, MEMBERS, None, ""),
    "a workload whose Pods are to be put into the PodGroup": (SHARING, [], workload("gpu", replicas=2000), ""),
    "and are": (SHARING, MEMBERS[:1], workload("gpu", replicas=2000), ""),
    "and are not": (SHARING, some(1, pod().claims("gpu")), workload("gpu", replicas=2000), asks(2000, 255)),
    "a workload whose Pods name it themselves": (
        SHARING,
        some(1, pod().claims("gpu")),
        workload("gpu", group="web", replicas=2000),
        "",
    ),
    "Pods beside it": (SHARING, [*MEMBERS, *some(256, pod().claims("gpu"))], None, full(255)),
    "Pods that refer to the claim by another name": (OTHER, MEMBERS, None, full(255)),
}


@pytest.mark.parametrize(("group", "consumers", "found", "want"), GROUPED.values(), ids=GROUPED)
def test_pods_of_a_pod_group(group: Object, consumers: list[Pod], found: Object | None, want: str) -> None:
    assert crowding(claim(), consumers, found, frozenset(), [group]) == want


def test_a_pod_group_may_have_the_last_place() -> None:
    given = claim().allocated().reserved(*FOREIGNS[1:])
    assert crowding(given, [], workload("gpu", replicas=2000), frozenset(), [SHARING]) == ""


@pytest.mark.parametrize(("given", "consumers", "found", "want"), CASES.values(), ids=CASES)
def test_crowding(given: Object, consumers: list[Pod], found: Object | None, want: str) -> None:
    assert crowding(given, consumers, found, frozenset({"u1"})) == want


KEPT = claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})
KNOWN: dict[str, tuple[Workload, int, str | None]] = {
    "the workload exists": (Workload(Knowledge.FOUND, workload("gpu", replicas=300)), 0, asks(300)),
    "the workload does not exist": (Workload(Knowledge.ABSENT), 0, ""),
    "how many Pods it asks for is not known yet": (Workload(Knowledge.UNANSWERED), 0, None),
    "its kind may not be read, and there are too many Pods": (Workload(Knowledge.FORBIDDEN), 257, full()),
}


@pytest.mark.parametrize(("found", "number", "want"), KNOWN.values(), ids=KNOWN)
def test_it_is_said_with_the_state_of_the_reservation(found: Workload, number: int, want: str | None) -> None:
    plan = decide(ReservationFacts(KEPT, found, some(number)))
    assert isinstance(plan, ReservationPlan)
    assert plan.state is not None
    assert plan.state.crowded == want


def test_the_text_does_not_change_with_every_pod() -> None:
    texts = {crowding(EMPTY, some(number), None, frozenset()) for number in (257, 258, 2000)}
    assert len(texts) == 1
    assert len({uid_of(each) for each in some(257)}) == 257


def test_the_pods_of_a_pod_group_count_once_there_too() -> None:
    found = Workload(Knowledge.FOUND, workload("gpu", replicas=2000))
    plan = decide(ReservationFacts(KEPT, found, MEMBERS, pod_groups=[SHARING]))
    assert isinstance(plan, ReservationPlan)
    assert plan.state is not None
    assert plan.state.crowded == ""


def test_what_was_said_stays_until_the_api_server_has_answered() -> None:
    said = State(False, ReservedReason.NOT_ALLOCATED, crowded=asks(300))
    plan = decide(ReservationFacts(KEPT, Workload(Knowledge.AWAITED), state=said))
    assert isinstance(plan, ReservationPlan)
    assert plan.state == said
