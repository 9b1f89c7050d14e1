"""Drills: the webhook cannot be called, in each of the ways there are.  No creation fails, and tolerations come late.

What a creation takes meanwhile is in the log (`--log-cli-level=INFO`).
"""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from planes.objects import RESERVED, Cluster, a_ready_rule, gpu_rule, provenance
from processes.stack import Stack, eventually

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.devplane.ports import free_ports
from tollbar.model.objects import labels_of
from tollbar.runtime import certs

pytestmark = pytest.mark.timeout(300)

log = logging.getLogger(__name__)

PODS = 2
EXPIRED_DAYS = 40


@contextmanager
def closed_port(stack: Stack, _: Path) -> Iterator[webhooks.ClientConfig]:
    (port,) = free_ports(1)
    yield webhooks.at_url(f"https://127.0.0.1:{port}", stack.authority)


@contextmanager
def hanging(stack: Stack, _: Path) -> Iterator[webhooks.ClientConfig]:
    """Connections are taken by the kernel, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield webhooks.at_url(f"https://127.0.0.1:{listening.getsockname()[1]}", stack.authority)


@contextmanager
def unreachable(stack: Stack, _: Path) -> Iterator[webhooks.ClientConfig]:
    """As when the Node is gone: connecting is not answered.  The kernel drops what finds the queue of a socket full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, ExitStack() as waiting:
        address = listening.getsockname()
        with suppress(TimeoutError):
            while True:
                waiting.enter_context(socket.create_connection(address, timeout=0.5))
        yield webhooks.at_url(f"https://127.0.0.1:{address[1]}", stack.authority)


@contextmanager
def wrong_ca(stack: Stack, directory: Path) -> Iterator[webhooks.ClientConfig]:
    certs.ensure(directory, ["127.0.0.1"], time.time())
    yield webhooks.at_url(f"https://127.0.0.1:{stack.serving}", (directory / "ca.crt").read_bytes())


@contextmanager
def expired(stack: Stack, directory: Path) -> Iterator[webhooks.ClientConfig]:
    certs.ensure(directory, ["127.0.0.1"], time.time() - EXPIRED_DAYS * 86400)
    (port,) = free_ports(1)
    files = {"webhook__certFile": str(directory / "tls.crt"), "webhook__keyFile": str(directory / "tls.key")}
    process = stack.start("expired", "webhooks", ready=False, webhook__port=port, **files)
    eventually(lambda: accepts(port), what="it serves the expired certificate")
    yield webhooks.at_url(f"https://127.0.0.1:{port}", (directory / "ca.crt").read_bytes())
    process.stop()


@contextmanager
def no_endpoint(_: Stack, __: Path) -> Iterator[webhooks.ClientConfig]:
    """The Service has none: no Node passes on what is sent to its address."""
    yield webhooks.at_service()


def accepts(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


DRILLS: dict[str, Callable[[Stack, Path], AbstractContextManager[webhooks.ClientConfig]]] = {
    "closed-port": closed_port,
    "wrong-ca": wrong_ca,
    "expired": expired,
    "no-endpoint": no_endpoint,
    "hanging": hanging,
    "unreachable": unreachable,
}


def test_no_creation_fails_while_the_webhook_cannot_be_called(cluster: Cluster, stack: Stack, tmp_path: Path) -> None:
    stack.controllers()
    stack.webhook()
    stack.register()
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    missed = {}
    for name, drill in DRILLS.items():
        (tmp_path / name).mkdir()
        with drill(stack, tmp_path / name) as to:
            stack.plane.kubectl.apply(webhooks.pods_configuration(to))
            eventually(lambda: not decided(cluster), what=f"{name} is in force")
            begun = time.monotonic()
            names = [f"{name}-{i}" for i in range(PODS)]
            cluster.create(*(cluster.pod(each).templates("mine") for each in names))
            log.info("%s: %.0f ms a creation", name, (time.monotonic() - begun) * 1000 / PODS)
            eventually(lambda names=names: all(cluster.tolerations(each) == [RESERVED] for each in names), what=name)
            missed[name] = [ways(cluster, each) for each in names]
        stack.register()
    assert missed == {name: [["late"]] * PODS for name in DRILLS}
    cluster.create_known(cluster.pod("after").templates("mine"))
    assert ways(cluster, "after") == ["admission"]


def decided(cluster: Cluster) -> bool:
    """Whether the webhook is asked about a Pod that is created now: a dry run."""
    gated = cluster.pod("tried").but("spec.schedulingGates", [{"name": wellknown.GATE}])
    return wellknown.LABEL_GATE in labels_of(cluster.tried(gated))


def ways(cluster: Cluster, name: str) -> list[str]:
    """In which ways the Pod got its tolerations."""
    return [entry["via"] for entry in provenance(cluster.get(name))]
