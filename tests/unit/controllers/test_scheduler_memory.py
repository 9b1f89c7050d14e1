"""What comes and goes leaves nothing behind in the scheduler: Nodes, slices, claims and Pods, all with new names."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextvars import Context
from types import FunctionType, ModuleType
from typing import Final

import pytest
from clusters.scheduler import ApiServer, World, node, scheduling, settled
from fakes.manager import Told
from objects.builders import Built, claim, device_class, pod
from objects.devices import DRIVER, device, exactly, published, selecting
from prometheus_client.metrics import MetricWrapperBase

from tollbar import cel
from tollbar.model.changelog import ChangeLog
from tollbar.model.objects import key_of

pytestmark = pytest.mark.looptime
WARM_UP: Final = 15
ROUNDS: Final = 20
"""So many after the warm-up."""
_OTHERS: Final = (ApiServer, Told, ChangeLog, MetricWrapperBase, ModuleType, type, asyncio.AbstractEventLoop, Context)
"""What does not belong to the scheduler, and what is bounded: logs of changes, metrics by attempts."""
FAST: Final = selecting(f'device.attributes["{DRIVER}"].fast')


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    """The first expression that is compiled loads what compiling needs, which blocks."""
    cel.engine().compile("true", cel.DEVICE_ENV)


def reached(*roots: object) -> Counter[str]:
    """All objects that these refer to, by their types; what functions share with their module is not looked at."""
    seen: set[int] = set()
    found: Counter[str] = Counter()
    left = list(roots)
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, _OTHERS):
            continue
        seen.add(id(each))
        found[type(each).__name__] += 1
        left += _of_function(each) if isinstance(each, FunctionType) else gc.get_referents(each)
    return found


def _of_function(each: FunctionType) -> Iterator[object]:
    yield from each.__closure__ or ()
    yield from each.__defaults__ or ()


def passing(number: int) -> Iterator[Built]:
    """Nodes with devices, and Pods of every kind, all of which go again; some of the Pods never fit."""
    for name in (f"n-{number}", f"m-{number}"):
        yield node(name).but("metadata.labels.site", name)
        yield published(f"s-{name}", device("g0", fast=True), device("g1", fast=True), node=name)
    yield published(f"net-{number}", "net0", pool=f"net-{number}", nodeName=None, allNodes=True)
    wanted = {"one": exactly(selectors=FAST), "two": exactly(count=2), "many": exactly(count=7)}
    for kind, request in wanted.items():
        name = f"{kind}-{number}"
        yield claim(name).but("spec.devices.requests", [request])
        yield pod(name).claims(name).wants({"cpu": "10m"})
    apart = pod(f"apart-{number}").labelled(app="a").wants({"cpu": "10m"})
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    yield apart.but("spec.affinity", {"podAntiAffinity": required})
    spread = {"maxSkew": 1, "topologyKey": "site", "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"matchLabels": {"app": "a"}}
    yield (
        apart.but("metadata.name", f"spread-{number}")
        .but("metadata.uid", f"spread-{number}")
        .but("spec.topologySpreadConstraints", [{**spread, "labelSelector": selector}])
    )
    yield pod(f"large-{number}").wants({"cpu": "100"})
    yield pod(f"urgent-{number}").but("spec.priority", 10).wants({"cpu": "3900m"})


def left_in(world: World) -> Counter[str]:
    gc.collect()
    return reached(world.scheduler, world.manager.caches)


async def test_nothing_is_left_of_what_is_gone() -> None:
    async with scheduling(node("n"), device_class(), published("s-n", device("g0", fast=True), node="n")) as world:
        before: Counter[str] = Counter()
        for number in range(WARM_UP + ROUNDS):
            if number == WARM_UP:
                before = left_in(world)
            given = [world.api.store(each) for each in passing(number)]
            await settled(world)
            for each in given:
                kept = world.api.objects.get((each["kind"], key_of(each)))
                if kept is not None:
                    world.api.drop(kept)
            await settled(world)
        grown = left_in(world) - before
    assert {name: more for name, more in grown.items() if more >= ROUNDS} == {}


async def test_a_pod_that_is_being_bound_keeps_no_scores() -> None:
    async with scheduling(node("n"), node("m")) as world:
        world.api.latency = 60.0
        world.api.store(pod("web").wants({"cpu": "10m"}))
        world.watch()
        await asyncio.sleep(1)
        kept = reached(*asyncio.all_tasks())
        is_being_bound = world.assumed() == kept["Attempt"] == 1
    assert (is_being_bound, kept["NodeScores"]) == (True, 0)
