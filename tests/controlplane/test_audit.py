"""Reading the API server's audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from tollbar.devplane.audit import AuditLog, Record, parse

EVENT = {
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/a/pods/p/status?fieldManager=x",
    "verb": "patch",
    "user": {
        "username": "system:serviceaccount:a:b",
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
    },
    "userAgent": "tollbar/0.1",
    "objectRef": {"resource": "pods", "namespace": "a", "name": "p", "apiVersion": "v1", "subresource": "status"},
    "responseStatus": {"code": 200},
    "requestObject": [{"op": "remove", "path": "/x"}],
    "stageTimestamp": "2026-01-01T00:00:00.000001Z",
}


def event(**changes: Any) -> dict[str, Any]:
    return {**EVENT, **changes}


def reference(**parts: str) -> dict[str, Any]:
    return event(objectRef=parts, requestURI="/")


def test_a_record_has_what_the_event_says() -> None:
    assert parse(EVENT) == Record(
        stage="ResponseComplete",
        verb="patch",
        group="",
        resource="pods",
        subresource="status",
        namespace="a",
        name="p",
        user="system:serviceaccount:a:b",
        user_agent="tollbar/0.1",
        code=200,
        at="2026-01-01T00:00:00.000001Z",
        uri="/api/v1/namespaces/a/pods/p/status?fieldManager=x",
        request=[{"op": "remove", "path": "/x"}],
        credential="JTI=1",
    )


WRITES = {
    "a patch writes": (EVENT, True),
    "a list does not": (event(verb="list"), False),
    "a dry run does not": (event(requestURI="/api/v1/namespaces/a/pods?dryRun=All"), False),
    "an access review does not": (
        reference(apiGroup="authorization.k8s.io", resource="subjectaccessreviews"),
        False,
    ),
    "a token request does not": (reference(resource="serviceaccounts", subresource="token"), False),
    "a binding does": (reference(resource="pods", subresource="binding"), True),
}


@pytest.mark.parametrize(("given", "want"), WRITES.values(), ids=WRITES)
def test_is_write(given: dict[str, Any], want: bool) -> None:
    assert parse(given).is_write is want


def test_an_impersonated_user_is_the_user() -> None:
    assert parse(event(impersonatedUser={"username": "alice"})).user == "alice"


def write(path: Path, *events: dict[str, Any], tail: str = "") -> None:
    with path.open("a") as log:
        log.write("".join(json.dumps(each) + "\n" for each in events) + tail)


def test_reading_since_a_position_leaves_out_what_was_before_and_what_is_half_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert (log.position(), list(log.records())) == (0, [])
    write(log.path, event(verb="create"))
    since = log.position()
    write(log.path, event(verb="update"), tail='{"verb":')

    assert [record.verb for record in log.records(since)] == ["update"]


@pytest.mark.parametrize("size", [0, 100_000])
def test_a_line_that_is_half_written_at_a_position_is_read_whole_after_it(tmp_path: Path, size: int) -> None:
    log = AuditLog(tmp_path / "audit.log")
    line = json.dumps(event(verb="create", requestObject="x" * size))
    write(log.path, event(), tail=line[:-1])
    since = log.position()
    write(log.path, tail=line[-1:] + "\n")

    assert [record.verb for record in log.records(since)] == ["create"]


FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no filter": ({}, ["p", "q", "r"]),
    "by user": ({"user": "alice"}, ["q"]),
    "by the start of the user agent": ({"user_agent": "tollbar/"}, ["p", "q"]),
    "by resource": ({"resource": "nodes"}, ["r"]),
    "by namespace": ({"namespace": "a"}, ["p"]),
}


@pytest.mark.parametrize(("given", "want"), FILTERS.values(), ids=FILTERS)
def test_writes(given: dict[str, Any], want: list[str], tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    write(
        log.path,
        EVENT,
        event(verb="get"),
        event(stage="ResponseStarted"),
        event(user={"username": "alice"}, objectRef={"resource": "pods", "namespace": "b", "name": "q"}),
        event(userAgent="kubectl", objectRef={"resource": "nodes", "name": "r"}),
    )

    assert [record.name for record in log.writes(**given)] == want
