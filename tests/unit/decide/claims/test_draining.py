"""Pods in the place of their workload: nobody loses anything, and what nobody uses is freed."""

import pytest
from objects.builders import Claim, claim, pod

from tollbar.decide.claims.draining import DrainingFacts, decide
from tollbar.model.claims import Deallocation, pod_entry
from tollbar.model.objects import Object

ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
FOREIGN = {"apiGroup": "example.com", "resource": "widgets", "name": "w", "uid": "w1"}
ALLOCATION = claim().allocated()["status"]["allocation"]
RECORDED = claim().annotated({"tollbar.dev/reserved-uid": "u1"}).allocated()
ASKED = claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"}).allocated()
A, B = (pod(name).claims("gpu").bound().phase("Running") for name in "ab")
MANY = [{**FOREIGN, "uid": f"w{number}"} for number in range(255)]


def left(*entries: Object) -> Deallocation:
    return Deallocation({"allocation": ALLOCATION, "reservedFor": list(entries)}, unprotect=False)


FREED = Deallocation({}, unprotect=True)
CASES: dict[str, tuple[Claim, list[Object], Deallocation | None]] = {
    "a claim without an entry of ours is left alone": (RECORDED.reserved(FOREIGN, pod_entry(A)), [A], None),
    "our entry is known by the annotation": (RECORDED.reserved(ENTRY, pod_entry(A)), [A], left(pod_entry(A))),
    "our entry is known by the workload that is asked for": (
        ASKED.reserved(ENTRY, pod_entry(A)),
        [A],
        left(pod_entry(A)),
    ),
    "our entry is known by its field manager": (
        claim().allocated().pinned(ENTRY).reserved(FOREIGN, pod_entry(A)),
        [A],
        left(FOREIGN, pod_entry(A)),
    ),
    "a Pod that has no entry gets one": (RECORDED.reserved(ENTRY, pod_entry(A)), [A, B], left(*map(pod_entry, (A, B)))),
    "a Pod that has no entry keeps the claim": (RECORDED.reserved(ENTRY), [A], left(pod_entry(A))),
    "foreign entries stay": (RECORDED.reserved(FOREIGN, ENTRY), [A], left(FOREIGN, pod_entry(A))),
    "a claim that nobody uses is deallocated": (RECORDED.reserved(ENTRY), [], FREED),
    "a Pod that has finished gets no entry": (RECORDED.reserved(ENTRY), [A.phase("Succeeded")], FREED),
    "a Pod without a node gets no entry": (RECORDED.reserved(ENTRY), [pod("late").claims("gpu")], FREED),
    "nothing is added to a claim that is being deleted": (
        RECORDED.reserved(ENTRY, pod_entry(A)).deleting(),
        [A, B],
        left(pod_entry(A)),
    ),
    "there are never more than 256 entries": (RECORDED.reserved(ENTRY, *MANY), [A, B], left(*MANY, pod_entry(A))),
    "an annotation that names a Pod's entry does not make it ours": (
        claim().annotated({"tollbar.dev/reserved-uid": "uid-of-a"}).allocated().reserved(pod_entry(A)),
        [],
        None,
    ),
}


@pytest.mark.parametrize(("given", "consumers", "want"), CASES.values(), ids=CASES)
def test_decisions(given: Claim, consumers: list[Object], want: Deallocation | None) -> None:
    assert decide(DrainingFacts(given, consumers)) == want
