"""The judge of gates finds what it is there to find, and nothing in a life as it should be."""

import json
from collections import Counter
from typing import Any

import pytest
from history.gates import AUTHORS, Judge
from history.recording import Change
from planes.objects import RESERVED

from tollbar import wellknown
from tollbar.model.objects import Object

OURS, OTHERS = {"name": wellknown.GATE}, {"name": "example.com/quota"}
DEFAULT = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
HELD, FREE = (OURS,), ()


def pod(
    version: int,
    gates: tuple[Object, ...],
    *tolerations: Object,
    uid: str = "p1",
    claims: tuple[str, ...] = ("gpu",),
    recorded: int | None = None,
    gone: bool = False,
    skip: str = "",
    **more: Any,
) -> Change:
    """A Pod `web` that refers to these claims; as many tolerations are recorded as Tollbar has given, unless said."""
    given = sum(each == RESERVED for each in tolerations) if recorded is None else recorded
    metadata = {
        "name": "web",
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {wellknown.LABEL_SKIP: skip},
        "annotations": {wellknown.ANNOTATION_PROVENANCE: json.dumps([{}] * given)},
    }
    spec = {
        "schedulingGates": [*gates],
        "tolerations": [DEFAULT, *tolerations],
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
        **more,
    }
    return Change("Pod", gone, {"metadata": metadata, "spec": spec})


def claim(version: int, class_: str = "reserved", *, name: str = "gpu", gone: bool = False) -> Change:
    requests = [{"name": "r", "exactly": {"deviceClassName": class_}}]
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return Change("ResourceClaim", gone, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})


CASES: dict[str, tuple[list[Change], list[str]]] = {
    "a life as it should be": (
        [pod(1, HELD), claim(2), pod(3, FREE, RESERVED), pod(4, FREE, RESERVED, gone=True), claim(5, gone=True)],
        [],
    ),
    "kinds are seen in another order than stored": ([pod(1, HELD), pod(3, FREE, RESERVED), claim(2)], []),
    "a claim of another class": ([pod(1, HELD), claim(2, "free"), pod(3, FREE)], []),
    "decided at its creation": ([claim(1), pod(2, FREE, RESERVED)], []),
    "it opts out": ([pod(1, HELD), pod(2, HELD, skip="true"), pod(3, FREE, skip="true")], []),
    "its author adds a toleration, and has another gate": (
        [
            pod(1, (OTHERS, OURS)),
            claim(2),
            pod(3, (OTHERS, OURS), AUTHORS),
            pod(4, (OTHERS,), AUTHORS, RESERVED),
        ],
        [],
    ),
    "its author adds a toleration when it is decided": (
        [claim(1), pod(2, FREE, RESERVED), pod(3, FREE, RESERVED, AUTHORS)],
        [],
    ),
    "it is deleted in the gate": ([pod(1, HELD), pod(2, HELD, gone=True)], []),
    "created without the gate": ([pod(1, FREE)], ["web: decided without gpu"]),
    "released too early": ([pod(1, HELD), pod(2, FREE), claim(3)], ["web: decided without gpu"]),
    "released with one of two claims": (
        [pod(1, HELD, claims=("a", "b")), claim(2, "free", name="a"), pod(3, FREE, claims=("a", "b"))],
        ["web: decided without b"],
    ),
    "released when the claim is gone again": (
        [pod(1, HELD), claim(2), claim(3, gone=True), pod(4, FREE)],
        ["web: decided without gpu"],
    ),
    "released without its toleration": (
        [pod(1, HELD), claim(2), pod(3, FREE)],
        [
            f"web: tolerates [], should tolerate {[RESERVED]}",
            "web: 0 tolerations are recorded, should be 1",
        ],
    ),
    "given twice": (
        [pod(1, HELD), claim(2), pod(3, FREE, RESERVED, RESERVED, recorded=1)],
        [f"web: tolerates {[RESERVED] * 2}, should tolerate {[RESERVED]}"],
    ),
    "given without a reason": (
        [pod(1, HELD), claim(2, "free"), pod(3, FREE, RESERVED, recorded=0)],
        [f"web: tolerates {[RESERVED]}, should tolerate []"],
    ),
    "given without a record": (
        [pod(1, HELD), claim(2), pod(3, FREE, RESERVED, recorded=0)],
        ["web: 0 tolerations are recorded, should be 1"],
    ),
    "given in the gate": (
        [pod(1, HELD), pod(2, HELD, RESERVED)],
        ["web: tolerations were added in the gate"],
    ),
    "given to one that opts out": (
        [claim(1), pod(2, HELD, skip="true"), pod(3, FREE, RESERVED, skip="true", recorded=0)],
        [f"web: tolerates {[RESERVED]}, should tolerate []"],
    ),
    "a gate of others is gone": (
        [pod(1, (OTHERS, OURS)), claim(2), pod(3, FREE, RESERVED)],
        ["web: something else was changed by the release"],
    ),
    "the release changes more": (
        [pod(1, HELD), claim(2), pod(3, FREE, RESERVED, nodeSelector={"zone": "a"})],
        ["web: something else was changed by the release"],
    ),
    "its author's toleration is gone": (
        [pod(1, HELD), claim(2), pod(3, HELD, AUTHORS), pod(4, FREE, RESERVED)],
        ["web: its author's toleration is gone"],
    ),
    "written once more": (
        [claim(1), pod(2, FREE, RESERVED), pod(3, FREE, RESERVED, RESERVED)],
        ["web: written after it was decided"],
    ),
    "in the gate again": (
        [claim(1), pod(2, HELD), pod(3, FREE, RESERVED), pod(4, HELD, RESERVED)],
        ["web: in the gate again"],
    ),
}


@pytest.mark.parametrize(("changes", "wrongs"), CASES.values(), ids=CASES)
def test_wrongs(changes: list[Change], wrongs: list[str]) -> None:
    assert Judge("reserved").wrongs(changes) == wrongs


def test_releases_are_counted_by_name_over_several_readings() -> None:
    judge = Judge("reserved")
    judge.wrongs([pod(1, HELD), claim(2), pod(3, FREE, RESERVED), pod(4, FREE, RESERVED, gone=True)])
    wrongs = judge.wrongs([pod(5, HELD, uid="p2"), pod(6, FREE, RESERVED, uid="p2")])
    assert (wrongs, judge.releases) == ([], {"web": 2})


def test_what_went_in_the_gate_is_told_by_name() -> None:
    judge = Judge("reserved")
    judge.wrongs([pod(1, HELD), claim(2), pod(3, FREE, RESERVED), pod(4, FREE, RESERVED, gone=True)])
    assert judge.ended == set()
    judge.wrongs([pod(5, HELD, uid="p2"), pod(6, HELD, uid="p2", gone=True)])
    assert (judge.ended, judge.releases) == ({"web"}, {"web": 1})


PATCHED: dict[str, tuple[list[Change], int, list[str]]] = {
    "a patch for its release": ([pod(1, HELD), claim(2), pod(3, FREE, RESERVED)], 1, []),
    "none, and it was decided at its creation": ([claim(1), pod(2, FREE, RESERVED)], 0, []),
    "one that has deleted it in the gate": ([pod(1, HELD), pod(2, HELD, gone=True)], 1, []),
    "two, of which one released nothing": (
        [pod(1, HELD), claim(2), pod(3, FREE, RESERVED)],
        2,
        ["web: 2 patches were accepted, and it was released 1 times"],
    ),
    "two that deleted it": (
        [pod(1, HELD), pod(2, HELD, gone=True)],
        2,
        ["web: 2 patches were accepted, and it was released 0 times"],
    ),
    "a release by nobody": (
        [pod(1, HELD), claim(2), pod(3, FREE, RESERVED)],
        0,
        ["web: 0 patches were accepted, and it was released 1 times"],
    ),
}
"""What was stored of a Pod, the number of patches that the API server accepted, and what is wrong with it."""


@pytest.mark.parametrize(("changes", "patches", "wrongs"), PATCHED.values(), ids=PATCHED)
def test_accepted_patches_are_releases(changes: list[Change], patches: int, wrongs: list[str]) -> None:
    judge = Judge("reserved")
    judge.wrongs(changes)
    assert judge.patched(Counter({"web": patches})) == wrongs


def test_pods_that_come_later_are_counted_anew() -> None:
    judge = Judge("reserved")
    judge.wrongs([pod(1, HELD), claim(2), pod(3, FREE, RESERVED), pod(4, FREE, RESERVED, gone=True)])
    judge.wrongs([pod(5, HELD, uid="p2"), pod(6, HELD, uid="p2", gone=True)])
    judge.patched(Counter({"web": 1}))
    assert (judge.releases, judge.ended) == (Counter(), set())
