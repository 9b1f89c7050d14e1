"""Templates as large as the API server stores them: Pods that refer to many get their claims, and fill no process.

What that takes is in the log (`--log-cli-level=INFO`).
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from objects.builders import template
from planes.loading import VOLUME
from planes.objects import a_pod, as_written
from planes.parameters import PLANES, needs_kubectl
from planes.replacing import permit, replacing, start
from processes.measuring import most_memory
from processes.stack import Process, Stack, installed

from tollbar.cli import console
from tollbar.cli.waiting import Selection, until
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.model.objects import Key, Object
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES

pytestmark = pytest.mark.timeout(300)

log = logging.getLogger(__name__)

NAMESPACE = "default"
EACH = 20 if VOLUME > 1 else 10
"""Templates to which a Pod refers."""
TEMPLATES = [f"large-{number}" for number in range(3 * EACH)]
PATIENCE: dict[str, Any] = {"timeout": 240, "what": "a claim for each template of the Pod"}
PARAMETERS = {"opaque": {"driver": "gpu.example.com", "parameters": {"a": [{}] * 3000}}}
CONFIG = [PARAMETERS] * 32
"""Of each template, as much as the API server takes: 0.3 MB of text, some 7 MB of memory."""
SELECTORS = tuple(f'device.driver == "{number:07200}"' for number in range(3))
"""Of each of 32 requests: 0.7 MB of text."""
GROWTH = 100 * 1024 * 1024
"""Bytes for the few that are in memory at one time, which take half of it; thirty take twice as much."""


@pytest.fixture(params=PLANES)
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    """With controllers that generate claims, as nobody else does, before there are templates."""
    if request.param == "embedded":
        with replacing_embedded(tmp_path) as stack:
            yield stack
    else:
        with replacing(request.getfixturevalue("binaries"), tmp_path) as stack:
            yield stack


@contextmanager
def replacing_embedded(directory: Path) -> Iterator[Stack]:
    with EmbeddedPlane(directory / "plane", claims=False) as plane:
        needs_kubectl(plane)
        (directory / "stack").mkdir()
        given: Any = plane
        with installed(given, directory / "stack") as stack:
            permit(plane.kubectl)
            start(stack)
            yield stack


def large(name: str) -> Object:
    wanted = template(name, NAMESPACE).but("spec.spec.devices.config", CONFIG)
    for _ in range(32):
        wanted = wanted.request("gpu.example.com", selectors=SELECTORS)
    return as_written(wanted)


async def generated(plane: Any) -> set[str]:
    """The claims that the statuses of the Pods name, once there is one for each template.

    The Pods are held, so that no scheduler looks at them.
    """
    web = {f"web-{first}": TEMPLATES[first : first + EACH] for first in range(0, len(TEMPLATES), EACH)}
    async with console.connected(console.Cluster(str(plane.kubeconfig)), "test") as admin:
        for name in TEMPLATES:
            await admin.create(RESOURCE_CLAIM_TEMPLATES, large(name))
        for name, templates in web.items():
            await admin.create(PODS, as_written(a_pod(name, NAMESPACE).gated("example.com/wait").templates(*templates)))
        seen = [await until(admin, Selection.named(PODS, Key(NAMESPACE, name)), has_all, **PATIENCE) for name in web]
    return {name for pod in seen for name in claims_of(pod)}


def has_all(pod: Object | None) -> bool:
    return len(claims_of(pod)) == EACH


def claims_of(pod: Object | None) -> list[str]:
    statuses = (pod or {}).get("status", {}).get("resourceClaimStatuses", ())
    return [each["resourceClaimName"] for each in statuses]


def created(process: Process) -> int:
    """How many claims it has created."""
    samples = process.metrics().get("dynamic_resource_allocation_resourceclaim_creates_total", {})
    return int(sum(value for labels, value in samples.items() if 'status="success"' in labels))


def test_pods_that_refer_to_many_large_templates_get_their_claims_and_fill_no_memory(stack: Stack) -> None:
    controllers = stack.running["controllers"]
    before = most_memory(controllers.child.pid)
    names = asyncio.run(generated(stack.plane))
    grown = most_memory(controllers.child.pid) - before
    log.info("%d claims of large templates: %d MiB more in the controllers", len(names), grown >> 20)
    assert (len(names), created(controllers)) == (len(TEMPLATES), len(TEMPLATES))
    assert grown < GROWTH, f"{grown >> 20} MiB"
