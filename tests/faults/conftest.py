"""A fresh installation for every fault, so that no test inherits another one's damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from stack import Stack, installed

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.launcher import RealPlane


@pytest.fixture(scope="module")
def nodes(plane: RealPlane) -> Iterator[BackgroundKubelet]:
    """One node without taints: these tests are about gates."""
    with BackgroundKubelet(plane.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec("plain"))
        yield kubelet


@pytest.fixture
def stack(own_plane: RealPlane, tmp_path: Path) -> Iterator[Stack]:
    """Installed, nothing running yet."""
    with installed(own_plane, tmp_path) as found:
        yield found


@pytest.fixture
def cluster(stack: Stack, namespace: str) -> Iterator[Cluster]:
    found = Cluster(stack.plane.kubectl, namespace)
    yield found
    found.clear()
    stack.plane.kubectl("delete", "schedulinggates", "--all")
