"""Gates whose controllers are killed, and whose API server misbehaves towards them, while Pods come and go.

Every state that was stored is recorded through the server itself and judged by `history.gates`, a thousand Pods at a
time, as the lines say that are printed: what was judged counts, also when the run is ended.  Accepted patches are
counted in the audit log.  TOLLBAR_GATES says how many Pods there are, one after the other in each of the ways a Pod can
live; they refer to claims by name, which others create while the Pods are held.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faultproxy import FaultProxy, ProxiedPlane
from faultproxy.everything import everything
from history.gates import AUTHORS, Judge, is_held
from history.recording import Recorder, recorded
from planes.objects import Cluster, a_ready_rule, gpu_rule
from processes.stack import CONTROLLERS, Stack, eventually

from tollbar import wellknown
from tollbar.model.objects import Object, uid_of
from tollbar.model.resources import PODS, RESOURCE_CLAIMS
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.metrics import Metrics

GATES = int(os.environ.get("TOLLBAR_GATES", "90"))
AT_ONCE = 64 if GATES < 1000 else 192
"""Most of them wait for controllers that were killed."""
BATCH = 1000
"""So many are judged and forgotten together, each time under the same faults again."""
SECONDS = 120.0
OTHERS = "example.com/quota"
"""A gate of somebody else."""


@dataclass
class Lives:
    """Of one namespace; `reserved` and `free` are DeviceClasses, of which the rule is about the first."""

    client: Client
    recorder: Recorder
    namespace: str
    reserved: str
    free: str
    rng: random.Random = field(default_factory=lambda: random.Random(3))

    async def live(self, numbers: range) -> None:
        """All of them, `AT_ONCE` at a time; every way in turn."""
        ways = (
            self.waits,
            self.gets_nothing,
            self.waits_for_two,
            self.is_edited,
            self.has_another_gate,
            self.opts_out,
            self.is_deleted,
            self.comes_again,
            self.is_decided_at_once,
        )
        waiting = iter(numbers)

        async def worker() -> None:
            for number in waiting:
                name = f"life-{number}"
                await ways[number % len(ways)](name)
                await self._delete(PODS, name)
                for claim in [each for each in (name, f"{name}-b") if ("ResourceClaim", each) in self._now]:
                    await self._delete(RESOURCE_CLAIMS, claim)

        async with asyncio.TaskGroup() as workers:
            for _ in range(AT_ONCE):
                workers.create_task(worker())
        await self._until(lambda: not self._now, "all are gone")

    # The ways to live.

    async def waits(self, name: str) -> None:
        await self._create(name, name)
        await self._moment()
        await self._claim(name, self.reserved)
        await self._is_released(name)

    async def gets_nothing(self, name: str) -> None:
        await self._create(name, name)
        await self._moment()
        await self._claim(name, self.free)
        await self._is_released(name)

    async def waits_for_two(self, name: str) -> None:
        await self._create(name, name, f"{name}-b")
        for claim, class_ in ((name, self.free), (f"{name}-b", self.reserved)):
            await self._moment()
            await self._claim(claim, class_)
        await self._is_released(name)

    async def is_edited(self, name: str) -> None:
        """Its author adds a toleration at the moment at which it is released."""
        await self._create(name, name)
        await self._moment()
        await self._claim(name, self.reserved)
        edit = [{"op": "add", "path": "/spec/tolerations/-", "value": AUTHORS}]
        await self.client.patch(PODS, name, edit, namespace=self.namespace)
        await self._is_released(name)

    async def has_another_gate(self, name: str) -> None:
        await self._create(name, name, schedulingGates=[{"name": OTHERS}])
        await self._moment()
        await self._claim(name, self.reserved)
        await self._is_released(name)

    async def opts_out(self, name: str) -> None:
        await self._create(name, name)
        await self._moment()
        label = {"metadata": {"labels": {wellknown.LABEL_SKIP: "true"}}}
        await self.client.patch(PODS, name, label, namespace=self.namespace, patch_type=PatchType.MERGE)
        await self._is_released(name)

    async def is_deleted(self, name: str) -> None:
        """At the moment at which it would be released."""
        await self._create(name, name)
        await self._moment()
        await self._claim(name, self.reserved)
        await self._moment()

    async def comes_again(self, name: str) -> None:
        """While it is held, it is replaced by another one of its name."""
        await self._create(name, name)
        await self._moment()
        await self._delete(PODS, name)
        await self._until(lambda: ("Pod", name) not in self._now, f"{name} is gone")
        await self._create(name, name)
        await self._claim(name, self.reserved)
        await self._is_released(name)

    async def is_decided_at_once(self, name: str) -> None:
        """Or a moment later, where the webhook has not heard of the claim yet."""
        await self._claim(name, self.reserved)
        await self._moment()
        await self._create(name, name)
        await self._is_released(name)

    @property
    def _now(self) -> dict[tuple[str, str], Object]:
        return self.recorder.objects[self.namespace]

    async def _create(self, name: str, *claims: str, **more: Any) -> None:
        spec = {
            "schedulerName": "nobody",  # kube-scheduler would write to each
            "containers": [{"name": "main", "image": "example.com/app"}],
            "resourceClaims": [{"name": f"c{at}", "resourceClaimName": each} for at, each in enumerate(claims)],
            "terminationGracePeriodSeconds": 0,
            **more,
        }
        created = await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, self.namespace)
        uid = uid_of(created)
        await self._until(lambda: uid_of(self._now.get(("Pod", name)) or {}) == uid, f"{name} is seen")

    async def _claim(self, name: str, class_: str) -> None:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": class_}}]
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        await self.client.create(RESOURCE_CLAIMS, claim, self.namespace)
        await self._until(lambda: ("ResourceClaim", name) in self._now, f"claim {name} is seen")

    async def _delete(self, resource: Any, name: str) -> None:
        await self.client.delete(resource, name, self.namespace)

    async def _moment(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.0, 0.3))

    async def _is_released(self, name: str) -> None:
        if not await self.recorder.until(lambda: not is_held(self._now["Pod", name]), SECONDS):
            raise AssertionError(f"{name} is not released within {SECONDS:g} s: {self._now['Pod', name]}")

    async def _until(self, holds: Any, what: str) -> None:
        assert await self.recorder.until(holds, SECONDS), f"not within {SECONDS:g} s: {what}"


@asynccontextmanager
async def lives(cluster: Cluster, reserved: str, free: str) -> AsyncGenerator[Lives, None]:
    client = await Client.connect(kubeconfig=str(cluster.kubectl.kubeconfig), metrics=Metrics(), user_agent="lives")
    try:
        async with recorded(client) as recorder:
            yield Lives(client, recorder, cluster.namespace, reserved, free)
    finally:
        await client.close()


@pytest.mark.timeout(300 + GATES)
def test_many_gates_with_every_fault_and_sigkill(
    cluster: Cluster, stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = stack.plane
    judge = Judge(cluster.class_())
    free = cluster.class_("free")
    wrongs: list[str] = []
    kills = 0

    async def live() -> None:
        over = asyncio.Event()

        async def kill() -> None:
            """At random moments until all have lived, once at least."""
            nonlocal kills
            rng = random.Random(1)
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), rng.uniform(0.5, 6.0))
                    if kills:
                        return
                await asyncio.to_thread(stack.running["controllers"].kill)
                await asyncio.to_thread(through.controllers)
                kills += 1

        async with lives(cluster, judge.reserved, free) as those, asyncio.TaskGroup() as both:
            both.create_task(kill())
            since = await asyncio.to_thread(plane.audit_fence)
            for start in range(0, GATES, BATCH):
                numbers = range(start, min(start + BATCH, GATES))
                with proxy.faults(*everything("pods")):
                    proxy.cut_watches()
                    await those.live(numbers)
                    # The first watch of Pods may be that of the process that follows the first kill.
                    again = partial(eventually, lambda: proxy.hits["expired"], what="a second watch")
                    await asyncio.to_thread(again)
                patches, since = await asyncio.to_thread(accepted, stack, cluster.namespace, since)
                wrongs.extend(judge.wrongs(those.recorder.changes.pop(cluster.namespace)))
                released = judge.releases.total()
                wrongs.extend(judge.patched(patches))
                if found := await asyncio.to_thread(stack.tracebacks):
                    wrongs.append(found)
                with capsys.disabled():
                    print(  # noqa: T201
                        f"\nPods {numbers.start} to {numbers.stop - 1} of {GATES}: {released} released, "
                        f"{len(wrongs)} wrong; {kills} kills and {proxy.hits.total()} faults so far",
                        flush=True,
                    )
                if wrongs:
                    break
            over.set()

    with FaultProxy(plane.kubeconfig, tmp_path / "proxy", seed=1) as proxy:
        through = replace(stack, plane=ProxiedPlane(plane, proxy))
        through.webhook()
        stack.register()
        through.controllers()
        a_ready_rule(cluster, gpu_rule(judge.reserved))
        asyncio.run(live())
        hits = proxy.hits.copy()
    assert wrongs == []
    assert stack.tracebacks() == ""
    assert {rule.name for rule in everything("pods")} == set(hits), "a fault was not met: nothing was tested"


def accepted(stack: Stack, namespace: str, since: int) -> tuple[Counter[str], int]:
    """Patches of Pods by the controllers that the API server accepted, by name; where the audit log ends now."""
    now = stack.plane.audit_fence()
    written = stack.plane.audit.writes(since, user=CONTROLLERS, resource="pods", namespace=namespace)
    return Counter(each.name for each in written if each.code == 200), now
