"""Start and stop an embedded control plane: one child process in one directory, known by its state file.

Directory layout and state file are those of a real one, so that `tollbar plane down` ends either.  Unless it is left
behind on purpose (`detached`), the child ends with the process that started it: it notices the end of its stdin.
"""

import http.client
import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tollbar.devplane import binaries, kubeconfig
from tollbar.devplane.endpoint import Endpoint
from tollbar.devplane.layout import EMBEDDED
from tollbar.devplane.plane import LocalPlane, PlaneError
from tollbar.runtime import certs


class EmbeddedPlane(LocalPlane):
    """A context manager that starts and stops a control plane in a directory of its own.

    `has_kubectl` tells whether this machine has a kubectl, without which `kubectl` cannot be called.  Without
    `scheduler` no Pod gets a Node, without `claims` no claim is made from a template or deallocated.
    """

    ready_seconds = 60.0
    poll_seconds = 0.01

    def __init__(self, directory: Path, *, scheduler: bool = True, claims: bool = True, detached: bool = False) -> None:
        command = binaries.kubectl()
        self.has_kubectl = command is not None
        super().__init__(directory, command or ["kubectl"])
        self._left_out = [name for name, wanted in (("scheduler", scheduler), ("claims", claims)) if not wanted]
        self._detached = detached
        self._token = secrets.token_urlsafe(24)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig that acts as an existing ServiceAccount, with a fresh token.  Raises PlaneError."""
        config: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        url = urlsplit(config["clusters"][0]["cluster"]["server"])
        endpoint = Endpoint(url.port or 0, self.layout.tokens.parent / certs.CA_CERT, self._token)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        code, answer = endpoint.request("POST", path, body)
        if code != http.client.CREATED:
            raise PlaneError(f"no token for the ServiceAccount {namespace}/{name}: {answer.decode()}")
        token, label = json.loads(answer)["status"]["token"], f"account-{namespace}-{name}"
        return kubeconfig.write(self.layout.identity(label), kubeconfig.with_token(config, token, label))

    def audit_fence(self) -> int:
        """The audit log's position after every request that was answered before this call."""
        return self.audit.position()

    def _start(self) -> None:
        self._write_tokens({"admin": self._token})
        if self.has_kubectl:
            self._write_kubectl()
        # The slash tells `process` that this is a process of the directory.
        command = [sys.executable, "-m", "tollbar.devplane.embedded", "--dir", f"{self.layout.root}/"]
        command += [] if self._detached else ["--attached"]
        command += [f"--no-{name}" for name in self._left_out]
        self._spawn(EMBEDDED, command, subprocess.DEVNULL if self._detached else subprocess.PIPE)
        self._await(EMBEDDED, self.kubeconfig.exists)
