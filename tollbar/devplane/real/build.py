"""Build the control plane's binary from the Go module beside this file, once, and keep it in the user's cache.

`python -m tollbar.devplane.real.build [MINOR]` builds ahead of time and prints where the binary is.

The module file of an older Kubernetes is in `gomodule/older`, written by scripts/pin_kubernetes.py; all share the Go
sources, except that an overlay takes the oracle away.

The cache key covers the module's files, the build flags and the platform, not the toolchain that happened to build it:
a machine without Go can use a cached binary, and a Go upgrade does not cost a rebuild.  A lock file lets one process
build while others wait; the binary appears by one rename, so nobody ever runs half of it.
"""

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tollbar.devplane.binaries import ASSETS, DEFAULT_VERSION, Binaries, BuildError, assets, cache_directory
from tollbar.devplane.real import go

MODULE: Final = Path(__file__).parent / "gomodule"
OVERLAY: Final = "older/overlay.json"
"""Which sources an older Kubernetes replaces, as a file for `go build -overlay`."""
PROGRESS_SECONDS: Final = 15.0

_KUBERNETES: Final = re.compile(r"^\s*k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)\s*$", re.MULTILINE)
_VERSION_PACKAGES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


def locate(version: str = DEFAULT_VERSION, report: go.Report = print) -> Binaries:
    """KUBEBUILDER_ASSETS when it is set, otherwise the binary that `binary` builds.  Raises BuildError."""
    directory = assets()
    if directory is None:
        return Binaries(binary(version, report))
    if not directory.is_dir():
        raise BuildError(f"{ASSETS} is not a directory: {directory}")
    return Binaries(directory)


def binary(version: str = DEFAULT_VERSION, report: go.Report = print) -> Path:
    """Path of the control plane's binary, built first when the cache has none.

    version is a Kubernetes minor such as "1.37"; report receives one line of progress at a time.  Raises BuildError.
    """
    if version not in versions():
        raise BuildError(f"Kubernetes {version} cannot be built here: available are {', '.join(versions())}")
    module = module_file(version)
    flags = ld_flags(kubernetes_version(module.read_text()))
    target = cache_directory() / f"{version}-{_digest(module, flags)}" / "controlplane"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent / "lock", report):
        if not target.exists():
            _build(module, flags, target, report)
    return target


def versions() -> list[str]:
    """The Kubernetes minors that can be built, newest first."""
    older = {path.stem for path in module_file("*").parent.glob("*.mod")}
    return [DEFAULT_VERSION, *sorted(older, key=lambda minor: int(minor.partition(".")[2]), reverse=True)]


def module_file(version: str) -> Path:
    """The module file of a Kubernetes minor; its checksums are beside it."""
    return MODULE / ("go.mod" if version == DEFAULT_VERSION else f"older/{version}.mod")


def kubernetes_version(go_mod: str) -> str:
    """The Kubernetes release that a go.mod's text asks for, e.g. "1.37.0"."""
    found = _KUBERNETES.search(go_mod)
    if found is None:
        raise BuildError("go.mod does not require k8s.io/kubernetes")
    return ".".join(found.groups())


def ld_flags(kubernetes: str) -> str:
    """Linker flags: no symbol tables, and the version that the components report about themselves."""
    major, minor, _ = kubernetes.split(".")
    stamps = {"gitVersion": f"v{kubernetes}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(
        ["-s", "-w", *(f"-X {package}.{key}={value}" for package in _VERSION_PACKAGES for key, value in stamps.items())]
    )


def _digest(module: Path, flags: str) -> str:
    digest = hashlib.sha256(f"{flags}\n{platform.system()}\n{platform.machine()}\n".encode())
    sources = {path.name: path for path in MODULE.glob("*.go")}
    if module.parent != MODULE:
        sources |= {path.name: path for path in (MODULE / OVERLAY, *module.parent.glob("*.go"))}
    for path in (module, module.with_suffix(".sum"), *(sources[name] for name in sorted(sources))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _lock(path: Path, report: go.Report) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is building the control plane: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(module: Path, flags: str, target: Path, report: go.Report) -> None:
    wanted = module.read_text()
    try:
        toolchain = go.find(go.required(wanted), cache_directory(), report)
    except go.GoError as error:
        raise BuildError(str(error)) from error
    report(f"building the Kubernetes {kubernetes_version(wanted)} control plane with {toolchain}")
    report("this happens once and takes about eleven minutes on two cores (downloads, then some 1,500 packages)")
    partial = target.with_name("controlplane.partial")
    log = target.with_name("build.log")
    older = [] if module.parent == MODULE else [f"-modfile={module}", f"-overlay={OVERLAY}"]
    arguments = ["-v", "-mod=readonly", *older, "-buildvcs=false", "-trimpath", "-ldflags", flags]
    started = time.monotonic()
    code = _run([str(toolchain), "build", *arguments, "-o", str(partial), "."], log, report)
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildError(f"go build failed with exit code {code}; the end of {log}:\n{tail}")
    partial.replace(target)
    report(f"built in {time.monotonic() - started:.0f} s: {target}")


def _run(command: list[str], log: Path, report: go.Report, every: float = PROGRESS_SECONDS) -> int:
    """Run the build in the module's directory, reporting how far it is every so many seconds; its exit code."""
    # The module alone decides what is built: no other toolchain, workspace or standard library from the environment.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    environment.pop("GOROOT", None)
    started = time.monotonic()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=MODULE, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        try:
            while True:
                try:
                    return process.wait(timeout=every)
                except subprocess.TimeoutExpired:
                    report(f"  {time.monotonic() - started:4.0f} s: {progress(log.read_text(errors='replace'))}")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def progress(log: str) -> str:
    """What the output of `go build -v` so far amounts to."""
    lines = log.splitlines()
    downloads = sum(line.startswith("go: downloading ") for line in lines)
    return f"{downloads} modules downloaded, {len(lines) - downloads} packages compiled"


def main() -> int:
    version = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_VERSION
    try:
        path = binary(version, report=lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(path)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
