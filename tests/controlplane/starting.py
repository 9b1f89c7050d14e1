"""Planes that a command or another process starts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tollbar.devplane import state
from tollbar.devplane.layout import Layout

_PATIENCE = 60.0


def tollbar(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own."""
    command = [sys.executable, "-m", "tollbar.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def left_by_a_killed_owner(script: str, directory: Path) -> tuple[list[str], dict[str, int]]:
    """What a plane ran that was the script's, which is killed; and what of it is left after a while, to be stopped.

    The script gets the plane's directory as its argument, and makes it `plane`.
    """
    program = f"{script}\nplane.start(); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        started = list(state.running(Layout(directory)))
        os.kill(owner.pid, signal.SIGKILL)

    deadline = time.monotonic() + _PATIENCE
    while (left := state.running(Layout(directory))) and time.monotonic() < deadline:
        time.sleep(0.02)  # these are nobody's children any more: there is nothing to wait on
    state.stop(directory)
    return started, left
