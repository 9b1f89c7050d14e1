"""Whatever becomes of the API calls of DynamicResources, no device is in two allocations, and nothing is forgotten."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from objects.builders import Pod
from objects.builders import pod as a_pod
from objects.devices import a_claim, published
from plugins.dynamicresources import Api, World, info, node

from tollbar.model import claims
from tollbar.model.objects import Key, Object, uid_of
from tollbar.runtime.errors import ApiError, Conflict, Unreachable
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.status import Status

RESOURCE = "example.com/gpu"
REQUEST = [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]
PODS: tuple[Pod, ...] = (
    a_pod("one").claims("a"),
    a_pod("two").claims("b"),
    a_pod("both").claims("a", "c"),
    a_pod("extended").but("spec.containers", []).wants({RESOURCE: "1"}),
)
BEFORE: dict[str, BaseException] = {
    "conflict": Conflict(409, "Conflict", "modified"),
    "refused": ApiError(403, "Forbidden", "no"),
    "down": ApiError(500, "InternalError", "etcd is down"),
    "lost before": Unreachable("no answer"),
    "cancelled before": asyncio.CancelledError(),
}
AFTER: dict[str, BaseException] = {
    "down after": ApiError(504, "Timeout", "too late"),
    "lost after": Unreachable("no answer"),
    "cancelled after": asyncio.CancelledError(),
    "repeated": Conflict(409, "Conflict", "modified"),
}
FAULTS = st.lists(st.sampled_from(["ok", "ok", "ok", *BEFORE, *AFTER]), max_size=6)


@dataclass
class Faulty(Api):
    """Calls end as `faults` says, one after the other; then all succeed."""

    faults: list[str] = field(default_factory=list)

    async def get(self, kind: str, key: Key) -> Object:
        return await self._with_fault(lambda: super(Faulty, self).get(kind, key))

    async def create(self, kind: str, obj: Object) -> Object:
        return await self._with_fault(lambda: super(Faulty, self).create(kind, obj))

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        return await self._with_fault(lambda: super(Faulty, self).update(kind, obj, subresource=subresource))

    async def delete(self, kind: str, key: Key, *, uid: str = "") -> None:
        await self._with_fault(lambda: super(Faulty, self).delete(kind, key, uid=uid))

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        return await self._with_fault(lambda: super(Faulty, self).patch_pod_status(pod, patch))

    async def _with_fault(self, call: Callable[[], Any]) -> Any:
        fault = self.faults.pop(0) if self.faults else "ok"
        if fault in BEFORE:
            raise BEFORE[fault]
        answer = await call()
        if fault in AFTER:
            raise AFTER[fault]
        return answer

    def allocated(self) -> Counter[str]:
        """How often each device is in an allocation."""
        return Counter(
            result["device"]
            for claim in self.objects.values()
            for result in (claims.allocation(claim) or {"devices": {}})["devices"].get("results") or ()
        )


class Cluster:
    """Three Pods with claims, of which two share one, and one with an extended resource; there are two devices."""

    def __init__(self) -> None:
        made = [a_claim(name).but("spec.devices.requests", REQUEST) for name in ("a", "b", "c")]
        self.world = World(*made, published("s1", "g0", "g1", node="n1"), nodes=[node("n1")], api=Faulty)
        self.world.manager.stores[2].apply(
            self.world.manager.classes["gpu"] | {"spec": {"extendedResourceName": RESOURCE}}
        )
        self.world.while_sleeping = self._wait
        self.bound: set[str] = set()

    @property
    def api(self) -> Any:
        return self.world.api

    def _wait(self) -> None:
        """The watch is behind: it has news in every third pause."""
        if len(self.world.slept) % 3 == 0:
            self.world.watch()

    async def attempt(self, pod: Pod) -> None:
        """One scheduling attempt, which is bound if PreBind succeeds."""
        world, state, known = self.world, CycleState(), info(pod)
        world.state = state
        if world.filter(pod) != {"n1": "Success"}:
            world.plugin.post_filter(state, known, None)  # type: ignore[arg-type]
            return
        status: Status | None = world.plugin.reserve(state, known, "n1")
        if status is None:
            binding = asyncio.ensure_future(world.plugin.pre_bind(state, known, "n1"))
            for _ in range(3):
                await asyncio.sleep(0)
            while not binding.done():  # it waits for an earlier attempt
                await self.work()
                await asyncio.sleep(0)
            if not binding.cancelled() and binding.result() is None:
                self.bound.add(uid_of(pod))
                return
        world.plugin.unreserve(state, known, "n1")

    async def work(self) -> None:
        """Go on with something that was begun beside the scheduling cycle."""
        if self.world.coroutines:
            task = asyncio.ensure_future(self.world.coroutines.pop(0))  # type: ignore[arg-type, var-annotated]
            await asyncio.wait([task])

    async def step(self, what: str, pod: int, faults: list[str]) -> None:
        self.api.faults = list(faults)
        match what:
            case "attempt" if uid_of(PODS[pod]) not in self.bound:
                await self.attempt(PODS[pod])
            case "work":
                self.api.faults = [each for each in faults if "cancelled" not in each]
                await self.work()
            case "watch":
                self.world.watch()


STEPS = st.lists(
    st.tuples(st.sampled_from(["attempt", "attempt", "work", "watch"]), st.integers(0, len(PODS) - 1), FAULTS),
    max_size=20,
)


@given(STEPS)
def test_no_device_is_given_away_twice(steps: list[tuple[str, int, list[str]]]) -> None:
    async def run() -> None:
        cluster = Cluster()
        world = cluster.world
        for what, pod, faults in steps:
            await cluster.step(what, pod, faults)
            assert all(count == 1 for count in cluster.api.allocated().values())
        cluster.api.faults = []
        while world.coroutines:
            await cluster.work()
        world.watch()
        assert world.held() == sorted(cluster.api.allocated())
        for pod in PODS:
            if uid_of(pod) in cluster.bound:
                for name in [each for each in claims.names_of(pod) if each]:
                    assert claims.is_reserved_for(world.claim(name), pod)

    asyncio.run(run())
