"""Start and stop a real control plane on this machine.

It listens on loopback only, on ports that were free when it started.  Unless it is left behind on purpose (`detached`),
it ends with the process that started it, even when that one is killed (`guard`).

It is not for production: etcd does not sync its files, tokens are static, client rate limits are raised.
"""

import http.client
import json
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tollbar.devplane import kubeconfig, process, state
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.endpoint import Endpoint
from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, ETCD, IDENTITIES, SCHEDULER
from tollbar.devplane.plane import LocalPlane, PlaneError
from tollbar.devplane.ports import HOST, free_ports
from tollbar.devplane.real.components import Options, Ports, arguments, audit_policy

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class RealPlane(LocalPlane):
    """etcd and the Kubernetes components in a directory of their own."""

    ready_seconds = 90.0
    poll_seconds = 0.05

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        options: Options | None = None,
        *,
        detached: bool = False,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        super().__init__(directory, binaries.command("kubectl"))
        self.options = options or Options()
        self._binaries = binaries
        self._ports = Ports(*free_ports(len(Ports.__slots__)))
        self._tokens = {name: secrets.token_urlsafe(24) for name in IDENTITIES}
        self._guard: subprocess.Popen[bytes] | None = None
        self._detached = detached
        self._report = report

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{HOST}:{self._ports.api_server}"

    def _start(self) -> None:
        self._prepare()
        if not self._detached:
            self._guard = _start_guard(self.layout.root)
        for component in self.options.components:
            self.start_component(component)

    def stop(self) -> None:
        super().stop()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None

    def start_component(self, component: str) -> None:
        """Start one component, with the ports and data that it had before, and wait until it is ready."""
        started = time.monotonic()
        argv = [*self._binaries.command(component), *arguments(component, self.layout, self._ports, self.options)]
        self._spawn(component, argv)
        if component == API_SERVER:
            # The key is written after the certificate, which is whole by then.
            self._await(component, self.layout.authority.with_suffix(".key").exists)
            self._write_kubeconfigs()
        self._await(component, self._probe(component))
        self._report(f"{component} is ready ({time.monotonic() - started:.1f} s)")

    def stop_component(self, component: str) -> None:
        """End one component; its data stay."""
        child = self._children.pop(component)
        process.end(component, child.pid, self.layout.root)
        child.wait()
        state.save(self.layout, self.pids)

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again on the same port: clients lose connections, its caches are empty."""
        self.stop_component(API_SERVER)
        self.start_component(API_SERVER)

    def compact(self) -> None:
        """Have etcd forget its first revision, as it does by itself after some minutes."""
        code, answer = Endpoint(self._ports.etcd).request("POST", "/v3/kv/compaction", {"revision": "2"})
        if code != http.client.OK and b"compacted" not in answer:
            raise PlaneError(f"etcd refused a compaction with {code}: {answer.decode()}")

    def metrics(self, component: str) -> str:
        """What controller manager or scheduler expose at /metrics, in the Prometheus text format."""
        ports = {CONTROLLER_MANAGER: self._ports.controller_manager, SCHEDULER: self._ports.scheduler}
        endpoint = replace(self._component(component, ports[component]), token=self._tokens["admin"])
        code, answer = endpoint.request("GET", "/metrics")
        if code != http.client.OK:
            raise PlaneError(f"{component} refused its metrics with {code}")
        return answer.decode()

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig that acts as an existing ServiceAccount, with a fresh token."""
        return self.kubectl.service_account(namespace, name, self.layout.identity(f"account-{namespace}-{name}"))

    def audit_fence(self) -> int:
        """The audit log's position after every request that was answered before this call."""
        mark = f"tollbar-fence/{uuid.uuid4()}"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        start = self.audit.position()
        code, _ = self._api().request("POST", _REVIEWS, body, user_agent=mark)
        if code != http.client.CREATED:
            raise PlaneError(f"the API server refused a SelfSubjectReview with {code}")
        self._await(API_SERVER, lambda: any(record.user_agent == mark for record in self.audit.records(start)))
        return self.audit.position()

    def _prepare(self) -> None:
        layout = self.layout
        self._write_tokens(self._tokens)
        layout.account_key.touch(mode=0o600)
        layout.account_key.write_bytes(_private_key())
        layout.audit_policy.write_text(json.dumps(audit_policy()))
        self._write_kubectl()

    def _write_kubeconfigs(self) -> None:
        authority = self.layout.authority.read_bytes()
        for name, token in self._tokens.items():
            path = self.kubeconfig if name == "admin" else self.layout.identity(name)
            kubeconfig.write(path, kubeconfig.config(server=self.server, authority=authority, token=token))

    def _api(self) -> Endpoint:
        return Endpoint(self._ports.api_server, self.layout.authority, self._tokens["admin"])

    def _probe(self, component: str) -> Callable[[], bool]:
        if component == ETCD:
            return lambda: Endpoint(self._ports.etcd).ok("/health")
        if component == API_SERVER:
            return lambda: self._api().ok("/readyz")
        if component == SCHEDULER:
            return lambda: self._component(SCHEDULER, self._ports.scheduler).ok("/readyz")
        # Pods can be created in a namespace only once it has its default ServiceAccount.
        return lambda: (
            self._component(CONTROLLER_MANAGER, self._ports.controller_manager).ok("/healthz")
            and self._api().ok("/api/v1/namespaces/default/serviceaccounts/default")
        )

    def _component(self, component: str, port: int) -> Endpoint:
        return Endpoint(port, self.layout.certificates(component) / f"{component}.crt")


def _private_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _start_guard(directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tollbar.devplane.real.guard", str(directory)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
