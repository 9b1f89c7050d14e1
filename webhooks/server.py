"""The HTTPS server of the admission webhooks, one handler per path.  An error of a handler never refuses an object.

Invariants: connections and bodies are limited (`webhooks.connections`), and nothing above the limits is parsed; a body
that is not a review is answered with 400 and one line, one that is too large with 413; when a handler raises, the
object is allowed unchanged with a warning for the user, code 500 is counted, and one log line names the place of the
error, without a traceback and without anything that the user sent.

Hazards: while it is down or hangs, the creation of a Pod takes up to the configuration's timeoutSeconds longer.  A slow
handler delays every review of this replica, because handlers run on the event loop one after the other.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from ssl import SSLContext
from typing import Final

from aiohttp import web

from tollbar.model.objects import Key, Object, metadata
from tollbar.runtime.clock import Clock
from tollbar.runtime.config import Address
from tollbar.runtime.health import HttpServer
from tollbar.runtime.metrics import Metrics
from webhooks import review
from webhooks.connections import LIMITS, Connections, Limits
from webhooks.review import Answer, BadReview, Handler

_log: Final = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 5.0
"""How long running requests may take once the server is told to stop."""
_WRITE_SECONDS: Final = 1.0
"""How long writing the last answers may take after that."""
INTERNAL_ERROR: Final = 500
"""The code that is counted when a handler raised; the answer itself is a review with status 200."""
_LINGER_SECONDS: Final = 1.0
"""How long the rest of a body that is too large is read, so that the client sees the answer."""
FAILED_OPEN: Final = Answer(warnings=("tollbar: internal error; the object was let through unchanged",))


class AdmissionServer(HttpServer):
    """A service that answers reviews.  Fails when the address is taken.

    `context` is asked for every new connection.
    """

    def __init__(
        self,
        address: Address,
        context: Callable[[], SSLContext],
        handlers: Mapping[str, Handler],
        *,
        clock: Clock,
        metrics: Metrics,
        limits: Limits = LIMITS,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._clock = clock
        self._handlers = handlers
        self._limits = limits
        self._requests = metrics.counter("controller_runtime_webhook_requests_total")
        self._latency = metrics.histogram("controller_runtime_webhook_latency_seconds")
        self._in_flight = metrics.gauge("controller_runtime_webhook_requests_in_flight")
        self._panics = metrics.counter("controller_runtime_webhook_panics_total")
        self._drain_seconds = drain_seconds
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        server = _Server(
            self._respond,
            access_log=None,
            logger=_http_log,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,  # the API server sends none compressed, others could send little that becomes much
        )
        self._connections = server.known = Connections(server, context, limits, metrics)
        runner = web.ServerRunner(server, shutdown_timeout=min(drain_seconds, _WRITE_SECONDS))
        super().__init__("admission server", runner, address)

    async def listen(self) -> int:
        return await self._connections.listen(self.address)

    async def drain(self) -> None:
        """Wait for running requests; aiohttp's own shutdown would cut off a request whose body is still arriving."""
        self._draining = True
        await self._connections.stop()
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("requests did not finish in time", extra={"requests": self._running})

    async def _respond(self, http: web.BaseRequest) -> web.Response:
        handler = self._handlers.get(http.path)
        if handler is None:
            return web.Response(status=404)
        if http.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        began, in_flight = self._clock.monotonic(), self._in_flight.labels(http.path)
        in_flight.inc()
        self._running += 1
        self._idle.clear()
        try:
            code, response = await self._answer(http, handler)
        finally:
            in_flight.dec()
            self._running -= 1
            if not self._running:
                self._idle.set()
        self._latency.labels(http.path).observe(self._clock.monotonic() - began)
        self._requests.labels(http.path, code).inc()
        if code == INTERNAL_ERROR:
            self._panics.inc()
        if self._draining:
            response.force_close()  # the client finds another replica
        return response

    async def _answer(self, http: web.BaseRequest, handler: Handler) -> tuple[int, web.Response]:
        """The code to count, and the response."""
        self._connections.begins(http.protocol)
        try:
            request = review.parse(await self._read(http))
            code, body = _handle(http.path, handler, request)
            return code, web.Response(body=body, content_type="application/json")
        except BadReview as error:
            return 400, web.Response(status=400, text=f"{error}\n")
        except (ConnectionError, web.RequestPayloadError) as error:
            error.__traceback__ = None  # the request keeps the error, and its frames would keep the body
            return 400, web.Response(status=400, text="the body is not complete\n")
        except _TooLarge:
            response = web.Response(status=413, text=f"the review is larger than {self._limits.review_bytes} bytes\n")
            response.force_close()
            return 413, response
        finally:
            self._connections.answered(http.protocol)

    async def _read(self, http: web.BaseRequest) -> bytearray:
        """The body.  Raises _TooLarge; ConnectionError or RequestPayloadError when the connection ends before it."""
        if (http.content_length or 0) > self._limits.review_bytes:
            raise _TooLarge
        if http.headers.get("Expect", "").lower() == "100-continue":
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        async for part in http.content.iter_any():
            body += part
            if len(body) > self._limits.review_bytes:
                raise _TooLarge
            self._connections.holds(http.protocol, len(body))
        return body


class _TooLarge(Exception):
    """The body is larger than any review."""


class _Server(web.Server):
    """Reports connections that are opened and closed."""

    known: Connections

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.known.opened(handler, transport)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.known.closed(handler)


def _handle(path: str, handler: Handler, request: Object) -> tuple[int, bytes]:
    """The code to count and the review to answer with."""
    try:
        return 200, review.render(request, handler(request))
    except Exception as error:
        _log.error(
            "admission failed, the object was let through unchanged",
            extra={
                "webhook": path,
                "object": _name(request),
                "error": type(error).__name__,
                "place": _place(error),
            },
        )
        return INTERNAL_ERROR, review.render(request, FAILED_OPEN)


def _name(request: Object) -> str:
    obj = request.get("object")
    meta = metadata(obj) if isinstance(obj, dict) else {}
    generated = meta.get("generateName") if isinstance(meta, dict) else ""
    return str(Key(request.get("namespace") or "", request.get("name") or generated or ""))


def _place(error: BaseException) -> str:
    """Where the error was raised: file, line and function."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name}"


class _WithoutTraceback(logging.Filter):
    """Turns aiohttp's errors about clients that send no HTTP or disconnect into warnings without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            record.error = type(record.exc_info[1]).__name__
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


_http_log: Final = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_WithoutTraceback())
