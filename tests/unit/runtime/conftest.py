"""A scripted API server, and a clock that waits for nobody."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fakes.clocks import InstantClock, LoopClock

from tollbar.runtime.client import Client
from tollbar.runtime.metrics import Metrics


class UpperRandom(Random):
    """Always the upper bound of what was asked for."""

    def uniform(self, _a: float, b: float) -> float:
        return b

    def randint(self, _a: int, b: int) -> int:
        return b


@dataclass
class Answer:
    """One scripted HTTP answer.  `chunks` are sent one by one; afterwards the stream ends, hangs or is cut."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] | None = None
    then: str = "end"
    takes: float = 0.0
    """Seconds on the instant clock until the stream ends."""


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class ScriptedServer:
    """Answers lists, watches, discovery and the rest each from their own queue; what runs dry hangs.

    The queues hold the keyword arguments of `Answer`, so that a test's tables are plain data.
    """

    def __init__(self, clock: InstantClock) -> None:
        self.clock = clock
        self.lists: list[dict[str, Any]] = []
        self.watches: list[dict[str, Any]] = []
        self.discovery: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.arrived = asyncio.Event()
        self.hanging = asyncio.Event()
        self.release = asyncio.Event()
        """Hanging answers end when it is set."""
        self.url = ""

    def _queue(self, request: web.Request) -> list[dict[str, Any]]:
        if request.query.get("watch"):
            return self.watches
        if "limit" in request.query:
            return self.lists
        return self.discovery if request.path.count("/") <= 3 and request.method == "GET" else self.others

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.requests.append(
            Request(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(text) if text else None,
            )
        )
        self.arrived.set()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            queue = self._queue(request)
            return await self._answer(request, Answer(**queue.pop(0)) if queue else Answer(then="hang", chunks=()))
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        if answer.chunks is None:
            if answer.then == "hang":
                await self._hang()
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            return web.Response(status=answer.status, body=body, headers=answer.headers)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in answer.chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        self.clock.time += answer.takes
        if answer.then == "hang":
            await self._hang()
        if answer.then == "cut" and request.transport is not None:
            request.transport.abort()
        return response

    async def _hang(self) -> None:
        self.hanging.set()
        await self.release.wait()


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> InstantClock | LoopClock:
    """The event loop's where its time is fake, which is where a test is marked `looptime`."""
    return LoopClock() if request.node.get_closest_marker("looptime") else InstantClock()


@pytest.fixture
def rng() -> Random:
    return UpperRandom()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def server(clock: InstantClock) -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer(clock)
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{tail:.*}", scripted.handle)
    running = TestServer(app)
    await running.start_server()
    scripted.url = str(running.make_url("")).rstrip("/")
    yield scripted
    scripted.release.set()
    await running.close()


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect(
    server: ScriptedServer, clock: InstantClock, metrics: Metrics, tmp_path: Path
) -> AsyncIterator[Connect]:
    """Connect through a kubeconfig, whose user and cluster sections may be given as `user` and `cluster`."""
    clients: list[Client] = []

    async def make(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **options: Any) -> Client:
        path = tmp_path / "config"
        config = kubeconfig(cluster or {"server": server.url}, user or {})
        await asyncio.to_thread(path.write_text, json.dumps(config))
        client = await Client.connect(
            kubeconfig=str(path), metrics=metrics, user_agent="tollbar-test/1", clock=clock, **options
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
