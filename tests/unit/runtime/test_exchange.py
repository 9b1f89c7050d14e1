"""Exchanges and streams with a server that does, byte by byte, whatever HTTP allows it, and what it does not."""

import asyncio
import gc
import socket
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import httptools
import pytest
import trustme

from tollbar.runtime import exchange
from tollbar.runtime import stream as stream_module
from tollbar.runtime.exchange import (
    MADE_AT_ONCE,
    Answer,
    Connection,
    Connections,
    DisconnectedError,
    NotConnectedError,
    TooLongError,
    request_of,
)
from tollbar.runtime.stream import Stream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
GOOD = Answer(200, None, b"{}")
CLOSE = None
"""The server closes the connection."""


@dataclass
class Server:
    """Answers the requests of its connections, in their order, with what `script` has: parts, each written at once.

    When the script is at its end, nothing is answered.
    """

    script: list[tuple[bytes | None, ...]] = field(default_factory=list)
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """The client has ended a connection."""
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            while request := await reader.read(2**20):
                self.requests.append(request)
                self.asked.set()
                for part in self.script.pop(0) if self.script else ():
                    if part is CLOSE:
                        return
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
            self.ended.set()
        except ConnectionError:
            self.ended.set()
        finally:
            self.open.discard(writer)
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    scripted = Server()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.port = listening.sockets[0].getsockname()[1]
    yield scripted
    listening.close()
    for writer in list(scripted.open):
        writer.transport.abort()


@pytest.fixture
async def connections(server: Server) -> AsyncIterator[Connections]:
    made = Connections("127.0.0.1", server.port, None, None)
    yield made
    await made.close()


async def send(
    connections: Connections,
    method: str = "POST",
    timeout: float = 30.0,
    before: Callable[[], None] | None = None,
    most: float = inf,
) -> Answer:
    request = request_of(method, "/x", "server", {"User-Agent": "t"}, b"{}" if method == "POST" else None)
    return await connections.exchange(request, timeout=timeout, is_read=method == "GET", before=before, most=most)


ANSWERS: dict[str, tuple[tuple[bytes | None, ...], Answer, int]] = {
    "a length": ((OK,), GOOD, 1),
    "byte by byte": (tuple(OK[i : i + 1] for i in range(len(OK))), GOOD, 1),
    "chunks": (
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n}\r\n0\r\n\r\n"),
        Answer(201, None, b"{}"),
        1,
    ),
    "no body": ((b"HTTP/1.1 204 No Content\r\n\r\n",), Answer(204, None, b""), 1),
    "a body until the connection ends": ((b"HTTP/1.1 200 OK\r\n\r\n{", b"}", CLOSE), GOOD, 2),
    "401, to which another certificate may be the answer": (
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",),
        Answer(401, None, b""),
        2,
    ),
    "HTTP/1.0": ((b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",), GOOD, 2),
    "an interim answer before it": ((b"HTTP/1.1 100 Continue\r\n\r\n", OK), GOOD, 1),
    "Retry-After in any case": (
        (b"HTTP/1.1 429 Too Many Requests\r\nretry-AFTER: 7\r\nContent-Length: 0\r\n\r\n",),
        Answer(429, "7", b""),
        1,
    ),
    "the server wants to end the connection": (
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",),
        GOOD,
        2,
    ),
    "more than one answer": ((OK + OK,), GOOD, 2),
}


@pytest.mark.parametrize(("parts", "want", "connections_in_all"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_and_whether_its_connection_is_used_again(
    parts: tuple[bytes | None, ...], want: Answer, connections_in_all: int, server: Server, connections: Connections
) -> None:
    server.script += [parts, (OK,)]
    got = [await send(connections), await send(connections)]
    assert (got, server.connections) == ([want, GOOD], connections_in_all)


async def test_a_connection_that_rests_keeps_nothing_of_its_answer(server: Server, connections: Connections) -> None:
    page = b"x" * 2**20
    server.script.append((b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page), page))
    assert (await send(connections)).body == page
    (resting,) = connections._resting
    assert (resting._body, resting._headers) == ([], {})


async def test_an_answer_that_is_too_long_is_given_up_while_it_comes(server: Server, connections: Connections) -> None:
    begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{ \r\n"
    server.script += [(begun,), (OK,), (OK,)]
    with pytest.raises(TooLongError):
        await send(connections, "GET", most=1)
    with pytest.raises(TooLongError):
        await send(connections, "GET", most=1)
    got = await send(connections, "GET", most=2)
    assert (got, server.connections, len(server.requests)) == (GOOD, 3, 3)


async def test_a_request_is_one_write(server: Server, connections: Connections) -> None:
    server.script.append((OK,))
    await send(connections)
    assert server.requests == [b"POST /x HTTP/1.1\r\nHost: server\r\nUser-Agent: t\r\nContent-Length: 2\r\n\r\n{}"]


FAILURES: dict[str, tuple[bytes | None, ...]] = {
    "nothing": (CLOSE,),
    "half of the head": (OK[:20], CLOSE),
    "half of the body": (OK[:-1], CLOSE),
    "chunks without an end": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", CLOSE),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n",),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n",),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",),
}


@pytest.mark.parametrize("parts", FAILURES.values(), ids=FAILURES)
async def test_what_is_no_answer(parts: tuple[bytes | None, ...], server: Server, connections: Connections) -> None:
    server.script += [parts, (OK,)]
    with pytest.raises(DisconnectedError):
        await send(connections)
    assert (await send(connections), server.connections) == (GOOD, 2)


ENDED: dict[str, tuple[str, tuple[bytes | None, ...], int | None]] = {
    "a read that has no answer is sent again": ("GET", (CLOSE,), 3),
    "a read that has a part of its answer is not": ("GET", (OK[:9], CLOSE), None),
    "a write is not": ("POST", (CLOSE,), None),
}


@pytest.mark.parametrize(("method", "parts", "requests"), ENDED.values(), ids=ENDED)
async def test_a_connection_that_has_rested_and_ends(
    method: str, parts: tuple[bytes | None, ...], requests: int | None, server: Server, connections: Connections
) -> None:
    server.script += [(OK,), parts, (OK,)]
    await send(connections)
    if requests is None:
        with pytest.raises(DisconnectedError):
            await send(connections, method)
        assert len(server.requests) == 2
    else:
        assert (await send(connections, method), len(server.requests)) == (GOOD, requests)


@pytest.mark.parametrize("before", [(b"HTTP/1.1 204 No Content\r\n\r\n",), (OK,)])
async def test_an_earlier_answer_is_not_taken_for_the_present_one(
    before: tuple[bytes, ...], server: Server, connections: Connections
) -> None:
    server.script += [before, (CLOSE,)]
    await send(connections)
    with pytest.raises(DisconnectedError):
        await send(connections)
    assert not connections._resting


async def test_after_a_renewal_no_connection_is_used_again(server: Server, connections: Connections) -> None:
    server.script += [(OK,), (OK,)]
    await send(connections)
    connections.renew()
    await server.ended.wait()
    assert (await send(connections), server.connections) == (GOOD, 2)


async def test_a_connection_that_is_used_during_a_renewal_is_ended_after_it(
    server: Server, connections: Connections
) -> None:
    server.script += [(OK,), (OK,)]
    await send(connections, before=connections.renew)
    await server.ended.wait()
    assert (await send(connections), server.connections) == (GOOD, 2)


async def test_a_read_on_new_connections_is_sent_twice_at_most(server: Server, connections: Connections) -> None:
    server.script += [(CLOSE,), (OK,), (CLOSE,), (CLOSE,)]
    await send(connections, "GET")
    connections.renew()
    with pytest.raises(DisconnectedError):
        await send(connections, "GET")
    assert len(server.requests) == 4


RESTING: dict[str, Callable[[asyncio.StreamWriter], Any]] = {
    "the server closes it": lambda writer: writer.close(),
    "the server resets it": lambda writer: writer.transport.abort(),
    "the server says something nobody asked for": lambda writer: writer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
}


@pytest.mark.parametrize("event", RESTING.values(), ids=RESTING)
async def test_what_happens_to_a_connection_that_rests(
    event: Callable[[asyncio.StreamWriter], Any], server: Server, connections: Connections
) -> None:
    server.script += [(OK,), (OK,)]
    await send(connections)
    (resting,) = connections._all
    event(next(iter(server.open)))
    await resting.ended
    assert (await send(connections), server.connections) == (GOOD, 2)


async def test_a_connection_that_has_rested_for_too_long_is_ended(
    server: Server, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script += [(OK,), (OK,)]
    await send(connections)
    monkeypatch.setattr(exchange, "IDLE_SECONDS", -1.0)
    await send(connections)
    await server.ended.wait()
    assert server.connections == 2


async def test_exchanges_at_one_time_have_connections_of_their_own_and_the_last_one_is_used_next(
    server: Server, connections: Connections
) -> None:
    server.script += [(OK,)] * (MADE_AT_ONCE + 1)
    await asyncio.gather(*(send(connections) for _ in range(MADE_AT_ONCE)))
    await send(connections)
    assert (server.connections, len(connections._all)) == (MADE_AT_ONCE, MADE_AT_ONCE)


BURST = MADE_AT_ONCE + 4


class Making:
    """Connections are made only when they are let: `begun` have begun to be."""

    def __init__(self) -> None:
        self.begun = 0
        self.lets = asyncio.Semaphore(0)

    async def until(self, begun: int) -> None:
        while self.begun < begun:  # noqa: ASYNC110 - that it has begun nothing tells
            await asyncio.sleep(0)


@pytest.fixture
def making(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> Making:
    """And who waits for a connection waits for long: a machine may be slow.  The next one begins at once."""
    made, connect = Making(), connections._connect

    async def held(make: Any) -> Any:
        made.begun += 1
        await made.lets.acquire()
        return await connect(make)

    monkeypatch.setattr(connections, "_connect", held)
    monkeypatch.setattr(exchange, "WAIT_SECONDS", 60.0)
    monkeypatch.setattr(exchange, "NEXT_SECONDS", (0.0, 0.0))
    return made


def burst(connections: Connections) -> list[asyncio.Task[Answer]]:
    return [asyncio.create_task(send(connections, timeout=90.0)) for _ in range(BURST)]


async def test_of_a_burst_few_make_connections_and_the_others_take_those_that_are_given_back(
    server: Server, connections: Connections, making: Making
) -> None:
    server.script += [(OK,)] * BURST
    left = set(burst(connections))
    await making.until(MADE_AT_ONCE)
    for _ in range(100):
        await asyncio.sleep(0)
    assert making.begun == MADE_AT_ONCE
    making.lets.release()
    while len(left) > MADE_AT_ONCE:
        _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
    assert (making.begun, server.connections) == (MADE_AT_ONCE + 1, 1)
    for _ in left:
        making.lets.release()
    await asyncio.wait(left)
    assert (len(server.requests), len(connections._resting)) == (BURST, MADE_AT_ONCE + 1)


async def test_a_slow_server_gets_a_connection_for_each_exchange(
    server: Server, connections: Connections, making: Making
) -> None:
    tasks = burst(connections)
    for begun in range(MADE_AT_ONCE, BURST):
        await making.until(begun)
        assert making.begun == begun
        making.lets.release()
    await making.until(BURST)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


NEXT = {"a process with time to spare": (0.4, [5.0]), "a busy one": (0.6, [5.0, 40.0, 5.0])}
"""The share of a core that it takes, and the seconds until the next connection is begun after one."""


@pytest.mark.parametrize(("share", "steps"), NEXT.values(), ids=NEXT)
async def test_when_the_next_connection_of_a_burst_is_begun(
    share: float,
    steps: list[float],
    connections: Connections,
    making: Making,
    leap: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    monkeypatch.setattr("time.thread_time", lambda: share * (loop.time() - began))
    monkeypatch.setattr(exchange, "NEXT_SECONDS", (5.0, 50.0))
    tasks = burst(connections)
    await making.until(MADE_AT_ONCE)
    making.lets.release()
    for step in steps:
        for _ in range(100):
            await asyncio.sleep(0)
        assert making.begun == MADE_AT_ONCE
        leap(step)
    await making.until(MADE_AT_ONCE + 1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_server_that_ends_each_connection_holds_up_no_burst(
    server: Server, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "NEXT_SECONDS", (60.0, 60.0))
    server.script += [(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",)] * BURST
    assert await asyncio.gather(*burst(connections)) == [GOOD] * BURST
    assert server.connections == BURST


async def test_connections_that_hang_hold_up_the_others_for_a_moment(
    connections: Connections, making: Making, leap: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No longer than that, and then no more at one time than otherwise."""
    monkeypatch.setattr(exchange, "WAIT_SECONDS", 20.0)
    tasks = burst(connections)
    for begun in (1, 2, 3):
        for _ in range(100):
            await asyncio.sleep(0)
        assert making.begun == begun * MADE_AT_ONCE
        leap(20.0)
    leap(30.0)
    await asyncio.wait(tasks)
    assert {str(task.exception()) for task in tasks} == {f"no connection to {connections._address} in time"}


async def test_a_burst_that_nobody_listens_to() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        refused = Connections("127.0.0.1", taken.getsockname()[1], None, None)
        failed = await asyncio.gather(*burst(refused), return_exceptions=True)
    assert [type(each) for each in failed] == [NotConnectedError] * BURST


async def test_what_waits_for_a_connection_when_the_client_is_closed(connections: Connections, making: Making) -> None:
    tasks = burst(connections)
    await making.until(MADE_AT_ONCE)
    await connections.close()
    for _ in range(100):
        await asyncio.sleep(0)
    assert making.begun == BURST  # in vain: it waits for nobody any more
    for _ in tasks:
        making.lets.release()
    await asyncio.wait(tasks)
    assert {str(task.exception()) for task in tasks} == {"the client is closed"}


async def test_what_has_waited_in_vain_is_forgotten(connections: Connections, making: Making) -> None:
    tasks = [asyncio.create_task(send(connections, timeout=90.0)) for _ in range(MADE_AT_ONCE)]
    await making.until(MADE_AT_ONCE)
    for _ in range(20):
        with pytest.raises(NotConnectedError):
            await send(connections, timeout=0.001)
    assert not connections._waiting
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def rested(connections: Connections, server: Server, making: Making) -> Connection:
    """One that has rested, while no other one may be made."""
    server.script += [(OK,)] * 2
    making.lets.release()
    await send(connections)
    found = connections._rested()
    assert found is not None
    connections._making = {object() for _ in range(MADE_AT_ONCE)}
    return found


async def waiting(connections: Connections, count: int) -> list[asyncio.Task[Answer]]:
    tasks = [asyncio.create_task(send(connections)) for _ in range(count)]
    while len(connections._waiting) < count:  # noqa: ASYNC110 - that it waits nothing tells
        await asyncio.sleep(0)
    return tasks


async def test_an_exchange_that_is_given_up_when_it_gets_a_connection_leaves_it_to_the_next(
    server: Server, connections: Connections, making: Making
) -> None:
    connection = await rested(connections, server, making)
    given_up, following = await waiting(connections, 2)
    connections._give_back(connection)
    given_up.cancel()
    assert (await following, given_up.cancelled(), server.connections) == (GOOD, True, 1)


async def test_an_exchange_that_is_given_up_when_it_may_make_a_connection_leaves_that_to_the_next(
    server: Server, connections: Connections, making: Making
) -> None:
    (await rested(connections, server, making)).end()
    given_up, following = await waiting(connections, 2)
    connections._hand_over(None)
    given_up.cancel()
    making.lets.release()
    assert (await following, given_up.cancelled(), server.connections) == (GOOD, True, 2)


LOST: dict[str, Callable[[Connections, Connection], None]] = {
    "it ends": lambda _, connection: connection.end(),
    "none there is may be used again": lambda connections, _: connections.renew(),
}


@pytest.mark.parametrize("event", LOST.values(), ids=LOST)
async def test_a_connection_that_is_lost_when_an_exchange_gets_it(
    event: Callable[[Connections, Connection], None], server: Server, connections: Connections, making: Making
) -> None:
    connection = await rested(connections, server, making)
    (following,) = await waiting(connections, 1)
    connections._give_back(connection)
    event(connections, connection)
    making.lets.release()
    assert (await following, server.connections) == (GOOD, 2)


async def test_no_answer_in_time_ends_the_connection(
    server: Server, connections: Connections, leap: Callable[[float], None]
) -> None:
    sending = asyncio.create_task(send(connections))
    await server.asked.wait()
    leap(30)
    with pytest.raises(TimeoutError) as raised:
        await sending
    await server.ended.wait()
    assert (type(raised.value), len(server.requests)) == (TimeoutError, 1)


@pytest.mark.parametrize("timeouts", [(10.0, 30.0), (30.0, 10.0)])
async def test_each_exchange_ends_at_its_own_time(
    timeouts: tuple[float, float], server: Server, connections: Connections, leap: Callable[[float], None]
) -> None:
    tasks = [asyncio.create_task(send(connections, timeout=each)) for each in timeouts]
    while len(server.requests) < 2:
        server.asked.clear()
        await server.asked.wait()
    first, second = sorted(tasks, key=lambda task: timeouts[tasks.index(task)])
    leap(10)
    await asyncio.wait([first])
    assert not second.done()
    leap(20)
    await asyncio.wait([second])
    assert [type(task.exception()) for task in tasks] == [TimeoutError, TimeoutError]


async def test_an_exchange_that_is_given_up_ends_its_connection(server: Server, connections: Connections) -> None:
    task = asyncio.create_task(send(connections))
    await server.asked.wait()
    task.cancel()
    await server.ended.wait()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_what_must_not_be_sent_costs_no_connection(server: Server, connections: Connections) -> None:
    server.script.append((OK,))

    def no() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        await send(connections, before=no)
    assert (await send(connections), server.connections, len(server.requests)) == (GOOD, 1, 1)


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        refused = Connections("127.0.0.1", taken.getsockname()[1], None, None)
        with pytest.raises(NotConnectedError, match=r"cannot connect to 127\.0\.0\.1:"):
            await send(refused)


async def test_a_name_that_is_none() -> None:
    with pytest.raises(NotConnectedError, match="cannot connect"):
        await send(Connections("kube..example", 443, None, None))


async def test_a_connection_that_is_made_while_the_client_is_closed_is_not_used(
    server: Server, connections: Connections
) -> None:
    task = asyncio.create_task(send(connections))
    await asyncio.sleep(0)
    await connections.close()
    with pytest.raises(NotConnectedError, match="closed"):
        await task
    assert (server.requests, connections._resting) == ([], [])


async def test_a_server_that_does_not_shake_hands_was_sent_nothing(
    server: Server, leap: Callable[[float], None]
) -> None:
    silent = Connections("127.0.0.1", server.port, ssl.create_default_context(), None)
    gc.collect()
    gc.disable()
    try:
        sending = asyncio.create_task(send(silent))
        await server.asked.wait()  # to shake hands
        leap(30)
        with pytest.raises(NotConnectedError, match="in time"):
            await sending
        await server.ended.wait()
        assert not any(isinstance(each, httptools.HttpResponseParser) for each in gc.get_objects())
    finally:
        gc.enable()


async def closed_while_it_rests(connections: Connections, server: Server) -> None:
    server.script.append((OK,))
    await send(connections)
    await connections.close()


async def closed_while_it_is_used(connections: Connections, server: Server) -> None:
    task = asyncio.create_task(send(connections))
    await server.asked.wait()
    await connections.close()
    with pytest.raises(DisconnectedError):
        await task


@pytest.mark.parametrize("closing", [closed_while_it_rests, closed_while_it_is_used])
async def test_after_closing_there_is_no_connection(
    closing: Callable[[Connections, Server], Awaitable[None]], server: Server, connections: Connections
) -> None:
    await closing(connections, server)
    await server.ended.wait()
    with pytest.raises(NotConnectedError, match="closed"):
        await send(connections)
    assert not connections._all


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX: y", "a\r", "Bearer \u201ca\u201d"])
def test_a_header_that_is_not_one_line_of_ascii_is_not_sent(value: str) -> None:
    with pytest.raises(NotConnectedError, match="ASCII"):
        request_of("GET", "/", "server", {"Authorization": value}, None)


async def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(
    server: Server, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[object]] = []
    connection_made = exchange.Connection.connection_made

    def noted(self: Any, transport: asyncio.BaseTransport) -> None:
        made.append(weakref.ref(self))
        connection_made(self, transport)

    monkeypatch.setattr(exchange.Connection, "connection_made", noted)
    server.script = [(OK,)]
    gc.disable()
    try:
        assert await send(connections) == GOOD
        connections.renew()
        await asyncio.wait_for(server.ended.wait(), 30)
        await asyncio.sleep(0)
        assert [each() for each in made] == [None]
    finally:
        gc.enable()


async def test_a_connection_to_an_ip_address_takes_no_thread(server: Server, connections: Connections) -> None:
    server.script = [(OK,)]
    before = set(threading.enumerate())
    assert await send(connections) == GOOD
    assert set(threading.enumerate()) <= before


async def test_a_host_by_name_is_looked_up(server: Server) -> None:
    named = Connections("localhost", server.port, None, None)
    server.script = [(OK,)]
    assert await send(named) == GOOD
    await named.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAMS: dict[str, tuple[tuple[bytes | None, ...], int, bytes, type[Exception] | None]] = {
    "chunks": ((CHUNKED, b"2\r\nab\r\n", b"1\r\nc\r\n", b"0\r\n\r\n"), 200, b"abc", None),
    "all at once": ((CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",), 200, b"abc", None),
    "byte by byte": (tuple(bytes([each]) for each in CHUNKED + b"2\r\nab\r\n0\r\n\r\n"), 200, b"ab", None),
    "a length": ((OK,), 200, b"{}", None),
    "until the connection ends": ((b"HTTP/1.1 200 OK\r\n\r\n{", b"}", CLOSE), 200, b"{}", None),
    "no body": ((b"HTTP/1.1 204 No Content\r\n\r\n",), 204, b"", None),
    "a refusal": ((b"HTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\n{}",), 410, b"{}", None),
    "an interim answer before it": ((b"HTTP/1.1 100 Continue\r\n\r\n", OK), 200, b"{}", None),
    "cut within a chunk": ((CHUNKED, b"9\r\nab", CLOSE), 200, b"ab", DisconnectedError),
    "cut between chunks": ((CHUNKED, b"2\r\nab\r\n", CLOSE), 200, b"ab", DisconnectedError),
    "no HTTP after a chunk": ((CHUNKED, b"2\r\nab\r\nnonsense\r\n"), 200, b"ab", DisconnectedError),
}


async def opened(connections: Connections, seconds: float = 30.0) -> Stream:
    return await Stream.open(connections, request_of("GET", "/x", "server", {}, None), seconds)


async def read(stream: Stream) -> tuple[bytes, type[Exception] | None]:
    body = b""
    try:
        while part := await stream.next():
            body += part
    except (DisconnectedError, TimeoutError) as error:
        return body, type(error)
    return body, None


@pytest.mark.parametrize(("parts", "status", "body", "error"), STREAMS.values(), ids=STREAMS)
async def test_an_answer_that_is_read_while_it_comes(
    parts: tuple[bytes | None, ...],
    status: int,
    body: bytes,
    error: type[Exception] | None,
    server: Server,
    connections: Connections,
) -> None:
    server.script.append(parts)
    stream = await opened(connections)
    assert (stream.answer, await read(stream)) == (Answer(status, None, b""), (body, error))
    stream.close()
    await stream.ended
    assert not connections._all


async def test_a_stream_takes_no_connection_that_has_rested_and_leaves_none(
    server: Server, connections: Connections
) -> None:
    server.script += [(OK,)] * 3
    await send(connections)
    stream = await opened(connections)
    await read(stream)
    stream.close()
    await send(connections)
    assert (server.connections, len(connections._all)) == (2, 1)


@pytest.mark.parametrize("parts", [(CLOSE,), (OK[:20], CLOSE), (b"SSH-2.0-OpenSSH_9.2\r\n",)])
async def test_a_stream_without_a_head(
    parts: tuple[bytes | None, ...], server: Server, connections: Connections
) -> None:
    server.script.append(parts)
    with pytest.raises(DisconnectedError):
        await opened(connections)
    async with asyncio.timeout(30):
        while connections._all:  # noqa: ASYNC110 - that it has ended nothing tells
            await asyncio.sleep(0)


async def test_a_head_that_is_late_ends_the_connection(
    server: Server, connections: Connections, leap: Callable[[float], None]
) -> None:
    opening = asyncio.create_task(opened(connections))
    await server.asked.wait()
    leap(30)
    with pytest.raises(TimeoutError):
        await opening
    await server.ended.wait()


async def test_each_part_of_a_stream_has_its_time(
    server: Server, connections: Connections, leap: Callable[[float], None]
) -> None:
    server.script.append((CHUNKED,))
    stream = await opened(connections)
    (writer,) = server.open
    leap(20)
    writer.write(b"2\r\nab\r\n")
    assert await stream.next() == b"ab"
    leap(20)
    writer.write(b"2\r\ncd\r\n")
    assert await stream.next() == b"cd"
    silent = asyncio.create_task(stream.next())
    await asyncio.sleep(0)
    leap(30)
    with pytest.raises(TimeoutError):
        await silent
    stream.close()


@pytest.fixture(params=["over TCP", "over TLS"])
async def transported(
    request: pytest.FixtureRequest, server: Server, connections: Connections
) -> AsyncIterator[Connections]:
    """Connections to the server, with and without TLS."""
    if request.param == "over TCP":
        yield connections
        return
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    made = Connections("127.0.0.1", listening.sockets[0].getsockname()[1], trusting, None)
    yield made
    await made.close()
    listening.close()


async def test_what_nobody_reads_is_not_taken_from_the_server(
    server: Server, transported: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "_MOST_UNREAD", 2**20)
    size = 2**25
    server.script.append((b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, b"x" * size))
    stream = await opened(transported)
    async with asyncio.timeout(30):
        while stream._unread <= 2**20:  # noqa: ASYNC110 - what has come nothing tells
            await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert stream._unread <= 2**20 + exchange._READ_BYTES
    body, error = await read(stream)
    assert (len(body), error) == (size, None)
    stream.close()


async def test_a_stream_that_is_read_when_the_client_is_closed(server: Server, connections: Connections) -> None:
    server.script.append((CHUNKED,))
    stream = await opened(connections)
    reading = asyncio.create_task(stream.next())
    await asyncio.sleep(0)
    await connections.close()
    with pytest.raises(DisconnectedError):
        await reading
