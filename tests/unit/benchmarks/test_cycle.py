"""The benchmark `cycle` measures what it says: every kind of Pod gets a Node, and every figure is told."""

import asyncio

import pytest

from benchmarks.workloads import cycle
from benchmarks.workloads.cycle import CLAIM, KINDS, Cluster


def test_every_figure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "_WARM", 1)
    told = asyncio.run(cycle._main(12, 24, cycles=2))
    monkeypatch.setattr(cycle, "_in_a_process", lambda *_: told)
    told = asyncio.run(cycle.WORKLOAD.measure(None, 24, 1))
    assert {row for row, _ in told} == {row.name for row in cycle.WORKLOAD.rows}


@pytest.mark.parametrize("kind", KINDS)
def test_pods_count_on_their_nodes_and_devices_are_taken(kind: str) -> None:
    async def run() -> tuple[int, int]:
        cluster = Cluster(6, 12)
        await cluster.cycles(kind, 3)
        (framework,) = cluster.scheduler._profiles.values()
        taken = framework.handle.dra.claims.state.devices
        return cluster.scheduler._cache.sizes()["assumed_pods"], len(taken)

    assert asyncio.run(run()) == (3, 3 if kind == CLAIM else 0)
