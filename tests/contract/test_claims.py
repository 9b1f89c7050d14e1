"""ResourceClaims, their templates and classes: what is filled in, what may change, what the status of a Pod records."""

from typing import Any

from contract.api import Answer, Api, told
from contract.claims import ALLOCATION, REQUEST, causes, claim
from contract.objects import add, made, put
from contract.objects import pod as a_pod
from contract.tables import Rows, invalid, last, newer, not_found, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tollbar.runtime.client import PatchType

IMMUTABLE = "field is immutable"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"


def requested(api: Api, *requests: Object) -> Any:
    return causes(api.create(claim(*requests)))


def exactly(**fields: Any) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", **fields}}


def tolerated(api: Api, *tolerations: Object) -> Any:
    """The tolerations of devices that a request has, once stored."""
    answer = api.create(claim(exactly(tolerations=list(tolerations)))).accepted()
    return answer["spec.devices.requests.0.exactly.tolerations"]


TAINTS_OFF = "taints of devices are off by default"
MANY = [{"key": f"example.com/t{number}", "operator": "Exists"} for number in range(17)]
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
    "a toleration of devices without an operator": newer(
        "1.36",
        TAINTS_OFF,
        lambda api: tolerated(api, {"key": "example.com/a", "value": "b"}),
        [{"key": "example.com/a", "operator": "Equal", "value": "b"}],
    ),
    "a toleration of every device": newer(
        "1.36", TAINTS_OFF, lambda api: tolerated(api, {"operator": "Exists"}), [{"operator": "Exists"}]
    ),
    "17 tolerations, though the API's documentation says 16 at most": newer(
        "1.36", TAINTS_OFF, lambda api: len(tolerated(api, *MANY)), 17
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
