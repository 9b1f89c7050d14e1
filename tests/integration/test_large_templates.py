"""Templates as large as the API server stores them: a Pod that refers to many gets its claims, and fills no process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objects.builders import template
from planes.objects import a_pod, as_written
from planes.parameters import unavailable
from planes.replacing import RIGHTS, start
from processes.measuring import most_memory
from processes.stack import Process, Stack, eventually_is, installed

from tollbar.cli import console
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES

pytestmark = pytest.mark.timeout(300)

NAMESPACE = "default"
GET = ("get", "pod", "web", "-n", NAMESPACE)
TEMPLATES = 40
PARAMETERS = {"opaque": {"driver": "gpu.example.com", "parameters": {"a": [{}] * 3000}}}
CONFIG = [PARAMETERS] * 32
"""Of each template, as much as the API server takes: 0.3 MB of text, some 7 MB of memory."""
GROWTH = 100 * 1024 * 1024
"""Bytes for the few that are in memory at one time; all of them take more than twice as much."""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """With controllers that generate claims, as nobody else does, before there are templates."""
    with EmbeddedPlane(tmp_path / "plane", claims=False) as plane:
        if not plane.has_kubectl:
            unavailable("no kubectl: build the real control plane once, or put one on the PATH")
        (tmp_path / "stack").mkdir()
        given: Any = plane
        with installed(given, tmp_path / "stack") as stack:
            plane.kubectl("apply", "--server-side", "-f", str(RIGHTS))
            start(stack)
            yield stack


async def create(stack: Stack, *objects: Any) -> None:
    async with console.connected(console.Cluster(str(stack.plane.kubeconfig)), "test") as admin:
        for obj in objects:
            await admin.create(PODS if obj["kind"] == "Pod" else RESOURCE_CLAIM_TEMPLATES, as_written(obj))


def sample(process: Process, metric: str, labels: str) -> float:
    return sum(value for given, value in process.metrics().get(metric, {}).items() if labels in given)


def test_a_pod_that_refers_to_many_large_templates_gets_its_claims_and_fills_no_memory(stack: Stack) -> None:
    controllers = stack.running["controllers"]
    names = [f"large-{number}" for number in range(TEMPLATES)]
    asyncio.run(create(stack, *(template(name, NAMESPACE).but("spec.spec.devices.config", CONFIG) for name in names)))
    kind = 'kind="ResourceClaimTemplate"'
    eventually_is(TEMPLATES, lambda: sample(controllers, "tollbar_cache_stubs", kind))
    before = most_memory(controllers.child.pid)
    asyncio.run(create(stack, a_pod("web", NAMESPACE).templates(*names)))
    creates = "dynamic_resource_allocation_resourceclaim_creates_total"
    eventually_is(TEMPLATES, lambda: sample(controllers, creates, 'status="success"'))
    eventually_is(TEMPLATES, lambda: len(stack.plane.kubectl.json(*GET)["status"].get("resourceClaimStatuses", [])))
    grown = most_memory(controllers.child.pid) - before
    assert grown < GROWTH, f"{grown >> 20} MiB"
