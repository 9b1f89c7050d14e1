"""The sample plugins of manifests/examples/scheduler-plugins: their classes, and their package as if installed."""

import tomllib
from pathlib import Path
from typing import Any

from plugins import examples

EXAMPLE = examples.EXAMPLES / "scheduler-plugins"
_PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
((GROUP, ENTRY_POINTS),) = _PROJECT["entry-points"].items()


def module(name: str) -> Any:
    """One module of the package, from its file."""
    return examples.module(EXAMPLE / "sample_plugins" / f"{name}.py")


def install(folder: Path) -> list[Path]:
    """Write into an empty folder what pip would write about the package; the paths on which it then is installed."""
    examples.declare(_PROJECT, folder)
    return [folder, EXAMPLE]
