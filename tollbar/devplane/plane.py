"""A control plane on this machine, embedded or real: child processes in one directory, recorded in its state file.

Synchronous: every call blocks until its effect is seen; asynchronous callers use `asyncio.to_thread`.
"""

import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from tollbar.devplane import process, state
from tollbar.devplane.audit import AuditLog
from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.layout import IDENTITIES, Layout

_LOG_LINES: Final = 15


class PlaneError(Exception):
    """A component did not become ready, died, or the directory cannot be used; the message is for people."""


class LocalPlane(ABC):
    """A context manager that starts and stops a plane in a directory of its own.

    `kubeconfig` is an administrator's, `kubectl` calls kubectl with it, `audit` reads the API server's audit log.
    """

    ready_seconds: ClassVar[float]
    poll_seconds: ClassVar[float]

    def __init__(self, directory: Path, kubectl: Sequence[str]) -> None:
        self.layout = Layout(directory.resolve())
        self.kubeconfig = self.layout.kubeconfig
        self.kubectl = Kubectl((*kubectl,), self.kubeconfig, self.layout.kubectl_cache)
        self.audit = AuditLog(self.layout.audit_log)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by component, running ones only."""
        return {name: child.pid for name, child in self._children.items()}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start an empty cluster and wait until it is ready.  Raises PlaneError, and leaves nothing running then."""
        try:
            state.claim(self.layout)
        except ValueError as error:
            raise PlaneError(str(error)) from error
        except OSError as error:
            raise PlaneError(f"{self.layout.root} cannot be used: {error.strerror}") from error
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._start()
            undo.pop_all()

    @abstractmethod
    def _start(self) -> None:
        """Write what the components need and start them.  Raises PlaneError."""

    def stop(self) -> None:
        """End every component and remove the cluster's data; the logs stay.  Does nothing the second time."""
        process.end_all(self.pids, self.layout.root)
        for child in self._children.values():
            child.wait()
            if child.stdin is not None:
                child.stdin.close()
        self._children.clear()
        if self.layout.state.exists():
            state.clear(self.layout)

    def resident_bytes(self) -> dict[str, int]:
        """Resident set size of every component."""
        return {name: process.resident_bytes(pid) for name, pid in self.pids.items()}

    def _spawn(self, component: str, command: list[str], stdin: int = subprocess.DEVNULL) -> None:
        with process.uninterrupted():
            self._children[component] = process.start(command, self.layout.log(component), stdin)
            state.save(self.layout, self.pids)

    def _write_tokens(self, tokens: Mapping[str, str]) -> None:
        """Write the API server's token file; `tokens` are by identity (`layout.IDENTITIES`)."""
        layout = self.layout
        layout.tokens.parent.mkdir(mode=0o700)
        layout.tokens.touch(mode=0o600)
        users = ((token, *IDENTITIES[name]) for name, token in tokens.items())
        layout.tokens.write_text("".join(f'{token},{user},{user},"{group}"\n' for token, user, group in users))

    def _write_kubectl(self) -> None:
        """Write a script that runs kubectl against this plane."""
        layout = self.layout
        layout.kubectl.parent.mkdir()
        layout.kubectl.write_text(
            "#!/bin/sh\n"
            f"KUBECONFIG={shlex.quote(str(layout.kubeconfig))} KUBECACHEDIR={shlex.quote(str(layout.kubectl_cache))} "
            f'exec {shlex.join(self.kubectl.command)} "$@"\n'
        )
        layout.kubectl.chmod(0o755)

    def _await(self, component: str, probe: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.ready_seconds
        while not probe():
            code = self._children[component].poll()
            if code is not None:
                raise PlaneError(f"{component} ended with exit code {code}; {self._tail(component)}")
            if time.monotonic() > deadline:
                raise PlaneError(f"{component} was not ready after {self.ready_seconds:.0f} s; {self._tail(component)}")
            time.sleep(self.poll_seconds)

    def _tail(self, component: str) -> str:
        path = self.layout.log(component)
        lines = path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return f"the end of {path}:\n" + "\n".join(lines)
