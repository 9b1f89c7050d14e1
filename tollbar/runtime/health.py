"""Probes and metrics over HTTP: /healthz and /readyz as the Kubernetes components answer them, /metrics for Prometheus.

Invariants: a check only reads memory and returns None or one sentence without user data; a check that raises has
failed; a process that is shutting down is not ready, whatever its checks return.

Hazards: while the event loop is blocked no probe is answered, which the kubelet counts as a failure; `LoopLag` also
reports it afterwards, so that repeated short blocks are noticed.
"""

import asyncio
import logging
import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from aiohttp import web

from tollbar.runtime.clock import Clock
from tollbar.runtime.config import Address
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.metricsauth import MetricsAuth
from tollbar.runtime.service import Background, Service, ServiceError

_log: Final = logging.getLogger(__name__)

Check: TypeAlias = Callable[[], str | None]
"""Returns None when the check passes, else why it fails."""

_BEAT: Final = 1.0
"""Seconds between two wake-ups by which the lag of the event loop is measured."""
_BEATS: Final = 10
"""So many of them, the last ones, count."""
_LAG_LIMIT: Final = 5.0
"""Seconds by which a wake-up may be late."""
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Health:
    """The named checks of a process: `alive` for the liveness probe, `ready` for the readiness probe."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._alive: dict[str, Check] = {"ping": lambda: None}
        self._ready: dict[str, Check] = {"ping": lambda: None, "shutdown": self._shutting_down}
        self._serving = False
        self._auth: MetricsAuth | None = None
        self.readiness: Service = Background("readiness", self._be_ready)
        """The process is ready only while this runs: put it in the last phase, so that it stops first."""

    def alive(self, name: str, check: Check) -> None:
        self._alive[name] = check

    def ready(self, name: str, check: Check) -> None:
        self._ready[name] = check

    def servers(self, probes: Address, metrics: Address, auth: MetricsAuth | None = None) -> tuple["HttpServer", ...]:
        """One server for the probes and one for /metrics, or one for both when the addresses are the same.

        With `auth`, which needs two addresses, /metrics is served over TLS to those whom it lets in.
        """
        self._auth = auth
        if probes == metrics:
            return (HttpServer("probes and metrics", self._runner(probes=True, metrics=True), probes),)
        return (
            HttpServer("probes", self._runner(probes=True), probes),
            HttpServer("metrics", self._runner(metrics=True), metrics, auth.context if auth else None),
        )

    def _runner(self, *, probes: bool = False, metrics: bool = False) -> web.AppRunner:
        app = web.Application()
        if probes:
            app.router.add_get("/healthz", self._healthz)
            app.router.add_get("/readyz", self._readyz)
        if metrics:
            app.router.add_get("/metrics", self._scrape)
        return web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def _healthz(self, request: web.Request) -> web.Response:
        return _report("healthz", self._alive, verbose="verbose" in request.query)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _report("readyz", self._ready, verbose="verbose" in request.query)

    async def _scrape(self, request: web.Request) -> web.Response:
        if self._auth is not None:
            verdict = await self._auth.verdict(request.headers.get("Authorization", ""), request.path)
            if verdict.status != 200:
                return web.Response(status=verdict.status, text=f"{verdict.text}\n")
        return web.Response(body=self._metrics.render(), headers={"Content-Type": _METRICS_TYPE})

    def _shutting_down(self) -> str | None:
        return None if self._serving else "the process is starting or winding down"

    async def _be_ready(self) -> None:
        self._serving = True
        try:
            await asyncio.Event().wait()
        finally:
            self._serving = False


def _report(endpoint: str, checks: dict[str, Check], *, verbose: bool) -> web.Response:
    failures = {name: _failure(check) for name, check in checks.items()}
    passed = not any(failures.values())
    if passed and not verbose:
        return web.Response(text="ok")
    lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in failures.items()]
    lines.append(f"{endpoint} check {'passed' if passed else 'failed'}")
    return web.Response(status=200 if passed else 500, text="\n".join(lines) + "\n")


def _failure(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        _log.exception("health check raised")
        return f"the check raised {type(error).__name__}"


class HttpServer:
    """A service: serves an aiohttp application.

    Raises ServiceError when it cannot listen, because the address is taken, say.
    """

    def __init__(
        self,
        name: str,
        runner: web.BaseRunner,
        address: Address,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.listening = asyncio.Event()
        self.port = address.port
        """The port in use once `listening` is set; differs from the address for port 0."""
        self._runner = runner
        self._tls = tls

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; then let running requests finish."""
        await self._runner.setup()
        try:
            try:
                self.port = await self.listen()
            except OSError as error:
                why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
                raise ServiceError(f"cannot listen at {self.address.host or '*'}:{self.port}: {why}") from error
            _log.info("listening", extra={"server": self.name, "port": self.port})
            self.listening.set()
            await stop.wait()
            await self.drain()
        finally:
            await self._runner.cleanup()

    async def listen(self) -> int:
        """Begin to serve; the port.  Raises OSError."""
        context = await self._tls() if self._tls else None
        site = web.TCPSite(self._runner, self.address.host or None, self.address.port, ssl_context=context)
        await site.start()
        return site.port

    async def drain(self) -> None:
        """Take no more connections, and wait for requests that aiohttp's own shutdown would cut off."""
        for site in self._runner.sites:
            await site.stop()


class LoopLag:
    """Measures the lag of the event loop (`run`), and a check of it.

    The check fails when one of the last ten wake-ups (one a second) was more than five seconds late, or the next one is
    overdue by as much.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late: deque[float] = deque(maxlen=_BEATS)
        self._beat: float | None = None

    def check(self) -> str | None:
        if self._beat is None:
            return None
        overdue = self._clock.monotonic() - self._beat - _BEAT
        worst = max(overdue, *self._late, 0.0)
        return f"the event loop was blocked for {worst:.1f} s" if worst > _LAG_LIMIT else None

    async def run(self) -> None:
        """Measure until cancelled."""
        self._beat = self._clock.monotonic()
        while True:
            await self._clock.sleep(_BEAT)
            now = self._clock.monotonic()
            self._late.append(now - self._beat - _BEAT)
            self._beat = now
