"""Evictions: how the victims of preemption are deleted, beside the scheduling cycle that has chosen them.

Source: Executor in pkg/scheduler/framework/preemption/executor.go, with asynchronous preemption (KEP-4832).
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final

from tollbar.model import conditions
from tollbar.model.objects import Key, metadata
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.scheduler.cache.podinfo import DISRUPTION_TARGET, PREEMPTED, PodInfo
from tollbar.scheduler.framework.handle import Handle

_log: Final = logging.getLogger(__name__)


class Evictions:
    """The evictions under way, by the uid of the Pod that they make room for."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        self._handle = handle
        self._plugin = plugin
        self._preempting: set[str] = set()
        self._last_victims: dict[str, Key] = {}
        """The last victim of each preemption, while its deletion is requested."""

    def is_under_way(self, uid: str) -> bool:
        """Whether the deletions for this Pod are still being requested.

        The last one counts as done once the cache shows it, which may be before its answer arrives: what wakes the Pod
        is that deletion, and the Pod must not be held back then.
        """
        if uid not in self._preempting:
            return False
        last = self._last_victims.get(uid)
        if last is None:
            return True
        victim = self._handle.listers.pods.get(last)
        return victim is not None and "deletionTimestamp" not in metadata(victim)

    def start(self, pod: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        """Delete these Pods to make room for `pod` on this Node; those that terminate already are left alone."""
        self._handle.metrics.preempted(len(victims))
        left = [each for each in victims if not each.is_terminating]
        if left:
            self._preempting.add(pod.uid)
            self._handle.start(self._carry_out(pod, node_name, left))

    async def _carry_out(self, pod: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        """Delete the last victim when all others are on their way.

        Where no deletion will wake the Pod, because one failed or the last victim was not bound yet, it is activated.
        """
        wake = True
        try:
            has_failed = await self._clear_nominations(pod, node_name)
            *others, last = victims
            if not await _together("preemption failed", [self._evict(pod, node_name, each) for each in others]):
                self._last_victims[pod.uid] = last.key
                wake = await self._evict(pod, node_name, last) or has_failed
        except ApiError as error:
            _log.warning("preemption failed", extra={"error": str(error)})
        finally:
            self._preempting.discard(pod.uid)
            self._last_victims.pop(pod.uid, None)
            if wake:
                self._handle.activate([pod])

    async def _clear_nominations(self, pod: PodInfo, node_name: str) -> bool:
        """Pods of lower priority are not to wait for this Node: they look for another one.  True if a call failed."""
        nominated = self._handle.nominator.nominated_pods(node_name)
        lower = [each for each in nominated if each.priority < pod.priority and each.nominated_node_name]
        cleared = {"status": {"nominatedNodeName": None}}
        calls = [self._handle.calls.patch_pod_status(each, cleared) for each in lower]
        return await _together("a nomination could not be cleared", calls)

    async def _evict(self, pod: PodInfo, node_name: str, victim: PodInfo) -> bool:
        """Whether the victim was still being bound, so that it only had to be stopped; else it is deleted."""
        note = f"Preempted by pod {pod.uid} on node {node_name}"
        in_memory = self._stop_binding(victim)
        if in_memory:
            note += " (in kube-scheduler memory)."
        else:
            try:
                await self._mark(pod, victim)
                await self._handle.calls.delete_pod(victim)
            except NotFound:
                return False
        self._handle.event(victim, "Normal", "Preempted", "Preempting", note)
        return in_memory

    def _stop_binding(self, victim: PodInfo) -> bool:
        if (waiting := self._handle.waiting_pods.get(victim.uid)) is not None:
            return waiting.preempt(self._plugin, "preempted")
        in_pre_bind = self._handle.pods_in_pre_bind.get(victim.uid)
        return in_pre_bind is not None and in_pre_bind.cancel(f"preempted by {self._plugin}")

    async def _mark(self, pod: PodInfo, victim: PodInfo) -> None:
        """Say in the victim's status why it goes: condition DisruptionTarget (KEP-3329)."""
        given = (victim.object.get("status") or {}).get("conditions")
        marked = conditions.with_condition(
            given,
            type_=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
            generation=metadata(victim.object).get("generation") or 0,
            now=self._handle.now(),
        )
        if marked != given:
            condition = conditions.find(marked, DISRUPTION_TARGET)
            await self._handle.calls.patch_pod_status(victim, {"status": {"conditions": [condition]}})


async def _together(problem: str, calls: Iterable[Awaitable[Any]]) -> bool:
    """Make these calls at once and log what goes wrong; whether anything did."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    errors = [each for each in answers if isinstance(each, BaseException)]
    for error in errors:
        _log.warning(problem, extra={"error": str(error)})
    return bool(errors)
