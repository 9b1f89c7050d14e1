"""One installation for each file, beside kube-scheduler, and two nodes of which one is reserved."""

import os
from collections.abc import Iterator

import pytest
import yaml
from e2e.workloads import Shared
from planes.objects import Cluster
from planes.replacing import replacing
from plugins import samples
from processes.stack import Stack, installed

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.launcher import RealPlane

TAINT = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}
DRIVER = "gpu.example.com"


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Installed and running, the webhook registered; tests that stop a process start it again."""
    with installed(plane, tmp_path_factory.mktemp("stack")) as running:
        running.webhook()
        running.controllers()
        running.register()
        yield running


@pytest.fixture(scope="module")
def nodes(plane: RealPlane) -> Iterator[BackgroundKubelet]:
    """`plain`, and `gpu-1`: tainted, with 64 devices of one driver and 64 of an extended resource."""
    with BackgroundKubelet(plane.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec("plain"))
        kubelet.add_node(NodeSpec("gpu-1", taints=(TAINT,), capacity={"example.com/gpu": "64"}))
        devices = [{"name": f"gpu-{index}", "attributes": {"type": {"string": "gpu"}}} for index in range(64)]
        kubelet.publish_devices("gpu-1", DRIVER, devices)
        yield kubelet


@pytest.fixture(scope="module")
def replaced(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`claims: Replace` on a plane of its own, whose kube-controller-manager leaves claims alone."""
    with replacing(binaries, tmp_path_factory.mktemp("replaced")) as stack:
        yield stack


@pytest.fixture(scope="module")
def node(replaced: Stack) -> Iterator[BackgroundKubelet]:
    """`gpu-1` of that plane, with 64 devices."""
    with BackgroundKubelet(replaced.plane.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec("gpu-1"))
        kubelet.publish_devices("gpu-1", DRIVER, [{"name": f"gpu-{index}"} for index in range(64)])
        yield kubelet


@pytest.fixture
def cluster(stack: Stack, nodes: BackgroundKubelet, namespace: str) -> Iterator[Cluster]:
    """A namespace of its own, and no rules and classes but one's own."""
    found = Cluster(stack.plane.kubectl, namespace)
    yield found
    found.clear()


@pytest.fixture
def shared(cluster: Cluster) -> Shared:
    """A template `one` for one device, in a namespace of its own."""
    cluster.create(cluster.template("one", cluster.class_()))
    return Shared(cluster)


@pytest.fixture
def sample_scheduler(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What the reader of scheduler-plugins has started: a scheduler with these plugins, in the example's profile."""
    installed = samples.install(tmp_path_factory.mktemp("plugins"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, installed)))
    process = stack.scheduler("samples", **yaml.safe_load((samples.EXAMPLE / "scheduler.yaml").read_text()))
    yield
    process.stop()
