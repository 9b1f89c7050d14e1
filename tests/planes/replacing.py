"""Planes without kube-controller-manager's claim controller, with ours in its place: `claims: Replace`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from processes.stack import ROOT, Stack, eventually, installed

from planes import scheduling
from planes.objects import make_namespace
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

OFF = "--controllers=*,-resourceclaim-controller"
BEGUN = "nobody else generates them"
RIGHTS = ROOT / "manifests/components/claims-replace/rights.yaml"


@contextmanager
def replacing(
    binaries: Binaries, directory: Path, flags: Mapping[str, tuple[str, ...]] | None = None
) -> Iterator[Stack]:
    """Our controllers run under their ServiceAccount, with the rights of the component claims-replace alone."""
    given = dict(flags or {})
    flags = {**given, CONTROLLER_MANAGER: (*given.get(CONTROLLER_MANAGER, ()), OFF)}
    options = Options(scheduler=not scheduling.OURS, flags=flags)
    (directory / "stack").mkdir()
    with (
        RealPlane(binaries, directory / "plane", options) as plane,
        scheduling.in_place_of_kube_scheduler(plane) if scheduling.OURS else nullcontext(),
        installed(plane, directory / "stack") as stack,
    ):
        plane.kubectl("apply", "--server-side", "-f", str(RIGHTS))
        start(stack)
        yield stack


@contextmanager
def restarted_with(plane: RealPlane, component: str, *flags: str) -> Iterator[None]:
    """For a while the component runs with these flags in the place of its own additional ones."""

    def restart(given: tuple[str, ...]) -> None:
        plane.stop_component(component)
        plane.options = replace(plane.options, flags={**plane.options.flags, component: given})
        plane.start_component(component)

    before = tuple(plane.options.flags.get(component, ()))
    restart(flags)
    try:
        yield
    finally:
        restart(before)


def start(stack: Stack, name: str = "controllers") -> None:
    """Start the controllers and wait until they have found that nobody else generates claims."""
    process = stack.controllers(name, claims="Replace")
    eventually(lambda: process.said(BEGUN), what=f"{name} generates")


def namespace_of(stack: Stack, test: str) -> str:
    """A namespace for the test of this name, in which Pods can be created at once."""
    name = test.replace("_", "-")[:50].strip("-")
    make_namespace(stack.plane.kubectl, name)
    return name
