"""Child processes: their lines, their ends, and that none is left behind."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tollbar.cli import processes
from tollbar.cli.processes import NotReady, Process, ProcessDied
from tollbar.devplane.ports import HOST

FOREVER = "import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); signal.pause()"
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        print("asked", Handler.asked)
        self.send_response(200 if Handler.asked >= int(sys.argv[2]) else 503)
        self.end_headers()
        self.wfile.write(b"caches are not synced")
    def log_message(self, *_): pass
http.server.HTTPServer.allow_reuse_port = True
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
PARENT = """
import asyncio, signal, sys
from tollbar.cli.processes import Process
async def main():
    child = await Process.start("child", ["-c", "import signal; print('up'); signal.pause()"], lambda *_: None)
    print(child.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Sink:
    """The lines so far; an event for each."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._told = asyncio.Event()

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))
        self._told.set()

    async def hears(self, line: str) -> None:
        while ("child", line) not in self.lines:
            self._told.clear()
            await self._told.wait()


async def start(script: str, sink: Sink | None = None, *arguments: str) -> Process:
    return await Process.start("child", ["-c", script, *arguments], sink or Sink())


ENDS: dict[str, dict[str, Any]] = {
    "an error": {"given": "raise SystemExit(3)", "want": ("child exited with code 3", 3)},
    "an end without an error is one all the same": {"given": "", "want": ("child exited with code 0", 1)},
    "a signal": {
        "given": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "want": ("child was ended by SIGKILL", 137),
    },
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
async def test_a_child_that_ends_by_itself_is_reported(case: dict[str, Any]) -> None:
    child = await start(case["given"])

    with pytest.raises(ProcessDied) as caught:
        await child.died()

    assert (caught.value.format_message(), caught.value.code) == case["want"]


async def test_every_line_arrives_before_the_end_is_reported() -> None:
    sink = Sink()
    script = "import sys; print('x' * 200_000); sys.stderr.write('caf\\xe9\\n'); sys.stdout.buffer.write(b'\\xff last')"
    child = await start(f"import sys; sys.stderr.reconfigure(encoding='utf-8'); {script}", sink)

    with pytest.raises(ProcessDied):
        await child.died()

    assert sorted(sink.lines) == [
        ("child", "caf\xe9"),
        ("child", "x" * 200_000),
        ("child", "\N{REPLACEMENT CHARACTER} last"),
    ]


async def test_a_child_is_asked_to_stop() -> None:
    child = await start(FOREVER)

    assert (await child.stop(), await child.stop()) == (True, True)


async def test_a_child_that_does_not_listen_is_killed() -> None:
    sink = Sink()
    child = await start(DEAF, sink)
    await sink.hears("deaf")

    assert await child.stop(timeout=0.05) is False
    with pytest.raises(ProcessDied, match="SIGKILL"):
        await child.died()


async def test_a_cancelled_stop_still_ends_the_child() -> None:
    sink = Sink()
    child = await start(DEAF, sink)
    await sink.hears("deaf")
    stopping = asyncio.create_task(child.stop())
    await asyncio.sleep(0)
    stopping.cancel()

    with pytest.raises(asyncio.CancelledError):
        await stopping
    with pytest.raises(ProcessDied, match="SIGKILL"):
        await child.died()


@pytest.fixture
def port() -> Iterator[int]:
    """A port that only a child gets that shares it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((HOST, 0))
        yield held.getsockname()[1]


async def test_ready_waits_for_a_good_answer(port: int) -> None:
    child = await start(SERVER, None, str(port), "3")
    try:
        await processes.ready(child, port, timeout=60)
    finally:
        await child.stop()


async def test_a_child_that_is_never_ready_is_quoted(port: int, leap: Callable[[float], None]) -> None:
    sink = Sink()
    child = await start(SERVER, sink, str(port), "1000000")
    waiting = asyncio.create_task(processes.ready(child, port, timeout=60))
    try:
        await sink.hears("asked 2")  # the first answer has come by then
        leap(60)
        with pytest.raises(NotReady) as caught:
            await waiting
    finally:
        await child.stop()

    assert caught.value.format_message() == "child was not ready after 60 s: caches are not synced"


async def test_waiting_for_a_child_that_dies_ends_at_once(port: int) -> None:
    child = await start("raise SystemExit(2)")

    with pytest.raises(ProcessDied, match="exited with code 2"):
        await processes.ready(child, port, timeout=3600)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 30)[0] == [handle]  # readable at the end of the process
    finally:
        os.close(handle)


def test_a_folder_of_the_same_name_in_the_current_directory_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "webhooks").mkdir()
    (tmp_path / "webhooks" / "__init__.py").write_text("print('a trap')")

    done = subprocess.run(
        [sys.executable, "-c", "import tollbar, webhooks; print(webhooks.__file__)"],
        cwd=tmp_path,
        env=processes.environment({**os.environ, "PYTHONPATH": str(tmp_path)}),
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(done.stdout.strip()) == Path(processes.__file__).parents[2] / "webhooks" / "__init__.py"
