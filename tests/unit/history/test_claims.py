"""The history checker finds what it is there to find, and nothing in a life as it should be."""

from typing import Any

import pytest
from history.claims import FINALIZER, POD_CLAIM, leftovers, wrongs
from history.recording import Change

from tollbar.model.objects import Object


def pod(version: int, uid: str = "p1", *, phase: str = "Running", gone: bool = False, **meta: Any) -> Change:
    """A bound Pod `web` with a claim from a template."""
    return Change(
        "Pod",
        gone,
        {
            "metadata": {"name": "web", "uid": uid, "resourceVersion": str(version), **meta},
            "spec": {"nodeName": "n", "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
            "status": {"phase": phase, "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu-1"}]},
        },
    )


def claim(
    version: int,
    uid: str = "c1",
    *,
    name: str = "web-gpu-1",
    reserved: tuple[str, ...] = (),
    allocated: bool = False,
    protected: bool = False,
    gone: bool = False,
    **meta: Any,
) -> Change:
    """A claim generated for p1."""
    status: Object = {"allocation": {}} if allocated else {}
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": "web", "uid": each} for each in reserved]
    owner = {"kind": "Pod", "name": "web", "uid": "p1", "controller": True}
    return Change(
        "ResourceClaim",
        gone,
        {
            "metadata": {
                "name": name,
                "uid": uid,
                "resourceVersion": str(version),
                "ownerReferences": [owner],
                "annotations": {POD_CLAIM: "gpu"},
                **({"finalizers": [FINALIZER]} if protected else {}),
                **meta,
            },
            "status": status,
        },
    )


USED = {"reserved": ("p1",), "allocated": True, "protected": True}
LIFE = [pod(1), claim(2), claim(3, protected=True), claim(4, **USED)]
CASES: dict[str, tuple[list[Change], list[str], list[str]]] = {
    "a life as it should be": (
        [*LIFE, pod(5, phase="Succeeded"), claim(6, protected=True), claim(7), claim(8, gone=True), pod(9, gone=True)],
        [],
        [],
    ),
    "kinds are seen in another order than stored": (
        [claim(6, protected=True), claim(7), claim(8, gone=True), *LIFE, pod(5, phase="Failed")],
        [],
        [],
    ),
    "two claims for one": (
        [pod(1), claim(2), claim(3, "c2", name="web-gpu-2")],
        ["web-gpu-2: a Pod has 2 claims called gpu"],
        [],
    ),
    "another claim when the first is gone": (
        [pod(1), claim(2, name="web-gpu-0"), claim(3, name="web-gpu-0", gone=True), claim(4, "c2")],
        [],
        [],
    ),
    "an entry is removed under a running Pod": (
        [*LIFE, claim(5, allocated=True, protected=True)],
        ["web-gpu-1: the entry of the living Pod web was removed"],
        ["web-gpu-1: allocated for nobody"],
    ),
    "a claim is deallocated under a running Pod": (
        [*LIFE, claim(5)],
        [
            "web-gpu-1: the entry of the living Pod web was removed",
            "web-gpu-1: deallocated under the living Pod web",
        ],
        [],
    ),
    "an entry of a deleting Pod that has a node": (
        [*LIFE, pod(5, deletionTimestamp="now"), claim(6, allocated=True, protected=True)],
        ["web-gpu-1: the entry of the living Pod web was removed"],
        ["web-gpu-1: allocated for nobody"],
    ),
    "a claim outlives its Pod": (
        [*LIFE, pod(5, gone=True)],
        [],
        ["web-gpu-1: its Pod is gone or done", "web-gpu-1: reserved for the Pod web, which is gone or done"],
    ),
    "a finalizer is left, and the claim deleting": (
        [pod(1), claim(2, protected=True, deletionTimestamp="now")],
        [],
        ["web-gpu-1: still being deleted", "web-gpu-1: a finalizer without an allocation"],
    ),
    "a Pod's claim is missing": ([pod(1)], [], ["web: its claim gpu is not there"]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found(case: str) -> None:
    changes, never, left = CASES[case]
    assert (wrongs(changes), leftovers(changes)) == (never, left)
