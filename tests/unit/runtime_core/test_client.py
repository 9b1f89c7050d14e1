"""The client against a scripted server: what goes over the wire, and what every kind of answer becomes."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tollbar.runtime import resources
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeconfigError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tollbar.runtime.metrics import Metrics

POD = {"metadata": {"name": "web", "namespace": "shop"}}


@dataclass
class Sent:
    """A call of the client, and the request that it should make."""

    call: Callable[[Client], Awaitable[Any]]
    want: tuple[str, str]
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str | None = None


REQUESTS = {
    "get names the object": Sent(
        lambda client: client.get(resources.PODS, "web", "shop"), ("GET", "/api/v1/namespaces/shop/pods/web")
    ),
    "list pages with selectors": Sent(
        lambda client: client.list(
            resources.PODS, label_selector="a in (b,c)", field_selector="spec.nodeName=", continue_="x=/&"
        ),
        ("GET", "/api/v1/pods"),
        query={
            "limit": "500",
            "continue": "x=/&",
            "labelSelector": "a in (b,c)",
            "fieldSelector": "spec.nodeName=",
        },
    ),
    "create takes the namespace of the object": Sent(
        lambda client: client.create(resources.PODS, POD),
        ("POST", "/api/v1/namespaces/shop/pods"),
        body=POD,
        content_type="application/json",
    ),
    "replace of the status": Sent(
        lambda client: client.replace(resources.TOLERATION_RULES, {"metadata": {"name": "r"}}, "status"),
        ("PUT", "/apis/tollbar.dev/v1alpha1/tolerationrules/r/status"),
        body={"metadata": {"name": "r"}},
        content_type="application/json",
    ),
    "a patch is a JSON patch by default": Sent(
        lambda client: client.patch(
            resources.PODS, "web", [{"op": "test", "path": "/a", "value": 1}], namespace="shop"
        ),
        ("PATCH", "/api/v1/namespaces/shop/pods/web"),
        body=[{"op": "test", "path": "/a", "value": 1}],
        content_type="application/json-patch+json",
    ),
    "a merge patch is not taken for a strategic one": Sent(
        lambda client: client.patch(
            resources.PODS, "web", {"metadata": {}}, namespace="shop", patch_type=PatchType.MERGE
        ),
        ("PATCH", "/api/v1/namespaces/shop/pods/web"),
        body={"metadata": {}},
        content_type="application/merge-patch+json",
    ),
    "apply names its manager and can force": Sent(
        lambda client: client.patch(
            resources.TOLERATION_RULES,
            "r",
            {"metadata": {"name": "r"}},
            patch_type=PatchType.APPLY,
            subresource="status",
            field_manager="tollbar",
            force=True,
            field_validation="Strict",
        ),
        ("PATCH", "/apis/tollbar.dev/v1alpha1/tolerationrules/r/status"),
        query={"fieldManager": "tollbar", "force": "true", "fieldValidation": "Strict"},
        body={"metadata": {"name": "r"}},
        content_type="application/apply-patch+yaml",
    ),
    "delete carries its precondition and grace": Sent(
        lambda client: client.delete(resources.PODS, "web", "shop", uid="u1", grace_period_seconds=0),
        ("DELETE", "/api/v1/namespaces/shop/pods/web"),
        body={
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1"},
            "gracePeriodSeconds": 0,
        },
        content_type="application/json",
    ),
    "a name cannot leave its path": Sent(
        lambda client: client.get(resources.PODS, "../secrets/x", "shop"),
        ("GET", "/api/v1/namespaces/shop/pods/../secrets/x"),
    ),
}


@pytest.mark.parametrize("case", REQUESTS.values(), ids=REQUESTS.keys())
async def test_request(case: Sent, server: Any, connect: Any) -> None:
    server.lists.append({"body": {}})
    server.others.append({"body": {}})
    client = await connect({"token": "secret"})
    await case.call(client)
    made = server.requests[0]
    assert (
        (made.method, made.path),
        made.query,
        made.body,
        made.headers.get("Content-Type"),
        made.headers["Authorization"],
        made.headers["User-Agent"],
    ) == (case.want, case.query, case.body, case.content_type, "Bearer secret", "tollbar-test/1")


def status(code: int, reason: str = "", **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "m", **more}).encode()


DENIAL = 'admission webhook "policy.example.com" denied the request: no'
CAUSES = {"name": "web", "causes": [{"field": "spec", "message": "no"}]}
REFUSALS: dict[str, tuple[dict[str, Any], type[ApiError], dict[str, Any]]] = {
    "400 is a plain error": (
        {"status": 400, "body": status(400, "BadRequest")},
        ApiError,
        {"reason": "BadRequest", "refused": False},
    ),
    "400 of a webhook that names no code is a refusal": (
        {"status": 400, "body": status(400, message=DENIAL)},
        ApiError,
        {"refused": True},
    ),
    "401": ({"status": 401, "body": status(401, "Unauthorized")}, Unauthorized, {"refused": False}),
    "403": ({"status": 403, "body": status(403, "Forbidden")}, Forbidden, {"refused": True}),
    "404": ({"status": 404, "body": status(404, "NotFound")}, NotFound, {"message": "m", "refused": False}),
    "404 of no API is plain text": (
        {"status": 404, "body": b"404 page not found\n"},
        NotFound,
        {"message": "404 page not found"},
    ),
    "409 of an old version": ({"status": 409, "body": status(409, "Conflict")}, Conflict, {}),
    "409 of a taken name": ({"status": 409, "body": status(409, "AlreadyExists")}, AlreadyExists, {}),
    "410": ({"status": 410, "body": status(410, "Expired")}, Gone, {"reason": "Expired"}),
    "422 without details means a stale view": (
        {"status": 422, "body": status(422, "Invalid", details={})},
        Invalid,
        {"stale": True, "causes": []},
    ),
    "422 with causes is permanent": (
        {"status": 422, "body": status(422, "Invalid", details=CAUSES)},
        Invalid,
        {"stale": False, "refused": True, "causes": [{"field": "spec", "message": "no"}]},
    ),
    "422 of a webhook is no stale view although it has no causes": (
        {"status": 422, "body": status(422, "Invalid", message=DENIAL)},
        Invalid,
        {"stale": False, "refused": True, "causes": []},
    ),
    "429 without a time means a second": (
        {"status": 429, "body": status(429, "TooManyRequests")},
        TooManyRequests,
        {"retry_after": 1.0},
    ),
    "429 with a time": (
        {"status": 429, "body": b"busy", "headers": {"Retry-After": "7"}},
        TooManyRequests,
        {"retry_after": 7.0, "message": "busy"},
    ),
    "500": ({"status": 500, "body": status(500, "InternalError")}, ServerError, {"retry_after": None}),
    "504 of a version of the future": (
        {"status": 504, "body": status(504, "Timeout"), "headers": {"Retry-After": "1"}},
        ServerError,
        {"retry_after": 1.0},
    ),
    "a redirect is not followed": (
        {"status": 302, "body": b"", "headers": {"Location": "/elsewhere"}},
        ApiError,
        {"status": 302},
    ),
    "a connection that breaks": ({"chunks": (b"{",), "then": "cut"}, Unreachable, {"sent": True}),
}


@pytest.mark.parametrize(("given", "error", "want"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_refusal(
    given: dict[str, Any], error: type[ApiError], want: dict[str, Any], server: Any, connect: Any
) -> None:
    server.others.append(given)
    client = await connect()
    with pytest.raises(ApiError) as caught:
        await client.get(resources.PODS, "web", "shop")
    seen = {name: getattr(caught.value, name) for name in want}
    assert (type(caught.value), caught.value.method, seen) == (error, "GET", want)


async def test_a_call_has_a_deadline(server: Any, connect: Any) -> None:
    client = await connect()
    with pytest.raises(Unreachable, match="no answer in time"):
        await client.get(resources.PODS, "web", "shop", timeout=0.02)


async def test_a_refused_connection_was_never_sent(server: Any, connect: Any, unused_tcp_port: int) -> None:
    server.url = f"http://127.0.0.1:{unused_tcp_port}"
    client = await connect()
    with pytest.raises(Unreachable) as caught:
        await client.create(resources.PODS, POD)
    assert (caught.value.sent, caught.value.method) == (False, "POST")


async def test_a_proxy_of_the_kubeconfig_is_asked(server: Any, connect: Any) -> None:
    server.others.append({"body": POD})
    client = await connect(cluster={"server": "http://api.invalid/k8s", "proxy-url": server.url})
    answer = await client.get(resources.PODS, "web", "shop")
    (asked,) = server.requests
    assert (answer, asked.path, asked.headers["Host"]) == (POD, "/k8s/api/v1/namespaces/shop/pods/web", "api.invalid")


async def test_a_429_pauses_every_call(server: Any, connect: Any, clock: Any) -> None:
    server.others += [{"status": 429, "body": b"", "headers": {"Retry-After": "7"}}, {"body": {}}, {"body": {}}]
    client = await connect()
    with pytest.raises(TooManyRequests):
        await client.get(resources.PODS, "web", "shop")
    await client.get(resources.PODS, "other", "shop")
    await client.get(resources.PODS, "third", "shop")
    assert clock.slept == [7.0]


async def test_calls_in_flight_are_bounded_but_watches_are_not(server: Any, connect: Any) -> None:
    client = await connect(in_flight=2)
    server.others += [{"then": "hang", "body": {}} for _ in range(6)]
    server.watches.append({"chunks": (line("ADDED", "a", "1"),), "then": "hang"})
    calls = [asyncio.create_task(client.get(resources.PODS, str(number), "shop")) for number in range(6)]
    while server.in_flight < 2:
        server.arrived.clear()
        await server.arrived.wait()
    async with aclosing(client.watch(resources.PODS, resource_version="1", timeout_seconds=300)) as events:
        first = await anext(events)
    server.release.set()
    await asyncio.gather(*calls)
    assert (first.type, server.most_in_flight) == ("ADDED", 3)


async def test_a_qps_spreads_calls_after_the_burst(server: Any, connect: Any, clock: Any) -> None:
    client = await connect(qps=10, burst=2)
    server.others += [{"body": {}} for _ in range(5)]
    for _ in range(5):
        await client.get(resources.PODS, "web", "shop")
    assert clock.slept == [0.1, 0.1, 0.1]


async def test_every_answer_is_counted(server: Any, connect: Any, metrics: Metrics) -> None:
    server.others += [{"body": {}}, {"status": 404, "body": b""}, {"chunks": (), "then": "cut", "headers": {}}]
    client = await connect()
    await client.get(resources.PODS, "web", "shop")
    for _ in range(2):
        with pytest.raises(ApiError):
            await client.get(resources.PODS, "web", "shop")
    host = server.url.removeprefix("http://")
    counted = {
        sample.labels["code"]: sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "rest_client_requests_total" and sample.labels["host"] == host
    }
    assert counted == {"200": 1.0, "404": 1.0, "<error>": 1.0}


async def test_discovery(server: Any, connect: Any) -> None:
    listed = {"resources": [{"name": "pods"}, {"name": "pods/status"}, {"name": "nodes"}]}
    server.discovery += [{"body": listed}, {"status": 404, "body": b""}]
    client = await connect()
    got = [await client.served("v1"), await client.served("tollbar.dev/v1alpha1")]
    assert (got, [request.path for request in server.requests]) == (
        [{"pods", "nodes"}, set()],
        ["/api/v1", "/apis/tollbar.dev/v1alpha1"],
    )


def line(kind: str, name: str, version: str, pad: int = 0) -> bytes:
    meta = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version}
    event = {"type": kind, "object": {"metadata": meta, **({"pad": "x" * pad} if pad else {})}}
    return json.dumps(event).encode() + b"\n"


WATCHES: dict[str, tuple[dict[str, Any], list[str], type[ApiError] | None]] = {
    "events come in order, bookmarks too": (
        {"chunks": (line("ADDED", "a", "1") + line("MODIFIED", "a", "2"), line("BOOKMARK", "", "3"))},
        ["ADDED 1", "MODIFIED 2", "BOOKMARK 3"],
        None,
    ),
    "an event may be spread over chunks": (
        {"chunks": (line("ADDED", "a", "1")[:9], line("ADDED", "a", "1")[9:30], line("ADDED", "a", "1")[30:])},
        ["ADDED 1"],
        None,
    ),
    "an event may be larger than any buffer": (
        {"chunks": (line("ADDED", "a", "1", 6_000_000), line("DELETED", "a", "2"))},
        ["ADDED 1", "DELETED 2"],
        None,
    ),
    "410 in the stream": (
        {
            "chunks": (
                line("ADDED", "a", "1"),
                b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n',
            )
        },
        ["ADDED 1"],
        Gone,
    ),
    "500 in the stream": (
        {"chunks": (b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n',)},
        [],
        ServerError,
    ),
    "410 as an answer": ({"status": 410, "body": status(410, "Expired")}, [], Gone),
    "403": ({"status": 403, "body": status(403, "Forbidden")}, [], Forbidden),
    "a stream that is cut": ({"chunks": (line("ADDED", "a", "1"),), "then": "cut"}, ["ADDED 1"], Unreachable),
    "a stream that ends within an event": (
        {"chunks": (line("ADDED", "a", "1") + line("ADDED", "b", "2")[:20],)},
        ["ADDED 1"],
        Unreachable,
    ),
    "a stream that falls silent": (
        {"chunks": (line("ADDED", "a", "1"),), "then": "hang"},
        ["ADDED 1"],
        Unreachable,
    ),
    "a server that never answers": ({"body": b"", "then": "hang"}, [], Unreachable),
}


@pytest.mark.parametrize(("given", "want", "error"), WATCHES.values(), ids=WATCHES.keys())
async def test_watch(
    given: dict[str, Any], want: list[str], error: type[ApiError] | None, server: Any, connect: Any
) -> None:
    server.watches.append(given)
    client = await connect()
    seen: list[str] = []
    raised: type[Exception] | None = None
    # Short only where silence is the case: the others would be at the mercy of a busy machine.
    patience = 0.1 if given.get("then") == "hang" else 30.0
    try:
        async for event in client.watch(resources.PODS, resource_version="7", timeout_seconds=300, inactivity=patience):
            seen += [f"{event.type} {event.object['metadata']['resourceVersion']}"]
    except ApiError as caught:
        raised = type(caught)
    query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "300"}
    assert (seen, raised, server.requests[0].query) == (want, error, query)


EXEC_ANSWER = json.dumps(
    {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-exec"},
    }
)
USERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a token": ({"token": "t"}, "Bearer t"),
    "a token file": ({"tokenFile": "token"}, "Bearer from-file"),
    "a password": ({"username": "u", "password": "p"}, "Basic dTpw"),
    "an exec plugin": (
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": ["-c", f"print({EXEC_ANSWER!r})"],
            }
        },
        "Bearer from-exec",
    ),
    "nobody": ({}, None),
}


@pytest.mark.parametrize(("user", "want"), USERS.values(), ids=USERS.keys())
async def test_credentials(user: dict[str, Any], want: str | None, server: Any, connect: Any, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "token").write_text, "from-file")
    server.others.append({"body": {}})
    client = await connect(user)
    await client.get(resources.PODS, "web", "shop")
    assert server.requests[0].headers.get("Authorization") == want


async def test_a_token_file_is_read_again_after_a_minute(server: Any, connect: Any, clock: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    server.others += [{"body": {}} for _ in range(3)]
    client = await connect({"tokenFile": "token"})
    await client.get(resources.PODS, "web", "shop")
    await asyncio.to_thread(token.write_text, "two")
    await client.get(resources.PODS, "web", "shop")
    clock.time += 60
    await client.get(resources.PODS, "web", "shop")
    used = [request.headers["Authorization"] for request in server.requests]
    assert used == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_refused_token_is_read_again_soon(server: Any, connect: Any, clock: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    server.others += [{"status": 401, "body": b""}, {"body": {}}]
    client = await connect({"tokenFile": "token"})
    with pytest.raises(Unauthorized):
        await client.get(resources.PODS, "web", "shop")
    await asyncio.to_thread(token.write_text, "two")
    clock.time += 5
    await client.get(resources.PODS, "web", "shop")
    assert server.requests[1].headers["Authorization"] == "Bearer two"


async def test_credentials_that_cannot_be_read_again_stay_in_use(
    server: Any, connect: Any, clock: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    server.others.append({"body": {}})
    client = await connect({"tokenFile": "token"})
    await asyncio.to_thread(token.unlink)
    clock.time += 60
    await client.get(resources.PODS, "web", "shop")
    assert (server.requests[0].headers["Authorization"], [record.message for record in caplog.records]) == (
        "Bearer one",
        ["cannot read the credentials again"],
    )


BROKEN: dict[str, tuple[str | None, str]] = {
    "no file": (None, "no kubeconfig at"),
    "an empty file": ("", "cannot use the credentials"),
    "no YAML": ("{", "cannot use the credentials"),
    "no such context": (
        '{"contexts": [], "clusters": [], "users": [], "current-context": "x"}',
        "Expected object with",
    ),
}


@pytest.mark.parametrize(("text", "want"), BROKEN.values(), ids=BROKEN.keys())
async def test_an_unusable_kubeconfig_is_named(text: str | None, want: str, tmp_path: Path, metrics: Metrics) -> None:
    path = tmp_path / "config"
    if text is not None:
        await asyncio.to_thread(path.write_text, text)
    with pytest.raises(KubeconfigError, match=want):
        await Client.connect(kubeconfig=str(path), metrics=metrics, user_agent="t")
