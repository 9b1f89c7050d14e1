"""`tollbar plane up` and `tollbar plane down`: a control plane that outlives the command.

The kubeconfig's path is all that goes to stdout, so that `export KUBECONFIG=$(tollbar plane up)` works.
"""

import os
import shlex
from pathlib import Path

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
@click.option("--kubernetes", default=DEFAULT_VERSION, show_default=True, help="Kubernetes version, with --real.")
@click.option("--scheduler/--no-scheduler", default=True, help="Whether Pods get Nodes.")
@click.option(
    "--controller-manager-flags",
    multiple=True,
    metavar="FLAGS",
    help='More flags for kube-controller-manager, with --real, e.g. "--controllers=*,-resourceclaim-controller".',
)
@_directory
def up(
    real: bool, kubernetes: str, scheduler: bool, controller_manager_flags: tuple[str, ...], directory: Path | None
) -> None:
    """Start an empty control plane in the background and print the path of its kubeconfig.

    By default an API server in memory, ready in a second; what it has is in docs/reference/devplane.md.
    """
    if controller_manager_flags and not real:
        raise click.UsageError("--controller-manager-flags needs --real: there is no kube-controller-manager without")
    flags = tuple(flag for flags in controller_manager_flags for flag in shlex.split(flags))
    where = directory or default_directory()
    running: RealPlane | EmbeddedPlane
    try:
        if real:
            options = Options(scheduler=scheduler, flags={CONTROLLER_MANAGER: flags})
            running = RealPlane(locate(kubernetes, _report), where, options, detached=True, report=_report)
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
    _report(f"ended {', '.join(ended)}" if ended else f"no control plane is running in {where}")


def _report(line: str) -> None:
    click.echo(line, err=True)
