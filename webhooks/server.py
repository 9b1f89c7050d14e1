"""The HTTPS server of the admission webhooks, one handler per path.  An error of a handler never refuses an object.

Invariants: a body that is not a review is answered with 400 and one line; when a handler raises, the object is allowed
unchanged with a warning for the user, code 500 is counted, and one log line names the place of the error, without a
traceback and without anything that the user sent.

Hazards: while it is down or hangs, the creation of a Pod takes up to the configuration's timeoutSeconds longer.  A slow
handler delays every review of this replica, because handlers run on the event loop one after the other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
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
from webhooks.review import Answer, BadReview, Handler

_log: Final = logging.getLogger(__name__)

MAX_BODY: Final = 8 * 1024 * 1024
DRAIN_SECONDS: Final = 5.0
"""How long running requests may take once the server is told to stop."""
_WRITE_SECONDS: Final = 1.0
"""How long writing the last answers may take after that."""
INTERNAL_ERROR: Final = 500
"""The code that is counted when a handler raised; the answer itself is a review with status 200."""
FAILED_OPEN: Final = Answer(warnings=("tollbar: internal error; the object was let through unchanged",))


class AdmissionServer(HttpServer):
    """A service that answers reviews.  Fails when the address is taken."""

    def __init__(
        self,
        address: Address,
        context: SSLContext,
        handlers: Mapping[str, Handler],
        *,
        clock: Clock,
        metrics: Metrics,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._clock = clock
        self._requests = metrics.counter("controller_runtime_webhook_requests_total")
        self._latency = metrics.histogram("controller_runtime_webhook_latency_seconds")
        self._in_flight = metrics.gauge("controller_runtime_webhook_requests_in_flight")
        self._panics = metrics.counter("controller_runtime_webhook_panics_total")
        self._drain_seconds = drain_seconds
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        app = web.Application(client_max_size=MAX_BODY)
        for path, handler in handlers.items():
            app.router.add_post(path, self._endpoint(path, handler))
        runner = web.AppRunner(
            app, access_log=None, logger=_http_log, shutdown_timeout=min(drain_seconds, _WRITE_SECONDS)
        )
        super().__init__("admission server", runner, address, context)

    async def drain(self) -> None:
        """Wait for running requests; aiohttp's own shutdown would cut off a request whose body is still arriving."""
        self._draining = True
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("requests did not finish in time", extra={"requests": self._running})

    def _endpoint(self, path: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
        latency, in_flight = self._latency.labels(path), self._in_flight.labels(path)

        async def endpoint(http: web.Request) -> web.Response:
            began = self._clock.monotonic()
            in_flight.inc()
            self._running += 1
            self._idle.clear()
            try:
                code, response = await _respond(path, handler, http)
            finally:
                in_flight.dec()
                self._running -= 1
                if not self._running:
                    self._idle.set()
            latency.observe(self._clock.monotonic() - began)
            self._requests.labels(path, code).inc()
            if code == INTERNAL_ERROR:
                self._panics.inc()
            if self._draining:
                response.force_close()  # the client finds another replica
            return response

        return endpoint


async def _respond(path: str, handler: Handler, http: web.Request) -> tuple[int, web.Response]:
    """The code to count, and the response."""
    try:
        request = review.parse(await http.read())
    except BadReview as error:
        return 400, web.Response(status=400, text=f"{error}\n")
    except web.HTTPRequestEntityTooLarge:
        return 413, web.Response(status=413, text=f"the review is larger than {MAX_BODY} bytes\n")
    code, body = _handle(path, handler, request)
    return code, web.Response(body=body, content_type="application/json")


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
