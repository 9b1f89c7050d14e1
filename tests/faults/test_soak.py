"""The scheduler through a long churn of Nodes, slices, claims and Pods: it takes no more memory, and forgets no Pod.

There are always a few Pods more than fit, so that some are parked until an event wakes them; one that no event wakes
waits until the queue is flushed after five minutes, which a counter tells.  TOLLBAR_SOAK_SECONDS says how long that
takes; memory is judged from ten minutes on, by its slope over the second half.
"""

import asyncio
import itertools
import logging
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from history.lifecycles import SERVICE_ACCOUNTS
from processes.measuring import memory, open_files
from processes.stack import Process, Stack, eventually

from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Object, spec
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
)
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import NotFound
from tollbar.runtime.metrics import Metrics

_log = logging.getLogger(__name__)

SECONDS = float(os.environ.get("TOLLBAR_SOAK_SECONDS", "10"))
JUDGED_SECONDS = 600.0
"""From so long a soak on its memory is judged: a short one is all warm-up."""
FLAT = 100.0
"""KiB a minute: what a quarter of an hour can tell from the megabytes by which allocators are sometimes off."""
PACE = 0.05
"""Seconds between two changes."""
NAMESPACE = SITE = "soak"
DRIVER = "soak.example.com"
OURS = "tollbar-scheduler"
NODES = 6
DEVICES = 4
"""So many devices has a Node, at most."""
PLAIN = 8
"""So many Pods without devices fit on a Node."""
MOST = {"plain": NODES * PLAIN + 4, "device": NODES * DEVICES + 4}
"""So many Pods of each kind are there at a time: a few more than fit."""
WANTED: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
pytestmark = pytest.mark.timeout(SECONDS + 240)


@dataclass
class Churn:
    client: Client
    kubelet: FakeKubelet
    rng: random.Random
    nodes: list[str] = field(default_factory=list)
    pods: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in MOST})
    """The names of those that have not been deleted, by their kind, the oldest first."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def begin(self) -> None:
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        await self.client.create(DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
        await self.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        apply = {"patch_type": PatchType.APPLY, "field_manager": "soak", "force": True}
        await self.client.patch(SERVICE_ACCOUNTS, "default", account, namespace=NAMESPACE, **apply)
        template = {"metadata": {"name": "gpu", "namespace": NAMESPACE}, "spec": {"spec": WANTED}}
        await self.client.create(RESOURCE_CLAIM_TEMPLATES, template)
        for _ in range(NODES):
            await self.node_comes()
        while any(len(self.pods[kind]) < most for kind, most in MOST.items()):
            await self.pod_comes()

    async def go_on(self, seconds: float) -> None:
        """So long, one change after the other."""
        often: dict[Callable[[], Awaitable[None]], int] = {
            self.pod_comes: 40, self.pod_goes: 40, self.devices_change: 3, self.node_changes: 1
        }  # fmt: skip
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            (change,) = self.rng.choices([*often], [*often.values()])
            await change()
            await asyncio.sleep(PACE)

    async def node_comes(self) -> None:
        name = f"soak-{next(self.numbers)}"
        await self.kubelet.add_node(NodeSpec(name, labels={"site": SITE}, capacity={"cpu": "4"}))
        self.nodes.append(name)
        await self._publish(name)

    async def node_changes(self) -> None:
        """A Node goes with everything on it, and another one comes."""
        gone = self.nodes.pop(self.rng.randrange(len(self.nodes)))
        await self.kubelet.remove_node(gone)
        await self.node_comes()

    async def devices_change(self) -> None:
        """A new generation of the slices of a Node, with one device more or less."""
        await self._publish(self.rng.choice(self.nodes))

    async def _publish(self, node: str) -> None:
        count = self.rng.randint(DEVICES - 1, DEVICES)
        await self.kubelet.publish_devices(node, DRIVER, [{"name": f"gpu-{number}"} for number in range(count)])

    async def pod_comes(self) -> None:
        kind = self.rng.choice([*MOST])
        if len(self.pods[kind]) >= MOST[kind]:
            return
        name = f"{kind}-{next(self.numbers)}"
        has_device = kind == "device"
        resources = {
            "requests": {"cpu": "10m" if has_device else "490m"},
            "claims": [{"name": "gpu"}] if has_device else [],
        }
        body = {
            "schedulerName": OURS,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}] if has_device else [],
            "nodeSelector": {"site": SITE},
            "terminationGracePeriodSeconds": 1,
        }
        await self.client.create(PODS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": body})
        self.pods[kind].append(name)

    async def pod_goes(self) -> None:
        """Of a kind that waits for room; it may have gone with its Node."""
        kind = self.rng.choice([*MOST])
        if len(self.pods[kind]) > MOST[kind] // 2:
            name = self.pods[kind].pop(self.rng.randrange(len(self.pods[kind])))
            with suppress(NotFound):
                await self.client.delete(PODS, name, NAMESPACE)

    async def leave_half(self) -> None:
        """So few Pods that all of them fit."""
        for kind, most in MOST.items():
            while len(self.pods[kind]) > most // 2:
                await self.pod_goes()


def waiting(process: Process) -> dict[str, float]:
    """What is in the queue, and what is being bound."""
    metrics = process.metrics()
    assumed = metrics["scheduler_cache_size"]['type="assumed_pods"']
    return {name: value for name, value in {**metrics["scheduler_pending_pods"], "assumed": assumed}.items() if value}


def slope(taken: list[tuple[float, float]]) -> float:
    """Of pairs of seconds and KiB: KiB a minute over the second half; before that, caches fill."""
    return 60 * statistics.linear_regression(*zip(*taken[len(taken) // 2 :], strict=True)).slope


def test_a_long_churn_takes_no_more_memory_and_no_pod_is_forgotten(stack: Stack) -> None:
    async def watch(process: Process, taken: list[tuple[float, float]], files: list[int]) -> None:
        began = time.monotonic()
        while True:
            taken.append((time.monotonic() - began, memory(process.child.pid) / 1024))
            files.append(open_files(process.child.pid))
            await asyncio.sleep(min(1.0, SECONDS / 30))

    async def run() -> None:
        client = await Client.connect(kubeconfig=str(stack.plane.kubeconfig), metrics=Metrics(), user_agent="soak")
        exclusive = {"name": "DynamicResources", "args": {"exclusive": {"drivers": [DRIVER]}}}
        process = await asyncio.to_thread(
            lambda: stack.scheduler(
                verbosity=2,
                profiles=[{"schedulerName": OURS, "pluginConfig": [exclusive]}],
                clientConnection={"qps": 1000, "burst": 2000},
                podMaxBackoffSeconds=2,
            )
        )
        taken: list[tuple[float, float]] = []
        files: list[int] = []
        try:
            async with FakeKubelet(client) as kubelet:
                churn = Churn(client, kubelet, random.Random(13))
                await churn.begin()
                watching = asyncio.create_task(watch(process, taken, files))
                await churn.go_on(SECONDS)
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
                await churn.leave_half()
                await asyncio.to_thread(eventually, lambda: not waiting(process), what="the queue is empty")
                left = (await client.list(PODS, NAMESPACE, limit=0))["items"]
        finally:
            await client.close()
        metrics = process.metrics()
        bound = metrics["scheduler_schedule_attempts_total"][f'profile="{OURS}",result="scheduled"']
        parked = metrics["scheduler_schedule_attempts_total"].get(f'profile="{OURS}",result="unschedulable"', 0)
        growth = slope(taken)
        readings = list(zip(taken, files, strict=True))
        shown = ", ".join(
            f"{kib / 1024:.1f} ({at:.0f} s, {count} open files)"
            for (at, kib), count in [*readings[:: -(-len(readings) // 10)], readings[-1]]
        )
        _log.info(
            "soak: %.0f Pods bound, %.0f attempts without a Node; MiB: %s; %+.0f KiB a minute over the second half",
            bound, parked, shown, growth,
        )  # fmt: skip
        assert parked, "no Pod has ever waited for room: nothing was tested"
        assert metrics["scheduler_pod_scheduled_after_flush_total"] == {"": 0}
        assert [each["metadata"]["name"] for each in left if not spec(each).get("nodeName")] == []
        assert stack.tracebacks() == ""
        if SECONDS >= JUDGED_SECONDS:
            assert growth < FLAT, shown

    asyncio.run(run())


def test_growth_is_found() -> None:
    seconds = range(0, 1800, 10)
    flat = [(float(each), 100_000.0 + each % 500) for each in seconds]
    warming = [(float(each), 100_000.0 + 30 * min(each, 800)) for each in seconds]
    leaking = [(float(each), 100_000.0 + 4 * each) for each in seconds]
    assert [slope(each) < FLAT for each in (flat, warming, leaking)] == [True, True, False]
    assert slope(leaking) == pytest.approx(240)
