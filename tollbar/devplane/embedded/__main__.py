"""`python -m tollbar.devplane.embedded --dir DIR`: serve until SIGTERM, or until stdin ends with --attached.

The directory has the token file already.  The kubeconfig is written when the server is ready, so that others wait for
that file.
"""

import argparse
import asyncio
import contextlib
import csv
import signal
import ssl
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tollbar.devplane import kubeconfig
from tollbar.devplane.embedded import bootstrap
from tollbar.devplane.embedded.access import Access
from tollbar.devplane.embedded.admission import Admission
from tollbar.devplane.embedded.auditing import auditing
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.controllers import Controllers
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.requests import AUTHENTICATED, User
from tollbar.devplane.embedded.server import Server
from tollbar.devplane.embedded.storage import Storage
from tollbar.devplane.layout import Layout
from tollbar.devplane.ports import HOST
from tollbar.model.objects import Key
from tollbar.runtime import certs, collector, log
from tollbar.runtime.clock import SystemClock

_FOREVER: Final = float("inf")
_SHUTDOWN_SECONDS: Final = 0.5


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tollbar.devplane.embedded", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the plane's directory, with its tokens")
    parser.add_argument("--attached", action="store_true", help="end when stdin does")
    parser.add_argument("--no-scheduler", action="store_true", help="no Pod gets a Node")
    parser.add_argument("--no-claims", action="store_true", help="no claim is made from a template")
    parsed = parser.parse_args(arguments)
    log.configure("text", 0)
    collector.tune()
    asyncio.run(_serve(Layout(parsed.dir.resolve()), parsed))
    return 0


async def _serve(layout: Layout, wanted: argparse.Namespace) -> None:
    storage, clock, kinds = Storage(), SystemClock(), Kinds()
    admission = Admission(storage)
    registry = Registry(storage, kinds, admission, clock)
    bootstrap.open_tables(registry)
    await bootstrap.fill(registry)
    controllers = Controllers(registry, claims=not wanted.no_claims, scheduling=not wanted.no_scheduler)
    running = asyncio.create_task(controllers.run())
    access = Access(storage, clock)
    admin = _read_tokens(layout, access)
    application = Server(registry, access).application()
    application.middlewares.append(auditing(layout.audit_log, access, clock))
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0, ssl_context=_tls(layout)).start()
    if await _first(_ready(storage), running):
        _write_kubeconfig(layout, runner.addresses[0][1], admin)
        await _first(_until_stopped(attached=wanted.attached), running)
    running.cancel()
    await runner.cleanup()
    await admission.close()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def _first(waited_for: Coroutine[Any, Any, None], running: asyncio.Task[None]) -> bool:
    """Wait for one of both; False when the controllers have ended, which is a bug."""
    task = asyncio.create_task(waited_for)
    await asyncio.wait({task, running}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    return not running.done()


async def _ready(storage: Storage) -> None:
    """Until Pods can be created in the default namespace."""
    while storage.get(SERVICE_ACCOUNTS, Key("default", "default")) is None:
        await storage.changed(SERVICE_ACCOUNTS, storage.revision)


def _read_tokens(layout: Layout, access: Access) -> str:
    """Read the token file; the first token, which is an administrator's."""
    with layout.tokens.open(newline="") as file:
        rows = list(csv.reader(file))
    for token, name, uid, groups in rows:
        access.tokens[token] = (User(name, (*groups.split(","), AUTHENTICATED), uid), _FOREVER)
    return rows[0][0]


def _tls(layout: Layout) -> ssl.SSLContext:
    directory = layout.tokens.parent
    certs.ensure(directory, [HOST, "localhost"], time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / certs.TLS_CERT, directory / certs.TLS_KEY)
    return context


def _write_kubeconfig(layout: Layout, port: int, token: str) -> None:
    authority = (layout.tokens.parent / certs.CA_CERT).read_bytes()
    content = kubeconfig.config(server=f"https://{HOST}:{port}", authority=authority, token=token)
    kubeconfig.write(layout.kubeconfig, content)


async def _until_stopped(*, attached: bool) -> None:
    """Wait for SIGTERM or SIGINT, or if attached for the end of stdin."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if attached:
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        ended = asyncio.create_task(reader.read())
        ended.add_done_callback(lambda _: stopping.set())
    await stopping.wait()


if __name__ == "__main__":
    sys.exit(main())
