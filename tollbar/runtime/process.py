"""What the webhook and the controllers have in common as processes: log, API clients, exit code.

Called by the entry points with a function that makes their services; the rest of a process's life is in `manager`.

Invariants: every client is closed at the end; a configuration or a server that cannot be used is one line of the log
and exit code 1, never a stack trace.
"""

import asyncio
import atexit
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, TypeAlias

import tollbar
from tollbar.runtime import log, manager
from tollbar.runtime.client import Client
from tollbar.runtime.config import Configuration
from tollbar.runtime.errors import ApiError, KubeconfigError
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.service import Service

_log: Final = logging.getLogger(__name__)

_GC_THRESHOLDS: Final = (50_000, 50, 1_000)
"""Caches are large and their objects live long: with the defaults most of a first list's time goes to the collector."""

Connect: TypeAlias = Callable[[], Awaitable[Client]]
"""Makes one more client, with the configured limits."""
Assemble: TypeAlias = Callable[[Configuration, Metrics, Connect], Awaitable[Sequence[Sequence[Service]]]]
"""Makes the services of a process, in the order in which they start; they stop in reverse."""


def run(name: str, assemble: Assemble, configuration: Configuration, kubeconfig: str | None) -> int:
    """Run the process `name` until SIGTERM or SIGINT; 0 then, 1 when something failed or could not start."""
    log.configure(configuration.log.format, configuration.log.verbosity)
    gc.set_threshold(*_GC_THRESHOLDS)
    atexit.register(gc.freeze)  # or the last collections go through all that was ever imported, for a fifth of a second
    try:
        return asyncio.run(_run(name, assemble, configuration, kubeconfig))
    except (KubeconfigError, ApiError) as error:
        _log.error("no way to the API server", extra={"error": str(error)})
        return 1


async def _run(name: str, assemble: Assemble, configuration: Configuration, kubeconfig: str | None) -> int:
    metrics = Metrics()
    metrics.gauge("tollbar_build_info").labels(tollbar.__version__).set(1)
    limits = configuration.client_connection
    async with AsyncExitStack() as clients:

        async def connect() -> Client:
            client = await Client.connect(
                kubeconfig=kubeconfig,
                qps=limits.qps,
                burst=limits.burst,
                in_flight=limits.in_flight,
                metrics=metrics,
                user_agent=f"tollbar-{name}/{tollbar.__version__}",
            )
            clients.push_async_callback(client.close)
            return client

        return await manager.run(await assemble(configuration, metrics, connect))
