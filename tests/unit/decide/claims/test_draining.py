"""Pods in the place of their workload: nobody loses anything, and what nobody uses is freed."""

import pytest
from builders import Claim, claim, pod

from tollbar.decide.claims.deallocation import Deallocation
from tollbar.decide.claims.draining import DrainingFacts, decide
from tollbar.model.claims import pod_entry
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
    "nothing of ours": (RECORDED.reserved(FOREIGN, pod_entry(A)), [A], None),
    "our entry by its record": (RECORDED.reserved(ENTRY, pod_entry(A)), [A], left(pod_entry(A))),
    "our entry by what is asked for": (ASKED.reserved(ENTRY, pod_entry(A)), [A], left(pod_entry(A))),
    "our entry by the API server's record": (
        claim().allocated().pinned(ENTRY).reserved(FOREIGN, pod_entry(A)),
        [A],
        left(FOREIGN, pod_entry(A)),
    ),
    "a Pod that has no entry gets one": (RECORDED.reserved(ENTRY, pod_entry(A)), [A, B], left(*map(pod_entry, (A, B)))),
    "foreign entries stay": (RECORDED.reserved(FOREIGN, ENTRY), [A], left(FOREIGN, pod_entry(A))),
    "nobody uses it": (RECORDED.reserved(ENTRY), [], FREED),
    "a Pod that is done does not use it": (RECORDED.reserved(ENTRY), [A.phase("Succeeded")], FREED),
    "a Pod without a node does not use it yet": (RECORDED.reserved(ENTRY), [pod("late").claims("gpu")], FREED),
    "nothing is added to a claim that is being deleted": (
        RECORDED.reserved(ENTRY, pod_entry(A)).deleting(),
        [A, B],
        left(pod_entry(A)),
    ),
    "no more than the API server takes": (RECORDED.reserved(ENTRY, *MANY), [A, B], left(*MANY, pod_entry(A))),
    "a record that names a Pod": (
        claim().annotated({"tollbar.dev/reserved-uid": "uid-of-a"}).allocated().reserved(pod_entry(A)),
        [],
        None,
    ),
}


@pytest.mark.parametrize(("given", "consumers", "want"), CASES.values(), ids=CASES)
def test_decisions(given: Claim, consumers: list[Object], want: Deallocation | None) -> None:
    assert decide(DrainingFacts(given, consumers)) == want
