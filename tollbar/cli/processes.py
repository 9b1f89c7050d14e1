"""The webhook and the controllers as child processes of `tollbar dev` and `tollbar demo`.

A child runs this installation, even when there are folders called `webhooks` or `controllers` in the current directory.
Ctrl-C at the terminal reaches only the parent, which ends its children in order.  A child that does not end in time is
killed.  On Linux a child ends with its parent even when that one is killed.
"""

import asyncio
import ctypes
import os
import signal
import sys
import sysconfig
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self, TypeAlias, TypeVar

import aiohttp
import click

import tollbar
from tollbar.devplane.ports import HOST

Sink: TypeAlias = Callable[[str, str], None]
T = TypeVar("T")

STOP_SECONDS: Final = 35.0
"""Tollbar's processes shut down within 30 s."""

_POLL_SECONDS: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


class ProcessDied(click.ClickException):
    """A child ended by itself.  `code` is as in a shell: 128 + number for a signal; never 0."""

    def __init__(self, name: str, returncode: int) -> None:
        how = f"was ended by {signal.Signals(-returncode).name}" if returncode < 0 else f"exited with code {returncode}"
        super().__init__(f"{name} {how}")
        self.code = 128 - returncode if returncode < 0 else returncode or 1


class NotReady(click.ClickException):
    """A child runs but does not get ready."""


class Process:
    """One running child; make it with `start`."""

    def __init__(self, name: str, child: asyncio.subprocess.Process, reader: asyncio.Task[None]) -> None:
        self.name = name
        self._child = child
        self._reader = reader

    @classmethod
    async def start(cls, name: str, arguments: Sequence[str], sink: Sink) -> Self:
        """Run the interpreter with these arguments; `sink` gets the name and each line that the child writes."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(os.environ),
            start_new_session=True,
            preexec_fn=None if _LIBC is None else _die_with_parent,
        )
        return cls(name, child, asyncio.create_task(_read(name, child, sink), name=f"log of {name}"))

    @property
    def pid(self) -> int:
        return self._child.pid

    async def died(self) -> NoReturn:
        """Wait for the end of the child and raise ProcessDied."""
        code = await self._child.wait()
        await asyncio.shield(self._reader)
        raise ProcessDied(self.name, code)

    async def stop(self, timeout: float = STOP_SECONDS) -> bool:
        """SIGTERM, and SIGKILL after `timeout` seconds; whether the child ended without SIGKILL."""
        polite = True
        try:
            if self._child.returncode is None:
                self._child.terminate()
            async with asyncio.timeout(timeout):
                await self._child.wait()
        except TimeoutError:
            polite = False
        finally:
            if self._child.returncode is None:
                self._child.kill()
                await self._child.wait()
        await self._reader
        return polite


async def _read(name: str, child: asyncio.subprocess.Process, sink: Sink) -> None:
    """Pass on lines of any length, in any encoding, until the child has closed its output."""
    tail = b""
    while child.stdout is not None and (chunk := await child.stdout.read(2**16)):
        *lines, tail = (tail + chunk).split(b"\n")
        for line in lines:
            sink(name, line.decode(errors="replace"))
    if tail:
        sink(name, tail.decode(errors="replace"))


async def ready(process: Process, port: int, *, timeout: float) -> None:
    """Wait until the child's /readyz answers 200.  Raises ProcessDied, and NotReady with its last answer."""
    said = await unless_died(_poll(f"http://{HOST}:{port}/readyz", timeout), process.died())
    if said is not None:
        raise NotReady(f"{process.name} was not ready after {timeout:g} s: {said}")


async def unless_died(work: Coroutine[Any, Any, T], died: Coroutine[Any, Any, None]) -> T:
    """The result of `work`.  When `died` ends first, which it does by raising ProcessDied, that is raised."""
    working, dying = asyncio.ensure_future(work), asyncio.ensure_future(died)
    try:
        await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
        if dying.done():
            await dying
        return await working
    finally:
        working.cancel()
        dying.cancel()
        await asyncio.gather(working, dying, return_exceptions=True)


async def _poll(url: str, timeout: float) -> str | None:
    """None as soon as the URL answers 200; at the timeout its last answer."""
    said = "it did not listen"
    try:
        async with asyncio.timeout(timeout), aiohttp.ClientSession(trust_env=False) as session:
            while True:
                try:
                    async with session.get(url) as response:
                        if response.status == 200:
                            return None
                        said = " ".join((await response.text()).split())
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return said


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment in which `python -m webhooks` runs this installation's."""
    result = {**own, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    root = str(Path(tollbar.__file__).parents[1])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        result["PYTHONPATH"] = os.pathsep.join(filter(None, [root, own.get("PYTHONPATH", "")]))
    return result


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
