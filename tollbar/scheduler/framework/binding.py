"""From the chosen Node to the bound Pod: Reserve and Permit, with which a scheduling cycle ends, and the binding cycle.

The binding cycle (PreBind, Bind and PostBind) is coroutines: one runs for each Pod that is being bound.

Source: pkg/scheduler/framework/runtime/framework.go.
"""

import asyncio

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.answers import as_error, rejection_or_error, status_of
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.instrumented import InstrumentedPlugins, code_of, timed
from tollbar.scheduler.framework.interface import PreBind, PreFlight, Wait
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.status import SKIP, Code, Status, failed
from tollbar.scheduler.framework.waiting import MAX_WAIT, PermitWait, PreBinding, Waits


class Binding(InstrumentedPlugins):
    """The extension points of a Pod that has a Node."""

    @timed(Point.RESERVE)
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """The first answer that is no success, upon which the caller has to call `unreserve`."""
        for plugin in self.plugins.reserve:
            answer = self._ask(Point.RESERVE, plugin.name, state, plugin.reserve, state, pod, node_name)
            if (status := status_of(answer)) is not None:
                return rejection_or_error("Reserve", plugin.name, status)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        """Undo Reserve of all plugins, in reverse order; the Errors of those that raise."""
        started = self.clock()
        failures = []
        for plugin in reversed(self.plugins.reserve):
            answer = self._ask(Point.UNRESERVE, plugin.name, state, plugin.unreserve, state, pod, node_name)
            if isinstance(answer, Status):
                failures.append(as_error(f'running Unreserve plugin "{plugin.name}"', answer).with_plugin(plugin.name))
        self.metrics.point(Point.UNRESERVE, Code.SUCCESS, self.clock() - started)
        return failures

    @timed(Point.PERMIT)
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Waits | None:
        """Whether the Pod may be bound, may not, or has to wait (`add_waiting_pod`)."""
        waits = {}
        for plugin in self.plugins.permit:
            answer = self._ask(Point.PERMIT, plugin.name, state, plugin.permit, state, pod, node_name)
            if isinstance(answer, Wait) and isinstance(answer.seconds, int | float):
                waits[plugin.name] = min(answer.seconds, MAX_WAIT)
            elif (status := status_of(answer)) is not None:
                return rejection_or_error("Permit", plugin.name, status).with_plugin(plugin.name)
        return Waits(waits) if waits else None

    def add_waiting_pod(self, pod: PodInfo, waits: Waits) -> None:
        self.in_binding.waiting[pod.uid] = PermitWait(pod, waits, self.clock())

    def is_waiting(self, pod: PodInfo) -> bool:
        return pod.uid in self.in_binding.waiting

    async def wait_on_permit(self, pod: PodInfo) -> Status | None:
        """Wait until all plugins allow the Pod, or one rejects it or has let it wait for too long."""
        waiting = self.in_binding.waiting.get(pod.uid)
        if waiting is None:
            return None
        started = self.clock()
        try:
            status = await waiting.decision(self.clock)
        finally:
            del self.in_binding.waiting[pod.uid]
        self.metrics.permit_wait(code_of(status), self.clock() - started)
        if status is None or status.is_rejected:
            return status
        return as_error("waiting on permit for pod", status).with_plugin(status.plugin)

    @timed(Point.PRE_BIND_PRE_FLIGHT)
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Success if a PreBind plugin has work to do, Skip if none has, or an Error."""
        skipped, parallel = set(), set()
        for plugin in self.plugins.pre_bind:
            call = plugin.pre_bind_pre_flight
            answer = self._ask(Point.PRE_BIND_PRE_FLIGHT, plugin.name, state, call, state, pod, node_name)
            if isinstance(answer, PreFlight):
                if answer.allow_parallel:
                    parallel.add(plugin.name)
                continue
            status = status_of(answer)
            match status:
                case None:
                    continue
                case Status(code=Code.SKIP):
                    skipped.add(plugin.name)
                case Status(code=Code.ERROR):
                    return as_error(f'running PreBindPreFlight "{plugin.name}"', status)
                case _:
                    return failed(
                        f'PreBindPreFlight {plugin.name} returned "{status.code.value}", which is unsupported.'
                        " It is supposed to return Success, Skip, or Error status"
                    )
        state.skip_pre_bind, state.parallel_pre_bind = frozenset(skipped), frozenset(parallel)
        return None if len(skipped) < len(self.plugins.pre_bind) else SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run PreBind, plugins beside their neighbours where both allow it; the first failure ends the others.

        While it runs the Pod is among `in_binding.pre_binding`, where preemption can end it.
        """
        started = self.clock()
        entry = self.in_binding.pre_binding[pod.uid] = PreBinding()
        try:
            status = await entry.run(self._pre_bind(entry, state, pod, node_name))
        finally:
            del self.in_binding.pre_binding[pod.uid]
        self.metrics.point(Point.PRE_BIND, code_of(status), self.clock() - started)
        return status

    async def _pre_bind(self, entry: PreBinding, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for group in self._pre_bind_groups(state):
            entry.plugin = group[0].name
            failures: list[_Failed] = []
            try:
                async with asyncio.TaskGroup() as tasks:
                    for plugin in group:
                        tasks.create_task(self._pre_bind_one(plugin, state, pod, node_name))
            except* _Failed as failed_ones:
                failures += [each for each in failed_ones.exceptions if isinstance(each, _Failed)]
            if failures:
                return failures[0].status
        return None

    async def _pre_bind_one(self, plugin: PreBind, state: CycleState, pod: PodInfo, node_name: str) -> None:
        answer = await self._await(Point.PRE_BIND, plugin.name, state, plugin.pre_bind, state, pod, node_name)
        if (status := status_of(answer)) is not None:
            raise _Failed(rejection_or_error("PreBind", plugin.name, status))

    def _pre_bind_groups(self, state: CycleState) -> list[list[PreBind]]:
        groups: list[list[PreBind]] = [[]]
        for plugin in self.plugins.pre_bind:
            is_parallel = plugin.name in state.parallel_pre_bind
            if not is_parallel:
                groups.append([])
            if plugin.name not in state.skip_pre_bind:
                groups[-1].append(plugin)
            if not is_parallel:
                groups.append([])
        return [each for each in groups if each]

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the Pod by the first plugin that does not return Skip; Skip if all do."""
        started = self.clock()
        status = await self._bind(state, pod, node_name)
        self.metrics.point(Point.BIND, code_of(status), self.clock() - started)
        return status

    async def _bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin in self.plugins.bind:
            status = status_of(await self._await(Point.BIND, plugin.name, state, plugin.bind, state, pod, node_name))
            if status is None:
                return None
            if status.code is not Code.SKIP:
                return rejection_or_error("Bind", plugin.name, status)
        return SKIP

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        """Tell all plugins that the Pod is bound; the Errors of those that raise."""
        started = self.clock()
        failures = []
        for plugin in self.plugins.post_bind:
            answer = await self._await(Point.POST_BIND, plugin.name, state, plugin.post_bind, state, pod, node_name)
            if isinstance(answer, Status):
                failures.append(as_error(f'running PostBind plugin "{plugin.name}"', answer).with_plugin(plugin.name))
        self.metrics.point(Point.POST_BIND, Code.SUCCESS, self.clock() - started)
        return failures


class _Failed(Exception):
    """One of several plugins that work at the same time has failed."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status
