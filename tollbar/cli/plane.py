"""`tollbar plane up` and `tollbar plane down`: a control plane that outlives the command.

The kubeconfig's path is all that goes to stdout, so that `export KUBECONFIG=$(tollbar plane up)` works.
"""

import os
import shlex
from itertools import chain
from pathlib import Path
from typing import Any

import click

from tollbar.devplane import state
from tollbar.devplane.binaries import DEFAULT_VERSION, BuildError
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.plane import PlaneError
from tollbar.devplane.real.build import locate
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane


def default_directory() -> Path:
    """Where a plane keeps its files unless --dir says otherwise, below XDG_STATE_HOME."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "tollbar" / "plane"


class _Flags(click.ParamType[list[str]]):
    """Flags as one writes them in a shell, split into words."""

    name = "flags"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        try:
            return shlex.split(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is not a list of flags: {error}", param, ctx)


_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the plane keeps its files; one plane per directory.  Default: below the user's state directory.",
)


@click.group()
def plane() -> None:
    """Start or stop a control plane on this machine, for development and tests."""


@plane.command()
@click.option("--real", is_flag=True, help="Run etcd and the Kubernetes components themselves; built on first use.")
@click.option("--kubernetes", metavar="MINOR", help=f"Kubernetes version, with --real.  Default: {DEFAULT_VERSION}.")
@click.option("--scheduler/--no-scheduler", default=True, help="Whether Pods get Nodes.")
@click.option(
    "--controller-manager-flags",
    "flags",
    type=_Flags(),
    multiple=True,
    metavar="FLAGS",
    help='More flags for kube-controller-manager, with --real, e.g. "--controllers=*,-resourceclaim-controller".',
)
@_directory
def up(
    real: bool, kubernetes: str | None, scheduler: bool, flags: tuple[list[str], ...], directory: Path | None
) -> None:
    """Start an empty control plane in the background and print the path of its kubeconfig.

    By default an API server in memory, ready in a second; what it has is in docs/reference/devplane.md.
    """
    if flags and not real:
        raise click.UsageError("--controller-manager-flags needs --real: there is no kube-controller-manager without")
    if kubernetes and not real:
        raise click.UsageError("--kubernetes needs --real: the control plane in memory is of one version")
    where = directory or default_directory()
    running: RealPlane | EmbeddedPlane
    try:
        if real:
            options = Options(scheduler=scheduler, flags={CONTROLLER_MANAGER: tuple(chain(*flags))})
            binaries = locate(kubernetes or DEFAULT_VERSION, _report)
            running = RealPlane(binaries, where, options, detached=True, report=_report)
        else:
            running = EmbeddedPlane(where, scheduler=scheduler, detached=True)
        running.start()
    except (BuildError, PlaneError) as error:
        raise click.ClickException(str(error)) from error
    _report(f"kubectl for this plane: {running.layout.kubectl}")
    click.echo(running.kubeconfig)


@plane.command()
@_directory
def down(directory: Path | None) -> None:
    """End the control plane in a directory and remove its data; the logs stay."""
    where = directory or default_directory()
    try:
        ended = state.stop(where)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or where} cannot be used: {error.strerror}") from error
    _report(f"ended {', '.join(ended)}" if ended else f"no control plane is running in {where}")


def _report(line: str) -> None:
    click.echo(line, err=True)
