"""Planes with a scheduler: kube-scheduler, or Tollbar's in lanes that are run with TOLLBAR_SCHEDULER=tollbar."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import yaml

from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import SCHEDULER
from tollbar.devplane.ports import free_ports
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

OURS = os.environ.get("TOLLBAR_SCHEDULER") == "tollbar"
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "DynamicResources", "args": {"exclusive": "all"}}],
        }
    ],
}


@contextmanager
def scheduled(
    binaries: Binaries, directory: Path, flags: Mapping[str, tuple[str, ...]] | None = None
) -> Iterator[RealPlane]:
    """A real plane with a scheduler; `flags` are additional ones by component."""
    with (
        RealPlane(binaries, directory, Options(scheduler=not OURS, flags=flags or {})) as plane,
        _in_place_of_kube_scheduler(plane) if OURS else nullcontext(),
    ):
        yield plane


@contextmanager
def _in_place_of_kube_scheduler(plane: RealPlane) -> Iterator[None]:
    """It acts as kube-scheduler's user, and so with kube-scheduler's rights."""
    file, log = plane.layout.root / "scheduler.yaml", plane.layout.root / "tollbar-scheduler.log"
    file.write_text(yaml.safe_dump(CONFIGURATION))
    probes, metrics = free_ports(2)
    argv = [
        *(sys.executable, "-m", "controllers.scheduler", "--no-leader-elect", "-v", "4"),
        *("--config", str(file), "--kubeconfig", str(plane.layout.identity(SCHEDULER))),
        *("--kube-api-qps", "1000", "--kube-api-burst", "2000"),
        *("--health-probe-bind-address", f"127.0.0.1:{probes}", "--metrics-bind-address", f"127.0.0.1:{metrics}"),
    ]
    with log.open("wb") as output:
        child = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[2])
    try:
        yield
    finally:
        child.terminate()
        ended = child.wait(40)
    text = log.read_text(errors="replace")
    assert (ended, "Traceback" in text) == (0, False), text[max(0, text.find("Traceback") - 500) :][:3000]
