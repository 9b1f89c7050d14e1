"""What the webhook adds to the time that the creation of a Pod takes."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import orjson
from processes.stack import Process

from benchmarks import objects
from benchmarks.stage import Stage, cpu_seconds, in_parallel
from benchmarks.workload import Row, Sample, Workload, percentile
from tollbar.api.webhooks import PODS_PATH
from tollbar.model import pods
from tollbar.model.objects import Object
from tollbar.model.resources import DEVICE_CLASSES, PODS

WITHOUT, WITH, ADDED = COLUMNS = ("without the webhook", "with the webhook", "added")
AT_ONCE: Final = (1, 8)
DEVICE, PLAIN = KINDS = ("Pod with a claim", "Pod without devices")
_SHARES: Final = {"p50": 0.50, "p99": 0.99}
_TARGETS: Final = {(DEVICE, 8, "p50"): "added at most 2", (DEVICE, 8, "p99"): "added at most 10"}


def _latency(kind: str, at_once: int, share: str) -> Row:
    return Row(f"{kind}, {at_once} at a time, {share}", "ms", _TARGETS.get((kind, at_once, share), ""))


LATENCIES: Final = {key: _latency(*key) for key in itertools.product(KINDS, AT_ONCE, _SHARES)}
HANDLER = Row("in the webhook's handler, mean", "ms", digits=2)
CPU = Row("CPU of the webhook", "ms/Pod", digits=2)
ASKED = Row("the webhook was asked, Pods with a claim", "per Pod", digits=3)
ASKED_PLAIN = Row("the webhook was asked, Pods without devices", "per Pod", "0", digits=3)
FAST = Row("decided at once, Pods with a claim", "of those asked", "at least 0.95", digits=3)

_CLASS: Final = "late-but-there"
_CLAIM: Final = "gpu"
_WARM_UP: Final = 32
_IN_FORCE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Counters:
    """The webhook process since its start: reviews of Pods, seconds in the handler, CPU seconds."""

    asked: float
    fast: float
    handler: float
    cpu: float

    @classmethod
    def take(cls, process: Process) -> "Counters":
        samples = process.metrics()
        path = f'webhook="{PODS_PATH}"'
        return cls(
            samples.get("controller_runtime_webhook_latency_seconds_count", {}).get(path, 0.0),
            samples.get("tollbar_admission_decisions_total", {}).get('decision="tolerated"', 0.0),
            samples.get("controller_runtime_webhook_latency_seconds_sum", {}).get(path, 0.0),
            cpu_seconds(process.child.pid),
        )

    def since(self, before: "Counters") -> "Counters":
        return Counters(
            self.asked - before.asked, self.fast - before.fast, self.handler - before.handler, self.cpu - before.cpu
        )


async def measure(stage: Stage, size: int, turn: int) -> Sample:
    """`size` creations of each kind, without and with the webhook's configuration."""
    namespace = await stage.namespace(f"admission-{turn}")
    stage.stack.plane.kubectl.apply(
        objects.rule(), objects.late_class(_CLASS), objects.claim_of(_CLASS, _CLAIM, namespace)
    )
    sample: dict[tuple[str, str], float] = {}
    for column in (WITHOUT, WITH) if turn % 2 == 0 else (WITH, WITHOUT):
        sample |= await (_with if column == WITH else _without)(stage, namespace, size)
    for row in LATENCIES.values():
        sample[row.name, ADDED] = sample[row.name, WITH] - sample[row.name, WITHOUT]
    await stage.admin.delete(DEVICE_CLASSES, _CLASS)
    await stage.clear(namespace)
    return sample


async def _without(stage: Stage, namespace: str, size: int) -> dict[tuple[str, str], float]:
    sample: dict[tuple[str, str], float] = {}
    for kind in KINDS:
        sample |= await _creations(stage, namespace, kind, WITHOUT, size)
    return sample


async def _with(stage: Stage, namespace: str, size: int) -> dict[tuple[str, str], float]:
    sample: dict[tuple[str, str], float] = {}
    with _webhook(stage) as process:
        await _in_force(stage, namespace, wanted=True)
        used = {}
        for kind in KINDS:
            before = Counters.take(process)
            sample |= await _creations(stage, namespace, kind, WITH, size)
            used[kind] = Counters.take(process).since(before)
    await _in_force(stage, namespace, wanted=False)
    created = len(AT_ONCE) * (size + _WARM_UP)
    device = used[DEVICE]
    asked = max(device.asked, 1.0)
    return sample | {
        (HANDLER.name, WITH): device.handler / asked * 1e3,
        (CPU.name, WITH): device.cpu / created * 1e3,
        (ASKED.name, WITH): device.asked / created,
        (ASKED_PLAIN.name, WITH): used[PLAIN].asked / created,
        (FAST.name, WITH): device.fast / asked,
    }


@contextmanager
def _webhook(stage: Stage) -> Iterator[Process]:
    process = stage.stack.webhook(log__verbosity=0)
    stage.stack.register()
    try:
        yield process
    finally:
        stage.stack.unregister()
        process.stop()


async def _in_force(stage: Stage, namespace: str, *, wanted: bool) -> None:
    """Wait until the API server calls the webhook and it adds the toleration, or until it is no longer called."""
    body = orjson.dumps(objects.device_pod("probe", namespace, _CLAIM))
    async with asyncio.timeout(_IN_FORCE_SECONDS):
        while True:
            answer = orjson.loads(await stage.admin.raw("POST", PODS.path(namespace), body, query={"dryRun": "All"}))
            if any(each["key"] == "example.com/gpu" for each in pods.tolerations(answer)) == wanted:
                return
            await asyncio.sleep(0.05)


async def _creations(stage: Stage, namespace: str, kind: str, column: str, size: int) -> dict[tuple[str, str], float]:
    """The latencies of one kind in one column; the Pods are deleted afterwards, the claim is not."""
    make = _maker(kind, namespace)
    sample = {}
    for at_once in AT_ONCE:
        await _timed(stage, make, _WARM_UP, at_once)
        seconds = await _timed(stage, make, size, at_once)
        for share, value in _SHARES.items():
            sample[LATENCIES[kind, at_once, share].name, column] = percentile(seconds, value) * 1e3
        await stage.clear(namespace, PODS)
    return sample


def _maker(kind: str, namespace: str) -> Callable[[], Object]:
    numbers = itertools.count()
    if kind == DEVICE:
        return lambda: objects.device_pod(f"web-{next(numbers)}", namespace, _CLAIM)
    return lambda: objects.plain_pod(f"web-{next(numbers)}", namespace)


async def _timed(stage: Stage, make: Callable[[], Object], count: int, at_once: int) -> list[float]:
    """Seconds of each call, from sending to the decoded answer."""
    seconds = []

    async def create(pod: Object) -> None:
        began = time.monotonic()
        await stage.admin.create(PODS, pod)
        seconds.append(time.monotonic() - began)

    await in_parallel([make() for _ in range(count)], create, at_once=at_once)
    return seconds


WORKLOAD: Final = Workload(
    name="admission",
    title="Creating a Pod",
    about="""\
Pods are created one at a time, and by eight callers of whom each sends its next request when the last was answered.
The peer is the API server without our webhook configuration. With it, a rule, the class and the claim are there, so
that the webhook answers with a toleration at once. Pods without devices show what the configuration costs everybody
else: the API server evaluates its conditions and does not ask. The figures are the caller's, from sending to the
decoded answer; `added` is their difference.

Eight callers keep both cores of a small machine busy, and the webhook shares them with the API server, etcd and the
callers: what is added then is mostly waiting for a core. The controllers do not run.""",
    columns=COLUMNS,
    rows=(*LATENCIES.values(), HANDLER, CPU, ASKED, ASKED_PLAIN, FAST),
    size=1000,
    things="Pods of each kind",
    measure=measure,
)
