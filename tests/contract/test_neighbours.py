"""The other kinds that Tollbar writes or asks: Events, Leases, reviews of who one is, discovery, tables."""

from typing import Any

from contract.api import Answer, Api, told
from contract.objects import ACCESS_REVIEWS, lease, made, pod
from contract.tables import Rows, invalid, last, not_found, outdated, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import (
    EVENTS,
    LEASES,
    PODS,
    RESOURCE_CLAIMS,
    SELF_SUBJECT_REVIEWS,
)
from tollbar.runtime.client import PatchType

SEEN = "2026-01-01T00:00:00.000001Z"


def event(**fields: Any) -> Object:
    told_of = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web"}
    given: Object = {
        "eventTime": SEEN,
        "type": "Normal",
        "reason": "Released",
        "action": "Release",
        "note": "All is well.",
        "reportingController": "example.com/gates",
        "reportingInstance": "gates-0",
        "regarding": told_of,
        **fields,
    }
    return made(EVENTS, "web.1", **{key: value for key, value in given.items() if value is not None})


def noted(api: Api, **fields: Any) -> Any:
    """201, or the causes of the refusal."""
    regarding = {**event()["regarding"], "namespace": api.namespace}
    answer = api.create(event(**{"regarding": regarding, **fields}))
    return answer.code if answer.code < 300 else answer.refusal().causes


def repeated(api: Api, body: Object) -> Answer:
    """A merge patch of a stored Event."""
    assert noted(api) == 201
    return api.patch(EVENTS, "web.1", body, PatchType.MERGE)


def required(field: str) -> tuple[str, str, str]:
    return ("FieldValueRequired", field, "Required value")


SERIES = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
EVENT_ROWS: Rows = {
    "a complete one": (lambda api: noted(api), 201),
    "without a note": (lambda api: noted(api, note=None), 201),
    "without a time": (lambda api: noted(api, eventTime=None), (required("eventTime"),)),
    "without a reason": (lambda api: noted(api, reason=None), (required("reason"),)),
    "without an action": (lambda api: noted(api, action=None), (required("action"),)),
    "without a controller": (lambda api: noted(api, reportingController=None)[0], required("reportingController")),
    "without an instance": (lambda api: noted(api, reportingInstance=None), (required("reportingInstance"),)),
    "of another type": (lambda api: noted(api, type="Error"), (wrong("type", '""', "has invalid value: Error"),)),
    "a controller with a blank": (
        lambda api: noted(api, reportingController="a b")[0][:2],
        ("FieldValueInvalid", "reportingController"),
    ),
    "a note of 1024 bytes": (lambda api: noted(api, note="x" * 1024), 201),
    "a note of 1025 bytes": (
        lambda api: noted(api, note="x" * 1025),
        (wrong("message", '""', "can have at most 1024 characters"),),
    ),
    "a reason of 129 bytes": (
        lambda api: noted(api, reason="x" * 129),
        (wrong("reason", '""', "can have at most 128 characters"),),
    ),
    "of an object elsewhere": (
        lambda api: noted(api, regarding={"kind": "Pod", "name": "web", "namespace": "elsewhere"}),
        201,
    ),
    "of an object without a namespace": (
        lambda api: noted(api, regarding={"kind": "Node", "name": "node", "namespace": ""}),
        (wrong("involvedObject.namespace", '""', "does not match event.namespace"),),
    ),
    "of an object without a namespace, in the default one": (
        lambda api: api.request(
            "POST",
            EVENTS.path("default"),
            {**event(regarding={"kind": "Node", "name": "node"}), "metadata": {"generateName": "contract-"}},
            dryRun="All",
        ),
        201,
    ),
    "with another object": (lambda api: noted(api, related={"kind": "Node", "name": "node"}), 201),
    "a series of one": (
        lambda api: noted(api, series={**SERIES, "count": 1}),
        (wrong("series.count", '""', "should be at least 2"),),
    ),
    "a series from the start": (lambda api: noted(api, series=SERIES), 201),
    "a series later": (lambda api: repeated(api, {"series": SERIES})["series"], SERIES),
    "another note later": (
        lambda api: repeated(api, {"note": "Else."}).refusal().causes,
        (wrong("message", '"Else."', "field is immutable"),),
    ),
    "a series of what is gone": (
        lambda api: api.patch(EVENTS, "web.1", {"series": SERIES}, PatchType.MERGE),
        not_found('events.events.k8s.io "web.1"'),
    ),
    "found by what it is about": (
        lambda api: last(
            noted(api),
            (
                api.names(EVENTS, fieldSelector="regarding.name=web,regarding.kind=Pod,reason=Released"),
                api.names(EVENTS, fieldSelector="regarding.name=other"),
            ),
        ),
        (["web.1"], []),
    ),
    "the same, in the older API": (
        lambda api: last(
            noted(api),
            (old := api.request("GET", f"/api/v1/namespaces/{api.namespace}/events/web.1"))
            and [
                old[each]
                for each in ("message", "reportingComponent", "involvedObject.name", "count", "firstTimestamp")
            ],
        ),
        ["All is well.", "example.com/gates", "web", None, None],
    ),
}


@rows(EVENT_ROWS)
def test_events(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def held(**spec: Any) -> Object:
    return made(LEASES, "turn", spec={"holderIdentity": "a", "leaseDurationSeconds": 15, **spec})


def stolen(api: Api) -> Any:
    """Two take the same Lease over from what both have read."""
    found = api.create(held()).accepted().object
    api.replace({**found, "spec": {**found["spec"], "holderIdentity": "b"}}).accepted()
    return api.replace({**found, "spec": {**found["spec"], "holderIdentity": "c"}})


LEASE_ROWS: Rows = {
    "times have microseconds": (
        lambda api: api.create(held(renewTime=SEEN, acquireTime=SEEN, leaseTransitions=1))["spec"],
        {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "renewTime": SEEN,
            "acquireTime": SEEN,
            "leaseTransitions": 1,
        },
    ),
    "a time without microseconds": (
        lambda api: api.create(held(renewTime="2026-01-01T00:00:00Z")).code,
        400,
    ),
    "a time that is none": (lambda api: api.create(held(renewTime="soon")).code, 400),
    "no duration": (
        lambda api: api.create(held(leaseDurationSeconds=0)),
        invalid('Lease.coordination.k8s.io "turn"', wrong("spec.leaseDurationSeconds", "0", "must be greater than 0")),
    ),
    "the second to take it over is refused": (stolen, outdated('leases.coordination.k8s.io "turn"')),
    "released: an empty holder": (
        lambda api: (
            (found := api.create(held()).object)
            and api.replace({**found, "spec": {**found["spec"], "holderIdentity": ""}})["spec.holderIdentity"]
        ),
        "",
    ),
    "not there": (lambda api: api.get(LEASES, "turn"), not_found('leases.coordination.k8s.io "turn"')),
}


@rows(LEASE_ROWS)
def test_leases(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def ask(api: Api, **attributes: str) -> Answer:
    review = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    return api.request("POST", ACCESS_REVIEWS.path(), review)


def groups(api: Api, version: str) -> Any:
    """Kinds and verbs of a group version's resources."""
    found = api.request("GET", version)["resources"] or ()
    return {each["name"]: (each["kind"], each["namespaced"], sorted(each["verbs"])) for each in found}


EVERY_VERB = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
DISCOVERY: Rows = {
    "an administrator may everything": (
        lambda api: ask(api, verb="delete", resource="pods", namespace=api.namespace)["status.allowed"],
        True,
    ),
    "one can ask who one is": (
        lambda api: (
            "system:authenticated"
            in api.request(
                "POST",
                SELF_SUBJECT_REVIEWS.path(),
                {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind},
            )["status.userInfo.groups"]
        ),
        True,
    ),
    "the core API lists Pods and their subresources": (
        lambda api: {
            name: kind
            for name, (kind, *_) in groups(api, "/api/v1").items()
            if name in ("pods", "pods/status", "pods/binding", "namespaces")
        },
        {"pods": "Pod", "pods/status": "Pod", "pods/binding": "Binding", "namespaces": "Namespace"},
    ),
    "claims can do everything": (
        lambda api: groups(api, "/apis/resource.k8s.io/v1")["resourceclaims"],
        ("ResourceClaim", True, EVERY_VERB),
    ),
    "classes belong to no namespace": (
        lambda api: groups(api, "/apis/resource.k8s.io/v1")["deviceclasses"][:2],
        ("DeviceClass", False),
    ),
    "groups are listed": (
        lambda api: (
            {"coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io"}
            <= {each["name"] for each in api.request("GET", "/apis")["groups"]}
        ),
        True,
    ),
    "a group that is not served": (lambda api: api.request("GET", "/apis/contract.example.com/v9").code, 404),
    "a version of a group that is there, off by default": (
        lambda api: (
            api.request("GET", "/apis/scheduling.k8s.io/v1beta1/podgroups").code,
            api.request("GET", "/apis/resource.k8s.io/v1beta2/resourceclaims").code,
        ),
        (404, 404),
    ),
    "the version is one that Tollbar supports": (
        lambda api: api.request("GET", "/version")["minor"].rstrip("+") in ("34", "35", "36", "37"),
        True,
    ),
    "it says when it is ready": (lambda api: api.request("GET", "/readyz").object, "ok"),
}


@rows(DISCOVERY)
def test_discovery(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def columns(answer: Answer) -> list[str]:
    """Names of the columns that are shown without asking for more."""
    return [each["name"] for each in answer["columnDefinitions"] if each["priority"] == 0]


def cells(answer: Answer) -> list[Any]:
    """The cells of the first row under those columns, without the last, an age."""
    return list(answer["rows.0.cells"][: len(columns(answer)) - 1])


TABLES: Rows = {
    "a Pod": (
        lambda api: last(api.create(pod()), (shown := api.table(PODS, "web")) and (columns(shown), cells(shown))),
        (["Name", "Ready", "Status", "Restarts", "Age"], ["web", "0/1", "Pending", "0"]),
    ),
    "a gated Pod": (
        lambda api: last(api.create(pod("example.com/a")), cells(api.table(PODS, "web"))),
        ["web", "0/1", "SchedulingGated", "0"],
    ),
    "a Pod that waits for its end": (
        lambda api: last(
            api.create(pod()),
            api.bind(),
            api.delete(PODS, "web"),
            cells(api.table(PODS, "web")),
        ),
        ["web", "0/1", "Terminating", "0"],
    ),
    "a list has a row for every object": (
        lambda api: last(
            [api.create(pod(name=name)) for name in ("a", "b")],
            [each["object"]["metadata"]["name"] for each in api.table(PODS)["rows"]],
        ),
        ["a", "b"],
    ),
    "a Lease": (
        lambda api: last(api.create(lease()), (shown := api.table(LEASES, "turn")) and (columns(shown), cells(shown))),
        (["Name", "Holder", "Age"], ["turn", "1"]),
    ),
    "a claim": (
        lambda api: last(
            api.create(made(RESOURCE_CLAIMS, "gpu", spec={})),
            (shown := api.table(RESOURCE_CLAIMS, "gpu")) and (columns(shown), cells(shown)),
        ),
        (["Name", "State", "Age"], ["gpu", "pending"]),
    ),
    "an Event": (
        lambda api: last(noted(api), columns(api.table(EVENTS, "web.1"))),
        ["Last Seen", "Type", "Reason", "Object", "Message"],
    ),
}


@rows(TABLES)
def test_tables(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
