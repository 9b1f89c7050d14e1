"""Runs a coroutine of a library that may block, or start processes, in a daemon thread with an event loop of its own.

The threads of the shared pool are few, and the interpreter waits for them when it exits: what may hang is not for them.

Invariant: when the deadline is over, or the caller is cancelled, the processes that the coroutine has started are
killed, and have ended before the caller goes on, or had two seconds for it.
Hazards: code that blocks the thread itself, such as a read from a file system that does not answer, cannot be ended:
its caller waits for it, but not the interpreter.  Processes outlive one that is killed, or ends by `os._exit`.  What
they have started themselves outlives them at a terminal, and elsewhere where it has left their session.
"""

import asyncio
import os
import signal
import subprocess
import threading
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

_T = TypeVar("_T")
_END_SECONDS: Final = 2.0
"""For how long the thread waits for a process that it has killed, and a caller that was cancelled for the thread."""


def has_terminal() -> bool:
    """Whether somebody may be there to answer what a process asks."""
    return any(map(os.isatty, range(3)))


async def run(work: Callable[[], Coroutine[Any, Any, _T]], seconds: float) -> _T:
    """What the coroutine returns that `work` makes, in the thread.

    Raises what the coroutine raises, and TimeoutError when it has not returned after so many seconds.
    """
    outcome: Future[_T] = Future()
    stop: Future[None] = Future()
    threading.Thread(target=_run, args=(work, seconds, outcome, stop), name="own-thread", daemon=True).start()
    ended = asyncio.wrap_future(outcome)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.cancel()
        await asyncio.wait([asyncio.gather(ended, return_exceptions=True)], timeout=_END_SECONDS)
        raise


def _run(
    work: Callable[[], Coroutine[Any, Any, _T]], seconds: float, outcome: "Future[_T]", stop: "Future[None]"
) -> None:
    try:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            result = runner.run(_bounded(work(), seconds, stop))
    except asyncio.CancelledError:
        outcome.cancel()
    except BaseException as error:
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


async def _bounded(work: Coroutine[Any, Any, _T], seconds: float, stop: "Future[None]") -> _T:
    """Raises CancelledError when it is stopped."""
    working = asyncio.ensure_future(work)
    stopped = asyncio.wrap_future(stop)
    either: list[asyncio.Future[Any]] = [working, stopped]
    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    is_stopped = stopped.done()
    stopped.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    killed = await cast("_Loop", asyncio.get_running_loop()).end_processes()
    if is_stopped:
        raise asyncio.CancelledError
    raise TimeoutError(": ".join([*killed, f"no answer within {seconds:g} s"]))


class _Loop(asyncio.SelectorEventLoop):
    """Knows the processes that are started on it.

    Where there is no terminal they have no standard input, and each has a session of its own, so that what it has
    started can be ended with it.  At a terminal they share it, and Ctrl-C reaches them all.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shares_terminal = has_terminal()
        self._started: list[tuple[str, asyncio.Task[tuple[asyncio.SubprocessTransport, Any]]]] = []

    async def subprocess_exec(
        self, protocol_factory: Callable[[], Any], program: Any, *args: Any, **options: Any
    ) -> tuple[asyncio.SubprocessTransport, Any]:
        """Whoever is cancelled meanwhile leaves it to `end_processes`: the process may run already."""
        if not self._shares_terminal:
            options |= {"stdin": subprocess.DEVNULL, "start_new_session": True}
        starting = self.create_task(super().subprocess_exec(protocol_factory, program, *args, **options))
        self._started.append((str(program), starting))
        return await asyncio.shield(starting)

    async def end_processes(self) -> list[str]:
        """Kill those that run, or whose output has not ended, with what they have started; their programs."""
        killed = []
        for program, starting in self._started:
            await asyncio.wait([starting])
            if starting.exception() is not None:
                continue
            transport, protocol = starting.result()
            if transport.is_closing():
                continue
            killed.append(program)
            with suppress(ProcessLookupError):
                if not self._shares_terminal:
                    os.killpg(transport.get_pid(), signal.SIGKILL)
                elif transport.get_returncode() is None:
                    os.kill(transport.get_pid(), signal.SIGKILL)
            for pipe in map(transport.get_pipe_transport, range(3)):
                if pipe is not None:
                    pipe.close()  # `wait` waits for their ends as well, which others may keep open
            with suppress(TimeoutError):
                await asyncio.wait_for(Process(transport, protocol, self).wait(), _END_SECONDS)
            transport.close()
        return killed
