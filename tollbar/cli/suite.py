"""Webhook and controllers, running from this installation against any cluster, for as long as a block lasts.

Used by `dev` and `demo`.  The order is that of a careful installation: definitions, our SchedulingGate, certificates,
processes, and the webhook configurations last, when there is somebody to answer; on the way out the reverse, with a
drain first, so that no Pod is left waiting.

Hazard: the API server must be on this machine, since it calls the webhook on a loopback port; `reached` says whether it
does.  If it does not, Pods are created unchanged (the configurations fail open) and get their tolerations late.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tollbar.cli import certs, processes
from tollbar.cli.applying import Applied
from tollbar.cli.drain import drain
from tollbar.cli.processes import HOST, Process, Sink
from tollbar.runtime import config
from tollbar.runtime.client import Client
from tollbar.runtime.clock import SystemClock

READY_SECONDS: Final = 60.0
REACHED_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Suite:
    """What runs: the children by name, who they act as, and whether the API server reaches the webhook."""

    processes: Mapping[str, Process]
    user: str
    webhook_url: str
    reached: bool

    async def died(self) -> None:
        """Wait until a child ends by itself.  Raises ProcessDied then."""
        await asyncio.gather(*(process.died() for process in self.processes.values()))


@asynccontextmanager
async def running(
    client: Client, kubeconfig: str, *, admission: str, report: Callable[[str], None], sink: Sink, draining: bool = True
) -> AsyncGenerator[Suite, None]:
    """Start, wait until everything is ready, and undo all of it at the end.

    `report` gets a line for each step, `sink` the lines of the children's logs.  Without `draining` the cluster is one
    that goes away as well: nothing is drained or removed, only the children end.  Raises ClickException and ApiError.
    """
    with tempfile.TemporaryDirectory(prefix="tollbar-dev-") as directory:
        async with AsyncExitStack() as undo:
            applied = Applied(client, report)
            await applied.take_over()
            if draining:
                undo.push_async_callback(applied.undo)
            await applied.definitions()
            user = await applied.gate()
            report(f"applied the definitions, and the SchedulingGate with {user} as an owner")
            authority, arguments, ports = await asyncio.to_thread(_prepare, Path(directory), kubeconfig, admission)
            children = {}
            for name, argv in arguments.items():
                children[name] = await Process.start(name, argv, sink)
                undo.push_async_callback(_stop, children[name], report)
            for name, child in children.items():
                await processes.ready(child, ports[name], timeout=READY_SECONDS)
                report(f"{name} is ready (pid {child.pid})")
            if draining:
                undo.push_async_callback(drain, client, clock=SystemClock(), report=report)
            url = f"https://{HOST}:{ports['admission']}"
            await applied.webhooks(url, authority)
            yield Suite(children, user, url, await applied.answered(timeout=REACHED_SECONDS))


async def _stop(child: Process, report: Callable[[str], None]) -> None:
    polite = await child.stop()
    report(f"{child.name} has ended" if polite else f"{child.name} did not end in time and was killed")


def _prepare(directory: Path, kubeconfig: str, admission: str) -> tuple[bytes, dict[str, list[str]], dict[str, int]]:
    """The CA, each child's arguments, and ports by use: `admission`, and the probes of each child."""
    serving, *others = processes.free_ports(5)
    probes = dict(zip(("webhook", "controllers"), others, strict=False))
    metrics = dict(zip(("webhook", "controllers"), others[2:], strict=True))
    authority = certs.make(directory, [HOST])
    arguments = {}
    for name, module in (("webhook", "webhooks"), ("controllers", "controllers")):
        configuration = config.load(
            None,
            {
                "admission": admission,
                "leaderElection.enabled": False,
                "health.bindAddress": f"{HOST}:{probes[name]}",
                "metrics.bindAddress": f"{HOST}:{metrics[name]}",
                "webhook.port": serving,
                "webhook.certFile": str(directory / "tls.crt"),
                "webhook.keyFile": str(directory / "tls.key"),
            },
        )
        file = directory / f"{name}.yaml"
        file.write_text(config.dump(configuration))
        arguments[name] = ["-m", module, "--kubeconfig", kubeconfig, "--config", str(file)]
    return authority, arguments, {"admission": serving, **probes}
