"""The binaries of Kubernetes on this machine: those of KUBEBUILDER_ASSETS, or what was built into the user's cache.

`tollbar.devplane.real.build` builds the latter.
"""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEFAULT_VERSION: Final = "1.37"
ASSETS: Final = "KUBEBUILDER_ASSETS"


class BuildError(Exception):
    """The control plane cannot be built or found; the message is for people."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """How each component is called: one binary for all of them, or a directory with one file each."""

    path: Path

    def command(self, component: str) -> list[str]:
        """The argv prefix of a component.  Raises BuildError when a directory of binaries lacks it."""
        if not self.path.is_dir():
            return [str(self.path), component]
        executable = self.path / component
        if not os.access(executable, os.X_OK):
            raise BuildError(f"{ASSETS} has no {component}: {executable} is missing or not executable")
        return [str(executable)]


def assets() -> Path | None:
    """The directory that KUBEBUILDER_ASSETS names, which may not exist; None when it is not set."""
    given = os.environ.get(ASSETS)
    return Path(given).expanduser().absolute() if given else None


def kubectl() -> list[str] | None:
    """The argv prefix of a kubectl, of our version if there is one; nothing is built for it.

    It comes from KUBEBUILDER_ASSETS, else from any build in the cache, else from the PATH.
    """
    given = assets()
    for path in [given] if given else cache_directory().glob(f"{DEFAULT_VERSION}-*/controlplane"):
        if path.exists():
            with suppress(BuildError):
                return Binaries(path).command("kubectl")
    on_path = shutil.which("kubectl")
    return [on_path] if on_path else None


def cache_directory() -> Path:
    """Where built control planes are kept, below XDG_CACHE_HOME."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tollbar" / "controlplane"
