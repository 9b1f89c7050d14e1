"""Starts a process: sets up its log, API clients and manager, then runs it with `tollbar.runtime.chassis`.

Invariants: every client is closed at the end; unusable credentials or an API server that does not answer are one log
line and exit code 1, without a stack trace.
"""

import asyncio
import logging
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, TypeAlias

import tollbar
from tollbar import cel
from tollbar.runtime import chassis, collector, log
from tollbar.runtime.budget import SHARE, Budget, memory_limit
from tollbar.runtime.client import Client
from tollbar.runtime.clock import LoopClock
from tollbar.runtime.config import Configuration
from tollbar.runtime.errors import ApiError, KubeconfigError
from tollbar.runtime.manager import Manager
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.outage import Outage

_log: Final = logging.getLogger(__name__)

_TLS_BUFFER: Final = 64 * 1024
"""Bytes that asyncio reads at once from a connection with TLS, instead of 256 KiB.  It allocates a buffer of that size
for every connection, and OpenSSL keeps as much of what it has been given: of a hundred connections up to 60 MB."""

Setup: TypeAlias = Callable[[Manager], Awaitable[None]]
"""Declares the stores that the process reads, and registers what it runs."""


def run(name: str, setup: Setup, configuration: Configuration, kubeconfig: str | None) -> int:
    """Run the process `name` until SIGTERM or SIGINT; 0 then, 1 when something failed or could not start."""
    log.configure(configuration.log.format, configuration.log.verbosity)
    cel.use_engine(configuration.cel_engine)
    collector.tune()
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
    try:
        return asyncio.run(_run(name, setup, configuration, kubeconfig))
    except (KubeconfigError, ApiError) as error:
        _log.error("cannot use the API server", extra={"error": str(error)})
        return 1


async def _run(name: str, setup: Setup, configuration: Configuration, kubeconfig: str | None) -> int:
    metrics = Metrics()
    metrics.gauge("tollbar_build_info").labels(tollbar.__version__).set(1)
    limits = configuration.client_connection
    clock = LoopClock(asyncio.get_running_loop())
    outage = Outage(clock)
    async with AsyncExitStack() as clients:

        async def connect() -> Client:
            client = await Client.connect(
                kubeconfig=kubeconfig,
                qps=limits.qps,
                burst=limits.burst,
                in_flight=limits.in_flight,
                metrics=metrics,
                user_agent=f"tollbar-{name}/{tollbar.__version__}",
                clock=clock,
                outage=outage,
            )
            clients.push_async_callback(client.close)
            return client

        limit = memory_limit()
        budget = Budget(int(SHARE * limit))
        about = {"budget": budget.most, "limit": limit}
        _log.info("objects that may become stubs have a part of the memory", extra=about)
        manager = Manager(configuration, await connect(), metrics, clock=clock, budget=budget)
        await setup(manager)
        return await chassis.run(manager.phases(await connect() if manager.elects else None))
