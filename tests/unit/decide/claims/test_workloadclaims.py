"""What a WorkloadClaim asks of its claim, and what its status says."""

from dataclasses import replace
from typing import Any

import pytest
from objects.builders import CREATED, Built, Claim, claim, pod, pod_group, template, workload_claim

from tollbar.api.workloads import parse_workload_claim
from tollbar.decide.claims.podgroups import PodGroupPlan
from tollbar.decide.claims.reservations import State
from tollbar.decide.claims.workloadclaims import WorkloadClaimFacts, WorkloadClaimPlan, decide
from tollbar.decide.status import StatusPlan
from tollbar.model.ask import Get
from tollbar.model.claims import pod_entry
from tollbar.model.conditions import Condition
from tollbar.model.fields import FieldError
from tollbar.model.objects import Key, Object, uid_of
from tollbar.model.plan import Event, RetryAfter
from tollbar.model.resources import RESOURCE_CLAIM_TEMPLATES

NOW = CREATED + 100.0
SINCE = "2026-01-01T00:01:40Z"
WRITTEN = {
    "tollbar.dev/reserved-for": "deployments.apps/web",
    "tollbar.dev/release": "WhenIdle",
    "tollbar.dev/workload-claim": "web-gpu",
}
ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}


MADE = workload_claim(release="WhenIdle", resourceClaimTemplateName="one")
ADOPTED = workload_claim(release="WhenIdle", resourceClaimName="gpu")
TEMPLATE = template("one").request("gpu.example.com").giving({"team": "a"}, {"note": "x"})
STUB = {"metadata": {"namespace": "ml", "name": "one"}, "spec": {}, "stub": True}
ABOUT_ONE = Get(RESOURCE_CLAIM_TEMPLATES, Key("ml", "one"))
OWNER = {"apiVersion": "tollbar.dev/v1alpha1", "kind": "WorkloadClaim", "name": "web-gpu", "uid": "wc1"}
NEW = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {
        "namespace": "ml",
        "name": "web-gpu",
        "labels": {"team": "a"},
        "annotations": {"note": "x", **WRITTEN},
        "ownerReferences": [{**OWNER, "controller": True}],
    },
    "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}


def made(uid: str = "wc1") -> Claim:
    return claim("web-gpu").owned_by("WorkloadClaim", "web-gpu", uid=uid)


def facts(obj: Built, found: Claim | None = None, state: State | None = None, **more: Any) -> WorkloadClaimFacts:
    return WorkloadClaimFacts(obj, parse_workload_claim(obj), found, more.get("template"), state, more.get("written"))


def status(
    status_: str, reason: str, phase: str, message: str = "", *, name: str = "gpu", consumers: int = 0, uid: str = ""
) -> Object:
    condition = {
        "type": "Reserved",
        "status": status_,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": SINCE,
    }
    found = {"workloadUID": uid} if uid else {}
    return {
        "observedGeneration": 1,
        "resourceClaimName": name,
        "phase": phase,
        **found,
        "consumers": consumers,
        "conditions": [condition],
    }


def fitting(given: Object, status_: str, reason: str, message: str = "") -> Object:
    """This status with the condition ConsumersFit."""
    (reserved,) = given["conditions"]
    return {
        **given,
        "conditions": [
            reserved,
            {**reserved, "type": "ConsumersFit", "status": status_, "reason": reason, "message": message},
        ],
    }


def says(*args: Any, **more: Any) -> WorkloadClaimPlan:
    return WorkloadClaimPlan(status=StatusPlan(status(*args, **more)))


RESERVED = (
    claim()
    .annotated({**WRITTEN, "tollbar.dev/reserved-uid": "u1"})
    .allocated()
    .reserved(ENTRY, pod_entry(pod("web-1")))
)
HELD = status("True", "Held", "Reserved", uid="u1", consumers=1)
MISSING = "does not exist"

CASES: dict[str, tuple[WorkloadClaimFacts, WorkloadClaimPlan]] = {
    "nothing is done about a WorkloadClaim that is being deleted": (
        facts(MADE.but("metadata.deletionTimestamp", SINCE)),
        WorkloadClaimPlan(),
    ),
    "an invalid WorkloadClaim is Blocked": (
        facts(workload_claim()),
        says(
            "False",
            "InvalidSpec",
            "Blocked",
            "spec: Required value: exactly one of resourceClaimTemplateName and resourceClaimName must be set",
            name="",
        ),
    ),
    "all that is wrong with it is said": (
        replace(
            facts(workload_claim()), parsed=[FieldError("spec.a", "Required value"), FieldError("spec.b", "Forbidden")]
        ),
        says("False", "InvalidSpec", "Blocked", "spec.a: Required value; spec.b: Forbidden", name=""),
    ),
    "a template that does not exist is waited for": (
        facts(MADE),
        says("False", "TemplateMissing", "Pending", f"ResourceClaimTemplate one {MISSING}", name="web-gpu"),
    ),
    "a claim is created from the template": (facts(MADE, template=TEMPLATE), WorkloadClaimPlan(create=NEW)),
    "a claim is created from a template that the caches have no room for, which is to be read": (
        facts(MADE, template=STUB),
        WorkloadClaimPlan(create=ABOUT_ONE),
    ),
    "a claim of the name that has no owner is not taken": (
        facts(MADE, claim("web-gpu"), template=TEMPLATE),
        says("False", "ClaimTaken", "Blocked", "ResourceClaim web-gpu is somebody else's", name="web-gpu"),
    ),
    "a claim of an earlier WorkloadClaim of the same name is not taken": (
        facts(MADE, made("wc0")),
        says("False", "ClaimTaken", "Blocked", "ResourceClaim web-gpu is somebody else's", name="web-gpu"),
    ),
    "missing annotations are written": (facts(MADE, made()), WorkloadClaimPlan(annotate=WRITTEN)),
    "nothing is written before the reservation was decided": (
        facts(MADE, made().annotated(WRITTEN)),
        WorkloadClaimPlan(),
    ),
    "a claim that does not exist is waited for": (
        facts(ADOPTED),
        says("False", "ClaimMissing", "Pending", f"ResourceClaim gpu {MISSING}"),
    ),
    "a claim that exists is annotated": (facts(ADOPTED, claim()), WorkloadClaimPlan(annotate=WRITTEN)),
    "a claim that is annotated for the same workload is adopted": (
        facts(ADOPTED, claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})),
        WorkloadClaimPlan(annotate=WRITTEN),
    ),
    "a claim that is annotated for another workload is not taken": (
        facts(ADOPTED, claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/api"})),
        says(
            "False", "ClaimTaken", "Blocked", "ResourceClaim gpu is annotated to be reserved for deployments.apps/api"
        ),
    ),
    "a claim of another WorkloadClaim is not taken": (
        facts(ADOPTED, claim().annotated({**WRITTEN, "tollbar.dev/workload-claim": "other"})),
        says("False", "ClaimTaken", "Blocked", "WorkloadClaim other has ResourceClaim gpu"),
    ),
    "a reservation that waits is Pending": (
        facts(ADOPTED, claim().annotated(WRITTEN), State(False, "NotAllocated", "waiting")),
        says("False", "NotAllocated", "Pending", "waiting"),
    ),
    "a reservation that stands is Reserved": (
        facts(ADOPTED, RESERVED, State(True, "Held")),
        WorkloadClaimPlan(status=StatusPlan(HELD)),
    ),
    "Pods count as its consumers": (
        facts(ADOPTED, RESERVED.reserved(pod_entry(pod("api"))), State(True, "Held")),
        WorkloadClaimPlan(status=StatusPlan({**HELD, "consumers": 2})),
    ),
    "whatever is left of a reservation that is given up counts, too": (
        facts(ADOPTED, RESERVED, State(False, "UpstreamTooOld", "old")),
        says("False", "UpstreamTooOld", "Blocked", "old", consumers=2),
    ),
    "a status that is there already is not written again": (
        facts(ADOPTED.but("status", HELD), RESERVED, State(True, "Held")),
        WorkloadClaimPlan(),
    ),
    "a reservation that stands is Reserved although something is wrong": (
        facts(ADOPTED, RESERVED, State(True, "KindUnknown", "why")),
        says("True", "KindUnknown", "Reserved", "why", uid="u1", consumers=1),
    ),
    "Pods that all find a place are Fit": (
        facts(ADOPTED, RESERVED, State(True, "Held", crowded="")),
        WorkloadClaimPlan(status=StatusPlan(fitting(HELD, "True", "Fit"))),
    ),
    "too many Pods are told once": (
        facts(ADOPTED.but("status", fitting(HELD, "True", "Fit")), RESERVED, State(True, "Held", crowded="too many")),
        WorkloadClaimPlan(
            status=StatusPlan(
                fitting(HELD, "False", "TooManyConsumers", "too many"),
                (Event("Warning", "TooManyConsumers", "too many", "Reserve"),),
            )
        ),
    ),
    "another text about them is no Event": (
        facts(
            ADOPTED.but("status", fitting(HELD, "False", "TooManyConsumers", "400")),
            RESERVED,
            State(True, "Held", crowded="500"),
        ),
        WorkloadClaimPlan(status=StatusPlan(fitting(HELD, "False", "TooManyConsumers", "500"))),
    ),
    "what was said of them stays while it is not known": (
        facts(ADOPTED.but("status", fitting(HELD, "False", "TooManyConsumers", "400")), RESERVED, State(True, "Held")),
        WorkloadClaimPlan(),
    ),
    "nothing is said of them any more when the claim is gone": (
        facts(ADOPTED.but("status", fitting(HELD, "False", "TooManyConsumers", "400"))),
        WorkloadClaimPlan(
            status=StatusPlan(
                {**status("False", "ClaimMissing", "Pending", f"ResourceClaim gpu {MISSING}"), "workloadUID": None}
            )
        ),
    ),
    "another number of consumers is not written soon after a write": (
        facts(ADOPTED.but("status", {**HELD, "consumers": 0}), RESERVED, State(True, "Held"), written=NOW - 10),
        WorkloadClaimPlan(status=StatusPlan(outcome=RetryAfter(20.0))),
    ),
    "nor where it is known whether they all find a place": (
        facts(
            ADOPTED.but("status", fitting({**HELD, "consumers": 0}, "True", "Fit")),
            RESERVED,
            State(True, "Held", crowded=""),
            written=NOW - 10,
        ),
        WorkloadClaimPlan(status=StatusPlan(outcome=RetryAfter(20.0))),
    ),
    "a reservation that was given back is Released": (
        facts(ADOPTED.but("status", HELD), claim().annotated(WRITTEN), State(False, "Released", "idle")),
        WorkloadClaimPlan(status=StatusPlan({**status("False", "Released", "Released", "idle"), "workloadUID": None})),
    ),
    "a reservation without a free entry is Blocked": (
        facts(ADOPTED, claim().annotated(WRITTEN), State(False, "Full", "256")),
        says("False", "Full", "Blocked", "256"),
    ),
}


GROUPED = ADOPTED.but("spec.podGroup", {"podClaimName": "device"})
GROUP = (
    pod_group("web-gpu")
    .but("metadata.ownerReferences", [{**OWNER, "controller": True}])
    .but("spec", {"resourceClaims": [{"name": "device", "resourceClaimName": "gpu"}], "priorityClassName": "high"})
)
PLAIN_GROUP = GROUP.but("spec.priorityClassName", None)
SHARED = (
    claim()
    .annotated(WRITTEN)
    .allocated()
    .reserved({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "web-gpu", "uid": uid_of(GROUP)})
)
JOINABLE = {"name": "web-gpu", "priorityClassName": "high"}


def with_group(given: Object, status_: str, reason: str, **members: Any) -> Object:
    """This status with the condition PodGroupReady."""
    (reserved,) = given["conditions"]
    ready = {**reserved, "type": "PodGroupReady", "status": status_, "reason": reason, "message": ""}
    return {**given, **members, "conditions": [reserved, ready]}


GROUPS: dict[str, tuple[WorkloadClaimFacts, WorkloadClaimPlan]] = {
    "Pods may join it": (
        replace(facts(GROUPED, RESERVED, State(True, "Held")), pod_group=GROUP),
        WorkloadClaimPlan(
            status=StatusPlan(with_group(HELD, "True", "Ready", podGroup=JOINABLE)),
            pod_group=PodGroupPlan(Condition("True", "Ready"), joinable=GROUP),
        ),
    ),
    "it has no priority": (
        replace(facts(GROUPED, RESERVED, State(True, "Held")), pod_group=PLAIN_GROUP),
        WorkloadClaimPlan(
            status=StatusPlan(with_group(HELD, "True", "Ready", podGroup={**JOINABLE, "priorityClassName": ""})),
            pod_group=PodGroupPlan(Condition("True", "Ready"), joinable=PLAIN_GROUP),
        ),
    ),
    "it gives the claim back": (
        replace(facts(GROUPED, SHARED, State(False, "Released")), pod_group=GROUP),
        WorkloadClaimPlan(
            status=StatusPlan(
                with_group(status("False", "Released", "Released", consumers=1), "True", "Ready", podGroup=JOINABLE)
            ),
            pod_group=PodGroupPlan(Condition("True", "Ready"), delete=GROUP, joinable=GROUP),
        ),
    ),
    "it is refused": (
        replace(facts(GROUPED, RESERVED, State(True, "Held")), pod_group_refused=Condition("False", "Refused")),
        WorkloadClaimPlan(
            status=StatusPlan(with_group(HELD, "False", "Refused")),
            pod_group=PodGroupPlan(Condition("False", "Refused")),
        ),
    ),
    "nobody asks for it any more": (
        replace(
            facts(
                ADOPTED.but("status", with_group(HELD, "True", "Ready", podGroup=JOINABLE)),
                RESERVED,
                State(True, "Held"),
            ),
            pod_group=GROUP,
        ),
        WorkloadClaimPlan(
            status=StatusPlan({**HELD, "podGroup": None}),
            pod_group=PodGroupPlan(delete=GROUP),
        ),
    ),
}


@pytest.mark.parametrize(("given", "want"), GROUPS.values(), ids=GROUPS)
def test_the_pod_group(given: WorkloadClaimFacts, want: WorkloadClaimPlan) -> None:
    assert decide(given, NOW) == want


def test_what_was_said_of_a_pod_group_stays_while_it_is_made_again() -> None:
    plan = decide(facts(GROUPED.but("status", with_group(HELD, "False", "Taken")), RESERVED, State(True, "Held")), NOW)
    assert isinstance(plan, WorkloadClaimPlan)
    assert (plan.pod_group.create is not None, plan.status) == (True, StatusPlan())


@pytest.mark.parametrize("found", [None, TEMPLATE], ids=["waits", "is made"])
def test_the_pod_group_is_made_whatever_the_claim_waits_for(found: Object | None) -> None:
    plan = decide(facts(MADE.but("spec.podGroup", {"podClaimName": "device"}), template=found), NOW)
    assert isinstance(plan, WorkloadClaimPlan)
    assert (plan.pod_group.create or {})["metadata"]["name"] == "web-gpu"
    assert (plan.status.status is None, plan.create is None) == (found is not None, found is None)


@pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES)
def test_decisions(given: WorkloadClaimFacts, want: WorkloadClaimPlan) -> None:
    assert decide(given, NOW) == want


def test_it_is_not_read_once_there_is_a_claim() -> None:
    assert decide(facts(MADE, made(), template=STUB), NOW) == WorkloadClaimPlan(annotate=WRITTEN)


def test_a_claim_that_was_made_is_left_as_it_is() -> None:
    given = facts(MADE, template=TEMPLATE)
    created = decide(given, NOW).create
    assert isinstance(created, dict)
    assert decide(replace(given, claim=created), NOW) == WorkloadClaimPlan()
