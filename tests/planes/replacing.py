"""Planes without kube-controller-manager's claim controller, with ours in its place: `claims: Replace`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from processes.stack import ROOT, Stack, eventually, installed

from planes.objects import make_namespace
from planes.scheduling import scheduled
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.layout import CONTROLLER_MANAGER
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
    (directory / "stack").mkdir()
    with (
        scheduled(binaries, directory / "plane", flags) as plane,
        installed(plane, directory / "stack") as stack,
    ):
        permit(plane.kubectl)
        start(stack)
        yield stack


def permit(kubectl: Kubectl) -> None:
    """Grant the controllers the rights of the component claims-replace."""
    kubectl("apply", "--server-side", "-f", str(RIGHTS))


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
