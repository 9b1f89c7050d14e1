"""Start and stop an embedded control plane: one child process in one directory, known by its state file.

Called by the test suites, the demonstration and `tollbar plane`; synchronous, like `real.launcher`, whose directory
layout and state file it shares, so that `tollbar plane down` ends either.  Unless it is left behind on purpose
(`detached`), the child ends with the process that started it: it notices the end of its stdin.
"""

import http.client
import json
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

from tollbar.devplane.real import build, kubeconfig, process, state
from tollbar.devplane.real.admin import Endpoint
from tollbar.devplane.real.audit import AuditLog
from tollbar.devplane.real.components import EMBEDDED, IDENTITIES, Layout
from tollbar.devplane.real.kubectl import Kubectl
from tollbar.devplane.real.launcher import PlaneError
from tollbar.runtime import certs

READY_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.01
_LOG_LINES: Final = 15


class EmbeddedPlane:
    """A control plane in a directory of its own; a context manager that starts and stops it.

    `kubeconfig` is an administrator's.  `kubectl` calls the kubectl of the real control plane where that was built, or
    the one on the PATH; `has_kubectl` tells whether there is one.  Without `scheduler` no
    Pod gets a Node, without `claims` no claim is made from a template or deallocated.
    """

    def __init__(self, directory: Path, *, scheduler: bool = True, claims: bool = True, detached: bool = False) -> None:
        self.layout = Layout(directory.resolve())
        self.kubeconfig = self.layout.kubeconfig
        command = _kubectl()
        self.has_kubectl = command is not None
        self.kubectl = Kubectl((*(command or ["kubectl"]),), self.kubeconfig, self.layout.kubectl_cache)
        self.audit = AuditLog(self.layout.audit_log)
        self._left_out = [name for name, wanted in (("scheduler", scheduler), ("claims", claims)) if not wanted]
        self._detached = detached
        self._token = secrets.token_urlsafe(24)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by component."""
        return {} if self._child is None else {EMBEDDED: self._child.pid}

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
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._prepare()
            with process.uninterrupted():
                self._child = child = self._spawn()
                state.save(self.layout, self.pids)
            self._await(child)
            undo.pop_all()

    def stop(self) -> None:
        """End it and remove its data; the log stays.  Does nothing the second time."""
        child, self._child = self._child, None
        if child is not None:
            child.terminate()
            try:
                child.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                child.stdin.close()
        if self.layout.state.exists():
            state.clear(self.layout)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig that acts as an existing ServiceAccount, with a fresh token.  Raises PlaneError."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        code, answer = self._endpoint().request("POST", path, body)
        if code != http.client.CREATED:
            raise PlaneError(f"no token for the ServiceAccount {namespace}/{name}: {answer.decode()}")
        token = json.loads(answer)["status"]["token"]
        label = f"account-{namespace}-{name}"
        return kubeconfig.write(self.layout.identity(label), kubeconfig.with_token(self._config(), token, label))

    def audit_fence(self) -> int:
        """The audit log's position after every request that was answered before this call."""
        return self.audit.position()

    def resident_bytes(self) -> dict[str, int]:
        """Resident set size of the process."""
        return {name: process.resident_bytes(pid) for name, pid in self.pids.items()}

    def _prepare(self) -> None:
        layout = self.layout
        layout.tokens.parent.mkdir(mode=0o700)
        layout.tokens.touch(mode=0o600)
        user, group = IDENTITIES["admin"]
        layout.tokens.write_text(f'{self._token},{user},{user},"{group}"\n')
        if not self.has_kubectl:
            return
        layout.kubectl.parent.mkdir()
        layout.kubectl.write_text(
            "#!/bin/sh\n"
            f"KUBECONFIG={shlex.quote(str(layout.kubeconfig))} KUBECACHEDIR={shlex.quote(str(layout.kubectl_cache))} "
            f'exec {shlex.join(self.kubectl.command)} "$@"\n'
        )
        layout.kubectl.chmod(0o755)

    def _spawn(self) -> subprocess.Popen[bytes]:
        # The slash tells `process` that this is a process of the directory.
        command = [sys.executable, "-m", "tollbar.devplane.embedded", "--dir", f"{self.layout.root}/"]
        command += [] if self._detached else ["--attached"]
        command += [f"--no-{name}" for name in self._left_out]
        log = self.layout.log(EMBEDDED)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            source = subprocess.DEVNULL if self._detached else subprocess.PIPE
            return subprocess.Popen(command, stdin=source, stdout=sink, stderr=sink, start_new_session=True)

    def _await(self, child: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self.kubeconfig.exists():
            code = child.poll()
            if code is not None:
                raise PlaneError(f"the embedded control plane ended with exit code {code}; {self._tail()}")
            if time.monotonic() > deadline:
                raise PlaneError(f"the embedded control plane is not ready; {self._tail()}")
            time.sleep(_POLL_SECONDS)

    def _config(self) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        return content

    def _endpoint(self) -> Endpoint:
        url = urlsplit(self._config()["clusters"][0]["cluster"]["server"])
        return Endpoint(url.port or 0, self.layout.tokens.parent / certs.CA_CERT, self._token)

    def _tail(self) -> str:
        path = self.layout.log(EMBEDDED)
        lines = path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return f"the end of {path}:\n" + "\n".join(lines)


def _kubectl() -> list[str] | None:
    """How kubectl is called; None when there is none.  Another version's words may differ, so ours comes first."""
    if command := build.kubectl():
        return command
    found = shutil.which("kubectl")
    return [found] if found else None
