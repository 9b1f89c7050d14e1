"""DefaultBinder: the Binding, and what is said when the API server refuses it."""

from dataclasses import dataclass, field

from plugins.tables import handle, pod, said

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.plugins.default_binder import DefaultBinder


@dataclass
class Calls:
    error: Exception | None = None
    bound: list[tuple[str, str]] = field(default_factory=list)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        if self.error is not None:
            raise self.error
        self.bound.append((str(pod.key), node_name))


async def test_binds_to_the_node() -> None:
    calls = Calls()
    assert await DefaultBinder({}, handle(calls=calls)).bind(CycleState(), pod(), "n") is None
    assert calls.bound == [("ml/web", "n")]


async def test_a_refusal_is_an_internal_error() -> None:
    plugin = DefaultBinder({}, handle(calls=Calls(RuntimeError("pod web is already assigned"))))
    assert said(await plugin.bind(CycleState(), pod(), "n")) == ("Error", "pod web is already assigned")
