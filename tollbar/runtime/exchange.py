"""HTTP/1.1 as calls of the API server need it: a request, its whole answer, and a connection that is used again.

The session of `kubernetes.aio` can do much more, and a call over it costs more CPU than the decision that it is made
for (docs/decisions/0014).  Answers are parsed by httptools, which is llhttp, the parser of Node.js.

Invariants: a connection carries one exchange at a time, and is used again only after a complete answer that allows it;
a request is written at once and never twice, except a GET whose connection ended without an answer; an exchange that
fails or is given up ends its connection; after `close` there is no connection left.  `tollbar.runtime.stream` reads an
answer while it comes.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple, TypeAlias, TypeVar

import aiohappyeyeballs
import httptools
from aiohappyeyeballs.types import AddrInfoType

CONNECT_SECONDS: Final = 10.0
"""How long connecting may take where a call has no deadline of its own that says it."""
MADE_AT_ONCE: Final = 2
"""Connections that are made for exchanges at one time.  The fewer, the sooner a burst was over (docs/decisions/0014);
with one alone, all would wait for one that hangs."""
WAIT_SECONDS: Final = 1.0
"""For how long an exchange that makes a connection counts as one of these: after that it may hang."""
NEXT_SECONDS: Final = (0.005, 0.1)
"""Seconds after a connection was made until another one may be made in its place: at least, and at most.  It is later
only while the process has no time to spare: more connections help a process that waits for the server."""
BUSY: Final = 0.5
"""The share of a core, by the CPU of the event loop's thread, from which on the process has no time to spare."""
IDLE_SECONDS: Final = 75.0
"""For how long a connection may rest: the API server ends it after 90."""
_READ_BYTES: Final = 256 * 1024
"""So much is read at once: as much as asyncio's TLS takes, which without a buffer makes one of this size each time."""
INTERIM: Final = range(100, 200)
_UNAUTHORIZED: Final = 401

C = TypeVar("C", bound="Connection")
Make: TypeAlias = Callable[[Callable[["Connection"], None], memoryview], C]
"""Makes a connection that tells the callable when it has ended, and is read into the buffer."""


class ExchangeError(OSError):
    """There was no answer; the text says why."""


class NotConnectedError(ExchangeError):
    """There is no connection: nothing was sent."""


class DisconnectedError(ExchangeError):
    """The connection ended, or made no sense, before the answer was complete."""


class TooLongError(ExchangeError):
    """The body of the answer is longer than it may be; the rest of it was not waited for."""


class Answer(NamedTuple):
    """The status, the header Retry-After if there is one, and the body."""

    status: int
    retry_after: str | None
    body: bytes


def request_of(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request as it is sent.  Raises NotConnectedError for a header that no token of a server could be."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") + head.count("\r") != 2 * (len(lines) - 1) or not head.isascii():
        raise NotConnectedError("not sent: a header, such as the token of the credentials, is not one line of ASCII")
    return f"{head}\r\n\r\n".encode() + (body or b"")


class Connections:
    """The connections to one server: as many as there are exchanges at one time, or fewer.

    A TLS handshake costs the CPU of many exchanges, here and at the server.  So of a burst only MADE_AT_ONCE connect.
    The others wait for what comes first: that it is NEXT_SECONDS since one of these was connected, or WAIT_SECONDS
    while one is not, then the next one connects; or that another exchange has ended, whose connection they take.
    (Go's net/http waits for a connection to be made or given back, too, but connects for each request.)

    `context` is that of https, None for http; `server_name` is the name that the certificate has to be for.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, server_name: str | None) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._server_name = (server_name or host) if context is not None else None
        self._resting: list[Connection] = []
        """Those that are used next are at the end."""
        self._all: set[Connection] = set()
        self._making: set[object] = set()
        """One for each exchange that makes a connection now and has not for long, or has made one just now."""
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        """Others that have none.  Each gets one that was given back, or None when it is to make one itself."""
        self._looks_at = inf
        self._look: asyncio.TimerHandle | None = None
        """Ends exchanges that are late.  There is one for all: most end long before, and a timer costs as much as the
        rest of what is done here."""
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._is_closed = False

    async def exchange(
        self,
        request: bytes,
        *,
        timeout: float,
        is_read: bool,
        most: float = inf,
        before: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request (its head and its body), and wait for the whole answer, both within `timeout` seconds.

        `before` is called when nothing is left to be waited for; the request is not sent if it raises.  A read is sent
        again if its connection ends without an answer.  Raises NotConnectedError, DisconnectedError, TooLongError once
        the body of the answer has more than `most` bytes, and TimeoutError if the request has been sent when the time
        is over.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        may_repeat = is_read
        while True:
            connection = self._rested() or await self._next(deadline)
            try:
                if before is not None:
                    before()
                self.look_by(deadline)
                return await connection.exchange(request, deadline, most)
            except DisconnectedError:
                if not may_repeat or connection.has_answered:
                    raise
                may_repeat = connection.is_used  # on new connections it is sent twice at most
            finally:
                self._give_back(connection)

    def renew(self) -> None:
        """Use no connection again that there is now, for instance because it has shown a certificate that expires."""
        for each in self._all:
            each.may_rest = False
        for each in self._resting:
            each.end()

    async def close(self) -> None:
        """End all connections, also those of exchanges that are under way, which fail."""
        self._is_closed = True
        while self._hand_over(None):
            pass
        if self._look is not None:
            self._look.cancel()
        ending = list(self._all)
        for each in ending:
            each.end()
        if ending:
            await asyncio.wait([each.ended for each in ending])

    @property
    def _address(self) -> str:
        return f"{self._host}:{self._port}"

    def _rested(self) -> "Connection | None":
        """One that can be used again.  Those that have rested for too long are ended."""
        since = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._resting and self._resting[0].rested_at < since:
            self._resting.pop(0).end()
        while self._resting:
            found = self._resting.pop()
            if not found.is_ending:
                return found
        return None

    async def _next(self, deadline: float) -> "Connection":
        """One that another exchange gives back, or a new one."""
        if len(self._making) >= MADE_AT_ONCE:
            given = await self._given(deadline)
            if given is not None:
                if given.may_rest and not given.is_ending:
                    return given
                given.end()
        turn = object()
        self._making.add(turn)
        loop = asyncio.get_running_loop()
        hangs = loop.call_later(WAIT_SECONDS, self._end_turn, turn)
        try:
            connection = await self.connect(deadline, Connection)
        except BaseException:
            self._end_turn(turn)
            raise
        finally:
            hangs.cancel()
        connection.ended.add_done_callback(lambda _: self._end_turn(turn))  # it is given back to nobody
        self._end_turn_soon(turn, loop.time() + NEXT_SECONDS[1])
        return connection

    def _end_turn_soon(self, turn: object, at_last: float) -> None:
        """End it once the process has time to spare, or else at the time `at_last` of the loop's clock."""
        loop = asyncio.get_running_loop()
        since, cpu = loop.time(), time.thread_time()

        def look() -> None:
            now = loop.time()
            if now < at_last and time.thread_time() - cpu > BUSY * (now - since):
                self._end_turn_soon(turn, at_last)
            else:
                self._end_turn(turn)

        loop.call_at(min(since + NEXT_SECONDS[0], at_last), look)

    def _end_turn(self, turn: object) -> None:
        """Let the next one connect in the place of this, once."""
        if turn in self._making:
            self._making.remove(turn)
            if len(self._making) < MADE_AT_ONCE:
                self._hand_over(None)

    async def _given(self, deadline: float) -> "Connection | None":
        """One that another exchange gives back; None when it is time to make one, or there is no time left."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait([turn], timeout=deadline - loop.time())
            return turn.result() if turn.done() else None
        except asyncio.CancelledError:
            if turn.done():  # at that moment: it is the next one's
                self._pass_on(turn.result())
            raise
        finally:
            turn.cancel()
            if turn in self._waiting:
                self._waiting.remove(turn)

    def _pass_on(self, given: "Connection | None") -> None:
        if given is None:
            self._hand_over(None)
        else:
            self._give_back(given)

    def _hand_over(self, given: "Connection | None") -> bool:
        """Give it to the exchange that has waited longest; whether there is one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(given)
                return True
        return False

    def _give_back(self, connection: "Connection") -> None:
        if connection.may_stay and connection.may_rest and not self._is_closed:
            connection.is_used = True
            connection.rested_at = asyncio.get_running_loop().time()
            if not self._hand_over(connection):
                self._resting.append(connection)
        else:
            connection.end()

    def look_by(self, deadline: float) -> None:
        """Make sure the timer fires at `deadline` or earlier, on the loop's clock: it ends what is late."""
        if deadline < self._looks_at:
            if self._look is not None:
                self._look.cancel()
            self._looks_at = deadline
            self._look = asyncio.get_running_loop().call_at(deadline, self._end_late)

    def _end_late(self) -> None:
        self._looks_at, self._look = inf, None
        now = asyncio.get_running_loop().time()
        for each in self._all:
            if each.deadline <= now:
                each.time_out()
            elif each.deadline < inf:
                self.look_by(each.deadline)

    async def connect(self, deadline: float, make: Make[C]) -> C:
        """A new connection, made by `make`.  NotConnectedError if there is none by then, a time of the loop's clock."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self._connect(make)
        except TimeoutError:
            raise NotConnectedError(f"no connection to {self._address} in time") from None

    async def _connect(self, make: Make[C]) -> C:
        if self._is_closed:
            raise NotConnectedError("the client is closed")
        loop = asyncio.get_running_loop()
        try:
            # Not by asyncio's own `happy_eyeballs_delay`: it leaves each connection, with its buffers, in a circle of
            # references, which keeps it until the garbage collector comes by.
            connected = await aiohappyeyeballs.start_connection(await self._addresses(), happy_eyeballs_delay=0.25)
            _, connection = await loop.create_connection(
                lambda: make(self._forget, self._buffer),
                sock=connected,
                ssl=self._context,
                server_hostname=self._server_name,
            )
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:  # of a name that is none
            raise NotConnectedError(f"cannot connect to {self._address}: {error}") from error
        self._all.add(connection)
        if self._is_closed:
            connection.end()
            raise NotConnectedError("the client is closed")
        return connection

    async def _addresses(self) -> Sequence[AddrInfoType]:
        """Those of the host.  An IP address is not looked up, which would take a thread for each new connection."""
        try:
            return socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            return await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)

    def _forget(self, connection: "Connection") -> None:
        self._all.discard(connection)
        if connection in self._resting:
            self._resting.remove(connection)


class Connection(asyncio.BufferedProtocol):
    """One of `Connections`.

    `is_used` says that it has rested, `has_answered` that something of the present answer has come.  `may_stay` is true
    while it can begin another exchange, `may_rest` unless it is to be ended after the present one.
    `deadline` is when the present one has to be over, on the loop's clock; infinite without one.
    What is read into `buffer` is parsed at once, so that all connections of a loop may have the same.
    """

    def __init__(self, forget: Callable[["Connection"], None], buffer: memoryview) -> None:
        self.is_used = False
        self.has_answered = False
        self.may_stay = True
        self.may_rest = True
        self.rested_at = 0.0
        self.deadline = inf
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._forget = forget
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._length = 0
        self._most = inf

    async def exchange(self, request: bytes, deadline: float, most: float = inf) -> Answer:
        """Errors are those of `answered`, and TooLongError for a body of more than `most` bytes."""
        assert self._transport is not None  # noqa: S101
        self.has_answered = self.may_stay = False
        self.on_message_begin()
        self._most = most
        self._transport.write(request)
        return await self.answered(deadline)

    async def answered(self, deadline: float) -> Answer:
        """What the server says next.  TimeoutError if `time_out` is called before."""
        self.deadline = deadline
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting
        finally:
            self._waiting = None
            self.deadline = inf

    def time_out(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(TimeoutError())

    @property
    def is_ending(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_asked(self) -> bool:
        """Whether something is expected of the server."""
        return self._waiting is not None and not self._waiting.done()

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)  # not before: it refers to this connection until that is lost

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self.is_asked:
            self.end()  # nobody has asked for this
            return
        self.has_answered = True
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.may_stay = False
            self._fail(f"the answer is not HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self._lasts_until_end():
            self.on_message_complete()
        self.may_stay = False
        self._fail(f"the connection ended: {error or 'the server has closed it'}")
        self._forget(self)
        if not self.ended.done():
            self.ended.set_result(None)
        self._transport = None
        del self._parser  # which refers to this connection

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._status = 0
        self._headers = {}
        self._body = []
        self._length = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        self._body.append(part)
        self._length += len(part)
        if self._length > self._most and self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(TooLongError(f"the answer has more than {self._most} bytes"))

    def on_message_complete(self) -> None:
        if self._status in INTERIM or self._waiting is None:
            return
        if self._waiting.done():
            self.may_stay = False  # more than one answer to one request
            return
        # After 401 the next one shows the certificate that the client has by then.
        self.may_stay = self._parser.should_keep_alive() and self._status != _UNAUTHORIZED
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._waiting.set_result(self._answer(body))
        self.on_message_begin()  # a connection that rests would keep the last page of a list in memory

    def _answer(self, body: bytes) -> Answer:
        """The answer that has begun, with this body."""
        asked = self._headers.get(b"retry-after")
        return Answer(self._status, None if asked is None else asked.decode("latin-1"), body)

    def _lasts_until_end(self) -> bool:
        """Whether the answer that has begun is one whose length only the end of the connection tells."""
        return bool(self._status) and not self._headers.keys() & {b"content-length", b"transfer-encoding"}

    def _fail(self, why: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(DisconnectedError(why))
