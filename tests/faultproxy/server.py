"""The proxy: TLS on loopback with a certificate of its own, on an event loop and thread of its own.

Tests may block while it runs.  Identities keep working: bearer tokens are passed on, and a kubeconfig with a client
certificate is given a token that stands for that certificate.  Watches are passed on chunk by chunk.
"""

import asyncio
import base64
import secrets
import socket
import ssl
import struct
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import yaml
from aiohttp import web
from processes.beside import CALL_SECONDS, Beside
from yarl import URL

from faultproxy import answers
from faultproxy.faults import Cut, Delay, Expire, Fault, Hang, Refuse, Replay, Rule, Script, Slow, Truncate
from faultproxy.request import Request, parse
from tollbar.runtime import certs

_HOST: Final = "127.0.0.1"
_BODY: Final = 64 * 2**20
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_HOP_BY_HOP: Final = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "host"}


class FaultProxy(Beside):
    """A context manager.  `kubeconfig` points at the server to stand before; files are written to `directory`."""

    def __init__(self, kubeconfig: Path, directory: Path, *, seed: int = 0) -> None:
        super().__init__()
        self.script = Script(seed)
        self.requests: Counter[tuple[str, str]] = Counter()
        """What was asked, by verb and resource, faults included."""
        self._original = _read(kubeconfig)
        self._directory = directory
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._remembered: dict[tuple[str, str], answers.Stored] = {}
        self._watching: dict[int, web.Request] = {}
        self._asking: set[asyncio.Task[aiohttp.ClientResponse]] = set()
        self._over = asyncio.Event()
        self.port = 0
        self.page_size = ""
        """Pages of lists are at most so long, whatever is asked for: small clusters have continuations, too."""

    @property
    def hits(self) -> Counter[str]:
        """How often each rule struck, by name."""
        return self.script.hits

    @contextmanager
    def faults(self, *rules: Rule) -> Iterator[Self]:
        """Have these rules in force, and no others, within the block; what hangs is let go at its end."""
        self._put(rules)
        try:
            yield self
        finally:
            self._put(())

    def cut_watches(self) -> None:
        """Reset every watch that runs, so that its client begins another one, under the rules in force."""

        async def cut() -> None:
            for incoming in tuple(self._watching.values()):
                _reset(incoming)

        self._wait(cut())

    def kubeconfig(self, original: Path | None = None) -> Path:
        """A kubeconfig of the same identity (by default that of the server's own kubeconfig) through the proxy."""
        content = _read(original) if original else self._original
        user = content["users"][0]["user"]
        if "token" not in user:
            user = {"token": self._wait(self._stand_in(content))}
        cluster = {
            "server": f"https://{_HOST}:{self.port}",
            "certificate-authority-data": base64.b64encode((self._directory / certs.CA_CERT).read_bytes()).decode(),
        }
        name = "proxied"
        through = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path = self._directory / f"kubeconfig-{secrets.token_hex(4)}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(through))
        return path

    def _put(self, rules: tuple[Rule, ...]) -> None:
        async def put() -> None:
            self.script.rules = rules
            self._remembered.clear()
            self._over.set()
            self._over = asyncio.Event()

        self._wait(put())

    async def _begin(self) -> None:
        await asyncio.to_thread(certs.ensure, self._directory, [_HOST], time.time())
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(self._directory / certs.TLS_CERT, self._directory / certs.TLS_KEY)
        self._contexts[""] = _trusting(self._original)
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**21,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        app = web.Application(client_max_size=_BODY)
        app.router.add_route("*", "/{anything:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, 0, ssl_context=serving)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _end(self) -> None:
        self._over.set()
        await self._runner.cleanup()
        if self._asking:
            await asyncio.wait(self._asking, timeout=CALL_SECONDS / 2)
        await self._session.close()
        shaking_hands = asyncio.all_tasks() - {asyncio.current_task()}
        for task in shaking_hands:  # with clients that have gone, or never began
            task.cancel()
        await asyncio.gather(*shaking_hands, return_exceptions=True)
        watched = self._loop._selector.get_map()  # type: ignore[attr-defined]
        async with asyncio.timeout(CALL_SECONDS / 2):
            while len(watched) > 1:  # noqa: ASYNC110 - nothing else tells of closed sockets; the loop's own one stays
                await asyncio.sleep(0.01)

    async def _stand_in(self, content: dict[str, Any]) -> str:
        token = secrets.token_urlsafe(16)
        self._contexts[f"Bearer {token}"] = await asyncio.to_thread(_trusting, content)
        return token

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        request = parse(incoming.method, incoming.raw_path, incoming.headers.get("User-Agent", ""))
        self.requests[request.verb, request.resource] += 1
        body = await incoming.read()
        rule = self.script.choose(request)
        if request.is_watch:
            self._watching[id(incoming)] = incoming
        try:
            if rule is None or isinstance(rule.fault, Replay):
                return await self._exchange(incoming, request, body, rule)
            # A fault that only watches can have leaves other requests alone.
            if isinstance(rule.fault, Cut | Expire | Delay) and not request.is_watch:
                return await self._exchange(incoming, request, body, None)
            self.script.strike(rule)
            return await self._go_wrong(incoming, request, body, rule.fault)
        except (aiohttp.ClientError, OSError):
            return _reset(incoming)  # the server is not there, or the client has gone
        finally:
            self._watching.pop(id(incoming), None)

    async def _go_wrong(self, incoming: web.Request, request: Request, body: bytes, fault: Fault) -> web.StreamResponse:
        if isinstance(fault, Slow):
            await asyncio.sleep(fault.seconds)
            return await self._exchange(incoming, request, body, None)
        if isinstance(fault, Cut | Expire | Delay):
            async with self._asked(incoming, body) as upstream:
                return await answers.damaged_stream(incoming, upstream, fault, _reset)
        if isinstance(fault, Truncate) or getattr(fault, "after", False):
            async with self._asked(incoming, body) as upstream:
                stored = await answers.store(upstream)
            if isinstance(fault, Truncate):
                return await answers.truncated(incoming, stored)
        if isinstance(fault, Refuse):
            return answers.refusal(fault)
        if isinstance(fault, Hang):
            await self._over.wait()
        return _reset(incoming)

    async def _exchange(
        self, incoming: web.Request, request: Request, body: bytes, replaying: Rule | None
    ) -> web.StreamResponse:
        what = (incoming.headers.get("Authorization", ""), answers.identity(request))
        readable = request.verb in ("get", "list") and not request.is_continuation
        if replaying is not None and readable and (old := self._remembered.get(what)) is not None:
            self.script.strike(replaying)
            return answers.whole(old)
        async with self._asked(incoming, body) as upstream:
            if request.is_watch and upstream.status == 200:
                return await answers.stream(incoming, upstream)
            stored = await answers.store(upstream)
        if readable and stored.status == 200 and self.script.remembers(request):
            self._remembered.setdefault(what, stored)
        return answers.whole(stored)

    @asynccontextmanager
    async def _asked(self, incoming: web.Request, body: bytes) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The server's answer; what is not read of it in the block is given up at once.

        A client that goes away leaves a request that the server has: that one is answered to nobody.
        """
        asking = asyncio.create_task(self._ask(incoming, body))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            upstream = await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_give_up)
            raise
        try:
            yield upstream
        finally:
            _abort(upstream)

    async def _ask(self, incoming: web.Request, body: bytes) -> aiohttp.ClientResponse:
        headers = [(name, value) for name, value in incoming.headers.items() if name.lower() not in _HOP_BY_HOP]
        context = self._contexts.get(incoming.headers.get("Authorization", ""))
        if context is not None:
            headers = [(name, value) for name, value in headers if name.lower() != "authorization"]
        return await self._session.request(
            incoming.method,
            self._target(incoming),
            headers=headers,
            data=body or None,
            ssl=context or self._contexts[""],
            allow_redirects=False,
        )

    def _target(self, incoming: web.Request) -> URL:
        server = self._original["clusters"][0]["cluster"]["server"].rstrip("/")
        url = URL(f"{server}{incoming.raw_path}", encoded=True)
        return url.update_query(limit=self.page_size) if self.page_size and "limit" in url.query else url


def _give_up(asking: asyncio.Task[aiohttp.ClientResponse]) -> None:
    if not asking.cancelled() and asking.exception() is None:
        _abort(asking.result())


def _abort(upstream: aiohttp.ClientResponse) -> None:
    if upstream.connection is not None and upstream.connection.transport is not None:
        upstream.connection.transport.abort()
    upstream.close()  # or its connection would count as forgotten when the loop ends before it hears of that


def _reset(incoming: web.Request) -> web.StreamResponse:
    """End the connection with RST.  The answer is for the framework, nobody receives it."""
    connection = incoming.transport.get_extra_info("socket") if incoming.transport is not None else None
    if incoming.transport is not None and connection is not None:  # or it has ended already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        incoming.transport.abort()
    return web.Response(status=502)


def _read(kubeconfig: Path) -> dict[str, Any]:
    """Its current context alone."""
    content = yaml.safe_load(kubeconfig.read_text())
    context = _named(content["contexts"], content["current-context"])["context"]
    return {
        "clusters": [_named(content["clusters"], context["cluster"])],
        "users": [_named(content["users"], context["user"])],
    }


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _trusting(content: dict[str, Any]) -> ssl.SSLContext:
    """A context that trusts the kubeconfig's cluster and has its user's client certificate, if there is one."""
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    context = ssl.create_default_context(cadata=_pem(cluster, "certificate-authority"))
    if "client-certificate" in user or "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
            pair.write(_pem(user, "client-certificate") + "\n" + _pem(user, "client-key"))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _pem(entry: dict[str, Any], field: str) -> str:
    data = entry.get(f"{field}-data")
    return base64.b64decode(data).decode() if data else Path(entry[field]).read_text()
