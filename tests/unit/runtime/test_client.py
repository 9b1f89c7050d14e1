"""The client against a scripted server: what goes over the wire, and what every kind of answer becomes."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from unit.runtime.answers import status

from tollbar.model import resources
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeading,
    ServerError,
    TooLong,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unwritable,
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
        ),
        ("PATCH", "/apis/tollbar.dev/v1alpha1/tolerationrules/r/status"),
        query={"fieldManager": "tollbar", "force": "true"},
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
    "410": ({"status": 410, "body": status(410, "Expired")}, Gone, {"reason": "Expired", "rest": ""}),
    "410 with another token": (
        {"status": 410, "body": status(410, "Expired", metadata={"continue": "rest"})},
        Gone,
        {"rest": "rest"},
    ),
    "422 without details means a stale view": (
        {"status": 422, "body": status(422, "Invalid", details={})},
        Invalid,
        {"refused": False, "causes": []},
    ),
    "422 with causes is permanent": (
        {"status": 422, "body": status(422, "Invalid", details=CAUSES)},
        Invalid,
        {"refused": True, "causes": [{"field": "spec", "message": "no"}]},
    ),
    "422 of a webhook is no stale view although it has no causes": (
        {"status": 422, "body": status(422, "Invalid", message=DENIAL)},
        Invalid,
        {"refused": True, "causes": []},
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


async def test_a_call_has_a_deadline(server: Any, connect: Any, leap: Callable[[float], None]) -> None:
    client = await connect()
    call = asyncio.create_task(client.raw("GET", resources.PODS.path("shop", "web"), timeout=30.0))
    await server.hanging.wait()
    leap(30)
    with pytest.raises(Unreachable, match="no answer in time"):
        await call


async def test_a_refused_connection_was_never_sent(server: Any, connect: Any) -> None:
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        client = await connect()
        with pytest.raises(Unreachable) as caught:
            await client.create(resources.PODS, POD)
    assert (caught.value.sent, caught.value.method) == (False, "POST")


WRITES: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "create": lambda client: client.create(resources.PODS, POD),
    "replace": lambda client: client.replace(resources.PODS, POD),
    "patch": lambda client: client.patch(resources.PODS, "web", [], namespace="shop"),
    "delete": lambda client: client.delete(resources.PODS, "web", "shop"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_fenced_write_is_sent_only_while_it_may_be(
    write: Callable[[Client], Awaitable[Any]], server: Any, connect: Any
) -> None:
    server.others += [{"body": POD}, {"body": POD}]
    answers = [True, False]
    client = (await connect()).fenced(lambda: answers.pop(0))
    await write(client)
    with pytest.raises(NotLeading):
        await write(client)
    await client.get(resources.PODS, "web", "shop")
    assert (len(server.requests), answers) == (2, [])


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_fenced_write_says_for_how_long_it_may_be_worked_on(
    write: Callable[[Client], Awaitable[Any]], server: Any, connect: Any
) -> None:
    server.others += [{"body": POD}] * 4
    for client in (await connect(), await connect(request_timeout=2.5)):
        await write(client.fenced(lambda: True))
    await client.get(resources.PODS, "web", "shop")
    await write(client)
    assert [request.query for request in server.requests] == [{"timeout": "15s"}, {"timeout": "2.5s"}, {}, {}]


async def test_a_fenced_write_asks_when_it_has_waited_for_its_turn(server: Any, connect: Any) -> None:
    moments: list[str] = []
    client = (await connect(qps=10, burst=1)).fenced(lambda: moments.append(f"{server.clock.time - 1000:.1f}") or True)
    server.others += [{"body": POD}, {"body": POD}]
    await client.create(resources.PODS, POD)
    await client.create(resources.PODS, POD)
    assert moments == ["0.0", "0.1"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_write_whose_connection_ends_is_not_sent_again(
    write: Callable[[Client], Awaitable[Any]], connect: Any
) -> None:
    """On a connection that has been used before, of which aiohttp would believe that it had rested for too long."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            await reader.readexactly(int(fields.get(b"content-length", b"0")))
            asked.append(head.split()[0].decode())
            if asked[-1] != "GET":
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = await connect(cluster={"server": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"})
    await client.get(resources.PODS, "web", "shop")
    with pytest.raises(Unreachable) as caught:
        await write(client)
    server.close()
    assert (len(asked), caught.value.sent) == (2, True)


async def test_a_proxy_of_the_kubeconfig_is_asked(server: Any, connect: Any) -> None:
    server.others.append({"body": POD})
    client = await connect(cluster={"server": "http://api.invalid/k8s", "proxy-url": server.url})
    answer = await client.get(resources.PODS, "web", "shop")
    (asked,) = server.requests
    assert (answer, asked.path, asked.headers["Host"]) == (POD, "/k8s/api/v1/namespaces/shop/pods/web", "api.invalid")


@pytest.mark.parametrize("by_proxy", [False, True], ids=["by connections of its own", "by a proxy"])
async def test_a_page_that_is_too_long_is_given_up_unless_it_is_of_one_object(
    server: Any, connect: Any, by_proxy: bool
) -> None:
    page = {"items": [POD], "metadata": {}}
    length = len(orjson.dumps(page))
    server.lists += [{"body": orjson.dumps(page)}] * 3
    through = {"server": "http://api.invalid", "proxy-url": server.url} if by_proxy else {"server": server.url}
    client = await connect(cluster=through)
    with pytest.raises(TooLong):
        await client.list(resources.PODS, limit=2, most=length - 1)
    assert await client.list(resources.PODS, limit=2, most=length) == page
    assert await client.list(resources.PODS, limit=1, most=length - 1) == page


async def test_a_429_pauses_every_call(server: Any, connect: Any, clock: Any) -> None:
    server.others += [{"status": 429, "body": b"", "headers": {"Retry-After": "7"}}, {"body": {}}, {"body": {}}]
    client = await connect()
    with pytest.raises(TooManyRequests):
        await client.get(resources.PODS, "web", "shop")
    await client.get(resources.PODS, "other", "shop")
    await client.get(resources.PODS, "third", "shop")
    assert clock.slept == [7.0]


PAUSES: dict[str, tuple[dict[str, str], list[float]]] = {
    "for no longer than a minute": ({"Retry-After": "86400"}, [60.0]),
    "not when only that call was too much": ({}, []),
}


@pytest.mark.parametrize(("headers", "want"), PAUSES.values(), ids=PAUSES)
async def test_how_long_a_429_pauses_others(
    server: Any, connect: Any, clock: Any, headers: dict[str, str], want: list[float]
) -> None:
    server.others += [{"status": 429, "body": b"", "headers": headers}, {"body": {}}]
    client = await connect()
    with pytest.raises(TooManyRequests):
        await client.get(resources.PODS, "web", "shop")
    await client.get(resources.PODS, "other", "shop")
    assert clock.slept == want


async def test_an_eviction_names_the_pod_by_its_uid_and_a_budget_pauses_no_other_call(
    server: Any, connect: Any, clock: Any
) -> None:
    budget = {"causes": [{"reason": "DisruptionBudget", "message": "still being processed by the server"}]}
    refusal = {"status": 429, "body": status(429, "TooManyRequests", details=budget), "headers": {"Retry-After": "10"}}
    server.others += [refusal, {"body": POD}]
    client = await connect()
    with pytest.raises(TooManyRequests) as raised:
        await client.evict({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}})
    await client.get(resources.PODS, "web", "shop")
    asked = server.requests[0]
    assert (raised.value.by_disruption_budget, clock.slept, asked.method, asked.path, asked.body) == (
        True,
        [],
        "POST",
        "/api/v1/namespaces/shop/pods/web/eviction",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "web", "namespace": "shop"},
            "deleteOptions": {"preconditions": {"uid": "u"}},
        },
    )


async def test_an_eviction_may_name_the_version_that_was_judged(server: Any, connect: Any) -> None:
    server.others.append({"body": POD})
    client = await connect()
    await client.evict({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}}, resource_version="7")
    assert server.requests[0].body["deleteOptions"] == {"preconditions": {"uid": "u", "resourceVersion": "7"}}


@pytest.mark.parametrize(("body", "why"), [(b"<html>sign in</html>", "not JSON"), (b"[]", "not a JSON object")])
async def test_an_answer_that_is_no_object_is_no_answer_of_the_api_server(
    body: bytes, why: str, server: Any, connect: Any
) -> None:
    server.others.append({"body": body})
    client = await connect()
    with pytest.raises(Unreachable, match=why) as raised:
        await client.create(resources.PODS, POD)
    assert (raised.value.method, raised.value.sent) == ("POST", True)


async def test_what_is_nested_too_deeply_to_be_written_is_refused_and_not_sent(server: Any, connect: Any) -> None:
    obj: Any = {**POD, "spec": orjson.loads(b'{"a":' * 300 + b"1" + b"}" * 300)}
    client = await connect()
    for call in (
        client.create(resources.PODS, obj),
        client.replace(resources.PODS, obj),
        client.patch(resources.PODS, "web", obj, namespace="shop"),
    ):
        with pytest.raises(Unwritable, match="not sent") as raised:
            await call
        assert raised.value.refused
    assert server.requests == []


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
