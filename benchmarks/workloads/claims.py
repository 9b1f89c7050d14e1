"""Claims generated for a backlog of Pods, then freed and deleted when the Pods have finished, beside
kube-controller-manager's own controller.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from parity.dsl import FINALIZER, allocation, asking, entry_of
from parity.sides import UPSTREAM
from planes.replacing import permit
from processes.stack import CONTROLLERS

from benchmarks import objects
from benchmarks.stage import OPTIONS, Stage, Tail, cpu_seconds, in_parallel
from benchmarks.workload import Row, Sample, Workload
from tollbar.devplane.audit import COMPLETE, Record
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.real.components import Options
from tollbar.model import timestamps
from tollbar.model.objects import Object, metadata
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import PatchType

DEFAULT, RAISED, TOLLBAR = COLUMNS = (
    "kube-controller-manager, default limits",
    "kube-controller-manager, limits raised",
    "Tollbar",
)

MADE = Row("claims made and recorded", "Pods/s", digits=0)
MADE_RAISED = Row("of the rate with limits raised", "", "at least 1.0", digits=2)
MADE_DEFAULT = Row("times the rate with default limits", "", "at least 10", digits=1)
MADE_CPU = Row("CPU of the process", "ms/Pod", "at most that of the peer", digits=2)
FREED = Row("claims freed and deleted", "claims/s", digits=0)
FREED_RAISED = Row("of the rate with limits raised, freeing", "", "at least 1.0", digits=2)
FREED_DEFAULT = Row("times the rate with default limits, freeing", "", "at least 10", digits=1)
FREED_CPU = Row("CPU of the process, freeing", "ms/claim", "at most that of the peer", digits=2)
SERVER_CPU = Row("CPU of the API server, all in all", "ms/Pod", digits=2)
WRITES = Row("granted writes in a claim's life", "", "at most the peer's", digits=2)

_AT_ONCE: Final = 64
_POLL_SECONDS: Final = 0.05
_DEFAULT_SHARE: Final = 10
"""With default limits the rate does not depend on the number of Pods: a tenth of them is enough."""
_ONLY: Final = "--controllers=serviceaccount-controller"
_LIMITS: Final = ("--kube-api-qps=5000", "--kube-api-burst=5000")


@dataclass(frozen=True)
class Contender:
    """A controller that is measured; it is started for each phase, when the backlog exists."""

    user: str
    running: Callable[[Stage], AbstractAsyncContextManager[int]]
    """The process id while the block lasts."""


def _manager(stage: Stage, options: Options) -> int:
    """Start kube-controller-manager anew with these options; its process id."""
    plane = stage.stack.plane
    if CONTROLLER_MANAGER in plane.pids:
        plane.stop_component(CONTROLLER_MANAGER)
    plane.options = options
    plane.start_component(CONTROLLER_MANAGER)
    return plane.pids[CONTROLLER_MANAGER]


def _alone(*controllers: str, limits: tuple[str, ...] = ()) -> Options:
    """No other controllers of kube-controller-manager, so that its CPU is that of the one that is measured."""
    flags = {CONTROLLER_MANAGER: (",".join((_ONLY, *controllers)), *limits)}
    return replace(OPTIONS, flags=flags, raised_limits=False)


def _upstream(*limits: str) -> Contender:
    @asynccontextmanager
    async def running(stage: Stage) -> AsyncGenerator[int, None]:
        yield await asyncio.to_thread(_manager, stage, _alone("resourceclaim-controller", limits=limits))
        await asyncio.to_thread(_manager, stage, _alone())

    return Contender(UPSTREAM, running)


def _tollbar() -> Contender:
    @asynccontextmanager
    async def running(stage: Stage) -> AsyncGenerator[int, None]:
        permit(stage.stack.plane.kubectl)
        process = await asyncio.to_thread(stage.stack.controllers, claims="Replace", log__verbosity=0)
        yield process.child.pid
        await asyncio.to_thread(process.stop)

    return Contender(CONTROLLERS, running)


CONTENDERS: Final = {DEFAULT: _upstream(), RAISED: _upstream(*_LIMITS), TOLLBAR: _tollbar()}


@dataclass
class Meter:
    """The successful writes of a user in one namespace, read while they happen, and the CPU that they cost."""

    stage: Stage
    namespace: str
    user: str
    pid: int
    tail: Tail
    writes: int = 0

    async def until(self, done: Callable[[list[Record]], int], wanted: int) -> tuple[float, float]:
        """Things a second, and CPU seconds of the process, between the first granted write and the last one wanted."""
        began = ended = used = 0.0
        count = 0
        async with asyncio.timeout(120 + wanted):
            while count < wanted:
                await asyncio.sleep(_POLL_SECONDS)
                records = [record for record in self.tail.read() if self._counts(record)]
                if not records:
                    continue
                self.writes += len(records)
                used = used or cpu_seconds(self.pid)
                began = began or timestamps.parse(records[0].at)
                ended = timestamps.parse(records[-1].at)
                count += done(records)
        return wanted / (ended - began), cpu_seconds(self.pid) - used

    def _counts(self, record: Record) -> bool:
        here = (record.stage, record.namespace, record.user) == (COMPLETE, self.namespace, self.user)
        return here and record.is_write and record.code < 300 and record.resource != "events"


async def measure(stage: Stage, size: int, turn: int) -> Sample:
    """One backlog for each contender, one after the other."""
    sample: dict[tuple[str, str], float] = {}
    await asyncio.to_thread(_manager, stage, _alone())
    order = [*CONTENDERS]
    for column in order[turn % 3 :] + order[: turn % 3]:
        number = max(10, size // _DEFAULT_SHARE) if column == DEFAULT else size
        namespace = await stage.namespace(f"claims-{turn}-{COLUMNS.index(column)}")
        figures = await _life(stage, namespace, CONTENDERS[column], number)
        sample |= {(row.name, column): value for row, value in figures.items()}
        await stage.clear(namespace)
    for rate, raised, default in ((MADE, MADE_RAISED, MADE_DEFAULT), (FREED, FREED_RAISED, FREED_DEFAULT)):
        ours = sample[rate.name, TOLLBAR]
        sample[raised.name, TOLLBAR] = ours / sample[rate.name, RAISED]
        sample[default.name, TOLLBAR] = ours / sample[rate.name, DEFAULT]
    return sample


async def _life(stage: Stage, namespace: str, contender: Contender, size: int) -> dict[Row, float]:
    template = {"metadata": {"name": "gpu", "namespace": namespace}, "spec": {"spec": asking()}}
    await stage.admin.create(RESOURCE_CLAIM_TEMPLATES, template)
    await stage.create(PODS, (objects.template_pod(f"web-{n}", namespace, "gpu") for n in range(size)))
    server = stage.api_server_cpu()
    tail = stage.tail()
    async with contender.running(stage) as pid:
        meter = Meter(stage, namespace, contender.user, pid, tail)
        made, made_cpu = await meter.until(lambda some: sum(_is_status(each) for each in some), size)
    server_made = stage.api_server_cpu() - server
    claims = await _finish_all(stage, namespace, size)
    server = stage.api_server_cpu()
    later = stage.tail()
    async with contender.running(stage) as pid:
        cleaner = Meter(stage, namespace, contender.user, pid, later)
        freed, freed_cpu = await cleaner.until(lambda some: sum(_is_end(each, claims) for each in some), size)
    return {
        MADE: made,
        MADE_CPU: made_cpu / size * 1e3,
        FREED: freed,
        FREED_CPU: freed_cpu / size * 1e3,
        SERVER_CPU: (server_made + stage.api_server_cpu() - server) / size * 1e3,
        WRITES: (meter.writes + cleaner.writes) / size,
    }


def _is_status(record: Record) -> bool:
    return (record.resource, record.subresource) == ("pods", "status")


def _is_end(record: Record, claims: set[str]) -> bool:
    return record.verb == "delete" and record.name in claims


async def _finish_all(stage: Stage, namespace: str, size: int) -> set[str]:
    """Allocate all claims and finish all Pods, as scheduler and kubelet would; the names of the claims."""
    claims = {}
    for obj in (await stage.admin.list(RESOURCE_CLAIMS, namespace, limit=0))["items"]:
        claims[metadata(obj)["name"]] = obj
    pods = {metadata(obj)["uid"]: obj for obj in (await stage.admin.list(PODS, namespace, limit=0))["items"]}

    async def use(claim: Object) -> None:
        name = metadata(claim)["name"]
        pod = pods[metadata(claim)["ownerReferences"][0]["uid"]]
        await _merge(stage, RESOURCE_CLAIMS, namespace, name, {"metadata": {"finalizers": [FINALIZER]}})
        status = {"status": {"allocation": allocation(), "reservedFor": [entry_of(pod)]}}
        await _merge(stage, RESOURCE_CLAIMS, namespace, name, status, "status")
        await _merge(stage, PODS, namespace, metadata(pod)["name"], {"status": {"phase": "Succeeded"}}, "status")

    await in_parallel(claims.values(), use, at_once=_AT_ONCE)
    if len(claims) != size:
        raise AssertionError(f"{len(claims)} claims for {size} Pods")
    return set(claims)


async def _merge(
    stage: Stage, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
) -> None:
    await stage.admin.patch(
        resource, name, body, namespace=namespace, patch_type=PatchType.MERGE, subresource=subresource
    )


WORKLOAD: Final = Workload(
    name="claims",
    title="The life of generated claims",
    about=f"""\
Gated Pods exist, each with one claim from a template, and nobody has made their claims yet. The controller starts,
makes every claim and records it in its Pod's status: the first clock runs from its first granted write to the last
status, by the API server's audit log. It stops; the benchmark plays the scheduler's and the kubelet's part, so that
every claim is allocated and every Pod has finished. The controller starts again, frees every claim (allocation and
entry, then the finalizer) and deletes it: the second clock. CPU is that of the process between the same moments.

The peer is kube-controller-manager with its ResourceClaim controller alone (`--controllers`), with its default client
limits (20 requests a second, 30 at once) and with both raised to 5,000. With default limits, which alone decide its
rate, it has 1/{_DEFAULT_SHARE} of the Pods. Tollbar runs as it is shipped, with `claims: Replace`, gate and rules
included. The garbage collector runs for nobody.

What keeps Tollbar from the targets: freeing is three calls for a claim (status, finalizer, deletion), and these calls,
with their TLS handshakes, are about seven tenths of its CPU (py-spy, 1,000 claims, on a machine that was busy with
others). What one call of this client takes shows the loop of patches in [`ungate`](#releasing-a-burst-of-pods-ungate);
three of them take more than all of kube-controller-manager, which has HTTP/2 and protobuf in compiled code. Fewer calls
would be other writes than Kubernetes makes. The rest is the work queue, the watch events of these writes, and the
question to each controller whether a changed claim concerns it. Since these figures were first recorded, a finished Pod
that never had a Node is no longer decided about because its claim changes. On an AMD EPYC (2026-11-22) claims were made
at 1.05 of the peer's rate, with 1.00 ms of CPU beside its 0.99; there, freeing took 1.15 ms beside 0.65. The code of
that day and today's, one after the other on the machine of this table, 1,000 Pods once each: 1.68 and 1.91 ms to make a
claim (the runs of this table differ by more), 1.76 and 1.48 to free it.""",
    columns=COLUMNS,
    rows=(
        MADE,
        MADE_RAISED,
        MADE_DEFAULT,
        MADE_CPU,
        FREED,
        FREED_RAISED,
        FREED_DEFAULT,
        FREED_CPU,
        SERVER_CPU,
        WRITES,
    ),
    size=2000,
    things="Pods",
    measure=measure,
)
