"""Workloads of the end-to-end lane whose Pods share one claim, and what is to be seen of its reservation."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from planes.objects import RESERVED, Cluster
from planes.parameters import is_before
from planes.replacing import start
from processes.stack import Stack, eventually, eventually_is

from tollbar.model.objects import Object, metadata
from tollbar.model.resources import WORKLOAD_CLAIMS, Resource

REPLACING = is_before("1.36")
"""Whether reservations need `claims: Replace`."""
PINNED = ["deployments/web", "pods"]
"""`Shared.entries` while Deployment web has one Pod."""
FOR_WEB = {"tollbar.dev/reserved-for": "deployments.apps/web"}


def pod_template(name: str, claim: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "example.com/app", "resources": {"claims": [{"name": "device"}]}}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [container],
            "tolerations": [RESERVED],
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "device", "resourceClaimName": claim}],
            **spec,
        },
    }


def deployment(name: str, claim: str, *, strategy: str = "Recreate", replicas: int = 1) -> Object:
    spec = {
        "replicas": replicas,
        "strategy": {"type": strategy},
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, claim),
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def stateful_set(name: str, claim: str, *, replicas: int = 1) -> Object:
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, claim),
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def job(name: str, claim: str, *, completions: int = 1) -> Object:
    template = pod_template(name, claim, restartPolicy="Never")
    spec = {"completions": completions, "parallelism": completions, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def bare_pod(name: str, claim: str = "device") -> Object:
    template = pod_template(name, claim, restartPolicy="Never")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}


def for_web(**spec: Any) -> Object:
    """WorkloadClaim `device` of Deployment web, from template `one`."""
    return workload_claim("device", "deployments", "apps", "web", resourceClaimTemplateName="one", **spec)


def workload_claim(name: str, resource: str, group: str, workload: str, **spec: Any) -> Object:
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "WorkloadClaim",
        "metadata": {"name": name},
        "spec": {"workloadRef": {"apiGroup": group, "resource": resource, "name": workload}, **spec},
    }


@dataclass(frozen=True)
class Shared:
    """One claim `device` of a namespace, and who shares it."""

    cluster: Cluster
    name: str = "device"

    def apply(self, *objects: Object) -> None:
        """Into the namespace."""
        here = self.cluster.namespace
        placed = [{**obj, "metadata": {**obj["metadata"], "namespace": here}} for obj in objects]
        self.cluster.kubectl.apply(*placed)

    def run(self, *arguments: str) -> str:
        return self.cluster.kubectl(*arguments, "-n", self.cluster.namespace)

    def get(self, res: Resource, name: str) -> Object:
        return self.cluster.access.read(res, name, self.cluster.namespace)

    def claim(self) -> Object | None:
        return next((each for each in self.cluster.claims() if metadata(each)["name"] == self.name), None)

    def uid(self) -> str:
        return str((self.claim() or {})["metadata"]["uid"])

    def entries(self) -> list[str]:
        """`status.reservedFor` as resource/name, the Pods' as "pods"."""
        found = ((self.claim() or {}).get("status") or {}).get("reservedFor") or []
        return sorted("pods" if each["resource"] == "pods" else f"{each['resource']}/{each['name']}" for each in found)

    def device(self) -> str | None:
        """Name of the device that is allocated."""
        allocation = ((self.claim() or {}).get("status") or {}).get("allocation")
        return str(allocation["devices"]["results"][0]["device"]) if allocation else None

    def pods(self) -> list[Object]:
        return self.cluster.pods()

    def running(self, number: int = 1, *, without: str = "") -> list[str]:
        """Names of the Pods that run, less the one that is named; waits for so many of them."""
        return list(eventually(lambda: self._running(number, without), what=f"{number} running Pods"))

    def _running(self, number: int, without: str) -> list[str]:
        found = sorted(
            pod["metadata"]["name"]
            for pod in self.pods()
            if (pod.get("status") or {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["name"] != without
        )
        return found if len(found) >= number else []

    def condition(self, name: str = "device", type_: str = "Reserved") -> tuple[str, str]:
        """Status and reason of a condition of a WorkloadClaim."""
        for each in (self.get(WORKLOAD_CLAIMS, name).get("status") or {}).get("conditions") or ():
            if each["type"] == type_:
                return each["status"], each["reason"]
        return "", ""

    def reported(self, *wanted: str) -> None:
        """Wait until there are events on the claim for all of these reasons."""
        eventually(lambda: set(wanted) <= {reason for reason, _ in self.cluster.events(self.name)}, what=f"{wanted}")

    def patch_entries(self, *entries: Object) -> None:
        """A strategic merge patch of `status.reservedFor`."""
        body = json.dumps({"status": {"reservedFor": entries}})
        self.run("patch", f"resourceclaim/{self.name}", "--subresource=status", "--type=strategic", "-p", body)

    @contextmanager
    def tainted(self, device: str) -> Iterator[None]:
        """For a while a DeviceTaintRule taints this device NoExecute."""
        name = self.cluster.unique("broken")
        selected = {"driver": "gpu.example.com", "pool": "gpu-1", "device": device}
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        rule = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name},
            "spec": {"deviceSelector": selected, "taint": taint},
        }
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(rule))
        try:
            yield
        finally:
            self.cluster.kubectl("delete", "devicetaintrule", name)

    def until(self, what: Callable[[], Any], want: Any, *, seconds: float = 120.0) -> None:
        try:
            eventually_is(want, what, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; claim: {self.claim()}") from error


@contextmanager
def without_controllers(stack: Stack) -> Iterator[None]:
    """For a while nobody looks."""
    stack.running["controllers"].stop()
    try:
        yield
    finally:
        if REPLACING:
            start(stack)
        else:
            stack.controllers()
