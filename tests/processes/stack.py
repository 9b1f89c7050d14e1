"""Tollbar's processes beside a real control plane, as they run in a cluster: under their own ServiceAccounts.

The manifests of an overlay are applied as they are; only the webhook configurations are pointed at loopback
URLs, since nothing serves the Service here.  Each process is a child that a test may kill, restart or double, with its
log in a file and its metrics readable.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import NOT_FOUND, OK
from pathlib import Path
from typing import Any

import yaml
from objects.builders import pod, toleration_rule
from planes.access import RefusedError, access

from tollbar import wellknown
from tollbar.api.webhooks import PODS_NAME, RULES_NAME, at_url, pods_configuration, rules_configuration
from tollbar.devplane.kubectl import Kubectl, KubectlError
from tollbar.devplane.ports import free_ports
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object, labels_of
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from tollbar.runtime import certs, config
from tollbar.wellknown import SYSTEM_NAMESPACE

ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / "manifests/overlays"
CEILED = ("pods", "resourceclaims", "schedulinggates", "secrets", "webhookconfigurations")
CEILING = [ROOT / f"manifests/components/ceiling/{kind}.yaml" for kind in CEILED]
ELECTION: dict[str, object] = {
    "leaderElection__enabled": True,
    "leaderElection__leaseDuration": "6s",
    "leaderElection__renewDeadline": "4s",
    "leaderElection__retryPeriod": "1s",
}
"""Settings by which another replica leads within some seconds."""
_CEILING_FILES = [f"--filename={path}" for path in CEILING]
SCHEDULER = ROOT / "manifests/components/scheduler"
CONTROLLERS = f"system:serviceaccount:{SYSTEM_NAMESPACE}:tollbar-controllers"
WEBHOOK = f"system:serviceaccount:{SYSTEM_NAMESPACE}:tollbar-webhook"
_OURS = ("-l", "app.kubernetes.io/name=tollbar")
_RUNNING = ("Deployment", "Service", "PodDisruptionBudget", "FlowSchema")
"""Kinds of the manifests that a plane without workloads does not serve."""
_PATIENCE = 10
"""Seconds that the API server waits for the webhook."""
_BROKEN = toleration_rule("broken").cel("pod.metdata.name == ''")
_GATED = pod("gated", "default").but("spec.schedulingGates", [{"name": wellknown.GATE}])
_HELD = _GATED.but("spec.containers", [{"name": "main", "image": "example.com/app"}])
_SAMPLE = re.compile(r"^(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")


def eventually(holds: Callable[[], Any], *, seconds: float = 120.0, what: str = "") -> Any:
    """The first truthy answer; polls, because kubectl and HTTP cannot be waited for.  Fails with `what` otherwise."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or holds}")
        time.sleep(0.02)
    return answer


def eventually_is(want: Any, answer: Callable[[], Any], *, seconds: float = 120.0) -> None:
    """Wait until the answer is what is wanted; fails with the last answer."""
    seen: list[Any] = []

    def holds() -> bool:
        seen[:] = [answer()]
        return bool(seen[0] == want)

    try:
        eventually(holds, seconds=seconds)
    except AssertionError as error:
        raise AssertionError(f"wanted {want}, still {seen[0]} after {seconds:g} s") from error


def delete_definitions(kubectl: Kubectl) -> None:
    """Delete our CustomResourceDefinitions and wait until they are gone.

    kube-apiserver looks at one again only every five minutes when its finalizer conflicts with its own last status
    (apiextensions-apiserver, crd_finalizer), or when somebody else changes the definition.
    """
    kubectl("delete", "crd", *_OURS, "--wait=false")
    for number in itertools.count():
        try:
            kubectl("wait", "--for=delete", "crd", *_OURS, "--timeout=2s")
            return
        except KubectlError as error:
            if "timed out" not in str(error):
                raise
        with suppress(KubectlError):  # it is gone now
            kubectl("annotate", "crd", *_OURS, f"tried={number}", "--overwrite")


@dataclass
class Process:
    """One running child."""

    name: str
    child: subprocess.Popen[bytes]
    log_file: Path
    probes: int
    metrics_port: int
    begins: int = 0
    """Where the log of this run begins: a process that is started again goes on with the file."""

    def log(self) -> str:
        """Of every run."""
        return self.log_file.read_text(errors="replace")

    def said(self, text: str) -> int:
        """How often this run has logged it."""
        return self.log_file.read_bytes()[self.begins :].decode(errors="replace").count(text)

    def looks(self, controller: str = "gates") -> Counter[str]:
        """How often this controller has finished with each object, in every run, from the debug log."""
        return Counter(re.findall(rf'controller="{controller}" object="([^"]+)"', self.log()))

    def is_ready(self) -> bool:
        if self.child.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self.child.returncode}:\n{self.log()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def exposed(self) -> str:
        """Its metrics in the Prometheus text format."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Samples by metric name and label text."""
        found: dict[str, dict[str, float]] = {}
        for line in self.exposed().splitlines():
            if match := _SAMPLE.match(line):
                found.setdefault(match["name"], {})[match["labels"] or ""] = float(match["value"])
        return found

    def reconciles(self, controller: str = "gates") -> int:
        """How many times this controller has looked at an object."""
        samples = self.metrics().get("controller_runtime_reconcile_total", {})
        return int(sum(value for labels, value in samples.items() if f'controller="{controller}"' in labels))

    def leads(self) -> bool:
        """Whether it holds the Lease of its kind."""
        return 1.0 in self.metrics().get("leader_election_master_status", {}).values()

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(40)


@dataclass
class Stack:
    """An installation on one plane."""

    plane: RealPlane
    directory: Path
    overlay: str = "default"
    running: dict[str, Process] = field(default_factory=dict)
    serving: int = 0
    authority: bytes = b""

    def install(self) -> None:
        """Apply the manifests, and register the webhook once it runs (`register`)."""
        self.apply()
        self.plane.kubectl("wait", "--for=condition=Established", "crd", *_OURS, "--timeout=60s")
        self.unregister()
        (self.serving,) = free_ports(1)
        certs.ensure(self.directory, ["127.0.0.1"], time.time())
        self.authority = (self.directory / "ca.crt").read_bytes()

    def apply(self) -> None:
        """The manifests, as far as the plane serves their kinds: without Deployments it runs nothing anyway."""
        if self._serves_workloads():
            self.plane.kubectl("apply", "--server-side", "-k", str(OVERLAYS / self.overlay))
            # Whatever is tested: the controllers never need more than the ceiling leaves them.
            self.plane.kubectl("apply", "--server-side", *_CEILING_FILES)
            return
        rendered = yaml.safe_load_all(self.plane.kubectl("kustomize", str(OVERLAYS / self.overlay)))
        served = [each for each in rendered if each["kind"] not in _RUNNING]
        self.plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(served))

    def _serves_workloads(self) -> bool:
        return access(self.plane.kubectl).answer("GET", "/apis/apps/v1")[0] == OK

    def start(
        self, name: str, module: str, *, ready: bool = True, kubeconfig: Path | None = None, **overrides: object
    ) -> Process:
        """Run `python -m module`, under the ServiceAccount of its Deployment unless a kubeconfig is given."""
        probes, metrics = free_ports(2)
        account = "tollbar-webhook" if module == "webhooks" else "tollbar-controllers"
        settings: dict[str, object] = {
            "leaderElection.enabled": False,
            "log.verbosity": 4,
            "health.bindAddress": f"127.0.0.1:{probes}",
            "metrics.bindAddress": f"127.0.0.1:{metrics}",
            "webhook.host": "127.0.0.1",
            "webhook.port": self.serving,
            "webhook.certFile": str(self.directory / "tls.crt"),
            "webhook.keyFile": str(self.directory / "tls.key"),
            **{path.replace("__", "."): value for path, value in overrides.items()},
        }
        file = self.directory / f"{name}.yaml"
        file.write_text(config.dump(config.load(None, settings)))
        kubeconfig = kubeconfig or self.plane.service_account_kubeconfig(SYSTEM_NAMESPACE, account)
        argv = ["-m", module, "--config", str(file), "--kubeconfig", str(kubeconfig)]
        return self._spawn(name, argv, probes, metrics, ready=ready)

    def _spawn(self, name: str, argv: list[str], probes: int, metrics: int, *, ready: bool = True) -> Process:
        log = self.directory / f"{name}.log"
        begins = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, *argv],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, "POD_NAME": name, "POD_NAMESPACE": SYSTEM_NAMESPACE},
            )
        process = self.running[name] = Process(name, child, log, probes, metrics, begins)
        if ready:
            eventually(process.is_ready, what=f"{name} ready")
        return process

    def webhook(self, **overrides: object) -> Process:
        return self.start("webhook", "webhooks", **overrides)

    def controllers(self, name: str = "controllers", **overrides: object) -> Process:
        return self.start(name, "controllers", **overrides)

    def leader(self) -> str:
        """Who holds the controllers' Lease, empty for nobody: the name of the process, a dash, and what is its own."""
        lease = self.plane.kubectl.json("get", "lease", "tollbar-controllers", "-n", SYSTEM_NAMESPACE)
        return str(lease["spec"].get("holderIdentity", ""))

    def scheduler(
        self,
        name: str = "scheduler",
        *,
        elects: bool = False,
        ready: bool = True,
        module: str = "controllers.scheduler",
        verbosity: int = 4,
        kubeconfig: Path | None = None,
        **configuration: Any,
    ) -> Process:
        """Run the scheduler of the component `scheduler`, with fields of its KubeSchedulerConfiguration replaced."""
        self.plane.kubectl("apply", "--server-side", "-f", str(SCHEDULER / "rights.yaml"))
        probes, metrics = free_ports(2)
        file = self.directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump(yaml.safe_load((SCHEDULER / "config.yaml").read_text()) | configuration))
        kubeconfig = kubeconfig or self.plane.service_account_kubeconfig(SYSTEM_NAMESPACE, "tollbar-scheduler")
        argv = [
            *("-m", module, "--config", str(file), "--kubeconfig", str(kubeconfig), "-v", str(verbosity)),
            *("--health-probe-bind-address", f"127.0.0.1:{probes}", "--metrics-bind-address", f"127.0.0.1:{metrics}"),
            "--leader-elect" if elects else "--no-leader-elect",
        ]
        return self._spawn(name, argv, probes, metrics, ready=ready)

    def tollbar(self, *arguments: str, kubeconfig: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command of `tollbar`, by default as an administrator."""
        chosen = f"--kubeconfig={kubeconfig or self.plane.kubeconfig}"
        command = [sys.executable, "-m", "tollbar.cli", *arguments, chosen]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    def register(self) -> None:
        """Put the webhook configurations in force, at the address of the webhook, which runs."""
        here = at_url(f"https://127.0.0.1:{self.serving}", self.authority)
        self.plane.kubectl.apply(patient(pods_configuration(here)), patient(rules_configuration(here)))
        eventually(lambda: self._refuses(_BROKEN) and self._completes(_HELD), what="the webhook is asked")

    def _refuses(self, rule: Object) -> bool:
        try:
            self._tried(rule)
        except RefusedError as error:
            return "undefined field" in str(error)
        return False

    def _completes(self, pod: Object) -> bool:
        return wellknown.LABEL_GATE in labels_of(self._tried(pod))

    def _tried(self, obj: Object) -> Object:
        """What a creation would answer: the API server learns of configurations from a watch of its own."""
        return access(self.plane.kubectl).creates(obj, dryRun="All")

    def unregister(self) -> None:
        for path in (
            MUTATING_WEBHOOK_CONFIGURATIONS.path(name=PODS_NAME),
            VALIDATING_WEBHOOK_CONFIGURATIONS.path(name=RULES_NAME),
        ):
            code, answer = access(self.plane.kubectl).answer("DELETE", path)
            assert code in (OK, NOT_FOUND), answer

    def stop(self) -> None:
        """The processes first: what they read would hold up the removal on a busy machine."""
        for process in self.running.values():
            if process.child.poll() is None:
                process.stop()
        self.running.clear()
        self.unregister()

    def tracebacks(self) -> str:
        """What the running processes have logged around the first exception that nobody expected, in every run."""
        logs = {name: process.log() for name, process in self.running.items()}
        found = {name: log.find("Traceback") for name, log in logs.items()}
        return "\n".join(f"{name}: {logs[name][max(0, at - 500) : at + 3000]}" for name, at in found.items() if at >= 0)

    def uninstall(self) -> None:
        """Remove what others would notice: the definitions and with them their objects, the ceiling, and the authority
        that the controllers have made; the rest is inert."""
        delete_definitions(self.plane.kubectl)
        if self._serves_workloads():
            self.plane.kubectl("delete", "--ignore-not-found", *_CEILING_FILES)
        self.plane.kubectl("delete", "--ignore-not-found", "secret", "tollbar-webhook-ca", "-n", SYSTEM_NAMESPACE)


def patient(configuration: Object) -> Object:
    """Failing open is for tests that stop the webhook: a busy machine must not change what the others see."""
    webhooks = [{**each, "timeoutSeconds": _PATIENCE} for each in configuration["webhooks"]]
    return {**configuration, "webhooks": webhooks}


@contextmanager
def installed(plane: RealPlane, directory: Path, overlay: str = "default") -> Iterator[Stack]:
    stack = Stack(plane, directory, overlay)
    stack.install()
    try:
        yield stack
    finally:
        stack.stop()
        stack.uninstall()
