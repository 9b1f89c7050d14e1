"""The fault proxy before a tiny server: what arrives on either side, for each fault, and that faults are counted."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from faultproxy import (
    Cut,
    Delay,
    Expire,
    FaultProxy,
    Hang,
    Refuse,
    Replay,
    Request,
    Reset,
    Rule,
    Slow,
    Truncate,
    too_many,
)
from faultproxy.request import parse

from tollbar.model.resources import PODS
from tollbar.runtime import certs
from tollbar.runtime.client import CALL_TIMEOUT, INACTIVITY, Client
from tollbar.runtime.errors import ApiError, Unreachable
from tollbar.runtime.metrics import Metrics

EVENTS = tuple({"type": "ADDED", "object": {"metadata": {"name": f"p{n}"}}} for n in range(3))


class TinyServer:
    """Counts what it does; answers reads with the count, a watch with three events and silence."""

    def __init__(self) -> None:
        self.writes = 0
        self.reads = 0
        self.who: list[str] = []
        self.asked: dict[str, str] = {}
        self.quiet = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        names = dict(pair for part in (peer or {}).get("subject", ()) for pair in part)
        self.who.append(names.get("commonName") or request.headers.get("Authorization", ""))
        if request.query.get("watch"):
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for event in EVENTS:
                await response.write(json.dumps(event).encode() + b"\n")
            await self.quiet.wait()
            return response
        if request.method != "GET":
            self.writes += 1
            return web.json_response(await request.json(), headers={"Audit-Id": "1"})
        self.reads += 1
        self.asked = dict(request.query)
        return web.json_response({"metadata": {"resourceVersion": str(self.reads)}, "items": []})


def tls(directory: Path, authority: trustme.CA) -> ssl.SSLContext:
    """With a certificate from files in the directory, for clients that the authority knows, and others."""
    certs.ensure(directory, ["127.0.0.1"], time.time())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(directory / certs.TLS_CERT, directory / certs.TLS_KEY)
    return context


def kubeconfig(path: Path, server: str, authority: Path, user: dict[str, Any]) -> Path:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode()}
    content = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "b", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "a", "user": "b"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tiny() -> TinyServer:
    return TinyServer()


@pytest.fixture
async def url(tiny: TinyServer, tmp_path: Path, authority: trustme.CA) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", tiny.handle)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=await asyncio.to_thread(tls, tmp_path / "server", authority))
    yield str(server.make_url("")).rstrip("/")
    tiny.quiet.set()
    await server.close()


@pytest.fixture
async def proxy(url: str, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    original = kubeconfig(tmp_path / "original", url, tmp_path / "server" / certs.CA_CERT, {"token": "secret"})
    with FaultProxy(original, tmp_path / "proxy") as running:
        yield running


async def connect(path: Path) -> Client:
    return await Client.connect(kubeconfig=str(path), metrics=Metrics(), user_agent="test")


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    connected = await connect(proxy.kubeconfig())
    yield connected
    await connected.close()


async def outcome(client: Client, *, write: bool = True) -> Any:
    """Of one call: the answer, or what the client raised (status, Retry-After)."""
    try:
        if write:
            return await client.create(PODS, {"metadata": {"name": "p", "namespace": "n"}})
        return (await client.list(PODS))["metadata"]["resourceVersion"]
    except ApiError as error:
        return error.status, error.retry_after


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - of what the proxy does on its own thread nothing tells
        await asyncio.sleep(0.01)


POD = {"metadata": {"name": "p", "namespace": "n"}}
CALLS: dict[str, tuple[Any, list[Any], int]] = {
    # fault of the second of three creations; what the client met; how many of them the server did
    "RST before the server hears of it": (Reset(), [POD, (0, None), POD], 2),
    "an answer lost to an RST": (Reset(after=True), [POD, (0, None), POD], 3),
    "EOF within the body": (Truncate(), [POD, (0, None), POD], 3),
    "a conflict that was none": (Refuse(409, "Conflict"), [POD, (409, None), POD], 2),
    "500": (Refuse(500, "InternalError"), [POD, (500, None), POD], 2),
    "503 after the work was done": (Refuse(503, "ServiceUnavailable", after=True), [POD, (503, None), POD], 3),
    "429 with Retry-After": (Refuse(429, "TooManyRequests", retry_after=7), [POD, (429, 7.0), POD], 2),
    "no answer": (Hang(), [POD, (0, None), POD], 2),
    "no answer though the work was done": (Hang(after=True), [POD, (0, None), POD], 3),
    "slow": (Slow(0.05), [POD, POD, POD], 3),
    "a watch's fault is not for other requests": (Cut(1), [POD, POD, POD], 3),
}


@pytest.mark.parametrize("case", CALLS)
async def test_a_fault_of_one_call(
    case: str, proxy: FaultProxy, url: str, tiny: TinyServer, leap: Callable[[float], None]
) -> None:
    fault, want, done = CALLS[case]
    met = []

    async def patience_ends() -> None:
        await until(lambda: proxy.hits["it"] == 1 and tiny.writes == done - 1)
        leap(CALL_TIMEOUT)

    with proxy.faults(Rule("it", fault, verbs={"create"}, resources={"pods"}, nth={2})):
        ending = asyncio.create_task(patience_ends()) if isinstance(fault, Hang) else None
        for _ in range(3):
            fresh = await connect(proxy.kubeconfig())  # one that has met 429 waits
            met.append(await outcome(fresh))
            await fresh.close()
    if ending is not None:
        await ending
    assert (met, tiny.writes, proxy.hits["it"]) == (want, done, 0 if isinstance(fault, Cut) else 1)


async def test_answers_pass_unchanged_and_under_the_identity_of_the_token(
    client: Client, proxy: FaultProxy, tiny: TinyServer
) -> None:
    assert await outcome(client) == POD
    assert await outcome(client, write=False) == "1"
    assert tiny.who == ["Bearer secret"] * 2
    assert proxy.requests == {("create", "pods"): 1, ("list", "pods"): 1}


async def test_pages_are_as_short_as_the_test_wants(client: Client, proxy: FaultProxy, tiny: TinyServer) -> None:
    proxy.page_size = "7"
    await client.list(PODS, label_selector="a in (b,c)", limit=500)
    assert tiny.asked == {"limit": "7", "labelSelector": "a in (b,c)"}


async def test_a_client_certificate_is_presented_to_the_server(
    proxy: FaultProxy, url: str, tiny: TinyServer, tmp_path: Path, authority: trustme.CA
) -> None:
    pair = authority.issue_cert("jane.example", common_name="jane")
    pair.cert_chain_pems[0].write_to_path(tmp_path / "jane.crt")
    pair.private_key_pem.write_to_path(tmp_path / "jane.key")
    files = {"client-certificate": str(tmp_path / "jane.crt"), "client-key": str(tmp_path / "jane.key")}
    of_jane = kubeconfig(tmp_path / "mine", url, tmp_path / "server" / certs.CA_CERT, files)
    through = await connect(proxy.kubeconfig(of_jane))
    await outcome(through, write=False)
    await through.close()
    assert tiny.who == ["jane"]


async def test_a_read_is_answered_as_it_was_at_first(client: Client, proxy: FaultProxy, tiny: TinyServer) -> None:
    with proxy.faults(Rule("stale", Replay(), verbs={"list"}, nth={3})):
        met = [await outcome(client, write=False) for _ in range(4)]
    assert (met, tiny.reads, proxy.hits["stale"]) == (["1", "2", "1", "3"], 3, 1)


async def test_chance_is_seeded(proxy: FaultProxy, client: Client) -> None:
    with proxy.faults(Rule("sometimes", Refuse(500), verbs={"create"}, probability=0.5)):
        met = [(await outcome(client)) == POD for _ in range(20)]
    assert (met.count(False), proxy.hits["sometimes"]) == (7, 7)


async def follow(client: Client, met: list[Any], inactivity: float = INACTIVITY) -> None:
    """Take note of the names of a watch's events, and of how it ended."""
    try:
        watch = client.watch(PODS, resource_version="1", timeout_seconds=60, inactivity=inactivity)
        async with aclosing(watch) as coming:
            async for event in coming:
                met += [event.object["metadata"]["name"]]  # at once: the watch may raise
        met.append("EOF")
    except ApiError as error:
        met.append(error.status)


WATCHES: dict[str, tuple[Any, list[Any]]] = {
    "undisturbed, it is silent in the end": (None, ["p0", "p1", "p2", 0]),
    "ended well after two events": (Cut(2), ["p0", "p1", "EOF"]),
    "cut within the second event": (Cut(1, within=True), ["p0", 0]),
    "reset after one event": (Cut(1, reset=True), ["p0", 0]),
    "expired at once": (Expire(), [410]),
    "expired after two events": (Expire(2), ["p0", "p1", 410]),
    "later": (Delay(0.05), ["p0", "p1", "p2", 0]),
}


@pytest.mark.parametrize("case", WATCHES)
async def test_a_fault_of_a_watch(case: str, client: Client, proxy: FaultProxy, leap: Callable[[float], None]) -> None:
    fault, want = WATCHES[case]
    met: list[Any] = []
    with proxy.faults(*([Rule("it", fault, verbs={"watch"})] if fault else [])):
        following = asyncio.create_task(follow(client, met))
        if fault is None or isinstance(fault, Delay):
            await until(lambda: met == want[:-1])
            leap(INACTIVITY)
        await following
    assert (met, proxy.hits["it"]) == (want, fault is not None)


async def test_watches_are_cut_on_demand(client: Client, proxy: FaultProxy) -> None:
    async with aclosing(client.watch(PODS, resource_version="1", timeout_seconds=60)) as coming:
        for _ in EVENTS:
            await anext(coming)
        proxy.cut_watches()
        with pytest.raises(Unreachable):
            await anext(coming)


async def test_a_delayed_watch_is_delayed(client: Client, proxy: FaultProxy) -> None:
    met: list[Any] = []
    with proxy.faults(Rule("it", Delay(30), verbs={"watch"})):
        await follow(client, met, inactivity=0.5)
    assert met == [0]


async def test_a_server_that_is_away_resets_connections(client: Client, proxy: FaultProxy, tiny: TinyServer) -> None:
    proxy._original["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    assert await outcome(client) == (0, None)


REQUESTS = {
    "a list of all namespaces": ("GET", "/api/v1/pods?limit=500", ("list", "", "pods", "", "", "")),
    "a watch": ("GET", "/api/v1/namespaces/n/pods?watch=1", ("watch", "", "pods", "", "n", "")),
    "a status patch": (
        "PATCH",
        "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c/status",
        ("patch", "resource.k8s.io", "resourceclaims", "status", "n", "c"),
    ),
    "the deletion of a collection": (
        "DELETE",
        "/api/v1/namespaces/n/pods",
        ("deletecollection", "", "pods", "", "n", ""),
    ),
    "a namespace": ("GET", "/api/v1/namespaces/n", ("get", "", "namespaces", "", "", "n")),
    "the status of a namespace": (
        "PUT",
        "/api/v1/namespaces/n/status",
        ("update", "", "namespaces", "status", "", "n"),
    ),
    "discovery": ("GET", "/apis/resource.k8s.io/v1", ("", "", "", "", "", "")),
    "a name with a percent sign": ("DELETE", "/api/v1/nodes/a%25b", ("delete", "", "nodes", "", "", "a%b")),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_in_the_words_of_rbac(case: str) -> None:
    method, target, want = REQUESTS[case]
    found = parse(method, target)
    assert (found.verb, found.group, found.resource, found.subresource, found.namespace, found.name) == want


def test_a_continuation_and_429_can_be_told_by_the_test() -> None:
    rule = Rule("page two", too_many(3), verbs={"list"}, where=lambda request: request.is_continuation)
    first, second = (parse("GET", f"/api/v1/pods{query}") for query in ("?limit=5", "?limit=5&continue=x"))
    assert [rule.concerns(each) for each in (first, second, Request("GET", "/"))] == [False, True, False]
    assert rule.fault == Refuse(429, "TooManyRequests", "too many requests, please try again later", 3)
