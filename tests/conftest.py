"""Fixtures that every lane can use, above all the real control plane of a test session, and the embedded one.

Each worker of xdist has one of both.  A test that uses `real_plane` or `binaries`, directly or through another fixture,
is marked `real`.  The binary is built, when it has to be, after collection and with progress on the terminal (without
xdist, whose workers have none), so that no test's timeout runs meanwhile.
Without a plane the real tests are skipped, or failed when TOLLBAR_REQUIRE_REAL=1.  TOLLBAR_KUBERNETES=1.35 runs them on
an older Kubernetes (tests/planes/parameters.py), USE_EXISTING_CLUSTER=true against the cluster of the current
kubeconfig, except those that need a control plane of their own.

`embedded` is the API server in memory: no build, ready in a second.
"""

import asyncio
import gc
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings
from planes.objects import fresh_namespace
from planes.parameters import KUBERNETES, unavailable
from planes.scheduling import scheduled

from tollbar.cel.core.schema import types
from tollbar.cel.syntax.parser import parse
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries, BuildError
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.plane import PlaneError
from tollbar.devplane.real.build import locate
from tollbar.devplane.real.launcher import RealPlane
from tollbar.devplane.real.oracle import Oracle
from tollbar.runtime.client import Client
from tollbar.runtime.metrics import Metrics

BINARIES = pytest.StashKey[Binaries | str]()
"""Where the plane's binaries are, or why there are none."""

# Shared cores make wall-clock deadlines lie.  A change is judged by the same examples each time it is tried, a few;
# --hypothesis-profile=random looks for new ones, and at more.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True, max_examples=40)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("same")


class Plane(Protocol):
    """What every plane offers: a real one of ours, the embedded one, an existing cluster."""

    kubeconfig: Path
    kubectl: Kubectl

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path: ...


@dataclass
class ExistingPlane:
    """A cluster that somebody else runs."""

    kubeconfig: Path
    kubectl: Kubectl
    directory: Path

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        return self.kubectl.service_account(namespace, name, self.directory / f"account-{namespace}-{name}")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests with processes and watches wait, too."""
    return (os.cpu_count() or 1) + 1


def pytest_configure() -> None:
    # Before Python 3.14 looptime's look at every test would otherwise make an event loop that nobody closes.
    asyncio.set_event_loop(None)
    gc.disable()  # until all is collected: nothing of it is ever garbage


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and not {"real_plane", "binaries"}.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.real)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # or most of each full collection would go through modules and tables
    gc.enable()
    config = session.config
    wanted = any(item.get_closest_marker("real") for item in session.items)
    if not wanted or config.option.collectonly or _existing_cluster():
        return
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    try:
        config.stash[BINARIES] = locate(KUBERNETES, terminal.write_line if terminal else lambda _line: None)
    except BuildError as error:
        config.stash[BINARIES] = str(error)


@pytest.fixture(scope="module", autouse=True)
def leaks() -> Iterator[None]:
    """What a module leaves open is an error at its end, not in whichever later test the garbage is collected."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """What a real plane is started from."""
    if _existing_cluster():
        pytest.skip("needs a control plane of its own")
    found = request.config.stash[BINARIES]
    if isinstance(found, str):
        unavailable(f"no real control plane: {found}")
    return found


@pytest.fixture(scope="session")
def oracle(binaries: Binaries) -> Oracle:
    """What Kubernetes' own code answers.  Binaries that were built elsewhere have none."""
    try:
        return Oracle.of(binaries)
    except BuildError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def real_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The worker's real control plane, with kube-scheduler and kube-controller-manager and no Nodes."""
    directory = tmp_path_factory.mktemp("plane")
    if _existing_cluster():
        if hasattr(request.config, "workerinput"):
            pytest.fail("an existing cluster is one: run these tests without xdist (-n)")
        kubeconfig = Path(os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser()
        yield ExistingPlane(kubeconfig, Kubectl(("kubectl",), kubeconfig, directory / "cache"), directory)
        return
    with ExitStack() as until_the_end:
        try:
            running = until_the_end.enter_context(scheduled(request.getfixturevalue("binaries"), directory))
        except (BuildError, PlaneError) as error:
            unavailable(f"no real control plane: {error}")
        yield running


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    """The worker's embedded control plane."""
    with EmbeddedPlane(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@pytest.fixture(scope="session")
def plane(real_plane: Plane) -> Plane:
    """The control plane of a test: the real one, where a lane does not say otherwise."""
    return real_plane


@pytest.fixture(scope="module")
def own_plane(plane: Plane) -> RealPlane:
    """The session's plane when it is ours: its audit log can be read and its components restarted."""
    if not isinstance(plane, RealPlane):
        pytest.skip("needs a control plane of its own")
    return plane


@pytest.fixture
def kubectl(plane: Plane) -> Kubectl:
    """kubectl as an administrator of the plane."""
    return plane.kubectl


@pytest.fixture
def namespace(plane: Plane) -> Iterator[str]:
    """A fresh namespace in which Pods can be created at once."""
    with fresh_namespace(plane.kubectl) as name:
        yield name


@pytest.fixture(scope="module")
def shared_namespace(plane: Plane) -> Iterator[str]:
    """A namespace for the tests of one file that leave nothing in it."""
    with fresh_namespace(plane.kubectl) as name:
        yield name


@pytest.fixture
async def admin(plane: Plane) -> AsyncIterator[Client]:
    """Our API client as an administrator of the plane."""
    client = await Client.connect(kubeconfig=str(plane.kubeconfig), metrics=Metrics(), user_agent="tollbar-tests")
    yield client
    await client.close()


@pytest.fixture
def kubelet(plane: Plane) -> Iterator[BackgroundKubelet]:
    """A fake kubelet without Nodes yet, on a thread of its own: it goes on while a test blocks in kubectl."""
    with BackgroundKubelet(plane.kubeconfig) as running:
        yield running


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of the event loop that runs on by so many seconds: whoever waits for a time until then is late.

    What must be over in time is given as long as users give it, and what never comes is not waited for.
    """

    def move(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + seconds)

    return move


@pytest.fixture(autouse=True)
def _no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """In asynchronous tests our code must not block the event loop.  Those with a plane are left alone: for kubectl.

    A thread whose event loop is for what blocks may block it.
    """
    if "plane" in request.fixturenames or not inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    _read_once()
    with blockbuster_ctx(["tollbar", "controllers", "webhooks"]) as blocking:
        for each in blocking.functions.values():
            each.can_block_in("tollbar/runtime/ownthread.py", "_run")
        yield


def _read_once() -> None:
    """What the first expression of a process reads: grammar, cel-python's time zones, and Kubernetes' schema."""
    parse("true", namespaced=False)
    types()


def _existing_cluster() -> bool:
    return os.environ.get("USE_EXISTING_CLUSTER", "").lower() == "true"
