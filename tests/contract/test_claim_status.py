"""The status of ResourceClaims: allocation, who may be in reservedFor, and writes that carry the identity alone."""

from typing import Any

from contract.api import Answer, Api, told
from contract.claims import ALLOCATION, RESULT, causes, claim
from contract.objects import check, made, remove
from contract.tables import STALE, Rows, forbidden, invalid, last, newer, outdated, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.client import PatchType

NAMED = 'ResourceClaim.resource.k8s.io "gpu"'


def consumer(name: str) -> Object:
    """An entry of reservedFor that no controller of Kubernetes feels responsible for."""
    return {"apiGroup": "apps", "resource": "deployments", "name": name, "uid": f"uid-{name}"}


def write(api: Api, status: Object, kind: PatchType = PatchType.MERGE) -> Answer:
    return api.patch(RESOURCE_CLAIMS, "gpu", {"status": status}, kind, "status")


def allocated(api: Api, *names: str, **metadata: Any) -> Answer:
    """A claim that these consumers have."""
    api.create(claim(**metadata)).accepted()
    return write(api, {"allocation": ALLOCATION, "reservedFor": [consumer(name) for name in names]}).accepted()


def consumers(answer: Answer) -> Any:
    """Names in reservedFor, or the causes of a refusal."""
    if answer.code >= 300:
        return told(answer)
    return [each["name"] for each in answer["status.reservedFor"] or ()]


def reserved(api: Api, *entries: Object, kind: PatchType = PatchType.MERGE) -> Any:
    """reservedFor after writing these entries to a claim that a and b have."""
    allocated(api, "a", "b")
    return consumers(write(api, {"reservedFor": list(entries)}, kind))


def incomplete(field: str) -> Any:
    return lambda api: reserved(api, {**consumer("c"), field: ""}).causes


def ending(api: Api, *names: str) -> Answer:
    """A claim that these have and that waits for its end."""
    allocated(api, *names, finalizers=["example.com/wait"])
    return api.delete(RESOURCE_CLAIMS, "gpu")


def twice(name: str) -> tuple[str, str, str]:
    """The cause for a second entry that has the uid of a."""
    quoted = f'{{"apiGroup":"apps","resource":"deployments","name":"{name}","uid":"uid-a"}}'
    return ("FieldValueDuplicate", "status.reservedFor[1]", f"Duplicate value: {quoted}")


NO_ALLOCATION = forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
ENDING = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
RESERVATIONS: Rows = {
    "consumers with an allocation": (lambda api: consumers(allocated(api, "a", "b")), ["a", "b"]),
    "a consumer without an allocation": (
        lambda api: last(api.create(claim()), write(api, {"reservedFor": [consumer("a")]})),
        invalid(NAMED, NO_ALLOCATION),
    ),
    "an allocation is taken from under its consumers": (
        lambda api: last(allocated(api, "a"), write(api, {"allocation": None})),
        invalid(NAMED, NO_ALLOCATION),
    ),
    "allocation and consumers go in one write": (
        lambda api: last(allocated(api, "a"), write(api, {"allocation": None, "reservedFor": None})["status"]),
        {},
    ),
    "the last consumer goes, the allocation stays": (
        lambda api: last(
            allocated(api, "a"),
            write(api, {"reservedFor": None})["status.allocation.devices.results.0.device"],
        ),
        "gpu-0",
    ),
    "another allocation": newer(
        "1.37",
        "other words",
        lambda api: last(
            allocated(api, "a"),
            [
                (field, text.rpartition(": ")[2])
                for field, text in causes(
                    write(api, {"allocation": {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}})
                )
            ],
        ),
        [("status.allocation", "field cannot be modified once set")],
    ),
    "a result for a request that the claim does not have": (
        lambda api: last(
            api.create(claim()),
            causes(write(api, {"allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}})),
        ),
        [
            (
                "status.allocation.devices.results[0].request",
                (
                    'Invalid value: "x": must be the name of a request in the claim or the name of a request and a'
                    " subrequest separated by '/'"
                ),
            )
        ],
    ),
    "one consumer twice": newer(
        "1.37", "other words", lambda api: reserved(api, consumer("a"), consumer("a")).causes, (twice("a"),)
    ),
    "two consumers of one uid": newer(
        "1.37",
        "other words",
        lambda api: reserved(api, consumer("a"), {**consumer("c"), "uid": "uid-a"}).causes,
        (twice("c"),),
    ),
    "an entry without a uid": (
        incomplete("uid"),
        (("FieldValueRequired", "status.reservedFor[0].uid", "Required value"),),
    ),
    "an entry without a name": (
        incomplete("name"),
        (("FieldValueRequired", "status.reservedFor[0].name", "Required value"),),
    ),
    "an entry without a resource": (
        incomplete("resource"),
        (("FieldValueRequired", "status.reservedFor[0].resource", "Required value"),),
    ),
    "an entry of the core group": (lambda api: reserved(api, {**consumer("c"), "apiGroup": ""}), ["c"]),
    "256 consumers": (lambda api: len(reserved(api, *[consumer(f"c{n}") for n in range(256)])), 256),
    "257 consumers": (
        lambda api: reserved(api, *[consumer(f"c{n}") for n in range(257)]),
        invalid(NAMED, ("FieldValueTooMany", "status.reservedFor", "Too many: 257: must have at most 256 items")),
    ),
    "a merge patch replaces all of them": (lambda api: reserved(api, consumer("c")), ["c"]),
    "a strategic merge patch adds one, in front": (
        lambda api: reserved(api, consumer("c"), kind=PatchType.STRATEGIC),
        ["c", "a", "b"],
    ),
    "a strategic merge patch removes one by uid": (
        lambda api: reserved(api, {"$patch": "delete", "uid": "uid-a"}, kind=PatchType.STRATEGIC),
        ["b"],
    ),
    "a strategic merge patch removes one that is not there": (
        lambda api: reserved(api, {"$patch": "delete", "uid": "uid-z"}, kind=PatchType.STRATEGIC),
        ["a", "b"],
    ),
    "a strategic merge patch changes one by uid": (
        lambda api: reserved(api, {"uid": "uid-a", "name": "z"}, kind=PatchType.STRATEGIC),
        ["z", "b"],
    ),
    "a strategic merge patch for another uid of the claim": (
        lambda api: last(
            allocated(api, "a"),
            api.patch(
                RESOURCE_CLAIMS,
                "gpu",
                {
                    "metadata": {"uid": "00000000-0000-0000-0000-000000000000"},
                    "status": {"reservedFor": [consumer("c")]},
                },
                PatchType.STRATEGIC,
                "status",
            ),
        ),
        invalid(NAMED, wrong("metadata.uid", '"UID"', "field is immutable")),
    ),
    "a JSON Patch removes the one that it tested": (
        lambda api: last(
            allocated(api, "a", "b"),
            consumers(
                api.patch(
                    RESOURCE_CLAIMS,
                    "gpu",
                    [check("/status/reservedFor/0/uid", "uid-a"), remove("/status/reservedFor/0")],
                    sub="status",
                )
            ),
        ),
        ["b"],
    ),
    "a JSON Patch that finds another one there": (
        lambda api: last(
            allocated(api, "a", "b"),
            api.patch(RESOURCE_CLAIMS, "gpu", [check("/status/reservedFor/0/uid", "uid-b")], sub="status"),
        ),
        STALE,
    ),
    "one more on a claim that is being deleted": (
        lambda api: last(ending(api, "a"), write(api, {"reservedFor": [consumer("a"), consumer("b")]})),
        invalid(NAMED, forbidden("status.reservedFor", ENDING)),
    ),
    "another name for one on a claim that is being deleted": (
        lambda api: last(ending(api, "a"), write(api, {"reservedFor": [{**consumer("a"), "name": "z"}]})),
        invalid(NAMED, forbidden("status.reservedFor", ENDING)),
    ),
    "one less on a claim that is being deleted": (
        lambda api: last(ending(api, "a", "b"), consumers(write(api, {"reservedFor": [consumer("b")]}))),
        ["b"],
    ),
}


@rows(RESERVATIONS)
def test_reservations(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def identity(api: Api, **more: Any) -> Object:
    """The metadata that a claim of ours is written with."""
    meta = api.get(RESOURCE_CLAIMS, "gpu")["metadata"]
    return {**{name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion")}, **more}


def freed(api: Api, **more: Any) -> Answer:
    """A status without anything, sent with the identity alone."""
    return api.replace(made(RESOURCE_CLAIMS, "gpu", metadata=identity(api, **more), status={}), "status")


def without(api: Api, finalizer: str, **more: Any) -> Answer:
    body = identity(api, **{"$deleteFromPrimitiveList/finalizers": [finalizer]}, **more)
    return api.patch(RESOURCE_CLAIMS, "gpu", {"metadata": body}, PatchType.STRATEGIC)


WAITS = {"finalizers": ["example.com/wait"]}
FENCED: Rows = {
    "a status is replaced without the spec": (
        lambda api: last(
            allocated(api, "a", **WAITS), (freed(api)["status"], freed(api)["spec.devices.requests.0.name"])
        ),
        ({}, "r"),
    ),
    "and leaves finalizers that it does not name": (
        lambda api: last(allocated(api, "a", **WAITS), freed(api)["metadata.finalizers"]),
        ["example.com/wait"],
    ),
    "a status on an old version": (
        lambda api: last(allocated(api, "a"), freed(api, resourceVersion="1")),
        outdated('resourceclaims.resource.k8s.io "gpu"'),
    ),
    "one finalizer goes by a strategic merge patch": (
        lambda api: last(
            allocated(api, "a", finalizers=["example.com/wait", "example.com/other"]),
            without(api, "example.com/wait")["metadata.finalizers"],
        ),
        ["example.com/other"],
    ),
    "the last one, too": (
        lambda api: last(allocated(api, "a", **WAITS), without(api, "example.com/wait")["metadata.finalizers"]),
        None,
    ),
    "and with it a claim that is being deleted": (
        lambda api: last(ending(api, "a"), without(api, "example.com/wait"), api.get(RESOURCE_CLAIMS, "gpu").code),
        404,
    ),
    "one that is not there": (
        lambda api: last(allocated(api, "a", **WAITS), without(api, "example.com/x")["metadata.finalizers"]),
        ["example.com/wait"],
    ),
    "one finalizer on an old version": (
        lambda api: last(allocated(api, "a", **WAITS), without(api, "example.com/wait", resourceVersion="1")),
        outdated('resourceclaims.resource.k8s.io "gpu"'),
    ),
}


@rows(FENCED)
def test_fenced_writes(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
