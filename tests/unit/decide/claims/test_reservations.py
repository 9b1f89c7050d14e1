"""What becomes of a workload's reservation, case by case: the chain in its order."""

from dataclasses import replace
from typing import Any

import pytest
from objects.builders import Built, Claim, claim, pod

from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.reservations import (
    IGNORES_PINNED,
    LIMIT,
    RECHECK,
    SOON,
    ClaimController,
    ConsumersOf,
    Knowledge,
    LookUp,
    ReservationFacts,
    ReservationPlan,
    State,
    Workload,
    decide,
)
from tollbar.model.ask import Ask, Get
from tollbar.model.claims import Deallocation, allocation_of, pod_entry
from tollbar.model.objects import Key, Object
from tollbar.model.plan import AWAITING, DONE, Event, RetryAfter
from tollbar.model.resources import WORKLOAD_CLAIMS
from tollbar.model.workloads import Reference

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
MANY_FINISHED = tuple(pod(name).claims("gpu").bound().phase("Succeeded") for name in "abcde")
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


def unreserved(lingering: str) -> ReservationPlan:
    message = f"not reserved while finished Pods linger ({lingering}): {ADVICE}"
    return waits("UpstreamOscillation", message, again=True)


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
UNANSWERED = "deployments.apps/web: the API server does not answer about this kind"
IS_IDLE = "deployments.apps/web is scaled to zero and no Pod refers to the claim"
OURS = {"uid": "u1"}

CASES: dict[str, tuple[ReservationFacts, ReservationPlan]] = {
    # Nobody wants to keep it.
    "a claim that nobody asks to keep is left alone": (
        facts(claim().allocated().reserved(FOREIGN, pod_entry(RUNNING))),
        NOTHING,
    ),
    "a recorded uid without an entry is left alone": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "u1"})),
        NOTHING,
    ),
    "a recorded uid of a Pod does not remove the Pod's entry": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "uid-of-web-1"}).allocated().reserved(pod_entry(RUNNING))),
        NOTHING,
    ),
    "a recorded uid of a PodGroup does not remove the PodGroup's entry": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "g1"}).allocated().reserved(GANG)),
        NOTHING,
    ),
    "removing the annotation releases the claim": (
        facts(claim().annotated({"tollbar.dev/reserved-uid": "u1"}).allocated().reserved(ENTRY, pod_entry(RUNNING))),
        released("Released", UNASKED, pod_entry(RUNNING)),
    ),
    "without annotations our entry is known by its field manager": (
        facts(claim().allocated().pinned(ENTRY).reserved(FOREIGN)),
        released("Released", UNASKED, FOREIGN),
    ),
    "without annotations our last entry deallocates the claim": (
        facts(claim().allocated().pinned(ENTRY)),
        released("Released", UNASKED),
    ),
    "another workload is asked for: the first one's entry is removed": (
        facts(kept().allocated().pinned(OLD).reserved(pod_entry(RUNNING))),
        released("Released", GONE, pod_entry(RUNNING)),
    ),
    "an entry for the workload that somebody else wrote is left alone": (
        facts(claim().allocated().reserved(ENTRY), Knowledge.ABSENT),
        NOTHING,
    ),
    "an entry that we wrote for a Pod is left alone": (facts(claim().allocated().pinned(pod_entry(RUNNING))), NOTHING),
    "deleting the WorkloadClaim releases the claim": (
        ReservationFacts(allocated(ENTRY, pod_entry(RUNNING), **OURS), withdrawn=True),
        released("Released", UNASKED, pod_entry(RUNNING)),
    ),
    "deleting the WorkloadClaim removes its annotations after our entry": (
        ReservationFacts(kept(uid="u1", **{"tollbar.dev/workload-claim": "gpu"}).annotated({"a": "b"}), withdrawn=True),
        ReservationPlan(
            annotations=(
                ("tollbar.dev/reserved-for", None),
                ("tollbar.dev/reserved-uid", None),
                ("tollbar.dev/workload-claim", None),
            )
        ),
    ),
    "a claim that is being deleted keeps the annotations of a WorkloadClaim that is gone": (
        ReservationFacts(kept(**{"tollbar.dev/workload-claim": "gpu"}).deleting(), withdrawn=True),
        NOTHING,
    ),
    # The claim ends.
    "a claim that is being deleted is released": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS).deleting()),
        released("Deleting", "the claim is being deleted", pod_entry(RUNNING)),
    ),
    "a claim that is being deleted is deallocated with our last entry": (
        facts(allocated(ENTRY, **OURS).deleting()),
        released("Deleting", "the claim is being deleted"),
    ),
    "a claim that is being deleted is released although its workload's kind is not served": (
        facts(allocated(ENTRY, **OURS).deleting(), Knowledge.UNKNOWN_KIND),
        released("Deleting", "the claim is being deleted"),
    ),
    "nothing is added to a claim that is being deleted": (
        facts(allocated().deleting()),
        waits("Deleting", "the claim is being deleted"),
    ),
    # What is asked for is not clear.
    "a reference without a slash blocks": (
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
    "a claim that was generated for a Pod blocks": (
        facts(kept().generated_for(RUNNING)),
        blocked(
            "InvalidReference",
            "the claim was generated for a Pod and ends with it: use a claim of its own for the workload",
            again=False,
        ),
    ),
    # Without knowledge of the workload nothing is released.
    "a kind that is not served blocks": (facts(kept(), Knowledge.UNKNOWN_KIND), blocked("KindUnknown", UNSERVED)),
    "a kind in the singular blocks, and the message says so": (
        facts(kept(**{"tollbar.dev/reserved-for": "deployment.apps/web"}), Knowledge.UNKNOWN_KIND),
        blocked(
            "KindUnknown",
            "deployment.apps/web: the API server does not serve this kind; `resource` is the plural: deployments",
        ),
    ),
    "a kind that is not served any more keeps the entry": (
        facts(allocated(ENTRY, **OURS), Knowledge.UNKNOWN_KIND),
        blocked("KindUnknown", UNSERVED, reserved=True),
    ),
    "a kind that may not be read keeps the entry": (
        facts(allocated(ENTRY, **OURS), Knowledge.FORBIDDEN),
        blocked("PermissionDenied", "deployments.apps/web: no rights", reserved=True),
    ),
    "a kind about which the API server does not answer keeps the entry": (
        facts(allocated(ENTRY, **OURS), Knowledge.UNANSWERED),
        waits("KindUnknown", UNANSWERED, reserved=True, again=True),
    ),
    "nothing is said before the API server has answered": (
        facts(allocated(), Knowledge.AWAITED),
        ReservationPlan(outcome=AWAITING),
    ),
    "what was said stays until the API server has answered": (
        facts(allocated(ENTRY, **OURS), Knowledge.AWAITED, state=State(True, "Held")),
        ReservationPlan(State(True, "Held"), outcome=AWAITING),
    ),
    # The workload is not there.
    "a workload that does not exist yet is waited for": (
        facts(allocated(pod_entry(RUNNING)), Knowledge.ABSENT),
        waits("WorkloadMissing", "deployments.apps/web does not exist"),
    ),
    "a workload that is gone releases the claim": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), Knowledge.ABSENT),
        released("Released", GONE, pod_entry(RUNNING)),
    ),
    "a workload that is gone deallocates the claim with our last entry": (
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
    "another workload of the same name releases the old one's entry": (
        facts(allocated(OLD, pod_entry(RUNNING), uid="u0")),
        released("Released", GONE, pod_entry(RUNNING)),
    ),
    "another workload of the same name keeps its own entry": (
        facts(allocated(OLD, ENTRY, uid="u0")),
        released("Released", GONE, ENTRY),
    ),
    "nothing is reserved for a workload that is being deleted": (
        facts(allocated(pod_entry(RUNNING)), workload(metadata__deletionTimestamp="2026-01-01T00:00:01Z")),
        waits("WorkloadMissing", "deployments.apps/web is being deleted"),
    ),
    "a workload that is being deleted keeps its entry until it is gone": (
        facts(allocated(ENTRY, **OURS), workload(metadata__deletionTimestamp="2026-01-01T00:00:01Z")),
        HELD,
    ),
    # The policy.
    "WhenFinished: a complete Job releases the claim": (
        facts(allocated(ENTRY, release="WhenFinished", **OURS), COMPLETE),
        released("Released", "deployments.apps/web has finished"),
    ),
    "WhenFinished: a failed Job releases the claim": (
        facts(allocated(ENTRY, release="WhenFinished", **OURS), FAILED),
        released("Released", "deployments.apps/web has finished"),
    ),
    "WhenFinished: a finished JobSet without an entry gets none": (
        facts(allocated(pod_entry(RUNNING), release="WhenFinished"), JOBSET),
        waits("Released", "deployments.apps/web has finished"),
    ),
    "WhenFinished: a suspended Job keeps the claim": (
        facts(allocated(ENTRY, release="WhenFinished", **OURS), SUSPENDED),
        HELD,
    ),
    "WhenDeleted: a complete Job keeps the claim": (facts(allocated(ENTRY, **OURS), COMPLETE), HELD),
    "WhenDeleted: a workload that is scaled to zero keeps the claim": (facts(allocated(ENTRY, **OURS), IDLE), HELD),
    "WhenIdle: a scale to zero that its controller has not observed keeps the claim": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), NOT_SEEN),
        HELD,
    ),
    "WhenIdle: a Pod that still runs keeps the claim": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, RUNNING),
        HELD,
    ),
    "WhenIdle: a pending Pod of somebody else keeps the claim": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, PENDING),
        HELD,
    ),
    "WhenIdle: the API server is asked for Pods when the cache has none": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE),
        Ask((ConsumersOf(Key("ml", "gpu")),)),
    ),
    "WhenIdle: a Pod that only the API server knows keeps the claim": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, RUNNING, listed=True),
        HELD,
    ),
    "WhenIdle: a workload that is scaled to zero and has no Pods releases the claim": (
        facts(allocated(ENTRY, release="WhenIdle", **OURS), IDLE, NEVER_BOUND, listed=True),
        released("Released", IS_IDLE),
    ),
    "WhenIdle: a claim that was released stays released": (
        facts(kept("WhenIdle", "u1"), IDLE),
        waits("Released", IS_IDLE),
    ),
    "WhenIdle: a kind without replicas is never idle": (facts(allocated(ENTRY, release="WhenIdle", **OURS)), HELD),
    # Pin.
    "a claim that is not allocated is waited for": (
        facts(kept()),
        waits("NotAllocated", "waiting for the first Pod to be scheduled"),
    ),
    "an allocated claim is reserved": (facts(allocated(pod_entry(RUNNING)), None, RUNNING), pinned()),
    "an allocated claim without consumers is reserved": (facts(allocated()), pinned()),
    "the entry is added when only the annotation was written": (facts(allocated(uid="u1")), pinned(record=False)),
    "our entry is added beside foreign ones": (facts(allocated(FOREIGN)), pinned()),
    "a claim that is reserved is left alone": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), None, RUNNING),
        HELD,
    ),
    "an entry for the workload that somebody else wrote counts": (facts(allocated(ENTRY)), HELD),
    # A claim controller that stops at entries of workloads.
    "before Kubernetes 1.36 nothing is reserved": (
        facts(allocated(pod_entry(RUNNING)), None, RUNNING, ignores_pinned=True),
        blocked("UpstreamTooOld", TOO_OLD),
    ),
    "before Kubernetes 1.36 a claim that is not allocated is reported, too": (
        facts(kept(), ignores_pinned=True),
        blocked("UpstreamTooOld", TOO_OLD),
    ),
    "before Kubernetes 1.36 our entry is removed": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), None, RUNNING, ignores_pinned=True),
        released("UpstreamTooOld", f"given up: {TOO_OLD}", pod_entry(RUNNING), kind="Warning"),
    ),
    "before Kubernetes 1.36 our last entry deallocates the claim": (
        facts(allocated(ENTRY, **OURS), ignores_pinned=True),
        released("UpstreamTooOld", f"given up: {TOO_OLD}", kind="Warning"),
    ),
    "our entry stays while Replace has not begun": (
        facts(allocated(ENTRY, **OURS), ignores_pinned=True, claim_controller=ClaimController.TAKING_OVER),
        ReservationPlan(State(True, "Held"), outcome=RetryAfter(RECHECK)),
    ),
    "nothing is reserved while Replace has not begun, before Kubernetes 1.36": (
        facts(allocated(), ignores_pinned=True, claim_controller=ClaimController.TAKING_OVER),
        ReservationPlan(State(False, "UpstreamTooOld", TOO_OLD), outcome=RetryAfter(SOON)),
    ),
    # The server's endless exchange.
    "nothing is reserved while a finished Pod lingers": (
        facts(allocated(pod_entry(RUNNING)), None, RUNNING, FINISHED),
        unreserved("web-3"),
    ),
    "with Replace a finished Pod that lingers does not matter": (
        facts(allocated(pod_entry(RUNNING)), None, RUNNING, FINISHED, claim_controller=ClaimController.OURS),
        pinned(),
    ),
    "a finished Pod that is being deleted does not linger": (facts(allocated(), None, ENDING), pinned()),
    "a failed Pod that never had a node does not linger": (facts(allocated(), None, NEVER_BOUND), pinned()),
    "a finished Pod that lingers on a reserved claim releases it": (
        facts(allocated(ENTRY, pod_entry(FINISHED), **OURS), None, FINISHED),
        released(
            "UpstreamOscillation",
            f"given up because finished Pods linger (web-3): {ADVICE}",
            pod_entry(FINISHED),
            kind="Warning",
        ),
    ),
    "our entry stays beside a finished Pod while Replace has not begun": (
        facts(allocated(ENTRY, **OURS), None, FINISHED, claim_controller=ClaimController.TAKING_OVER),
        ReservationPlan(State(True, "Held"), outcome=RetryAfter(RECHECK)),
    ),
    "a finished Pod without an entry releases a reserved claim, too": (
        facts(allocated(ENTRY, **OURS), None, FINISHED),
        released("UpstreamOscillation", f"given up because finished Pods linger (web-3): {ADVICE}", kind="Warning"),
    ),
    "a finished Pod releases nothing while another Pod uses the claim": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS), None, FINISHED, RUNNING),
        waits(
            "UpstreamOscillation",
            f"finished Pods linger (web-3), and others use the claim: {ADVICE}",
            reserved=True,
            again=True,
        ),
    ),
    "an endless exchange is reported on a claim that nobody asks to keep": (
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
    "of many finished Pods three are named": (
        facts(allocated(), None, *MANY_FINISHED),
        waits(
            "UpstreamOscillation", f"not reserved while finished Pods linger (a, b, c and 2 more): {ADVICE}", again=True
        ),
    ),
    "of three finished Pods all are named": (
        facts(allocated(), None, *MANY_FINISHED[:3]),
        unreserved("a, b, c"),
    ),
    "of four finished Pods one is not named": (
        facts(allocated(), None, *MANY_FINISHED[:4]),
        waits(
            "UpstreamOscillation", f"not reserved while finished Pods linger (a, b, c and 1 more): {ADVICE}", again=True
        ),
    ),
    "an endless exchange does not put off what is looked at again soon": (
        facts(
            allocated(),
            None,
            FINISHED,
            ignores_pinned=True,
            claim_controller=ClaimController.TAKING_OVER,
            oscillating={"uid-of-web-3"},
        ),
        ReservationPlan(
            State(False, "UpstreamTooOld", TOO_OLD),
            events=(
                Event(
                    "Warning",
                    "UpstreamOscillation",
                    f"the entries of finished Pods (web-3) come and go without end; {ADVICE}",
                    "Observe",
                ),
            ),
            outcome=RetryAfter(SOON),
        ),
    ),
    "an entry that comes and goes while its Pod runs is not reported": (
        ReservationFacts(claim().allocated(), consumers=(RUNNING,), oscillating={"uid-of-web-1"}),
        NOTHING,
    ),
}
HELD_DEVICES = allocation_of(claim().allocated())
EVICTED = {"tollbar.dev/evicted-from": HELD_DEVICES}
GIVEN_UP = "its Pods are evicted from a tainted device; it is reserved again with other devices"
CASES |= {
    "Pods are evicted from its device: that is recorded first": (
        facts(allocated(ENTRY, **OURS), evicted_from=HELD_DEVICES),
        ReservationPlan(State(True, ReservedReason.DEVICE_TAINTED, GIVEN_UP), annotations=tuple(EVICTED.items())),
    ),
    "then the claim is given up": (
        facts(allocated(ENTRY, pod_entry(RUNNING), **OURS, **EVICTED)),
        released("DeviceTainted", GIVEN_UP, pod_entry(RUNNING)),
    ),
    "and stays so while it has the device": (
        facts(allocated(pod_entry(RUNNING), **OURS, **EVICTED)),
        ReservationPlan(State(False, ReservedReason.DEVICE_TAINTED, GIVEN_UP)),
    ),
    "with another device it is reserved again": (
        facts(allocated(**EVICTED, **OURS).but("status.allocation.devices.results", [{"device": "gpu-1"}])),
        replace(pinned(), annotations=()),
    ),
    "with the claim freed that is over: the same device may come back": (
        facts(kept(**EVICTED)),
        replace(
            waits("NotAllocated", "waiting for the first Pod to be scheduled"),
            annotations=(("tollbar.dev/evicted-from", None),),
        ),
    ),
    "also while the workload is not there": (
        facts(kept(**EVICTED), Knowledge.ABSENT),
        replace(
            waits("WorkloadMissing", "deployments.apps/web does not exist"),
            annotations=(("tollbar.dev/evicted-from", None),),
        ),
    ),
    "Pods were evicted from devices that it has no longer": (
        facts(allocated(ENTRY, **OURS), evicted_from="- gpu.example.com/pool/gpu-7"),
        HELD,
    ),
}
FOREIGN_ENTRIES = [{**FOREIGN, "uid": f"w{number}"} for number in range(256)]
FILLED = "{} of 256 entries are taken; more consumers need PodGroups"
CASES |= {
    # One place stays free.
    "our entry is the 255th": (facts(allocated(*FOREIGN_ENTRIES[: LIMIT - 1])), pinned()),
    "nothing is added to 255 entries": (
        facts(allocated(*FOREIGN_ENTRIES[:LIMIT])),
        blocked("Full", FILLED.format(255), again=False),
    ),
    "our entry stays beside 254 others": (facts(allocated(*FOREIGN_ENTRIES[: LIMIT - 1], ENTRY, **OURS)), HELD),
    "our entry is removed beside 255 others": (
        facts(allocated(*FOREIGN_ENTRIES[:LIMIT], ENTRY, **OURS)),
        released("Full", FILLED.format(256), *FOREIGN_ENTRIES[:LIMIT]),
    ),
}


def decided(given: ReservationFacts) -> ReservationPlan | Ask:
    """Without whether the Pods find a place, of which tests/unit/decide/claims/test_crowding.py is the table."""
    plan = decide(given)
    if isinstance(plan, Ask) or plan.state is None:
        return plan
    return replace(plan, state=replace(plan.state, crowded=None))


@pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES)
def test_decisions(given: ReservationFacts, want: ReservationPlan | Ask) -> None:
    assert decided(given) == want


def test_every_reason_is_one_of_the_condition() -> None:
    assert {want.state.reason for _, want in CASES.values() if isinstance(want, ReservationPlan) and want.state} <= set(
        ReservedReason
    )


KEPT_BY_WORKLOAD_CLAIM = allocated(ENTRY, **OURS).annotated({"tollbar.dev/workload-claim": "web"})
QUESTIONS: dict[str, tuple[ReservationFacts, tuple[Any, ...]]] = {
    "the workload of a claim that is kept, with the uid on record": (
        ReservationFacts(allocated(ENTRY, **OURS)),
        (LookUp(Key("ml", "gpu"), Reference("apps", "deployments", "web"), "u1"),),
    ),
    "the workload of a claim that is kept, with the uid of the entry that we wrote": (
        ReservationFacts(kept().allocated().pinned(ENTRY)),
        (LookUp(Key("ml", "gpu"), Reference("apps", "deployments", "web"), "u1"),),
    ),
    "the workload of a claim that is to be kept, without a record": (
        ReservationFacts(allocated()),
        (LookUp(Key("ml", "gpu"), Reference("apps", "deployments", "web"), ""),),
    ),
    "the version of the API server, where its claim controller may be at work": (
        replace(facts(allocated()), ignores_pinned=None),
        (IGNORES_PINNED,),
    ),
    "a WorkloadClaim that the cache does not have, before anything else": (
        ReservationFacts(KEPT_BY_WORKLOAD_CLAIM, withdrawn=None, ignores_pinned=None),
        (Get(WORKLOAD_CLAIMS, Key("ml", "web")),),
    ),
}


@pytest.mark.parametrize(("given", "want"), QUESTIONS.values(), ids=QUESTIONS)
def test_what_is_asked_before_anything_is_decided(given: ReservationFacts, want: tuple[Any, ...]) -> None:
    assert decide(given) == Ask(want)


def test_no_workload_is_looked_up_for_an_intent_that_was_withdrawn() -> None:
    given = ReservationFacts(KEPT_BY_WORKLOAD_CLAIM, withdrawn=True)
    assert decided(given) == released("Released", "nobody asks for the reservation any more")
