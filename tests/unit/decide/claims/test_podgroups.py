"""The PodGroup of a WorkloadClaim: made, kept, given back, and never somebody else's."""

import pytest
from objects.builders import Built, Claim, Pod, claim, pod_group, workload_claim

from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.decide.claims.podgroups import (
    NOTHING,
    PodGroupPlan,
    answered,
    decide,
    is_refused,
    not_served,
    pod_group_for,
)
from tollbar.decide.claims.reservations import State
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object


def parsed(obj: Object) -> WorkloadClaim:
    found = parse_workload_claim(obj)
    assert isinstance(found, WorkloadClaim)
    return found


UNASKED = workload_claim(resourceClaimTemplateName="one")
ASKED = UNASKED.but("spec.podGroup", {"podClaimName": "device"})
ENTRIES = [{"name": "device", "resourceClaimName": "web-gpu"}]
OWNER = {"apiVersion": "tollbar.dev/v1alpha1", "kind": "WorkloadClaim", "name": "web-gpu", "uid": "wc1"}
NEW = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"namespace": "ml", "name": "web-gpu", "ownerReferences": [{**OWNER, "controller": True}]},
    "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": ENTRIES},
}
FOREIGN = pod_group("web-gpu").but("spec.resourceClaims", ENTRIES)
OURS = FOREIGN.but("metadata.ownerReferences", NEW["metadata"]["ownerReferences"]).but("metadata.uid", "g1")
ENDING = OURS.deleting()
UNSHARED = OURS.but("spec.resourceClaims", [])
EARLIER = OURS.but("spec.resourceClaims", [{"name": "typo", "resourceClaimName": "web-gpu"}])
OF_EARLIER = Condition(
    "False",
    "Ending",
    "it is of an earlier podGroup of this WorkloadClaim, goes with its last Pod, and is made again then",
)
ENTRY = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "web-gpu", "uid": "g1"}
USED = claim("web-gpu").allocated().reserved(ENTRY)
FREE = claim("web-gpu")
READY = Condition("True", "Ready")
REFUSED = is_refused("no")
NOT_SHARED = Condition(
    "False",
    "ClaimsNotShared",
    "the API server leaves claims out of PodGroups: the feature gate DRAWorkloadResourceClaims is off",
)

CASES: dict[str, tuple[Built, Pod | None, Claim | None, State | None, Condition | None, PodGroupPlan]] = {
    "nobody asks for one": (UNASKED, None, None, None, None, NOTHING),
    "one is made before the claim and the workload are there": (
        ASKED,
        None,
        None,
        None,
        None,
        PodGroupPlan(create=NEW),
    ),
    "one that could not be made is reported": (ASKED, None, None, None, REFUSED, PodGroupPlan(REFUSED)),
    "somebody else's is left alone": (
        ASKED,
        FOREIGN,
        USED,
        State(False, "Released"),
        None,
        PodGroupPlan(Condition("False", "Taken", "PodGroup web-gpu is somebody else's")),
    ),
    "somebody else's is no business of ours": (UNASKED, FOREIGN, USED, None, None, NOTHING),
    "it is there": (ASKED, OURS, FREE, None, None, PodGroupPlan(READY, joinable=OURS)),
    "it keeps the claim while that is reserved": (
        ASKED,
        OURS,
        USED,
        State(True, "Held"),
        None,
        PodGroupPlan(READY, joinable=OURS),
    ),
    "it stays while nobody knows whether the workload is there": (
        ASKED,
        OURS,
        USED,
        State(False, "KindUnknown"),
        None,
        PodGroupPlan(READY, joinable=OURS),
    ),
    "it gives the claim back with the workload": (
        ASKED,
        OURS,
        USED,
        State(False, "Released"),
        None,
        PodGroupPlan(READY, delete=OURS, joinable=OURS),
    ),
    "also if this process was not there when the workload went": (
        ASKED,
        OURS,
        USED,
        State(False, "WorkloadMissing"),
        None,
        PodGroupPlan(READY, delete=OURS, joinable=OURS),
    ),
    "it gives tainted devices back": (
        ASKED,
        OURS,
        USED,
        State(False, "DeviceTainted"),
        None,
        PodGroupPlan(READY, delete=OURS, joinable=OURS),
    ),
    "but not before the reservation is given up": (
        ASKED,
        OURS,
        USED,
        State(True, "DeviceTainted"),
        None,
        PodGroupPlan(READY, joinable=OURS),
    ),
    "the next one has not got them yet": (
        ASKED,
        OURS.but("metadata.uid", "g2"),
        USED,
        State(False, "DeviceTainted"),
        None,
        PodGroupPlan(READY, joinable=OURS.but("metadata.uid", "g2")),
    ),
    "a claim that it has no entry in is not its to give back": (
        ASKED,
        OURS,
        FREE,
        State(False, "Released"),
        None,
        PodGroupPlan(READY, joinable=OURS),
    ),
    "it goes when nobody asks for it any more": (
        UNASKED,
        OURS,
        USED,
        State(True, "Held"),
        None,
        PodGroupPlan(delete=OURS),
    ),
    "once": (UNASKED, ENDING, USED, None, None, NOTHING),
    "Pods may join it while it goes": (
        ASKED,
        ENDING,
        USED,
        State(False, "Released"),
        None,
        PodGroupPlan(
            Condition("True", "Ending", "it is being deleted, goes with its last Pod, and is made again then"),
            joinable=ENDING,
        ),
    ),
    "one of an earlier podGroup is made again": (
        ASKED,
        EARLIER,
        FREE,
        None,
        None,
        PodGroupPlan(OF_EARLIER, delete=EARLIER),
    ),
    "when its last Pod has gone": (ASKED, EARLIER.deleting(), FREE, None, REFUSED, PodGroupPlan(OF_EARLIER)),
    "that it may not be deleted is reported": (
        UNASKED,
        OURS,
        USED,
        None,
        REFUSED,
        PodGroupPlan(REFUSED),
    ),
    "also where it would give the claim back": (
        ASKED,
        OURS,
        USED,
        State(False, "Released"),
        REFUSED,
        PodGroupPlan(REFUSED, joinable=OURS),
    ),
    "one without the claim is made again": (
        ASKED,
        UNSHARED,
        FREE,
        None,
        None,
        PodGroupPlan(NOT_SHARED, delete=UNSHARED),
    ),
}


@pytest.mark.parametrize(("owner", "found", "given", "state", "refused", "want"), CASES.values(), ids=CASES)
def test_decisions(
    owner: Built,
    found: Pod | None,
    given: Claim | None,
    state: State | None,
    refused: Condition | None,
    want: PodGroupPlan,
) -> None:
    assert decide(owner, parsed(owner), found, given, state, refused) == want


def test_the_priority_of_the_pods_is_that_of_the_group() -> None:
    owner = ASKED.but("spec.podGroup.priorityClassName", "high")
    assert pod_group_for(owner, parsed(owner))["spec"]["priorityClassName"] == "high"


def test_what_the_api_server_would_make_of_it() -> None:
    assert [answered(each, parsed(ASKED)) for each in (NEW, UNSHARED)] == [None, NOT_SHARED]
    why = "the API server does not serve PodGroups (scheduling.k8s.io, the feature gate GenericWorkload)"
    assert not_served() == Condition("False", "NotServed", why)
    assert is_refused("no") == Condition("False", "Refused", "no")


def test_a_name_that_no_pod_could_have_is_refused() -> None:
    found = parse_workload_claim(UNASKED.but("spec.podGroup", {"podClaimName": "Device", "priorityClassName": "High!"}))
    assert isinstance(found, list)
    assert [error.field for error in found] == ["spec.podGroup.podClaimName", "spec.podGroup.priorityClassName"]
