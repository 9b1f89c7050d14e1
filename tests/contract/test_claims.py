"""ResourceClaims, their templates and their classes: what is filled in, what may change, who may be in reservedFor."""

from typing import Any

from contract.api import Answer, Api, told
from contract.objects import add, check, made, put, remove
from contract.objects import pod as a_pod
from contract.tables import STALE, Rows, forbidden, invalid, last, newer, not_found, outdated, rows, wrong

from tollbar.model.objects import Object
from tollbar.runtime.client import PatchType
from tollbar.runtime.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

NAMED = 'ResourceClaim.resource.k8s.io "gpu"'
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
IMMUTABLE = "field is immutable"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
ALLOCATION = {"devices": {"results": [RESULT]}}


def claim(*requests: Object, **metadata: Any) -> Object:
    wanted = {"devices": {"requests": list(requests or (REQUEST,))}}
    return made(RESOURCE_CLAIMS, "gpu", metadata=metadata, spec=wanted)


def consumer(name: str) -> Object:
    """An entry of reservedFor that no controller of Kubernetes feels responsible for."""
    return {"apiGroup": "apps", "resource": "deployments", "name": name, "uid": f"uid-{name}"}


def causes(answer: Answer) -> Any:
    """Of a refusal (field, message), without the values that it quotes."""
    return [(field, text) for _, field, text in answer.refusal().causes]


def requested(api: Api, *requests: Object) -> Any:
    return causes(api.create(claim(*requests)))


def exactly(**fields: Any) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", **fields}}


CREATION: Rows = {
    "one device is the default": (
        lambda api: api.create(claim())["spec.devices.requests.0.exactly"],
        {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1},
    ),
    "the same for every alternative": (
        lambda api: api.create(
            claim({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]})
        )["spec.devices.requests.0.firstAvailable"],
        [{"name": "a", "deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}],
    ),
    "a status is dropped": (
        lambda api: api.create({**claim(), "status": {"allocation": ALLOCATION}})["status"],
        {},
    ),
    "a request for nothing": (
        lambda api: requested(api, {"name": "r"}),
        [("spec.devices.requests[0]", f"Required value: {ONE_OF}")],
    ),
    "a request exactly and with alternatives": (
        lambda api: requested(
            api, {**REQUEST, "firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]}
        ),
        [
            (
                "spec.devices.requests[0]",
                f"Invalid value: null: {ONE_OF}, but multiple fields are set",
            )
        ],
    ),
    "a request without a class": (
        lambda api: requested(api, exactly(deviceClassName="")),
        [("spec.devices.requests[0].exactly.deviceClassName", "Required value")],
    ),
    "a request for no devices": (
        lambda api: requested(api, exactly(allocationMode="ExactCount", count=-1)),
        [("spec.devices.requests[0].exactly.count", "Invalid value: -1: must be greater than zero")],
    ),
    "a request for all devices and for two": (
        lambda api: requested(api, exactly(allocationMode="All", count=2)),
        [
            (
                "spec.devices.requests[0].exactly.count",
                "Invalid value: 2: must not be specified when allocationMode is 'All'",
            )
        ],
    ),
    "two requests of one name": (
        lambda api: [(field, text.split(":")[0]) for field, text in requested(api, REQUEST, REQUEST)],
        [("spec.devices.requests[1]", "Duplicate value")],
    ),
    "33 requests": (
        lambda api: requested(api, *[{**REQUEST, "name": f"r{n}"} for n in range(33)]),
        [("spec.devices.requests", "Too many: 33: must have at most 32 items")],
    ),
    "a selector that does not compile": (
        lambda api: [
            (field, text.split(":")[0], "undeclared reference to 'devices'" in text)
            for field, text in requested(api, exactly(selectors=[{"cel": {"expression": "devices.driver == 'x'"}}]))
        ],
        [("spec.devices.requests[0].exactly.selectors[0].cel.expression", "Invalid value", True)],
    ),
}


@rows(CREATION)
def test_creation(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def changed(api: Api, *operations: Object, sub: str = "") -> Answer:
    api.create(claim()).accepted()
    return api.patch(RESOURCE_CLAIMS, "gpu", operations, sub=sub)


CHANGES: Rows = {
    "the spec": (
        lambda api: [
            (field, text.rpartition(": ")[2])
            for field, text in causes(changed(api, put("/spec/devices/requests/0/exactly/count", 2)))
        ],
        [("spec", IMMUTABLE)],
    ),
    "labels": (lambda api: changed(api, add("/metadata/labels", {"a": "b"}))["metadata.labels"], {"a": "b"}),
    "finalizers": (lambda api: changed(api, add("/metadata/finalizers", ["example.com/wait"])), 200),
    "the status, through the claim: ignored": (
        lambda api: changed(api, add("/status/allocation", ALLOCATION))["status"],
        {},
    ),
    "the spec, through the status: ignored": (
        lambda api: changed(api, put("/spec/devices/requests/0/exactly/count", 2), sub="status")[
            "spec.devices.requests.0.exactly.count"
        ],
        1,
    ),
    "labels, through the status: ignored": (
        lambda api: changed(api, add("/metadata/labels", {"a": "b"}), sub="status")["metadata.labels"],
        None,
    ),
    "it has no generation": (lambda api: api.create(claim())["metadata.generation"], None),
}


@rows(CHANGES)
def test_changes(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


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


def unprotected(api: Api, **more: Any) -> Answer:
    return api.patch(RESOURCE_CLAIMS, "gpu", {"metadata": identity(api, finalizers=None, **more)}, PatchType.MERGE)


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
    "finalizers go by a merge patch": (
        lambda api: last(allocated(api, "a", **WAITS), unprotected(api)["metadata.finalizers"]),
        None,
    ),
    "finalizers on an old version": (
        lambda api: last(allocated(api, "a", **WAITS), unprotected(api, resourceVersion="1")),
        outdated('resourceclaims.resource.k8s.io "gpu"'),
    ),
}


@rows(FENCED)
def test_fenced_writes(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


REFERENCES = [{"name": name, "resourceClaimTemplateName": "none"} for name in ("a", "b")]


def recorded(api: Api, *names: str, uid: str = "") -> Answer:
    """The claims of a Pod, applied as the ResourceClaim controller does."""
    if (pod := api.get(PODS, "web")).code == 404:
        pod = api.create(a_pod(resourceClaims=REFERENCES)).accepted()
    meta = {"name": "web", "uid": uid or pod["metadata.uid"]}
    statuses = [{"name": name, "resourceClaimName": f"web-{name}"} for name in names]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"resourceClaimStatuses": statuses}}
    query = {"fieldManager": "contract", "force": "true"}
    return api.patch(PODS, "web", body, PatchType.APPLY, "status", **query)


def references(answer: Answer) -> Any:
    return [each["name"] for each in answer["status.resourceClaimStatuses"] or ()]


RECORDS: Rows = {
    "claims of a Pod are recorded": (lambda api: references(recorded(api, "a", "b")), ["a", "b"]),
    "one more, with those that are there": (
        lambda api: last(recorded(api, "a"), references(recorded(api, "a", "b"))),
        ["a", "b"],
    ),
    "what is left out goes": (lambda api: last(recorded(api, "a"), references(recorded(api, "b"))), ["b"]),
    "for a reference that the Pod does not have": (lambda api: recorded(api, "z").code, 422),
    "for another Pod of the name": (
        lambda api: last(recorded(api, "a"), recorded(api, "b", uid="00000000-0000-0000-0000-000000000000")),
        invalid('Pod "web"', wrong("metadata.uid", '"UID"', "field is immutable")),
    ),
}


@rows(RECORDS)
def test_claims_of_a_pod(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def template(**spec: Any) -> Object:
    wanted = {"spec": {"devices": {"requests": [REQUEST]}}, **spec}
    return made(RESOURCE_CLAIM_TEMPLATES, "gpu", spec=wanted)


def device_class(**spec: Any) -> Object:
    return made(DEVICE_CLASSES, "contract.example.com", spec=spec)


TEMPLATE = "/spec/spec/devices/requests/0/exactly"
TEMPLATES: Rows = {
    "a template's spec cannot be changed": (
        lambda api: last(
            api.create(template()),
            [
                (field, text.rpartition(": ")[2])
                for field, text in causes(api.patch(RESOURCE_CLAIM_TEMPLATES, "gpu", [put(f"{TEMPLATE}/count", 2)]))
            ],
        ),
        [("spec", IMMUTABLE)],
    ),
    "a template's labels can": (
        lambda api: last(
            api.create(template()),
            api.patch(RESOURCE_CLAIM_TEMPLATES, "gpu", {"metadata": {"labels": {"a": "b"}}}, PatchType.MERGE),
        ),
        200,
    ),
    "a template fills in what a claim does": (
        lambda api: api.create(template())["spec.spec.devices.requests.0.exactly.count"],
        1,
    ),
    "a template refuses what a claim does": (
        lambda api: causes(api.create(template(spec={"devices": {"requests": [{"name": "r"}]}}))),
        [("spec.spec.devices.requests[0]", f"Required value: {ONE_OF}")],
    ),
    "a template keeps the labels and annotations of its claims": (
        lambda api: api.create(template(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}))["spec.metadata"],
        {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    ),
    "a class can be changed at any time": newer(
        "1.36",
        "no extended resources",
        lambda api: last(
            api.create(device_class()),
            api.patch(
                DEVICE_CLASSES,
                "contract.example.com",
                {"spec": {"extendedResourceName": "contract.example.com/gpu"}},
                PatchType.MERGE,
            )["spec"],
        ),
        {"extendedResourceName": "contract.example.com/gpu"},
    ),
    "a class counts generations": newer(
        "1.36",
        "no extended resources",
        lambda api: last(
            api.create(device_class()),
            api.patch(
                DEVICE_CLASSES,
                "contract.example.com",
                [add("/spec/extendedResourceName", "contract.example.com/gpu")],
            )["metadata.generation"],
        ),
        2,
    ),
    "a class for a resource without a domain": newer(
        "1.37",
        "other words",
        lambda api: causes(api.create(device_class(extendedResourceName="gpu"))),
        [
            (
                "spec.extendedResourceName",
                "Invalid value: \"gpu\": a name must be a domain-prefixed path, such as 'example.com/my-prop'",
            )
        ],
    ),
    "a class that is not there": (
        lambda api: api.get(DEVICE_CLASSES, "none"),
        not_found('deviceclasses.resource.k8s.io "none"'),
    ),
}


@rows(TEMPLATES)
def test_templates_and_classes(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
