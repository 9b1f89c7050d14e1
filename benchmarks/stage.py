"""Where workloads run: a real control plane of their own, with Tollbar installed but not running yet.

kube-scheduler does not run, since its work on released Pods would be measured as well.  kube-controller-manager runs,
because namespaces need it; it has nothing to do for claims that Pods refer to by name.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import orjson
from processes.stack import Stack

from tollbar.cli import console
from tollbar.devplane.audit import AuditLog, Record, parse
from tollbar.devplane.layout import API_SERVER
from tollbar.devplane.real.components import Options
from tollbar.model.objects import Object
from tollbar.model.resources import NAMESPACES, PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import Client
from tollbar.wellknown import SYSTEM_NAMESPACE

OPTIONS: Final = Options(scheduler=False)

_T = TypeVar("_T")
_CREATING: Final = 32
_CLEARING_SECONDS: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stage:
    """`admin` is for set-up and clean-up; `peer`, what a workload compares with, has the controllers' identity."""

    stack: Stack
    admin: Client
    peer: Client

    async def namespace(self, name: str) -> str:
        """A new namespace in which Pods can be created; its name."""
        await self.admin.create(NAMESPACES, {**NAMESPACES.type_meta, "metadata": {"name": name}})
        self.stack.plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
        return name

    async def create(self, resource: Resource, objects: Iterable[Object]) -> list[Object]:
        """Create many objects; returns them as stored, in no particular order."""
        stored = []

        async def one(obj: Object) -> None:
            stored.append(await self.admin.create(resource, obj))

        await in_parallel(objects, one, at_once=_CREATING)
        return stored

    async def clear(self, namespace: str, *resources: Resource) -> None:
        """Delete every object of these kinds in a namespace, of Pods and claims if none is named, and see them gone."""
        options = orjson.dumps({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
        for resource in resources or (PODS, RESOURCE_CLAIMS):
            path = resource.path(namespace)
            async with asyncio.timeout(_CLEARING_SECONDS):
                while (await self.admin.list(resource, namespace, limit=1))["items"]:
                    await self.admin.raw("DELETE", path, options, timeout=_CLEARING_SECONDS)

    def api_server_cpu(self) -> float:
        """CPU seconds of the API server since its start."""
        return cpu_seconds(self.stack.plane.pids[API_SERVER])

    def tail(self) -> "Tail":
        """The audit log from now on."""
        return Tail(self.stack.plane.audit)


@asynccontextmanager
async def clients(stack: Stack) -> AsyncGenerator[Stage, None]:
    """The stage for an installation, for as long as the block lasts."""
    controllers = stack.plane.service_account_kubeconfig(SYSTEM_NAMESPACE, "tollbar-controllers")
    async with (
        console.connected(console.Cluster(str(stack.plane.kubeconfig)), "benchmark-setup") as admin,
        console.connected(console.Cluster(str(controllers)), "benchmark") as peer,
    ):
        yield Stage(stack, admin, peer)


class Tail:
    """Reads the audit log as it grows; each record is decoded once.

    The records have the times of the answers by the API server's own clock, and reading them costs neither the server
    nor the measured process anything, as polling them would.
    """

    def __init__(self, log: AuditLog) -> None:
        self._path = log.path
        self._at = log.position()

    def read(self) -> list[Record]:
        """The records since the last call."""
        with self._path.open("rb") as log:
            log.seek(self._at)
            lines = log.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._at += len(complete)
        return [parse(json.loads(line)) for line in complete.splitlines()]


async def in_parallel(items: Iterable[_T], work: Callable[[_T], Awaitable[object]], *, at_once: int) -> None:
    """Work through the items in order, at most `at_once` at the same time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(at_once):
            workers.create_task(worker())


def cpu_seconds(pid: int) -> float:
    """User and system time of a process since its start, in steps of 10 ms (proc_pid_stat(5)).  Linux only."""
    # The second field is the name in parentheses, which may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
