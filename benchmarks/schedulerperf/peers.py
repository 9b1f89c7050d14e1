"""The schedulers that are compared: how each is started and stopped, and what can be read of its process."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import yaml
from processes.stack import Process, Stack

from benchmarks.processes import watched
from benchmarks.processes.watched import Stalls
from tollbar.devplane.layout import SCHEDULER
from tollbar.model.objects import Object

QPS: Final = 5000
"""scheduler_perf's limit of its client, and the burst."""
NAME: Final = "default-scheduler"
_RAISED: Final = {"qps": QPS, "burst": QPS}
_HEADER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Peer(Protocol):
    """A scheduler.  `start` returns when it is ready; `pid` is None before its process runs and after it has ended."""

    user: str

    async def start(self, configuration: Object) -> None: ...

    async def stop(self) -> None: ...

    @property
    def pid(self) -> int | None: ...

    def metrics(self) -> str: ...

    def stalls(self, end: float) -> Stalls:
        """How long its event loop was held at each reading until then.  Call it after `stop`."""
        ...


@dataclass
class KubeScheduler:
    stack: Stack
    limits: Mapping[str, Any]
    user: str = "system:kube-scheduler"

    async def start(self, configuration: Object) -> None:
        plane = self.stack.plane
        connection = {"kubeconfig": str(plane.layout.identity(SCHEDULER)), **self.limits}
        file = self.stack.directory / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump({**_HEADER, **configuration, "clientConnection": connection}))
        flags = {**plane.options.flags, SCHEDULER: (*_gates(plane.options.flags), f"--config={file}")}
        plane.options = replace(plane.options, flags=flags)
        await asyncio.to_thread(plane.start_component, SCHEDULER)

    async def stop(self) -> None:
        if self.pid is not None:
            await asyncio.to_thread(self.stack.plane.stop_component, SCHEDULER)

    @property
    def pid(self) -> int | None:
        return self.stack.plane.pids.get(SCHEDULER)

    def metrics(self) -> str:
        return self.stack.plane.metrics(SCHEDULER)

    def stalls(self, end: float) -> Stalls:
        """It has no event loop."""
        del end
        return Stalls([], [])


@dataclass
class Tollbar:
    """In the place of kube-scheduler, as the only scheduler, with all devices its own."""

    stack: Stack
    limits: Mapping[str, Any]
    user: str = "system:serviceaccount:tollbar-system:tollbar-scheduler"

    async def start(self, configuration: Object) -> None:
        shutil.rmtree(self._stalls, ignore_errors=True)
        os.environ[watched.DIRECTORY] = str(self._stalls)
        given = {**configuration, "clientConnection": dict(self.limits), "profiles": profiles(configuration)}
        await asyncio.to_thread(
            lambda: self.stack.scheduler(module="benchmarks.processes.watched", verbosity=0, **given)
        )

    async def stop(self) -> None:
        if (running := self._running) is not None:
            await asyncio.to_thread(running.stop)

    @property
    def pid(self) -> int | None:
        running = self._running
        return None if running is None else running.child.pid

    def metrics(self) -> str:
        assert self._running is not None
        return self._running.exposed()

    def stalls(self, end: float) -> Stalls:
        return watched.read(self._stalls, end)

    @property
    def _running(self) -> Process | None:
        process = self.stack.running.get("scheduler")
        return process if process is not None and process.child.poll() is None else None

    @property
    def _stalls(self) -> Path:
        return self.stack.directory / "stalls"


def profiles(configuration: Object) -> list[Object]:
    """The profiles of a configuration, by default one for all Pods, that let Tollbar allocate all devices."""
    found = []
    for profile in configuration.get("profiles") or [{"schedulerName": NAME}]:
        plugins = [*(profile.get("pluginConfig") or ()), {"name": "DynamicResources", "args": {"exclusive": "all"}}]
        found.append({**profile, "pluginConfig": plugins})
    return found


def contenders(stack: Stack) -> dict[str, Peer]:
    """By the column of the report."""
    return {
        DEFAULT: KubeScheduler(stack, {}),
        RAISED: KubeScheduler(stack, _RAISED),
        TOLLBAR: Tollbar(stack, _RAISED),
    }


DEFAULT, RAISED, TOLLBAR = COLUMNS = (
    "kube-scheduler, default limits",
    "kube-scheduler, limits raised",
    "Tollbar, limits raised",
)


def _gates(flags: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(flag for flag in flags.get(SCHEDULER, ()) if flag.startswith("--feature-gates"))


def peak_rss(pid: int) -> float:
    """The most memory that a process has had, in MiB (proc_pid_status(5)).  Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1024
    return float("nan")
