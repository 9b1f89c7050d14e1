"""One claim: whose reservations are void, when it is freed, when it is deleted."""

from typing import Any

import pytest
from clusters.claims import view_of
from objects.builders import claim, pod, pod_group

from tollbar.decide.claims.resourceclaims import ClaimFacts, ClaimPlan, decide, references_to_clean
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.claims import Deallocation, pod_entry
from tollbar.model.objects import Key, Object
from tollbar.model.resources import POD_GROUPS, PODS

WEB = pod().claims("gpu").bound().phase("Running")
API = pod("api").claims("gpu").bound().phase("Running")
OLD = {**pod_entry(WEB), "uid": "uid-of-the-one-before"}
DEPLOYMENT = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "d"}
GANG = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-of-gang"}

USED = claim().allocated()
BY_WEB = USED.reserved(pod_entry(WEB))
BY_BOTH = BY_WEB.reserved(pod_entry(API))
FREED = Deallocation({}, unprotect=True)
NOTHING = ClaimPlan()
POD, GROUP = Get(PODS, Key("ml", "web")), Get(POD_GROUPS, Key("ml", "gang"))


def keeping(*entries: Object) -> ClaimPlan:
    status = {"allocation": USED["status"]["allocation"], "reservedFor": list(entries)}
    return ClaimPlan(deallocation=Deallocation(status, unprotect=False))


ENTRIES: dict[str, tuple[Any, list[Object], Answers, ClaimPlan | Ask]] = {
    "a claim without entries and allocation is left alone": (claim(), [], {}, NOTHING),
    "an allocated claim without entries is left alone: it may be about to be reserved": (USED, [], {}, NOTHING),
    "its Pod runs": (BY_WEB, [WEB], {}, NOTHING),
    "the entry of a Pod that is being stopped stays": (BY_WEB, [WEB.deleting()], {}, NOTHING),
    "its Pod has ended": (BY_WEB, [WEB.phase("Succeeded")], {}, ClaimPlan(deallocation=FREED)),
    "the entry of a Pod that was deleted before it got a node is removed": (
        BY_WEB,
        [WEB.but("spec.nodeName", None).deleting()],
        {},
        ClaimPlan(deallocation=FREED),
    ),
    "of two entries that of the finished Pod is removed": (
        BY_BOTH,
        [WEB.phase("Failed"), API],
        {},
        keeping(pod_entry(API)),
    ),
    "the API server is asked for a Pod that is not in the cache": (
        BY_WEB,
        [],
        {},
        Ask((POD,)),
    ),
    "nothing is removed before the answer about a Pod that is not in the cache": (
        BY_BOTH,
        [API.phase("Failed")],
        {},
        Ask((POD,)),
    ),
    "the API server has the Pod: its entry stays": (BY_WEB, [], {POD: WEB}, NOTHING),
    "the API server does not have the Pod: its entry is removed": (
        BY_WEB,
        [],
        {POD: Absence.OBJECT},
        ClaimPlan(deallocation=FREED),
    ),
    "the API server has a Pod of the name that is done: its entry is removed": (
        BY_WEB,
        [],
        {POD: WEB.phase("Failed")},
        ClaimPlan(deallocation=FREED),
    ),
    "the API server does not serve PodGroups any more: their entries stay": (
        USED.reserved(GANG),
        [],
        {GROUP: Absence.KIND},
        NOTHING,
    ),
    "the API server is asked when the cache has another Pod of the name": (
        USED.reserved(OLD),
        [WEB],
        {},
        Ask((POD,)),
    ),
    "the entry of a Pod that was replaced is removed": (
        USED.reserved(OLD),
        [WEB],
        {POD: WEB},
        ClaimPlan(deallocation=FREED),
    ),
    "a workload's entry stays": (USED.reserved(DEPLOYMENT), [], {}, NOTHING),
    "a workload's entry stays beside that of a finished Pod": (
        BY_WEB.reserved(DEPLOYMENT),
        [WEB.phase("Failed")],
        {},
        keeping(DEPLOYMENT),
    ),
    "a PodGroup's entry stays": (USED.reserved(GANG), [pod_group()], {}, NOTHING),
    "the entry of a PodGroup that is being deleted stays": (USED.reserved(GANG), [pod_group().deleting()], {}, NOTHING),
    "the API server is asked for a PodGroup that is not in the cache": (
        USED.reserved(GANG),
        [],
        {},
        Ask((GROUP,)),
    ),
    "the entry of a PodGroup that is gone is removed": (
        USED.reserved(GANG),
        [],
        {GROUP: Absence.OBJECT},
        ClaimPlan(deallocation=FREED),
    ),
    "a claim that is being deleted and in use is left alone": (BY_WEB.deleting(), [WEB], {}, NOTHING),
    "a claim that is being deleted and not used is deallocated": (
        USED.deleting(),
        [],
        {},
        ClaimPlan(deallocation=FREED),
    ),
}


@pytest.mark.parametrize(("given", "there", "answers", "want"), ENTRIES.values(), ids=ENTRIES)
def test_entries(given: Any, there: list[Object], answers: Answers, want: ClaimPlan | Ask) -> None:
    assert decide(ClaimFacts(given, view_of(*there), answers=answers)) == want


def test_a_pod_that_is_known_to_be_deleted_is_not_asked_for() -> None:
    assert decide(ClaimFacts(BY_WEB, view_of(gone=["uid-of-web"]))) == ClaimPlan(deallocation=FREED)


MADE = claim("web-gpu-x").generated_for(WEB, "gpu")
DELETED: dict[str, tuple[Any, list[Object], list[str], ClaimPlan]] = {
    "its Pod runs": (MADE, [WEB], [], NOTHING),
    "its Pod has ended": (MADE, [WEB.phase("Succeeded")], [], ClaimPlan(delete=True)),
    "the claim of a finished Pod is deallocated and deleted": (
        MADE.allocated().reserved(pod_entry(WEB)),
        [WEB.phase("Succeeded")],
        [],
        ClaimPlan(deallocation=FREED, delete=True),
    ),
    "the claim of a finished Pod stays while another Pod uses it": (
        MADE.allocated().reserved(pod_entry(API)),
        [WEB.phase("Succeeded"), API],
        [],
        NOTHING,
    ),
    "the claim of a finished Pod stays while a workload keeps it": (
        MADE.allocated().reserved(DEPLOYMENT),
        [WEB.phase("Succeeded")],
        [],
        NOTHING,
    ),
    "the claim of a Pod that is not in the cache is left to the garbage collector": (MADE, [], [], NOTHING),
    "the claim of a Pod that was replaced is deleted": (
        MADE,
        [WEB.but("metadata.uid", "new")],
        ["uid-of-web"],
        ClaimPlan(delete=True),
    ),
    "the claim stays when the cache may be behind its Pod": (MADE, [WEB.but("metadata.uid", "old")], [], NOTHING),
    "a claim that is being deleted is not deleted again": (MADE.deleting(), [WEB.phase("Succeeded")], [], NOTHING),
    "a claim that this process just deleted is not deleted again": (
        MADE,
        [WEB.phase("Succeeded")],
        ["uid-of-web-gpu-x"],
        NOTHING,
    ),
    "a claim without an owner is not deleted": (claim(), [WEB.phase("Succeeded")], [], NOTHING),
    "a claim whose owner is no Pod is not deleted": (
        claim().owned_by("Job", "web"),
        [WEB.phase("Succeeded")],
        [],
        NOTHING,
    ),
}


@pytest.mark.parametrize(("given", "there", "gone", "want"), DELETED.values(), ids=DELETED)
def test_deletion(given: Any, there: list[Object], gone: list[str], want: ClaimPlan) -> None:
    assert decide(ClaimFacts(given, view_of(*there, gone=gone))) == want


def test_the_claims_of_a_pod_that_is_done_by_status_and_by_name() -> None:
    consumer = pod().but(
        "spec.resourceClaims",
        [{"name": "n", "resourceClaimTemplateName": "t"}, {"name": "s", "resourceClaimName": "shared"}],
    )
    assert [*references_to_clean(consumer.generated("n", "made"))] == [Key("ml", "made"), Key("ml", "shared")]
