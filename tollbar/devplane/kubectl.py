"""kubectl against one cluster.

Every call names its kubeconfig and a discovery cache of the cluster's own: ports are reused between planes, and the
default cache is keyed by host and port.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tollbar.devplane import kubeconfig


class KubectlError(Exception):
    """kubectl failed; `stderr` is what it said."""

    def __init__(self, arguments: Sequence[str], code: int, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: exit code {code}: {stderr.strip()}")
        self.code = code
        self.stderr = stderr


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Callable: `kubectl("get", "pods", "-n", namespace)` returns stdout."""

    command: tuple[str, ...]
    kubeconfig: Path
    cache: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its stdout.  Raises KubectlError when it fails."""
        done = subprocess.run(
            [*self.command, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment(),
        )
        if done.returncode != 0:
            raise KubectlError(arguments, done.returncode, done.stderr)
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """The decoded output of a command that takes `-o json`."""
        return json.loads(self(*arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        """`kubectl apply` objects, in order, in one call."""
        # Documents of their own: for a List kubectl would ask for OpenAPI v2, which not every plane has.
        self("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, objects)))

    def environment(self) -> dict[str, str]:
        """The environment in which any kubectl talks to this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.cache)}

    def service_account(self, namespace: str, name: str, path: Path) -> Path:
        """Write a kubeconfig that acts as a ServiceAccount, with a token that is valid for an hour."""
        token = self("create", "token", name, "-n", namespace, "--duration=1h").strip()
        own = self.json("config", "view", "--minify", "--raw", "--flatten")
        return kubeconfig.write(path, kubeconfig.with_token(own, token, f"{namespace}-{name}"))
