"""Processes of a plane, known by pid and by the plane's directory on their command line.

A pid is signalled only while its command line still names the directory, so that a recycled pid is left alone.
"""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tollbar.devplane.layout import API_SERVER, EMBEDDED, START_ORDER

_PROC: Final = Path("/proc")
_POLL_SECONDS: Final = 0.02
_ENDED_WITHIN: Final = 10.0
"""Seconds after which a component that got SIGTERM gets SIGKILL."""
_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)


def start(command: list[str], log: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a component in a session of its own, so that Ctrl-C at the terminal does not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        return subprocess.Popen(command, stdin=stdin, stdout=sink, stderr=sink, start_new_session=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back SIGINT and SIGTERM until the end of the block.

    One that arrives between the start of a child and the moment its pid is recorded would leave the child running.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in arrived:
            signal.raise_signal(late)


def alive(pid: int, directory: Path) -> bool:
    """Whether the pid is a running (not a finished, unreaped) process of the plane in that directory."""
    return f"{directory}/" in _command_line(pid)


def end(component: str, pid: int, directory: Path) -> None:
    """End a component and wait until it is gone: SIGTERM, and SIGKILL where that is not enough.

    The API server gets SIGKILL at once: after SIGTERM it waits for as long as clients stay connected, and it holds
    nothing that needs saving.
    """
    signals = (signal.SIGKILL,) if component == API_SERVER else (signal.SIGTERM, signal.SIGKILL)
    for number in signals:
        if not alive(pid, directory):
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + _ENDED_WITHIN
        while alive(pid, directory) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def end_all(pids: dict[str, int], directory: Path) -> None:
    """End components in stop order: clients first, the API server before etcd."""
    for component in (EMBEDDED, *reversed(START_ORDER)):
        if component in pids:
            end(component, pids[component], directory)


def resident_bytes(pid: int) -> int:
    """Resident set size of a process; 0 when it is gone."""
    if _has_proc():
        try:
            pages = _PROC.joinpath(str(pid), "statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * resource.getpagesize()
    return int(_ps("rss=", pid).strip() or 0) * 1024


def _command_line(pid: int) -> str:
    if _has_proc():
        try:
            return _PROC.joinpath(str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    return _ps("args=", pid)


def _has_proc() -> bool:
    return _PROC.joinpath("self").exists()


def _ps(column: str, pid: int) -> str:
    command = ["ps", "-o", column, "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
