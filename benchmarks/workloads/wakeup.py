"""How long after the creation of the object that it waits for one held Pod is released."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

from processes.stack import eventually

from benchmarks import objects
from benchmarks.stage import Stage
from benchmarks.workload import Row, Sample, Workload, percentile
from tollbar.model import pods
from tollbar.model.objects import Object, key_of, metadata
from tollbar.model.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import Client

LOOP, TOLLBAR = COLUMNS = ("watch and patch", "Tollbar")
P50 = Row("from the class to the release, p50", "ms")
P99 = Row("from the class to the release, p99", "ms", "at most 100")

_AT_REST_SECONDS: Final = 0.05
_RELEASE_SECONDS: Final = 20.0
_WATCH_SECONDS: Final = 3600

Ready = Callable[[Object], Awaitable[None]]
"""Returns when the process that is to release this Pod has seen it."""


async def measure(stage: Stage, size: int, turn: int) -> Sample:
    """`size` wake-ups of each kind."""
    stage.stack.plane.kubectl.apply(objects.rule(), objects.patient_gate())
    releasers = [(LOOP, _loop), (TOLLBAR, _tollbar)]
    sample: dict[tuple[str, str], float] = {}
    for column, releaser in releasers[turn % 2 :] + releasers[: turn % 2]:
        namespace = await stage.namespace(f"wakeup-{turn}-{COLUMNS.index(column)}")
        async with releaser(stage) as ready:
            seconds = await _wake_ups(stage, namespace, size, ready)
        sample[P50.name, column] = percentile(seconds, 0.5) * 1e3
        sample[P99.name, column] = percentile(seconds, 0.99) * 1e3
    return sample


async def _wake_ups(stage: Stage, namespace: str, count: int, ready: Ready) -> list[float]:
    """Seconds from the answer to `create DeviceClass` to the watch event of the release."""
    released: dict[str, asyncio.Future[float]] = {}
    seconds = []

    async def on_pod(pod: Object) -> None:
        name = key_of(pod).name
        if not pods.is_gated(pod) and not released[name].done():
            released[name].set_result(time.monotonic())

    async with _watching(stage.admin, PODS, namespace, on_pod):
        for number in range(count):
            name = f"web-{number}"
            released[name] = asyncio.get_running_loop().create_future()
            class_name = f"late-{namespace}-{number}"
            claim = await stage.admin.create(RESOURCE_CLAIMS, objects.claim_of(class_name, name, namespace))
            pod = await stage.admin.create(PODS, objects.held_pod(name, namespace, key_of(claim).name))
            await ready(pod)
            await asyncio.sleep(_AT_REST_SECONDS)
            await stage.admin.create(DEVICE_CLASSES, objects.late_class(class_name))
            answered = time.monotonic()
            async with asyncio.timeout(_RELEASE_SECONDS):
                seconds.append(await released[name] - answered)
            await stage.admin.delete(DEVICE_CLASSES, class_name)
            await stage.clear(namespace)
    return seconds


@asynccontextmanager
async def _loop(stage: Stage) -> AsyncGenerator[Ready, None]:
    """The peer: a client that waits for this one class with the finished patch."""
    patches: dict[str, tuple[str, list[Object]]] = {}

    async def ready(pod: Object) -> None:
        namespace, name = key_of(pod)
        patches[f"late-{namespace}-{name.removeprefix('web-')}"] = (namespace, objects.release(pod))

    async def on_class(found: Object) -> None:
        name = key_of(found).name
        if name in patches:
            namespace, patch = patches.pop(name)
            await stage.peer.patch(PODS, f"web-{name.rpartition('-')[2]}", patch, namespace=namespace)

    async with _watching(stage.peer, DEVICE_CLASSES, "", on_class):
        yield ready


@asynccontextmanager
async def _tollbar(stage: Stage) -> AsyncGenerator[Ready, None]:
    process = stage.stack.controllers(log__verbosity=0)

    async def ready(_pod: Object) -> None:
        eventually(lambda: process.metrics()["tollbar_gated_pods"][""] == 1, what="the Pod found")

    yield ready
    process.stop()


@asynccontextmanager
async def _watching(
    client: Client, resource: Resource, namespace: str, on_object: Callable[[Object], Awaitable[None]]
) -> AsyncGenerator[None, None]:
    """Call `on_object` with every object that appears or changes while the block runs."""
    listed = await client.list(resource, namespace)

    async def watch() -> None:
        events = client.watch(
            resource,
            namespace,
            resource_version=metadata(listed)["resourceVersion"],
            timeout_seconds=_WATCH_SECONDS,
        )
        async with aclosing(events):
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    await on_object(event.object)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch())
        yield
        task.cancel()


WORKLOAD: Final = Workload(
    name="wakeup",
    title="Waking one Pod",
    about="""\
One Pod is held because the DeviceClass of its claim is missing, and everything is at rest. Then the class is created.
The clock runs from the API server's answer to that until a watch shows the Pod released, with its toleration: the
class's event, the decision, the patch and the Pod's event.

The peer waits for that one class on a watch of its own, with the finished patch in hand. That is about the least that
any controller could take on this machine.""",
    columns=COLUMNS,
    rows=(P50, P99),
    size=50,
    things="wake-ups",
    measure=measure,
)
