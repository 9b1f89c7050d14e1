"""Runs all scenarios of a round at one time on one side, and traces them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Final

import orjson
from history.lifecycles import SERVICE_ACCOUNTS
from history.recording import Recorder

from parity import ending, groups, loops, making, restarts, using
from parity.dsl import NODE, PATIENCE, POD_GROUPS, SCENARIOS, Scenario, World, asking
from parity.fences import NAMESPACE as FENCES
from parity.fences import Fences
from parity.sides import Side, Sides
from parity.trace import Trace, trace
from tollbar.devplane import nodes
from tollbar.devplane.audit import Record
from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.resources import (
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import AlreadyExists, ApiError, NotFound
from tollbar.runtime.metrics import Metrics

REGISTERED: Final = (making, using, ending, restarts, groups, loops)
"""Importing them registers their scenarios."""
MANAGER: Final = "tollbar-scenario"
"""The field manager of what scenarios create: not that of another generator of claims, to which ours would yield."""
WITH_GROUPS: Final = ("groups", "loops")
"""Rounds for a plane that serves PodGroups."""
_SETTLED_SECONDS: Final = 1.0
_SETTLED_LIMIT: Final = 5.0
"""Where somebody writes for ever."""
_DRIVER: Final = "gpu.example.com"


def run(sides: Sides, *rounds: str) -> tuple[dict[str, Trace], dict[str, Trace]]:
    """The traces by sentence, of both sides at one time.  Rounds run one after the other."""
    with ThreadPoolExecutor() as pool:
        upstream, ours = pool.map(lambda side: asyncio.run(_run(side, rounds)), sides)
    return upstream, ours


async def _run(side: Side, rounds: Iterable[str]) -> dict[str, Trace]:
    traces: dict[str, Trace] = {}
    async with connected(side) as client, FakeKubelet(client) as kubelet:
        await _furnish(client, kubelet)
        for turn in rounds:
            traces |= await _round(side, client, turn)
        await quell(client, [each.namespace for each in SCENARIOS.values() if each.round == "loops"])
    return traces


@asynccontextmanager
async def connected(side: Side) -> AsyncGenerator[Client, None]:
    """Somebody who may do everything on this plane."""
    client = await Client.connect(kubeconfig=str(side.plane.kubeconfig), metrics=Metrics(), user_agent=MANAGER)
    try:
        yield client
    finally:
        await client.close()


async def quell(client: Client, namespaces: Iterable[str]) -> None:
    """Delete everything there, so that nobody goes on with it."""
    now = orjson.dumps({"gracePeriodSeconds": 0})
    for namespace in namespaces:
        for resource in (RESOURCE_CLAIM_TEMPLATES, PODS, POD_GROUPS, RESOURCE_CLAIMS):
            with suppress(NotFound):  # not served
                await client.raw("DELETE", resource.path(namespace), now)


async def _furnish(client: Client, kubelet: FakeKubelet) -> None:
    """A Node for what scenarios bind, one with devices for kube-scheduler, a class, and the fences' namespace."""
    selector = {"selectors": [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]}
    await client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": selector})
    await client.create(NODES, nodes.node(NodeSpec(NODE), nodes.node_address(1), time.time()))
    await kubelet.add_node(NodeSpec("devices"))
    await kubelet.publish_devices("devices", _DRIVER, [{"name": f"gpu-{number}"} for number in range(4)])
    await with_fences(client)


async def with_fences(client: Client) -> None:
    with suppress(AlreadyExists):
        await namespaced(client, FENCES)


async def namespaced(client: Client, name: str) -> None:
    """A namespace in which Pods can be created at once."""
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
    apply = {"patch_type": PatchType.APPLY, "field_manager": "scenario", "force": True}
    await client.patch(SERVICE_ACCOUNTS, "default", account, namespace=name, **apply)


async def _round(side: Side, client: Client, turn: str) -> dict[str, Trace]:
    scenarios = [each for each in SCENARIOS.values() if each.round == turn]
    groups = POD_GROUPS if turn in WITH_GROUPS else None
    since = await asyncio.to_thread(side.plane.audit_fence)
    recorder = Recorder(client, *((groups,) if groups is not None else ()))
    fences = Fences(client, recorder, turn, asking(), groups, PATIENCE)
    meeting = asyncio.Barrier(max(1, len(scenarios)))

    async def down() -> None:
        if await meeting.wait() == 0:
            await fences.told()  # what waits to be sent is lost
            await asyncio.to_thread(side.down)
        await meeting.wait()

    async def up() -> None:
        if await meeting.wait() == 0:
            await asyncio.to_thread(side.up)
        await meeting.wait()

    worlds = {each.sentence: World(client, recorder, fences, each.namespace, down, up) for each in scenarios}
    async with asyncio.TaskGroup() as recording:
        following = recording.create_task(recorder.run())
        await recorder.begun()
        async with asyncio.TaskGroup() as running:
            for each in scenarios:
                running.create_task(_play(client, each, worlds[each.sentence], meeting))
        passed = await fences.passed()
        await recorder.quiet(frozenset(each.namespace for each in scenarios), _SETTLED_SECONDS, _SETTLED_LIMIT)
        told = await fences.told()
        assert (passed, told) == (True, True), "the controller does nothing any more"
        following.cancel()
    await asyncio.to_thread(side.plane.audit_fence)
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for record in side.plane.audit.records(since):
        records[record.namespace].append(record)
    return {
        sentence: trace(
            recorder.changes[world.namespace],
            records[world.namespace],
            (await client.list(EVENTS, world.namespace))["items"],
            side.user,
            world.in_vain,
        )
        for sentence, world in worlds.items()
    }


async def _play(client: Client, wanted: Scenario, world: World, meeting: asyncio.Barrier) -> None:
    """What the API server refuses the script is in the trace, too."""
    await namespaced(client, world.namespace)
    try:
        await wanted.script(world)
    except (ApiError, AssertionError, asyncio.BrokenBarrierError) as error:
        world.in_vain.append(f"{type(error).__name__}: {error}")
        await meeting.abort()
