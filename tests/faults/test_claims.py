"""Claims whose controller is killed, or whose API server misbehaves towards it, while Pods come and go.

`claims: Replace` beside kube-scheduler, with too few devices, so that a claim that is not freed holds everything up.
Every state that was stored is recorded through the server itself and judged afterwards by `history.claims`: no claim
leaked, none made twice, none freed under a Pod that uses it, no entry and no finalizer left.  TOLLBAR_LIFE_CYCLES says
how many lives there are when everything goes wrong at one time; 250 of them at a time are a test of their own, so that
what was judged counts, also when the run is ended.
"""

import asyncio
import os
import random
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from faultproxy import Delay, FaultProxy, ProxiedPlane, Refuse, Reset, Rule, too_many
from faultproxy.everything import CLAIMS, everything
from faultproxy.faults import Fault
from history.claims import wrongs
from history.lifecycles import KINDS, lives
from parity.sides import Ours
from planes.replacing import OFF, permit
from processes.stack import installed

from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

LIVES = int(os.environ.get("TOLLBAR_LIFE_CYCLES", "40"))
BATCH = 250
AT_ONCE = 12 if LIVES < 1000 else 36


def on(verb: str, fault: Fault, resources: Set[str] = CLAIMS, nth: Sequence[int] = range(1, 5)) -> Rule:
    return Rule(f"{verb} {'/'.join(sorted(resources))}", fault, verbs={verb}, resources=resources, nth=nth)


CASES: dict[str, tuple[Rule, ...]] = {
    "answers to creations are lost": (on("create", Reset(after=True)),),
    "creations are answered with 500 though they were done": (on("create", Refuse(500, "InternalError", after=True)),),
    "answers to statuses of Pods are lost": (on("patch", Reset(after=True), {"pods"}),),
    "statuses of Pods are not written": (on("patch", Reset(), {"pods"}),),
    "conflicts that are none": (on("update", Refuse(409, "Conflict")), on("patch", Refuse(409, "Conflict"))),
    "answers to updates of claims are lost": (on("update", Reset(after=True)), on("patch", Reset(after=True))),
    "answers to deletions are lost": (on("delete", Reset(after=True)),),
    "the server is busy": (on("create", too_many(), nth=[1, 3]), on("update", too_many(), nth=[1, 3])),
    "Pods are seen later than kube-scheduler reserves for them, and live looks at them fail": (
        on("get", Refuse(500, "InternalError"), {"pods"}),
        on("watch", Delay(5.0), {"pods"}, nth=range(1, 100)),
    ),
    "what is watched of claims is late": (on("watch", Delay(1.0), nth=range(1, 100)),),
    "what is watched of Pods is late": (on("watch", Delay(1.0), {"pods"}, nth=range(1, 100)),),
}
"""One fault at a time, for two lives of each kind."""


@dataclass(frozen=True)
class Disturbed:
    """The controller under test, what its requests go through, and the plane without that."""

    side: Ours
    proxy: FaultProxy
    kubeconfig: Path


@pytest.fixture(scope="module")
def disturbed(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disturbed]:
    directory = tmp_path_factory.mktemp("claims")
    options = Options(flags={CONTROLLER_MANAGER: (OFF,)})
    with (
        RealPlane(binaries, directory / "plane", options) as plane,
        installed(plane, directory) as stack,
        FaultProxy(plane.kubeconfig, directory / "proxy", seed=1) as proxy,
    ):
        permit(plane.kubectl)
        through = replace(stack, plane=ProxiedPlane(plane, proxy), running={})
        side = Ours(through)
        try:
            side.up()
            yield Disturbed(side, proxy, plane.kubeconfig)
        finally:
            through.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES)
def test_lives_with_one_fault(case: str, disturbed: Disturbed) -> None:
    proxy, rules = disturbed.proxy, CASES[case]
    watched = any("watch" in rule.verbs for rule in rules)
    before = proxy.hits.copy()

    async def live() -> tuple[list[str], list[str]]:
        async with lives(disturbed.kubeconfig, f"case-{[*CASES].index(case)}", seed=1, seconds=120.0) as those:
            with proxy.faults(*rules):
                if watched:
                    proxy.cut_watches()
                await those.live(2 * KINDS)
            if watched:
                proxy.cut_watches()
            left = await those.end()
            return wrongs(those.changes), left

    assert asyncio.run(live()) == ([], [])
    assert {rule.name for rule in rules} == set(proxy.hits - before), "a fault was not met: nothing was tested"


@pytest.mark.timeout(300 + 3 * BATCH)
@pytest.mark.parametrize("first", range(0, LIVES, BATCH))
def test_many_lives_with_every_fault_and_sigkill(
    first: int, disturbed: Disturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy, side = disturbed.proxy, disturbed.side
    before = proxy.hits.copy()
    number = min(BATCH, LIVES - first)
    kills = max(2, number // 80)
    rules = everything("resourceclaims")
    rng = random.Random(2 + first)

    async def kill() -> None:
        for _ in range(kills):
            await asyncio.sleep(rng.uniform(1.0, 6.0))
            await asyncio.to_thread(side.down)
            await asyncio.to_thread(side.up)

    async def live() -> tuple[list[str], list[str]]:
        async with lives(
            disturbed.kubeconfig, f"many-{first}", seed=2 + first, seconds=120.0, at_once=AT_ONCE
        ) as those:
            with proxy.faults(*rules):
                proxy.cut_watches()
                async with asyncio.TaskGroup() as both:
                    both.create_task(those.live(number))
                    both.create_task(kill())
            proxy.cut_watches()
            left = await those.end()
            return wrongs(those.changes), left

    wrong, left = asyncio.run(live())
    hits = proxy.hits - before
    with capsys.disabled():
        print(  # noqa: T201
            f"\nlives {first} to {first + number - 1} of {LIVES}: {kills} kills, {hits.total()} faults, "
            f"{len(wrong)} wrong, {len(left)} left over",
            flush=True,
        )
    assert (wrong, left) == ([], [])
    assert {rule.name for rule in rules} == set(hits), "a fault was not met: nothing was tested"
