"""Entries leave a claim: the last one takes the allocation along, in the same write."""

from typing import Any

import pytest
from objects.builders import claim

from tollbar.decide.claims import deallocation
from tollbar.model.claims import Deallocation
from tollbar.model.objects import Object


def entry(uid: str) -> Object:
    return {"resource": "pods", "name": uid, "uid": uid}


FOREIGN = {"apiGroup": "apps", "resource": "deployments", "name": "d", "uid": "d"}
ALLOCATED = claim().allocated()
ALLOCATION = ALLOCATED["status"]["allocation"]
DEVICES = [{"driver": "gpu.example.com"}]

REMOVED: dict[str, tuple[Any, set[str], Deallocation | None]] = {
    "there are no entries": (ALLOCATED, {"a"}, None),
    "none of the entries is to be removed": (ALLOCATED.reserved(entry("a")), {"b"}, None),
    "one of two entries is removed": (
        ALLOCATED.reserved(entry("a"), entry("b")),
        {"a"},
        Deallocation({"allocation": ALLOCATION, "reservedFor": [entry("b")]}, unprotect=False),
    ),
    "all entries but somebody else's are removed": (
        ALLOCATED.reserved(entry("a"), FOREIGN, entry("b")),
        {"a", "b"},
        Deallocation({"allocation": ALLOCATION, "reservedFor": [FOREIGN]}, unprotect=False),
    ),
    "the last entry takes allocation and finalizer along": (
        ALLOCATED.reserved(entry("a")),
        {"a"},
        Deallocation({}, unprotect=True),
    ),
    "the last entry leaves `status.devices`": (
        ALLOCATED.reserved(entry("a")).but("status.devices", DEVICES),
        {"a"},
        Deallocation({"devices": DEVICES}, unprotect=True),
    ),
    "the last entry of a claim that is not allocated takes the finalizer along": (
        ALLOCATED.but("status", {"reservedFor": [entry("a")]}),
        {"a"},
        Deallocation({}, unprotect=True),
    ),
    "a claim without the finalizer keeps its allocation": (
        ALLOCATED.reserved(entry("a")).but("metadata.finalizers", ["other"]),
        {"a"},
        Deallocation({"allocation": ALLOCATION}, unprotect=False),
    ),
}


@pytest.mark.parametrize(("given", "uids", "want"), REMOVED.values(), ids=REMOVED)
def test_remove(given: Any, uids: set[str], want: Deallocation | None) -> None:
    assert deallocation.remove(given, uids) == want


FINISHED: dict[str, tuple[Any, Deallocation | None]] = {
    "a claim that is not being deleted is left alone": (ALLOCATED, None),
    "a claim that is being deleted and in use is left alone": (ALLOCATED.reserved(entry("a")).deleting(), None),
    "a claim that is being deleted loses allocation and finalizer": (
        ALLOCATED.deleting(),
        Deallocation({}, unprotect=True),
    ),
    "a claim that is being deleted keeps `status.devices`": (
        ALLOCATED.but("status.devices", DEVICES).deleting(),
        Deallocation({"devices": DEVICES}, unprotect=True),
    ),
    "a claim that is being deleted and not allocated loses the finalizer": (
        ALLOCATED.but("status", None).deleting(),
        Deallocation(None, unprotect=True),
    ),
    "somebody else's finalizer keeps a claim that is being deleted": (
        claim().but("metadata.finalizers", ["other"]).deleting(),
        None,
    ),
}


@pytest.mark.parametrize(("given", "want"), FINISHED.values(), ids=FINISHED)
def test_finish(given: Any, want: Deallocation | None) -> None:
    assert deallocation.finish(given) == want
