"""Tollbar's scheduler beside kube-scheduler, killed, suspended, doubled, or with an API server that answers badly.

Pods with and without claims come and some go.  Every state that was stored is recorded through the server itself and
judged afterwards by `history.placements`; bindings are counted in the audit log.  There are as many devices as are
wanted, so that one that is not given back holds a Pod up.  TOLLBAR_SCHEDULED_PODS says how many Pods of each sort there
are.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from faultproxy import (
    Cut,
    Delay,
    Expire,
    FaultProxy,
    Hang,
    ProxiedPlane,
    Refuse,
    Reset,
    Rule,
    Slow,
    Truncate,
    too_many,
)
from faultproxy.everything import about_work
from faultproxy.faults import Fault
from history.lifecycles import SERVICE_ACCOUNTS
from history.placements import leftovers, wrongs
from history.recording import Recorder, recorded
from processes.stack import Process, Stack, eventually, installed

from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object, metadata, spec, uid_of
from tollbar.model.resources import DEVICE_CLASSES, NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.metrics import Metrics

PODS_EACH = int(os.environ.get("TOLLBAR_SCHEDULED_PODS", "50"))
KILLS = max(3, PODS_EACH // 100)
SECONDS = 240.0 + PODS_EACH
NODES = max(3, PODS_EACH // 80)
OURS = "tollbar-scheduler"
AT_ONCE = 16
HANGING = 150
"""More than other processes of ours have calls under way at one time."""
ELECTION = {"resourceName": OURS, "leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "500ms"}
KEPT = ("Pod", "Node", "ResourceClaim", "ResourceSlice", "DeviceClass")
"""Of the kinds that the scheduler caches."""
pytestmark = pytest.mark.timeout(600 + 2 * PODS_EACH)


@dataclass
class Site:
    """One namespace, with Nodes, devices and a driver of its own; `recorder` has everything that was stored."""

    stack: Stack
    client: Client
    recorder: Recorder
    namespace: str
    rng: random.Random
    since: int
    """Where the audit log of its time begins."""
    waiting: set[str] = field(default_factory=set)
    """The names of Pods that are to be bound, or to go."""
    _read: int = 0
    """How many changes have been looked at."""
    _placed: set[str] = field(default_factory=set)
    """Pods that were bound, and claims that were allocated, by uid."""

    def scheduler(self, name: str, proxy: FaultProxy | None = None, *, elects: bool = False) -> Process:
        stack = self.stack if proxy is None else replace(self.stack, plane=ProxiedPlane(self.stack.plane, proxy))
        exclusive = {"name": "DynamicResources", "args": {"exclusive": {"drivers": [driver(self.namespace)]}}}
        return stack.scheduler(
            name,
            elects=elects,
            profiles=[{"schedulerName": OURS, "pluginConfig": [exclusive]}],
            leaderElection={"leaderElect": elects, **ELECTION},
            clientConnection={"qps": 1000, "burst": 2000},
            podInitialBackoffSeconds=1,
            podMaxBackoffSeconds=2,
        )

    async def create(self) -> None:
        """As many Pods without claims as with, of which every fifth shares its claim; every fifth is deleted."""
        numbers = iter(range(PODS_EACH))

        async def worker() -> None:
            for number in numbers:
                await self.pod(f"plain-{number}")
                if number % 5:
                    await self.pod(f"device-{number}", {"resourceClaimTemplateName": "gpu"})
                else:
                    name = f"shared-{number}"
                    claim = {"metadata": {"name": name, "namespace": self.namespace}, "spec": wanted(self.namespace)}
                    await self.client.create(RESOURCE_CLAIMS, claim)
                    await self.pod(f"device-{number}", {"resourceClaimName": name})
                    await self.pod(f"other-{number}", {"resourceClaimName": name})
                if number % 10 < 2:
                    for sort in ("plain", "device"):
                        await self.client.delete(PODS, f"{sort}-{number}", self.namespace)

        async with asyncio.TaskGroup() as workers:
            for _ in range(AT_ONCE):
                workers.create_task(worker())

    async def pod(self, name: str, claim: Object | None = None) -> None:
        claims = [{"name": "gpu", **claim}] if claim else []
        resources = {"requests": {"cpu": "10m"}, "claims": [{"name": "gpu"}] if claim else []}
        body = {
            "schedulerName": OURS,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": claims,
            "nodeSelector": {"site": self.namespace},
            "terminationGracePeriodSeconds": 1,
        }
        await self.client.create(PODS, {"metadata": {"name": name, "namespace": self.namespace}, "spec": body})
        await self.recorder.until(lambda: ("Pod", name) in self.recorder.objects[self.namespace], SECONDS)

    async def moments(self, number: int) -> AsyncGenerator[None, None]:
        """So many random moments while Pods are scheduled."""
        for step in sorted(self.rng.sample(range(1, 2 * PODS_EACH), number)):
            assert await self.recorder.until(lambda step=step: self._placed_by_now() >= step, SECONDS)
            yield

    async def is_done(self) -> None:
        assert await self.waits_for(set()), self.left()
        assert await self.recorder.until(lambda: next(self._leftovers(), None) is None, SECONDS), self.left()

    async def waits_for(self, names: set[str]) -> bool:
        """Whether it came to be that these Pods and no others wait."""
        return await self.recorder.until(lambda: self._placed_by_now() > 0 and self.waiting == names, SECONDS)

    def _placed_by_now(self) -> int:
        changes = self.recorder.changes[self.namespace]
        for change in changes[self._read :]:
            obj, uid = change.object, uid_of(change.object)
            is_bound = bool(spec(obj).get("nodeName"))
            if is_bound or (obj.get("status") or {}).get("allocation"):
                self._placed.add(uid)
            if change.kind == "Pod" and not change.deleted and (is_terminating(obj) or not is_bound):
                self.waiting.add(metadata(obj)["name"])
            elif change.kind == "Pod":
                self.waiting.discard(metadata(obj)["name"])
        self._read = len(changes)
        return len(self._placed)

    def left(self) -> list[str]:
        """What is left over, and what the schedulers have said last of each Pod that waits."""
        logs = [line for process in self.stack.running.values() for line in process.log().splitlines()]
        said = {name: [line for line in logs if f'{self.namespace}/{name}"' in line] for name in sorted(self.waiting)}
        return [*self._leftovers(), *(line for lines in said.values() for line in lines[-20:])]

    def _leftovers(self) -> Iterator[str]:
        return leftovers(self.recorder.objects[self.namespace])

    def wrongs(self) -> list[str]:
        """What should not have happened, by the states that were stored and by the audit log."""
        self.stack.plane.audit_fence()
        written = self.stack.plane.audit.writes(self.since, resource="pods", namespace=self.namespace)
        bound = Counter(each.name for each in written if each.subresource == "binding" and each.code == 201)
        twice = [f"{name}: bound {times} times" for name, times in bound.items() if times > 1]
        return [*wrongs(self.recorder.changes[self.namespace]), *twice, *filter(None, [self.stack.tracebacks()])]


def is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in metadata(obj)


def driver(namespace: str) -> str:
    return f"{namespace}.example.com"


def wanted(namespace: str) -> Object:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": namespace}}]}}


@pytest.fixture(scope="module")
def stack(own_plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with installed(own_plane, tmp_path_factory.mktemp("scheduler")) as stack:
        yield stack


@pytest.fixture
def proxy(stack: Stack, tmp_path: Path) -> Iterator[FaultProxy]:
    with FaultProxy(stack.plane.kubeconfig, tmp_path / "proxy", seed=1) as proxy:
        yield proxy


@asynccontextmanager
async def site(stack: Stack, namespace: str) -> AsyncGenerator[Site, None]:
    """As many devices as there are claims."""
    client = await Client.connect(kubeconfig=str(stack.plane.kubeconfig), metrics=Metrics(), user_agent="site")
    devices = [f"gpu-{number}" for number in range(PODS_EACH)]
    try:
        async with FakeKubelet(client) as kubelet:
            for number in range(NODES):
                name = f"{namespace}-{number}"
                await kubelet.add_node(NodeSpec(name, labels={"site": namespace}))
                await kubelet.publish_devices(name, driver(namespace), [{"name": e} for e in devices[number::NODES]])
            selectors = [{"cel": {"expression": f'device.driver == "{driver(namespace)}"'}}]
            await client.create(DEVICE_CLASSES, {"metadata": {"name": namespace}, "spec": {"selectors": selectors}})
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            apply = {"patch_type": PatchType.APPLY, "field_manager": "site", "force": True}
            await client.patch(SERVICE_ACCOUNTS, "default", account, namespace=namespace, **apply)
            template = {"metadata": {"name": "gpu", "namespace": namespace}, "spec": {"spec": wanted(namespace)}}
            await client.create(RESOURCE_CLAIM_TEMPLATES, template)
            async with recorded(client) as recorder:
                since = stack.plane.audit.position()
                yield Site(stack, client, recorder, namespace, random.Random(3), since)
    finally:
        await client.close()


def idle(process: Process) -> bool:
    """Whether no Pod waits or is assumed."""
    metrics = process.metrics()
    waiting = sum(metrics["scheduler_pending_pods"].values())
    return waiting == 0 == metrics["scheduler_cache_size"]['type="assumed_pods"']


def leads(process: Process) -> bool:
    try:
        return process.leads()
    except OSError:  # it has ended, or is about to
        return False


async def until(holds: Callable[[], Any], what: str) -> Any:
    """`eventually`, beside what runs here."""
    return await asyncio.to_thread(eventually, holds, what=what)


def test_sigkill_at_random_moments(stack: Stack) -> None:
    async def run() -> list[str]:
        async with site(stack, "killed") as here:
            process = await asyncio.to_thread(here.scheduler, "killed")
            creating = asyncio.create_task(here.create())
            async for _ in here.moments(KILLS):
                await asyncio.to_thread(process.kill)
                process = await asyncio.to_thread(here.scheduler, "killed")
            await creating
            await here.is_done()
            await until(lambda: idle(process), "nothing waits")
            await asyncio.to_thread(process.stop)
            return await asyncio.to_thread(here.wrongs)

    assert asyncio.run(run()) == []


def test_leaders_that_are_killed_or_suspended(stack: Stack) -> None:
    async def run() -> list[str]:
        async with site(stack, "elected") as here:
            names = ("elected-a", "elected-b")
            running = {name: await asyncio.to_thread(here.scheduler, name, elects=True) for name in names}

            def led() -> str | None:
                """Whoever leads; a process that has ended, as one may that was too slow to stop, is started again."""
                for name, process in list(running.items()):
                    if process.child.poll() is not None:
                        running[name] = here.scheduler(name, elects=True)
                return next((name for name, process in running.items() if leads(process)), None)

            creating = asyncio.create_task(here.create())
            suspends = False
            async for _ in here.moments(KILLS):
                leader = await until(led, "one leads")
                process = running.pop(leader)
                if suspends:
                    process.child.send_signal(signal.SIGSTOP)
                    await until(led, "the other one leads")
                    process.child.send_signal(signal.SIGCONT)
                    await until(lambda process=process: process.child.poll() is not None, "it ends: its time was over")
                else:
                    await asyncio.to_thread(process.kill)
                suspends = not suspends
                running[leader] = await asyncio.to_thread(here.scheduler, leader, elects=True)
            await creating
            await here.is_done()
            for process in running.values():
                await until(lambda process=process: idle(process), "nothing waits")
                await asyncio.to_thread(process.stop)
            return await asyncio.to_thread(here.wrongs)

    assert asyncio.run(run()) == []


def sometimes(name: str, fault: Fault, verb: str, resource: str, subresource: str, probability: float = 0.1) -> Rule:
    return Rule(name, fault, {verb}, {resource}, subresource, probability=probability)


def nth(name: str, fault: Fault, verb: str, resource: str, *which: int) -> Rule:
    return Rule(name, fault, {verb}, {resource}, nth=which, where=about_work)


BROKEN, REPEATED = Refuse(500, "InternalError"), Refuse(500, "InternalError", after=True)
FAULTS = (
    nth("bindings hang", Hang(), "create", "pods", 5),
    nth("bindings are done and hang", Hang(after=True), "create", "pods", 7, 9),
    nth("bindings are refused because the server is busy", too_many(), "create", "pods", 11),
    nth("claims hang", Hang(), "update", "resourceclaims", 3),
    nth("claims are written and hang", Hang(after=True), "update", "resourceclaims", 6, 8),
    nth("claims are refused because the server is busy", too_many(), "update", "resourceclaims", 10),
    sometimes("bindings are broken", BROKEN, "create", "pods", "binding"),
    sometimes("bindings are done and answered with 500", REPEATED, "create", "pods", "binding"),
    sometimes("bindings are lost", Reset(after=True), "create", "pods", "binding"),
    sometimes("bindings are slow", Slow(0.5), "create", "pods", "binding"),
    sometimes("Pods are not read", BROKEN, "get", "pods", "", 0.3),
    sometimes("claims are not written", Reset(), "update", "resourceclaims", "*"),
    sometimes("claims are lost", Reset(after=True), "update", "resourceclaims", "*"),
    sometimes("claims are half answered", Truncate(), "update", "resourceclaims", "*"),
    sometimes("claims conflict", Refuse(409, "Conflict"), "update", "resourceclaims", "*"),
    sometimes("claims are not read", Refuse(503, "ServiceUnavailable"), "get", "resourceclaims", "", 0.3),
    sometimes("statuses of Pods are lost", Reset(after=True), "patch", "pods", "status"),
    Rule("Pods are late", Delay(0.5), {"watch"}, {"pods"}, nth=range(1, 1000, 2), where=about_work),
    Rule("Pods expire", Expire(60), {"watch"}, {"pods"}, nth=range(2, 1000, 2), where=about_work),
    Rule("claims are late", Delay(0.5), {"watch"}, {"resourceclaims"}, nth=range(1, 1000, 2), where=about_work),
    Rule(
        "claims are cut", Cut(40, within=True), {"watch"}, {"resourceclaims"}, nth=range(2, 1000, 2), where=about_work
    ),
)


def test_an_api_server_that_answers_badly(stack: Stack, proxy: FaultProxy) -> None:
    async def run() -> list[str]:
        async with site(stack, "misled") as here:
            process = await asyncio.to_thread(here.scheduler, "misled", proxy)
            with proxy.faults(*FAULTS):
                proxy.cut_watches()
                creating = asyncio.create_task(here.create())
                async for _ in here.moments(KILLS):
                    before = proxy.requests["watch", "pods"]
                    await asyncio.to_thread(proxy.cut_watches)
                    await until(lambda before=before: proxy.requests["watch", "pods"] > before, "another watch")
                await creating
                await here.is_done()
            await until(lambda: idle(process), "nothing waits")
            await asyncio.to_thread(process.stop)
            return await asyncio.to_thread(here.wrongs)

    assert asyncio.run(run()) == []
    assert {rule.name for rule in FAULTS} == set(proxy.hits), "a fault was not met: nothing was tested"


def test_bindings_that_hang_hold_up_no_others(stack: Stack, proxy: FaultProxy) -> None:
    async def run() -> list[str]:
        hang = Rule("hang", Hang(), {"create"}, {"pods"}, "binding", where=lambda request: "slow-" in request.name)
        async with site(stack, "hanging") as here:
            process = await asyncio.to_thread(here.scheduler, "hanging", proxy)
            slow = {f"slow-{number}" for number in range(HANGING)}
            with proxy.faults(hang):
                for name in slow:
                    await here.pod(name)
                await until(lambda: proxy.hits["hang"] >= HANGING, "all of them hang")
                await here.create()
                assert await here.waits_for(slow)
            await here.is_done()
            await until(lambda: idle(process), "nothing waits")
            await asyncio.to_thread(process.stop)
            return await asyncio.to_thread(here.wrongs)

    assert asyncio.run(run()) == []


def test_a_leader_whose_calls_hang_hands_over_and_leads_again_with_warm_caches(stack: Stack, proxy: FaultProxy) -> None:
    """Nothing is answered for longer than the lease can be held without; the watches stay connected."""

    async def run() -> list[str]:
        async with site(stack, "handed-over") as here:
            first = await asyncio.to_thread(here.scheduler, "first", proxy, elects=True)
            await until(lambda: leads(first), "the first one leads")
            second = await asyncio.to_thread(here.scheduler, "second", elects=True)
            listed = lists(first)
            with proxy.faults(Rule("hang", Hang())):
                await here.create()
                await until(lambda: proxy.hits["hang"] > AT_ONCE, "bindings hang")
                await until(lambda: leads(second), "the second one leads")
                await here.is_done()
            await until(lambda: idle(first) and idle(second), "nothing waits")
            await asyncio.to_thread(second.stop)
            await until(lambda: leads(first), "the first one leads again")
            await here.pod("again", {"resourceClaimName": "shared-5"})
            await here.is_done()
            assert (lists(first), first.said("became leader"), first.is_ready()) == (listed, 2, True)
            await until(lambda: idle(first), "nothing waits")
            await asyncio.to_thread(first.stop)
            return await asyncio.to_thread(here.wrongs)

    assert asyncio.run(run()) == []


def lists(process: Process) -> list[float]:
    """How often each of these kinds has been listed."""
    relists = process.metrics()["tollbar_relists_total"]
    return [relists[f'kind="{kind}"'] for kind in KEPT]
