"""The comparison sees what matters, and only that."""

import pytest
from history.recording import Change

from parity.dsl import POD_CLAIM
from parity.trace import apart, trace
from tollbar.devplane.audit import COMPLETE, Record
from tollbar.model.objects import Object

US = "us"


def pod(uid: str, *, phase: str = "Pending", claim: str = "") -> Change:
    status: Object = {"phase": phase}
    if claim:
        status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": claim}]
    meta = {"name": "web", "uid": uid, "creationTimestamp": uid, "namespace": "n"}
    return Change("Pod", False, {"metadata": meta, "spec": {"containers": []}, "status": status})


def claim(
    uid: str, owner: str, suffix: str, *, gone: bool = False, entries: tuple[str, ...] = (), label: str = "a"
) -> Change:
    meta = {
        "name": f"web-gpu-{suffix}",
        "generateName": "web-gpu-",
        "uid": uid,
        "labels": {"team": label},
        "annotations": {POD_CLAIM: "gpu"},
        "ownerReferences": [{"kind": "Pod", "name": "web", "uid": owner, "controller": True}],
    }
    reserved = [{"resource": "pods", "name": "web", "uid": each} for each in entries]
    status = {"reservedFor": reserved, "allocation": {}} if entries else {}
    return Change("ResourceClaim", gone, {"metadata": meta, "status": status})


def wrote(verb: str, resource: str, subresource: str = "", name: str = "", code: int = 200, user: str = US) -> Record:
    return Record(COMPLETE, verb, "", resource, subresource, "n", name, user, "", code, "")


BASE = (
    [pod("p1"), claim("c1", "p1", "xyz"), pod("p1", claim="web-gpu-xyz")],
    [wrote("create", "resourceclaims", code=201), wrote("patch", "pods", "status", "web")],
)
RECORDED = [{"name": "gpu", "resourceClaimName": "<web/gpu>"}]
CASES: dict[str, tuple[list[Change], list[Record], list[str]]] = {
    "other names, uids and kinds of writes, a conflict, and somebody else's": (
        [pod("q1"), claim("d1", "q1", "abc"), pod("q1", claim="web-gpu-abc")],
        [
            wrote("create", "resourceclaims", code=201),
            wrote("update", "pods", "status", "web", code=409),
            wrote("update", "pods", "status", "web"),
            wrote("update", "pods", "status", "web"),
            wrote("delete", "pods", name="web", user="kubelet"),
        ],
        [],
    ),
    "another label": (
        [pod("p1"), claim("c1", "p1", "xyz", label="b"), pod("p1", claim="web-gpu-xyz")],
        BASE[1],
        ["objects / ResourceClaim web/gpu / metadata / labels / team: upstream a, ours b"],
    ),
    "nothing recorded": (
        [pod("p1"), claim("c1", "p1", "xyz")],
        BASE[1][:1],
        [
            f"objects / Pod web / status / resourceClaimStatuses: upstream {RECORDED}, ours None",
            "writes / pods web: upstream ['write status'], ours None",
        ],
    ),
    "a second claim, gone again": (
        [*BASE[0], claim("c2", "p1", "uvw"), claim("c2", "p1", "uvw", gone=True)],
        BASE[1],
        ["history / web/gpu#2: upstream None, ours ['free', 'gone']"],
    ),
    "an entry of an earlier Pod": (
        [*BASE[0], claim("c1", "p1", "xyz", entries=("p0",)), claim("c1", "p1", "xyz")],
        BASE[1],
        ["history / web/gpu: upstream ['free'], ours ['free', 'allocated, reserved for nobody', 'free']"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_apart(case: str) -> None:
    changes, records, want = CASES[case]
    found = apart(trace(*BASE, [], US, []), trace(changes, records, [], US, []))
    assert [str(each) for each in found] == want


def test_what_is_written_of_a_claim_that_the_garbage_collector_deletes_is_by_chance() -> None:
    begin = [*BASE[0], claim("c1", "p1", "xyz", entries=("p1", "p2"))]
    end = [Change("Pod", True, pod("p1").object), claim("c1", "p1", "xyz", gone=True)]
    freed = trace(
        [*begin, claim("c1", "p1", "xyz", entries=("p2",)), *end],
        [*BASE[1], wrote("update", "resourceclaims", "status", "web-gpu-xyz")],
        [],
        US,
        [],
    )
    assert apart(freed, trace([*begin, *end], BASE[1], [], US, [])) == []
