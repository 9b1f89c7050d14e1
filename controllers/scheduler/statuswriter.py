"""Writes what the scheduler says of Pods into their status, one call at a time for each Pod.

What is said is written after a delay, of few Pods at a time, and nothing of a Pod that is bound by then: most Pods that
are nominated to a Node are bound to it at once, and most that are rejected because a claim of theirs is just being
allocated get a Node in the next attempt.  Where the API server is slow, bindings do not wait for what they make
needless.  What an attempt says of a nomination is written at once: without that of preemption the Pod would preempt
others again, and where one ends, the watch that shows it wakes the Pods that the promised room was kept from.

What is said meanwhile, or while a call about the Pod is under way, is merged into the next call, and what the Pod's
status says already is not written.  A write that fails is logged and not repeated: the next attempt to schedule the Pod
says the same again.  A binding waits for the call about its Pod that is under way: the API server may take up two calls
in either order, and a Pod with a Node would say that it has none.

Source: pkg/scheduler/backend/api_dispatcher.
"""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from controllers.scheduler import status
from tollbar.model.objects import Object, spec, uid_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.runtime.store import Store
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.handle import Calls

_log: Final = logging.getLogger(__name__)
_MOST: Final = 16
"""Delayed status writes that are under way at one time; those that are not delayed do not wait for them."""


@dataclass(slots=True)
class _Wanted:
    """What is to be written about one Pod."""

    pod: PodInfo
    reason: str = ""
    message: str = ""
    nominated_node_name: str | None = None


@dataclass(slots=True)
class StatusWriter:
    """`pods` is the store that has the Pods; it is told what was written.  `delay` is in seconds."""

    calls: Calls
    pods: Store
    clock: Clock
    delay: float = 0.0
    _wanted: dict[str, _Wanted] = field(default_factory=dict)
    _under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """By the uid of the Pod."""
    _due: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _ready: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """By uid, what has been delayed and waits for its turn."""
    _tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    await asyncio.Event().wait()
                finally:
                    self._tasks = None
                    for timer in self._due.values():
                        timer.cancel()
        finally:
            self._due.clear()
            self._ready.clear()
            self._wanted.clear()
            self._under_way.clear()

    def write(
        self, pod: PodInfo, *, reason: str = "", message: str = "", nominated_node_name: str | None = None
    ) -> None:
        """Set the condition PodScheduled to False, with a reason; set or clear the nominated Node, unless None."""
        wanted = self._wanted.get(pod.uid) or _Wanted(pod)
        wanted.pod = pod
        if reason:
            wanted.reason, wanted.message = reason, message
        if nominated_node_name is not None:
            wanted.nominated_node_name = nominated_node_name
        is_under_way = pod.uid in self._under_way
        if pod.uid not in self._wanted and not is_under_way and self._is_said(wanted):
            return
        self._wanted[pod.uid] = wanted
        if self._tasks is None or is_under_way:
            return
        ends = nominated_node_name == "" and bool(pod.nominated_node_name)
        if not self.delay or (reason and (nominated_node_name or ends)):
            self._begin(pod.uid, self._tasks)
        elif pod.uid not in self._due and pod.uid not in self._ready:
            self._due[pod.uid] = asyncio.get_running_loop().call_later(self.delay, self._is_due, pod.uid)

    async def forget(self, uid: str) -> None:
        """The Pod is about to be bound: drop what has not been written, and wait for the call that is under way."""
        self._wanted.pop(uid, None)
        self._wait_no_more(uid)
        if (writing := self._under_way.get(uid)) is not None:
            await asyncio.wait([writing])

    def _is_due(self, uid: str) -> None:
        del self._due[uid]
        self._ready[uid] = None
        self._begin_next()

    def _begin_next(self) -> None:
        while self._tasks is not None and self._ready and len(self._under_way) < _MOST:
            self._begin(next(iter(self._ready)), self._tasks)

    def _begin(self, uid: str, tasks: asyncio.TaskGroup) -> None:
        self._wait_no_more(uid)
        self._under_way[uid] = tasks.create_task(self._write_all(uid))

    def _wait_no_more(self, uid: str) -> None:
        self._ready.pop(uid, None)
        if (timer := self._due.pop(uid, None)) is not None:
            timer.cancel()

    async def _write_all(self, uid: str) -> None:
        try:
            while (wanted := self._wanted.pop(uid, None)) is not None:
                try:
                    await self._write(wanted)
                except Exception:  # of a text that cannot be sent, say: it is a plugin's, and concerns this Pod alone
                    _log.exception("cannot update the status of a pod", extra={"pod": str(wanted.pod.key)})
        finally:
            self._under_way.pop(uid, None)
            self._begin_next()

    def _is_said(self, wanted: _Wanted) -> bool:
        """Whether there is nothing to write.  Raises nothing, since a scheduling cycle asks."""
        try:
            return self._patch(wanted) is None
        except Exception:  # of a status that makes no sense, say: writing it fails, too, and is logged
            return False

    def _patch(self, wanted: _Wanted) -> Object | None:
        """Of a Pod that still waits, as the store shows it; None if there is nothing to write."""
        pod = self.pods.get(wanted.pod.key)
        if pod is None or uid_of(pod) != wanted.pod.uid or spec(pod).get("nodeName"):
            return None
        return status.patch(
            pod,
            self.clock.now(),
            reason=wanted.reason,
            message=wanted.message,
            nominated_node_name=wanted.nominated_node_name,
        )

    async def _write(self, wanted: _Wanted) -> None:
        patch = self._patch(wanted)
        if patch is None:
            return
        try:
            self.pods.assume(await self.calls.patch_pod_status(wanted.pod, patch))
        except NotFound:
            return
        except ApiError as error:
            extra = {"pod": str(wanted.pod.key), "error": str(error)}
            _log.log(error.level(logging.WARNING), "cannot update the status of a pod", extra=extra)
