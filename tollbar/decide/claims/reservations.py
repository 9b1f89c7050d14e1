"""What becomes of a workload's reservation of a ResourceClaim: add its entry, remove it, deallocate the claim, or wait.

A workload's entry in `status.reservedFor` (a pin) keeps the claim allocated while the workload's Pods come and go.  The
Pods still get entries of their own beside it: kube-scheduler and the kubelet ask for those.

Invariants: entries of others are never touched; nothing is added to a claim that is being deleted or is not allocated;
with our entry one of the 256 places stays free; a workload counts as gone only when the API server said so of that very
uid; a plan that was carried out leads to an empty one.

Hazard: with kube-controller-manager's claim controller at work, a finished Pod that lingers on a pinned claim starts an
endless exchange of writes (kubernetes/kubernetes#141274).  `ClaimController` says whether it may be at work.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final

from tollbar import wellknown
from tollbar.api.reasons import ReservedReason
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.claims import deallocation, events
from tollbar.decide.claims.crowding import crowding
from tollbar.model import claims, managers, pods, workloads
from tollbar.model.ask import Ask, Get
from tollbar.model.claims import Deallocation
from tollbar.model.objects import Key, Object, annotations_of, key_of, metadata, uid_of
from tollbar.model.plan import AWAITING, DONE, Event, Outcome, RetryAfter
from tollbar.model.resources import WORKLOAD_CLAIMS
from tollbar.model.texts import some
from tollbar.model.workloads import Intent, Malformed, Reference

LIMIT: Final = claims.RESERVED_FOR_MAX - 1
"""Entries that there may be at most with ours among them: the next Pod finds a place."""
RECHECK: Final = 30.0
"""Seconds until a kind or a permission that was missing is looked for again: nothing tells when it comes."""
_RECHECK: Final = RetryAfter(RECHECK)
SOON: Final = 1.0
"""Seconds until what is about to be known, such as whether others generate claims, is looked at again."""
_OF_A_WORKLOAD_CLAIM: Final = frozenset({"apiVersion", "kind", "metadata.deletionTimestamp", "metadata.name", "spec"})
"""What is read here of a WorkloadClaim that the cache does not have; its schema bounds the spec."""


class Knowledge(Enum):
    """What is known of the workload that a claim names."""

    FOUND = "it exists"
    ABSENT = "the API server has no such object"
    UNKNOWN_KIND = "the API server does not serve its kind"
    FORBIDDEN = "its kind may not be read"
    AWAITED = "the API server has been asked and has not answered yet"
    UNANSWERED = "the API server has given no answer about its kind"


@dataclass(frozen=True, slots=True)
class Workload:
    """`object` with FOUND; `detail` is what the API server said, for a person."""

    knowledge: Knowledge
    object: Object | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A question: the workload of a claim; the answer is a `Workload`, and from then on its changes wake the claim.
    That the API server has answered wakes it, too, when it has been `AWAITED`.

    `recorded` is the uid that the claim was reserved for, empty when it was not.
    """

    claim: Key
    reference: Reference
    recorded: str


@dataclass(frozen=True, slots=True)
class IsBefore:
    """A question: whether the API server is of an older minor version than this."""

    version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ConsumersOf:
    """A question: the Pods that refer to a claim and are not done, by a live list.

    The answer is a tuple with one of them, if there is any: a namespace may have any number.
    """

    claim: Key


IGNORES_PINNED: Final = IsBefore((1, 36))
"""Before 1.36 kube-controller-manager's claim controller stops at an entry that is not a Pod's, and leaves the claim as
it is, Pods' entries included; from 1.36 on it keeps such entries and goes on (kubernetes/kubernetes#136450)."""


class ClaimController(Enum):
    """Which claim controller removes the entries of Pods that are done."""

    UPSTREAM = "kube-controller-manager's"
    TAKING_OVER = "ours is to take its place, and does not know yet whether it is still at work"
    OURS = "ours, and kube-controller-manager's is not at work"


@dataclass(frozen=True, slots=True)
class State:
    """How the reservation stands, or will when the plan is carried out: status, reason and message of a condition.

    `crowded` says why not every Pod will find a place in the claim (`tollbar.decide.claims.crowding`), empty when all
    do, None when that was not looked at.
    """

    reserved: bool
    reason: ReservedReason
    message: str = ""
    crowded: str | None = None


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """What is known of a claim and of the workload that it is to be reserved for.

    None is what neither the caches nor an answer have told yet, for which the decision asks: the `workload`, whether
    the claim was `withdrawn`, and the version of the API server (`ignores_pinned`).
    """

    claim: Object
    workload: Workload | None = None
    consumers: Sequence[Object] = ()
    """The Pods that refer to the claim, of any phase."""
    listed: bool = False
    """Whether the consumers are also those that the API server has listed (`ConsumersOf`)."""
    withdrawn: bool | None = False
    """Whether the WorkloadClaim that the intent came from is gone, or names another claim."""
    claim_controller: ClaimController = ClaimController.UPSTREAM
    ignores_pinned: bool | None = False
    """Whether kube-controller-manager's claim controller may be at work, and of a version that does nothing about a
    claim with a workload's entry (`IGNORES_PINNED`)."""
    oscillating: Collection[str] = ()
    """The uids of entries that came and went several times within seconds."""
    pod_groups: Sequence[Object] = ()
    """Those that share the claim."""
    evicted_from: str = ""
    """The allocation (`claims.allocation_of`) from whose devices Pods were evicted last."""
    state: State | None = None
    """What was decided last; None if nothing was, or nobody wants to keep the claim."""


@dataclass(frozen=True, slots=True)
class ReservationPlan:
    """At most one of `add` and `remove`.

    `annotations` (None removes one) are written before `add`, or alone.  `state` is None for a claim that nobody wants
    to keep.
    """

    state: State | None = None
    annotations: tuple[tuple[str, str | None], ...] = ()
    add: Object | None = None
    remove: Deallocation | None = None
    events: tuple[Event, ...] = ()
    outcome: Outcome = DONE


def decide(facts: ReservationFacts) -> ReservationPlan | Ask:
    """What the chain decides; kube-controller-manager's endless exchange is reported in any case."""
    if questions := _questions(facts):
        return Ask(questions)
    case = _Case(facts)
    plan: ReservationPlan | Ask = first_answer(CHAIN, case) or ReservationPlan()
    if isinstance(plan, Ask):
        return plan
    if plan.state is not None and plan.state is not facts.state:
        plan = replace(plan, state=replace(plan.state, crowded=_crowded(case)))
    if not claims.allocation(facts.claim) and wellknown.ANNOTATION_EVICTED_FROM in annotations_of(facts.claim):
        # The allocation that was given up is over, and its name may come back: not every API server has the time of it.
        plan = replace(plan, annotations=(*plan.annotations, (wellknown.ANNOTATION_EVICTED_FROM, None)))
    if not case.oscillating:
        return plan
    outcome = _RECHECK if plan.outcome == DONE else plan.outcome  # the claim itself may not change when it ends
    event = events.upstream_oscillation(_names(case.oscillating))
    return replace(plan, events=(*plan.events, event), outcome=outcome)


def _questions(facts: ReservationFacts) -> tuple[Hashable, ...]:
    """What has to be known of this claim whatever is decided."""
    claim = facts.claim
    if facts.withdrawn is None:
        key = Key(key_of(claim).namespace, workloads.workload_claim_of(claim))
        return (Get(WORKLOAD_CLAIMS, key, _OF_A_WORKLOAD_CLAIM),)
    intent = None if facts.withdrawn else workloads.intent_of(claim)
    version = (IGNORES_PINNED,) if facts.ignores_pinned is None else ()
    if isinstance(intent, Intent) and facts.workload is None:
        return (LookUp(key_of(claim), intent.reference, uid_on_record(claim)), *version)
    return version


def _crowded(case: "_Case") -> str | None:
    """None while no Pod is too much and it is not known how many the workload asks for."""
    facts, found = case.facts, case.facts.workload
    why = crowding(case.claim, facts.consumers, case.workload, case.ours, facts.pod_groups)
    known = found is None or found.knowledge in (Knowledge.FOUND, Knowledge.ABSENT)
    return why or ("" if known else None)


def is_lingering(pod: Object) -> bool:
    """Whether it has ended on a node and stays: kube-controller-manager removes its entry and adds it again."""
    return pods.is_terminal(pod) and pods.is_bound(pod) and not pods.is_deleting(pod)


def uid_on_record(claim: Object) -> str:
    """The uid of our entry as the claim records it, whether or not the entry is there; empty without a record."""
    written = annotations_of(claim).get(wellknown.ANNOTATION_RESERVED_UID, "")
    return written or next(iter(managers.reserved_by_us(claim)), "")


class _Case:
    """The facts, with what several rules of the chain share."""

    def __init__(self, facts: ReservationFacts) -> None:
        self.facts = facts
        self.claim = facts.claim
        self.intent = None if facts.withdrawn else workloads.intent_of(facts.claim)
        self.entries = claims.reserved_for(facts.claim)

    @property
    def workload(self) -> Object | None:
        """The object, when it is known to exist."""
        return self.facts.workload.object if self.facts.workload is not None else None

    @cached_property
    def ours(self) -> frozenset[str]:
        """Uids of the entries that are ours: the recorded one, the workload's, and those that the API server says we
        wrote, whatever became of the annotations.  Never a Pod's or a PodGroup's."""
        known = {uid_on_record(self.claim), uid_of(self.workload or {}), *managers.reserved_by_us(self.claim)} - {""}
        return frozenset(
            str(entry.get("uid"))
            for entry in self.entries
            if entry.get("uid") in known and not claims.is_upstream_entry(entry)
        )

    @cached_property
    def lingering(self) -> list[Object]:
        """A Pod whose PodGroup has an entry has none of its own that could be taken away."""
        lingering = filter(is_lingering, self.facts.consumers)
        return [pod for pod in lingering if not claims.is_reserved_for_group(self.claim, pod)]

    @cached_property
    def oscillating(self) -> list[Object]:
        """Finished Pods whose entries come and go."""
        return [pod for pod in self.lingering if uid_of(pod) in self.facts.oscillating]

    @property
    def others_consume(self) -> bool:
        """Whether there are entries besides ours and those of Pods that have ended."""
        ended = {uid_of(pod) for pod in self.facts.consumers if pods.is_terminal(pod)}
        return any(entry.get("uid") not in self.ours | ended for entry in self.entries)

    def unchanged(self, reason: ReservedReason, message: str = "") -> State:
        """The state without a write: reserved if our entry is there."""
        return State(bool(self.ours), reason, message)


def _nothing(case: _Case) -> ReservationPlan | None:
    """Nobody wants to keep it, and no entry is ours; the annotations of a WorkloadClaim that is gone are removed."""
    if case.intent is not None or case.ours:
        return None
    if not case.facts.withdrawn or metadata(case.claim).get("deletionTimestamp"):
        return ReservationPlan()
    written = annotations_of(case.claim)
    return ReservationPlan(annotations=tuple((name, None) for name in _ANNOTATIONS if name in written))


_ANNOTATIONS: Final = (
    wellknown.ANNOTATION_RESERVED_FOR,
    wellknown.ANNOTATION_RELEASE,
    wellknown.ANNOTATION_RESERVED_UID,
    wellknown.ANNOTATION_WORKLOAD_CLAIM,
    wellknown.ANNOTATION_EVICTED_FROM,
)


def _deleting(case: _Case) -> ReservationPlan | None:
    if not metadata(case.claim).get("deletionTimestamp"):
        return None
    return _release(case, ReservedReason.DELETING, "the claim is being deleted")


def _unwanted(case: _Case) -> ReservationPlan | None:
    if case.intent is not None:
        return None
    return _release(case, ReservedReason.RELEASED, "nobody asks for the reservation any more")


def _malformed(case: _Case) -> ReservationPlan | None:
    if not isinstance(case.intent, Malformed):
        return None
    return _blocked(case, ReservedReason.INVALID_REFERENCE, case.intent.why, outcome=DONE)


def _unreadable(case: _Case) -> ReservationPlan | None:
    """Without knowledge of the workload nothing is released: a kind that discovery has lost may be back in a minute."""
    workload, reference = case.facts.workload, _reference(case)
    match workload.knowledge if workload is not None else Knowledge.AWAITED:
        case Knowledge.AWAITED:
            return ReservationPlan(state=case.facts.state, outcome=AWAITING)
        case Knowledge.UNANSWERED:
            why = f"{reference}: the API server does not answer about this kind"
            return replace(_waiting(case, ReservedReason.KIND_UNKNOWN, why), outcome=_RECHECK)
        case Knowledge.UNKNOWN_KIND:
            why = f"{reference}: the API server does not serve this kind{_plural(case)}"
            return _blocked(case, ReservedReason.KIND_UNKNOWN, why)
        case Knowledge.FORBIDDEN:
            detail = workload.detail if workload is not None else ""
            return _blocked(case, ReservedReason.PERMISSION_DENIED, f"{reference}: {detail}")
        case _:
            return None


def _gone(case: _Case) -> ReservationPlan | None:
    """Deleted, or another one of that name; facts say so only after the API server did."""
    workload, reference = case.workload, _reference(case)
    stale = case.ours - {uid_of(workload or {})}
    if stale:
        return _release(case, ReservedReason.RELEASED, f"{reference} is gone", stale)
    if workload is None:
        return _waiting(case, ReservedReason.WORKLOAD_MISSING, f"{reference} does not exist")
    if metadata(workload).get("deletionTimestamp") and not case.ours:
        return _waiting(case, ReservedReason.WORKLOAD_MISSING, f"{reference} is being deleted")
    return None


def _policy(case: _Case) -> ReservationPlan | Ask | None:
    """The release policy: the workload has finished, or is idle."""
    workload = case.workload or {}
    match case.intent.release if isinstance(case.intent, Intent) else None:
        case "WhenFinished" if workloads.is_finished(workload):
            return _release(case, ReservedReason.RELEASED, f"{_reference(case)} has finished")
        case "WhenIdle" if workloads.is_scaled_to_zero(workload):
            return _idle(case)
        case _:
            return None


def _idle(case: _Case) -> ReservationPlan | Ask | None:
    """Zero replicas are not enough: the last Pod may still run, or somebody else's Pod may refer to the claim."""
    if not all(map(pods.is_done, case.facts.consumers)):
        return None
    if case.ours and not case.facts.listed:
        return Ask((ConsumersOf(key_of(case.claim)),))
    return _release(
        case, ReservedReason.RELEASED, f"{_reference(case)} is scaled to zero and no Pod refers to the claim"
    )


def _not_begun(case: _Case) -> ReservationPlan | None:
    """Nothing is released for the sake of a claim controller that is most likely switched off: a restart of ours would
    cost the workload its devices."""
    if case.facts.claim_controller is not ClaimController.TAKING_OVER:
        return None
    if case.ours:
        return ReservationPlan(state=State(True, ReservedReason.HELD), outcome=_RECHECK)
    if case.facts.ignores_pinned:
        return ReservationPlan(state=State(False, ReservedReason.UPSTREAM_TOO_OLD, _TOO_OLD), outcome=RetryAfter(SOON))
    return None


def _ignored(case: _Case) -> ReservationPlan | None:
    """Entries of Pods that are gone would stay and fill the list.  Reported before the first allocation, too."""
    if not case.facts.ignores_pinned:
        return None
    if case.ours:
        return _release(case, ReservedReason.UPSTREAM_TOO_OLD, f"given up: {_TOO_OLD}")
    return _blocked(case, ReservedReason.UPSTREAM_TOO_OLD, _TOO_OLD)


_TOO_OLD: Final = (
    "before Kubernetes 1.36 kube-controller-manager no longer looks after a claim that is reserved for a workload"
    " (kubernetes/kubernetes#136406); upgrade Kubernetes, or run Tollbar with claims: Replace"
)


def _not_allocated(case: _Case) -> ReservationPlan | None:
    if claims.allocation(case.claim):
        return None
    return _waiting(case, ReservedReason.NOT_ALLOCATED, "waiting for the first Pod to be scheduled")


def _evicted(case: _Case) -> ReservationPlan | None:
    """Kept, the claim would bring the workload's next Pods to the same device, from which they are evicted again.

    Which allocation that is about is recorded on the claim first: it stays given up after a restart.
    """
    held = claims.allocation_of(case.claim)
    recorded = annotations_of(case.claim).get(wellknown.ANNOTATION_EVICTED_FROM) == held
    if not recorded and case.facts.evicted_from != held:
        return None
    why = "its Pods are evicted from a tainted device; it is reserved again with other devices"
    if not recorded:
        state = case.unchanged(ReservedReason.DEVICE_TAINTED, why)
        return ReservationPlan(state=state, annotations=((wellknown.ANNOTATION_EVICTED_FROM, held),))
    if case.ours:
        return _release(case, ReservedReason.DEVICE_TAINTED, why)
    return _waiting(case, ReservedReason.DEVICE_TAINTED, why)


def _oscillation(case: _Case) -> ReservationPlan | None:
    """A claim that is pinned while a finished Pod lingers is written to for ever.

    Looked at again every `RECHECK` seconds: nothing tells when kube-controller-manager's claim controller has been
    switched off.
    """
    if case.facts.claim_controller is ClaimController.OURS or not case.lingering:
        return None
    named = _names(case.lingering)
    if not case.ours:
        why = f"not reserved while finished Pods linger ({named}): {events.OSCILLATION}"
        return replace(_waiting(case, ReservedReason.UPSTREAM_OSCILLATION, why), outcome=_RECHECK)
    if case.others_consume:
        why = f"finished Pods linger ({named}), and others use the claim: {events.OSCILLATION}"
        return ReservationPlan(state=case.unchanged(ReservedReason.UPSTREAM_OSCILLATION, why), outcome=_RECHECK)
    return _release(
        case,
        ReservedReason.UPSTREAM_OSCILLATION,
        f"given up because finished Pods linger ({named}): {events.OSCILLATION}",
    )


def _full(case: _Case) -> ReservationPlan | None:
    """Our entry makes room for a Pod's: a claim with so many consumers stays allocated without it."""
    why = f"{len(case.entries)} of {claims.RESERVED_FOR_MAX} entries are taken; more consumers need PodGroups"
    if case.ours:
        return _release(case, ReservedReason.FULL, why) if len(case.entries) > LIMIT else None
    return _blocked(case, ReservedReason.FULL, why, outcome=DONE) if len(case.entries) >= LIMIT else None


def _pin(case: _Case) -> ReservationPlan | None:
    if case.ours or not isinstance(case.intent, Intent):
        return None
    uid = uid_of(case.workload or {})
    entry = case.intent.reference.entry(uid)
    record = () if uid_on_record(case.claim) == uid else ((wellknown.ANNOTATION_RESERVED_UID, uid),)
    return ReservationPlan(
        state=State(True, ReservedReason.HELD),
        annotations=record,
        add=entry,
        events=(events.claim_reserved(str(case.intent.reference)),),
    )


def _held(_case: _Case) -> ReservationPlan | None:
    return ReservationPlan(state=State(True, ReservedReason.HELD))


CHAIN: Final[Chain[_Case, ReservationPlan | Ask]] = (  # order is the specification
    _nothing,  # no intent and no entry of ours -> nothing
    _deleting,  # the claim is being deleted -> release
    _unwanted,  # the intent was withdrawn -> release
    _malformed,  # the intent cannot be understood -> keep what there is
    _unreadable,  # the workload's kind is not served, not readable, or without an answer -> keep what there is
    _gone,  # the workload is gone, or another one -> release; never seen -> wait
    _policy,  # finished, or idle by cache and live list -> release
    _not_begun,  # we are about to replace the server's claim controller -> keep what there is, and wait
    _ignored,  # the server's claim controller ignores reserved claims -> release, add nothing
    _not_allocated,  # -> wait: the API server takes no entry
    _evicted,  # its Pods are evicted from its devices -> release, add nothing until it has others
    _oscillation,  # a finished Pod lingers -> add nothing; release unless somebody else uses the claim
    _full,  # no place to spare -> release, add nothing
    _pin,  # no entry of ours -> add it
    _held,  # else -> nothing
)


def _reference(case: _Case) -> str:
    return str(case.intent.reference) if isinstance(case.intent, Intent) else ""


def _plural(case: _Case) -> str:
    """The usual mistake: `deployment`."""
    resource = case.intent.reference.resource if isinstance(case.intent, Intent) else ""
    return f"; `resource` is the plural: {resource}s" if resource and not resource.endswith("s") else ""


def _names(found: Sequence[Object]) -> str:
    return some([key_of(pod).name for pod in found])


def _waiting(case: _Case, reason: ReservedReason, message: str) -> ReservationPlan:
    return ReservationPlan(state=case.unchanged(reason, message))


def _blocked(case: _Case, reason: ReservedReason, message: str, outcome: Outcome = _RECHECK) -> ReservationPlan:
    event = events.reservation_blocked(reason, message)
    return ReservationPlan(state=case.unchanged(reason, message), events=(event,), outcome=outcome)


def _release(case: _Case, reason: ReservedReason, message: str, uids: Collection[str] = ()) -> ReservationPlan:
    """Remove our entries, or these of them; the write that removes the last entry of all deallocates the claim."""
    removal = deallocation.remove(case.claim, uids or case.ours)
    state = State(False, reason, message)
    if removal is None:
        return ReservationPlan(state=state)
    event = events.reservation_released(
        reason,
        message,
        deallocated=removal.unprotect,
        by_upstream=reason in (ReservedReason.UPSTREAM_OSCILLATION, ReservedReason.UPSTREAM_TOO_OLD),
    )
    return ReservationPlan(state=state, remove=removal, events=(event,))
