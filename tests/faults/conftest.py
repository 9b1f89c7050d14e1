"""A fresh installation for every fault, so that no test inherits another one's damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from planes.objects import Cluster
from processes.stack import Stack, eventually, installed

from tollbar.api.gates import shipped_gate
from tollbar.devplane.kubectl import KubectlError
from tollbar.devplane.real.launcher import RealPlane


@pytest.fixture
def stack(own_plane: RealPlane, tmp_path: Path) -> Iterator[Stack]:
    """Installed, nothing running yet."""
    with installed(own_plane, tmp_path) as found:
        yield found


@pytest.fixture
def cluster(stack: Stack, namespace: str) -> Iterator[Cluster]:
    """Pods may be held for as long as a busy machine takes."""
    found = Cluster(stack.plane.kubectl, namespace)
    eventually(lambda: declared(stack), what="SchedulingGates are served")
    yield found
    found.clear()
    stack.plane.kubectl("delete", "schedulinggates", "--all")


def declared(stack: Stack) -> bool:
    """A gate with a `maxHold` that no test reaches; the controllers declare their own only where there is none."""
    shipped = shipped_gate()
    try:
        stack.plane.kubectl.apply({**shipped, "spec": {**shipped["spec"], "maxHold": "1h"}})
    except KubectlError:
        return False
    return True
