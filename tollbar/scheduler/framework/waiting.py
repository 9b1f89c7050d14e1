"""Pods between Permit and Bind: those that wait to be allowed, and those whose PreBind is under way.

Source: waiting_pods_map.go and pods_in_prebind_map.go in pkg/scheduler/framework/runtime.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final

from tollbar.api import durations
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.status import Code, Status, failed

MAX_WAIT: Final = 15 * 60.0
"""The longest time for which a plugin can let a Pod wait, in seconds."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Permit lets the Pod wait: for so many seconds at most, by plugin."""

    seconds: Mapping[str, float]


class PermitWait:
    """One Pod that Permit lets wait, from `now` on, a time in seconds."""

    def __init__(self, pod: PodInfo, waits: Waits, now: float) -> None:
        self.pod = pod
        self.status: Status | None = None
        """Why it is not bound, once that is decided."""
        self._pending = {plugin: (now + seconds, seconds) for plugin, seconds in waits.seconds.items()}
        self._decided = asyncio.Event()

    @property
    def pending_plugins(self) -> list[str]:
        return list(self._pending)

    def allow(self, plugin: str) -> None:
        self._pending.pop(plugin, None)
        if not self._pending:
            self._decided.set()

    def reject(self, plugin: str, message: str) -> bool:
        return self._stop(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        return self._stop(Status(Code.ERROR, (message,), plugin))

    def expire(self, now: float) -> None:
        """Reject the Pod if a plugin has let it wait as long as it may."""
        deadline, seconds, plugin = min((*times, plugin) for plugin, times in self._pending.items())
        if deadline <= now:
            self.reject(plugin, f"rejected due to timeout after waiting {durations.text(seconds)} at plugin {plugin}")

    async def decision(self, clock: Callable[[], float]) -> Status | None:
        """Wait until the Pod is allowed, which is None, or rejected; it is rejected when its time is over."""
        while not self._decided.is_set():
            try:
                async with asyncio.timeout(min(deadline for deadline, _ in self._pending.values()) - clock()):
                    await self._decided.wait()
            except TimeoutError:
                self.expire(clock())
        return self.status

    def _stop(self, status: Status) -> bool:
        if self._decided.is_set():
            return False
        self.status = status
        self._decided.set()
        return True


class PreBinding:
    """One Pod whose PreBind is under way; `plugin` is the one at work, or the first of several."""

    def __init__(self) -> None:
        self.plugin = ""
        self._task: asyncio.Task[Status | None] | None = None
        self._reason = ""

    async def run(self, work: Coroutine[None, None, Status | None]) -> Status | None:
        """What the work returns, or the Error of one that was cancelled."""
        self._task = asyncio.ensure_future(work)
        try:
            status = await self._task
        except asyncio.CancelledError:
            if not self._reason or not self._task.done() or is_cancelled():
                raise
            return failed(f'running PreBind plugin "{self.plugin}": {self._reason}')
        return failed(self._reason) if self._reason else status

    def cancel(self, message: str) -> bool:
        if self._task is None or self._task.done():
            return False
        self._reason = self._reason or message
        self._task.cancel()
        return True


def is_cancelled() -> bool:
    """Whether somebody wants the running task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@dataclass(frozen=True, slots=True)
class InBinding:
    """The Pods of all profiles that wait for Permit, and those whose PreBind is under way, by uid."""

    waiting: dict[str, PermitWait] = field(default_factory=dict)
    pre_binding: dict[str, PreBinding] = field(default_factory=dict)
