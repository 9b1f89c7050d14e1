"""An exec credential plugin that is a script: it answers, fails or hangs, as a test says."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

API_VERSION: Final = "client.authentication.k8s.io/v1"
_SCRIPT: Final = """\
#!/bin/sh
cd "${0%/*}" || exit 1
echo $$ >> runs
if [ -e hangs ]; then
  $(cat hangs) sleep 1000 &
  echo $! >> children
  wait
fi
if [ -e fails ]; then cat fails >&2; exit 1; fi
cat answer
"""


class ExecPlugin:
    """Hangs with a process of its own, which keeps the output open, as a script does that calls another program."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.command = str(directory / "plugin.sh")
        (directory / "plugin.sh").write_text(_SCRIPT)
        (directory / "plugin.sh").chmod(0o755)

    @property
    def user(self) -> dict[str, Any]:
        """The user of a kubeconfig."""
        return {"exec": {"apiVersion": API_VERSION, "command": self.command}}

    def answers(self, token: str, **status: str) -> None:
        """`status` is what else its answer says, such as `expirationTimestamp`."""
        self._becomes("answer", json.dumps(_answer({"token": token, **status})))

    def fails(self, why: str) -> None:
        self._becomes("fails", why)

    def hangs(self, by: str = "") -> None:
        """`by` is a command that calls the other program, such as `setsid`."""
        self._becomes("hangs", by)

    def _becomes(self, what: str, content: str) -> None:
        for name in ("answer", "fails", "hangs"):
            (self._directory / name).unlink(missing_ok=True)
        (self._directory / what).write_text(content)

    @property
    def runs(self) -> int:
        """How often it was started."""
        return len(self._pids("runs"))

    def process(self) -> int:
        """The process that was started last."""
        return self._pids("runs")[-1]

    def running(self) -> list[int]:
        """Its processes that have not ended, those that it has started among them."""
        return [pid for pid in self._pids("runs") + self._pids("children") if _runs(pid)]

    async def hanging(self) -> None:
        """Wait until it hangs for the first time: the other program runs, in its own session if it is to have one."""
        await until(lambda: any(_command(pid).startswith(b"sleep\0") for pid in self._pids("children")))

    async def ended(self) -> None:
        """Wait until none of its processes is left."""
        await until(lambda: not self.running())

    def goes_on(self) -> None:
        """While it hangs: have it answer or fail, as a test has said since."""
        _kill(self._pids("children"))

    def end(self) -> None:
        _kill(self._pids("runs") + self._pids("children"))

    def _pids(self, name: str) -> list[int]:
        file = self._directory / name
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


async def until(holds: Callable[[], object]) -> None:
    """Wait for what nobody tells."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _answer(status: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}


def _kill(pids: list[int]) -> None:
    """Those that have not ended."""
    for pid in filter(_runs, pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    return bool(_command(pid))


def _command(pid: int) -> bytes:
    """Of a process that has ended, and for which nobody has waited, the command line is empty (proc_pid_cmdline(5))."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it is gone, or goes now
        return b""
