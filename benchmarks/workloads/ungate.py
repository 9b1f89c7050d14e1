"""Many Pods released in one burst, beside a plain loop of the same patches."""

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from processes.stack import CONTROLLERS, Process, eventually

from benchmarks import objects
from benchmarks.stage import Stage, Tail, cpu_seconds, in_parallel
from benchmarks.workload import Row, Sample, Workload
from tollbar.devplane.audit import COMPLETE, Record
from tollbar.model import timestamps
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS

AT_ONCE: Final = 64
LOOP, SILENT, TOLLBAR = COLUMNS = ("loop of patches", "Tollbar without Events", "Tollbar")

RATE = Row("Pods released", "Pods/s", digits=0)
RATIO = Row("of the loop's rate", "", "at least 0.95", digits=2)
CPU = Row("CPU of the process, until the last release", "ms/Pod", "at most 0.5 without Events", digits=2)
CPU_IN_ALL = Row("CPU of the process, until the last Event", "ms/Pod", digits=2)
SERVER_CPU = Row("CPU of the API server, until the last release", "ms/Pod", digits=2)
PATCHES = Row("patches", "per Pod", "1", digits=3)
EVENTS_MEANWHILE = Row("Events written until the last release", "", digits=0)
EVENTS = Row("Events written in all", "", digits=0)
DROPPED = Row("Events dropped", "", digits=0)

_QUIET_SECONDS: Final = 5.0
"""Longer than a Pod is held before its first Event, and than the recorder takes to refill its rate limit."""
_FINDING_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Backlog:
    """Pods that are held, each for a claim of its own, all for one class."""

    namespace: str
    class_name: str
    pods: list[Object]


@dataclass(frozen=True)
class Readings:
    """Wall-clock time, and the CPU time that two processes have used, in seconds."""

    wall: float
    process: float
    server: float

    @classmethod
    def take(cls, stage: Stage, pid: int) -> "Readings":
        return cls(time.time(), cpu_seconds(pid), stage.api_server_cpu())


async def measure(stage: Stage, size: int, turn: int) -> Sample:
    """One burst of each kind, one after the other, each with Pods of its own."""
    stage.stack.plane.kubectl.apply(objects.rule(), objects.patient_gate())
    bursts = [(LOOP, _loop), (SILENT, _silent), (TOLLBAR, _tollbar)]
    sample: dict[tuple[str, str], float] = {}
    for column, burst in bursts[turn % 3 :] + bursts[: turn % 3]:
        backlog = await _backlog(stage, f"ungate-{turn}-{COLUMNS.index(column)}", size)
        sample |= {(row.name, column): value for row, value in (await burst(stage, backlog)).items()}
        await stage.clear(backlog.namespace)
    return sample | {(RATIO.name, column): sample[RATE.name, column] / sample[RATE.name, LOOP] for column in COLUMNS}


async def _backlog(stage: Stage, name: str, size: int) -> Backlog:
    namespace = await stage.namespace(name)
    class_name = f"late-{name}"
    numbers = range(size)
    await stage.create(RESOURCE_CLAIMS, (objects.claim_of(class_name, f"gpu-{n}", namespace) for n in numbers))
    pods = await stage.create(PODS, (objects.held_pod(f"web-{n}", namespace, f"gpu-{n}") for n in numbers))
    return Backlog(namespace, class_name, pods)


async def _loop(stage: Stage, backlog: Backlog) -> dict[Row, float]:
    """The peer: a client that knows each patch beforehand and only has to send it."""
    patches = [(key_of(pod), objects.release(pod)) for pod in backlog.pods]

    async def send(patch: tuple[tuple[str, str], list[Object]]) -> None:
        (namespace, name), body = patch
        await stage.peer.patch(PODS, name, body, namespace=namespace)

    await in_parallel(range(AT_ONCE), lambda _: stage.peer.list(PODS, limit=1), at_once=AT_ONCE)  # connect
    await asyncio.sleep(_QUIET_SECONDS)  # the API server is idle before the other bursts, too
    tail = stage.tail()
    before = Readings.take(stage, os.getpid())
    await in_parallel(patches, send, at_once=AT_ONCE)
    after = Readings.take(stage, os.getpid())
    return _figures(await _released(tail, backlog), backlog, before, after)


async def _silent(stage: Stage, backlog: Backlog) -> dict[Row, float]:
    process = stage.stack.start("silent", "benchmarks.processes.without_events", log__verbosity=0)
    return await _burst(stage, process, backlog)


async def _tollbar(stage: Stage, backlog: Backlog) -> dict[Row, float]:
    return await _burst(stage, stage.stack.controllers(log__verbosity=0), backlog)


async def _burst(stage: Stage, process: Process, backlog: Backlog) -> dict[Row, float]:
    """Wait until the controllers have found the Pods and are idle; then create the class."""
    size, pid, tail = len(backlog.pods), process.child.pid, stage.tail()
    eventually(lambda: process.reconciles() >= size, seconds=_FINDING_SECONDS, what="every Pod found")
    await _events_until_quiet(tail)
    dropped = _dropped(process)
    before = Readings.take(stage, pid)
    await stage.admin.create(DEVICE_CLASSES, objects.late_class(backlog.class_name))
    records = await _released(tail, backlog)
    after = Readings.take(stage, pid)
    later = await _events_until_quiet(tail)
    at_rest = Readings.take(stage, pid)
    figures = _figures(records, backlog, before, after) | {
        EVENTS_MEANWHILE: len(_events(records)),
        EVENTS: len(_events(records)) + len(later),
        DROPPED: _dropped(process) - dropped,
        CPU_IN_ALL: (at_rest.process - before.process) / size * 1e3,
    }
    process.stop()
    await stage.admin.delete(DEVICE_CLASSES, backlog.class_name)
    return figures


def _figures(records: list[Record], backlog: Backlog, before: Readings, after: Readings) -> dict[Row, float]:
    size = len(backlog.pods)
    patches = _patches(records, backlog)
    last = max(timestamps.parse(record.at) for record in patches)
    return {
        RATE: size / (last - before.wall),
        CPU: (after.process - before.process) / size * 1e3,
        SERVER_CPU: (after.server - before.server) / size * 1e3,
        PATCHES: len(patches) / size,
    }


async def _released(tail: Tail, backlog: Backlog) -> list[Record]:
    """The records until the last Pod of the backlog was released."""
    records: list[Record] = []
    released: set[str] = set()
    async with asyncio.timeout(60 + len(backlog.pods) / 10):
        while len(released) < len(backlog.pods):
            await asyncio.sleep(_POLL_SECONDS)
            new = tail.read()
            records += new
            released |= {record.name for record in _patches(new, backlog) if record.code == 200}
    return records


async def _events_until_quiet(tail: Tail) -> list[Record]:
    """Wait until no Event was written for a while; the Events until then."""
    events: list[Record] = []
    last = time.monotonic()
    while time.monotonic() < last + _QUIET_SECONDS:
        await asyncio.sleep(_POLL_SECONDS)
        if new := _events(tail.read()):
            events += new
            last = time.monotonic()
    return events


def _patches(records: Iterable[Record], backlog: Backlog) -> list[Record]:
    return [
        record
        for record in records
        if (record.verb, record.resource, record.subresource) == ("patch", "pods", "")
        and (record.stage, record.namespace) == (COMPLETE, backlog.namespace)
    ]


def _events(records: Iterable[Record]) -> list[Record]:
    ours = (record for record in records if record.user == CONTROLLERS and record.resource == "events")
    return [record for record in ours if record.stage == COMPLETE]


def _dropped(process: Process) -> float:
    return process.metrics().get("tollbar_events_total", {}).get('result="dropped"', 0.0)


WORKLOAD: Final = Workload(
    name="ungate",
    title="Releasing a burst of Pods",
    about=f"""\
Pods with our gate exist, each with a claim of its own that names the same missing DeviceClass. The controllers start,
find them all and come to rest. Then the class appears, and every Pod is released with one toleration. The clock runs
from the request that creates the class to the answer to the last patch, by the API server's audit log.

The peer is a loop that knows every patch beforehand and only sends it: the same patches to equally shaped Pods, by the
same client under the same identity. Both have {AT_ONCE} calls under way at one time (the controllers' default for
`workers`). The loop watches nothing and decides nothing, so its rate is the API server's ceiling on this machine, and
its CPU that of the client alone. Tollbar is measured as it is, and with the recording of Events taken out: Events are
bounded to 50 a second (after 200 at once), and those that do not fit a queue of 1,000 are dropped, so a burst goes on
writing Events after its last release. How long a Pod was held is no figure here: the backlog is as old as its creation
took.

What keeps Tollbar from the two targets: while both cores are busy, a rate is what CPU all processes take together. The
API server takes 0.1 to 0.4 ms more for a Pod whose changes it also sends to a watch, which the loop has not; the rest
is Tollbar's own CPU. In two bursts of 1,000 Pods, without Events and with them, the CPU of the process went for this
(py-spy, 300 samples a second, on a machine that was busy with others, so take the shares as hints):

| share | what for |
| ---: | --- |
| 30 % | the calls: requests, TLS, sockets and answers, as in the loop, and the turns of the event loop |
| 14 % | TLS handshakes: the loop connects before the clock starts, the controllers, which rested, within the burst |
| 26 % | decisions: what a Pod refers to, the rules, the patch |
| 12 % | caches: watch events and their JSON, compressed Pods, indexes |
| 12 % | the reconcile loop, its queue, and whoever else is told that a Pod has changed |
| 6 % | the log line of each release, and metrics |

What was done since these figures were first recorded: a Pod is decoded once for a release, where it was twice, and
compressed when it has not been used for a while, with a smaller window; indexes, and predicates that ask the rules,
work out once what they need several times; log lines and records make no JSON encoder each. uvloop, tried earlier,
saved nothing ([decision 0014](decisions/0014-calls-over-an-exchange-of-our-own.md)). On an AMD EPYC (2026-11-22) the
rate was 0.81 of the loop's, with 0.79 ms of CPU without Events beside 0.28.""",
    columns=COLUMNS,
    rows=(RATE, RATIO, CPU, CPU_IN_ALL, SERVER_CPU, PATCHES, EVENTS_MEANWHILE, EVENTS, DROPPED),
    size=2000,
    things="Pods",
    measure=measure,
)
