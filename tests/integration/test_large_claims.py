"""Claims as large as the API server stores them: they do not fill the processes, and a Pod with one goes on.

What they take is in the log (`--log-cli-level=INFO`).
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objects.builders import claim, device_class, toleration_rule
from planes.loading import VOLUME
from planes.objects import RESERVED, a_pod, as_written
from planes.parameters import real_too
from processes.measuring import most_memory
from processes.stack import Stack, eventually, installed

from tollbar.api.gates import shipped_gate
from tollbar.cli import console
from tollbar.model.objects import Object
from tollbar.model.resources import RESOURCE_CLAIMS

pytestmark = [pytest.mark.timeout(300), real_too(VOLUME > 1, "part of make test-long")]

log = logging.getLogger(__name__)

NAMESPACE = "default"
CLAIMS = 120 if VOLUME > 1 else 40
GROWTH = 30 * 1024 * 1024
"""Bytes for one page of their list: as much as one can take at most (`PAGE_TEXT`).  One of these takes a tenth, and a
page of 25 takes twice as much."""


def large(name: str) -> Object:
    """A megabyte, in device selectors."""
    wanted = claim(name, NAMESPACE)
    for _ in range(32):
        wanted = wanted.request("gpu.example.com", selectors=tuple(f'device.driver == "{n:07900}"' for n in range(4)))
    return as_written(wanted)


async def create(plane: Any) -> None:
    async with console.connected(console.Cluster(str(plane.kubeconfig)), "test") as admin:
        for number in range(CLAIMS):
            await admin.create(RESOURCE_CLAIMS, large(f"large-{number}"))


@pytest.fixture
def stack(plane: Any, tmp_path: Path) -> Iterator[Stack]:
    """With the webhook and the controllers, before there are claims."""
    kubectl = plane.kubectl
    with installed(plane, tmp_path) as stack:
        kubectl.apply(
            shipped_gate(),
            as_written(device_class("gpu.example.com")),
            as_written(toleration_rule("gpu").cel("claims.size() > 0").giving(RESERVED)),
        )
        yield stack
        kubectl("delete", "pod/web", "deviceclass/gpu.example.com", "-n", NAMESPACE, "--ignore-not-found")
        kubectl("delete", "--raw", RESOURCE_CLAIMS.path(NAMESPACE))  # one call for all


def test_large_claims_take_little_memory_and_a_pod_with_one_goes_on_without_rules_about_claims(stack: Stack) -> None:
    before = [most_memory(process.child.pid) for process in (stack.webhook(), stack.controllers())]
    asyncio.run(create(stack.plane))
    for process in list(stack.running.values()):
        process.stop()
    started = [stack.webhook(), stack.controllers()]
    grown = [most_memory(process.child.pid) - least for process, least in zip(started, before, strict=True)]
    log.info("%d large claims: %s MiB more in the webhook and the controllers", CLAIMS, [each >> 20 for each in grown])
    stack.register()
    stack.plane.kubectl.apply(as_written(a_pod("web", NAMESPACE).claims("large-0")))
    released = "PackageTooLarge: rule gpu"
    eventually(lambda: released in started[1].log(), what="the controllers release the Pod")
    pod = stack.plane.kubectl.json("get", "pod", "web", "-n", NAMESPACE)
    assert (
        [each < GROWTH for each in grown],
        pod["spec"].get("schedulingGates", []),
        RESERVED in pod["spec"].get("tolerations", []),
    ) == ([True, True], [], False)
