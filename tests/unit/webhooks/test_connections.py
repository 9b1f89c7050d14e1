"""What connections may hold: too many of them, too many bytes, and clients that never come to an end."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from unit.webhooks.serving import BODY, PATIENT, Running

from tollbar.runtime.metrics import Metrics
from webhooks.connections import LIMITS, Connections, Limits

REVIEW = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
OK = b"HTTP/1.1 200 OK"


class Client:
    """One connection."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams

    async def review(self, review: bytes = REVIEW) -> bytes:
        """Send it; the first line of the answer."""
        self.writer.write(review)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: "))
        await self.reader.readexactly(int(length.split()[1]))
        return head.split(b"\r\n")[0]

    async def begin(self, declared: int, sent: int) -> None:
        """A request whose body goes on after what is sent of it."""
        self.writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % declared + b" " * sent)
        await self.writer.drain()

    async def ends(self) -> bytes:
        """What comes until the server has closed the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""
        finally:
            self.writer.transport.abort()


async def serve(metrics: Metrics, limits: Limits) -> Running:
    return await Running(metrics, drain_seconds=0.01, limits=limits).start()


async def test_of_too_many_connections_the_one_that_did_nothing_for_longest_gives_way(metrics: Metrics) -> None:
    running = await serve(metrics, replace(PATIENT, connections=2))
    first, second = Client(await running.connect()), Client(await running.connect())
    answers = [await first.review()]
    third = Client(await running.connect())
    answers += [await second.ends(), await first.review(), await third.review()]
    await running.stop()
    assert (answers, running.shed()) == ([OK, b"", OK, OK], {"connections": 1.0})


async def test_a_client_that_does_not_even_shake_hands_counts_as_a_connection(metrics: Metrics) -> None:
    running = await serve(metrics, replace(PATIENT, connections=1))
    silent = Client(await asyncio.open_connection("127.0.0.1", running.port))
    other = Client(await running.connect())
    answers = [await silent.ends(), await other.review()]
    await running.stop()
    assert (answers, running.shed()) == ([b"", OK], {"connections": 1.0})


class Transport:
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_one_that_is_closed_at_the_moment_when_its_handshake_ends_is_given_up(metrics: Metrics) -> None:
    nothing: Any = None
    transport: Any = Transport()
    Connections(nothing, nothing, LIMITS, metrics).opened(nothing, transport)
    assert transport.is_aborted


async def test_of_too_many_bytes_those_of_the_largest_body_are_given_up(metrics: Metrics) -> None:
    running = await serve(metrics, replace(PATIENT, held_bytes=4 * len(BODY)))
    large, small = Client(await running.connect()), Client(await running.connect())
    await large.begin(9 * len(BODY), 3 * len(BODY))
    await small.begin(9 * len(BODY), 2 * len(BODY))
    other = Client(await running.connect())
    answers = [await large.ends(), await other.review()]
    await running.stop()
    assert (answers, running.shed()) == ([b"", OK], {"bytes": 1.0})


async def test_what_was_answered_is_no_longer_held(metrics: Metrics) -> None:
    running = await serve(metrics, replace(PATIENT, held_bytes=len(BODY)))
    client = Client(await running.connect())
    answers = [await client.review() for _ in range(3)]
    await running.stop()
    assert (answers, running.shed()) == ([OK] * 3, {})


SLOW = {
    "no handshake": None,
    "a body without an end": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    "a chunked body without an end": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
async def test_a_request_that_does_not_come_in_time_is_given_up(
    metrics: Metrics, sent: bytes | None, leap: Callable[[float], None]
) -> None:
    running = await serve(metrics, PATIENT)
    trust = None if sent is None else running.trust
    client = Client(await asyncio.open_connection("127.0.0.1", running.port, ssl=trust))
    client.writer.write(sent or b"")
    ending = asyncio.create_task(client.ends())
    while not ending.done():  # what was sent arrives meanwhile, and begins a time of its own
        leap(PATIENT.read_seconds / 4)
        await asyncio.wait([ending], timeout=0.01)
    await running.stop()
    assert (await ending, running.shed()) == (b"", {"timeout": 1.0})


async def test_a_connection_without_a_request_rests_longer_than_the_api_server_keeps_it(
    metrics: Metrics, leap: Callable[[float], None]
) -> None:
    """It opens some that it uses later, and would use one that is being closed."""
    running = await serve(metrics, LIMITS)
    new, half, used = [Client(await running.connect()) for _ in range(3)]
    half.writer.write(b"POST /echo HTTP/1.1\r\nHost: ")
    answers = [await used.review()]
    leap(91)
    answers += [await new.review(), await used.review()]
    leap(LIMITS.idle_seconds)
    answers += [await each.ends() for each in (new, half, used)]
    await running.stop()
    assert (answers, running.shed()) == ([OK] * 3 + [b""] * 3, {"timeout": 3.0})


async def test_a_chunked_body_that_grows_too_large_is_refused_before_it_ends(metrics: Metrics) -> None:
    running = await serve(metrics, replace(PATIENT, review_bytes=100))
    client = Client(await running.connect())
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await client.review(head + b"80\r\n" + b" " * 128 + b"\r\n")
    client.writer.transport.abort()
    await running.stop()
    assert (answer, running.counted()) == (b"HTTP/1.1 413 Request Entity Too Large", {"/echo 413": 1.0})
