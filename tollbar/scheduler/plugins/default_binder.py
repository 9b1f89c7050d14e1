"""DefaultBinder: binds a Pod to its Node with a v1.Binding."""

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Arguments
from tollbar.scheduler.framework.status import Status, failed


class DefaultBinder:
    name = "DefaultBinder"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._calls = handle.calls

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        try:
            await self._calls.bind(pod, node_name)
        except Exception as error:
            return failed(str(error), error)
        return None
