"""The open connections of the admission server, with limits on their number, their bytes and their time.

A connection costs memory before its client is authenticated: TLS buffers of 256 KiB as soon as it is accepted, then the
part of a body that has arrived.  If there are too many connections, the one that has been idle for longest is closed;
if they hold too many bytes, the one that holds most.  A review of ordinary size that is sent at once is neither.

Invariants: the limits hold at every moment, also during handshakes; every connection that is closed for one of them is
counted with the reason; none is closed between the end of a body and its answer.

Hazard: fast clients can still use up the CPU.  Only a NetworkPolicy or client certificates prevent that.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from socket import socket
from typing import Final

from aiohttp import web

from tollbar.runtime.config import Address
from tollbar.runtime.metrics import Metrics

_log: Final = logging.getLogger(__name__)

_BACKLOG: Final = 128
_RETRY_SECONDS: Final = 1.0
"""How long nothing is accepted after the system has refused to, because file descriptors have run out, say."""
_FAREWELL_SECONDS: Final = 1.0
"""How long a client may take to confirm the end of a TLS session."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the connections of one server may hold.

    A review may be as large as the API server lets a request be; etcd stores half of that, so an object whose review is
    larger is refused anyway.
    """

    connections: int = 256
    review_bytes: int = 3 * 1024 * 1024
    held_bytes: int = 16 * 1024 * 1024
    """Of all bodies that have begun to arrive."""
    read_seconds: float = 5.0
    """For the handshake, and then for each body."""
    idle_seconds: float = 120.0
    """From the handshake or an answer to the next complete head.  The API server keeps connections that rest for 90 s
    (IdleConnTimeout of Go's http.DefaultTransport), those too that it has opened and not used yet: one that ends before
    may end under a request that has just been sent."""


LIMITS: Final = Limits()


class Shed(StrEnum):
    """Why a connection was closed."""

    CONNECTIONS = "connections"
    BYTES = "bytes"
    TIMEOUT = "timeout"


@dataclass(slots=True, eq=False)
class Connection:
    """A connection from when it is accepted; `held` are the bytes of a body that have arrived."""

    handshake: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None
    timer: asyncio.TimerHandle | None = None
    held: int = 0

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Connections:
    """Accepts connections; each is known by its protocol, which `protocols` makes.

    The protocols' server tells when one is `opened`, `begins` a request, `holds` a part of its body, has `answered` it,
    and is `closed`.  `context` is asked for every new connection.
    """

    def __init__(
        self,
        protocols: Callable[[], web.RequestHandler],
        context: Callable[[], ssl.SSLContext],
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._protocols = protocols
        self._context = context
        self._limits = limits
        self._shed = metrics.counter("tollbar_admission_connections_shed_total")
        for reason in Shed:
            self._shed.labels(reason)
        self._open: dict[web.RequestHandler, Connection] = {}
        """The one that is closed first, when there are too many, comes first."""
        self._held = 0
        self._listening: list[asyncio.Task[None]] = []

    async def listen(self, address: Address) -> int:
        """Accept connections until `stop`; the port.  Raises OSError."""
        loop = asyncio.get_running_loop()
        bound = await loop.create_server(
            asyncio.Protocol, address.host or None, address.port, start_serving=False
        )  # for the sockets: asyncio's own accepting knows no limit, and tells of no connection before its handshake
        sockets = [each.dup() for each in bound.sockets]
        bound.close()
        for each in sockets:
            each.listen(_BACKLOG)
        self._listening = [loop.create_task(self._accept(each)) for each in sockets]
        port: int = sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Accept no more connections, and end handshakes; open connections stay."""
        handshakes = [each.handshake for each in self._open.values() if each.handshake and each.transport is None]
        for task in (*self._listening, *handshakes):
            task.cancel()
        await asyncio.gather(*self._listening, *handshakes, return_exceptions=True)

    def opened(self, protocol: web.RequestHandler, transport: asyncio.Transport) -> None:
        """The handshake is done."""
        if connection := self._open.get(protocol):
            connection.transport = transport
            self._may_take(protocol, connection, self._limits.idle_seconds)
        else:
            transport.abort()  # it was closed at the moment when its handshake ended

    def begins(self, protocol: web.RequestHandler) -> None:
        """The head of a request has arrived."""
        self._active(protocol, self._limits.read_seconds)

    def holds(self, protocol: web.RequestHandler, size: int) -> None:
        """So many bytes of the body have arrived."""
        if connection := self._open.get(protocol):
            self._held += size - connection.held
            connection.held = size
            while self._held > self._limits.held_bytes:
                self._close(max(self._open, key=lambda each: self._open[each].held), Shed.BYTES)

    def answered(self, protocol: web.RequestHandler) -> None:
        """The request was answered, and none of its bytes are held any longer."""
        self.holds(protocol, 0)
        self._active(protocol, self._limits.idle_seconds)

    def closed(self, protocol: web.RequestHandler) -> None:
        """The connection is closed, by either side."""
        if connection := self._open.pop(protocol, None):
            self._held -= connection.held
            if connection.timer is not None:
                connection.timer.cancel()

    async def _accept(self, listener: socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listener)
                except OSError as error:
                    _log.warning("cannot accept connections", extra={"error": error.strerror})
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                protocol = self._protocols()
                connection = self._open[protocol] = Connection()
                self._active(protocol, self._limits.read_seconds)
                connection.handshake = loop.create_task(self._connect(accepted, protocol))
                if len(self._open) > self._limits.connections:
                    self._close(next(iter(self._open)), Shed.CONNECTIONS)

    async def _connect(self, accepted: socket, protocol: web.RequestHandler) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=self._limits.read_seconds,
                ssl_shutdown_timeout=_FAREWELL_SECONDS,
            )
        except OSError as error:  # ssl.SSLError is one: the client speaks no TLS, or shows no certificate that we trust
            error.__traceback__ = None  # its frames would keep the TLS buffers until the next garbage collection
            self.closed(protocol)
        except asyncio.CancelledError:
            self.closed(protocol)
            accepted.close()
            raise

    def _active(self, protocol: web.RequestHandler, seconds: float) -> None:
        """Something has begun or ended: it is now the last to be closed, and may take so many seconds from now on."""
        if connection := self._open.pop(protocol, None):
            self._open[protocol] = connection
            self._may_take(protocol, connection, seconds)

    def _may_take(self, protocol: web.RequestHandler, connection: Connection, seconds: float) -> None:
        if connection.timer is not None:
            connection.timer.cancel()
        loop = asyncio.get_running_loop()
        connection.timer = loop.call_later(seconds, self._close, protocol, Shed.TIMEOUT)

    def _close(self, protocol: web.RequestHandler, why: Shed) -> None:
        connection = self._open[protocol]
        self.closed(protocol)
        self._shed.labels(why).inc()
        connection.abort()
