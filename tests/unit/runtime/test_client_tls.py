"""The client over TLS: the service account of a Pod, and client certificates that are rotated."""

import asyncio
import gc
import os
import socket
import ssl
import tempfile
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.config import incluster_config

from tollbar.model.resources import PODS
from tollbar.runtime.client import Client
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Unreachable
from tollbar.runtime.metrics import Metrics


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def secure(authority: trustme.CA) -> AsyncIterator[TestServer]:
    """Answers every request on a connection of its own with who asked, by certificate and by token."""

    async def answer(request: web.Request) -> web.Response:
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        subject = dict(pair for part in (peer or {}).get("subject", ()) for pair in part)
        who = {"certificate": subject.get("commonName"), "token": request.headers.get("Authorization")}
        return web.Response(body=orjson.dumps(who), headers={"Connection": "close"})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    yield server
    await server.close()


def write_identity(authority: trustme.CA, name: str, directory: Path) -> None:
    identity = authority.issue_cert(common_name=name)
    identity.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    identity.private_key_pem.write_to_path(directory / "tls.key")


async def ask(client: Client) -> Any:
    return orjson.loads(await client.raw("GET", "/whoami"))


def kubeconfig(port: int | None, authority: dict[str, str], user: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{port}", **authority}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }


async def connected(port: int | None, directory: Path, clock: Any) -> Client:
    """With the certificates of this directory."""
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    config = kubeconfig(port, {"certificate-authority": "ca.crt"}, user)
    path = directory / "config"
    await asyncio.to_thread(path.write_bytes, orjson.dumps(config))
    return await Client.connect(kubeconfig=str(path), metrics=Metrics(), user_agent="t", clock=clock)


async def test_the_service_account_of_a_pod(
    secure: TestServer, authority: trustme.CA, clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    await asyncio.to_thread(token.write_text, "one")
    await asyncio.to_thread(authority.cert_pem.write_to_path, ca)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secure.port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    client = await Client.connect(kubeconfig=None, metrics=Metrics(), user_agent="t", clock=clock)
    first = await ask(client)
    await asyncio.to_thread(token.write_text, "two")
    clock.time += 60
    second = await ask(client)
    await client.close()
    assert [answer["token"].lower() for answer in (first, second)] == ["bearer one", "bearer two"]


async def test_an_authority_that_is_replaced(
    secure: TestServer, authority: trustme.CA, clock: Any, tmp_path: Path
) -> None:
    """Its certificate is told to Pods before the server shows one that it signed; here the old one comes first."""
    await asyncio.to_thread(trustme.CA().cert_pem.write_to_path, tmp_path / "ca.crt")
    await asyncio.to_thread(write_identity, authority, "one", tmp_path)
    client = await connected(secure.port, tmp_path, clock)
    with pytest.raises(Unreachable, match="certificate verify failed"):
        await ask(client)
    await asyncio.to_thread(authority.cert_pem.write_to_path, tmp_path / "ca.crt")
    clock.time += 60
    answer = await ask(client)
    await client.close()
    assert answer["certificate"] == "one"


async def test_a_client_certificate_that_is_rotated(
    secure: TestServer, authority: trustme.CA, clock: Any, tmp_path: Path
) -> None:
    await asyncio.to_thread(authority.cert_pem.write_to_path, tmp_path / "ca.crt")
    await asyncio.to_thread(write_identity, authority, "one", tmp_path)
    client = await connected(secure.port, tmp_path, clock)
    first = await ask(client)
    await asyncio.to_thread(write_identity, authority, "two", tmp_path)
    clock.time += 60
    second = await ask(client)
    await client.close()
    assert [first["certificate"], second["certificate"]] == ["one", "two"]


async def test_a_client_certificate_that_is_half_written_is_not_used(
    secure: TestServer, authority: trustme.CA, clock: Any, tmp_path: Path
) -> None:
    await asyncio.to_thread(authority.cert_pem.write_to_path, tmp_path / "ca.crt")
    await asyncio.to_thread(write_identity, authority, "one", tmp_path)
    client = await connected(secure.port, tmp_path, clock)
    certificates = []
    for write in (
        lambda: (tmp_path / "tls.crt").write_text("-----BEGIN CERTIFICATE-----"),
        lambda: write_identity(authority, "two", tmp_path),
    ):
        await asyncio.to_thread(write)
        clock.time += 60
        certificates.append((await ask(client))["certificate"])
    await client.close()
    assert certificates == ["one", "two"]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs files in memory, as Linux has them")
async def test_what_a_kubeconfig_contains_is_written_nowhere(
    secure: TestServer, authority: trustme.CA, clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in a temporary file stays there when the process is killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    path, trusted = tmp_path / "config", {"certificate-authority-data": b64encode(authority.cert_pem.bytes()).decode()}
    seen = []
    for name in ("one", "two"):
        identity = authority.issue_cert(common_name=name)
        user = {
            "client-certificate-data": b64encode(identity.cert_chain_pems[0].bytes()).decode(),
            "client-key-data": b64encode(identity.private_key_pem.bytes()).decode(),
        }
        await asyncio.to_thread(path.write_bytes, orjson.dumps(kubeconfig(secure.port, trusted, user)))
        client = await Client.connect(kubeconfig=str(path), metrics=Metrics(), user_agent="t", clock=clock)
        clock.time += 60  # the credentials are read again
        seen.append((await ask(client))["certificate"])
        await client.close()
    assert seen == ["one", "two"]


@dataclass
class Deaf:
    """A server that begins to answer and hears nothing of what comes then, the end of TLS included."""

    port: int
    asked: threading.Event = field(default_factory=threading.Event)
    """And it has answered what it will."""


@pytest.fixture
def deaf(authority: trustme.CA) -> Iterator[Deaf]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    is_over = threading.Event()

    def serve() -> None:
        with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as connection:
            asked = connection.recv(65536)
            if b"/silent" not in asked:
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
            server.asked.set()
            is_over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        server = Deaf(listener.getsockname()[1])
        pool.submit(serve)
        yield server
        is_over.set()


async def leave_a_watch(client: Client, *_: Any) -> None:
    async with aclosing(client.watch(PODS, resource_version="1", timeout_seconds=1)) as events:
        with pytest.raises(KeyError):  # the event says nothing
            await anext(events)


async def give_up(client: Client, deaf: Deaf, leap: Callable[[float], None], path: str) -> None:
    call = asyncio.create_task(client.raw("GET", path, timeout=30.0))
    assert await asyncio.to_thread(deaf.asked.wait, 60)
    leap(30)
    with pytest.raises(Unreachable, match="no answer in time"):
        await call


LEFT: dict[str, Callable[[Client, Deaf, Any], Awaitable[None]]] = {
    "a watch that is left": leave_a_watch,
    "an answer that is not read to its end": partial(give_up, path="/half"),
    "a call without an answer": partial(give_up, path="/silent"),
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_a_client_that_was_closed_has_no_connection_any_more(
    deaf: Deaf,
    authority: trustme.CA,
    tmp_path: Path,
    leap: Callable[[float], None],
    leave: Callable[[Client, Deaf, Any], Awaitable[None]],
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    write_identity(authority, "one", tmp_path)

    async def run() -> None:
        client = await connected(deaf.port, tmp_path, SystemClock())
        try:
            await leave(client, deaf, leap)
        finally:
            await client.close()

    asyncio.run(run())
    gc.collect()  # what is still open warns of that, and warnings are errors
