"""The image, without a builder of images: what the Dockerfile runs is run here, in folders of the test.

The processes are started from what that leaves as in a Pod of the manifests: by user 65532, on a file system that
nobody can write to.
"""

import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from processes.stack import ROOT, eventually

import tollbar
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.ports import free_ports

pytestmark = pytest.mark.timeout(400)

DOCKERFILE = (ROOT / "Dockerfile").read_text()
LOCK = "image/requirements.txt"
CHECK = "scripts/generate_lock.py"
USER = re.search(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)[1]
ENVIRONMENT = dict(each.split("=", 1) for each in re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)[-1].split())
ENVIRONMENT["PATH"] = os.environ["PATH"]
AS_IN_A_POD = (
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"),
    f'mount -o remount,bind,ro /; exec unshare --user --map-user={USER} --map-group={USER} "$@"',
    "sh",
)
"""Runs the arguments that follow, without being root."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual environment of the image."""
    root = tmp_path_factory.mktemp("image")
    stage = DOCKERFILE.split("\nFROM ")[1].replace("\\\n", "")
    for source, target in re.findall(r"^COPY (.+) (\S+)$", stage, re.MULTILINE):
        for name in source.split():
            to = root / "src" / (name if target == "./" else target)
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, to, symlinks=True)  # as COPY keeps them
            else:
                shutil.copy(ROOT / name, to)
    cache = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    cache["PATH"] = f"{Path(sys.executable).parent}:{cache['PATH']}"
    for command in re.findall(r"^RUN (.+)$", stage, re.MULTILINE):
        here = re.sub(r"(?<=\s)/(build|venv|dist)\b", rf"{root}/\1", f" {command}")
        done = subprocess.run(
            ["sh", "-ec", here], cwd=root / "src", env=cache, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{here}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return root / "venv"


def test_it_has_the_locked_versions_and_nothing_else(image: Path) -> None:
    found = {
        path.name.partition("-")[0].lower().replace("_", "-") for path in image.glob("lib/*/site-packages/*.dist-info")
    }
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / LOCK).read_text(), re.MULTILINE))
    assert found == {*locked, "tollbar"}


def test_the_processes_run_as_another_user_on_a_file_system_that_is_read_only(
    image: Path, embedded: EmbeddedPlane, tmp_path: Path
) -> None:
    try:
        subprocess.run([*AS_IN_A_POD, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs user namespaces: {error}")
    tried = ["id -u", "touch /tmp/tried || echo read-only", f"{image}/bin/tollbar --version"]
    said = subprocess.run(
        [*AS_IN_A_POD, "sh", "-c", "; ".join(tried)], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert said.stdout.split("\n")[:2] == [USER, "read-only"]
    assert tollbar.__version__ in said.stdout
    with ExitStack() as stack:
        children = [
            stack.enter_context(running(image, name, embedded.kubeconfig, tmp_path / name))
            for name in ("controllers", "webhook", "scheduler")
        ]
    assert [child.returncode for child in children] == [0, 0, 0]


@contextmanager
def running(image: Path, name: str, kubeconfig: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that answers its liveness probe; it is told to stop at the end."""
    probes, metrics, serving = free_ports(3)
    addresses = [f"--health-probe-bind-address=127.0.0.1:{probes}", f"--metrics-bind-address=127.0.0.1:{metrics}"]
    others = [f"--port={serving}"] if name == "webhook" else []
    with log.open("wb") as output:
        child = subprocess.Popen(
            [*AS_IN_A_POD, f"{image}/bin/tollbar", name, f"--kubeconfig={kubeconfig}", *addresses, *others],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**ENVIRONMENT, "POD_NAMESPACE": "default", "POD_NAME": name},
        )

    def is_alive() -> bool:
        assert child.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{probes}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    try:
        eventually(is_alive, what=f"{name} alive")
        yield child
    finally:
        child.terminate()
        child.wait(40)


def test_a_lock_that_does_not_fit_is_told(tmp_path: Path) -> None:
    for name in ("pyproject.toml", LOCK, "image/build-requirements.txt", "scripts/generating.py", CHECK):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    lock, text = tmp_path / LOCK, (ROOT / LOCK).read_text()
    clicks, hashes = re.search(r"(click==\S+) .\n +(--hash=\S+)", text).groups()
    said = {}
    for change, (before, after) in {
        "none": ("", ""),
        "too old": (clicks, "click==8.2.0"),
        "missing": (clicks, "clock==8.5"),
        "no hash": (hashes, "--hash=md5:0"),
    }.items():
        lock.write_text(text.replace(before, after, 1))
        command = [sys.executable, str(tmp_path / CHECK), "--check"]
        said[change] = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    end = "run: python scripts/generate_lock.py\n"
    assert said == {
        "none": "",
        "too old": f"{LOCK}: click 8.2.0 does not fit >=8.3, {end}",
        "missing": f"{LOCK}: click is missing, {end}",
        "no hash": f"{LOCK}: click is missing, {end}{LOCK}: not a version with its hashes: {clicks} \\, {end}",
    }
