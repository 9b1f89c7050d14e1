"""What becomes of a workload's reservation, case by case: the chain in its order."""

from typing import Any

import pytest
from builders import Built, Claim, claim, pod

from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.deallocation import Deallocation
from tollbar.decide.claims.reservations import (
    LIMIT,
    RECHECK,
    SOON,
    Knowledge,
    ReservationFacts,
    ReservationPlan,
    State,
    Workload,
    decide,
)
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Object
from tollbar.model.plan import DONE, Event, RetryAfter

ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
OLD = {**ENTRY, "uid": "u0"}
FOREIGN = {"apiGroup": "example.com", "resource": "widgets", "name": "w", "uid": "w1"}
GANG = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g1"}
ALLOCATION = claim().allocated()["status"]["allocation"]
RECORD = (("tollbar.dev/reserved-uid", "u1"),)

RUNNING = pod("web-1").claims("gpu").bound().phase("Running")
PENDING = pod("web-2").claims("gpu")
FINISHED = pod("web-3").claims("gpu").bound().phase("Succeeded")
ENDING = FINISHED.deleting()
NEVER_BOUND = pod("web-4").claims("gpu").phase("Failed")


def kept(release: str = "", uid: str = "", **annotations: str) -> Claim:
    """A claim for deployments.apps/web; `uid` is the one on record."""
    written = {"tollbar.dev/reserved-for": "deployments.apps/web", **annotations}
    if release:
        written["tollbar.dev/release"] = release
    if uid:
        written["tollbar.dev/reserved-uid"] = uid
    return claim().annotated(written)


def allocated(*entries: Object, **given: str) -> Claim:
    return kept(**given).allocated().reserved(*entries)


def workload(**more: Any) -> Built:
    built = Built({"metadata": {"namespace": "ml", "name": "web", "uid": "u1", "generation": 2}})
    for path, value in more.items():
        built = built.but(path.replace("__", "."), value)
    return built


IDLE = workload(spec__replicas=0, status__observedGeneration=2)
NOT_SEEN = workload(spec__replicas=0, status__observedGeneration=1)
COMPLETE = workload(status__conditions=[{"type": "Complete", "status": "True"}])
JOBSET = workload(status__conditions=[{"type": "Completed", "status": "True"}])
FAILED = workload(status__conditions=[{"type": "Failed", "status": "True"}])
SUSPENDED = workload(
    status__conditions=[{"type": "Suspended", "status": "True"}, {"type": "Failed", "status": "False"}]
)


def facts(given: Claim, found: Object | Knowledge | None = None, *consumers: Object, **more: Any) -> ReservationFacts:
    """The workload exists unless something else is said about it."""
    if isinstance(found, Knowledge):
        return ReservationFacts(given, Workload(found, detail="no rights"), consumers, **more)
    return ReservationFacts(given, Workload(Knowledge.FOUND, found or workload()), consumers, **more)


def waits(reason: str, message: str, *, reserved: bool = False, again: bool = False) -> ReservationPlan:
    return ReservationPlan(State(reserved, reason, message), outcome=RetryAfter(RECHECK) if again else DONE)


def blocked(reason: str, message: str, *, reserved: bool = False, again: bool = True) -> ReservationPlan:
    event = Event("Warning", "ReservationBlocked", f"{reason}: {message}", "Reserve")
    plan = ReservationPlan(State(reserved, reason, message), events=(event,))
    return plan if not again else ReservationPlan(plan.state, events=(event,), outcome=RetryAfter(RECHECK))


def released(reason: str, message: str, *remaining: Object, event: str = "", kind: Any = "Normal") -> ReservationPlan:
    """Our entry goes; without others the allocation and the finalizer do, too."""
    if remaining:
        removal = Deallocation({"allocation": ALLOCATION, "reservedFor": list(remaining)}, unprotect=False)
    else:
        removal = Deallocation({}, unprotect=True)
    name = event or ("ReservationReleased" if remaining else "ClaimDeallocated")
    said = Event(kind, name, f"{reason}: {message}", "Release")
    return ReservationPlan(State(False, reason, message), remove=removal, events=(said,))


def pinned(*, record: bool = True) -> ReservationPlan:
    event = Event("Normal", "ClaimReserved", "reserved for deployments.apps/web", "Reserve")
    return ReservationPlan(State(True, "Held"), RECORD if record else (), ENTRY, events=(event,))


HELD = ReservationPlan(State(True, "Held"))
NOTHING = ReservationPlan()
GONE = "deployments.apps/web is gone"
UNASKED = "nobody asks for the reservation any more"
ADVICE = (
    "kube-controller-manager would take their entries away and add them again without end"
    " (kubernetes/kubernetes#141274); delete them, or run Tollbar with claims: Replace"
)
TOO_OLD = (
    "before Kubernetes 1.36 kube-controller-manager no longer looks after a claim that is reserved for a workload"
    " (kubernetes/kubernetes#136406); upgrade Kubernetes, or run Tollbar with claims: Replace"
)
UNSERVED = "deployments.apps/web: the API server does not serve this kind"
IS_IDLE = "deployments.apps/web is scaled to zero and no Pod refers to the claim"
OURS = {"uid": "u1"}

CASES: dict[str, tuple[ReservationFacts, ReservationPlan]] = {
    # Nobody wants to keep it.
    "a claim of somebody else": (facts(claim().allocated().reserved(FOREIGN, pod_entry(RUNNING))), NOTHING),
    "a record without an entry": (facts(claim().annotated({"tollbar.dev/reserved-uid": "u1"})), NOTHING),
    "a record that names a Pod is no reason to remove it": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "uid-of-web-1"}).allocated().reserved(pod_entry(RUNNING))),
        NOTHING,
    ),
    "a record that names a PodGroup is none either": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "g1"}).allocated().reserved(GANG)),
        NOTHING,
    ),
    "the annotation was removed": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "u1"}).allocated().reserved(ENTRY, pod_entry(RUNNING))),
        released("Released", UNASKED, pod_entry(RUNNING)),
    ),
    "both annotations were removed: the API server knows whose the entry is": (
        facts(claim().allocated().pinned(ENTRY).reserved(FOREIGN)),
        released("Released", UNASKED, FOREIGN),
    ),
    "both annotations were removed, our entry the last": (
        facts(claim().allocated().pinned(ENTRY)),
        released("Released", UNASKED),
    ),
    "another workload is asked for, and the record of the first was removed": (
        facts(kept().allocated().pinned(OLD).reserved(pod_entry(RUNNING))),
        released("Released", GONE, pod_entry(RUNNING)),
    ),
    "the same entry, written by somebody else": (facts(claim().allocated().reserved(ENTRY), Knowledge.ABSENT), NOTHING),
    "what was added for a Pod is no reservation": (facts(claim().allocated().pinned(pod_entry(RUNNING))), NOTHING),
    "the WorkloadClaim is gone": (
        ReservationFacts(allocated(ENTRY, pod_entry(RUNNING), **OURS), withdrawn=True),
        released("Released", UNASKED, pod_entry(RUNNING)),
    ),
    "the WorkloadClaim is gone, and so is our entry": (
        ReservationFacts(kept(uid="u1", **{"tollbar.dev/workload-claim": "gpu"}).annotated({"a": "b"}), withdrawn=True),
        ReservationPlan(
            annotations=(
                ("tollbar.dev/reserved-for", None),
                ("tollbar.dev/reserved-uid", None),
                ("tollbar.dev/workload-claim", None),
            )
        ),
    ),
    # The claim ends.
    "a claim that is being deleted": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS).deleting()),
        released("Deleting", "the claim is being deleted", pod_entry(RUNNING)),
    ),
    "a claim that is being deleted, our entry the last": (
        facts(allocated(ENTRY, **OURS).deleting()),
        released("Deleting", "the claim is being deleted"),
    ),
    "even when its workload's kind is not served": (
        facts(allocated(ENTRY, **OURS).deleting(), Knowledge.UNKNOWN_KIND),
        released("Deleting", "the claim is being deleted"),
    ),
    "nothing is added to a claim that is being deleted": (
        facts(allocated().deleting()),
        waits("Deleting", "the claim is being deleted"),
    ),
    # What is asked for is not clear.
    "a reference without a slash": (
        facts(claim().annotated({"tollbar.dev/reserved-for": "web"})),
        blocked(
            "InvalidReference",
            "tollbar.dev/reserved-for: must be <resource>.<group>/<name>, such as deployments.apps/web",
            again=False,
        ),
    ),
    "an unknown policy keeps what there is": (
        facts(allocated(ENTRY, release="Never", **OURS)),
        blocked(
            "InvalidReference",
            "tollbar.dev/release: must be one of WhenDeleted, WhenFinished, WhenIdle",
            reserved=True,
            again=False,
        ),
    ),
    "a claim that was generated for a Pod": (
        facts(kept().generated_for(RUNNING)),
        blocked(
            "InvalidReference",
            "the claim was generated for a Pod and ends with it: use a claim of its own for the workload",
            again=False,
        ),
    ),
    # Without knowledge of the workload nothing is released.
    "a kind that is not served": (facts(kept(), Knowledge.UNKNOWN_KIND), blocked("KindUnknown", UNSERVED)),
    "a kind in the singular": (
        facts(kept(**{"tollbar.dev/reserved-for": "deployment.apps/web"}), Knowledge.UNKNOWN_KIND),
        blocked(
            "KindUnknown",
            "deployment.apps/web: the API server does not serve this kind; `resource` is the plural: deployments",
        ),
    ),
    "a kind that is not served any more": (
        facts(allocated(ENTRY, **OURS), Knowledge.UNKNOWN_KIND),
        blocked("KindUnknown", UNSERVED, reserved=True),
    ),
    "a kind that may not be read": (
        facts(allocated(ENTRY, **OURS), Knowledge.FORBIDDEN),
        blocked("PermissionDenied", "deployments.apps/web: no rights", reserved=True),
    ),
    "a kind that is being listed": (
        facts(allocated(ENTRY, **OURS), Knowledge.UNLISTED),
        ReservationPlan(
            State(True, "KindUnknown", "deployments.apps/web: its kind is being listed"), outcome=RetryAfter(SOON)
        ),
    ),
    # The workload is not there.
    "a workload that does not exist yet": (
        facts(allocated(pod_entry(RUNNING)), Knowledge.ABSENT),
        waits("WorkloadMissing", "deployments.apps/web does not exist"),
    ),
    "a workload that is gone": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), Knowledge.ABSENT),
        released("Released", GONE, pod_entry(RUNNING)),
    ),
    "a workload that is gone, our entry the last": (
        facts(allocated(ENTRY, **OURS), Knowledge.ABSENT),
        released("Released", GONE),
    ),
    "a claim without the finalizer keeps its allocation": (
        facts(allocated(ENTRY, **OURS).but("metadata.finalizers", None), Knowledge.ABSENT),
        ReservationPlan(
            State(False, "Released", GONE),
            remove=Deallocation({"allocation": ALLOCATION}, unprotect=False),
            events=(Event("Normal", "ReservationReleased", f"Released: {GONE}", "Release"),),
        ),
    ),
    "another workload of that name": (
        facts(allocated(OLD, pod_entry(RUNNING), uid="u0")),
        released("Released", GONE, pod_entry(RUNNING)),
    ),
    "the old one's entry goes, the new one's stays": (
        facts(allocated(OLD, ENTRY, uid="u0")),
        released("Released", GONE, ENTRY),
    ),
    "a workload that is being deleted is not reserved for": (
        facts(allocated(pod_entry(RUNNING)), workload(metadata__deletionTimestamp="2026-01-01T00:00:01Z")),
        waits("WorkloadMissing", "deployments.apps/web is being deleted"),
    ),
    "but keeps what it has until it is gone": (
        facts(allocated(ENTRY, **OURS), workload(metadata__deletionTimestamp="2026-01-01T00:00:01Z")),
        HELD,
    ),
    # The policy.
    "a finished Job": (
        facts(allocated(ENTRY, release="WhenFinished", **OURS), COMPLETE),
        released("Released", "deployments.apps/web has finished"),
    ),
    "a failed Job": (
        facts(allocated(ENTRY, release="WhenFinished", **OURS), FAILED),
        released("Released", "deployments.apps/web has finished"),
    ),
    "a finished JobSet that was never reserved for": (
        facts(allocated(pod_entry(RUNNING), release="WhenFinished"), JOBSET),
        waits("Released", "deployments.apps/web has finished"),
    ),
    "a suspended Job": (facts(allocated(ENTRY, release="WhenFinished", **OURS), SUSPENDED), HELD),
    "a finished Job that keeps it until it is deleted": (facts(allocated(ENTRY, **OURS), COMPLETE), HELD),
    "scaled to zero, which does not matter": (facts(allocated(ENTRY, **OURS), IDLE), HELD),
    "scaled to zero, its controller has not seen it": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), NOT_SEEN),
        HELD,
    ),
    "scaled to zero, a Pod still runs": (facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, RUNNING), HELD),
    "scaled to zero, a Pod of somebody else waits": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, PENDING),
        HELD,
    ),
    "scaled to zero, the cache knows of no Pod: the API server is asked": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE),
        ReservationPlan(State(True, "Held"), list_consumers=True),
    ),
    "scaled to zero, the API server knows of one": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, RUNNING, listed=True),
        HELD,
    ),
    "scaled to zero, nobody refers to it": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, NEVER_BOUND, listed=True),
        released("Released", IS_IDLE),
    ),
    "scaled to zero and released already": (facts(kept("WhenIdle", "u1"), IDLE), waits("Released", IS_IDLE)),
    "a kind without replicas is never idle": (facts(allocated(ENTRY, release="WhenIdle", **OURS)), HELD),
    # Pin.
    "not allocated yet": (facts(kept()), waits("NotAllocated", "waiting for the first Pod to be scheduled")),
    "allocated": (facts(allocated(pod_entry(RUNNING)), None, RUNNING), pinned()),
    "allocated, nobody uses it": (facts(allocated()), pinned()),
    "the record was written, the entry was not": (facts(allocated(uid="u1")), pinned(record=False)),
    "beside foreign entries": (facts(allocated(FOREIGN)), pinned()),
    "reserved": (facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), None, RUNNING), HELD),
    "reserved by somebody who wrote the same entry": (facts(allocated(ENTRY)), HELD),
    # A claim controller that stops at entries of workloads.
    "a claim that a pin would wedge": (
        facts(allocated(pod_entry(RUNNING)), None, RUNNING, wedged_by_pins=True),
        blocked("UpstreamTooOld", TOO_OLD),
    ),
    "it is said before the first allocation": (facts(kept(), wedged_by_pins=True), blocked("UpstreamTooOld", TOO_OLD)),
    "a claim that our pin wedges": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), None, RUNNING, wedged_by_pins=True),
        released("UpstreamTooOld", f"given up: {TOO_OLD}", pod_entry(RUNNING), kind="Warning"),
    ),
    "a claim that only our pin keeps, and wedges": (
        facts(allocated(ENTRY, **OURS), wedged_by_pins=True),
        released("UpstreamTooOld", f"given up: {TOO_OLD}", kind="Warning"),
    ),
    "it is kept while we are about to take that controller's place": (
        facts(allocated(ENTRY, **OURS), wedged_by_pins=True, replaces=True),
        ReservationPlan(State(True, "Held"), outcome=RetryAfter(RECHECK)),
    ),
    "none is added while we are about to": (
        facts(allocated(), wedged_by_pins=True, replaces=True),
        ReservationPlan(State(False, "UpstreamTooOld", TOO_OLD), outcome=RetryAfter(SOON)),
    ),
    # The server's endless exchange.
    "a finished Pod lingers": (
        facts(allocated(pod_entry(RUNNING)), None, RUNNING, FINISHED),
        waits("UpstreamOscillation", f"not reserved while finished Pods linger (web-3): {ADVICE}", again=True),
    ),
    "with claims: Replace nobody minds": (
        facts(allocated(pod_entry(RUNNING)), None, RUNNING, FINISHED, hot_loop=False),
        pinned(),
    ),
    "a finished Pod that is being deleted does not linger": (facts(allocated(), None, ENDING), pinned()),
    "a failed Pod that never had a node does not linger": (facts(allocated(), None, NEVER_BOUND), pinned()),
    "a Pod finished after the pin, nobody else consumes": (
        facts(allocated(ENTRY, pod_entry(FINISHED), **OURS), None, FINISHED),
        released(
            "UpstreamOscillation",
            f"given up because finished Pods linger (web-3): {ADVICE}",
            pod_entry(FINISHED),
            kind="Warning",
        ),
    ),
    "a Pod finished after the pin, and we are about to take that controller's place": (
        facts(allocated(ENTRY, **OURS), None, FINISHED, replaces=True),
        ReservationPlan(State(True, "Held"), outcome=RetryAfter(RECHECK)),
    ),
    "a Pod finished after the pin, its entry is gone": (
        facts(allocated(ENTRY, **OURS), None, FINISHED),
        released("UpstreamOscillation", f"given up because finished Pods linger (web-3): {ADVICE}", kind="Warning"),
    ),
    "a Pod finished after the pin, another runs": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), None, FINISHED, RUNNING),
        waits(
            "UpstreamOscillation",
            f"finished Pods linger (web-3), and others use the claim: {ADVICE}",
            reserved=True,
            again=True,
        ),
    ),
    "an exchange that goes on, on a claim that nobody keeps": (
        ReservationFacts(claim().allocated(), consumers=(FINISHED, RUNNING), oscillating={"uid-of-web-3"}),
        ReservationPlan(
            events=(
                Event(
                    "Warning",
                    "UpstreamOscillation",
                    f"the entries of finished Pods (web-3) come and go without end; {ADVICE}",
                    "Observe",
                ),
            ),
            outcome=RetryAfter(RECHECK),
        ),
    ),
    "an entry that comes and goes is no exchange when its Pod runs": (
        ReservationFacts(claim().allocated(), consumers=(RUNNING,), oscillating={"uid-of-web-1"}),
        NOTHING,
    ),
}
FOREIGN_ENTRIES = [{**FOREIGN, "uid": f"w{number}"} for number in range(256)]
FILLED = "{} of 256 entries are taken; more consumers need PodGroups"
CASES |= {
    # One place stays free.
    "254 entries": (facts(allocated(*FOREIGN_ENTRIES[: LIMIT - 1])), pinned()),
    "255 entries": (
        facts(allocated(*FOREIGN_ENTRIES[:LIMIT])),
        blocked("Full", FILLED.format(255), again=False),
    ),
    "254 entries and ours": (facts(allocated(*FOREIGN_ENTRIES[: LIMIT - 1], ENTRY, **OURS)), HELD),
    "255 entries and ours makes room": (
        facts(allocated(*FOREIGN_ENTRIES[:LIMIT], ENTRY, **OURS)),
        released("Full", FILLED.format(256), *FOREIGN_ENTRIES[:LIMIT]),
    ),
}


@pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES)
def test_decisions(given: ReservationFacts, want: ReservationPlan) -> None:
    assert decide(given) == want


def test_every_reason_is_one_of_the_condition() -> None:
    assert {want.state.reason for _, want in CASES.values() if want.state} <= set(ReservedReason)
