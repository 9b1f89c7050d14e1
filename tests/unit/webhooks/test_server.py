"""The server over real TLS: what goes in and comes out, failing open, limits, and the end of a process."""

import asyncio
import gzip
import logging
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
from unit.webhooks.serving import ALLOWED, BODY, HANDLERS, Running

from tollbar.runtime.clock import SystemClock
from tollbar.runtime.config import Address
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.service import ServiceError
from webhooks.connections import LIMITS
from webhooks.server import AdmissionServer
from webhooks.tls import new_context

MAX_REVIEW = LIMITS.review_bytes


@pytest.fixture
async def running(metrics: Metrics) -> AsyncIterator[Running]:
    server = await Running(metrics).start()
    yield server
    await server.stop()


async def test_a_review_is_answered_by_the_handler_of_its_path(running: Running) -> None:
    assert await running.post("/echo?timeout=2s", BODY) == (200, {**ALLOWED, "warnings": ["CREATE"]})


FAILING = {
    "a handler that raises": ("/broken", "KeyError", "serving.py broken"),
    "an answer that is no JSON": ("/unprintable", "TypeError", "review.py render"),
    "a handler without an end": ("/recursive", "RecursionError", "serving.py recursive"),
}


@pytest.mark.parametrize(("path", "error", "place"), FAILING.values(), ids=FAILING)
async def test_a_failure_of_ours_lets_the_object_through_with_a_warning_a_count_and_one_line(
    running: Running, caplog: pytest.LogCaptureFixture, path: str, error: str, place: str
) -> None:
    answer = await running.post(path, BODY)
    lines = [
        (record.getMessage(), record.webhook, record.object, record.error, _without_line(record.place), record.exc_info)
        for record in caplog.records
    ]
    panics = running.metrics.registry.get_sample_value("controller_runtime_webhook_panics_total")
    assert (answer, running.counted(), panics, lines) == (
        (200, {**ALLOWED, "warnings": ["tollbar: internal error; the object was let through unchanged"]}),
        {f"{path} 500": 1.0},
        1.0,
        [("admission failed, the object was let through unchanged", path, "ml/web-", error, place, None)],
    )


REFUSED = {
    "no review": ("/echo", b"{}", 400, "the body is not an AdmissionReview\n"),
    "too long": ("/echo", b" " * (MAX_REVIEW + 1), 413, "the review is larger than 3145728 bytes\n"),
}


@pytest.mark.parametrize(("path", "body", "code", "text"), REFUSED.values(), ids=REFUSED)
async def test_what_is_no_review_is_refused_in_one_line_and_counted(
    running: Running, path: str, body: bytes, code: int, text: str
) -> None:
    assert (await running.post(path, body), running.counted()) == ((code, text), {f"{path} {code}": 1.0})


async def test_a_review_as_large_as_a_request_to_the_api_server_is_taken(running: Running) -> None:
    assert await running.post("/echo", BODY + b" " * (MAX_REVIEW - len(BODY))) == (
        200,
        {**ALLOWED, "warnings": ["CREATE"]},
    )


async def test_what_is_compressed_is_not_unpacked(running: Running) -> None:
    status, text = await running.post("/echo", gzip.compress(BODY), **{"Content-Encoding": "gzip"})
    assert (status, text.partition(":")[0]) == (400, "the body is not JSON")


async def test_other_paths_and_methods_are_not_served(running: Running) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"https://127.0.0.1:{running.port}/echo", ssl=running.trust) as got:
            pass
        async with session.post(f"https://127.0.0.1:{running.port}/", ssl=running.trust) as posted:
            pass
    assert (got.status, posted.status) == (405, 404)


async def test_http_2_is_never_agreed_upon(running: Running) -> None:
    running.trust.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await running.connect()
    chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()
    assert chosen == "http/1.1"


async def test_tls_before_1_2_is_not_spoken(running: Running) -> None:
    running.trust.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        running.trust.maximum_version = ssl.TLSVersion.TLSv1_1
    running.trust.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await running.connect()


async def test_a_client_that_speaks_no_http_leaves_a_line_without_a_traceback(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await running.connect()
    writer.write(b"POST /echo HTTP/1.1\r\nContent-Length: nonsense\r\n\r\n")
    await reader.read()
    writer.close()
    assert [(record.levelname, bool(record.error), record.exc_info) for record in caplog.records] == [
        ("WARNING", True, None)
    ]


async def test_a_client_that_goes_away_or_speaks_no_tls_leaves_no_traceback(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    _, gone = await running.connect()
    gone.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    await gone.drain()
    gone.transport.abort()
    reader, plain = await asyncio.open_connection("127.0.0.1", running.port)
    plain.write(b"GET / HTTP/1.0\r\n\r\n")
    await reader.read()
    plain.close()
    await running.post("/echo", BODY)
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING] == []


async def test_a_request_that_has_begun_is_finished_when_the_server_stops(metrics: Metrics) -> None:
    running = await Running(metrics).start()
    reader, writer = await running.connect()
    idle, idle_writer = await running.connect()
    writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n")
    writer.write(b"Content-Length: %d\r\n\r\n" % len(BODY))
    await reader.readuntil(b"100 Continue\r\n\r\n")  # the handler runs, and waits for the body
    in_flight = [running.in_flight("/echo")]
    writer.write(BODY[:10])
    stopping = asyncio.create_task(running.stop())
    while not _is_free(running.port):  # noqa: ASYNC110 - nothing says when a listener is gone
        await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        await running.connect()
    writer.write(BODY[10:])
    answer = await reader.read()
    await stopping
    in_flight.append(running.in_flight("/echo"))
    assert (answer.split(b"\r\n")[0], b"Connection: close" in answer, await idle.read(), running.counted()) == (
        b"HTTP/1.1 200 OK",
        True,
        b"",
        {"/echo 200": 1.0},
    )
    assert in_flight == [1.0, 0.0]
    writer.close()
    idle_writer.close()


async def test_a_request_that_never_ends_does_not_keep_the_server_from_stopping(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    running = await Running(metrics, drain_seconds=0.01).start()
    reader, writer = await running.connect()
    writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
    await reader.readuntil(b"100 Continue\r\n\r\n")
    await running.stop()
    lines = [(record.getMessage(), record.requests, record.exc_info) for record in caplog.records]
    assert (await reader.read(), lines) == (b"", [("requests did not finish in time", 1, None)])
    writer.close()


def _is_free(port: int) -> bool:
    """Whether nobody listens; found out without a connection that the server would have to end."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _without_line(place: str) -> str:
    file, _, rest = place.partition(":")
    return f"{file} {rest.partition(' ')[2]}"


async def test_an_address_that_is_taken_is_an_error(running: Running, metrics: Metrics) -> None:
    other = AdmissionServer(
        Address("127.0.0.1", running.port), new_context, HANDLERS, clock=SystemClock(), metrics=metrics
    )
    with pytest.raises(ServiceError, match="Address already in use"):
        await other.run(asyncio.Event())
