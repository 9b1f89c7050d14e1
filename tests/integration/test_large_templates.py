"""Templates as large as the API server stores them: a Pod that refers to many gets its claims, and fills no process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import largetemplates
import pytest
from cluster import a_pod
from planes import unavailable
from replacing import RIGHTS, start
from stack import Stack, eventually_is, installed

from tollbar.devplane.embedded.launcher import EmbeddedPlane

pytestmark = pytest.mark.timeout(300)

NAMESPACE = "default"


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


def test_a_pod_that_refers_to_many_large_templates_gets_its_claims_and_fills_no_memory(stack: Stack) -> None:
    controllers, large = stack.running["controllers"], largetemplates
    asyncio.run(large.create(stack, *large.in_namespace(NAMESPACE)))
    large.are_stubs(controllers)
    grown = large.Grown(controllers)
    asyncio.run(large.create(stack, a_pod("web", NAMESPACE).templates(*large.NAMES)))
    creates = "dynamic_resource_allocation_resourceclaim_creates_total"
    eventually_is(large.COUNT, lambda: large.sample(controllers, creates, 'status="success"'))
    eventually_is(large.COUNT, lambda: len(large.recorded(stack, "web", NAMESPACE)))
    assert grown() < large.GROWTH, f"{grown() >> 20} MiB"
