"""One claim: whose reservations are void, when it is freed, when it is deleted."""

from typing import Any

import pytest
from builders import claim, pod, pod_group
from claimworld import view_of

from tollbar.decide.claims.deallocation import Deallocation
from tollbar.decide.claims.resourceclaims import ClaimFacts, ClaimPlan, decide
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Object

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


def keeping(*entries: Object) -> ClaimPlan:
    status = {"allocation": USED["status"]["allocation"], "reservedFor": list(entries)}
    return ClaimPlan(deallocation=Deallocation(status, unprotect=False))


ENTRIES: dict[str, tuple[Any, list[Object], dict[str, bool], ClaimPlan]] = {
    "nobody uses it, and nobody did": (claim(), [], {}, NOTHING),
    "allocated and reserved by nobody: whoever allocated it may be about to reserve it": (USED, [], {}, NOTHING),
    "its Pod runs": (BY_WEB, [WEB], {}, NOTHING),
    "its Pod is being stopped": (BY_WEB, [WEB.deleting()], {}, NOTHING),
    "its Pod has ended": (BY_WEB, [WEB.phase("Succeeded")], {}, ClaimPlan(deallocation=FREED)),
    "its Pod was deleted before it got a node": (
        BY_WEB,
        [WEB.but("spec.nodeName", None).deleting()],
        {},
        ClaimPlan(deallocation=FREED),
    ),
    "one of two has ended": (BY_BOTH, [WEB.phase("Failed"), API], {}, keeping(pod_entry(API))),
    "a Pod that is not in the cache is asked for": (BY_WEB, [], {}, ClaimPlan(questions=(pod_entry(WEB),))),
    "and nothing is done about the others before": (
        BY_BOTH,
        [API.phase("Failed")],
        {},
        ClaimPlan(questions=(pod_entry(WEB),)),
    ),
    "it is there": (BY_WEB, [], {"uid-of-web": False}, NOTHING),
    "it is gone": (BY_WEB, [], {"uid-of-web": True}, ClaimPlan(deallocation=FREED)),
    "a Pod that replaced it, or that it replaced: the API server knows": (
        USED.reserved(OLD),
        [WEB],
        {},
        ClaimPlan(questions=(OLD,)),
    ),
    "it was replaced": (USED.reserved(OLD), [WEB], {OLD["uid"]: True}, ClaimPlan(deallocation=FREED)),
    "a workload's entry stays": (USED.reserved(DEPLOYMENT), [], {}, NOTHING),
    "beside that of a Pod that has ended, too": (
        BY_WEB.reserved(DEPLOYMENT),
        [WEB.phase("Failed")],
        {},
        keeping(DEPLOYMENT),
    ),
    "a PodGroup that is there": (USED.reserved(GANG), [pod_group()], {}, NOTHING),
    "a PodGroup that is being deleted still has Pods": (USED.reserved(GANG), [pod_group().deleting()], {}, NOTHING),
    "a PodGroup that is not in the cache is asked for": (USED.reserved(GANG), [], {}, ClaimPlan(questions=(GANG,))),
    "a PodGroup that is gone": (USED.reserved(GANG), [], {"uid-of-gang": True}, ClaimPlan(deallocation=FREED)),
    "it is being deleted, in use": (BY_WEB.deleting(), [WEB], {}, NOTHING),
    "it is being deleted, unused": (USED.deleting(), [], {}, ClaimPlan(deallocation=FREED)),
}


@pytest.mark.parametrize(("given", "there", "answers", "want"), ENTRIES.values(), ids=ENTRIES)
def test_entries(given: Any, there: list[Object], answers: dict[str, bool], want: ClaimPlan) -> None:
    assert decide(ClaimFacts(given, view_of(*there), answers)) == want


def test_a_pod_that_is_known_to_be_deleted_is_not_asked_for() -> None:
    assert decide(ClaimFacts(BY_WEB, view_of(gone=["uid-of-web"]))) == ClaimPlan(deallocation=FREED)


MADE = claim("web-gpu-x").generated_for(WEB, "gpu")
DELETED: dict[str, tuple[Any, list[Object], list[str], ClaimPlan]] = {
    "its Pod runs": (MADE, [WEB], [], NOTHING),
    "its Pod has ended": (MADE, [WEB.phase("Succeeded")], [], ClaimPlan(delete=True)),
    "its Pod has ended, and it was in use until now": (
        MADE.allocated().reserved(pod_entry(WEB)),
        [WEB.phase("Succeeded")],
        [],
        ClaimPlan(deallocation=FREED, delete=True),
    ),
    "its Pod has ended, and another one uses it": (
        MADE.allocated().reserved(pod_entry(API)),
        [WEB.phase("Succeeded"), API],
        [],
        NOTHING,
    ),
    "its Pod has ended, and a workload holds it": (
        MADE.allocated().reserved(DEPLOYMENT),
        [WEB.phase("Succeeded")],
        [],
        NOTHING,
    ),
    "its Pod is gone, which is the garbage collector's business, or not seen yet": (MADE, [], [], NOTHING),
    "its Pod was replaced": (MADE, [WEB.but("metadata.uid", "new")], ["uid-of-web"], ClaimPlan(delete=True)),
    "its Pod may be a newer one than the cache has": (MADE, [WEB.but("metadata.uid", "old")], [], NOTHING),
    "it is being deleted already": (MADE.deleting(), [WEB.phase("Succeeded")], [], NOTHING),
    "it was deleted a moment ago": (MADE, [WEB.phase("Succeeded")], ["uid-of-web-gpu-x"], NOTHING),
    "it has no owner": (claim(), [WEB.phase("Succeeded")], [], NOTHING),
    "it belongs to something else": (claim().owned_by("Job", "web"), [WEB.phase("Succeeded")], [], NOTHING),
}


@pytest.mark.parametrize(("given", "there", "gone", "want"), DELETED.values(), ids=DELETED)
def test_deletion(given: Any, there: list[Object], gone: list[str], want: ClaimPlan) -> None:
    assert decide(ClaimFacts(given, view_of(*there, gone=gone))) == want
