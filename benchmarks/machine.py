"""The machine that the figures were measured on.  Linux only."""

import os
import platform
import time
from pathlib import Path
from typing import Final

import orjson

from benchmarks.stage import Stage

_LOOKING_SECONDS: Final = 3.0
QUIET: Final = 0.1
"""Above this, figures are a hint at most."""


def others() -> float:
    """How busy the machine is with other work, from 0 to 1.  Takes seconds; call it before the benchmark starts."""
    busy, idle = _ticks()
    time.sleep(_LOOKING_SECONDS)
    busy_now, idle_now = _ticks()
    return (busy_now - busy) / (busy_now - busy + idle_now - idle)


def _ticks() -> tuple[int, int]:
    """Busy and idle clock ticks of all cores since the machine's start (proc_stat(5))."""
    user, nice, system, idle, waiting, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return user + nice + system + sum(more[:3]), idle + waiting


async def facts(stage: Stage, busy: float) -> dict[str, str]:
    """Facts by name, as the report shows them.  `busy` is what `others` returned."""
    version = await stage.admin.raw("GET", "/version")
    return {
        "CPU": _field("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.1f} GiB",
        "Python": platform.python_version(),
        "Kubernetes": orjson.loads(version)["gitVersion"],
        "busy with others": f"{busy:.0%}",
    }


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"
