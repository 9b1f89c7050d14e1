"""Pods as large as the API server stores them: the scheduler keeps little of them, and lists few at once.

What it takes is in the log (`--log-cli-level=INFO`).
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from planes.loading import VOLUME
from planes.objects import a_pod, as_written
from processes.measuring import most_memory
from processes.stack import installed

from tollbar.cli import console
from tollbar.model.objects import Object
from tollbar.model.resources import PODS

pytestmark = pytest.mark.timeout(300)

log = logging.getLogger(__name__)

COUNT = 100 if VOLUME > 1 else 40
GROWTH = 30 * 1024 * 1024
"""Bytes for one page of their list: as much as one can take at most (`PAGE_TEXT`).  One of these takes a tenth, and 40
in a page take four times as much."""


def large(number: int, namespace: str) -> Object:
    """A megabyte, in environment variables, with a Node: the scheduler reads none of it."""
    env = [{"name": f"V{each}", "value": str(each) * 100_000} for each in range(10)]
    containers = [{"name": "main", "image": "example.com/app", "env": env}]
    return as_written(
        a_pod(f"large-{number}", namespace).but("spec.nodeName", "far").but("spec.containers", containers)
    )


async def create(plane: Any, namespace: str) -> None:
    async with console.connected(console.Cluster(str(plane.kubeconfig)), "test") as admin:
        for number in range(COUNT):
            await admin.create(PODS, large(number, namespace))


def test_a_scheduler_that_starts_among_large_pods_takes_little_memory(
    plane: Any, namespace: str, tmp_path: Path
) -> None:
    with installed(plane, tmp_path) as stack:
        first = stack.scheduler()
        before = most_memory(first.child.pid)
        first.stop()
        asyncio.run(create(plane, namespace))
        started = stack.scheduler()
        grown = most_memory(started.child.pid) - before
        listed = started.metrics()["tollbar_cache_objects"]['kind="Pod"']
    log.info("%d large Pods: %d MiB more in the scheduler", listed, grown >> 20)
    assert listed >= COUNT
    assert grown < GROWTH, f"{grown >> 20} MiB"
