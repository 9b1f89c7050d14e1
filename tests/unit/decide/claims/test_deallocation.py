"""Entries leave a claim: the last one takes the allocation along, in the same write."""

from typing import Any

import pytest
from builders import claim

from tollbar.decide.claims import deallocation
from tollbar.decide.claims.deallocation import Deallocation
from tollbar.model.objects import Object


def entry(uid: str) -> Object:
    return {"resource": "pods", "name": uid, "uid": uid}


FOREIGN = {"apiGroup": "apps", "resource": "deployments", "name": "d", "uid": "d"}
ALLOCATED = claim().allocated()
ALLOCATION = ALLOCATED["status"]["allocation"]
DEVICES = [{"driver": "gpu.example.com"}]

REMOVED: dict[str, tuple[Any, set[str], Deallocation | None]] = {
    "nothing is there": (ALLOCATED, {"a"}, None),
    "nothing that is there is to go": (ALLOCATED.reserved(entry("a")), {"b"}, None),
    "one of two": (
        ALLOCATED.reserved(entry("a"), entry("b")),
        {"a"},
        Deallocation({"allocation": ALLOCATION, "reservedFor": [entry("b")]}, unprotect=False),
    ),
    "all but one of somebody else": (
        ALLOCATED.reserved(entry("a"), FOREIGN, entry("b")),
        {"a", "b"},
        Deallocation({"allocation": ALLOCATION, "reservedFor": [FOREIGN]}, unprotect=False),
    ),
    "the last one": (ALLOCATED.reserved(entry("a")), {"a"}, Deallocation({}, unprotect=True)),
    "the last one leaves what drivers report": (
        ALLOCATED.reserved(entry("a")).but("status.devices", DEVICES),
        {"a"},
        Deallocation({"devices": DEVICES}, unprotect=True),
    ),
    "the last one of a claim that is not protected": (
        ALLOCATED.reserved(entry("a")).but("metadata.finalizers", ["other"]),
        {"a"},
        Deallocation({"allocation": ALLOCATION}, unprotect=False),
    ),
}


@pytest.mark.parametrize(("given", "uids", "want"), REMOVED.values(), ids=REMOVED)
def test_remove(given: Any, uids: set[str], want: Deallocation | None) -> None:
    assert deallocation.remove(given, uids) == want


FINISHED: dict[str, tuple[Any, Deallocation | None]] = {
    "not being deleted": (ALLOCATED, None),
    "being deleted, and in use": (ALLOCATED.reserved(entry("a")).deleting(), None),
    "being deleted, and still allocated": (ALLOCATED.deleting(), Deallocation({}, unprotect=True)),
    "being deleted, and only protected": (
        ALLOCATED.but("status", None).deleting(),
        Deallocation(None, unprotect=True),
    ),
    "being deleted, and held by somebody else": (claim().but("metadata.finalizers", ["other"]).deleting(), None),
}


@pytest.mark.parametrize(("given", "want"), FINISHED.values(), ids=FINISHED)
def test_finish(given: Any, want: Deallocation | None) -> None:
    assert deallocation.finish(given) == want
