"""The two that are compared: a plane with kube-controller-manager's claim controller, and one with ours in its place.

Both are context managers that start and stop everything; `down` and `up` stop and start the controller alone.
Synchronous, as the launcher is.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from planes.podgroups import GATES, SERVED
from planes.replacing import permit, start
from processes.stack import CONTROLLERS, Process, Stack, installed

from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

UPSTREAM: Final = "system:serviceaccount:kube-system:resource-claim-controller"
WITHOUT: Final = "-resourceclaim-controller"
NOT_IN_TIME: Final = "-pod-garbage-collector-controller"
"""Runs on neither side: what it does to Pods without a kubelet, it does every twenty seconds."""


class Side(Protocol):
    """`user` is who the controller is in the audit log."""

    user: str
    plane: RealPlane

    def down(self) -> None: ...

    def up(self) -> None: ...


class Upstream:
    user = UPSTREAM

    def __init__(self, plane: RealPlane) -> None:
        self.plane = plane

    def down(self) -> None:
        self.plane.stop_component(CONTROLLER_MANAGER)

    def up(self) -> None:
        self.plane.start_component(CONTROLLER_MANAGER)


class Ours:
    user = CONTROLLERS

    def __init__(self, stack: Stack) -> None:
        self.plane = stack.plane
        self.process: Process
        self._stack = stack

    def down(self) -> None:
        self.process.kill()

    def up(self) -> None:
        start(self._stack)
        self.process = self._stack.running["controllers"]


class Sides(NamedTuple):
    upstream: Side
    ours: Side


@contextmanager
def upstream(binaries: Binaries, directory: Path, *, groups: bool = False, limits: bool = True) -> Iterator[Side]:
    with RealPlane(binaries, directory / "plane", _options(groups=groups, limits=limits)) as plane:
        yield Upstream(plane)


@contextmanager
def ours(binaries: Binaries, directory: Path, *, groups: bool = False, limits: bool = True) -> Iterator[Side]:
    options = _options(WITHOUT, groups=groups, limits=limits)
    with RealPlane(binaries, directory / "plane", options) as plane, installed(plane, directory) as stack:
        permit(plane.kubectl)
        side = Ours(stack)
        side.up()
        yield side


@contextmanager
def both(binaries: Binaries, directory: Path, *, groups: bool = False) -> Iterator[Sides]:
    """Started and running at one time."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        starting = [
            pool.submit(stack.enter_context, side(binaries, _made(directory / name), groups=groups))
            for name, side in (("upstream", upstream), ("ours", ours))
        ]
        yield Sides(*(each.result() for each in starting))


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _options(*without: str, groups: bool, limits: bool) -> Options:
    """`limits` raises those of kube-controller-manager's clients."""
    gates = (GATES,) if groups else ()
    flags = {
        API_SERVER: (*gates, *((SERVED,) if groups else ())),
        CONTROLLER_MANAGER: (*gates, f"--controllers={','.join(('*', NOT_IN_TIME, *without))}"),
        SCHEDULER: gates,
    }
    return Options(flags=flags, raised_limits=limits)
