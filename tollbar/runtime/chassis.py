"""Runs a process on kopf: starts its services in phases, stops them in reverse, and returns the exit code.

The phases start in this order: lease, servers, caches, workers, readiness.  Starting does not wait for a phase to be
ready (what needs a cache awaits it); stopping does wait, so that SIGTERM means: become unready, stop the workers, then
the caches, then the servers, and release the lease last.

Invariants: a service that ends before it is told to stop ends the process with code 1, after an orderly stop of the
others; after SIGTERM or SIGINT the code is 0; the process ends at most `shutdown_timeout` seconds after the first of
these, with code 1 if it had to be forced.  A phase that hangs is cancelled early enough to leave the others, and so the
lease, a fifth of that time.  A second signal ends the process at once.

Hazards: a service that blocks the event loop cannot be stopped by it; a thread ends the process in that case.

How kopf is used (kopf 1.45.2):
- It handles the signals and calls the start-up and clean-up handlers below.  Clean-up runs after kopf's own tasks have
  ended and before it cancels every task younger than itself, so the services are stopped there.
- No resource handlers are registered, but a kopf operator always scans the API at start, and ends when it cannot log
  in.  The login handler below never returns, so the scan waits and kopf needs no credentials and no permissions.  The
  waiting tasks would cost five seconds at exit; they are cancelled after the clean-up.
- Peering (which is not leader election), posting of events, scanning of CRDs and namespaces, kopf's webhook server and
  its state on objects are off.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from tollbar.runtime.log import summary
from tollbar.runtime.service import Service, ServiceError

_log: Final = logging.getLogger(__name__)

_RESERVE: Final = 0.2
"""The share of the shutdown timeout that is reserved for the phases after one that hangs."""
_IDENTITY: Final = "tollbar"
"""For kopf's peering, which is off; without it kopf asks for the name of the user, whom /etc/passwd may not know."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def run(
    phases: Sequence[Sequence[Service]],
    *,
    shutdown_timeout: float = 30.0,
) -> int:
    """Run the services until a signal or the end of one of them; the exit code of the process.

    Must run in the main thread, in the task given to `asyncio.run`.
    """
    before = asyncio.all_tasks()
    leave = asyncio.Event()
    supervisor = _Supervisor(phases, shutdown_timeout, leave)
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_never)

    @kopf.on.startup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def _start(**_: Any) -> None:
        supervisor.start()

    @kopf.on.cleanup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def _clean_up(**_: Any) -> None:
        await supervisor.stop()
        for task in asyncio.all_tasks() - before - {asyncio.current_task()}:
            task.cancel()

    try:
        await kopf.operator(
            registry=registry,
            settings=_settings(),
            standalone=True,
            clusterwide=True,
            stop_flag=leave,
            identity=_IDENTITY,  # type: ignore[arg-type]  # a NewType of str, which kopf does not export
        )
    except Exception:
        _log.exception("kopf failed")
        supervisor.failed = True
    finally:
        await supervisor.stop()  # kopf skips the clean-up when it is stopped while it starts
    return 1 if supervisor.failed else 0


class _Supervisor:
    """Starts and stops the services; knows whether one failed."""

    def __init__(self, phases: Sequence[Sequence[Service]], timeout: float, leave: asyncio.Event) -> None:
        self.failed = False
        self._phases = [_Phase(services, self._ended) for services in phases]
        self._timeout = timeout
        self._leave = leave
        self._stopped = False

    def start(self) -> None:
        for phase in self._phases:
            phase.start()
        _log.info("started", extra={"services": [s.name for phase in self._phases for s in phase.services]})

    async def stop(self) -> None:
        """Stop the phases, the last one first.  Does nothing the second time."""
        if self._stopped:
            return
        self._stopped = True
        _log.info("stopping", extra={"failed": self.failed})
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, _exit_now, "second signal, ending at once")
        deadline = threading.Timer(self._timeout, _exit_now, ["not stopped in time, ending at once"])
        deadline.daemon = True
        deadline.start()
        now = asyncio.get_running_loop().time()
        grace_end, end = now + self._timeout * (1 - _RESERVE), now + self._timeout
        for phase in reversed(self._phases):
            if not await phase.stop(grace_end, end):
                self.failed = True
        if any(phase.running() for phase in self._phases):
            await asyncio.Event().wait()  # they ignore cancellation: the deadline ends the process
        deadline.cancel()
        _log.info("stopped", extra={"failed": self.failed})

    def _ended(self, service: Service, task: asyncio.Task[None]) -> None:
        """A service has ended without being told to, or failed while it stopped."""
        error = None if task.cancelled() else task.exception()
        why = "it ended without being told to" if error is None else summary(error)
        known = isinstance(error, ServiceError)
        said = {"service": service.name, "error": str(error) if known else why}
        _log.critical("service failed", extra=said, exc_info=None if known else error)
        self.failed = True
        self._leave.set()


class _Phase:
    """Services that start and stop together."""

    def __init__(self, services: Sequence[Service], ended: Callable[[Service, asyncio.Task[None]], None]) -> None:
        self.services = services
        self._ended = ended
        self._stop = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], Service] = {}

    def start(self) -> None:
        for service in self.services:
            task = asyncio.create_task(service.run(self._stop), name=service.name)
            self._tasks[task] = service
            task.add_done_callback(self._done)

    def running(self) -> bool:
        return any(not task.done() for task in self._tasks)

    async def stop(self, grace_end: float, end: float) -> bool:
        """Stop the services; False when one of them failed meanwhile or had to be cancelled.

        Services that still run at `grace_end` are cancelled, or at `end` when that has passed; both are times of the
        event loop.  A service that ignores its cancellation is left running.
        """
        self._stop.set()
        clock = asyncio.get_running_loop()
        until = grace_end if clock.time() < grace_end else end
        await self._wait(until - clock.time())
        late = [task for task in self._tasks if not task.done()]
        for task in late:
            _log.error("service does not stop, cancelling it", extra={"service": self._tasks[task].name})
            task.cancel()
        await self._wait((end - clock.time()) / 2)
        return not late and not any(task.cancelled() or task.exception() for task in self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not self._stop.is_set() or (not task.cancelled() and task.exception()):
            self._ended(self._tasks[task], task)

    async def _wait(self, seconds: float) -> None:
        if running := [task for task in self._tasks if not task.done()]:
            await asyncio.wait(running, timeout=max(seconds, 0.0))


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # `shutdown_timeout` applies instead
    settings.posting.enabled = False
    settings.scanning.disabled = True
    return settings


async def _never(**_: Any) -> None:
    await asyncio.Event().wait()


def _exit_now(why: str) -> None:
    _log.critical(why)
    logging.shutdown()
    os._exit(1)
