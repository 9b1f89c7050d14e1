"""Webhook and controllers as processes of this installation, against any cluster, for as long as a block lasts.

It starts with the definitions, the SchedulingGate, certificates and processes; the webhook configurations come last,
when the webhook is ready.  It ends in the reverse order, with a drain first, so that no Pod is left waiting.

The API server must be on this machine, since it calls the webhook on a loopback port; `reached` says whether it does.
If not, Pods are created unchanged (the configurations fail open) and get their tolerations late.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tollbar.cli import certs, processes, reservations
from tollbar.cli.applying import Applied
from tollbar.cli.drain import drain
from tollbar.cli.processes import Process, Sink
from tollbar.devplane.ports import HOST, free_ports
from tollbar.gates import Gate
from tollbar.runtime import config
from tollbar.runtime.certs import TLS_CERT, TLS_KEY
from tollbar.runtime.client import Client
from tollbar.runtime.clock import SystemClock

_MODULES: Final = {"webhook": "webhooks", "controllers": "controllers"}
READY_SECONDS: Final = 60.0
REACHED_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Suite:
    """What runs: the children by name, and whether the API server reaches the webhook."""

    processes: Mapping[str, Process]
    webhook_url: str
    reached: bool

    async def died(self) -> None:
        """Wait until a child ends by itself.  Raises ProcessDied then."""
        await asyncio.gather(*(process.died() for process in self.processes.values()))

    async def until_interrupted(self) -> None:
        """The same, but return when this task is cancelled: Ctrl-C is the usual way to end, and no error."""
        try:
            await self.died()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The children's configuration; `probes` are the ports of /readyz."""

    webhook_url: str
    authority: bytes
    arguments: Mapping[str, Sequence[str]]
    probes: Mapping[str, int]


@asynccontextmanager
async def running(
    client: Client,
    kubeconfig: str,
    *,
    admission: str,
    claims: str = "Complement",
    gates: Mapping[str, Gate] | None = None,
    report: Callable[[str], None],
    sink: Sink,
    draining: bool = True,
) -> AsyncGenerator[Suite, None]:
    """Start, wait until everything is ready, and undo all of it at the end.

    `gates` are gate classes to run as well, by the names of their entry points.

    `report` gets a line for each step, `sink` the lines of the children's logs.  Without `draining`, for a cluster that
    ends as well, nothing is drained or removed, only the children end.  Raises ClickException and ApiError.
    """
    with tempfile.TemporaryDirectory(prefix="tollbar-dev-") as directory:
        async with AsyncExitStack() as undo:
            applied = Applied(client, report)
            await applied.take_over()
            if draining:
                undo.push_async_callback(applied.undo)
            await applied.apply_definitions()
            gates = gates or {}
            user = await applied.apply_gate()
            await applied.apply_gates_of(gates.values(), user)
            report(f"applied the definitions, and the SchedulingGate with {user} as an owner")
            planning = asyncio.ensure_future(
                asyncio.to_thread(_plan, Path(directory), kubeconfig, admission, claims, [*gates])
            )
            undo.push_async_callback(asyncio.wait, [planning])  # threads go on, and this one writes to the directory
            plan = await asyncio.shield(planning)
            if draining:
                undo.push_async_callback(_free, client, report)
            children = {}
            for name, arguments in plan.arguments.items():
                children[name] = await Process.start(name, arguments, sink)
                undo.push_async_callback(_stop, children[name], report)
            for name, child in children.items():
                await processes.ready(child, plan.probes[name], timeout=READY_SECONDS)
                report(f"{name}: ready (pid {child.pid})")
            if draining:
                undo.push_async_callback(_drain, client, report)
            await applied.apply_webhooks(plan.webhook_url, plan.authority, gates.values())
            yield Suite(children, plan.webhook_url, await applied.is_reached(timeout=REACHED_SECONDS))


async def _drain(client: Client, report: Callable[[str], None]) -> None:
    drained = await drain(client, clock=SystemClock(), report=report)
    report(f"Pods released: {drained.released}, still held: {drained.remaining}")
    for refusal in drained.refused:
        report(f"{refusal.pod}: {refusal.reason}")


async def _free(client: Client, report: Callable[[str], None]) -> None:
    """Remove the reservations for workloads, after the controllers have ended: nobody else would."""
    done = await reservations.give_back(client)
    if done.handed_over or done.freed or done.remaining:
        given = f"claims freed: {done.freed}, handed over to their Pods: {done.handed_over}"
        report(f"{given}, still reserved: {done.remaining}")


async def _stop(child: Process, report: Callable[[str], None]) -> None:
    ended_in_time = await child.stop()
    report(f"{child.name}: ended" if ended_in_time else f"{child.name}: did not end in time and was killed")


def _plan(directory: Path, kubeconfig: str, admission: str, claims: str, gates: Sequence[str]) -> _Plan:
    """Choose ports, make the certificate, write each child's configuration."""
    serving, *others = free_ports(1 + 2 * len(_MODULES))
    probes = dict(zip(_MODULES, others[::2], strict=True))
    metrics = dict(zip(_MODULES, others[1::2], strict=True))
    arguments = {}
    for name, module in _MODULES.items():
        configuration = config.load(
            None,
            {
                "admission": admission,
                "claims": claims,
                "gates": gates,
                "leaderElection.enabled": False,
                "health.bindAddress": f"{HOST}:{probes[name]}",
                "metrics.bindAddress": f"{HOST}:{metrics[name]}",
                "webhook.host": HOST,
                "webhook.port": serving,
                "webhook.certFile": str(directory / TLS_CERT),
                "webhook.keyFile": str(directory / TLS_KEY),
                "certificates.managed": False,
            },
        )
        file = directory / f"{name}.yaml"
        file.write_text(config.dump(configuration))
        arguments[name] = ["-m", module, "--kubeconfig", kubeconfig, "--config", str(file)]
    return _Plan(f"https://{HOST}:{serving}", certs.make(directory, [HOST]), arguments, probes)
