"""What holds of every decision about a reservation, whatever the claim, its workload and its Pods look like."""

from dataclasses import replace
from typing import Any

from clusters.drawing import pick
from hypothesis import given
from hypothesis import strategies as st
from objects.builders import Built, Claim, claim, pod

from tollbar.decide.claims import reservations
from tollbar.decide.claims.reservations import (
    LIMIT,
    ClaimController,
    Knowledge,
    ReservationFacts,
    ReservationPlan,
    Workload,
    uid_on_record,
)
from tollbar.model import claims, managers, workloads
from tollbar.model.ask import Ask
from tollbar.model.objects import Object, annotations_of, metadata, uid_of

UIDS = ("u0", "u1", "w0", "g0", "uid-of-web-0")
PODS = tuple(pod(f"web-{number}").claims("gpu") for number in range(3))
ENTRIES: tuple[Object, ...] = (
    {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u0"},
    {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"},
    {"apiGroup": "example.com", "resource": "widgets", "name": "w", "uid": "w0"},
    {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g0"},
    *map(claims.pod_entry, PODS),
)
MANY = [{"apiGroup": "example.com", "resource": "widgets", "name": "w", "uid": f"many-{n}"} for n in range(256)]
TEXTS = st.sampled_from(["deployments.apps/web", "pods/web", "pods/web", "web", "", "Deployments.apps/web", "a.b/c/d"])


EITHER = st.booleans()
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "tollbar.dev/reserved-for": st.one_of(st.just("deployments.apps/web"), TEXTS),
        "tollbar.dev/release": st.sampled_from([*workloads.POLICIES, "Never"]),
        "tollbar.dev/reserved-uid": st.sampled_from(UIDS),
        "tollbar.dev/workload-claim": st.just("gpu"),
    },
)
FEW = st.lists(st.sampled_from(ENTRIES), unique_by=lambda entry: entry["uid"], max_size=5)
ROOM = st.sampled_from([0, 0, 0, LIMIT - 2, LIMIT - 1, LIMIT])
BY_US = st.sets(st.integers(0, 4))
CONSUMERS = st.lists(st.sampled_from(PODS), unique_by=uid_of)
OSCILLATING = st.sets(st.sampled_from([uid_of(each) for each in PODS]))


@st.composite
def kept_claims(draw: st.DrawFn) -> Claim:
    built = claim().annotated(draw(ANNOTATIONS))
    if draw(EITHER):
        few = draw(FEW)
        room = draw(ROOM)
        by_us = draw(BY_US)
        built = built.allocated().pinned(*(entry for number, entry in enumerate(few) if number in by_us))
        built = built.reserved(*(entry for number, entry in enumerate(few) if number not in by_us))
        built = built.reserved(*MANY[: max(0, room - len(few))])
    if draw(EITHER):
        built = built.deleting()
    return built


@st.composite
def situations(draw: st.DrawFn) -> ReservationFacts:
    knowledge = pick(draw, [Knowledge.FOUND, Knowledge.FOUND, *Knowledge])
    found = Built({"metadata": {"name": "web", "uid": pick(draw, ["u0", "u1"]), "generation": 1}})
    found = found.but("spec.replicas", pick(draw, [None, 0, 1]))
    found = found.but("status.observedGeneration", pick(draw, [None, 0, 1]))
    if draw(EITHER):
        type_ = pick(draw, ["Complete", "Failed", "Available"])
        found = found.but("status.conditions", [{"type": type_, "status": pick(draw, ["True", "False"])}])
    consumers = []
    for each in draw(CONSUMERS):
        bound = each.bound() if draw(EITHER) else each
        phased = bound.phase(pick(draw, ["Pending", "Running", "Succeeded", "Failed"]))
        consumers.append(phased.deleting() if draw(EITHER) else phased)
    return ReservationFacts(
        claim=draw(kept_claims()),
        workload=Workload(knowledge, found if knowledge is Knowledge.FOUND else None),
        consumers=consumers,
        listed=draw(EITHER),
        withdrawn=draw(EITHER),
        claim_controller=pick(draw, list(ClaimController)),
        ignores_pinned=draw(EITHER),
        oscillating=draw(OSCILLATING),
    )


def carried_out(given: Object, plan: ReservationPlan) -> Object:
    """The claim after the writes of a plan, as the API server would have it."""
    written: dict[str, Any] = {**annotations_of(given), **dict(plan.annotations)}
    meta = {**metadata(given), "annotations": {name: text for name, text in written.items() if text is not None}}
    status = dict(given.get("status") or {})
    if plan.add is not None:
        status["reservedFor"] = [plan.add, *claims.reserved_for(given)]
    if plan.remove is not None:
        status = dict(plan.remove.status or {})
        if plan.remove.unprotect:
            meta["finalizers"] = []
    return {**given, "metadata": meta, "status": status}


def settled(facts: ReservationFacts) -> tuple[ReservationFacts, ReservationPlan]:
    """The decision as the controller takes it: with a live list when one is asked for."""
    plan = reservations.decide(facts)
    if isinstance(plan, Ask) and isinstance(plan.questions[0], reservations.ConsumersOf):
        facts = replace(facts, listed=True)
        plan = reservations.decide(facts)
    assert isinstance(plan, ReservationPlan)
    return facts, plan


@given(situations())
def test_a_plan_that_was_carried_out_leads_to_an_empty_one(given: ReservationFacts) -> None:
    facts, plan = settled(given)
    after = replace(facts, claim=carried_out(facts.claim, plan))
    again = settled(after)[1]
    if plan.remove is not None and again.annotations:  # of a withdrawn intent: the entry first, then what asked for it
        again = settled(replace(after, claim=carried_out(after.claim, again)))[1]
    if plan.remove is not None and again.add is not None:  # the old workload's entry first, then the new one's
        assert again.add["uid"] != uid_on_record(facts.claim)
        again = settled(replace(after, claim=carried_out(after.claim, again)))[1]
    assert (again.annotations, again.add, again.remove) == ((), None, None)


@given(situations())
def test_foreign_entries_are_never_touched(given: ReservationFacts) -> None:
    facts, plan = settled(given)
    found = facts.workload.object if facts.workload else None
    ours = {uid_on_record(facts.claim), uid_of(found or {}), *managers.reserved_by_us(facts.claim)}

    def foreign(claim: Object) -> list[Object]:
        entries = claims.reserved_for(claim)
        return [e for e in entries if claims.is_pod_entry(e) or claims.is_pod_group_entry(e) or e["uid"] not in ours]

    assert foreign(carried_out(facts.claim, plan)) == foreign(facts.claim)


@given(situations())
def test_what_the_api_server_would_refuse_is_not_tried(given: ReservationFacts) -> None:
    facts, plan = settled(given)
    after = carried_out(facts.claim, plan)
    entries = claims.reserved_for(after)
    assert claims.allocation(after) or not entries
    if plan.add is not None:
        assert claims.allocation(facts.claim)
        assert not metadata(facts.claim).get("deletionTimestamp")
        assert len(entries) <= LIMIT
        assert len({entry["uid"] for entry in entries}) == len(entries)


@given(situations())
def test_no_claim_is_left_allocated_by_the_last_removal(given: ReservationFacts) -> None:
    facts, plan = settled(given)
    after = carried_out(facts.claim, plan)
    if plan.remove is not None and not claims.reserved_for(after):
        assert (claims.allocation(after), claims.is_protected(after)) == (None, False)


@given(situations())
def test_nothing_is_released_without_knowledge_of_the_workload(given: ReservationFacts) -> None:
    facts, plan = settled(given)
    unknown = facts.workload is None or facts.workload.knowledge not in (Knowledge.FOUND, Knowledge.ABSENT)
    asked = workloads.intent_of(facts.claim) is not None and not facts.withdrawn
    if unknown and asked and not metadata(facts.claim).get("deletionTimestamp"):
        assert (plan.add, plan.remove) == (None, None)


@given(situations())
def test_nothing_is_reserved_that_would_start_the_servers_endless_exchange(given: ReservationFacts) -> None:
    facts, plan = settled(given)
    if facts.claim_controller is not ClaimController.OURS and any(map(reservations.is_lingering, facts.consumers)):
        assert plan.add is None


@given(situations())
def test_a_plan_adds_or_removes_and_has_at_most_two_events(given: ReservationFacts) -> None:
    plan = settled(given)[1]
    assert len(plan.events) <= 2
    assert plan.add is None or plan.remove is None
