"""How hints name this program and the folders of a checkout, if there is one.

Paths are relative to the current directory where that is shorter, but absolute in hints for another terminal.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import tollbar

EXAMPLES: Final = Path(__file__).parent
"""Folders of the examples that are played: links to those of manifests/examples in a checkout, copies in an
installation."""
QUICKSTART: Final = EXAMPLES / "quickstart"

_CHECKOUT: Final = Path(tollbar.__file__).parents[1]


def program() -> str:
    """How this command can be called again: `tollbar` may not be on the PATH."""
    if shutil.which("tollbar"):
        return "tollbar"
    called = Path(sys.argv[0])
    return shown(called) if called.name == "tollbar" else f"{shown(Path(sys.executable))} -m tollbar.cli"


def folder(name: str) -> str | None:
    """A folder of the checkout, None in an installation."""
    path = _CHECKOUT / name
    return shown(path) if path.is_dir() else None


def quickstart() -> Path:
    """Where a user finds the quickstart's files, in any terminal."""
    path = _CHECKOUT / "manifests" / "examples" / "quickstart"
    return path if path.is_dir() else QUICKSTART


def shown(path: Path) -> str:
    """The path as a user would type it in the current directory."""
    return min(os.path.relpath(path), str(path.absolute()), key=len)
