"""ResourceSlices, and what is written of the devices that claims get: the manager of Dynamic Resource Allocation
relies on it."""

from typing import Any

from contract.api import Answer, Api, told
from contract.claims import ALLOCATION, RESULT, claim
from contract.objects import add, made, put
from contract.tables import Rows, invalid, last, newer, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from tollbar.runtime.client import PatchType

NAME = "contract-slice"
SPEC: Object = {
    "driver": "gpu.example.com",
    "nodeName": "node",
    "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
    "devices": [{"name": "gpu-0"}],
}


SHARE: Object = {
    **RESULT,
    "shareID": "4cf8db2d-06c0-4d70-9a51-000000000001",
    "consumedCapacity": {"memory": "10Gi", "slices": "1500m"},
}


def published(api: Api, **spec: Any) -> Answer:
    return api.create(made(RESOURCE_SLICES, NAME, spec={**SPEC, **spec}))


def changed(api: Api, *operations: Object) -> Answer:
    published(api).accepted()
    return api.patch(RESOURCE_SLICES, NAME, operations)


def reasons(answer: Answer) -> Any:
    return sorted({reason for reason, _, _ in answer.refusal().causes})


def kept(field: str, value: str) -> Any:
    """An attempt to change this field, and its refusal."""
    path = "/spec/" + field.replace(".", "/")
    refusal = invalid(
        f'ResourceSlice.resource.k8s.io "{NAME}"', wrong(f"spec.{field}", f'"{value}"', "field is immutable")
    )
    return (lambda api: changed(api, put(path, value))), refusal


SLICES: Rows = {
    "a slice has its first generation": (lambda api: published(api)["metadata.generation"], 1),
    "which grows with the spec": (
        lambda api: changed(api, put("/spec/pool/generation", 2))["metadata.generation"],
        2,
    ),
    "and not with the labels": (
        lambda api: changed(api, add("/metadata/labels", {"a": "b"}))["metadata.generation"],
        1,
    ),
    "a slice keeps its driver": kept("driver", "nic.example.com"),
    "a slice keeps its pool": kept("pool.name", "other"),
    "a slice keeps its Node": kept("nodeName", "other"),
    "devices come and go with updates": (
        lambda api: [
            device["name"]
            for device in changed(api, put("/spec/devices", [{"name": "gpu-2"}, {"name": "gpu-1"}]))["spec.devices"]
        ],
        ["gpu-2", "gpu-1"],
    ),
    "two devices of one name": (
        lambda api: reasons(published(api, devices=[{"name": "gpu-0"}, {"name": "gpu-0"}])),
        ["FieldValueDuplicate"],
    ),
    "a device without a name": (lambda api: published(api, devices=[{}]).code, 422),
    "a slice without a pool": (
        lambda api: "FieldValueRequired" in reasons(published(api, pool={"resourceSliceCount": 1})),
        True,
    ),
}


@rows(SLICES)
def test_slices(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def write(api: Api, status: Object) -> Answer:
    return api.patch(RESOURCE_CLAIMS, "gpu", {"status": status}, PatchType.MERGE, "status")


def read_back(api: Api, *results: Object) -> Any:
    api.create(claim()).accepted()
    return write(api, {"allocation": {"devices": {"results": list(results)}}})["status.allocation.devices.results"]


def versions(api: Api) -> bool:
    """Whether each write of a claim gives it a greater version than the one before."""
    answers = [
        api.create(claim()),
        api.patch(RESOURCE_CLAIMS, "gpu", [add("/metadata/labels", {"a": "b"})]),
        write(api, {"allocation": ALLOCATION}),
        write(api, {"allocation": None}),
        write(api, {"allocation": ALLOCATION}),
    ]
    found = [int(answer.accepted()["metadata.resourceVersion"]) for answer in answers]
    return found == sorted(set(found))


def uids(api: Api) -> bool:
    """Whether a claim of a name that another one had before is another claim."""
    first = api.create(claim())["metadata.uid"]
    api.delete(RESOURCE_CLAIMS, "gpu").accepted()
    return bool(first != api.create(claim())["metadata.uid"])


ALLOCATIONS: Rows = {
    "an allocation is read as it was written": (lambda api: read_back(api, RESULT), [RESULT]),
    "so is what it takes of a shared device": newer(
        "1.36", "consumable capacity is off", lambda api: read_back(api, SHARE), [SHARE]
    ),
    "the same allocation may be written again, which changes nothing": (
        lambda api: (
            api.create(claim()).accepted(),
            write(api, {"allocation": ALLOCATION})["metadata.resourceVersion"]
            == write(api, {"allocation": ALLOCATION})["metadata.resourceVersion"],
        )[1],
        True,
    ),
    "an allocation that was taken back may be followed by another": (
        lambda api: last(
            api.create(claim()),
            write(api, {"allocation": ALLOCATION}),
            write(api, {"allocation": None}),
            write(api, {"allocation": {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}})[
                "status.allocation.devices.results.0.device"
            ],
        ),
        "gpu-1",
    ),
    "the versions of a claim grow with every write": (versions, True),
    "a claim that is made anew has another uid": (uids, True),
}


@rows(ALLOCATIONS)
def test_allocations(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
